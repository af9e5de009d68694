// What is known of a file in storage, as a small record that is whole or not there at all: it is
// written to two slots in turn, each with a sequence number and a checksum, so that a crash in
// the middle of one leaves the other.

import type { Folder, SyncFile } from './folder.js';

/** The longest segment: one is read and checked as a whole. */
const MAX_SEGMENT_BYTES = 32 << 20;

/** The longest file whose segments a journal lists. */
const MAX_SEGMENTS = 1 << 16;

export type FileState = 'partial' | 'verified';

export interface Journal {
  /** The address of the model that this is a file of, without query and credentials. */
  source: string;
  /** This file's own. */
  url: string;
  /** Which file of the model it is, from 0, and of how many. */
  part: number;
  parts: number;
  /** Counts how often the file was begun anew; segments of other generations are of no use. */
  generation: number;
  /** `null` until it is known. */
  bytes: number | null;
  /** Of a segment, but for the last one. */
  segmentBytes: number;
  /** What tells this version of the file from others; `null` where the server does not say. */
  etag: string | null;
  lastModified: string | null;
  state: FileState;
  /** Of the whole file, in hex, where it was checked. */
  sha256: string | null;
  /** In order: the digest of a closed segment, in hex, else how many of its bytes are durable. */
  segments: (string | number)[];
  /** Milliseconds since 1970. */
  lastUsed: number;
}

/** Name of the file of a segment. */
export function segmentName(generation: number, index: number): string {
  return `${generation}-${String(index).padStart(5, '0')}.segment`;
}

type Measures = Readonly<Pick<Journal, 'bytes' | 'segmentBytes'>>;

/** Length of a segment that is whole. */
export function segmentLength({ bytes, segmentBytes }: Measures, index: number): number {
  if (bytes === null) return segmentBytes;
  return Math.max(Math.min(segmentBytes, bytes - index * segmentBytes), 0);
}

/** How many there are, as far as that is known. */
export function segmentCount({ bytes, segmentBytes }: Measures): number {
  return Math.ceil((bytes ?? 0) / segmentBytes);
}

/** Bytes of the file that will survive a crash. */
export function durableBytes(journal: Readonly<Journal>): number {
  return journal.segments.reduce<number>((sum, segment, index) => {
    return sum + (typeof segment === 'number' ? segment : segmentLength(journal, index));
  }, 0);
}

const MAGIC = 0x324a4254; // "TBJ2"
const HEAD_BYTES = 16;
const SLOTS = ['journal-0', 'journal-1'] as const;

/** A journal read from a folder. */
export interface Numbered {
  sequence: number;
  journal: Journal;
}

/** The newest journal that is whole; `undefined` where there is none. */
export async function readJournal(folder: Folder): Promise<Numbered | undefined> {
  const found = await Promise.all(
    SLOTS.map(async (name) => {
      try {
        const blob = await folder.blob(name);
        return blob && decodeJournal(new Uint8Array(await blob.arrayBuffer()));
      } catch {
        // Being written at this moment; the other slot is whole.
        return undefined;
      }
    }),
  );
  return found.reduce((best, other) => {
    if (best === undefined || other === undefined) return best ?? other;
    return other.sequence > best.sequence ? other : best;
  }, undefined);
}

/** Writes journals one after the other; only the holder of the file's lock has one. */
export class JournalWriter {
  readonly #slots: readonly SyncFile[];
  #sequence: number;

  private constructor(slots: readonly SyncFile[], sequence: number) {
    this.#slots = slots;
    this.#sequence = sequence;
  }

  /** `last`: the sequence number of the newest journal. */
  static async open(folder: Folder, last: number): Promise<JournalWriter> {
    const first = await folder.open(SLOTS[0]);
    try {
      return new JournalWriter([first, await folder.open(SLOTS[1])], last);
    } catch (error) {
      first.close();
      throw error;
    }
  }

  /** Returns once the journal survives a crash. Throws where storage is full. */
  write(journal: Journal): void {
    const sequence = this.#sequence + 1;
    const slot = this.#slots[sequence % SLOTS.length];
    if (slot === undefined) throw new Error('there is no such slot');
    const bytes = encodeJournal({ sequence, journal });
    writeAll(slot, bytes, 0);
    slot.truncate(bytes.byteLength);
    slot.flush();
    this.#sequence = sequence;
  }

