// The start of a file, for what its header says: from storage where it is there, else by ranges
// that are given up as soon as enough has come.

import { blobPieces } from '../pieces.js';
import type { WireFile } from '../protocol.js';
import type { Root } from './folder.js';
import { FileChanged, NoRanges, Transient, ask } from './http.js';
import type { Target } from './http.js';
import { durableBytes, readJournal, segmentName } from './journal.js';
import { keyOf } from './source.js';
import type { Version } from './vault.js';

export interface HeaderSource {
  /** Bytes of the file; `null` where nobody says. */
  bytes: number | null;
  /** Bytes of it in storage. */
  cachedBytes: number;
  /** Bytes that were fetched. */
  fetchedBytes: number;
}

/** Asked for at a time: headers have some megabytes, since they hold the vocabulary. */
const STEP_BYTES = 1 << 20;

/** Gives pieces from the file's first byte on to `take`, until that is content. */
export async function readHeader(
  file: WireFile,
  headers: [string, string][],
  root: Root | undefined,
  take: (piece: Uint8Array) => boolean,
): Promise<HeaderSource> {
  if (typeof file !== 'string') {
    await feed(blobPieces(file), take);
    return { bytes: file.size, cachedBytes: file.size, fetchedBytes: 0 };
  }
  const kept = root === undefined || !/^https?:/.test(file) ? undefined : await find(root, file);
  const source: HeaderSource = {
    bytes: kept?.bytes ?? null,
    cachedBytes: kept?.cachedBytes ?? 0,
    fetchedBytes: 0,
  };
  let position = 0;
  for (const piece of kept?.start ?? []) {
    position += piece.size;
    if (await feed(blobPieces(piece), take)) return source;
  }
  await fetchFrom({ url: file, headers }, position, source, take);
  return source;
}

interface Found {
  bytes: number | null;
  cachedBytes: number;
  start: Blob[];
}

async function find(root: Root, url: string): Promise<Found | undefined> {
  const folder = await root.existing(await keyOf(url));
  const journal = folder && (await readJournal(folder))?.journal;
  if (folder === undefined || journal === undefined) return undefined;
  const start: Blob[] = [];
  for (const [index, segment] of journal.segments.entries()) {
    if (typeof segment !== 'string') break;
    const blob = await folder.blob(segmentName(journal.generation, index));
    if (blob === undefined) break;
    start.push(blob);
  }
  return { bytes: journal.bytes, cachedBytes: durableBytes(journal), start };
}

async function fetchFrom(
  target: Target,
  from: number,
  source: HeaderSource,
  take: (piece: Uint8Array) => boolean,
): Promise<void> {
  let known: Version | undefined;
  for (let position = from; ; ) {
    const controller = new AbortController();
    const span = { start: position, end: position + STEP_BYTES };
    const { signal } = controller;
    const answer = await ask(target, { span, known, signal }).catch((error: unknown) => {
      if (!(error instanceof NoRanges) && !(error instanceof FileChanged)) throw named(error);
      position = 0;
      return ask(target, { span: undefined, known: undefined, signal });
    });
    known = answer.version;
    source.bytes ??= known.bytes;
    let skip = answer.kind === 'whole' ? position : 0;
    let isEnough = false;
    try {
      await feed(answer.body, (piece) => {
        source.fetchedBytes += piece.byteLength;
        const fresh = piece.subarray(skip);
        skip = Math.max(skip - piece.byteLength, 0);
        position += fresh.byteLength;
        isEnough = fresh.byteLength > 0 && take(fresh);
        return isEnough;
      });
    } finally {
      controller.abort();
    }
    if (isEnough || answer.kind === 'whole' || position >= (known.bytes ?? position)) return;
  }
}

function named(error: unknown): unknown {
  return error instanceof Transient ? error.failure : error;
}

async function feed(
  pieces: { read(): Promise<Uint8Array | undefined> },
  take: (piece: Uint8Array) => boolean,
): Promise<boolean> {
  for (let piece = await pieces.read(); piece !== undefined; piece = await pieces.read()) {
    if (take(piece)) return true;
  }
  return false;
}
