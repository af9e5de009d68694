// Entry of the module worker: one worker, one model.

import { hasRelaxedSimd, whyNoThreads } from './features.js';
import { toWire } from './errors.js';
import { serve } from './serve.js';
import { requestSubgroups } from './subgroups.js';
import type { Port } from './serve.js';
import { tuningOf } from './store/tuning.js';

const scope = globalThis as unknown as Port & {
  location: { search: string };
  addEventListener(type: string, listener: (event: PromiseRejectionEvent) => void): void;
};

// An uncaught error reaches the page as the worker's `error` event; a rejection does not.
scope.addEventListener('unhandledrejection', (event) => {
  scope.postMessage({ type: 'crashed', error: toWire(event.reason) });
});

requestSubgroups(scope);
// `?wasm=simd128` behind the address of a worker holds it to the engine that runs everywhere,
// `?wasm=relaxed-simd` to the one of one thread, and
// `?stallMs=1000` and the like say how patient its downloads are.
const query = new URLSearchParams(scope.location.search);
const wanted = query.get('wasm');
const whyOneThread = (): string | undefined =>
  wanted === null ? whyNoThreads() : 'the address of the worker asks for one';
serve(scope, {
  engine: () => import('./engine.js'),
  relaxed:
    wanted !== 'simd128' && hasRelaxedSimd() ? () => import('./engine-relaxed.js') : undefined,
  threads: whyOneThread() ?? (() => import('./engine-threads.js')),
  compat: () => import('./compat.js'),
  tuning: tuningOf(query),
});
