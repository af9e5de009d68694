// Entry of the module worker: one worker, one model.

import * as engine from './engine.js';
import { toWire } from './errors.js';
import { serve } from './serve.js';
import { requestSubgroups } from './subgroups.js';
import type { Port } from './serve.js';

const scope = globalThis as unknown as Port & {
  addEventListener(type: string, listener: (event: PromiseRejectionEvent) => void): void;
};

// An uncaught error reaches the page as the worker's `error` event; a rejection does not.
scope.addEventListener('unhandledrejection', (event) => {
  scope.postMessage({ type: 'crashed', error: toWire(event.reason) });
});

requestSubgroups(scope);
serve(scope, engine, () => import('./compat.js'));
