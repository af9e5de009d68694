// One call of a client: from rung to rung to the first text, then to the end of the reply.
//
// Long because one call has one state: whatever ends an attempt (a refusal, a cut, a time-out, a
// stop) decides with it whether the next one asks again, resumes, or goes a rung down.

import type { CheckedClient, Provider } from './client-options.js';
import { TokenbrookError } from './errors.js';
import type { EventWithId } from './event-parser.js';
import { eventStreamOf } from './event-stream.js';
import { module } from './ready.js';
import type { ClientCall, ClientCore, Next } from './streaming.js';

/** What all calls of a client share. */
export interface Shared extends CheckedClient {
  core: ClientCore;
}

type Events = ReadableStreamDefaultReader<EventWithId>;

/** Why a wait ended other than by its result. */
class Late extends Error {}

const STREAM = 'text/event-stream';

/** How the module says that the server failed. */
const FAILED = 'failed: ';

export class ClientRun {
  readonly #shared: Shared;
  readonly #request: Request;
  readonly #body: Uint8Array<ArrayBuffer> | undefined;
  readonly #call: ClientCall;
  /** Ends everything that is on its way. */
  #abort = new AbortController();
  #attempts = 0;
  #lastStatus = 0;
  #wasLate = false;
  #lastError: unknown;
  #firstTextMs = 0;
  /** The reply as it goes to the cache. */
  #kept = '';
  #refusal: Response | undefined;
  /** Lets go of the caller's signal. */
  #unlisten: () => void = () => undefined;

  static async start(shared: Shared, request: Request): Promise<Response> {
    const body = request.body === null ? undefined : new Uint8Array(await request.arrayBuffer());
    const run = new ClientRun(shared, request, body);
    const { signal } = request;
    const onAbort = (): void => run.#abort.abort(signal.reason);
    signal.addEventListener('abort', onAbort, { once: true });
    run.#unlisten = () => signal.removeEventListener('abort', onAbort);
    return run.#descend();
  }

  private constructor(
    shared: Shared,
    request: Request,
    body: Uint8Array<ArrayBuffer> | undefined,
  ) {
    this.#shared = shared;
    this.#request = request;
    this.#body = body;
    const isSafe = ['GET', 'HEAD', 'OPTIONS'].includes(request.method);
    const repeatable = isSafe || shared.posts || request.headers.has('idempotency-key');
    this.#call = shared.core.begin(shared.timers.nowMs(), repeatable);
  }

  async #descend(): Promise<Response> {
    const { core, timers } = this.#shared;
    let next = this.#call.first();
    while (next.kind === 'try') {
      try {
        if (next.waitMs > 0) await this.#wait(next.waitMs);
        const outcome: Next | Response = await this.#try(next.rung, next.waitMs, next.deadlineMs);
        if (outcome instanceof Response) return outcome;
        next = outcome;
      } catch (error) {
        core.abandoned(this.#call, timers.nowMs());
        this.#unlisten();
        throw error;
      }
    }
    this.#unlisten();
    if (next.kind === 'answer' && this.#refusal !== undefined) return this.#refusal;
    return this.#fall();
  }

  /** One try: a response with text in it, or what to do next. */
  async #try(rung: number, waitMs: number, deadlineMs: number | null): Promise<Next | Response> {
    const { core, timers, random } = this.#shared;
    const provider = this.#provider(rung);
    this.#tell(provider, rung, waitMs);
    const ends = deadlineMs === null ? Number.POSITIVE_INFINITY : timers.nowMs() + deadlineMs;
    const attempt = new AbortController();
    const failed = (responded: boolean, error: unknown): Next => {
      this.#abort.signal.throwIfAborted();
      this.#wasLate = error instanceof Late;
      this.#lastError = error;
      attempt.abort(error);
      const nowMs = timers.nowMs();
      return core.noAnswer(this.#call, nowMs, responded, this.#wasLate, random());
    };
    let response: Response;
    try {
      response = await this.#inTime(provider.fetch(...this.#asked(provider, attempt)), ends);
    } catch (error) {
      return failed(false, error);
    }
    if (!response.ok) return this.#refused(response);
    try {
      return isStream(response)
        ? await this.#stream(provider, response, ends)
        : await this.#whole(provider, response, ends);
    } catch (error) {
      return failed(true, error);
    }
  }

  #refused(response: Response): Next {
    const { core, timers, random } = this.#shared;
    this.#lastStatus = response.status;
    const retryAfter = response.headers.get('retry-after') ?? undefined;
    const next = core.refused(
      this.#call,
      timers.nowMs(),
      response.status,
      retryAfter,
      Date.now(),
      random(),
    );
    if (next.kind === 'answer') this.#refusal = response;
    else response.body?.cancel().catch(() => undefined);
    return next;
  }

