// Bytes of a model into the engine, in the worker: each piece is pushed as it arrives, and
// nothing here holds more than one piece.

import type { Engine, Loader, LoaderOptions } from './engine.js';
import { TokenbrookError, describe, invalidOption } from './errors.js';
import { keepReport, readReports } from './gpu-reports.js';
import type { EngineSettings, WireFile } from './protocol.js';
import type { Progress } from './types.js';

/** One buffer of this size goes back and forth between the browser and the engine. */
const PIECE_BYTES = 1 << 20;

/** The engine takes no longer one: Gemma's, of 262,144 tokens, has 33 MB. */
const MAX_TOKENIZER_BYTES = 64 << 20;

/** Between two progress reports, ms; the last report of a phase is always made. */
const REPORT_EVERY_MS = 50;

/** How a loader is made. */
export interface LoaderClass {
  open(options: LoaderOptions, tokenizer?: Uint8Array): Promise<Loader>;
}

export interface LoadRequest {
  files: WireFile[];
  tokenizer?: WireFile | undefined;
  settings: EngineSettings;
  headers: [string, string][];
  /** Resolves once the engine can be used. */
  engine: Promise<LoaderClass>;
  /** Fetches the engine of the architectures that the first one does not have. */
  compat: () => Promise<LoaderClass>;
  report: (progress: Progress) => void;
}

/** An open file: its length where it is known, and its bytes. */
interface OpenFile {
  name: string;
  bytes: number | null;
  pieces: Pieces;
}

/**
 * Loads the files in order.
 *
 * Throws `model-not-found`, `download-failed`, and whatever the engine throws.
 */
export async function loadModel(request: LoadRequest): Promise<Engine> {
  const { files, settings, headers } = request;
  const [first] = files;
  if (first === undefined) throw new TokenbrookError('invalid-option', 'There is no file to load.');
  const [loaderClass, opened, restBytes, tokenizer] = await Promise.all([
    request.engine,
    openFile(first, headers),
    Promise.all(files.slice(1).map((file) => lengthOf(file, headers))),
    request.tokenizer === undefined
      ? undefined
      : readTokenizer(request.tokenizer, first, headers),
  ]);
  const fileBytes = [opened.bytes, ...restBytes];
  const options = loaderOptions(settings, fileBytes);
  const reports = settings.backend === 'cpu' ? [] : await readReports();
  if (reports.length > 0) options.gpuReports = reports;
  const meter = new Meter(total(fileBytes), request.report);
  const feed = new Feed({
    loader: await loaderClass.open(options, tokenizer),
    onCpu: (backendReason) =>
      loaderClass.open({ ...options, backend: 'cpu', backendReason }, tokenizer),
    compat: async () => (await request.compat()).open(options, tokenizer),
    isAuto: (settings.backend ?? 'auto') === 'auto',
    onPhase: (phase) => meter.phase(phase),
  });
  for (const [index, file] of files.entries()) {
    const current = index === 0 ? opened : await openFile(file, headers);
    await readAll(current, async (piece) => {
      await feed.push(piece);
      meter.add(piece.byteLength);
    });
    await feed.endFile();
  }
  meter.upload();
  const engine = await feed.finish();
  const { gpu } = engine.info();
  if (gpu !== null && !gpu.isKnown) await keepReport(gpu);
  return engine;
}

interface FeedOptions {
  loader: Loader;
  /** A loader for the CPU, and why. */
  onCpu: (reason: string) => Promise<Loader>;
  /** A loader of the other engine. */
  compat: () => Promise<Loader>;
  /** The backend is chosen when there is a header. */
  isAuto: boolean;
  onPhase: (phase: 'compile' | 'check') => void;
}

/**
 * Bytes to a loader, or, where it is found that another has to take this model, to that one, from
 * the first byte on: until that is known, what was pushed is kept. It is known with the header.
 */
class Feed {
  #loader: Loader;
  readonly #options: FeedOptions;
  #kept: Uint8Array[] | undefined = [];
  /** Kernels being found while bytes arrive. */
  #finding: Promise<string | undefined> | undefined;

  constructor(options: FeedOptions) {
    this.#loader = options.loader;
    this.#options = options;
  }

