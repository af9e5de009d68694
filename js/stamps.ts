// Which generator made a response, for whoever measures it.

import type { TraceEvent } from './scenario.js';

/** A generator's own stamps, Unix milliseconds; absent where there are none yet. */
export interface Stamps {
  firstTokenMs?: number | undefined;
  endMs?: number | undefined;
}

const SOURCES = new WeakMap<Response, () => Stamps>();

/** `read` tells the stamps as they are when it is called. */
export function stamp(response: Response, read: () => Stamps): void {
  SOURCES.set(response, read);
}

/** Those of a response that was made in this thread. */
export function stampsOf(response: Response): Stamps | undefined {
  return SOURCES.get(response)?.();
}

/** The generator's stamps in a mock's trace of one reply. */
export function stampsIn(events: readonly TraceEvent[]): Stamps {
  const tokens = events.filter(({ event }) => event === 'token');
  return { firstTokenMs: tokens[0]?.atMs, endMs: tokens.at(-1)?.atMs };
}
