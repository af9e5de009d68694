// One request for a file or a part of it, and what its answer has to look like before a byte of
// it is believed.

import { TokenbrookError, describe } from '../errors.js';
import { publicUrl } from '../address.js';
import { bodyPieces } from '../pieces.js';
import type { Pieces } from '../pieces.js';
import { heeding } from './patience.js';
import type { Version } from './vault.js';

/** Bytes of a file, from `start` up to `end`. */
export interface Span {
  start: number;
  end: number;
}

export interface Target {
  url: string;
  headers: [string, string][];
}

export interface Answer {
  /** Where its first byte lies in the file. */
  start: number;
  /** Where it ends, if that is known. */
  end: number | null;
  /** `part`: from where it was asked for; `whole`: the file from its first byte. */
  kind: 'part' | 'whole';
  version: Version;
  body: Pieces;
}

/** A failure that another attempt may not meet. */
export class Transient extends Error {
  readonly failure: TokenbrookError;
  readonly retryAfterMs: number;

  constructor(failure: TokenbrookError, retryAfterMs = 0) {
    super(failure.message);
    this.failure = failure;
    this.retryAfterMs = retryAfterMs;
  }
}

/** The file is not the one that was begun. */
export class FileChanged extends Error {
  /** What to say where it is only that a stream cannot be gone on with. */
  readonly failure: TokenbrookError | undefined;

  constructor(failure?: TokenbrookError) {
    super('the file is another one');
    this.failure = failure;
  }
}

/** The server does not give parts of this file, or not so that they can be checked. */
export class NoRanges extends Error {}

/** Several parts arrive at a time. */
const PART_PIECE_BYTES = 256 << 10;

const TRANSIENT: ReadonlySet<number> = new Set([408, 425, 429, 500, 502, 503, 504]);

/** A server may ask for any wait; this is as long as one is granted, ms. */
const MAX_RETRY_AFTER_MS = 60_000;

export interface Ask {
  /** `undefined`: the whole file. */
  span: Span | undefined;
  /** What is known of the file; other bytes than those of this version are refused. */
  known: Version | undefined;
  signal: AbortSignal;
}

/**
 * Asks for bytes.
 *
 * Throws `Transient`, `FileChanged`, `NoRanges`, or a TokenbrookError that no attempt mends.
 */
export async function ask(target: Target, { span, known, signal }: Ask): Promise<Answer> {
  const headers = new Headers(target.headers);
  if (span !== undefined) headers.set('range', `bytes=${span.start}-${span.end - 1}`);
  // Elsewhere it costs a request before each request, and the answer's own words say the same.
  if (span !== undefined && isStrong(known?.etag) && isSameOrigin(target.url)) {
    headers.set('if-range', known?.etag ?? '');
  }
  // What is kept here is not kept a second time by the browser.
  const answer = fetch(target.url, { headers, signal, cache: 'no-store' });
  let response: Response;
  try {
    response = await heeding(answer, signal);
  } catch (cause) {
    signal.throwIfAborted();
    throw new Transient(unreachable(target.url, cause));
  }
  try {
    return judged(target, response, span, known);
  } catch (error) {
    response.body?.cancel().catch(() => undefined);
    throw error;
  }
}

function judged(
  target: Target,
  response: Response,
  span: Span | undefined,
  known: Version | undefined,
): Answer {
  const { status, body } = response;
  if (status === 416 && span !== undefined) {
    // Nothing lies there. Of a file that is known, something did.
    throw known === undefined ? new NoRanges() : new FileChanged();
  }
  if (!response.ok) throw refusal(target.url, response);
  if (body === null) {
    const url = publicUrl(target.url);
    const message = `${url} answered HTTP ${status} without a body.`;
    throw new Transient(new TokenbrookError('download-failed', message, { url, status }));
  }
  if (known !== undefined && isPage(response)) {
    // Of a network that wants to be signed in to, more likely than of this server.
    const url = publicUrl(target.url);
    const message = `${url} answered with a page where there was a model: load it again.`;
    throw new Transient(new TokenbrookError('download-failed', message, { url, status }));
  }
  const range = status === 206 ? contentRange(response) : undefined;
  if (status === 206 && span === undefined) {
    const url = publicUrl(target.url);
    const message = `${url} answered with a part (HTTP 206) where the whole was asked for.`;
    throw new TokenbrookError('download-failed', message, { url, status });
  }
  if (status === 206 && range === undefined) throw new NoRanges();
  const version = versionOf(response, range?.total ?? contentLength(response));
  if (known !== undefined && !isSame(known, version)) throw new FileChanged();
  if (range === undefined || span === undefined) {
    return { start: 0, end: version.bytes, kind: 'whole', version, body: bodyPieces(body) };
  }
  const { start, end, total } = range;
  const isAsked = start === span.start && end <= span.end && end <= (total ?? end);
  if (!isAsked || total === null || isCompressed(response)) throw new NoRanges();
  return { start, end, kind: 'part', version, body: bodyPieces(body, PART_PIECE_BYTES) };
}

