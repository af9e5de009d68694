// How patient a download is. The defaults suit people and servers; tests have less time.

export interface Tuning {
  /** Requests under way at a time. */
  connections: number;
  /** Without so many bytes in so long a time, a transfer has stalled. */
  stallMs: number;
  stallBytes: number;
  /** Attempts in a row that bring next to nothing, before a download is given up. */
  attempts: number;
  /** Wait before the second attempt; it doubles from one to the next, up to the most. */
  backoffMs: number;
  maxBackoffMs: number;
  /** Of files that are begun: what is read, checked, and fetched again, as a whole. */
  segmentBytes: number;
}

export const DEFAULT_TUNING: Tuning = {
  connections: 4,
  stallMs: 15_000,
  stallBytes: 4096,
  attempts: 5,
  backoffMs: 300,
  maxBackoffMs: 30_000,
  segmentBytes: 8 << 20,
};

/** The defaults, less what the query of the worker's address says otherwise. */
export function tuningOf(query: URLSearchParams): Tuning {
  const tuning = { ...DEFAULT_TUNING };
  for (const name of Object.keys(tuning) as (keyof Tuning)[]) {
    const value = Number(query.get(name) ?? Number.NaN);
    if (Number.isSafeInteger(value) && value > 0) tuning[name] = value;
  }
  return tuning;
}
