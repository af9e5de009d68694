// Time as the package sees it, so that tests can hold it still.

/** Time, and a call at a later time; the result takes it back. */
export interface Timers {
  nowMs(): number;
  at(ms: number, call: () => void): () => void;
}

/** The clock of this thread. */
export const TIMERS: Timers = {
  nowMs: () => performance.now(),
  at: (ms, call) => {
    const timer = setTimeout(call, Math.max(0, ms - performance.now()));
    return () => clearTimeout(timer);
  },
};
