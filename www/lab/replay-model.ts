// A reply word by word on a clock: what has arrived, and what somebody has read.

/** A word and when it arrived, in ms since the request. */
export interface Arrival {
  text: string;
  atMs: number;
}

/** People read about so many words a second. */
export const WORDS_PER_SECOND = 5;

/** What a wait of so long does to people. */
export const BANDS = [
  { untilMs: 100, name: 'instant' },
  { untilMs: 1000, name: 'thought kept' },
  { untilMs: 10_000, name: 'attention kept' },
  { untilMs: Infinity, name: 'attention lost' },
] as const;

export function bandOf(waitedMs: number): string {
  return BANDS.find(({ untilMs }) => waitedMs <= untilMs)?.name ?? '';
}

/** Events to words: an event of several words brings them all at once. */
export function arrivalsOf(events: readonly { text: string; atMs: number }[]): Arrival[] {
  return events.flatMap(({ text, atMs }) =>
    (text.match(/\S+\s*|\s+/g) ?? []).map((word) => ({ text: word, atMs })));
}

/** When each word is read: not before it is there, nor before the one ahead of it. */
export function readTimes(arrivals: readonly Arrival[], wordsPerSecond: number): number[] {
  const wordMs = 1000 / wordsPerSecond;
  let atMs = 0;
  return arrivals.map((arrival) => {
    atMs = Math.max(atMs, arrival.atMs) + wordMs;
    return atMs;
  });
}

/** How many of ascending times are not after `nowMs`. */
export function countUntil(times: readonly number[], nowMs: number): number {
  let [low, high] = [0, times.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((times[middle] ?? Infinity) <= nowMs) low = middle + 1;
    else high = middle;
  }
  return low;
}
