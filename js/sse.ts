// The entry `tokenbrook/sse`: server-sent events as the HTML standard defines them.

import { asTokenbrookError, invalidOption } from './errors.js';
import { module } from './ready.js';

export { eventStream } from './event-stream.js';
export { EventStreamParser } from './event-parser.js';
export type { ParserCallbacks, ParserLimits, ServerSentEvent } from './event-parser.js';
export { ready } from './ready.js';
export { TokenbrookError } from './errors.js';
export type { ErrorCode } from './errors.js';

/** What [encodeEvent] writes; absent fields are not written. */
export interface EventFields {
  /** Notes that a reader skips; one comment line for each line. */
  comment?: string | undefined;
  /** Type of the event: one line. Absent or empty means `message`. */
  event?: string | undefined;
  /** What a reader sends as `Last-Event-ID` from now on: one line; empty resets it. */
  id?: string | undefined;
  /** How long a reader waits before it reconnects, ms: a whole number. */
  retry?: number | undefined;
  /** The payload; each kind of line end in it arrives as LF. Without it nothing is dispatched. */
  data?: string | undefined;
}

const TEXTS = ['comment', 'event', 'id', 'data'] as const;

/**
 * One block of an event stream, up to its empty line. Needs `ready`.
 *
 * Throws `invalid-option` for a field that the format cannot carry.
 */
export function encodeEvent(fields: EventFields): string {
  const { comment, event, id, retry, data } = fields;
  for (const name of TEXTS) {
    const value = fields[name];
    if (value !== undefined && typeof value !== 'string') throw invalidOption(name, 'a string');
  }
  if (retry !== undefined && !(Number.isSafeInteger(retry) && retry >= 0)) {
    throw invalidOption('retry', 'a whole number of milliseconds');
  }
  try {
    return module().encodeEvent(comment, event, id, retry, data);
  } catch (error) {
    throw asTokenbrookError(error);
  }
}
