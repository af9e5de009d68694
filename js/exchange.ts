// One request in the OpenAI dialect, in the worker: tokens of the generations that it needs
// become the parts of a response, or vectors the whole of it.

import type { Embeddings, Exchange } from './engine.js';
import type { WireError } from './errors.js';
import type { FromWorker, Made } from './protocol.js';
import type { EmbedOutput, Output, Start } from './scheduler.js';
import type { Stats, Token } from './types.js';

export class ExchangeOutput implements Output, EmbedOutput {
  readonly #id: number;
  readonly #exchange: Exchange;
  readonly #post: (message: FromWorker) => void;
  readonly #streams: boolean;
  #headSent = false;
  #firstAtMs: number | undefined;
  #lastAtMs: number | undefined;

  constructor(id: number, exchange: Exchange, post: (message: FromWorker) => void) {
    this.#id = id;
    this.#exchange = exchange;
    this.#post = post;
    this.#streams = exchange.streams;
  }

  /** Tokens that may be made before the reader asks: a whole answer has no reader to wait for. */
  get credit(): number {
    return this.#streams ? 0 : Number.POSITIVE_INFINITY;
  }

  /** The first generation; a request that needs none is answered here. */
  open(): Start | undefined {
    const start = this.#exchange.next();
    if (start === undefined) this.#answer();
    return start;
  }

  started(): void {
    this.#exchange.begin();
    if (!this.#streams) return;
    if (!this.#headSent) {
      this.#headSent = true;
      this.#post({ type: 'response', id: this.#id, ...this.#exchange.head(), body: null });
    }
    this.#send(0);
  }

  token(token: Token): void {
    this.#firstAtMs ??= token.atMs;
    this.#lastAtMs = token.atMs;
    this.#exchange.token(token);
    if (this.#streams) this.#send(1);
  }

  finished(stats: Stats): Start | undefined {
    if (stats.finishReason === 'cancelled') {
      this.#end();
      return undefined;
    }
    this.#exchange.finish(stats);
    const next = this.#exchange.next();
    if (this.#streams) this.#send(0);
    if (next !== undefined) return next;
    if (this.#streams) this.#end();
    else this.#answer();
    return undefined;
  }

  failed(error: WireError): void {
    this.#exchange.fail(error.code, error.message, error.option);
    if (this.#headSent) {
      this.#send(0);
      this.#end();
    } else {
      this.#answer();
    }
  }

  embedded({ vectors, tokens }: Embeddings): void {
    this.#exchange.embedded(vectors, tokens);
    this.#answer();
  }

  cancelled(): void {
    this.#end();
  }

  #send(tokens: 0 | 1): void {
    const bytes = this.#exchange.take();
    const made = tokens === 0 ? {} : { madeAtMs: this.#madeAtMs() };
    this.#post({ type: 'body', id: this.#id, bytes, tokens, ...made });
  }

  /** The whole response at once. */
  #answer(): void {
    const body = this.#exchange.take();
    const made = { madeAtMs: this.#madeAtMs() };
    this.#post({ type: 'response', id: this.#id, ...this.#exchange.head(), body, ...made });
    this.#exchange.free();
  }

  #madeAtMs(): Made | undefined {
    const [first, last] = [this.#firstAtMs, this.#lastAtMs];
    return first === undefined || last === undefined ? undefined : { first, last };
  }

  #end(): void {
    this.#post({ type: 'body-end', id: this.#id });
    this.#exchange.free();
  }
}
