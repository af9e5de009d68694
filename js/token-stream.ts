// The stream that a generation is read from, on the page.
//
// A ReadableStream without a buffer of its own: each pull is one read. The k-th pull raises the
// credit to k + lookahead, so that nothing is computed for a reader who does not read. Tokens
// that arrive ahead of a pull wait here, at most lookahead + 1 of them. A delivery that holds
// more than that counts for more.

import { TokenDelivery, aheadOf } from './delivery.js';
import type { Counters } from './protocol.js';
import type { Timers } from './timers.js';
import type { Delivery, FinishReason, Stats, Token, TokenIterator, TokenStream } from './types.js';

/** The way to the worker for one generation. */
export interface StreamLink {
  credit(total: number): void;
  cancel(): void;
}

export interface FeedOptions {
  link: StreamLink;
  lookahead: number;
  delivery?: Delivery | undefined;
  signal: AbortSignal | undefined;
  timers?: Timers | undefined;
  /** `performance.now()` of the call. */
  calledAtMs: number;
}

type End = { error: unknown } | 'closed';

/** What fills a [TokenStream]; the model calls it as messages arrive. */
export class TokenFeed implements UnderlyingDefaultSource<Token> {
  readonly stats: Promise<Stats>;
  readonly promptIds: Promise<number[]>;
  readonly #link: StreamLink;
  readonly #lookahead: number;
  readonly #delivery: TokenDelivery | undefined;
  readonly #signal: AbortSignal | undefined;
  readonly #calledAtMs: number;
  readonly #onAbort = (): void => this.#abort();
  #controller: ReadableStreamDefaultController<Token> | undefined;
  #buffer: Token[] = [];
  #pulls = 0;
  /** Ends the pull that waits for a token. */
  #resume: (() => void) | undefined;
  /** How the stream ends once the buffer is empty. */
  #end: End | undefined;
  /** The stream is closed or errored. */
  #settled = false;
  #fulfilStats!: (stats: Stats) => void;
  #statsFulfilled = false;
  #fulfilPromptIds!: (ids: number[]) => void;
  #rejectPromptIds!: (reason: unknown) => void;
  #promptTokens = 0;
  #atMs: number[] = [];
  #firstTextAtMs: number | undefined;
  #counters: Counters | undefined;

  constructor(options: FeedOptions) {
    this.#link = options.link;
    const { delivery } = options;
    this.#lookahead = Math.max(options.lookahead, aheadOf(delivery ?? {}));
    this.#delivery = delivery && this.#deliveryTo(delivery, options.timers);
    this.#signal = options.signal;
    this.#calledAtMs = options.calledAtMs;
    this.stats = new Promise((fulfil) => {
      this.#fulfilStats = fulfil;
    });
    this.promptIds = new Promise((fulfil, reject) => {
      this.#fulfilPromptIds = fulfil;
      this.#rejectPromptIds = reject;
    });
    // Nobody has to look at the prompt.
    this.promptIds.catch(() => undefined);
  }

