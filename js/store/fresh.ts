// Bytes that have just come from the network and are in storage by now, for whoever reads the
// file: as long as they are still in memory, nobody has to read and check them again.

import { discard } from '../pieces.js';
import { BATCH_BYTES } from './batch.js';

/** More are not kept: whoever reads will find them in storage. */
const MAX_PARTS = 12;

export class Fresh {
  readonly #parts = new Map<number, Uint8Array<ArrayBuffer>>();
  readonly #spare: Uint8Array<ArrayBuffer>[] = [];
  /** Up to where the file has been read. */
  #position = 0;
  #onAwaited: () => void = () => undefined;

  /** Copies a batch that lies at `start`, if they are still to be read and not too far ahead. */
  add(start: number, bytes: Uint8Array): void {
    if (start < this.#position) return;
    if (this.#parts.size === MAX_PARTS) {
      const last = Math.max(...this.#parts.keys());
      if (last < start) return;
      this.#remove(last);
    }
    const room = this.#spare.pop() ?? new Uint8Array(BATCH_BYTES);
    const part = room.subarray(0, bytes.byteLength);
    part.set(bytes);
    this.#parts.set(start, part);
    if (start === this.#position) this.#onAwaited();
  }

  /** The file has been read up to here. */
  pass(position: number): void {
    this.#position = position;
    for (const start of this.#parts.keys()) if (start < position) this.#remove(start);
  }

  /** What comes next, if it is here; to be given back. */
  take(): Uint8Array<ArrayBuffer> | undefined {
    const part = this.#parts.get(this.#position);
    if (part === undefined) return undefined;
    this.#parts.delete(this.#position);
    return part;
  }

  /** Whether what comes next is here before something else is settled. */
  comesBefore(other: Promise<unknown>): Promise<boolean> {
    if (this.#parts.has(this.#position)) return Promise.resolve(true);
    return new Promise((resolve) => {
      const end = (): void => resolve(false);
      other.then(end, end);
      this.#onAwaited = () => resolve(true);
    });
  }

  giveBack({ buffer }: Uint8Array<ArrayBuffer>): void {
    this.#spare.push(new Uint8Array(buffer));
  }

  /** Gives the memory back. */
  end(): void {
    for (const { buffer } of [...this.#parts.values(), ...this.#spare.splice(0)]) discard(buffer);
    this.#parts.clear();
  }

  #remove(start: number): void {
    const part = this.#parts.get(start);
    if (part === undefined) return;
    this.#parts.delete(start);
    this.giveBack(part);
  }
}
