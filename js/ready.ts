// Starts the small wasm module, once for all entries over it, when somebody first asks.
//
// The module is imported statically, because service workers have no dynamic import. Nothing is
// fetched by an import alone.

import * as streaming from './streaming.js';
import { TokenbrookError } from './errors.js';

/** A variable, so that bundlers for browsers do not look for it. */
const FILE_SYSTEM = 'node:fs/promises';

let started: Promise<void> | undefined;
let running = false;

/** A promise that starts what it waits for when it is first waited for. */
class Lazy extends Promise<void> {
  static override get [Symbol.species](): PromiseConstructor {
    return Promise;
  }

  override then<A = void, B = never>(
    fulfilled?: ((value: void) => A | PromiseLike<A>) | null,
    rejected?: ((reason: unknown) => B | PromiseLike<B>) | null,
  ): Promise<A | B> {
    return start().then(fulfilled, rejected);
  }
}

/**
 * Fulfils once the module runs; streams wait for it by themselves, all else needs it first.
 * Loading begins with the first `await` or `then`. Rejects with `download-failed` or
 * `unsupported-environment`; the next `await` tries again.
 */
export const ready: Promise<void> = new Lazy(() => undefined);

/** The module's exports, for what cannot wait. */
export function module(): typeof streaming {
  if (!running) {
    throw new TokenbrookError(
      'unsupported-environment',
      'The streaming module is not running yet: `await ready` first.',
    );
  }
  return streaming;
}

/** The module's exports, once it runs. */
export async function whenReady(): Promise<typeof streaming> {
  await ready;
  return streaming;
}

function start(): Promise<void> {
  started ??= instantiate().then(
    () => {
      running = true;
    },
    (error: unknown) => {
      started = undefined;
      throw error;
    },
  );
  return started;
}

async function instantiate(): Promise<void> {
  if (typeof WebAssembly === 'undefined') {
    throw new TokenbrookError(
      'unsupported-environment',
      'There is no WebAssembly here: use a current browser, Node, Deno or Bun.',
    );
  }
  const url = new URL('./streaming_bg.wasm', import.meta.url);
  const source = await read(url);
  try {
    await streaming.default({ module_or_path: source });
  } catch (cause) {
    const message = `${url.href} is not a module that runs here: serve the file as it is.`;
    throw new TokenbrookError('download-failed', message, { cause, url: url.href });
  }
}

async function read(url: URL): Promise<Response | Uint8Array<ArrayBuffer>> {
  let response: Response;
  try {
    if (url.protocol === 'file:') return await readFile(url);
    response = await fetch(url);
  } catch (cause) {
    const message = `The streaming module ${url.href} could not be read.`;
    throw new TokenbrookError('download-failed', message, { cause, url: url.href });
  }
  if (response.ok) return response;
  const { status } = response;
  const message = `The streaming module ${url.href} answered HTTP ${status}.`;
  throw new TokenbrookError('download-failed', message, { url: url.href, status });
}

/** Node, Deno and Bun; `fetch` takes no file in Node. */
async function readFile(url: URL): Promise<Uint8Array<ArrayBuffer>> {
  const fs = (await import(/* @vite-ignore */ /* webpackIgnore: true */ FILE_SYSTEM)) as {
    readFile(file: URL): Promise<Uint8Array<ArrayBuffer>>;
  };
  return fs.readFile(url);
}
