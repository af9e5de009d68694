// What WebAssembly can do in this browser, found by asking it to validate tiny modules.

/** The start of a module with one function of type `() -> v128`, up to its code. */
const HEAD = [0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0];

/** `i8x16.splat` and `i8x16.popcnt`. */
const SIMD = [10, 10, 1, 8, 0, 65, 0, 253, 15, 253, 98, 11];

/** `i32.const 1; i8x16.splat` three times, then `i32x4.relaxed_dot_i8x16_i7x16_add_s`. */
const RELAXED = [10, 19, 1, 17, 0, 65, 1, 253, 15, 65, 1, 253, 15, 65, 1, 253, 15, 253, 147, 2, 11];

const validates = (code: number[]): boolean =>
  WebAssembly.validate(Uint8Array.from([...HEAD, ...code]));

/** A memory that is shared. */
const SHARED_MEMORY = [0, 97, 115, 109, 1, 0, 0, 0, 5, 4, 1, 3, 1, 1];

/** Why there can be one thread only in this worker; `undefined` where there can be more. */
export function whyNoThreads(): string | undefined {
  if (!globalThis.crossOriginIsolated) return 'the page is not cross-origin isolated';
  if (!hasRelaxedSimd()) return 'this browser has no relaxed SIMD';
  const canShare = WebAssembly.validate(Uint8Array.from(SHARED_MEMORY));
  if (canShare && 'waitAsync' in Atomics && typeof Worker !== 'undefined') return undefined;
  return 'this browser has no shared memory for WebAssembly';
}

export function hasSimd(): boolean {
  return validates(SIMD);
}

export function hasRelaxedSimd(): boolean {
  return validates(RELAXED);
}
