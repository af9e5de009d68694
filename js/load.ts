// From a source to a model: checks, starts the worker, and waits for it.

import { TokenbrookError, fromWire } from './errors.js';
import { hasSimd } from './features.js';
import { WorkerModel, crashed } from './model.js';
import { checkLoadOptions, checkSource, checkTokenizer } from './options.js';
import type { CheckedLoad } from './options.js';
import type { FromWorker, LoadMessage } from './protocol.js';
import type { LoadOptions, Model, Source } from './types.js';

/**
 * Loads a GGUF model into a worker of its own.
 *
 * Rejects with the reason of `signal` when aborted, else with a [TokenbrookError]:
 * `invalid-option`, `unsupported-environment`, `model-not-found`, `download-failed`,
 * `invalid-gguf`, `unsupported-architecture`, `unsupported-quantization`, `out-of-memory`,
 * `internal`.
 */
export async function load(source: Source, options: LoadOptions = {}): Promise<Model> {
  const checked = checkLoadOptions(options);
  const base = globalThis.document?.baseURI ?? globalThis.location?.href;
  const files = checkSource(source, base);
  const tokenizer = checkTokenizer(options.tokenizer, base);
  checked.signal?.throwIfAborted();
  checkEnvironment();
  const wasmUrl =
    checked.wasmUrl === undefined
      ? new URL('./engine_bg.wasm', import.meta.url)
      : new URL(checked.wasmUrl, base);
  const relaxedWasmUrl =
    checked.wasmUrl === undefined
      ? new URL('./engine-relaxed_bg.wasm', import.meta.url)
      : // A file of another name stands for itself.
        wasmUrl.pathname.endsWith('/engine_bg.wasm')
        ? new URL('engine-relaxed_bg.wasm', wasmUrl)
        : undefined;
  const compatWasmUrl =
    // Nothing lies beside a `data:` or `blob:` address.
    checked.wasmUrl !== undefined && wasmUrl.protocol.startsWith('http')
      ? new URL('compat_bg.wasm', wasmUrl)
      : new URL('./compat_bg.wasm', import.meta.url);
  const wasm = {
    wasmUrl: wasmUrl.href,
    relaxedWasmUrl: relaxedWasmUrl?.href,
    compatWasmUrl: compatWasmUrl.href,
  };
  return whenLoaded(startWorker(checked.workerUrl), checked, { files, tokenizer, ...wasm });
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

function whenLoaded(
  worker: Worker,
  checked: CheckedLoad,
  what: Pick<LoadMessage, 'files' | 'tokenizer' | 'wasmUrl' | 'relaxedWasmUrl' | 'compatWasmUrl'>,
): Promise<Model> {
  const { settings, headers, signal, onProgress } = checked;
  return new Promise<Model>((resolve, reject) => {
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
      if (data.type === 'progress') {
        onProgress?.(data.progress);
      } else if (data.type === 'loaded') {
        signal?.removeEventListener('abort', abort);
        resolve(new WorkerModel(worker, data.info));
      } else if (data.type === 'load-failed') {
        fail(fromWire(data.error));
      } else if (data.type === 'crashed') {
        fail(crashed(data.error.message));
      }
    };
    const message: LoadMessage = {
      type: 'load',
      ...what,
      settings,
      headers,
      pageTimeOrigin: performance.timeOrigin,
    };
    worker.postMessage(message);
  });
}