  start(controller: ReadableStreamDefaultController<Token>): void {
    this.#controller = controller;
    const signal = this.#signal;
    if (signal?.aborted) {
      // The worker never hears of this call.
      this.#statsFulfilled = true;
      this.#fulfilStats(this.#known('cancelled'));
      this.#abort();
    } else {
      signal?.addEventListener('abort', this.#onAbort, { once: true });
    }
  }

  pull(): void | Promise<void> {
    this.#pulls += 1;
    if (this.#end === undefined) this.#link.credit(this.#pulls + this.#lookahead);
    if (this.#deliver()) return;
    return new Promise((resume) => {
      this.#resume = resume;
    });
  }

  /** The reader wants no more; resolves once no step runs for it. */
  async cancel(): Promise<void> {
    this.#settle();
    this.#stop();
    await this.stats;
  }

  /** The scope of `using` is left: like [cancel], even while a reader holds the lock. */
  async close(): Promise<void> {
    if (!this.#settled) {
      this.#settle();
      this.#controller?.close();
      this.#stop();
    }
    await this.stats;
  }

  started(promptIds: number[]): void {
    this.#promptTokens = promptIds.length;
    this.#fulfilPromptIds(promptIds);
  }

  token(token: Token, counters: Counters): void {
    this.#atMs.push(token.atMs);
    if (token.text !== '') this.#firstTextAtMs ??= token.atMs;
    this.#counters = counters;
    if (this.#settled) return;
    if (this.#delivery !== undefined) return this.#delivery.push(token);
    this.#buffer.push(token);
    this.#answerPull();
  }

  finished(stats: Stats): void {
    this.#conclude('closed', stats);
  }

  /** `stats`: where the engine could still tell them. */
  failed(error: unknown, stats: Stats | null, reason: FinishReason = 'error'): void {
    this.#conclude({ error }, stats ?? this.#known(reason));
  }

  #conclude(end: End, stats: Stats): void {
    if (this.#statsFulfilled) return;
    this.#statsFulfilled = true;
    this.#fulfilStats(stats);
    if (end !== 'closed') this.#rejectPromptIds(end.error);
    if (this.#settled) return;
    this.#delivery?.finish();
    this.#endWith(end);
  }

  /** The stream ends like this once what is buffered is read; the first end counts. */
  #endWith(end: End): void {
    this.#end ??= end;
    if (this.#settled) return;
    if (this.#resume !== undefined) this.#answerPull();
    else if (this.#buffer.length === 0) this.#endStream();
  }

  #deliveryTo(delivery: Delivery, timers: Timers | undefined): TokenDelivery {
    const output = {
      show: (tokens: Token[]): void => {
        this.#buffer.push(...tokens);
        this.#answerPull();
      },
      blocked: (): void => {
        this.#endWith('closed');
        this.#stop();
      },
      failed: (error: unknown): void => {
        this.#endWith({ error });
        this.#stop();
      },
    };
    return new TokenDelivery(delivery, output, timers);
  }

  #abort(): void {
    if (this.#settled) return;
    const reason: unknown = this.#signal?.reason;
    this.#rejectPromptIds(reason);
    this.#settle();
    this.#controller?.error(reason);
    this.#stop();
  }

  /** The one path by which a reader ends the work. */
  #stop(): void {
    if (!this.#statsFulfilled) this.#link.cancel();
  }

  #answerPull(): void {
    const resume = this.#resume;
    if (resume === undefined || !this.#deliver()) return;
    this.#resume = undefined;
    resume();
  }

  /** Gives the next token or the end to the stream; false while there is neither. */
  #deliver(): boolean {
    const token = this.#buffer.shift();
    if (token !== undefined) this.#controller?.enqueue(token);
    if (this.#buffer.length === 0 && this.#end !== undefined) this.#endStream();
    return token !== undefined || this.#end !== undefined;
  }

  #endStream(): void {
    if (this.#end === undefined || this.#settled) return;
    const controller = this.#controller;
    // An error drops what is queued, which is what a released reader left: the next pull ends it.
    if (this.#end !== 'closed' && controller?.desiredSize !== 0) return;
    this.#settle();
    if (this.#end === 'closed') controller?.close();
    else controller?.error(this.#end.error);
  }

  #settle(): void {
    this.#settled = true;
    this.#buffer = [];
    this.#delivery?.drop();
    this.#signal?.removeEventListener('abort', this.#onAbort);
    this.#resume?.();
    this.#resume = undefined;
  }

  /** Stats from what arrived here, for when the engine tells nothing any more. */
  #known(finishReason: FinishReason): Stats {
    const times = this.#atMs;
    const first = times[0];
    const last = times[times.length - 1];
    const decodeMs = first === undefined || last === undefined ? null : last - first;
    const since = (atMs: number | undefined) =>
      atMs === undefined ? null : atMs - this.#calledAtMs;
    return {
      finishReason,
      promptTokens: this.#promptTokens,
      cachedTokens: 0,
      completionTokens: times.length,
      decodeSteps: this.#counters?.decodeSteps ?? 0,
      queueMs: this.#counters?.queueMs ?? 0,
      prefillMs: null,
      ttftMs: since(first),
      firstTextMs: since(this.#firstTextAtMs),
      decodeMs,
      prefillTokensPerSecond: null,
      decodeTokensPerSecond: decodeMs ? ((times.length - 1) / decodeMs) * 1000 : null,
      itlMs: times.slice(1).map((atMs, i) => atMs - (times[i] ?? atMs)),
    };
  }
}

type TokenStreamClass = new (feed: TokenFeed) => TokenStream;
let tokenStreamClass: TokenStreamClass | undefined;

/** The stream over `feed`. The class is made at the first call: importing needs no stream. */
export function createTokenStream(feed: TokenFeed): TokenStream {
  tokenStreamClass ??= defineTokenStream();
  return new tokenStreamClass(feed);
}

function defineTokenStream(): TokenStreamClass {
  class Stream extends ReadableStream<Token> {
    readonly #feed: TokenFeed;

    constructor(feed: TokenFeed) {
      super(feed, { highWaterMark: 0 });
      this.#feed = feed;
    }

    static {
      define(Stream, Symbol.dispose, function (this: Stream) {
        void this.#feed.close();
      });
      define(Stream, Symbol.asyncDispose, function (this: Stream) {
        return this.#feed.close();
      });
    }

    get stats(): Promise<Stats> {
      return this.#feed.stats;
    }

    get promptIds(): Promise<number[]> {
      return this.#feed.promptIds;
    }

    override values(options?: ReadableStreamIteratorOptions): TokenIterator {
      return iterate(this, options);
    }

    override [Symbol.asyncIterator](options?: ReadableStreamIteratorOptions): TokenIterator {
      return iterate(this, options);
    }
  }
  return Stream as unknown as TokenStreamClass;
}

/** Adds a method by a symbol that older browsers lack. */
export function define(
  target: { prototype: object },
  name: symbol | undefined,
  value: unknown,
): void {
  if (name === undefined) return;
  Object.defineProperty(target.prototype, name, { value, configurable: true, writable: true });
}

/** Async iteration, which Safari's streams lack. */
function iterate(
  stream: ReadableStream<Token>,
  options: ReadableStreamIteratorOptions = {},
): TokenIterator {
  const reader = stream.getReader();
  let done = false;
  const release = (): void => {
    done = true;
    reader.releaseLock();
  };
  const iterator = {
    async next(): Promise<IteratorResult<Token, undefined>> {
      if (done) return { done: true, value: undefined };
      try {
        const result = await reader.read();
        if (!result.done) return result;
      } catch (error) {
        release();
        throw error;
      }
      release();
      return { done: true, value: undefined };
    },
    async return(): Promise<IteratorResult<Token, undefined>> {
      if (!done) {
        const cancelled = options.preventCancel ? undefined : reader.cancel();
        release();
        await cancelled;
      }
      return { done: true, value: undefined };
    },
    [Symbol.asyncIterator]() {
      return iterator;
    },
  };
  return iterator as unknown as TokenIterator;
}
