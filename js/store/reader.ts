// Closed segments, read and checked ahead of whoever takes them.

import { discard } from '../pieces.js';
import { segmentDigest } from './digest.js';
import type { Folder } from './folder.js';
import { segmentLength, segmentName } from './journal.js';
import type { Journal } from './journal.js';
import type { RemoteReader } from './remote-reader.js';

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
  readonly #key: string;
  readonly #spare: Uint8Array<ArrayBuffer>[] = [];
  #remote: RemoteReader | undefined;

  /** `key`: the folder's. */
  constructor(folder: Folder, key: string) {
    this.#folder = folder;
    this.#key = key;
  }

  /** From now on, somebody else reads as far as he can. */
  helpedBy(remote: RemoteReader | undefined): void {
    this.#remote = remote;
  }

  /** The bytes of a closed segment. Throws `Damaged` where they are not those of its digest. */
  async read(journal: Readonly<Journal>, index: number): Promise<Uint8Array<ArrayBuffer>> {
    const length = segmentLength(journal, index);
    const name = segmentName(journal.generation, index);
    const digest = journal.segments[index];
    if (typeof digest !== 'string') throw new Damaged(index);
    if (this.#remote !== undefined) {
      const { buffer } = this.#take(length);
      const read = await this.#remote.read({ key: this.#key, name, buffer, length, digest });
      if (read !== undefined) return new Uint8Array(read, 0, length);
    }
    const bytes = this.#take(length);
    let read: number | undefined;
    try {
      read = await this.#folder.read(name, bytes);
    } catch {
      // It was changed or removed under our hands.
    }
    if (read === length && (await segmentDigest(bytes)) === digest) return bytes;
    this.giveBack(bytes);
    throw new Damaged(index);
  }

  /** What was read is of no use any more. */
  giveBack({ buffer }: Uint8Array<ArrayBuffer>): void {
    this.#spare.push(new Uint8Array(buffer));
  }

  /** Gives the memory back. */
  end(): void {
    this.#remote?.end();
    this.#remote = undefined;
    for (const { buffer } of this.#spare.splice(0)) discard(buffer);
  }

  #take(length: number): Uint8Array<ArrayBuffer> {
    const found = this.#spare.findIndex(({ byteLength }) => byteLength >= length);
    const [bytes = new Uint8Array(length)] = found < 0 ? [] : this.#spare.splice(found, 1);
    return bytes.subarray(0, length);
  }
}
