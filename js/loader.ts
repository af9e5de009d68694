// Bytes of a model into the engine, in the worker: each piece is pushed as it arrives, and
// nothing here holds more than one piece.

import type { Engine, Loader, LoaderOptions } from './engine.js';
import { invalidOption } from './errors.js';
import { Feed } from './feed.js';
import { Files, noFile } from './files.js';
import { keepReport, readReports } from './gpu-reports.js';
import { Meter } from './meter.js';
import { openPlain, readAll } from './plain-file.js';
import type { EngineSettings, WireFile } from './protocol.js';
import { Restart } from './store/restart.js';
import type { Store } from './store/store.js';
import type { Progress } from './types.js';

/** The engine takes no longer one: Gemma's, of 262,144 tokens, has 33 MB. */
const MAX_TOKENIZER_BYTES = 64 << 20;

/** A file that changes, or is not what it should be, is begun anew so often. */
const MAX_RESTARTS = 1;

/** How a loader is made. */
export interface LoaderClass {
  open(options: LoaderOptions, tokenizer?: Uint8Array): Promise<Loader>;
}

/** Where engines come from; each resolves once it can be used. */
export interface EngineSource {
  first(): Promise<LoaderClass>;
  /** Of a model that the CPU runs, though a GPU might have. */
  onCpu(): Promise<LoaderClass>;
  /** Of the architectures that the first one does not have. */
  compat(): Promise<LoaderClass>;
  /** The one that runs everywhere, since kernels of these types do not compute right here. */
  plain(differing: string[]): Promise<LoaderClass>;
  /** Why `auto` takes the CPU, where that is known without an engine. */
  readonly cpuReason: string | undefined;
}

export interface LoadRequest {
  files: WireFile[];
  tokenizer?: WireFile | undefined;
  settings: EngineSettings;
  headers: [string, string][];
  sha256: (string | undefined)[];
  store: Store | undefined;
  engines: EngineSource;
  report: (progress: Progress) => void;
}

/**
 * Loads the files in order.
 *
 * Throws `model-not-found`, `download-failed`, `integrity-mismatch`, `storage-full`, and whatever
 * the engine throws.
 */
export async function loadModel(request: LoadRequest): Promise<Engine> {
  for (let restarts = 0; ; restarts += 1) {
    const meter = new Meter(request.files.map(() => null), request.report);
    const files = new Files(request, meter);
    try {
      const engine = await loadFiles(request, files, meter);
      await files.close();
      return engine;
    } catch (error) {
      await files.close(error);
      if (!(error instanceof Restart)) throw error;
      if (restarts === MAX_RESTARTS) throw error.failure;
    }
  }
}

async function loadFiles(request: LoadRequest, files: Files, meter: Meter): Promise<Engine> {
  const { engines, settings } = request;
  const [first] = request.files;
  if (first === undefined) throw noFile();
  const [loaderClass, opened, restBytes, tokenizer] = await Promise.all([
    engines.first(),
    files.open(0, meter),
    files.lengths(),
    request.tokenizer === undefined
      ? undefined
      : readTokenizer(request.tokenizer, files.headersFor(request.tokenizer)),
  ]);
  const fileBytes = [opened.bytes, ...restBytes];
  fileBytes.forEach((bytes, index) => meter.know(index, bytes));
  const options = loaderOptions(settings, fileBytes);
  let cpuOptions = options;
  const onCpu = async (backendReason: string): Promise<Loader> => {
    cpuOptions = { ...options, backend: 'cpu', backendReason };
    return (await engines.onCpu()).open(cpuOptions, tokenizer);
  };
  const reports = settings.backend === 'cpu' ? [] : await readReports();
  if (reports.length > 0) options.gpuReports = reports;
  const isAuto = (settings.backend ?? 'auto') === 'auto';
  const openFirst = async (): Promise<Loader> => {
    if (engines.cpuReason !== undefined) return onCpu(engines.cpuReason);
    const loader = await loaderClass.open(options, tokenizer);
    const reason = isAuto ? loader.cpuReason?.() : undefined;
    if (reason === undefined || (await engines.onCpu()) === loaderClass) return loader;
    // There is an engine for the CPU alone.
    loader.free();
    return onCpu(reason);
  };
  const feed = new Feed({
    loader: await openFirst(),
    onCpu,
    compat: async () => (await engines.compat()).open(options, tokenizer),
    plain: async (differing) => (await engines.plain(differing)).open(cpuOptions, tokenizer),
    isAuto,
    onPhase: (phase) => meter.phase(phase),
  });
  try {
    for (let index = 0; index < files.count; index += 1) {
      const current = index === 0 ? opened : await files.open(index, meter);
      const isCounted = await files.isCounted(index);
      await readAll(current, async (piece) => {
        await feed.push(piece);
        if (isCounted) meter.add(index, piece.byteLength);
      });
      await feed.endFile();
    }
    meter.upload();
    const engine = await feed.finish();
    try {
      await files.verified();
    } catch (error) {
      engine.free();
      throw error;
    }
    const { gpu } = engine.info();
    if (gpu !== null && !gpu.isKnown) await keepReport(gpu);
    return engine;
  } catch (error) {
    if (error instanceof Restart) feed.free();
    throw error;
  }
}

/** Settings as the engine takes them. */
export function loaderOptions(
  settings: EngineSettings,
  fileBytes: (number | null)[],
): LoaderOptions {
  const options: LoaderOptions = { fileBytes };
  if (settings.contextLength !== undefined) options.contextLength = settings.contextLength;
  if (settings.precision !== undefined) options.precision = settings.precision;
  if (settings.backend !== undefined) options.backend = settings.backend;
  if (settings.kvCache !== undefined) options.kvCache = settings.kvCache;
  if (settings.gpu !== undefined) options.gpu = settings.gpu;
  return options;
}

/** The bytes of a `tokenizer.json`. */
async function readTokenizer(file: WireFile, headers: [string, string][]): Promise<Uint8Array> {
  const opened = await openPlain(file, headers, 'tokenizer');
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
