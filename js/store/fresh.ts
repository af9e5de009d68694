// Bytes that have just come from the network and are in storage by now, for whoever reads the
// file: as long as they are still in memory, nobody has to read and check them again.

/** More is not kept: whoever reads will find it in storage. */
const MAX_BYTES = 12 << 20;

export class Fresh {
  readonly #parts = new Map<number, Uint8Array<ArrayBuffer>>();
  readonly #spare: Uint8Array<ArrayBuffer>[] = [];
  #bytes = 0;
  /** Up to where the file has been read. */
  #position = 0;
  #onAwaited: () => void = () => undefined;

  /** Copies bytes that lie at `start`, if they are still to be read and not too far ahead. */
  add(start: number, bytes: Uint8Array): void {
    if (start < this.#position) return;
    while (this.#bytes + bytes.byteLength > MAX_BYTES) {
      const last = Math.max(...this.#parts.keys());
      if (last < start) return;
      this.#remove(last);
    }
    const found = this.#spare.findIndex(({ byteLength }) => byteLength >= bytes.byteLength);
    const [room = new Uint8Array(bytes.byteLength)] = found < 0 ? [] : this.#spare.splice(found, 1);
    const part = room.subarray(0, bytes.byteLength);
    part.set(bytes);
    this.#parts.set(start, part);
    this.#bytes += part.byteLength;
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
    this.#bytes -= part.byteLength;
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

  /** Forgets all. */
  end(): void {
    this.#parts.clear();
    this.#spare.length = 0;
    this.#bytes = 0;
  }

  #remove(start: number): void {
    const part = this.#parts.get(start);
    if (part === undefined) return;
    this.#parts.delete(start);
    this.#bytes -= part.byteLength;
    this.giveBack(part);
  }
}
