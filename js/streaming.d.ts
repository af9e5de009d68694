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

/** See `src/wasm/streaming/mock.rs`. Times are Unix milliseconds. */
export class MockServer {
  constructor(scenario: string, instance: string, nowMs: number);
  request(nowMs: number, method: string, path: string, pairs: string, body: Uint8Array): number;
  nextMs(): number | undefined;
  advance(nowMs: number): void;
  head(connection: number): string | undefined;
  take(nowMs: number, connection: number): Uint8Array<ArrayBuffer> | boolean | undefined;
  cancel(nowMs: number, connection: number): void;
  changed(): Float64Array;
  wanting(): Float64Array;
  replyOf(connection: number): number | undefined;
  isActive(reply: number): boolean;
  push(nowMs: number, reply: number, text: string): boolean;
  end(nowMs: number, reply: number, failure: string | undefined): void;
  trace(reply: number | undefined): string;
  stats(): string;
  scenario(): string;
  kept(): string;
  restore(nowMs: number, records: string): number;
  free(): void;
}

/** See `src/wasm/streaming/measure.rs`. Times are Unix milliseconds. */
export class ExchangeWatch {
  constructor(requestMs: number);
  headers(atMs: number, status: number, pairs: string, all: boolean): void;
  read(atMs: number, bytes: Uint8Array): number;
  close(atMs: number, clean: boolean): void;
  abort(atMs: number): void;
  rendered(atMs: number, byElementTiming: boolean): void;
  generator(firstTokenMs: number | undefined, endMs: number | undefined): void;
  events(from: number): unknown;
  timeline(): unknown;
  free(): void;
}

export function summarizeTimelines(timelines: unknown): unknown;
export function diagnoseTimeline(timeline: unknown): unknown;
export function compareTimelines(direct: unknown, publicPath: unknown): unknown;
export function figureSources(): unknown;

export function simulateLoad(run: string): string;

/** What a call does next; see `src/client/ladder.rs`. */
export type Next =
  | { kind: 'try'; rung: number; waitMs: number; deadlineMs: number | null }
  | { kind: 'answer' }
  | { kind: 'fall' };

/** See `src/wasm/streaming/client.rs`. */
export class ClientCore {
  constructor(settings: object);
  begin(nowMs: number, repeatable: boolean): ClientCall;
  refused(
    call: ClientCall,
    nowMs: number,
    status: number,
    retryAfter: string | undefined,
    nowUnixMs: number,
    random: number,
  ): Next;
  noAnswer(
    call: ClientCall,
    nowMs: number,
    responded: boolean,
    late: boolean,
    random: number,
  ): Next;
  answered(call: ClientCall, nowMs: number): number;
  abandoned(call: ClientCall, nowMs: number): void;
  resumeWaitMs(tried: number, random: number): number | undefined;
  record(
    call: ClientCall,
    firstTextMs: number,
    promptPrice: number,
    cachedPrice: number,
    completionPrice: number,
  ): void;
  recordEval(passed: boolean): void;
  meters(): unknown;
}

export class ClientCall {
  private constructor();
  first(): Next;
  /** `news`, `again`, `done` or `failed: ` and a sentence. */
  hear(event: string, data: string, ownId: string | undefined): string;
  hearWhole(body: string): boolean;
  reconnect(): string | undefined;
  readonly isComplete: boolean;
  readonly hasText: boolean;
  free(): void;
}

export default function init(options: {
  module_or_path: Response | ArrayBufferView<ArrayBuffer>;
}): Promise<unknown>;
