// A loaded model on the page: keeps the worker, matches answers to calls, and settles
// everything when the worker is lost or the model is disposed.

import { TokenbrookError, describe, fromWire } from './errors.js';
import { ExchangeFeed, performFetch } from './fetch.js';
import * as check from './options.js';
import type { Call, CallValue, FromWorker, ToWorker } from './protocol.js';
import { TokenFeed, createTokenStream, define } from './token-stream.js';
import type { StreamLink } from './token-stream.js';
import type { ChatMessage, EmbedOptions, GenerateOptions, Memory, Model } from './types.js';
import type { ModelInfo, ScoreResult, TemplateOptions, TokenStream } from './types.js';

interface Pending {
  resolve: (value: CallValue) => void;
  reject: (error: unknown) => void;
}

/** The face of one worker that has told `loaded`. */
export class WorkerModel implements Model {
  declare readonly [Symbol.asyncDispose]: () => Promise<void>;
  readonly info: ModelInfo;
  readonly #worker: Worker;
  readonly #calls = new Map<number, Pending>();
  readonly #feeds = new Map<number, TokenFeed>();
  readonly #exchanges = new Map<number, ExchangeFeed>();
  #nextId = 1;
  /** Why the model takes no calls any more. */
  #gone: TokenbrookError | undefined;

  static {
    define(WorkerModel, Symbol.asyncDispose, function (this: WorkerModel) {
      return this.dispose();
    });
  }

  constructor(worker: Worker, info: ModelInfo) {
    this.#worker = worker;
    this.info = Object.freeze({ ...info });
    worker.onmessage = (event: MessageEvent<FromWorker>) => this.#receive(event.data);
    worker.onmessageerror = () => this.#crash('a message from the worker could not be read');
    worker.onerror = (event) => {
      event.preventDefault();
      this.#crash(event.message);
    };
  }

  memory(): Promise<Memory> {
    return this.#call({ method: 'memory' }) as Promise<Memory>;
  }

