// What the stopwatch makes of a timeline.

/** What turns a stream back into one reply, or ends it. */
export type HopName =
  | 'proxy'
  | 'compression'
  | 'cdn'
  | 'framework'
  | 'client'
  | 'idle'
  | 'narrow';

/** Numbers that a diagnosis rests on; `null` where there is nothing to measure. */
export interface Evidence {
  textEvents: number;
  /** Reads in which such an event ended. */
  textReads: number;
  medianGapMs: number | null;
  largestGapMs: number | null;
  /** Groups of reads that are less than 3 ms apart. */
  bursts: number;
  /** Median of their bytes, without the last of several. */
  burstBytes: number | null;
  /** Within 2 %. */
  equalBursts: boolean;
  /** Share of the bursts but the last behind which an event was unfinished. */
  withinEventShare: number | null;
  /** From the request to the first text. */
  silenceMs: number | null;
  /** From the headers to the first byte of the body. */
  headersAheadMs: number | null;
  /** From the last read to the end. */
  lastSilenceMs: number | null;
  largestReadGapMs: number | null;
  bodyBytes: number;
  /** A rate at which every read took as long as its bytes. */
  constantBytesPerSecond: number | null;
  /** Gaps between reads are alike, within 10 %. */
  steady: boolean;
  /** By the generator's own stamps: first to last token, and how much later their text came. */
  generationMs: number | null;
  firstLagMs: number | null;
  lastLagMs: number | null;
}

/** A judgement and what it rests on; `src/measure/diagnose.rs` has the rules. */
export interface Diagnosis {
  verdict: 'healthy' | 'buffered' | 'stalled' | 'cut' | 'incomplete' | 'failed' | 'unclear';
  /** Where only one fits. */
  hop: HopName | null;
  /** All that fit. */
  hops: HopName[];
  /** A sentence. */
  because: string;
  evidence: Evidence;
}

/** What the public path adds. */
export interface Comparison {
  direct: Diagnosis;
  public: Diagnosis;
  /** What makes the difference, where only one fits. */
  hop: HopName | null;
  /** All that fit; none where there is no difference. */
  hops: HopName[];
  /** What both paths have, where the direct one is held back too. */
  shared: HopName[];
  because: string;
  /** How much later text comes, from the request on. */
  addedFirstTextMs: number | null;
  addedLastTextMs: number | null;
}