  close(): void {
    for (const slot of this.#slots) slot.close();
  }
}

/** Writes all of `bytes`, or throws as a browser does where there is no room. */
export function writeAll(file: SyncFile, bytes: Uint8Array, at: number): void {
  const written = file.write(bytes, { at });
  if (written === bytes.byteLength) return;
  throw new DOMException(`only ${written} of ${bytes.byteLength} bytes`, 'QuotaExceededError');
}

export function encodeJournal({ sequence, journal }: Numbered): Uint8Array {
  const text = new TextEncoder().encode(JSON.stringify(journal));
  const bytes = new Uint8Array(HEAD_BYTES + text.byteLength);
  bytes.set(text, HEAD_BYTES);
  const view = new DataView(bytes.buffer);
  view.setUint32(0, MAGIC, true);
  view.setUint32(4, sequence, true);
  view.setUint32(8, text.byteLength, true);
  view.setUint32(12, checksum(bytes), true);
  return bytes;
}

/** `undefined` for anything that is not a whole journal. */
export function decodeJournal(bytes: Uint8Array): Numbered | undefined {
  if (bytes.byteLength < HEAD_BYTES) return undefined;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const length = view.getUint32(8, true);
  if (view.getUint32(0, true) !== MAGIC || length > bytes.byteLength - HEAD_BYTES) return undefined;
  const whole = bytes.subarray(0, HEAD_BYTES + length);
  if (view.getUint32(12, true) !== checksum(whole)) return undefined;
  try {
    const journal: unknown = JSON.parse(new TextDecoder().decode(whole.subarray(HEAD_BYTES)));
    return isJournal(journal) ? { sequence: view.getUint32(4, true), journal } : undefined;
  } catch {
    return undefined;
  }
}

function isJournal(value: unknown): value is Journal {
  if (typeof value !== 'object' || value === null) return false;
  const { source, url, part, parts, generation, etag, lastModified, state, sha256, lastUsed } =
    value as Partial<Record<keyof Journal, unknown>>;
  const { bytes, segmentBytes, segments } = value as Partial<Record<keyof Journal, unknown>>;
  const text = (it: unknown): boolean => typeof it === 'string';
  const textOrNull = (it: unknown): boolean => it === null || text(it);
  return (
    text(source) &&
    text(url) &&
    isCount(part) &&
    isCount(parts) &&
    isCount(generation) &&
    (bytes === null || isCount(bytes)) &&
    textOrNull(etag) &&
    textOrNull(lastModified) &&
    (state === 'partial' || (state === 'verified' && isCount(bytes))) &&
    textOrNull(sha256) &&
    Number.isFinite(lastUsed) &&
    isCount(segmentBytes) &&
    (segmentBytes as number) > 0 &&
    (segmentBytes as number) <= MAX_SEGMENT_BYTES &&
    Array.isArray(segments) &&
    areSegments(segments, { bytes, segmentBytes } as Measures)
  );
}

function areSegments(segments: unknown[], measures: Measures): boolean {
  const most = measures.bytes === null ? MAX_SEGMENTS : segmentCount(measures);
  return (
    segments.length <= Math.min(most, MAX_SEGMENTS) &&
    segments.every((segment, index) =>
      typeof segment === 'string'
        ? /^[0-9a-f]{64}$/.test(segment)
        : isCount(segment) && (segment as number) <= segmentLength(measures, index),
    )
  );
}

function isCount(value: unknown): boolean {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

/** CRC-32 of all but the four bytes that hold it. */
function checksum(bytes: Uint8Array): number {
  let crc = 0xffff_ffff;
  for (let i = 0; i < bytes.byteLength; i += 1) {
    if (i >= 12 && i < HEAD_BYTES) continue;
    crc = (crc >>> 8) ^ (TABLE[(crc ^ (bytes[i] ?? 0)) & 0xff] ?? 0);
  }
  return (crc ^ 0xffff_ffff) >>> 0;
}

const TABLE = Uint32Array.from({ length: 256 }, (_, byte) => {
  let crc = byte;
  for (let bit = 0; bit < 8; bit += 1) crc = crc & 1 ? (crc >>> 1) ^ 0xedb8_8320 : crc >>> 1;
  return crc >>> 0;
});
