// One exchange under the stopwatch: the platform's side of `src/measure/watch.rs`.

import type { MeasureOptions } from './measure.js';
import { PaintWatch } from './paint.js';
import type { TraceEvent } from './scenario.js';
import { stampsIn, stampsOf } from './stamps.js';
import type { Stamps } from './stamps.js';
import type { ExchangeWatch } from './streaming.js';
import type { Timeline, TimelineEvent } from './timeline.js';

/** Who can tell what happened to a reply, by the number in its header `x-reply-number`. */
export interface Generator {
  /** `scenario` is that of the address, where it has one. */
  trace(reply: number, scenario?: string): TraceEvent[] | Promise<TraceEvent[]>;
}

export class Exchange {
  readonly #options: MeasureOptions;
  readonly #watch: ExchangeWatch;
  readonly #paint: PaintWatch | undefined;
  #whole: Timeline | undefined;
  /** Events that were told. */
  #told = 0;
  /** Text that the next frame shows. */
  #pending = '';

  constructor(Watch: new (requestMs: number) => ExchangeWatch, options: MeasureOptions) {
    this.#options = options;
    this.#paint = options.element === undefined ? undefined : new PaintWatch(options.element);
    this.#watch = new Watch(now());
  }

  async run(request: RequestInfo | URL): Promise<void> {
    const { fetch = globalThis.fetch, init } = this.#options;
    const signal = init?.signal ?? (request instanceof Request ? request.signal : undefined);
    this.#options.onStart?.(() => this.timeline());
    let response: Response;
    try {
      response = await fetch(request, init);
    } catch {
      this.#end(false, signal);
      return;
    }
    const headers = JSON.stringify([...response.headers]);
    this.#watch.headers(now(), response.status, headers, seesAll(response));
    await this.#read(response, signal);
    const stamps = stampsOf(response) ?? (await this.#traced(request, response));
    if (stamps !== undefined) this.#watch.generator(stamps.firstTokenMs, stamps.endMs);
    const paint = await this.#paint?.painted();
    if (paint !== undefined) this.#watch.rendered(paint.atMs, paint.by === 'element-timing');
  }

  /** After the end it stays as it was then. */
  timeline(): Timeline {
    return this.#whole ?? (this.#watch.timeline() as Timeline);
  }

  free(): void {
    this.#whole = this.timeline();
    this.#paint?.close();
    this.#watch.free();
  }

  async #read(response: Response, signal: AbortSignal | null | undefined): Promise<void> {
    const reader = response.body?.getReader();
    for (;;) {
      let bytes: Uint8Array | undefined;
      try {
        bytes = (await reader?.read())?.value;
      } catch {
        this.#end(false, signal);
        return;
      }
      if (bytes === undefined) break;
      const events = this.#watch.read(now(), bytes);
      await this.#tell(events, reader);
    }
    this.#end(true, signal);
  }

  #end(clean: boolean, signal: AbortSignal | null | undefined): void {
    if (!clean && signal?.aborted === true) this.#watch.abort(now());
    else this.#watch.close(now(), clean);
    // A whole body has its event now.
    this.#show(this.#watch.events(this.#told) as TimelineEvent[]);
  }

  async #tell(
    events: number,
    reader: ReadableStreamDefaultReader<Uint8Array> | undefined,
  ): Promise<void> {
    const { element, onEvent } = this.#options;
    if (events === this.#told || (element === undefined && onEvent === undefined)) return;
    const news = this.#watch.events(this.#told) as TimelineEvent[];
    this.#told = events;
    try {
      this.#show(news);
    } catch (error) {
      // The caller's own: nobody reads on.
      await reader?.cancel(error).catch(() => undefined);
      throw error;
    }
  }

  #show(events: TimelineEvent[]): void {
    const { element, onEvent } = this.#options;
    for (const event of events) {
      onEvent?.(event);
      if (event.text === '' || element === undefined) continue;
      if (onEvent === undefined) this.#append(element, event.text);
      else this.#paint?.textShown();
    }
  }

  /** One update a frame. */
  #append(element: Element, text: string): void {
    const isFirst = this.#pending === '';
    this.#pending += text;
    if (!isFirst) return;
    requestAnimationFrame(() => {
      element.append(this.#pending);
      this.#pending = '';
    });
    // The second frame from here is the one after the append.
    this.#paint?.textShown();
  }

  async #traced(request: RequestInfo | URL, response: Response): Promise<Stamps | undefined> {
    const number = response.headers.get('x-reply-number');
    const { generator } = this.#options;
    if (number === null || generator === undefined) return undefined;
    const url = request instanceof Request ? request.url : String(request);
    const scenario = new URL(url, 'http://mock.invalid/').searchParams.get('scenario');
    try {
      const reply = Number(number);
      const events = await generator.trace(reply, scenario ?? undefined);
      return stampsIn(events.filter((event) => event.reply === reply));
    } catch {
      // What cannot be told is absent.
      return undefined;
    }
  }
}

/** Whether no header is kept from the reader: those of other origins are, one by one. */
function seesAll({ type, headers }: Response): boolean {
  const isForeign = type === 'cors' || type === 'opaque';
  return !isForeign || headers.has('access-control-expose-headers');
}

/** Unix milliseconds on the clock that `performance` has. */
function now(): number {
  return performance.timeOrigin + performance.now();
}
