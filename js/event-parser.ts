// Bytes of an event stream in, events out by callback.

import { asTokenbrookError, invalidOption } from './errors.js';
import { module } from './ready.js';
import type { EventParser } from './streaming.js';

export interface ServerSentEvent {
  /** `message` where the stream names none. */
  event: string;
  /** The data lines, joined with LF. */
  data: string;
  /** The last id of the stream so far, which may be an earlier event's; `''` without one. */
  id: string;
}

export interface ParserLimits {
  /**
   * Bytes kept of one unfinished event at most; a larger one is a `server-error`, after which
   * the parser takes nothing more of the stream. Default 64 MiB.
   */
  maxBufferBytes?: number | undefined;
}

export interface ParserCallbacks extends ParserLimits {
  onEvent: (event: ServerSentEvent) => void;
  /** A comment line, without its colon and one space after that. */
  onComment?: ((comment: string) => void) | undefined;
  /** How long to wait before a reconnection, ms. */
  onRetry?: ((ms: number) => void) | undefined;
}

export type Bytes = ArrayBuffer | ArrayBufferView;

/** `ItemKind` of the module. */
export const [NOTHING, EVENT, COMMENT, RETRY] = [0, 1, 2, 3] as const;

/**
 * Parses a stream from pieces of any size. Callbacks run within [push], in the order of the
 * stream; what a callback throws comes out of [push], and the next push goes on behind it.
 */
export class EventStreamParser {
  readonly #callbacks: ParserCallbacks;
  readonly #reader: EventReader;
  #parsing = false;

  /** Throws `invalid-option`, and `unsupported-environment` before `ready`. */
  constructor(callbacks: ParserCallbacks) {
    const { onEvent, onComment, onRetry } = callbacks ?? {};
    if (typeof onEvent !== 'function') throw invalidOption('onEvent', 'a function');
    for (const [name, callback] of Object.entries({ onComment, onRetry })) {
      if (callback !== undefined && typeof callback !== 'function') {
        throw invalidOption(name, 'a function');
      }
    }
    this.#callbacks = callbacks;
    this.#reader = new EventReader(callbacks, onComment !== undefined);
  }

  /** The id that a reconnection sends as `Last-Event-ID`; `''` without one. */
  get lastEventId(): string {
    return this.#reader.parser.lastEventId;
  }

  /** Throws `invalid-option` for what is not bytes, `server-error` past the limit. */
  push(bytes: Bytes): void {
    this.#reader.push(bytes);
    // Called from a callback: the loop below it goes on.
    if (this.#parsing) return;
    this.#parsing = true;
    try {
      while (this.#step());
    } finally {
      this.#parsing = false;
    }
  }

  /**
   * The stream is over, or nobody wants the rest of it: drops an unfinished event, as the
   * standard says. The next push starts a new stream.
   */
  end(): void {
    this.#reader.end();
  }

  #step(): boolean {
    const { onEvent, onComment, onRetry } = this.#callbacks;
    const reader = this.#reader;
    switch (reader.next()) {
      case NOTHING:
        return false;
      case EVENT:
        onEvent(reader.event());
        break;
      case COMMENT:
        onComment?.(reader.parser.takeData());
        break;
      case RETRY:
        onRetry?.(reader.parser.retryMs);
    }
    return true;
  }
}

export interface EventWithId {
  event: ServerSentEvent;
  ownId: string | undefined;
}

/** The module's parser with plain values around it. */
export class EventReader {
  readonly parser: EventParser;
  #id = '';

  constructor({ maxBufferBytes }: ParserLimits, comments: boolean) {
    checkLimits(maxBufferBytes);
    this.parser = new (module().EventParser)(maxBufferBytes, comments);
  }

  push(bytes: Bytes): void {
    this.parser.push(checkBytes(bytes));
  }

  next(): 0 | 1 | 2 | 3 {
    try {
      return this.parser.next();
    } catch (error) {
      throw asTokenbrookError(error);
    }
  }

  event(): ServerSentEvent {
    return this.eventWithId().event;
  }

  /** The event, and its id if it has one of its own. */
  eventWithId(): EventWithId {
    const { parser } = this;
    const ownId = parser.takeId();
    this.#id = ownId ?? this.#id;
    const event = parser.takeEvent() ?? 'message';
    return { event: { event, data: parser.takeData(), id: this.#id }, ownId };
  }

  end(): void {
    this.parser.end();
  }
}

export function checkLimits(maxBufferBytes: number | undefined): void {
  if (maxBufferBytes === undefined || maxBufferBytes === Number.POSITIVE_INFINITY) return;
  if (!Number.isSafeInteger(maxBufferBytes) || maxBufferBytes < 1) {
    throw invalidOption('maxBufferBytes', 'a whole number of bytes from 1, or Infinity');
  }
}

/** A view of any kind of bytes. */
export function checkBytes(bytes: Bytes): Uint8Array {
  if (bytes instanceof Uint8Array) return bytes;
  if (ArrayBuffer.isView(bytes)) {
    return new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }
  if (bytes instanceof ArrayBuffer) return new Uint8Array(bytes);
  throw invalidOption('bytes', 'a Uint8Array, another view or an ArrayBuffer');
}
