// `model.fetch` on the page: a Request goes to the worker, a Response comes back.
//
// The worker knows the dialect; here are only the platform's types. A streamed body has no
// buffer of its own: each pull raises the credit so that at most `lookahead` tokens are made
// ahead of what the reader took, and a token that adds no bytes is passed over.

import type { Made, WireHead, WireRequest } from './protocol.js';
import { stamp } from './stamps.js';
import type { StreamLink } from './token-stream.js';

type End = { error: unknown } | 'closed';

interface Part {
  bytes: Uint8Array<ArrayBuffer>;
  tokens: number;
}

/** Reads the request and hands it to `open`, which starts it and gives its feed. */
export async function performFetch(
  input: RequestInfo | URL,
  init: RequestInit | undefined,
  open: (request: WireRequest, signal: AbortSignal) => ExchangeFeed,
): Promise<Response> {
  const request = new Request(input, init);
  const { method, signal } = request;
  signal.throwIfAborted();
  const body = new Uint8Array(await request.arrayBuffer());
  signal.throwIfAborted();
  const path = new URL(request.url).pathname;
  return open({ method, path, body }, signal).response;
}

/** One request under way; the model calls it as messages arrive. */
export class ExchangeFeed implements UnderlyingDefaultSource<Uint8Array<ArrayBuffer>> {
  readonly response: Promise<Response>;
  readonly #link: StreamLink;
  readonly #lookahead: number;
  readonly #signal: AbortSignal;
  readonly #onAbort = (): void => this.#abort();
  #fulfil!: (response: Response) => void;
  #reject!: (reason: unknown) => void;
  readonly #ended: Promise<void>;
  #tellEnded!: () => void;
  #controller: ReadableStreamDefaultController<Uint8Array<ArrayBuffer>> | undefined;
  #buffer: Part[] = [];
  #made: Made | undefined;
  /** Tokens whose parts have left the buffer. */
  #taken = 0;
  /** Ends the pull that waits for bytes. */
  #resume: (() => void) | undefined;
  /** How the body ends once the buffer is empty. */
  #end: End | undefined;
  /** Nothing is left to do for the response or its body. */
  #settled = false;

  constructor(link: StreamLink, lookahead: number, signal: AbortSignal) {
    this.#link = link;
    this.#lookahead = lookahead;
    this.#signal = signal;
    this.response = new Promise((fulfil, reject) => {
      this.#fulfil = fulfil;
      this.#reject = reject;
    });
    this.#ended = new Promise((fulfil) => {
      this.#tellEnded = fulfil;
    });
    signal.addEventListener('abort', this.#onAbort, { once: true });
  }

  /** `body`: the whole of it, or `null` when it comes in parts. */
  responded(head: WireHead, body: Uint8Array<ArrayBuffer> | null, made?: Made): void {
    if (this.#settled) return;
    this.#made = made;
    if (body !== null) this.#settle();
    const content = body ?? new ReadableStream(this, { highWaterMark: 0 });
    const response = new Response(content, head);
    stamp(response, () => {
      const { first, last } = this.#made ?? {};
      return { firstTokenMs: unix(first), endMs: unix(last) };
    });
    this.#fulfil(response);
  }

  part(bytes: Uint8Array<ArrayBuffer>, tokens: number, made?: Made): void {
    this.#made = made ?? this.#made;
    if (this.#settled) return;
    this.#buffer.push({ bytes, tokens });
    this.#answerPull();
  }

  /** No part comes any more. */
  ended(): void {
    this.#conclude('closed');
  }

  /** The worker is lost: what was already made is still delivered. */
  failed(error: unknown): void {
    this.#reject(error);
    this.#conclude({ error });
  }

  start(controller: ReadableStreamDefaultController<Uint8Array<ArrayBuffer>>): void {
    this.#controller = controller;
  }

  pull(): void | Promise<void> {
    this.#ask();
    if (this.#deliver()) return;
    return new Promise((resume) => {
      this.#resume = resume;
    });
  }

  /** The reader wants no more; resolves once no step runs for it. */
  async cancel(): Promise<void> {
    this.#settle();
    if (this.#end === undefined) this.#link.cancel();
    await this.#ended;
  }

  #conclude(end: End): void {
    this.#end ??= end;
    this.#tellEnded();
    if (this.#settled) return;
    if (this.#resume !== undefined) this.#answerPull();
    else if (this.#buffer.length === 0) this.#endStream();
  }

  #abort(): void {
    if (this.#settled) return;
    const reason: unknown = this.#signal.reason;
    this.#settle();
    this.#reject(reason);
    this.#controller?.error(reason);
    if (this.#end === undefined) this.#link.cancel();
  }

  #ask(): void {
    if (this.#end === undefined) this.#link.credit(this.#taken + 1 + this.#lookahead);
  }

  #answerPull(): void {
    const resume = this.#resume;
    if (resume === undefined) return;
    if (!this.#deliver()) {
      // Tokens without bytes were passed over: the reader waits for the next.
      this.#ask();
      return;
    }
    this.#resume = undefined;
    resume();
  }

  /** Gives the next bytes or the end to the body; false while there is neither. */
  #deliver(): boolean {
    let part = this.#buffer.shift();
    while (part !== undefined) {
      this.#taken += part.tokens;
      if (part.bytes.byteLength > 0) break;
      part = this.#buffer.shift();
    }
    if (part !== undefined) this.#controller?.enqueue(part.bytes);
    if (this.#buffer.length === 0 && this.#end !== undefined) this.#endStream();
    return part !== undefined || this.#end !== undefined;
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
    this.#signal.removeEventListener('abort', this.#onAbort);
    this.#resume?.();
    this.#resume = undefined;
  }
}

/** Unix milliseconds of a time on the page's timeline. */
function unix(atMs: number | undefined): number | undefined {
  return atMs === undefined ? undefined : performance.timeOrigin + atMs;
}
