// Entry of a worker that helps the engine: one more thread of its memory.

import init, { Helper, abandonWork } from './engine-threads.js';
import { describe } from './errors.js';

/** What the engine's worker sends, once. */
export interface HelperStart {
  module: WebAssembly.Module;
  memory: WebAssembly.Memory;
}

/** What it hears: that there is one thread more, or why not. */
export type HelperReply = { type: 'enlisted' } | { type: 'failed'; message: string };

interface Scope {
  postMessage(message: HelperReply): void;
  addEventListener(type: 'message', listener: (event: { data: HelperStart }) => void): void;
  close(): void;
}

const scope = globalThis as unknown as Scope;

scope.addEventListener('message', ({ data: { module, memory } }) => {
  start(module, memory).catch((error: unknown) => {
    scope.postMessage({ type: 'failed', message: describe(error).message });
    scope.close();
  });
});

async function start(module: WebAssembly.Module, memory: WebAssembly.Memory): Promise<void> {
  await init({ module_or_path: module, memory });
  const helper = Helper.enlist();
  if (helper === undefined) throw new Error('there are too many threads');
  scope.postMessage({ type: 'enlisted' });
  try {
    helper.help();
  } catch (error) {
    // Nobody may wait for this thread any more; the next step of the model fails.
    abandonWork();
    throw error;
  }
  scope.close();
}
