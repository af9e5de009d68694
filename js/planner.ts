// What a model will cost, from its header alone, in the worker.

import type { Loader, LoaderOptions, Sketch } from './engine.js';
import { keepReport, readReports } from './gpu-reports.js';
import type { EngineSettings, WireFile } from './protocol.js';
import { loaderOptions } from './loader.js';
import type { EngineSource } from './loader.js';
import { TokenbrookError } from './errors.js';
import { lengthOf } from './plain-file.js';
import { openRoot } from './store/folder.js';
import { readHeader } from './store/header.js';
import type { HeaderSource } from './store/header.js';
import { room } from './store/room.js';
import type { LoadPlan } from './types.js';

export interface PlanRequest {
  files: WireFile[];
  settings: EngineSettings;
  headers: [string, string][];
  cache: 'opfs' | 'none';
  engines: Pick<EngineSource, 'first' | 'onCpu' | 'cpuReason'>;
}

/** What the header tells, the bytes read to know it, and where they came from. */
interface Seen {
  sketch: Sketch;
  source: HeaderSource;
  headerBytes: number;
}

export async function planModel(request: PlanRequest): Promise<LoadPlan> {
  const { files, settings, headers } = request;
  const rest = await Promise.all(files.slice(1).map((file) => lengthOf(file, headers)));
  await request.engines.first();
  const isOnCpu = request.engines.cpuReason !== undefined;
  const seen = await look(request, isOnCpu ? { ...settings, backend: 'cpu' } : settings, rest);
  const { source } = seen;
  const bytes = rest.reduce<number | null>(
    (sum, bytes) => (sum === null || bytes === null ? null : sum + bytes),
    source.bytes,
  );
  return judged(seen, bytes, request.cache);
}

/** Reads the header, for the backend that a load would take. */
async function look(
  request: PlanRequest,
  settings: EngineSettings,
  rest: (number | null)[],
): Promise<Seen> {
  const [first] = request.files;
  if (first === undefined) throw new TokenbrookError('invalid-option', 'There is no file.');
  const options = { ...loaderOptions(settings, [null, ...rest]), plans: true };
  const reports = settings.backend === 'cpu' ? [] : await readReports();
  if (reports.length > 0) options.gpuReports = reports;
  const loader = await openLoader(request.engines, options);
  try {
    const root = request.cache === 'none' ? undefined : await openRoot().catch(() => undefined);
    let headerBytes = 0;
    const source = await readHeader(first, request.headers, root, (piece) => {
      loader.push(piece);
      headerBytes += piece.byteLength;
      return loader.hasHeader;
    });
    if (!loader.hasHeader) {
      throw new TokenbrookError('invalid-gguf', 'The file ends within its header.');
    }
    // On a GPU the kernels that a load would run are what tells how fast it is.
    const refusal = await loader.prepare(() => undefined);
    const sketch = await loader.sketch();
    if (sketch === undefined) throw otherEngine();
    const isAuto = (settings.backend ?? 'auto') === 'auto' && sketch.backend === 'webgpu';
    if (isAuto && (refusal !== undefined || sketch.shortage !== null)) {
      const onCpu = await look(request, { ...settings, backend: 'cpu' }, rest);
      // Both readings had to be paid for.
      onCpu.source.fetchedBytes += source.fetchedBytes;
      return onCpu;
    }
    if (sketch.gpu !== null && !sketch.gpu.isKnown) await keepReport(sketch.gpu);
    return { sketch, source, headerBytes };
  } finally {
    loader.free();
  }
}

/** A loader of the engine that a load would come to. */
async function openLoader(
  engines: PlanRequest['engines'],
  options: LoaderOptions,
): Promise<Loader> {
  if (options.backend === 'cpu') return (await engines.onCpu()).open(options);
  const loader = await (await engines.first()).open(options);
  const isAuto = (options.backend ?? 'auto') === 'auto';
  if (!isAuto || loader.cpuReason?.() === undefined) return loader;
  loader.free();
  return (await engines.onCpu()).open({ ...options, backend: 'cpu' });
}

async function judged(
  { sketch, source, headerBytes }: Seen,
  bytes: number | null,
  cache: 'opfs' | 'none',
): Promise<LoadPlan> {
  const { cachedBytes, fetchedBytes } = source;
  const fetchBytes = bytes === null ? null : Math.max(bytes - cachedBytes, 0);
  const why: string[] = [];
  const { shortage, pace } = sketch;
  if (shortage !== null) {
    const { what, need, have } = shortage;
    why.push(`${what} takes ${need} bytes, and there are ${have} at most`);
  }
  const short = cache === 'none' ? 0 : await shortOfStorage(fetchBytes ?? 0);
  if (short > 0) why.push(`storage is ${short} bytes short: it can run from memory this time`);
  return {
    name: sketch.name,
    architecture: sketch.architecture,
    parameters: sketch.parameters,
    backend: sketch.backend,
    headerBytes,
    headerFetchedBytes: fetchedBytes,
    fetchBytes,
    cachedBytes,
    weightsBytes: sketch.weightsBytes,
    kvCacheBytes: sketch.kvCacheBytes,
    contextLength: sketch.contextLength,
    maxContextLength: sketch.longestContext,
    fits: why.length === 0,
    ...(why.length > 0 && { why: why.join('; ') }),
    predicted:
      pace === null
        ? null
        : {
            prefillTokensPerSecond: 1000 / pace.prefillMs,
            decodeTokensPerSecond: 1000 / pace.decodeMs,
          },
  };
}

async function shortOfStorage(bytes: number): Promise<number> {
  const have = await room(() => navigator.storage.estimate());
  return have === null ? 0 : Math.max(bytes - have, 0);
}

function otherEngine(): TokenbrookError {
  const message = 'Models of the compat engine are not planned for: load it to see.';
  return new TokenbrookError('unsupported-architecture', message);
}
