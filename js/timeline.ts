// What the stopwatch saw. Times are Unix milliseconds with fractions, all on one clock; `null`
// where something did not happen.

/** Bytes that one read of the body gave. */
export interface TimelineRead {
  atMs: number;
  bytes: number;
  /** An event was unfinished behind them. */
  withinEvent: boolean;
}

/** One event, as it was parsed; a body without events is one of them. */
export interface TimelineEvent {
  atMs: number;
  /** Of its data. */
  bytes: number;
  /** 0 for a role or usage alone, 1 for any text of a stream, the server's count of a whole. */
  tokens: number;
  /** All choices and arguments of tools included. */
  textBytes: number;
  /** What a reader is shown: content of the first choice. */
  text: string;
  /** False for a trailing usage event. */
  hasChoices: boolean;
}

/**
 * The moments of one exchange. `JSON.stringify` writes it as it is; what is read back can be
 * summed up and diagnosed again.
 */
export interface Timeline {
  requestMs: number;
  /** Status and headers; no client sees a byte earlier. */
  headersMs: number | null;
  firstByteMs: number | null;
  /** The generator's own stamps: of the local model and the mock; a remote has none. */
  firstTokenMs: number | null;
  generationEndMs: number | null;
  /** The first and the last event with text were parsed. */
  firstTextMs: number | null;
  lastTextMs: number | null;
  /** The first text was painted. */
  firstRenderedMs: number | null;
  renderedBy: 'element-timing' | 'animation-frames' | null;
  /** The body was at its end, or broke. */
  closedMs: number | null;
  status: number | null;
  /** By its content type. */
  isStream: boolean;
  /** Hops that show in the headers; `null` where not all of these can be read. */
  marks: { compression: boolean; proxy: boolean; cdn: boolean } | null;
  reads: TimelineRead[];
  /** But for the marker. */
  events: TimelineEvent[];
  text: string;
  bodyBytes: number;
  /** The server's count, or else one for each event with text. */
  tokens: number;
  outputTokens: number | null;
  outcome: 'open' | 'complete' | 'incomplete' | 'failed';
  /** What says that it is whole: `[DONE]`, a finish reason and a clean end, or one JSON body. */
  completion: 'marker' | 'finish-reason' | 'body' | null;
  failure: 'reset' | 'status' | 'event' | 'truncated' | 'aborted' | null;
}

/** How samples lie; intervals are of 95 %, `null` where samples are too few. */
export interface Spread {
  count: number;
  mean: number;
  min: number;
  p50: number;
  p90: number;
  p95: number;
  p99: number;
  max: number;
  p50Interval: [number, number] | null;
  p95Interval: [number, number] | null;
}

/** Figures under each published definition: `src/measure/figures.rs` has the table. */
export type FigureName =
  | 'headers'
  | 'ttft.generator'
  | 'ttft.any_chunk'
  | 'ttft.first_response'
  | 'ttft.first_text'
  | 'ttft.first_paint'
  | 'ttst'
  | 'itl.events'
  | 'itl.mean_after_first'
  | 'itl.with_first'
  | 'tpot'
  | 'e2e.last_choices'
  | 'e2e.last_response'
  | 'e2e.closed'
  | 'e2e.last_text'
  | 'throughput.request'
  | 'throughput.user';

/** Many exchanges. Those that are not complete are counted, and are in no figure. */
export interface Summary {
  calls: number;
  complete: number;
  incomplete: number;
  failed: number;
  open: number;
  /** Of those that have ended. */
  completionRate: number | null;
  /** Of the complete streams, those whose median gap between texts is below 3 ms. */
  burstShare: number | null;
  tokens: number;
  /** From the first request to the last end. */
  wallMs: number | null;
  /** Tokens a second over that time. */
  throughput: number | null;
  /** Those that were measured: times in ms, throughput in tokens a second. */
  figures: Partial<Record<FigureName, Spread>>;
}
