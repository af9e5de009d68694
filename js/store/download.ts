// The bytes of one file into its vault: several ranges at a time where the server has them, in
// one stream where it has not. Segments are closed one by one, whoever waits for them hears.

import { TokenbrookError } from '../errors.js';
import { publicUrl } from '../address.js';
import { BATCH_BYTES, Batch } from './batch.js';
import { deferred } from './deferred.js';
import type { Deferred } from './deferred.js';
import { FileChanged, NoRanges, Transient, ask, cutShort, isTold } from './http.js';
import type { Answer, Span, Target } from './http.js';
import { segmentCount, segmentLength } from './journal.js';
import { Lanes, Watch, heeding, pause } from './patience.js';
import type { Tuning } from './tuning.js';
import type { Vault, Version } from './vault.js';

export interface DownloadOptions {
  target: Target;
  vault: Vault;
  lanes: Lanes;
  /** Lower ones go first. */
  priority: number;
  tuning: Tuning;
  signal: AbortSignal;
  /** Whether a digest of the whole file will tell if it is put together from two. */
  hasDigest: boolean;
  /** Throws where there is no room for so many bytes. */
  makeSure: (bytes: number) => Promise<void>;
  /** Bytes at `start` of the file are in storage; their memory is used again. */
  onBytes: (start: number, bytes: Uint8Array) => void;
}

/** Before anything was ever heard of a server: more likely a wrong address than a weak network. */
const FIRST_ATTEMPTS = 3;

/** Requests are made for as many segments as take so long, ms, within limits. */
const UNIT_MS = 1000;
const MAX_UNIT_SEGMENTS = 4;

const UNKNOWN: Version = { bytes: null, etag: null, lastModified: null };

const MAGIC = 'GGUF';

export class Download {
  readonly #options: DownloadOptions;
  readonly #stop = new AbortController();
  readonly #closings: Promise<void>[] = [];
  readonly #waiters = new Map<number, Deferred<boolean>>();
  readonly #assigned = new Set<number>();
  /** Memory for batches that no transfer uses. */
  readonly #buffers: Uint8Array<ArrayBuffer>[] = [];
  readonly #contact = deferred<void>();
  #known: Version | undefined;
  #lastFailure: TokenbrookError | undefined;
  #unitSegments = 1;
  #lanesOpen = 0;
  /** The server gives the file as a whole, whatever is asked. */
  #isWhole = false;
  #end: { error?: unknown } | undefined;
  /** Resolves when all segments are closed. */
  readonly done: Promise<void>;

  constructor(options: DownloadOptions) {
    this.#options = options;
    const { signal } = options;
    const abort = (): void => this.#stop.abort(signal.reason);
    signal.addEventListener('abort', abort);
    if (signal.aborted) abort();
    this.done = this.#run().finally(() => signal.removeEventListener('abort', abort));
    this.done.then(
      () => this.#over({}),
      (error: unknown) => this.#over({ error }),
    );
  }

  /** Resolves when the server has said what file it has. */
  get contact(): Promise<void> {
    return this.#contact.promise;
  }

  /** Resolves when a segment is closed; to false where the file ends before it. */
  segment(index: number): Promise<boolean> {
    const { vault } = this.#options;
    if (vault.isClosed(index)) return Promise.resolve(true);
    if (this.#end !== undefined) {
      return 'error' in this.#end ? Promise.reject(this.#end.error) : Promise.resolve(false);
    }
    let waiter = this.#waiters.get(index);
    if (waiter === undefined) this.#waiters.set(index, (waiter = deferred()));
    return waiter.promise;
  }

  #over(end: { error?: unknown }): void {
    this.#end = end;
    for (const [index, { resolve, reject }] of this.#waiters) {
      if (this.#options.vault.isClosed(index)) resolve(true);
      else if ('error' in end) reject(end.error);
      else resolve(false);
    }
    this.#waiters.clear();
    if ('error' in end) this.#contact.reject(end.error);
    else this.#contact.resolve();
  }

