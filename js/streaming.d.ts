// What the faces need of the small wasm module `streaming.js`, written by wasm-bindgen beside
// them. Nothing but `default` and `initSync` may be called before one of these has finished.
// Every failure that a caller may act on is an `Error` with a `code` of errors.ts.

/** See `src/wasm/streaming/sse.rs`. */
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