  async tokenize(
    text: string,
    options: { special?: boolean | undefined } = {},
  ): Promise<number[]> {
    check.checkText('text', text);
    const special = check.checkTokenizeOptions(options);
    return (await this.#call({ method: 'tokenize', text, special })) as number[];
  }

  async detokenize(ids: ArrayLike<number>): Promise<string> {
    return (await this.#call({ method: 'detokenize', ids: check.checkIds(ids) })) as string;
  }

  async applyChatTemplate(
    messages: ChatMessage[],
    options: TemplateOptions = {},
  ): Promise<string> {
    check.checkMessages('messages', messages);
    const call: Call = {
      method: 'applyChatTemplate',
      messages,
      options: check.checkTemplateOptions(options),
    };
    return (await this.#call(call)) as string;
  }

  async score(input: string | ArrayLike<number>): Promise<ScoreResult> {
    const checked = typeof input === 'string' ? input : check.checkIds(input);
    return (await this.#request((id) => ({ type: 'score', id, input: checked }))) as ScoreResult;
  }

  async embed(
    texts: readonly string[],
    options: EmbedOptions = {},
  ): Promise<Float32Array<ArrayBuffer>[]> {
    const checked = { texts: check.checkTexts(texts), options: check.checkEmbedOptions(options) };
    const vectors = await this.#request((id) => ({ type: 'embed', id, ...checked }));
    return vectors as Float32Array<ArrayBuffer>[];
  }

  generate(input: string | ChatMessage[], options: GenerateOptions = {}): TokenStream {
    const calledAtMs = performance.now();
    const id = this.#nextId++;
    try {
      check.checkInput(input);
      const { engine, ...reading } = check.checkGenerateOptions(options);
      if (this.#gone !== undefined) throw this.#gone;
      const { signal } = reading;
      const feed = new TokenFeed({ link: this.#link(id), ...reading, calledAtMs });
      if (!signal?.aborted) {
        this.#send({ type: 'generate', id, input, options: engine, calledAtMs });
        this.#feeds.set(id, feed);
      }
      return createTokenStream(feed);
    } catch (error) {
      return failedStream(error, calledAtMs);
    }
  }

  readonly fetch = (input: RequestInfo | URL, init?: RequestInit): Promise<Response> => {
    const calledAtMs = performance.now();
    return performFetch(input, init, (request, signal) => {
      if (this.#gone !== undefined) throw this.#gone;
      const id = this.#nextId++;
      const feed = new ExchangeFeed(this.#link(id), check.DEFAULT_LOOKAHEAD, signal);
      this.#exchanges.set(id, feed);
      this.#send({ type: 'exchange', id, request, calledAtMs });
      return feed;
    });
  };

  async dispose(): Promise<void> {
    this.#end(new TokenbrookError('disposed', 'The model was disposed: load it again.'));
  }

  #call(call: Call): Promise<CallValue> {
    return this.#request((id) => ({ type: 'call', id, call }));
  }

  async #request(message: (id: number) => ToWorker): Promise<CallValue> {
    if (this.#gone !== undefined) throw this.#gone;
    const id = this.#nextId++;
    return new Promise<CallValue>((resolve, reject) => {
      this.#calls.set(id, { resolve, reject });
      try {
        this.#send(message(id));
      } catch (error) {
        this.#calls.delete(id);
        reject(typed(error));
      }
    });
  }

  #link(id: number): StreamLink {
    return {
      credit: (total) => this.#send({ type: 'credit', id, total }),
      cancel: () => this.#send({ type: 'cancel', id }),
    };
  }

  #send(message: ToWorker): void {
    if (this.#gone === undefined) this.#worker.postMessage(message);
  }

  #receive(message: FromWorker): void {
    switch (message.type) {
      case 'result':
        this.#take(message.id)?.resolve(message.value);
        break;
      case 'error':
        this.#take(message.id)?.reject(fromWire(message.error));
        break;
      case 'started':
        this.#feeds.get(message.id)?.started(message.promptIds);
        break;
      case 'token':
        this.#feeds.get(message.id)?.token(message.token, message.counters);
        break;
      case 'finished':
        this.#takeFeed(message.id)?.finished(message.stats);
        break;
      case 'failed':
        this.#takeFeed(message.id)?.failed(fromWire(message.error), message.stats);
        break;
      case 'response':
        this.#exchange(message.id, message.body !== null)?.responded(
          message,
          message.body,
          message.madeAtMs,
        );
        break;
      case 'body':
        this.#exchanges.get(message.id)?.part(message.bytes, message.tokens, message.madeAtMs);
        break;
      case 'body-end':
        this.#exchange(message.id, true)?.ended();
        break;
      case 'crashed':
        this.#crash(message.error.message);
        break;
    }
  }

  #take(id: number): Pending | undefined {
    const pending = this.#calls.get(id);
    this.#calls.delete(id);
    return pending;
  }

  #takeFeed(id: number): TokenFeed | undefined {
    const feed = this.#feeds.get(id);
    this.#feeds.delete(id);
    return feed;
  }

  /** The exchange `id`; `last`: nothing comes for it after this. */
  #exchange(id: number, last: boolean): ExchangeFeed | undefined {
    const exchange = this.#exchanges.get(id);
    if (last) this.#exchanges.delete(id);
    return exchange;
  }

  #crash(what: string): void {
    this.#end(crashed(what));
  }

  #end(error: TokenbrookError): void {
    if (this.#gone !== undefined) return;
    this.#gone = error;
    this.#worker.terminate();
    for (const { reject } of this.#calls.values()) reject(error);
    this.#calls.clear();
    const reason = error.code === 'disposed' ? 'cancelled' : 'error';
    for (const feed of this.#feeds.values()) feed.failed(error, null, reason);
    this.#feeds.clear();
    for (const exchange of this.#exchanges.values()) exchange.failed(error);
    this.#exchanges.clear();
  }
}

/** A failure of `generate` comes through the stream, like every later one. */
function failedStream(error: unknown, calledAtMs: number): TokenStream {
  const link = { credit: () => undefined, cancel: () => undefined };
  const feed = new TokenFeed({ link, lookahead: 0, signal: undefined, calledAtMs });
  const stream = createTokenStream(feed);
  feed.failed(typed(error), null);
  return stream;
}

/** What is not typed yet comes from posting a value that cannot be cloned. */
function typed(error: unknown): TokenbrookError {
  if (error instanceof TokenbrookError) return error;
  const message = `The call holds a value that cannot go to a worker: ${describe(error).message}`;
  return new TokenbrookError('invalid-option', message, { cause: error });
}

/** The error after which a worker is of no use. */
export function crashed(what: string): TokenbrookError {
  const message = `The engine stopped (${what}): load the model again.`;
  return new TokenbrookError('internal', message);
}
