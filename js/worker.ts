// Entry of the module worker: one worker, one model.

import { hasRelaxedSimd } from './features.js';
import { toWire } from './errors.js';
import { serve } from './serve.js';
import { requestSubgroups } from './subgroups.js';
import type { Port } from './serve.js';

const scope = globalThis as unknown as Port & {
  location: { search: string };
  addEventListener(type: string, listener: (event: PromiseRejectionEvent) => void): void;
};

// An uncaught error reaches the page as the worker's `error` event; a rejection does not.
scope.addEventListener('unhandledrejection', (event) => {
  scope.postMessage({ type: 'crashed', error: toWire(event.reason) });
});

requestSubgroups(scope);
// `?wasm=simd128` behind the address of a worker holds it to the engine that runs everywhere.
const wanted = new URLSearchParams(scope.location.search).get('wasm');
serve(scope, {
  engine: () => import('./engine.js'),
  relaxed:
    wanted !== 'simd128' && hasRelaxedSimd() ? () => import('./engine-relaxed.js') : undefined,
  compat: () => import('./compat.js'),
});
