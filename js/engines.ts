// Which of the package's engines loads a model, and how they are started.

import { publicUrl } from './address.js';
import { startHelpers, threadsFor } from './crew.js';
import { TokenbrookError, describe } from './errors.js';
import type { LoaderClass } from './loader.js';
import type { LoadMessage, PlanMessage } from './protocol.js';

/** The exports of `engine.js`. */
export interface EngineModule {
  default: (options: { module_or_path: Response }) => Promise<unknown>;
  Loader: LoaderClass;
}

/** The exports of `engine-threads.js`. */
export interface ThreadsModule {
  default: (options: { module_or_path: WebAssembly.Module }) => Promise<unknown>;
  Loader: LoaderClass;
  settleThreads: (threads?: number) => number;
  sharedMemory: () => WebAssembly.Memory;
}

/** The engines of the package; each is asked for when it is needed. */
export interface EngineModules {
  engine: () => Promise<EngineModule>;
  /** The same engine for this browser's better instructions; `undefined` where it has none. */
  relaxed?: (() => Promise<EngineModule>) | undefined;
  /** The same for the processor alone, on several threads; else why there can be none. */
  threads?: (() => Promise<ThreadsModule>) | string | undefined;
  compat: () => Promise<EngineModule>;
}

const GPU_COMPUTES = 'the GPU computes';

/** The engines of one model. */
export class Engines {
  readonly #data: LoadMessage | PlanMessage;
  readonly #modules: EngineModules;
  #single: Promise<LoaderClass> | undefined;
  #onCpu: Promise<LoaderClass> | undefined;
  #compat: Promise<LoaderClass> | undefined;
  /** Lets the threads go, if there are any. */
  #endThreads: () => void = () => undefined;
  /** Why there are as many threads as there are. */
  threadsReason: string = GPU_COMPUTES;
  /** Why `auto` takes the CPU, where that is known without an engine. */
  cpuReason: string | undefined;

  constructor(data: LoadMessage | PlanMessage, modules: EngineModules) {
    this.#data = data;
    this.#modules = modules;
  }

  /** The engine to begin with: where a GPU may compute, the one that has both. */
  first(): Promise<LoaderClass> {
    const { backend = 'auto', threads } = this.#data.settings;
    const mayShare = typeof this.#modules.threads === 'function' && threads !== 1;
    // Saves fetching an engine only to hear that.
    if (mayShare && backend === 'auto' && !('gpu' in (globalThis.navigator ?? {}))) {
      this.cpuReason = 'there is no WebGPU in this browser';
    }
    return backend === 'cpu' || this.cpuReason !== undefined ? this.onCpu() : this.#alone();
  }

  /** The engine for a model that the CPU runs. */
  onCpu(): Promise<LoaderClass> {
    return (this.#onCpu ??= this.#forCpu());
  }

  /** The engine of the architectures that the first one does not have. */
  compat(): Promise<LoaderClass> {
    return (this.#compat ??= instantiate(this.#data.compatWasmUrl, this.#modules.compat).then(
      ({ Loader }) => {
        this.threadsReason = 'candle-transformers runs this architecture, on one';
        return Loader;
      },
    ));
  }

  /** The engine that runs everywhere, for types whose kernels do not compute right here. */
  async plain(differing: string[]): Promise<LoaderClass> {
    this.#endThreads();
    this.threadsReason = `kernels of ${differing.join(', ')} differ in this browser`;
    return (await instantiate(this.#data.wasmUrl, this.#modules.engine)).Loader;
  }

  async #forCpu(): Promise<LoaderClass> {
    const { settings, threadsWasmUrl } = this.#data;
    const { threads = 'this package has no engine for more' } = this.#modules;
    const count = threadsFor(settings.threads, globalThis.navigator?.hardwareConcurrency ?? 1);
    if (settings.threads === 1) this.threadsReason = 'asked for';
    else if (typeof threads === 'string') this.threadsReason = threads;
    else if (count < 2) this.threadsReason = 'the browser tells of one processor';
    else if (threadsWasmUrl === undefined) {
      this.threadsReason = 'an engine for more is not beside `wasmUrl`';
    } else {
      try {
        return await this.#onThreads(threads, threadsWasmUrl, count);
      } catch (error) {
        // Those without threads tell what is wrong, if they cannot be had either.
        this.threadsReason = `more could not be started: ${describe(error).message}`;
      }
    }
    return this.#alone();
  }

  async #onThreads(
    threads: () => Promise<ThreadsModule>,
    url: string,
    count: number,
  ): Promise<LoaderClass> {
    const script = threads();
    script.catch(() => undefined);
    const response = await fetchEngine(url);
    const module = await WebAssembly.compileStreaming(response);
    const engine = await script;
    await engine.default({ module_or_path: module });
    await startHelpers(count - 1, { module, memory: engine.sharedMemory() });
    this.#endThreads = () => void engine.settleThreads(1);
    const asked = this.#data.settings.threads;
    engine.settleThreads(typeof asked === 'number' ? asked : undefined);
    this.threadsReason =
      typeof asked === 'number' ? 'asked for' : `measured: the fastest of up to ${count}`;
    return engine.Loader;
  }

  /** The better engine for one thread where there is one: a site may have left it out. */
  #alone(): Promise<LoaderClass> {
    return (this.#single ??= single(this.#data, this.#modules));
  }
}

async function single(
  data: LoadMessage | PlanMessage,
  { relaxed, engine }: EngineModules,
): Promise<LoaderClass> {
  if (relaxed !== undefined && data.relaxedWasmUrl !== undefined) {
    try {
      return (await instantiate(data.relaxedWasmUrl, relaxed)).Loader;
    } catch {
      // The one that runs everywhere tells what is wrong, if that is not here either.
    }
  }
  return (await instantiate(data.wasmUrl, engine)).Loader;
}

async function instantiate(
  wasmUrl: string,
  module: () => Promise<EngineModule>,
): Promise<EngineModule> {
  // Both are on their way at once.
  const script = module();
  script.catch(() => undefined);
  const response = await fetchEngine(wasmUrl);
  let engineModule: EngineModule;
  try {
    engineModule = await script;
    await engineModule.default({ module_or_path: response });
  } catch (cause) {
    const url = publicUrl(wasmUrl);
    // Often a page that a server gives for unknown addresses.
    const message = `${url} is not an engine that this browser runs: check \`wasmUrl\`.`;
    throw new TokenbrookError('download-failed', message, { cause, url });
  }
  return engineModule;
}

async function fetchEngine(wasmUrl: string): Promise<Response> {
  const url = publicUrl(wasmUrl);
  let response: Response;
  try {
    response = await fetch(wasmUrl);
  } catch (cause) {
    throw new TokenbrookError('download-failed', `The engine ${url} could not be fetched.`, {
      cause,
      url,
    });
  }
  if (!response.ok) {
    const { status } = response;
    const message = `The engine ${url} answered HTTP ${status}: set \`wasmUrl\` to where it is.`;
    throw new TokenbrookError('download-failed', message, { url, status });
  }
  return response;
}