  async push(piece: Uint8Array): Promise<void> {
    // The piece's buffer is used again.
    this.#kept?.push(piece.slice());
    await this.#attempt(() => this.#loader.push(piece));
    if (this.#kept !== undefined && this.#loader.hasHeader) await this.#prepare();
  }

  async endFile(): Promise<void> {
    await this.#attempt(() => this.#loader.endFile(), () => this.#loader.endFile());
  }

  async finish(): Promise<Engine> {
    await this.#finding;
    return this.#loader.finish();
  }

  async #prepare(): Promise<void> {
    const finding = this.#loader.prepare(this.#options.onPhase);
    if (this.#options.isAuto) {
      const refusal = await finding;
      if (refusal !== undefined) await this.#switch(await this.#options.onCpu(refusal));
    } else {
      // `finish` hears of a failure; until then nobody waits.
      finding?.catch(() => undefined);
      this.#finding = finding;
    }
    this.#kept = undefined;
  }

  async #attempt(work: () => void, again: () => void = () => undefined): Promise<void> {
    try {
      work();
    } catch (error) {
      if (this.#kept === undefined || !wantsOther(error)) throw error;
      await this.#switch(await this.#options.compat());
      again();
    }
  }

  async #switch(loader: Loader): Promise<void> {
    const pieces = this.#kept ?? [];
    this.#kept = undefined;
    this.#loader.free();
    this.#loader = loader;
    for (const piece of pieces) loader.push(piece);
  }
}

/** Whether the engine refuses the model because the other one runs it. */
function wantsOther(error: unknown): boolean {
  return typeof error === 'object' && error !== null && 'compat' in error && error.compat === true;
}

function loaderOptions(settings: EngineSettings, fileBytes: (number | null)[]): LoaderOptions {
  const options: LoaderOptions = { fileBytes };
  if (settings.contextLength !== undefined) options.contextLength = settings.contextLength;
  if (settings.precision !== undefined) options.precision = settings.precision;
  if (settings.backend !== undefined) options.backend = settings.backend;
  if (settings.kvCache !== undefined) options.kvCache = settings.kvCache;
  if (settings.gpu !== undefined) options.gpu = settings.gpu;
  return options;
}

function total(fileBytes: (number | null)[]): number | null {
  return fileBytes.reduce<number | null>(
    (sum, bytes) => (sum === null || bytes === null ? null : sum + bytes),
    0,
  );
}

class Meter {
  readonly #totalBytes: number | null;
  readonly #report: (progress: Progress) => void;
  #receivedBytes = 0;
  #reportedAtMs = Number.NEGATIVE_INFINITY;

  constructor(totalBytes: number | null, report: (progress: Progress) => void) {
    this.#totalBytes = totalBytes;
    this.#report = report;
  }

  add(bytes: number): void {
    this.#receivedBytes += bytes;
    const now = performance.now();
    if (now - this.#reportedAtMs < REPORT_EVERY_MS) return;
    this.#reportedAtMs = now;
    this.#send('download');
  }

  phase(phase: 'compile' | 'check'): void {
    this.#send(phase);
  }

  upload(): void {
    this.#send('download');
    this.#send('upload');
  }

  #send(phase: Progress['phase']): void {
    this.#report({ phase, receivedBytes: this.#receivedBytes, totalBytes: this.#totalBytes });
  }
}

/** The bytes of a `tokenizer.json`. */
async function readTokenizer(
  file: WireFile,
  model: WireFile,
  headers: [string, string][],
): Promise<Uint8Array> {
  const opened = await openFile(file, sameOrigin(file, model) ? headers : [], 'tokenizer');
  const pieces: Uint8Array[] = [];
  let received = 0;
  await readAll(opened, (piece) => {
    received += piece.byteLength;
    if (received > MAX_TOKENIZER_BYTES) {
      throw invalidOption('tokenizer', `at most ${MAX_TOKENIZER_BYTES} bytes long`);
    }
    // The piece's buffer is used again.
    pieces.push(piece.slice());
  });
  const bytes = new Uint8Array(received);
  let offset = 0;
  for (const piece of pieces) {
    bytes.set(piece, offset);
    offset += piece.byteLength;
  }
  return bytes;
}

/** Whether secrets for one file may be told to the server of the other. */
function sameOrigin(file: WireFile, other: WireFile): boolean {
  if (typeof file !== 'string' || typeof other !== 'string') return false;
  return new URL(file).origin === new URL(other).origin;
}

async function openFile(
  file: WireFile,
  headers: [string, string][],
  what: 'model' | 'tokenizer' = 'model',
): Promise<OpenFile> {
  if (typeof file !== 'string') {
    return { name: 'the chosen file', bytes: file.size, pieces: blobPieces(file) };
  }
  const url = publicUrl(file);
  let response: Response;
  try {
    response = await fetch(file, { headers });
  } catch (cause) {
    throw new TokenbrookError(
      'download-failed',
      `${url} could not be fetched: check the address, the connection, and that the server ` +
        `allows this page's origin (CORS).`,
      { cause, url },
    );
  }
  if (!response.ok) throw statusError(url, response.status, what);
  if (response.body === null) {
    const { status } = response;
    throw new TokenbrookError('download-failed', `${url} answered without a body.`, {
      url,
      status,
    });
  }
  return { name: url, bytes: contentLength(response), pieces: bodyPieces(response.body) };
}

