// The wasm module `engine-threads.js`, written by wasm-bindgen beside it: `engine.js` for the
// processor alone, on several threads of a page that is isolated. It exports the same and more.

export { Engine, Exchange, Loader } from './engine.js';

/** A member of the crew, on a worker of its own. */
export class Helper {
  private constructor();
  static enlist(): Helper | undefined;
  /** Blocks until this worker is not needed any more. */
  help(): void;
}

export function abandonWork(): void;
export function settleThreads(threads?: number): number;
export function sharedMemory(): WebAssembly.Memory;

export default function init(options: {
  module_or_path: Response | WebAssembly.Module;
  memory?: WebAssembly.Memory;
}): Promise<unknown>;
