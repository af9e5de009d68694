// What the faces need of the small wasm module `streaming.js`, written by wasm-bindgen beside
// them. Nothing but `default` and `initSync` may be called before one of these has finished.
// Every failure that a caller may act on is an `Error` with a `code` of errors.ts.

/** What `EventParser.next` found: nothing, an event, a comment, a retry. */
export type ItemKind = 0 | 1 | 2 | 3;

/** See `src/wasm/streaming/sse.rs`, as for all that follows. */
export class EventParser {
  constructor(maxBufferBytes: number | undefined, comments: boolean);
  push(bytes: Uint8Array): void;
  readonly rest: number;
  next(): ItemKind;
  takeData(): string;
  takeEvent(): string | undefined;
  takeId(): string | undefined;
  readonly retryMs: number;
  readonly lastEventId: string;
  end(): void;
  free(): void;
}

export function encodeEvent(
  comment: string | undefined,
  event: string | undefined,
  id: string | undefined,
  retryMs: number | undefined,
  data: string | undefined,
): string;

export default function init(options: {
  module_or_path: Response | ArrayBufferView<ArrayBuffer>;
}): Promise<unknown>;
