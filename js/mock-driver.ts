// Real time for the mock server: the state machine in wasm says when something happens next,
// one timer wakes it up, and bodies are pulled out of it.

import type { TraceEvent } from './scenario.js';
import { stamp, stampsIn } from './stamps.js';
import type { Stamps } from './stamps.js';
import type { MockServer as Core } from './streaming.js';

/** A token from outside; what else it has is not looked at. */
export interface OutsideToken {
  text: string;
}

/** A request as the state machine takes it. */
export interface Incoming {
  method: string;
  url: URL;
  headers: Headers;
  body: Uint8Array;
}

/** Where the text of a reply comes from, for scenarios whose text is `external`. */
export type TokenSource = (request: Incoming) => ReadableStream<OutsideToken>;

type Controller = ReadableStreamDefaultController<Uint8Array<ArrayBuffer>>;

interface Feed {
  reader: ReadableStreamDefaultReader<OutsideToken>;
  waits: boolean;
}

/** Longest delay that timers take. */
const MAX_DELAY_MS = 2 ** 31 - 1;

/** Statuses whose responses have no body. */
const BODILESS = new Set([204, 205, 304]);

export class Driver {
  readonly #core: Core;
  readonly #tokens: TokenSource | undefined;
  readonly #exchanges = new Map<number, Exchange>();
  readonly #feeds = new Map<number, Feed>();
  #timer: ReturnType<typeof setTimeout> | undefined;
  #armedFor: number | undefined;
  #stopped = false;

  constructor(core: Core, tokens: TokenSource | undefined) {
    this.#core = core;
    this.#tokens = tokens;
  }

  /** Unix milliseconds on the clock that `performance` has. */
  static now(): number {
    return performance.timeOrigin + performance.now();
  }

  get core(): Core {
    return this.#core;
  }

