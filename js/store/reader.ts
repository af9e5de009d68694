// Closed segments, read and checked one ahead of whoever takes them.

import { segmentDigest } from './digest.js';
import type { Folder } from './folder.js';
import { segmentLength, segmentName } from './journal.js';
import type { Journal } from './journal.js';

/** What is in storage is not what was put there. */
export class Damaged extends Error {
  readonly index: number;

  constructor(index: number) {
    super(`segment ${index} is damaged`);
    this.index = index;
  }
}

/** Reads segments into memory that is used again: what is fresh costs as much as the reading. */
export class SegmentReader {
  readonly #folder: Folder;
  readonly #spare: Uint8Array<ArrayBuffer>[] = [];

  constructor(folder: Folder) {
    this.#folder = folder;
  }

  /** The bytes of a closed segment. Throws `Damaged` where they are not those of its digest. */
  async read(journal: Readonly<Journal>, index: number): Promise<Uint8Array<ArrayBuffer>> {
    const { segments, generation } = journal;
    const bytes = this.#take(segmentLength(journal, index));
    let read: number | undefined;
    try {
      read = await this.#folder.read(segmentName(generation, index), bytes);
    } catch {
      // It was changed or removed under our hands.
    }
    const isWhole = read === bytes.byteLength;
    if (isWhole && (await segmentDigest(bytes)) === segments[index]) return bytes;
    this.giveBack(bytes);
    throw new Damaged(index);
  }

  /** What was read is of no use any more. */
  giveBack({ buffer }: Uint8Array<ArrayBuffer>): void {
    this.#spare.push(new Uint8Array(buffer));
  }

  /** Gives memory back now, where the browser can: collections come late for large buffers. */
  end(): void {
    for (const { buffer } of this.#spare.splice(0)) {
      (buffer as ArrayBuffer & { transfer?: (length: number) => ArrayBuffer }).transfer?.(0);
    }
  }

  #take(length: number): Uint8Array<ArrayBuffer> {
    const found = this.#spare.findIndex(({ byteLength }) => byteLength >= length);
    const [bytes = new Uint8Array(length)] = found < 0 ? [] : this.#spare.splice(found, 1);
    return bytes.subarray(0, length);
  }
}