  async #run(): Promise<void> {
    const { vault } = this.#options;
    const isTrusted = isTold(vault.journal) || this.#options.hasDigest;
    if (vault.durableBytes > 0 && !isTrusted) await vault.begin(UNKNOWN);
    if (vault.durableBytes > 0) {
      const { bytes, etag, lastModified } = vault.journal;
      this.#known = { bytes, etag, lastModified };
      if (bytes !== null) this.#contact.resolve();
    }
    try {
      await this.#transfer();
    } catch (error) {
      const { signal } = this.#options;
      throw signal.aborted ? signal.reason : error;
    } finally {
      await Promise.allSettled(this.#closings);
    }
    await Promise.all(this.#closings);
    if (!vault.isComplete) throw this.#brokeOff(vault.receivedBytes).failure;
  }

  async #transfer(): Promise<void> {
    // Parts of a file without a length cannot be asked for.
    if (this.#known !== undefined && this.#known.bytes === null) return this.#stream();
    try {
      await this.#parts();
    } catch (error) {
      if (!(error instanceof NoRanges)) throw error;
      await this.#stream();
    }
  }

  async #parts(): Promise<void> {
    const lanes = [this.#lane()];
    try {
      // The first of them tells whether there is work for others.
      await Promise.race([this.#contact.promise, lanes[0]]);
      const most = this.#isWhole ? 1 : this.#options.tuning.connections;
      while (lanes.length < most) lanes.push(this.#lane());
      await Promise.all(lanes);
    } catch (error) {
      this.#stop.abort(error);
      await Promise.allSettled(lanes);
      throw error;
    }
  }

  async #lane(): Promise<void> {
    const { lanes, priority } = this.#options;
    this.#lanesOpen += 1;
    for (let unit = this.#nextUnit(); unit !== undefined; unit = this.#nextUnit()) {
      const giveBack = await lanes.take(priority, this.#stop.signal);
      try {
        await this.#persist(this.#stop.signal, this.#unitWork(unit));
      } finally {
        giveBack();
      }
    }
  }

  /** The next segments, in the order of the file, that nobody is about to fetch. */
  #nextUnit(): Span | undefined {
    const { vault } = this.#options;
    const { bytes, segmentBytes } = vault.journal;
    const isFresh = bytes === null && this.#known === undefined;
    const count = isFresh ? 1 : segmentCount(vault.journal);
    const isFree = (index: number): boolean => index < count && this.#isMissing(index);
    let first = 0;
    while (first < count && !isFree(first)) first += 1;
    if (first >= count) return undefined;
    let end = first + 1;
    while (end - first < this.#unitSegments && isFree(end) && vault.written(end) === 0) end += 1;
    for (let index = first; index < end; index += 1) this.#assigned.add(index);
    const start = first * segmentBytes + vault.written(first);
    return { start, end: Math.min(end * segmentBytes, bytes ?? Number.POSITIVE_INFINITY) };
  }

  #isMissing(index: number): boolean {
    const { vault } = this.#options;
    if (this.#assigned.has(index) || vault.isClosed(index)) return false;
    if (vault.written(index) < this.#lengthOf(index)) return true;
    // It was whole when an earlier download ended.
    this.#assigned.add(index);
    this.#close(index);
    return false;
  }

  #lengthOf(index: number): number {
    return segmentLength(this.#options.vault.journal, index);
  }

  /** One attempt at what is left of a unit. */
  #unitWork(unit: Span): (watch: Watch) => Promise<boolean> {
    let { start } = unit;
    return async (watch) => {
      const startMs = performance.now();
      // Some servers, and what stands before them, cannot bear to be asked for parts.
      const isRefused = this.#known === undefined && this.#lastFailure !== undefined;
      const span = isRefused ? undefined : { start, end: unit.end };
      const answer = await this.#ask(span, watch.signal);
      if (answer.kind === 'whole') {
        if (this.#lanesOpen > 1 || start > 0) {
          answer.body.cancel().catch(() => undefined);
          throw new NoRanges();
        }
        await this.#pump(answer, watch);
        return true;
      }
      const from = start;
      await this.#pump(answer, watch, (position) => (start = position));
      this.#measure(start - from, performance.now() - startMs);
      return start >= Math.min(unit.end, this.#known?.bytes ?? unit.end);
    };
  }

  #measure(bytes: number, ms: number): void {
    const { segmentBytes } = this.#options.vault.journal;
    const segments = Math.ceil(((bytes / Math.max(ms, 1)) * UNIT_MS) / segmentBytes);
    this.#unitSegments = Math.min(Math.max(segments, 1), MAX_UNIT_SEGMENTS);
  }

  /** The file from its first byte on, passing over what is here. */
  async #stream(): Promise<void> {
    const { lanes, priority, signal } = this.#options;
    const giveBack = await lanes.take(priority, signal);
    try {
      await this.#persist(signal, async (watch) => {
        const answer = await this.#ask(undefined, watch.signal);
        await this.#pump(answer, watch);
        return true;
      });
    } finally {
      giveBack();
    }
  }

  /** Attempts until the work is done, or fails for good. */
  async #persist(signal: AbortSignal, work: (watch: Watch) => Promise<boolean>): Promise<void> {
    const { tuning, lanes, vault } = this.#options;
    for (let failures = 0; ; ) {
      const before = vault.receivedBytes;
      const watch = new Watch(tuning, signal);
      try {
        if (await work(watch)) return;
        failures = 0;
      } catch (error) {
        signal.throwIfAborted();
        const transient = this.#transient(error, watch);
        if (transient === undefined) throw error;
        this.#lastFailure = transient.failure;
        const gained = vault.receivedBytes - before;
        failures = gained >= tuning.stallBytes ? 1 : failures + 1;
        const isStranger = this.#known === undefined && transient.failure.status === undefined;
        const most = isStranger ? Math.min(FIRST_ATTEMPTS, tuning.attempts) : tuning.attempts;
        if (failures >= most) throw transient.failure;
        if (transient.failure.status === 429) lanes.halve();
        await pause(failures, transient.retryAfterMs, tuning, signal);
      } finally {
        watch.end();
      }
    }
  }

