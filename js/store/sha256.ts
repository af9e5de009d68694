// SHA-256 (FIPS 180-4) of bytes that come piece by piece, which the browser's own digest does not
// take. Written here because a worker can run it at once: a module of WebAssembly would have to
// be fetched and compiled for it, and the package has no dependencies.

const BLOCK_BYTES = 64;

/** The first 32 bits of the fractional parts of the cube roots of the first 64 primes. */
const K = Int32Array.from(primes(64), (prime) => fraction(Math.cbrt(prime)));

export class Sha256 {
  readonly #state = Int32Array.from(primes(8), (prime) => fraction(Math.sqrt(prime)));
  readonly #words = new Int32Array(64);
  readonly #block = new Uint8Array(BLOCK_BYTES);
  #filled = 0;
  #bytes = 0;

  update(bytes: Uint8Array): void {
    this.#bytes += bytes.byteLength;
    let at = 0;
    if (this.#filled > 0) {
      at = Math.min(BLOCK_BYTES - this.#filled, bytes.byteLength);
      this.#block.set(bytes.subarray(0, at), this.#filled);
      this.#filled += at;
      if (this.#filled < BLOCK_BYTES) return;
      this.#compress(this.#block, 0);
      this.#filled = 0;
    }
    for (; at + BLOCK_BYTES <= bytes.byteLength; at += BLOCK_BYTES) this.#compress(bytes, at);
    this.#block.set(bytes.subarray(at));
    this.#filled = bytes.byteLength - at;
  }

  /** The digest in hex; nothing can be added after it. */
  digest(): string {
    const bits = this.#bytes * 8;
    const rest = (this.#filled + 9) % BLOCK_BYTES;
    const end = new Uint8Array(9 + (rest === 0 ? 0 : BLOCK_BYTES - rest));
    end[0] = 0x80;
    const view = new DataView(end.buffer);
    view.setUint32(end.byteLength - 8, Math.floor(bits / 2 ** 32));
    view.setUint32(end.byteLength - 4, bits % 2 ** 32);
    this.update(end);
    return Array.from(this.#state, (word) => (word >>> 0).toString(16).padStart(8, '0')).join('');
  }

  #compress(bytes: Uint8Array, at: number): void {
    const w = this.#words;
    for (let i = 0; i < 16; i += 1) {
      const from = at + 4 * i;
      w[i] =
        (bytes[from]! << 24) | (bytes[from + 1]! << 16) | (bytes[from + 2]! << 8) | bytes[from + 3]!;
    }
    for (let i = 16; i < 64; i += 1) {
      const x = w[i - 15]!;
      const y = w[i - 2]!;
      const s0 = ((x >>> 7) | (x << 25)) ^ ((x >>> 18) | (x << 14)) ^ (x >>> 3);
      const s1 = ((y >>> 17) | (y << 15)) ^ ((y >>> 19) | (y << 13)) ^ (y >>> 10);
      w[i] = (w[i - 16]! + s0 + w[i - 7]! + s1) | 0;
    }
    const state = this.#state;
    let a = state[0]!;
    let b = state[1]!;
    let c = state[2]!;
    let d = state[3]!;
    let e = state[4]!;
    let f = state[5]!;
    let g = state[6]!;
    let h = state[7]!;
    for (let i = 0; i < 64; i += 1) {
      const s1 = ((e >>> 6) | (e << 26)) ^ ((e >>> 11) | (e << 21)) ^ ((e >>> 25) | (e << 7));
      const t1 = (h + s1 + ((e & f) ^ (~e & g)) + K[i]! + w[i]!) | 0;
      const s0 = ((a >>> 2) | (a << 30)) ^ ((a >>> 13) | (a << 19)) ^ ((a >>> 22) | (a << 10));
      const t2 = (s0 + ((a & b) ^ (a & c) ^ (b & c))) | 0;
      h = g;
      g = f;
      f = e;
      e = (d + t1) | 0;
      d = c;
      c = b;
      b = a;
      a = (t1 + t2) | 0;
    }
    state[0]! += a;
    state[1]! += b;
    state[2]! += c;
    state[3]! += d;
    state[4]! += e;
    state[5]! += f;
    state[6]! += g;
    state[7]! += h;
  }
}

function primes(count: number): number[] {
  const found: number[] = [];
  for (let n = 2; found.length < count; n += 1) {
    if (found.every((prime) => n % prime !== 0)) found.push(n);
  }
  return found;
}

function fraction(root: number): number {
  return ((root - Math.floor(root)) * 2 ** 32) | 0;
}
