// The one error type of the package, and how it crosses the worker boundary.

/** What went wrong, for code to branch on; the message is for people. */
export type ErrorCode =
  | 'unsupported-environment'
  | 'model-not-found'
  | 'download-failed'
  | 'integrity-mismatch'
  | 'storage-full'
  | 'invalid-gguf'
  | 'unsupported-architecture'
  | 'unsupported-quantization'
  | 'out-of-memory'
  | 'context-full'
  | 'invalid-option'
  | 'insecure-context'
  | 'device-lost'
  | 'disposed'
  | 'stream-incomplete'
  | 'server-error'
  | 'rate-limited'
  | 'timeout'
  | 'slow-client'
  | 'internal';

const CODES: ReadonlySet<string> = new Set<ErrorCode>([
  'unsupported-environment',
  'model-not-found',
  'download-failed',
  'integrity-mismatch',
  'storage-full',
  'invalid-gguf',
  'unsupported-architecture',
  'unsupported-quantization',
  'out-of-memory',
  'context-full',
  'invalid-option',
  'insecure-context',
  'device-lost',
  'disposed',
  'stream-incomplete',
  'server-error',
  'rate-limited',
  'timeout',
  'slow-client',
  'internal',
]);

/** More about a failure; `url` never carries a query, a fragment or credentials. */
export interface ErrorDetails {
  cause?: unknown;
  url?: string | undefined;
  status?: number | undefined;
  need?: number | undefined;
  have?: number | undefined;
  expected?: string | undefined;
  actual?: string | undefined;
}

/** The details that cross to the page. */
const DETAILS = ['url', 'status', 'need', 'have', 'expected', 'actual'] as const;

type Details = Pick<ErrorDetails, (typeof DETAILS)[number]>;

/** Those of them that are there. */
function detailsOf(error: Details): Details {
  const told = DETAILS.filter((name) => ['string', 'number'].includes(typeof error[name]));
  return Object.fromEntries(told.map((name) => [name, error[name]]));
}

/** Every failure of this package, except an abort, which rejects with the signal's own reason. */
export class TokenbrookError extends Error {
  readonly code: ErrorCode;
  /** `download-failed`, `model-not-found`: what was fetched, without query and credentials. */
  readonly url?: string;
  /** `download-failed`, `model-not-found`: the HTTP status, where there was an answer. */
  readonly status?: number;
  /** `storage-full`, `out-of-memory` before a download: bytes that the model still needs. */
  declare readonly need?: number;
  /** The same: bytes that there is room for. */
  declare readonly have?: number;
  /** `integrity-mismatch`: the SHA-256 that the file should have, in hex. */
  declare readonly expected?: string;
  /** `integrity-mismatch`: the SHA-256 that it has. */
  declare readonly actual?: string;

  constructor(code: ErrorCode, message: string, details: ErrorDetails = {}) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause });
    this.name = 'TokenbrookError';
    this.code = code;
    Object.assign(this, detailsOf(details));
  }
}

/** An error as plain data: error objects lose their own properties in a structured clone. */
export interface WireError extends Details {
  code: ErrorCode;
  message: string;
  /** `invalid-option`: its name, where the engine judged it. */
  option?: string | undefined;
  cause?: { name: string; message: string } | undefined;
}

/** The error's code when it is one that the caller may act on; `undefined` for a crash. */
export function codeOf(error: unknown): ErrorCode | undefined {
  if (typeof error !== 'object' || error === null || !('code' in error)) return undefined;
  const { code } = error;
  return typeof code === 'string' && CODES.has(code) ? (code as ErrorCode) : undefined;
}

/** Any thrown value as plain data; whatever has no known code becomes `internal`. */
export function toWire(error: unknown): WireError {
  const code = codeOf(error);
  if (code === undefined) {
    const cause = describe(error);
    return { code: 'internal', message: `The engine failed: ${cause.message}`, cause };
  }
  const known = error as TokenbrookError & { option?: unknown };
  const wire: WireError = { code, message: String(known.message), ...detailsOf(known) };
  if (typeof known.option === 'string') wire.option = known.option;
  if (known.cause !== undefined) wire.cause = describe(known.cause);
  return wire;
}

/** The other direction of [toWire]. */
export function fromWire(wire: WireError): TokenbrookError {
  const { code, message } = wire;
  const details = detailsOf(wire);
  if (wire.cause === undefined) return new TokenbrookError(code, message, details);
  const cause = new Error(wire.cause.message);
  cause.name = wire.cause.name;
  return new TokenbrookError(code, message, { ...details, cause });
}

/** What a wasm module threw in this thread, as the package's own error. */
export function asTokenbrookError(error: unknown): TokenbrookError {
  return error instanceof TokenbrookError ? error : fromWire(toWire(error));
}

/** Name and message of any thrown value. */
export function describe(error: unknown): { name: string; message: string } {
  if (error instanceof Error) return { name: error.name, message: error.message };
  return { name: 'Error', message: String(error) };
}

/** The sentence for a value that an option does not take. */
export function invalidOption(name: string, expected: string): TokenbrookError {
  return new TokenbrookError('invalid-option', `Option \`${name}\`: expected ${expected}.`);
}