  #transient(error: unknown, watch: Watch): Transient | undefined {
    if (error instanceof Transient) return error;
    if (!watch.isStalled) return undefined;
    const url = publicUrl(this.#options.target.url);
    const seconds = this.#options.tuning.stallMs / 1000;
    const message = `${url} has sent next to nothing for ${seconds} s: load it again.`;
    return new Transient(new TokenbrookError('download-failed', message, { url }));
  }

  async #ask(span: Span | undefined, signal: AbortSignal): Promise<Answer> {
    const { target, vault, hasDigest } = this.#options;
    const known = this.#known;
    const answer = await ask(target, { span, known, signal });
    try {
      if (known === undefined) {
        await this.#meet(answer);
      } else if (answer.kind === 'whole' && vault.receivedBytes > 0) {
        // The rest of one version behind the start of another would not be noticed.
        if (!isTold(answer.version) && !hasDigest) throw new FileChanged(this.#lastFailure);
      }
      return answer;
    } catch (error) {
      answer.body.cancel().catch(() => undefined);
      throw error;
    }
  }

  /** The first word of the server. */
  async #meet({ kind, version }: Answer): Promise<void> {
    const { vault, hasDigest, makeSure } = this.#options;
    if (kind === 'part' && !isTold(version) && !hasDigest) throw new NoRanges();
    if (version.bytes !== null) await makeSure(version.bytes);
    this.#known = version;
    this.#isWhole = kind === 'whole';
    await vault.begin(version);
    this.#contact.resolve();
  }

  async #pump(
    answer: Answer,
    watch: Watch,
    onPosition: (position: number) => void = () => undefined,
  ): Promise<void> {
    const { body, start, end } = answer;
    const buffer = this.#buffers.pop() ?? new Uint8Array(BATCH_BYTES);
    const batch = new Batch(start, buffer);
    const keep = async (): Promise<void> => {
      if (batch.bytes.byteLength === 0) return;
      const { start, bytes } = batch;
      await this.#keep(bytes, start);
      batch.clear();
      onPosition(batch.end);
      this.#options.onBytes(start, bytes);
    };
    try {
      while (end === null || batch.end < end) {
        const reading = heeding(body.read(), watch.signal).catch((cause: unknown) => {
          watch.signal.throwIfAborted();
          throw this.#brokeOff(batch.end, cause);
        });
        if (batch.bytes.byteLength > 0 && (await isLate(reading, batch.leftMs))) await keep();
        const piece = await reading;
        if (piece === undefined) break;
        watch.note(piece.byteLength);
        let rest = end === null ? piece : piece.subarray(0, end - batch.end);
        while (rest.byteLength > 0) {
          rest = batch.add(rest);
          if (batch.isFull) await keep();
        }
      }
    } finally {
      body.cancel().catch(() => undefined);
      await keep();
      this.#buffers.push(buffer);
    }
    if (end !== null && batch.end < end) throw this.#brokeOff(batch.end);
    if (answer.kind === 'whole') await this.#endAt(batch.end);
  }

  #brokeOff(position: number, cause?: unknown): Transient {
    const { target, vault } = this.#options;
    const url = publicUrl(target.url);
    return new Transient(cutShort(url, position, vault.journal.bytes, cause));
  }

  /** Puts bytes where they belong, but for those that are there. */
  async #keep(piece: Uint8Array<ArrayBuffer>, from: number): Promise<void> {
    const { vault } = this.#options;
    if (from === 0) checkMagic(this.#options.target.url, piece);
    const { segmentBytes } = vault.journal;
    let position = from;
    for (let rest = piece; rest.byteLength > 0; ) {
      const index = Math.floor(position / segmentBytes);
      const offset = position % segmentBytes;
      const part = rest.subarray(0, segmentBytes - offset);
      const fresh = part.subarray(Math.max(vault.written(index) - offset, 0));
      if (!vault.isClosed(index) && fresh.byteLength > 0) {
        await vault.openSegment(index);
        vault.write(index, fresh);
        if (vault.written(index) === this.#lengthOf(index)) this.#close(index);
      }
      position += part.byteLength;
      rest = rest.subarray(part.byteLength);
    }
  }

  #close(index: number): void {
    const closing = this.#options.vault.close(index).then(() => {
      this.#waiters.get(index)?.resolve(true);
      this.#waiters.delete(index);
    });
    // Heard of when all lanes have ended.
    closing.catch(() => undefined);
    this.#closings.push(closing);
  }

  /** A stream without a length is over. */
  async #endAt(position: number): Promise<void> {
    const { vault, target } = this.#options;
    if (position === 0) checkMagic(target.url, new Uint8Array());
    if (vault.journal.bytes !== null) return;
    vault.endAt(position);
    const last = segmentCount(vault.journal) - 1;
    if (!vault.isClosed(last) && vault.written(last) > 0) this.#close(last);
  }
}

/** Whether something takes longer than so many ms. */
function isLate(work: Promise<unknown>, ms: number): Promise<boolean> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => resolve(true), Math.max(ms, 0));
    const end = (): void => {
      clearTimeout(timer);
      resolve(false);
    };
    work.then(end, end);
  });
}

/** What a GGUF file begins with, in a first piece however short. */
function checkMagic(address: string, piece: Uint8Array): void {
  const begins = String.fromCharCode(...piece.subarray(0, 16));
  const wanted = MAGIC.slice(0, Math.max(begins.length, 1));
  if (begins.startsWith(wanted)) return;
  const url = publicUrl(address);
  const what = begins.trimStart().startsWith('<')
    ? 'is a page, not a GGUF file'
    : begins === ''
      ? 'is an empty file'
      : 'is not a GGUF file: it does not begin with GGUF';
  const message = `magic at byte 0: ${url} ${what}. Check the address.`;
  throw new TokenbrookError('invalid-gguf', message, { url });
}