function statusError(url: string, status: number, what: string): TokenbrookError {
  if (status === 404 || status === 410) {
    const message = `There is no ${what} at ${url} (HTTP ${status}): check the address.`;
    const code = what === 'model' ? 'model-not-found' : 'download-failed';
    return new TokenbrookError(code, message, { url, status });
  }
  const hint = status === 401 || status === 403 ? ': pass what it asks for in `headers`' : '';
  const message = `${url} answered HTTP ${status}${hint}.`;
  return new TokenbrookError('download-failed', message, { url, status });
}

/** The length of a file that is read later; `null` where the server does not say. */
async function lengthOf(file: WireFile, headers: [string, string][]): Promise<number | null> {
  if (typeof file !== 'string') return file.size;
  try {
    const response = await fetch(file, { method: 'HEAD', headers });
    return response.ok ? contentLength(response) : null;
  } catch {
    // Some servers refuse HEAD for files that they serve; the GET that follows decides.
    return null;
  }
}

/** Bytes of the body; `null` when unknown or when the length is that of a compressed form. */
function contentLength(response: Response): number | null {
  const encoding = response.headers.get('content-encoding');
  const length = response.headers.get('content-length');
  if (length === null || (encoding !== null && encoding !== 'identity')) return null;
  const bytes = Number(length);
  return Number.isSafeInteger(bytes) && bytes >= 0 ? bytes : null;
}

async function readAll(file: OpenFile, push: Push): Promise<void> {
  let received = 0;
  const counted = (piece: Uint8Array): void | Promise<void> => {
    received += piece.byteLength;
    return push(piece);
  };
  await pump(file, counted, () => received);
  if (file.bytes !== null && received < file.bytes) throw cutShort(file, received);
}

type Push = (piece: Uint8Array) => void | Promise<void>;

async function pump(
  file: OpenFile,
  push: Push,
  received: () => number,
): Promise<void> {
  const { pieces } = file;
  try {
    for (;;) {
      const piece = await pieces.read().catch((cause: unknown) => {
        throw cutShort(file, received(), cause);
      });
      if (piece === undefined) return;
      // What the piece is in is used again by the next read.
      await push(piece);
    }
  } catch (error) {
    // Ends the transfer; the error that stopped it is the one to tell.
    pieces.cancel().catch(() => undefined);
    throw error;
  }
}

interface Pieces {
  read(): Promise<Uint8Array | undefined>;
  cancel(): Promise<void>;
}

/** Reads into one reused buffer where the body is a byte stream, else takes its chunks. */
function bodyPieces(body: ReadableStream<Uint8Array<ArrayBuffer>>): Pieces {
  let reader: ReadableStreamBYOBReader;
  try {
    reader = body.getReader({ mode: 'byob' });
  } catch {
    const plain = body.getReader();
    return {
      read: async () => (await plain.read()).value,
      cancel: () => plain.cancel(),
    };
  }
  let buffer = new ArrayBuffer(PIECE_BYTES);
  return {
    read: async () => {
      const { done, value } = await reader.read(new Uint8Array(buffer));
      if (done || value === undefined) return undefined;
      buffer = value.buffer;
      return value;
    },
    cancel: () => reader.cancel(),
  };
}

/** Slices, one read each: they end and fail one by one, where a stream may stall as a whole. */
function blobPieces(blob: Blob): Pieces {
  let offset = 0;
  return {
    read: async () => {
      if (offset >= blob.size) return undefined;
      const slice = blob.slice(offset, offset + PIECE_BYTES);
      offset += slice.size;
      return new Uint8Array(await slice.arrayBuffer());
    },
    cancel: async () => {
      offset = blob.size;
    },
  };
}

function cutShort(file: OpenFile, received: number, cause?: unknown): TokenbrookError {
  const expected = file.bytes === null ? '' : ` of ${file.bytes}`;
  const reason = cause === undefined ? '' : ` (${describe(cause).message})`;
  const message = `${file.name} ended after ${received}${expected} bytes${reason}: load it again.`;
  const url = file.name.includes(':') ? file.name : undefined;
  return new TokenbrookError('download-failed', message, { cause, url });
}

/** An address as it may be shown: without credentials, query and fragment. */
export function publicUrl(address: string): string {
  const url = new URL(address);
  if (!url.protocol.startsWith('http')) return url.protocol;
  return `${url.protocol}//${url.host}${url.pathname}`;
}
