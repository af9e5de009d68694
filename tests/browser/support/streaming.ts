// The entries over the small module, from the packed package, in this process.

import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

import { PACKAGE } from './package.js';

type Measure = typeof import('../../../js/measure.js');
type Mock = typeof import('../../../js/mock.js');
type Sse = typeof import('../../../js/sse.js');

/** `tokenbrook/sse`, running. */
export async function loadSse(): Promise<Sse> {
  const sse = (await import(entryUrl('sse'))) as Sse;
  await sse.ready;
  return sse;
}

/** `tokenbrook/measure`, running. */
export async function loadMeasure(): Promise<Measure> {
  const measure = (await import(entryUrl('measure'))) as Measure;
  await measure.ready;
  return measure;
}

/** `tokenbrook/mock`, running. */
export async function loadMock(): Promise<Mock> {
  const mock = (await import(entryUrl('mock'))) as Mock;
  await mock.ready;
  return mock;
}

/** Address of an entry's file. */
export function entryUrl(name: string): string {
  return pathToFileURL(join(PACKAGE, `${name}.js`)).href;
}

/** Numbers from a seed, below `end`. */
export function numbersFrom(seed: number): (end: number) => number {
  let state = seed >>> 0;
  return (end) => {
    // mulberry32
    state = (state + 0x6d2b79f5) >>> 0;
    let z = state;
    z = Math.imul(z ^ (z >>> 15), z | 1);
    z ^= z + Math.imul(z ^ (z >>> 7), z | 61);
    return ((z ^ (z >>> 14)) >>> 0) % end;
  };
}

/** The same bytes in pieces of 0 to `longest` bytes. */
export function cutAtRandom(
  bytes: Uint8Array<ArrayBuffer>,
  longest: number,
  below: (end: number) => number,
): Uint8Array<ArrayBuffer>[] {
  const pieces = [];
  for (let at = 0; at < bytes.length; ) {
    const end = at + below(longest + 1);
    pieces.push(bytes.slice(at, end));
    at = end;
  }
  return pieces;
}
