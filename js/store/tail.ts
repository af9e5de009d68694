// Bytes that were written since the last commit, recorded without waiting for the disk. When a tab
// is closed they are all there; when a machine stops, some may not be, so each entry has a check
// of its bytes, and none is believed without it.

import type { Folder, SyncFile } from './folder.js';
import { segmentName } from './journal.js';

const NAME = 'tail';
const ENTRY_BYTES = 24;

interface Entry {
  generation: number;
  index: number;
  offset: number;
  length: number;
  check: number;
}

export class TailWriter {
  readonly #file: SyncFile;
  #position = 0;
  /** Entries that are not in the file yet. */
  #entries: Uint32Array[] = [];

  private constructor(file: SyncFile) {
    this.#file = file;
  }

  static async open(folder: Folder): Promise<TailWriter> {
    return new TailWriter(await folder.open(NAME));
  }

  /** `bytes` were written to a segment, at `offset`. */
  add(generation: number, index: number, offset: number, bytes: Uint8Array): void {
    const entry = Uint32Array.of(generation, index, offset, bytes.byteLength, checkOf(bytes), 0);
    entry[5] = checkOf(new Uint8Array(entry.buffer, 0, ENTRY_BYTES - 4));
    this.#entries.push(entry);
  }

  /** Has to come before anybody is told of what was added. */
  record(): void {
    const words = this.#entries.splice(0).flatMap((entry) => Array.from(entry));
    if (words.length === 0) return;
    const bytes = new Uint8Array(Uint32Array.from(words).buffer);
    try {
      this.#file.write(bytes, { at: this.#position });
      this.#position += bytes.byteLength;
    } catch {
      // Without it, a closed tab costs what came since the last commit.
    }
  }

  /** All that was told is in the journal now. An older entry that is left tells nothing false. */
  restart(): void {
    this.#position = 0;
    this.#entries = [];
  }

  close(): void {
    this.#file.close();
  }
}

/** How far each segment goes behind what the journal says, as far as its bytes are right. */
export async function salvage(
  folder: Folder,
  generation: number,
  segments: readonly (string | number)[],
): Promise<Map<number, number>> {
  const found = new Map<number, number>();
  const blob = await folder.blob(NAME);
  const entries = blob === undefined ? [] : entriesOf(await blob.arrayBuffer());
  const own = entries.filter((entry) => entry.generation === generation);
  for (const entry of own.sort((a, b) => a.index - b.index || a.offset - b.offset)) {
    const { index, offset, length } = entry;
    const durable = segments[index] ?? 0;
    if (typeof durable === 'string') continue;
    const end = found.get(index) ?? durable;
    if (offset > end || offset + length <= end) continue;
    if (await isRight(folder, entry)) found.set(index, offset + length);
  }
  return found;
}

async function isRight(folder: Folder, entry: Entry): Promise<boolean> {
  const { generation, index, offset, length, check } = entry;
  const blob = await folder.blob(segmentName(generation, index));
  const slice = blob?.slice(offset, offset + length);
  if (slice?.size !== length) return false;
  return checkOf(new Uint8Array(await slice.arrayBuffer())) === check;
}

function entriesOf(buffer: ArrayBuffer): Entry[] {
  const words = new Uint32Array(buffer.slice(0, buffer.byteLength - (buffer.byteLength % 4)));
  const entries: Entry[] = [];
  for (let at = 0; at + 6 <= words.length; at += 6) {
    const bytes = new Uint8Array(words.buffer, at * 4, ENTRY_BYTES - 4);
    if (checkOf(bytes) !== words[at + 5]) continue;
    const [generation = 0, index = 0, offset = 0, length = 0, check = 0] = words.subarray(at);
    entries.push({ generation, index, offset, length, check });
  }
  return entries;
}

/** FNV-1a over words of four bytes, then over the bytes that are left. */
export function checkOf(bytes: Uint8Array): number {
  const aligned = bytes.byteOffset % 4 === 0 ? bytes : bytes.slice();
  const words = new Uint32Array(aligned.buffer, aligned.byteOffset, aligned.byteLength >> 2);
  let hash = 0x811c_9dc5 ^ aligned.byteLength;
  for (let i = 0; i < words.length; i += 1) hash = Math.imul(hash ^ (words[i] ?? 0), 0x0100_0193);
  for (let i = words.length * 4; i < aligned.byteLength; i += 1) {
    hash = Math.imul(hash ^ (aligned[i] ?? 0), 0x0100_0193);
  }
  return (hash ^ (hash >>> 15)) >>> 0;
}