  async #whole(provider: Provider, response: Response, ends: number): Promise<Response> {
    const body = await this.#inTime(response.text(), ends);
    if (!this.#call.hearWhole(body)) throw new TypeError('the reply is no JSON object');
    this.#answered();
    this.#kept = body;
    this.#over(provider, response);
    return new Response(body, { status: response.status, headers: this.#head(provider, response) });
  }

  /** Reads up to the first text, so that another rung can still take over. */
  async #stream(provider: Provider, response: Response, ends: number): Promise<Response> {
    const { timers, silenceMs } = this.#shared;
    const events = eventsOf(response);
    const held: EventWithId[] = [];
    try {
      while (!this.#call.hasText && !this.#call.isComplete) {
        const limit = Math.min(ends, timers.nowMs() + silenceMs);
        const { done, value } = await this.#inTime(events.read(), limit);
        if (done) throw new TypeError('the stream ended before its first text');
        const heard = this.#hear(value);
        if (heard.startsWith(FAILED)) throw new TypeError(heard);
        if (heard !== 'again') held.push(value);
      }
    } catch (error) {
      events.cancel(error).catch(() => undefined);
      throw error;
    }
    this.#answered();
    const body = new ReplyBody(this, held, events, provider, response);
    const stream = new ReadableStream(body, { highWaterMark: 0 });
    return new Response(stream, { status: 200, headers: this.#head(provider, response) });
  }

  #hear({ event: { event, data }, ownId }: EventWithId): string {
    return this.#call.hear(event, data, ownId);
  }

  #answered(): void {
    const { core, timers } = this.#shared;
    this.#firstTextMs = core.answered(this.#call, timers.nowMs());
  }

  /** The reply is over, whole or not. */
  #over(provider: Provider, response: Response): void {
    this.#unlisten();
    const { core, cache } = this.#shared;
    const { prompt = 0, cached = prompt, completion = 0 } = provider.prices ?? {};
    const perToken = [prompt / 1e6, cached / 1e6, completion / 1e6] as const;
    core.record(this.#call, this.#firstTextMs, ...perToken);
    if (cache === undefined || !this.#call.isComplete) return;
    const contentType = response.headers.get('content-type') ?? STREAM;
    // A cache that fails costs the next fall, not this reply.
    Promise.resolve(cache.set(this.#key(), { contentType, body: this.#kept })).catch(
      () => undefined,
    );
  }

  async #fall(): Promise<Response> {
    const found = await this.#shared.cache?.get(this.#key());
    if (found !== undefined) {
      const headers = { 'content-type': found.contentType, 'x-tokenbrook-provider': 'cache' };
      return new Response(found.body, { headers });
    }
    const code =
      this.#lastStatus === 429 ? 'rate-limited' : this.#wasLate ? 'timeout' : 'server-error';
    const last = this.#lastStatus > 0 ? ` (HTTP ${this.#lastStatus})` : '';
    throw new TokenbrookError(code, `No provider of the client answered${last}: try later.`, {
      cause: this.#lastError,
      ...(this.#lastStatus > 0 && { status: this.#lastStatus }),
    });
  }

  #key(): string {
    const { method, url } = this.#request;
    const body = this.#body === undefined ? '' : new TextDecoder().decode(this.#body);
    return `${method} ${new URL(url).pathname}\n${body}`;
  }

  #provider(rung: number): CheckedClient['providers'][number] {
    const provider = this.#shared.providers[rung];
    if (provider === undefined) throw new RangeError(`there is no rung ${rung}`);
    return provider;
  }

  #tell(provider: Provider, rung: number, waitMs: number, lastEventId?: string): void {
    this.#attempts += 1;
    const attempt = { provider: provider.name, rung, attempt: this.#attempts, waitMs };
    this.#shared.onAttempt?.(lastEventId === undefined ? attempt : { ...attempt, lastEventId });
  }

  /** The request as this provider gets it. */
  #asked(provider: Provider, attempt: AbortController): [string, RequestInit] {
    const { method, headers } = this.#request;
    const { signal } = this.#abort;
    signal.addEventListener('abort', () => attempt.abort(signal.reason), { once: true });
    const init: RequestInit = { method, headers: withHeaders(headers, provider) };
    if (this.#body !== undefined) init.body = withModel(this.#body, provider.model);
    return [addressOf(this.#request.url, provider.baseUrl), { ...init, signal: attempt.signal }];
  }

  #head(provider: Provider, response: Response): Record<string, string> {
    return {
      'content-type': response.headers.get('content-type') ?? 'application/json',
      'x-tokenbrook-provider': provider.name,
      'x-tokenbrook-attempts': String(this.#attempts),
    };
  }

  #wait(ms: number): Promise<void> {
    const { timers } = this.#shared;
    return this.#inTime(
      new Promise<void>((resolve) => void timers.at(timers.nowMs() + ms, resolve)),
      Number.POSITIVE_INFINITY,
    );
  }

  /** The promise's result, unless time is up or the caller leaves. */
  #inTime<T>(promise: Promise<T>, endsMs: number): Promise<T> {
    const { timers } = this.#shared;
    const { signal } = this.#abort;
    return new Promise<T>((resolve, reject) => {
      const late = (): void => reject(new Late('nothing came in time'));
      const takeBack = Number.isFinite(endsMs) ? timers.at(endsMs, late) : undefined;
      const abort = (): void => reject(signal.reason);
      if (signal.aborted) abort();
      signal.addEventListener('abort', abort, { once: true });
      promise.then(resolve, reject).finally(() => {
        takeBack?.();
        signal.removeEventListener('abort', abort);
      });
    });
  }

