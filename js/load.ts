// From a source to a model: checks, starts the worker, and waits for it.

import { TokenbrookError, describe, fromWire } from './errors.js';
import { hasSimd } from './features.js';
import { WorkerModel, crashed } from './model.js';
import { checkLoadOptions, checkSha256, checkSource, checkTokenizer } from './options.js';
import type { CheckedLoad, GivenFile } from './options.js';
import type { FromWorker, LoadMessage, PlanMessage, WireFile } from './protocol.js';
import type { LoadOptions, LoadPlan, Model, Source } from './types.js';

/**
 * Loads a GGUF model into a worker of its own.
 *
 * Rejects with the reason of `signal` when aborted, else with a [TokenbrookError]:
 * `invalid-option`, `unsupported-environment`, `model-not-found`, `download-failed`,
 * `integrity-mismatch`, `storage-full`, `invalid-gguf`, `unsupported-architecture`,
 * `unsupported-quantization`, `out-of-memory`, `internal`.
 */
export async function load(source: Source, options: LoadOptions = {}): Promise<Model> {
  return begin(source, options, 'load', (worker, data) =>
    data.type === 'loaded' ? new WorkerModel(worker, data.info) : undefined,
  );
}

/**
 * Tells what a model will cost, from its header alone: what is to be fetched, memory, whether it
 * fits, and how fast it would be. Rejects as [load] does.
 */
export async function plan(source: Source, options: LoadOptions = {}): Promise<LoadPlan> {
  return begin(source, options, 'plan', (worker, data) => {
    if (data.type !== 'planned') return undefined;
    worker.terminate();
    return data.plan;
  });
}

/** What a worker's message means for its caller; `undefined` where it is not the answer. */
type Take<T> = (worker: Worker, data: FromWorker) => T | undefined;

async function begin<T>(
  source: Source,
  options: LoadOptions,
  type: 'load' | 'plan',
  take: Take<T>,
): Promise<T> {
  const checked = checkLoadOptions(options);
  const base = globalThis.document?.baseURI ?? globalThis.location?.href;
  const files = checkSource(source, base);
  const sha256 = checkSha256(options.sha256, files.length);
  const tokenizer = checkTokenizer(options.tokenizer, base);
  checked.signal?.throwIfAborted();
  checkEnvironment();
  const wasmUrl =
    checked.wasmUrl === undefined
      ? new URL('./engine_bg.wasm', import.meta.url)
      : new URL(checked.wasmUrl, base);
  // A file of another name stands for itself.
  const beside = (name: string): URL | undefined =>
    wasmUrl.pathname.endsWith('/engine_bg.wasm') ? new URL(name, wasmUrl) : undefined;
  const relaxedWasmUrl =
    checked.wasmUrl === undefined
      ? new URL('./engine-relaxed_bg.wasm', import.meta.url)
      : beside('engine-relaxed_bg.wasm');
  const threadsWasmUrl =
    checked.wasmUrl === undefined
      ? new URL('./engine-threads_bg.wasm', import.meta.url)
      : beside('engine-threads_bg.wasm');
  const compatWasmUrl =
    // Nothing lies beside a `data:` or `blob:` address.
    checked.wasmUrl !== undefined && wasmUrl.protocol.startsWith('http')
      ? new URL('compat_bg.wasm', wasmUrl)
      : new URL('./compat_bg.wasm', import.meta.url);
  const wasm = {
    wasmUrl: wasmUrl.href,
    relaxedWasmUrl: relaxedWasmUrl?.href,
    threadsWasmUrl: threadsWasmUrl?.href,
    compatWasmUrl: compatWasmUrl.href,
  };
  const given = [...files, ...(tokenizer === undefined ? [] : [tokenizer])];
  const opened = given.some((file) => typeof file !== 'string' && 'getFile' in file)
    ? await Promise.all(given.map(openHandle))
    : (given as WireFile[]);
  const what = { files: opened.slice(0, files.length), tokenizer: opened[files.length], sha256 };
  return whenTaken(startWorker(checked.workerUrl), checked, { type, ...what, ...wasm }, take);
}

/** The file of a handle, whose permission this thread has. */
async function openHandle(file: GivenFile): Promise<WireFile> {
  if (typeof file === 'string' || !('getFile' in file)) return file;
  try {
    return await file.getFile();
  } catch (cause) {
    const message = `The file ${file.name} cannot be read: ${describe(cause).message}`;
    throw new TokenbrookError('download-failed', message, { cause });
  }
}

function checkEnvironment(): void {
  const missing =
    typeof Worker === 'undefined'
      ? 'workers'
      : typeof WebAssembly === 'undefined'
        ? 'WebAssembly'
        : hasSimd()
          ? undefined
          : 'WebAssembly SIMD';
  if (missing === undefined) return;
  throw new TokenbrookError(
    'unsupported-environment',
    `There is no support for ${missing} here: use a current browser.`,
  );
}

function startWorker(url: string | URL | undefined): Worker {
  try {
    // The second form must stand as it is: bundlers look for it.
    if (url !== undefined) return new Worker(url, { type: 'module' });
    return new Worker(new URL('./worker.js', import.meta.url), { type: 'module' });
  } catch (cause) {
    throw new TokenbrookError(
      'unsupported-environment',
      'The worker could not start: serve it from the origin of the page, or set `workerUrl`.',
      { cause },
    );
  }
}

type Asked = Pick<
  LoadMessage,
  'files' | 'tokenizer' | 'sha256' | 'wasmUrl' | 'relaxedWasmUrl' | 'threadsWasmUrl' | 'compatWasmUrl'
> & { type: 'load' | 'plan' };

function whenTaken<T>(
  worker: Worker,
  checked: CheckedLoad,
  what: Asked,
  take: Take<T>,
): Promise<T> {
  const { settings, headers, cache, signal, onProgress } = checked;
  return new Promise<T>((resolve, reject) => {
    const abort = (): void => fail(signal?.reason);
    const fail = (error: unknown): void => {
      signal?.removeEventListener('abort', abort);
      worker.terminate();
      reject(error);
    };
    signal?.addEventListener('abort', abort, { once: true });
    worker.onerror = (event) => {
      event.preventDefault();
      // A script that could not be fetched or parsed gives an event without a message.
      fail(crashed(event.message || 'its worker did not start; check `workerUrl`'));
    };
    worker.onmessageerror = () => fail(crashed('a message from the worker could not be read'));
    worker.onmessage = ({ data }: MessageEvent<FromWorker>) => {
      const taken = take(worker, data);
      if (taken !== undefined) {
        signal?.removeEventListener('abort', abort);
        resolve(taken);
      } else if (data.type === 'progress') {
        onProgress?.(data.progress);
      } else if (data.type === 'load-failed') {
        fail(fromWire(data.error));
      } else if (data.type === 'crashed') {
        fail(crashed(data.error.message));
      }
    };
    const message: LoadMessage | PlanMessage = {
      ...what,
      settings,
      headers,
      cache,
      pageTimeOrigin: performance.timeOrigin,
    };
    worker.postMessage(message);
  });
}
