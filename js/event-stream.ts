// A pair of streams, bytes in and events out, that parses no further than its reader pulls.
//
// Each pull parses one event. A write settles when its bytes are parsed, so that a pipe into
// the pair takes the next piece from its source only then.

import { EVENT, EventReader, NOTHING, checkBytes, checkLimits } from './event-parser.js';
import type { Bytes, ParserLimits, ServerSentEvent } from './event-parser.js';
import { ready } from './ready.js';

export interface EventStreamPair<E = ServerSentEvent> {
  readable: ReadableStream<E>;
  writable: WritableStream<Bytes>;
}

/**
 * For `response.body.pipeThrough(eventStream())`. Waits for `ready` by itself.
 *
 * Reads reject with `server-error` for an event beyond `maxBufferBytes`, and with the reason
 * of an abort of the other end; writes reject with the reason of a cancel. Throws
 * `invalid-option`.
 */
export function eventStream(limits: ParserLimits = {}): EventStreamPair {
  return eventStreamOf(limits, (reader) => reader.event());
}

/** The same with what `take` makes of each event. */
export function eventStreamOf<E>(
  limits: ParserLimits,
  take: (reader: EventReader) => E,
): EventStreamPair<E> {
  checkLimits(limits.maxBufferBytes);
  const pair = new Pair(limits, take);
  return {
    readable: new ReadableStream(pair.source, { highWaterMark: 0 }),
    writable: new WritableStream(pair.sink, { highWaterMark: 1 }),
  };
}

/** Waiting ends with a call of it. */
type Resume = () => void;

class Pair<E> {
  readonly #limits: ParserLimits;
  readonly #take: (reader: EventReader) => E;
  #reader: EventReader | undefined;
  #readable!: ReadableStreamDefaultController<E>;
  #writable!: WritableStreamDefaultController;
  /** A pull that waits for an event. */
  #pulled: Resume | undefined;
  /** A write whose bytes are not all parsed. */
  #parsed: { resolve: Resume; reject: (reason: unknown) => void } | undefined;
  #over = false;

  constructor(limits: ParserLimits, take: (reader: EventReader) => E) {
    this.#limits = limits;
    this.#take = take;
  }

  readonly source: UnderlyingDefaultSource<E> = {
    start: (controller) => {
      this.#readable = controller;
    },
    pull: () =>
      new Promise<void>((resume) => {
        this.#pulled = resume;
        this.#step();
      }),
    cancel: (reason) => {
      this.#writable.error(reason);
      this.#end(reason);
    },
  };

  readonly sink: UnderlyingSink<Bytes> = {
    start: async (controller) => {
      this.#writable = controller;
      // The hook `abort` waits for a write in flight, which waits for the reader.
      const { signal } = controller;
      signal.addEventListener('abort', () => this.#fail(signal.reason), { once: true });
      try {
        await ready;
      } catch (error) {
        this.#fail(error);
        throw error;
      }
      if (!this.#over) this.#reader = new EventReader(this.#limits, false);
    },
    write: (bytes) => {
      try {
        this.#reader?.push(checkBytes(bytes));
      } catch (error) {
        this.#fail(error);
        throw error;
      }
      return new Promise<void>((resolve, reject) => {
        this.#parsed = { resolve, reject };
        this.#step();
      });
    },
    close: () => {
      if (this.#over) return;
      this.#readable.close();
      this.#end();
    },
  };

  /** Parses one event for a waiting pull, if there is one in the bytes at hand. */
  #step(): void {
    const reader = this.#reader;
    if (reader === undefined || this.#parsed === undefined) return;
    while (this.#pulled !== undefined) {
      let kind;
      try {
        kind = reader.next();
      } catch (error) {
        this.#fail(error);
        return;
      }
      if (kind === NOTHING) break;
      if (kind !== EVENT) continue;
      this.#readable.enqueue(this.#take(reader));
      this.#pulled();
      this.#pulled = undefined;
    }
    if (reader.parser.rest > 0) return;
    this.#parsed.resolve();
    this.#parsed = undefined;
  }

  #fail(error: unknown): void {
    if (this.#over) return;
    this.#readable.error(error);
    this.#end(error);
  }

  #end(reason?: unknown): void {
    this.#over = true;
    this.#parsed?.reject(reason);
    this.#parsed = undefined;
    this.#pulled?.();
    this.#pulled = undefined;
    this.#reader?.parser.free();
    this.#reader = undefined;
  }
}