  // What the body of a stream needs of its call.

  next(events: Events): Promise<ReadableStreamReadResult<EventWithId>> {
    const { timers, silenceMs } = this.#shared;
    return this.#inTime(events.read(), timers.nowMs() + silenceMs);
  }

  hear(event: EventWithId): string {
    return this.#hear(event);
  }

  /** The events of the reply after those that came, if its server can go on. */
  async resume(provider: Provider, tried: number): Promise<Events | undefined> {
    const lastEventId = this.#call.reconnect();
    const { core, random } = this.#shared;
    const waitMs = core.resumeWaitMs(tried, random());
    if (lastEventId === undefined || waitMs === undefined) return undefined;
    await this.#wait(waitMs);
    const rung = this.#shared.providers.findIndex(({ name }) => name === provider.name);
    this.#tell(provider, rung, waitMs, lastEventId);
    const [url, init] = this.#asked(provider, new AbortController());
    const headers = new Headers(init.headers);
    headers.set('last-event-id', lastEventId);
    headers.set('accept', STREAM);
    headers.delete('content-type');
    // A GET: whatever its server makes of it, no second reply begins.
    const { body: _, ...rest } = init;
    const fetch = (provider as CheckedClient['providers'][number]).fetch;
    const asked = fetch(url, { ...rest, method: 'GET', headers });
    const endsMs = this.#shared.timers.nowMs() + this.#shared.silenceMs;
    const response = await this.#inTime(asked, endsMs);
    if (response.status === 200 && isStream(response)) return eventsOf(response);
    response.body?.cancel().catch(() => undefined);
    return undefined;
  }

  get isComplete(): boolean {
    return this.#call.isComplete;
  }

  keep(text: string): void {
    if (this.#shared.cache !== undefined) this.#kept += text;
  }

  over(provider: Provider, response: Response): void {
    this.#over(provider, response);
    this.#call.free();
  }

  throwIfAborted(): void {
    this.#abort.signal.throwIfAborted();
  }

  leave(reason: unknown): void {
    this.#abort.abort(reason);
  }
}

/** The body of a reply from its first text on. */
class ReplyBody implements UnderlyingDefaultSource<Uint8Array> {
  readonly #run: ClientRun;
  readonly #held: EventWithId[];
  readonly #provider: Provider;
  readonly #response: Response;
  readonly #encoder = new TextEncoder();
  #events: Events;
  #isOver = false;
  /** What the server said of its own failure. */
  #said: string | undefined;
  /** Connections in a row that brought nothing new. */
  #fruitless = 1;

