// Bytes of one transfer on their way to storage, gathered: writing is a question to the browser's
// own process each time, and takes as long for a little as for much.

import { DIGEST_PIECE_BYTES } from './digest.js';

/** Kept back for no longer than this, ms. */
export const BATCH_MS = 100;

export const BATCH_BYTES = 2 * DIGEST_PIECE_BYTES;

export class Batch {
  readonly #buffer: Uint8Array<ArrayBuffer>;
  #length = 0;
  #untilMs = 0;
  /** Where in the file its first byte belongs. */
  start: number;

  /** `buffer`: of `BATCH_BYTES`. */
  constructor(start: number, buffer: Uint8Array<ArrayBuffer>) {
    this.start = start;
    this.#buffer = buffer;
  }

  /** Where the next bytes belong. */
  get end(): number {
    return this.start + this.#length;
  }

  get bytes(): Uint8Array<ArrayBuffer> {
    return this.#buffer.subarray(0, this.#length);
  }

  /** How long it may still wait, ms. */
  get leftMs(): number {
    return this.#untilMs - performance.now();
  }

  /** Takes as much as fits, up to a multiple of its size in the file; gives the rest. */
  add(piece: Uint8Array): Uint8Array {
    if (this.#length === 0) this.#untilMs = performance.now() + BATCH_MS;
    const part = piece.subarray(0, this.#room());
    this.#buffer.set(part, this.#length);
    this.#length += part.byteLength;
    return piece.subarray(part.byteLength);
  }

  get isFull(): boolean {
    return this.#room() === 0;
  }

  /** All of it is where it belongs. */
  clear(): void {
    this.start = this.end;
    this.#length = 0;
  }

  #room(): number {
    return BATCH_BYTES - (this.start % BATCH_BYTES) - this.#length;
  }
}
