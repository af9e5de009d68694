// What a model will cost, from its header alone, in the worker.

import type { Sketch } from './engine.js';
import type { EngineSettings, WireFile } from './protocol.js';
import { loaderOptions } from './loader.js';
import type { EngineSource } from './loader.js';
import { TokenbrookError } from './errors.js';
import { lengthOf } from './plain-file.js';
import { openRoot } from './store/folder.js';
import { readHeader } from './store/header.js';
import type { HeaderSource } from './store/header.js';
import type { LoadPlan } from './types.js';

export interface PlanRequest {
  files: WireFile[];
  settings: EngineSettings;
  headers: [string, string][];
  cache: 'opfs' | 'none';
  engines: Pick<EngineSource, 'first' | 'cpuReason'>;
}

/** What 32 bits address, less what the engine itself, its scratch and a tokenizer take. */
const WASM_BYTES = 4 * 2 ** 30 - (256 << 20);

/** Weights on a GPU are at most so much larger than in the file. */
const PLANES = 1.1;

/** How near a context's limit is searched for, tokens. */
const CONTEXT_STEP = 64;

export async function planModel(request: PlanRequest): Promise<LoadPlan> {
  const { files, settings, headers } = request;
  const [first, ...rest] = files;
  if (first === undefined) throw new TokenbrookError('invalid-option', 'There is no file.');
  const loaderClass = await request.engines.first();
  const options = loaderOptions(settings, files.map(() => null));
  if (request.engines.cpuReason !== undefined) options.backend = 'cpu';
  const loader = await loaderClass.open(options);
  try {
    const root = request.cache === 'none' ? undefined : await openRoot().catch(() => undefined);
    let headerBytes = 0;
    const source = await readHeader(first, headers, root, (piece) => {
      loader.push(piece);
      headerBytes += piece.byteLength;
      return loader.hasHeader;
    });
    if (!loader.hasHeader) {
      throw new TokenbrookError('invalid-gguf', 'The file ends within its header.');
    }
    const sketch = await loader.sketch();
    if (sketch === undefined) throw otherEngine();
    const lengths = await Promise.all(rest.map((file) => lengthOf(file, headers)));
    const totalBytes = [source.bytes, ...lengths].reduce<number | null>(
      (sum, bytes) => (sum === null || bytes === null ? null : sum + bytes),
      0,
    );
    return await judged(sketch, { ...source, bytes: totalBytes }, headerBytes, request.cache);
  } finally {
    loader.free();
  }
}

async function judged(
  sketch: Sketch,
  { bytes, cachedBytes, fetchedBytes }: HeaderSource,
  headerBytes: number,
  cache: 'opfs' | 'none',
): Promise<LoadPlan> {
  const isCpu = sketch.backend === 'cpu';
  const weightsBytes = isCpu ? sketch.weightsBytes : Math.ceil(sketch.weightsBytes * PLANES);
  const kvCacheBytes = kvBytes(sketch, sketch.contextLength);
  const fetchBytes = bytes === null ? null : Math.max(bytes - cachedBytes, 0);
  const room = isCpu ? WASM_BYTES - weightsBytes : Number.POSITIVE_INFINITY;
  const maxContextLength = longest(sketch, room);
  const why: string[] = [];
  if (kvCacheBytes > room) {
    const needed = weightsBytes + kvCacheBytes;
    why.push(`weights and context need ${needed} bytes, more than WebAssembly's 4 GiB can give`);
  }
  const short = cache === 'none' ? 0 : await shortage(fetchBytes ?? 0);
  if (short > 0) why.push(`storage is ${short} bytes short: it can run from memory this time`);
  const { pace } = sketch;
  return {
    name: sketch.name,
    architecture: sketch.architecture,
    parameters: sketch.parameters,
    backend: sketch.backend,
    headerBytes,
    headerFetchedBytes: fetchedBytes,
    fetchBytes,
    cachedBytes,
    weightsBytes,
    kvCacheBytes,
    contextLength: sketch.contextLength,
    maxContextLength,
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

/** Of a context that is full. */
function kvBytes(sketch: Sketch, context: number): number {
  const elementBytes = sketch.backend === 'cpu' ? 4 : 2;
  const blocks = (positions: number): number =>
    Math.ceil(positions / sketch.blockTokens) * sketch.blockTokens;
  const full = sketch.kvElements * blocks(context);
  const ring = sketch.windowElements * blocks(Math.min(context, sketch.windowPositions));
  return elementBytes * (full + ring);
}

/** The longest context whose cache has room. */
function longest(sketch: Sketch, room: number): number {
  if (kvBytes(sketch, sketch.maxContext) <= room) return sketch.maxContext;
  let [fits, fails] = [0, sketch.maxContext];
  while (fails - fits > CONTEXT_STEP) {
    const middle = Math.floor((fits + fails) / 2);
    if (kvBytes(sketch, middle) <= room) fits = middle;
    else fails = middle;
  }
  return fits;
}

async function shortage(bytes: number): Promise<number> {
  try {
    const { quota, usage } = await navigator.storage.estimate();
    return quota === undefined ? 0 : Math.max(bytes - (quota - (usage ?? 0)), 0);
  } catch {
    return 0;
  }
}

function otherEngine(): TokenbrookError {
  const message = 'Models of the compat engine are not planned for: load it to see.';
  return new TokenbrookError('unsupported-architecture', message);
}