/** Whether both may be of one version: what either does not tell is no difference. */
export function isSame(one: Version, other: Version): boolean {
  const agree = <T>(a: T | null, b: T | null): boolean => a === null || b === null || a === b;
  return (
    agree(one.bytes, other.bytes) &&
    agree(one.etag, other.etag) &&
    agree(one.lastModified, other.lastModified)
  );
}

/** Whether a later request can find out that the file is another one by now. */
export function isTold({ etag, lastModified }: Version): boolean {
  return etag !== null || lastModified !== null;
}

/** Length and validators of a file by a request for its head; `undefined` where nobody says. */
export async function askVersion(
  target: Target,
  signal: AbortSignal,
): Promise<Version | undefined> {
  const { url, headers } = target;
  try {
    const answer = fetch(url, { method: 'HEAD', headers, signal, cache: 'no-store' });
    const response = await heeding(answer, signal);
    return response.ok ? versionOf(response, contentLength(response)) : undefined;
  } catch {
    // Some servers refuse HEAD for files that they serve; and there may be no network.
    return undefined;
  }
}

function versionOf(response: Response, bytes: number | null): Version {
  const { headers } = response;
  return { bytes, etag: headers.get('etag'), lastModified: headers.get('last-modified') };
}

interface Range extends Span {
  total: number | null;
}

/** What a part says of itself; `undefined` where nothing can be read. */
function contentRange(response: Response): Range | undefined {
  const text = response.headers.get('content-range') ?? '';
  const found = /^bytes (\d+)-(\d+)\/(\d+|\*)$/.exec(text.trim());
  if (found === null) return undefined;
  const [start, last, total] = [Number(found[1]), Number(found[2]), Number(found[3])];
  const isSane = Number.isSafeInteger(start) && Number.isSafeInteger(last) && last >= start;
  if (!isSane) return undefined;
  return { start, end: last + 1, total: Number.isSafeInteger(total) ? total : null };
}

/** Bytes of the body; `null` when unknown or when the length is that of a compressed form. */
export function contentLength(response: Response): number | null {
  const length = response.headers.get('content-length');
  if (length === null || isCompressed(response)) return null;
  const bytes = Number(length);
  return Number.isSafeInteger(bytes) && bytes >= 0 ? bytes : null;
}

function isCompressed(response: Response): boolean {
  const encoding = response.headers.get('content-encoding');
  return encoding !== null && encoding !== 'identity';
}

function isPage(response: Response): boolean {
  return response.headers.get('content-type')?.startsWith('text/html') === true;
}

function isStrong(etag: string | null | undefined): boolean {
  return typeof etag === 'string' && etag.startsWith('"');
}

function isSameOrigin(url: string): boolean {
  return new URL(url).origin === globalThis.location?.origin;
}

/** The error for a request that had no answer. */
export function unreachable(address: string, cause: unknown): TokenbrookError {
  const url = publicUrl(address);
  return new TokenbrookError(
    'download-failed',
    `${url} could not be fetched: check the address, the connection, and that the server ` +
      `allows this page's origin (CORS).`,
    { cause, url },
  );
}

/** The error for an answer that is none. */
export function statusError(
  address: string,
  status: number,
  what: 'model' | 'tokenizer' = 'model',
): TokenbrookError {
  const url = publicUrl(address);
  if (status === 404 || status === 410) {
    const message = `There is no ${what} at ${url} (HTTP ${status}): check the address.`;
    const code = what === 'model' ? 'model-not-found' : 'download-failed';
    return new TokenbrookError(code, message, { url, status });
  }
  const hint = status === 401 || status === 403 ? ': pass what it asks for in `headers`' : '';
  const message = `${url} answered HTTP ${status}${hint}.`;
  return new TokenbrookError('download-failed', message, { url, status });
}

function refusal(address: string, response: Response): TokenbrookError | Transient {
  const failure = statusError(address, response.status);
  if (!TRANSIENT.has(response.status)) return failure;
  return new Transient(failure, retryAfterMs(response.headers.get('retry-after')));
}

function retryAfterMs(value: string | null): number {
  if (value === null) return 0;
  const seconds = Number(value);
  const ms = Number.isNaN(seconds) ? Date.parse(value) - Date.now() : seconds * 1000;
  return Number.isNaN(ms) ? 0 : Math.min(Math.max(ms, 0), MAX_RETRY_AFTER_MS);
}

/** The error for a body that broke off. */
export function cutShort(
  name: string,
  received: number,
  expected: number | null,
  cause?: unknown,
): TokenbrookError {
  const of = expected === null ? '' : ` of ${expected}`;
  const reason = cause === undefined ? '' : ` (${describe(cause).message})`;
  const message = `${name} ended after ${received}${of} bytes${reason}: load it again.`;
  const url = name.includes(':') ? name : undefined;
  return new TokenbrookError('download-failed', message, { cause, url });
}