  /** When the generator of a reply made its first and its last token. */
  stamps(reply: string | null): Stamps {
    if (reply === null || this.#stopped) return {};
    return stampsIn(JSON.parse(this.#core.trace(Number(reply))) as TraceEvent[]);
  }

  /** Requests whose bodies are not at their end. */
  get open(): number {
    return this.#exchanges.size;
  }

  /** Nothing more happens, and the module's memory is free. */
  stop(): void {
    this.#stopped = true;
    clearTimeout(this.#timer);
    this.#core.free();
  }

  respond(request: Incoming, signal: AbortSignal | undefined): Promise<Response> {
    const { method, url, headers, body } = request;
    const pairs = JSON.stringify([[...url.searchParams], [...headers]]);
    const connection = this.#core.request(Driver.now(), method, url.pathname, pairs, body);
    const exchange = new Exchange(this, connection, request, signal);
    this.#exchanges.set(connection, exchange);
    exchange.start();
    this.settle();
    return exchange.response;
  }

  /** Brings what happened to those who wait for it, and plans the next time to look. */
  settle(): void {
    for (const connection of this.#core.changed()) this.#exchanges.get(connection)?.changed();
    this.#feed();
    this.#arm();
  }

  take(connection: number): Uint8Array<ArrayBuffer> | boolean | undefined {
    return this.#core.take(Driver.now(), connection);
  }

  /** The exchange is over, by its end or because the reader left. */
  forget(connection: number, left: boolean): void {
    if (!this.#exchanges.delete(connection)) return;
    if (left) this.#core.cancel(Driver.now(), connection);
    this.settle();
  }

  #arm(): void {
    const nextMs = this.#core.nextMs();
    if (nextMs === this.#armedFor) return;
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#armedFor = nextMs;
    if (nextMs === undefined) return;
    // Rounded up: a timer that fires a little early would have to be set again, and timers set
    // by timers wait 4 ms at least.
    const delayMs = Math.min(Math.max(0, Math.ceil(nextMs - Driver.now())), MAX_DELAY_MS);
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      this.#armedFor = undefined;
      this.#core.advance(Driver.now());
      this.settle();
    }, delayMs);
  }

  /** Pulls tokens from outside for the replies that wait for one; stops where none is wanted. */
  #feed(): void {
    if (this.#tokens === undefined) return;
    for (const [reply, feed] of this.#feeds) {
      if (this.#core.isActive(reply)) continue;
      this.#feeds.delete(reply);
      feed.reader.cancel().catch(() => undefined);
    }
    for (const reply of this.#core.wanting()) {
      const feed = this.#feeds.get(reply) ?? this.#openFeed(reply, this.#tokens);
      if (feed !== undefined && !feed.waits) void this.#pull(reply, feed);
    }
  }

  #openFeed(reply: number, tokens: TokenSource): Feed | undefined {
    for (const [connection, exchange] of this.#exchanges) {
      if (this.#core.replyOf(connection) !== reply) continue;
      try {
        const feed = { reader: tokens(exchange.request).getReader(), waits: false };
        this.#feeds.set(reply, feed);
        return feed;
      } catch (error) {
        this.#core.end(Driver.now(), reply, String(error));
      }
    }
    return undefined;
  }

  async #pull(reply: number, feed: Feed): Promise<void> {
    feed.waits = true;
    try {
      const { done, value } = await feed.reader.read();
      feed.waits = false;
      if (done) this.#core.end(Driver.now(), reply, undefined);
      else this.#core.push(Driver.now(), reply, String(value.text));
    } catch (error) {
      feed.waits = false;
      this.#core.end(Driver.now(), reply, String(error));
    }
    this.settle();
  }
}

/** One request and its response. */
class Exchange {
  readonly response: Promise<Response>;
  readonly request: Incoming;
  readonly #driver: Driver;
  readonly #connection: number;
  readonly #signal: AbortSignal | undefined;
  readonly #onAbort = (): void => this.#abort();
  #fulfil!: (response: Response) => void;
  #reject!: (reason: unknown) => void;
  #controller: Controller | undefined;
  #hasHead = false;
  #resume: (() => void) | undefined;
  #settled = false;

  constructor(
    driver: Driver,
    connection: number,
    request: Incoming,
    signal: AbortSignal | undefined,
  ) {
    this.#driver = driver;
    this.#connection = connection;
    this.request = request;
    this.#signal = signal;
    this.response = new Promise((fulfil, reject) => {
      this.#fulfil = fulfil;
      this.#reject = reject;
    });
  }

  /** After the driver knows it: an answer may be there at once. */
  start(): void {
    this.#signal?.addEventListener('abort', this.#onAbort, { once: true });
    this.changed();
  }

  /** Something has arrived. */
  changed(): void {
    if (!this.#hasHead) this.#takeHead();
    const resume = this.#resume;
    this.#resume = undefined;
    resume?.();
  }

  #pull(controller: Controller): void | Promise<void> {
    if (this.#settled) return;
    const taken = this.#driver.take(this.#connection);
    if (taken === undefined) {
      return new Promise<void>((resume) => {
        this.#resume = resume;
      }).then(() => this.#pull(controller));
    }
    if (typeof taken !== 'boolean') {
      controller.enqueue(taken);
      this.#driver.settle();
      return;
    }
    if (taken) controller.close();
    else controller.error(new TypeError('The connection broke.'));
    this.#finish(false);
  }

  #takeHead(): void {
    const head = this.#driver.core.head(this.#connection);
    if (head === undefined) {
      // Nothing comes before the head but the end of the connection.
      if (this.#driver.take(this.#connection) === undefined) return;
      this.#hasHead = true;
      this.#reject(new TypeError('The connection broke before the response.'));
      this.#finish(false);
      return;
    }
    this.#hasHead = true;
    const init = JSON.parse(head) as { status: number; headers: [string, string][] };
    if (BODILESS.has(init.status)) {
      this.#finish(true);
      this.#fulfil(new Response(null, init));
      return;
    }
    const source = {
      start: (controller) => {
        this.#controller = controller;
      },
      pull: (controller) => this.#pull(controller),
      // The reader wants no more: the generator stops at once.
      cancel: () => this.#finish(true),
    } satisfies UnderlyingDefaultSource<Uint8Array<ArrayBuffer>>;
    const response = new Response(new ReadableStream(source, { highWaterMark: 0 }), init);
    stamp(response, () => this.#driver.stamps(response.headers.get('x-reply-number')));
    this.#fulfil(response);
  }

  #abort(): void {
    const reason: unknown = this.#signal?.reason;
    this.#reject(reason);
    this.#controller?.error(reason);
    this.#finish(true);
  }

  #finish(left: boolean): void {
    this.#settled = true;
    this.#signal?.removeEventListener('abort', this.#onAbort);
    const resume = this.#resume;
    this.#resume = undefined;
    this.#driver.forget(this.#connection, left);
    resume?.();
  }
}
