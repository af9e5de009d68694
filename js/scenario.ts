// What a mock server plays. The names and limits are those of `src/mock/scenario`, which checks
// them: a field that is not known is refused with its place.

/** Where text comes from. One word with the space after it is one token. */
export type ScenarioText =
  | { kind: 'words'; words: string }
  | { kind: 'seeded'; tokens: number }
  | { kind: 'echo' }
  | { kind: 'trace'; tokens: { text: string; afterMs: number }[] }
  | { kind: 'external' };

/** Time from token to token. */
export type ScenarioPace =
  | { kind: 'fixed'; ms: number }
  | { kind: 'uniform'; ms: number; jitterMs: number }
  | { kind: 'log-normal'; medianMs: number; sigma: number }
  | { kind: 'trace'; ms: number[] }
  | { kind: 'busy'; weightsBytes: number; bytesPerSecond: number; floorMs?: number };

/** Something that turns a stream back into one reply. */
export type ScenarioHop =
  | { kind: 'proxy'; bufferBytes?: number; honoursHeader?: boolean }
  | { kind: 'compression'; blockBytes?: number }
  | { kind: 'cdn' }
  | { kind: 'framework' }
  | { kind: 'client' }
  | { kind: 'idle'; ms: number; reset?: boolean }
  | { kind: 'narrow'; bytesPerSecond: number };

/** Paid goes before free wherever both wait. */
export type Tier = 'paid' | 'free';

/** What goes wrong; nothing, where nothing is set. */
export interface ScenarioFaults {
  firstRequests?: number;
  failBefore?: { status: number; retryAfterSeconds?: number };
  failAt?: { token: number };
  omit?: 'marker' | 'all';
  cut?: { byte: number; reset?: boolean };
  splitUtf8Ms?: number;
  contentType?: string;
  roleChunk?: 'at-once' | 'with-text' | 'never';
}

/** Pools, the queue before them, and what is refused. */
export interface ScenarioOverload {
  pools: { name: string; tier?: Tier; seats: number; replicas?: number }[];
  waiting?: { limit?: number; memoryBytes?: number };
  bucket?: { burstTokens: number; tokensPerSecond: number; share?: number; tier?: Tier };
  shed?: { targetLoad: number; serviceMs: number; windowMs?: number };
  retryAfterMs?: number;
  incidents?: { atMs: number; capacity: number }[];
}

/**
 * Everything that decides what a mock server answers and when. Absent fields mean eighteen
 * words, one each 33 ms, and a path without delay.
 */
export interface Scenario {
  seed?: number;
  model?: string;
  text?: ScenarioText;
  /** Another model under the same name; under the name `pinned` the one of before answers. */
  swap?: { afterRequests: number; text: ScenarioText; pinned?: string };
  toolCalls?: { name: string; arguments: string; parts?: number }[];
  prefill?: {
    queueMs?: number;
    msPerToken?: number;
    msPerSquaredToken?: number;
    coldStartMs?: number;
    promptTokens?: number;
    /** Beginnings of earlier prompts are not computed again; `cached_tokens` tells of them. */
    prefixCache?: { blockTokens?: number; ttlMs?: number };
  };
  pace?: ScenarioPace;
  stalls?: { atToken: number; ms: number }[];
  delivery?: {
    batchTokens?: number;
    batchMs?: number;
    holdBackTokens?: number;
    whole?: boolean;
  };
  transit?: { requestMs?: number; responseMs?: number };
  hops?: ScenarioHop[];
  keepAliveMs?: number;
  faults?: ScenarioFaults;
  slowClient?: {
    silenceMs?: number;
    queuedBytes?: number;
    highWaterTokens?: number;
    ignoresBackpressure?: boolean;
  };
  resume?: { graceMs?: number; ttlMs?: number; retryMs?: number };
  capacity?: {
    memoryBytes?: number;
    kvBytesPerToken?: number;
    contextTokens?: number;
    seats?: number;
    overcommit?: boolean;
  };
  overload?: ScenarioOverload;
}

/** Scenarios by name: what `?scenario=NAME` of an address plays. */
export const scenarios = {
  /** Eighteen words at 33 ms. */
  words: {},
  /** 120 words at 33 ± 8 ms: what the lab measures. */
  lab: {
    seed: 42,
    text: { kind: 'seeded', tokens: 120 },
    pace: { kind: 'uniform', ms: 33, jitterMs: 8 },
  },
  /** The last message comes back. */
  echo: { text: { kind: 'echo' } },
  /** The lab's words behind a proxy that buffers. */
  buffered: {
    seed: 42,
    text: { kind: 'seeded', tokens: 120 },
    hops: [{ kind: 'proxy', bufferBytes: 4096 }],
  },
  /** An error event after ten tokens. */
  failing: { faults: { failAt: { token: 10 } } },
  /** The connection breaks; a reader that comes back gets the rest. */
  resumable: {
    faults: { cut: { byte: 200, reset: true }, firstRequests: 1 },
    resume: { graceMs: 10_000, ttlMs: 60_000, retryMs: 100 },
  },
  /** Two seats and a queue of two, then 429. */
  overloaded: {
    overload: { pools: [{ name: 'all', seats: 2 }], waiting: { limit: 2 }, retryAfterMs: 2000 },
  },
} as const satisfies Record<string, Scenario>;

/** What happened to a reply; further fields by the kind of `event`. */
export interface TraceEvent {
  /** Unix time in ms, with fractions. */
  atMs: number;
  /** Number of the reply, from 0. */
  reply: number;
  event: string;
  [field: string]: unknown;
}

/** Counts of a mock server. */
export interface MockStats {
  requests: number;
  refused: number;
  rateLimited: number;
  finished: number;
  failed: number;
  cancelled: number;
  /** Tokens made, and written to readers. */
  produced: number;
  sent: number;
  readBytes: number;
  queuedBytes: number;
  active: number;
  connections: number;
  kept: number;
  seatsUsed: number;
  /** `null` where there is no limit. */
  seats: number | null;
  waiting: number;
  kvBytes: number;
  queueWait: { count: number; totalMs: number; maxMs: number };
  traceDropped: number;
}