  constructor(
    run: ClientRun,
    held: EventWithId[],
    events: Events,
    provider: Provider,
    response: Response,
  ) {
    this.#run = run;
    this.#held = held;
    this.#events = events;
    this.#provider = provider;
    this.#response = response;
  }

  async pull(controller: ReadableStreamDefaultController<Uint8Array>): Promise<void> {
    try {
      const event = this.#held.shift() ?? (await this.#next());
      if (this.#isOver) return;
      if (event === undefined) {
        this.#end();
        controller.close();
      } else {
        controller.enqueue(this.#encoded(event));
      }
    } catch (error) {
      if (this.#isOver) return;
      this.#end();
      controller.error(error);
    }
  }

  cancel(reason: unknown): void {
    this.#events.cancel(reason).catch(() => undefined);
    this.#run.leave(reason);
    this.#end();
  }

  /** The next event that the reader does not have; nothing at the end. */
  async #next(): Promise<EventWithId | undefined> {
    for (;;) {
      let failure: unknown;
      try {
        const { done, value } = await this.#run.next(this.#events);
        if (!done) {
          const heard = this.#run.hear(value);
          if (heard === 'again') continue;
          if (heard.startsWith(FAILED)) this.#said = heard.slice(FAILED.length);
          this.#fruitless = 1;
          return value;
        }
      } catch (error) {
        failure = error;
      }
      if (this.#isOver) return undefined;
      this.#run.throwIfAborted();
      // A finish reason is enough for servers that do without the marker.
      if (this.#run.isComplete) return undefined;
      await this.#goOn(failure);
    }
  }

  async #goOn(failure: unknown): Promise<void> {
    this.#events.cancel(failure).catch(() => undefined);
    const events = await this.#run.resume(this.#provider, this.#fruitless);
    this.#fruitless += 1;
    if (events !== undefined) {
      this.#events = events;
      return;
    }
    if (this.#said !== undefined) throw new TokenbrookError('server-error', this.#said);
    const isLate = failure instanceof Late;
    throw new TokenbrookError(
      isLate ? 'timeout' : 'stream-incomplete',
      `The stream ${isLate ? 'fell silent' : 'broke off'} before its end; what came is a part.`,
      { cause: failure },
    );
  }

  #encoded({ event: { event, data }, ownId }: EventWithId): Uint8Array {
    const type = event === 'message' ? undefined : event;
    const text = module().encodeEvent(undefined, type, ownId, undefined, data);
    this.#run.keep(text);
    return this.#encoder.encode(text);
  }

  #end(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#run.over(this.#provider, this.#response);
  }
}

function isStream(response: Response): boolean {
  const type = response.headers.get('content-type') ?? '';
  return type.split(';')[0]?.trim().toLowerCase() === STREAM && response.body !== null;
}

function eventsOf(response: Response): Events {
  const { body } = response;
  if (body === null) throw new TypeError('the response has no body');
  const pair = eventStreamOf({}, (reader) => reader.eventWithId());
  return body.pipeThrough<EventWithId>(pair).getReader();
}

function addressOf(url: string, baseUrl: string | URL | undefined): string {
  if (baseUrl === undefined) return url;
  const { pathname, search } = new URL(url);
  const at = pathname.indexOf('/v1/');
  const rest = at < 0 ? pathname : pathname.slice(at + '/v1'.length);
  return `${String(baseUrl).replace(/\/$/, '')}${rest}${search}`;
}

function withHeaders(headers: Headers, provider: Provider): Headers {
  const all = new Headers(headers);
  for (const [name, value] of Object.entries(provider.headers ?? {})) all.set(name, value);
  return all;
}

/** A JSON body with another model; any other body as it is. */
function withModel(
  body: Uint8Array<ArrayBuffer>,
  model: string | undefined,
): string | Uint8Array<ArrayBuffer> {
  if (model === undefined) return body;
  try {
    const parsed: unknown = JSON.parse(new TextDecoder().decode(body));
    if (typeof parsed !== 'object' || parsed === null || Array.isArray(parsed)) return body;
    return JSON.stringify({ ...parsed, model });
  } catch {
    return body;
  }
}
