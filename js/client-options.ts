// What `createClient` takes and gives, and the checks of it.

import { invalidOption } from './errors.js';
import { TIMERS } from './timers.js';
import type { Timers } from './timers.js';

type Fetch = (input: RequestInfo | URL, init?: RequestInit) => Promise<Response>;

/** One rung of the ladder; the first is asked first. */
export interface Provider {
  name: string;
  /** The platform's, a model's or a mock's. Default: the platform's. */
  fetch?: Fetch | undefined;
  /** Takes the place of a request's address up to and with `/v1`. Default: it stays. */
  baseUrl?: string | URL | undefined;
  /** Added to each request; a key for example. */
  headers?: Record<string, string> | undefined;
  /** Takes the place of a body's `model`: a pinned version. */
  model?: string | undefined;
  /** The version that `rollBack` returns to. */
  previousModel?: string | undefined;
  /** From the first try of this rung to its first text, ms. Default: none. */
  deadlineMs?: number | undefined;
  /** For 1,000,000 tokens, in any currency. */
  prices?: { prompt?: number; cached?: number; completion?: number } | undefined;
}

/** A try, told before it is made: nothing is sent again in silence. */
export interface Attempt {
  provider: string;
  /** From 0. */
  rung: number;
  /** Tries of the call so far, this one included. */
  attempt: number;
  /** The wait before it. */
  waitMs: number;
  /** What a broken stream is continued after; absent for a new reply. */
  lastEventId?: string | undefined;
}

export interface CachedReply {
  contentType: string;
  body: string;
}

/** Where whole replies are kept for the day on which nobody answers. */
export interface ReplyCache {
  get(key: string): CachedReply | undefined | Promise<CachedReply | undefined>;
  set(key: string, reply: CachedReply): void | Promise<void>;
}

export interface EvalCase {
  /** Of `POST /v1/chat/completions`. */
  body: object;
  passes(text: string): boolean;
}

/** In triage order. */
export type Alert =
  | 'error-share'
  | 'p95'
  | 'eval-share'
  | 'cached-share'
  | 'spend'
  | 'fallback-share';

/** What the latest tries show; `null` where there is nothing to show. Shares are 0 to 1. */
export interface ClientMeters {
  /** Tries. */
  calls: number;
  /** Of the time from a try to its first text, ms. */
  p50Ms: number | null;
  p95Ms: number | null;
  errorShare: number | null;
  /** Of prompt tokens, those that the provider had cached. */
  cachedShare: number | null;
  spend: number;
  evalShare: number | null;
  /** Of answers, by rung. */
  rungShares: number[];
  alerts: Alert[];
}

export interface ClientOptions {
  providers: Provider[];
  retry?:
    | {
        /** Tries of a rung in all. Default 3. */
        attempts?: number;
        /** The longest first wait, ms; waits double. Default 500. */
        baseMs?: number;
        /** The longest wait, ms; a server that asks for more is not asked again. Default 8,000. */
        maxMs?: number;
        /**
         * Asks the same rung again with a POST that may have done something. Default: only where
         * its refusal says that nothing was done (429, 503), or with an `Idempotency-Key`.
         */
        posts?: boolean;
      }
    | undefined;
  cache?: ReplyCache | undefined;
  /** A stream without an event for so long counts as broken, ms. Default 30,000. */
  silenceMs?: number | undefined;
  /** When a rung rests; shares are 0 to 1. */
  breaker?:
    | {
        window?: number;
        least?: number;
        errorShare?: number;
        p95Ms?: number;
        restMs?: number;
      }
    | undefined;
  /** Limits of the meters; without one nothing alerts. `least`: tries before one speaks. */
  limits?:
    | {
        window?: number;
        least?: number;
        errorShare?: number;
        p95Ms?: number;
        evalShare?: number;
        cachedShare?: number;
        spend?: number;
        fallbackShare?: number;
      }
    | undefined;
  /** Questions for the first provider, asked by `evaluate` and every `everyMs`. */
  evals?: { cases: EvalCase[]; everyMs?: number | undefined } | undefined;
  onAttempt?: ((attempt: Attempt) => void) | undefined;
  /** Default: this thread's clock. */
  timers?: Timers | undefined;
  /** From 0 to 1. Default `Math.random`. */
  random?: (() => number) | undefined;
}

export interface Client {
  /**
   * Resolves with the first text of a stream, or with the whole of another reply, and tells the
   * provider in `x-tokenbrook-provider` (`cache` for a cached reply). A broken stream goes on
   * where its server can continue it, each event once; otherwise it errors with
   * `stream-incomplete` or `timeout`, and what came stays. Rejects with the signal's reason, and
   * with `rate-limited`, `timeout` or `server-error` where no rung answers.
   */
  fetch: Fetch;
  meters(): Promise<ClientMeters>;
  /** Asks the evaluation set; gives the share that passes. */
  evaluate(): Promise<number>;
  /** Exchanges the provider's `model` and `previousModel`. */
  rollBack(name: string): void;
  /** Ends the schedule of evaluations. */
  dispose(): void;
}

/** The options, checked. */
export interface CheckedClient {
  providers: (Provider & { fetch: Fetch })[];
  settings: object;
  posts: boolean;
  silenceMs: number;
  cache: ReplyCache | undefined;
  evals: ClientOptions['evals'];
  onAttempt: ((attempt: Attempt) => void) | undefined;
  timers: Timers;
  random: () => number;
}

export function checkClientOptions(options: ClientOptions): CheckedClient {
  const { providers, retry = {}, breaker = {}, limits = {} } = options ?? {};
  const { silenceMs = 30_000 } = options ?? {};
  if (!Array.isArray(providers) || providers.length === 0) {
    throw invalidOption('providers', 'an array with one provider at least');
  }
  const { posts = false, ...backoff } = retry;
  const numbers = { ...backoff, ...breaker, ...limits, silenceMs };
  for (const [name, value] of Object.entries(numbers)) {
    if (value === undefined || (typeof value === 'number' && value >= 0)) continue;
    throw invalidOption(name, 'a number, 0 or more');
  }
  return {
    providers: providers.map(checkProvider),
    settings: {
      deadlinesMs: providers.map(({ deadlineMs }) => deadlineMs ?? null),
      retry: backoff,
      breaker,
      meters: limits,
    },
    posts,
    silenceMs,
    cache: options.cache,
    evals: options.evals,
    onAttempt: options.onAttempt,
    timers: options.timers ?? TIMERS,
    random: options.random ?? Math.random,
  };
}

function checkProvider(provider: Provider): Provider & { fetch: Fetch } {
  const { name, fetch, deadlineMs } = provider;
  if (typeof name !== 'string') throw invalidOption('providers.name', 'a string');
  if (fetch !== undefined && typeof fetch !== 'function') {
    throw invalidOption('providers.fetch', 'a function as `fetch`');
  }
  if (deadlineMs !== undefined && !(typeof deadlineMs === 'number' && deadlineMs > 0)) {
    throw invalidOption('providers.deadlineMs', 'a number above 0');
  }
  return { ...provider, fetch: fetch ?? ((input, init) => globalThis.fetch(input, init)) };
}
