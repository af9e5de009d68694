// A file that comes from storage, or through it: verified ones are read, others are fetched
// first, and what is damaged is fetched again. Bytes are given in order, as segments close.
//
// Long because one file has one state: reading, fetching, verifying and waiting for another tab
// all decide by it what comes next.

import { publicUrl } from '../address.js';
import { Pace } from '../pace.js';
import { PIECE_BYTES } from '../pieces.js';
import type { Pieces } from '../pieces.js';
import { Download } from './download.js';
import { changed, mismatch, takenAway, unreliable } from './failures.js';
import { nameOf } from './folder.js';
import { Fresh } from './fresh.js';
import type { Folder, Root } from './folder.js';
import { FileChanged, askVersion } from './http.js';
import type { Target } from './http.js';
import { JournalWriter, durableBytes, readJournal, segmentCount } from './journal.js';
import type { Journal } from './journal.js';
import type { Locks, News, Release } from './locks.js';
import type { Lanes } from './patience.js';
import { Damaged, SegmentReader } from './reader.js';
import type { RemoteReader } from './remote-reader.js';
import { Restart } from './restart.js';
import { checkRoom, storageFull } from './room.js';
import type { Estimate } from './room.js';
import type { Tuning } from './tuning.js';
import { Vault } from './vault.js';
import type { Identity, Version } from './vault.js';
import { Verifier } from './verifier.js';
import type { Hasher } from './verifier.js';

/** What files of one load share. */
export interface StoreContext {
  root: Root;
  locks: Locks;
  lanes: Lanes;
  tuning: Tuning;
  estimate: Estimate;
  startHasher: () => Hasher;
  /** Where segments can be read by somebody else. */
  startReader?: (() => RemoteReader | undefined) | undefined;
}

export interface FileRequest {
  key: string;
  target: Target;
  identity: Identity;
  /** The SHA-256 that the file has to have, in hex; `null` where nobody says. */
  sha256: Promise<string | null>;
  /** The caller named the SHA-256. */
  isPinned: boolean;
  onNews: (news: News) => void;
}

/** A copy that is here is used when the server says nothing in this time, ms. */
const FRESHNESS_MS = 2000;

const NEWS_EVERY_MS = 50;
const MAX_REPAIRS = 8;
/** Of a file that is here. */
const SEGMENTS_AHEAD = 2;
const UNKNOWN: Version = { bytes: null, etag: null, lastModified: null };

export class StoredFile implements Pieces {
  readonly #context: StoreContext;
  readonly #request: FileRequest;
  readonly #folder: Folder;
  readonly #reader: SegmentReader;
  readonly #abort = new AbortController();
  #release: Release | undefined;
  #journal: Readonly<Journal> | undefined;
  #download: Download | undefined;
  /** The download, the checks after it, and what became of them. */
  #settled: Promise<void> = Promise.resolve();
  /** Why what was fetched is of no use. */
  #failure: unknown;
  /** Where in the file the next bytes to be given lie. */
  #position = 0;
  /** A segment, or a part that came from the network, and what of it was given. */
  #buffer: Uint8Array<ArrayBuffer> | undefined;
  #offset = 0;
  #isFresh = false;
  readonly #fresh = new Fresh();
  /** The next segments. */
  #ahead: Promise<Uint8Array<ArrayBuffer> | undefined>[] = [];
  #repairs = 0;
  #verifier: Verifier | undefined;

  private constructor(context: StoreContext, request: FileRequest, folder: Folder) {
    this.#context = context;
    this.#request = request;
    this.#folder = folder;
    this.#reader = new SegmentReader(folder, request.key);
  }

  /** Resolves when the length of the file is known, or will not be before its end. */
  static async open(context: StoreContext, request: FileRequest): Promise<StoredFile> {
    const folder = await context.root.folder(request.key);
    const file = new StoredFile(context, request, folder);
    try {
      await file.#begin();
      return file;
    } catch (error) {
      await file.close();
      throw error;
    }
  }

  get name(): string {
    return publicUrl(this.#request.target.url);
  }

  get bytes(): number | null {
    return this.#journal?.bytes ?? null;
  }

  /** It was here when it was opened. */
  get isHere(): boolean {
    return this.#download === undefined;
  }

  async read(): Promise<Uint8Array | undefined> {
    if (this.#buffer !== undefined && this.#offset === this.#buffer.byteLength) this.#drop();
    if (this.#buffer === undefined) await this.#fill();
    if (this.#buffer === undefined) return undefined;
    const piece = this.#buffer.subarray(this.#offset, this.#offset + PIECE_BYTES);
    this.#offset += piece.byteLength;
    this.#position += piece.byteLength;
    this.#fresh.pass(this.#position);
    return piece;
  }

  cancel(): Promise<void> {
    return this.close();
  }

  /** Resolves when the file is verified; rejects with `Restart` where it turned out to be wrong. */
  async verified(): Promise<void> {
    await this.#settled;
    const verifier = this.#verifier;
    if (verifier === undefined || this.#download !== undefined) return;
    // It was kept without a digest, and is read under one now.
    await this.#judge(await verifier.verdict());
  }

  /** Ends what is going on. What is durable stays. */
  async close(): Promise<void> {
    this.#abort.abort();
    await this.#settled.catch(() => undefined);
    this.#verifier?.end();
    this.#release?.();
    this.#release = undefined;
    this.#drop();
    this.#reader.end();
    this.#fresh.end();
  }

  /** Removes the file: it is of no use to anybody. */
  async forget(): Promise<void> {
    await this.close();
    const release = await this.#context.locks.tryTake(this.#request.key);
    if (release === undefined) return;
    await this.#context.root.remove(this.#request.key).catch(() => undefined);
    release();
  }

  /** Notes that it is used now: before the lock is shared, and before anybody has the model. */
  async #touch(): Promise<void> {
    const { key } = this.#request;
    const release = await this.#context.locks.tryTake(key);
    if (release === undefined) return;
    try {
      const found = await readJournal(this.#folder);
      if (found?.journal.state !== 'verified') return;
      const writer = await JournalWriter.open(this.#folder, found.sequence);
      writer.write({ ...found.journal, lastUsed: Date.now() });
      writer.close();
    } finally {
      release();
    }
  }

  async #begin(): Promise<void> {
    const { locks } = this.#context;
    const { key } = this.#request;
    let found = (await readJournal(this.#folder))?.journal;
    let isOutdated = false;
    if (found?.state === 'verified') {
      // It starts while the server is asked.
      this.#reader.helpedBy(this.#context.startReader?.());
      // A copy that cannot be written to can still be read.
      const touched = this.#touch().catch(() => undefined);
      isOutdated = await this.#isOutdated(found);
      await touched;
    }
    for (;;) {
      if (found?.state === 'verified' && !isOutdated) {
        const release = await locks.take(key, 'shared', this.#abort.signal);
        const journal = (await readJournal(this.#folder))?.journal;
        if (journal?.state === 'verified') {
          this.#release = release;
          return this.#useStored(journal);
        }
        release();
      }
      if (await this.#fetch(isOutdated)) return;
      found = (await readJournal(this.#folder))?.journal;
    }
  }

  /** Whether the server has another file by now; without an answer, the copy is as good as any. */
  async #isOutdated(journal: Readonly<Journal>): Promise<boolean> {
    if (this.#request.isPinned) {
      const wanted = await this.#request.sha256;
      return journal.sha256 !== null && journal.sha256 !== wanted;
    }
    const signal = AbortSignal.timeout(FRESHNESS_MS);
    const version = await askVersion(this.#request.target, signal);
    return version !== undefined && isOther(journal, version);
  }

  async #useStored(journal: Readonly<Journal>): Promise<void> {
    this.#journal = journal;
    // Files behind the first have time until it has been read.
    if (this.#request.identity.part === 0) this.#readAhead(0);
    const wanted = this.#request.isPinned ? await this.#request.sha256 : null;
    if (wanted === null || journal.sha256 === wanted) return;
    this.#verifier = this.#newVerifier(wanted);
    this.#verifier.file(journal);
  }

  /** Takes the file to itself and fetches what is missing; false where nothing is any more. */
  async #fetch(isOutdated: boolean): Promise<boolean> {
    const { key } = this.#request;
    const unfollow = this.#context.locks.follow(key, (news) => this.#request.onNews(news));
    let release: Release;
    try {
      release = await this.#context.locks.take(key, 'exclusive', this.#abort.signal, () =>
        this.#abort.abort(takenAway(this.name)),
      );
    } finally {
      unfollow();
    }
    let vault: Vault | undefined;
    try {
      vault = await this.#openVault();
      if (vault.journal.state === 'verified') {
        if (!isOutdated) {
          vault.dispose();
          release();
          return false;
        }
        await vault.begin(UNKNOWN);
      }
      await this.#start(vault, release);
    } catch (error) {
      if (this.#download === undefined) {
        vault?.dispose();
        release();
      }
      throw await this.#named(error);
    }
    return true;
  }

  async #start(vault: Vault, release: Release, before?: Readonly<Journal>): Promise<void> {
    const { tuning, lanes, estimate } = this.#context;
    const { target, isPinned, identity } = this.#request;
    this.#journal = vault.journal;
    const news = new Pace(NEWS_EVERY_MS, () => this.#tell(vault));
    const download = new Download({
      target,
      vault,
      lanes,
      priority: identity.part,
      tuning,
      signal: this.#abort.signal,
      hasDigest: isPinned,
      makeSure: (bytes) => checkRoom(estimate, bytes - vault.receivedBytes),
      onBytes: (start, bytes) => {
        this.#fresh.add(start, bytes);
        news.soon();
      },
    });
    this.#download = download;
    this.#settled = this.#complete(vault, download, before).finally(() => {
      news.end();
      vault.dispose();
      release();
    });
    this.#settled.catch(() => undefined);
    news.now();
    await download.contact.catch(async () => this.#settled);
  }

  async #complete(vault: Vault, download: Download, before?: Readonly<Journal>): Promise<void> {
    try {
      const wanted = await this.#request.sha256;
      this.#verifier ??= wanted === null ? undefined : this.#newVerifier(wanted);
      this.#verifier?.follow(vault.journal, (index) => download.segment(index));
      await download.done;
      if (before !== undefined && !hasDigestsOf(vault.journal, before)) throw new FileChanged();
      const verdict = await this.#verifier?.verdict();
      if (verdict !== undefined && !verdict.isRight) {
        // Whoever reads has to hear of it before the bytes are gone.
        this.#failure = new Restart(mismatch(this.name, verdict));
        await vault.begin(UNKNOWN);
        throw this.#failure;
      }
      vault.verify(verdict?.actual ?? before?.sha256 ?? null);
      this.#tell(vault);
    } catch (error) {
      throw await this.#ended(vault, error);
    }
  }

  /** Leaves storage in order, and says what went wrong. */
  async #ended(vault: Vault, error: unknown): Promise<unknown> {
    const named = await this.#named(error);
    this.#failure = named;
    try {
      if (error instanceof FileChanged) await vault.begin(UNKNOWN);
      else vault.commit();
    } catch {
      // What was durable before still is.
    }
    if (vault.durableBytes === 0) {
      vault.dispose();
      await this.#context.root.remove(this.#request.key).catch(() => undefined);
    }
    return named;
  }

  async #named(error: unknown): Promise<unknown> {
    if (error instanceof FileChanged) return new Restart(error.failure ?? changed(this.name));
    if (nameOf(error) === 'QuotaExceededError') {
      const journal = this.#journal;
      const need = journal === undefined ? 0 : (journal.bytes ?? 0) - durableBytes(journal);
      return storageFull(this.#context.estimate, Math.max(need, 0), error);
    }
    return error;
  }

  /** What was given is done with. */
  #drop(): void {
    const buffer = this.#buffer;
    this.#buffer = undefined;
    if (buffer !== undefined) (this.#isFresh ? this.#fresh : this.#reader).giveBack(buffer);
  }

  /** The bytes at the position: as they come from the network, else of a segment that is whole. */
  async #fill(): Promise<void> {
    for (;;) {
      try {
        const download = this.#download;
        const index = this.#segmentIndex;
        const isFresh =
          download !== undefined && (await this.#fresh.comesBefore(download.segment(index)));
        if (this.#failure !== undefined) throw this.#failure;
        this.#isFresh = isFresh;
        this.#buffer = isFresh ? this.#fresh.take() : await this.#segment(index);
        this.#offset = isFresh ? 0 : this.#position - index * this.#segmentBytes;
        if (this.#buffer === undefined || this.#offset < this.#buffer.byteLength) return;
        // The file has turned out to end here.
        this.#drop();
      } catch (error) {
        if (!(error instanceof Damaged)) throw await this.#reason(error);
        await this.#repair(error.index);
      }
    }
  }

  /** The segment of the position; past the last one at the end of the file. */
  get #segmentIndex(): number {
    const journal = this.#journal;
    if (journal?.bytes === this.#position) return segmentCount(journal);
    return Math.floor(this.#position / this.#segmentBytes);
  }

  get #segmentBytes(): number {
    return this.#journal?.segmentBytes ?? this.#context.tuning.segmentBytes;
  }

  /** A segment's bytes, and, of a file that is here, the next one's on their way. */
  async #segment(index: number): Promise<Uint8Array<ArrayBuffer> | undefined> {
    const reading = this.#ahead.shift() ?? this.#readSegment(index);
    if (this.isHere) this.#readAhead(index + 1);
    try {
      return await reading;
    } catch (error) {
      // Those behind it are read anew, by then perhaps as they come.
      this.#ahead = [];
      throw error;
    }
  }

  /** Has segments on their way from this one on. */
  #readAhead(index: number): void {
    while (this.#ahead.length < SEGMENTS_AHEAD) {
      const reading = this.#readSegment(index + this.#ahead.length);
      reading.catch(() => undefined);
      this.#ahead.push(reading);
    }
  }

  /** A download's failure is told once storage is in order. */
  async #reason(error: unknown): Promise<unknown> {
    if (this.#download === undefined) return error;
    return this.#settled.then(
      () => error,
      (reason: unknown) => reason,
    );
  }

  async #readSegment(index: number): Promise<Uint8Array<ArrayBuffer> | undefined> {
    if (this.#download !== undefined) {
      const isThere = await this.#download.segment(index);
      if (this.#failure !== undefined) throw this.#failure;
      if (!isThere) return undefined;
    } else if (this.#journal !== undefined && index >= segmentCount(this.#journal)) {
      return undefined;
    }
    if (this.#journal === undefined) throw new Error('the file is not open');
    return this.#reader.read(this.#journal, index);
  }

  async #repair(index: number): Promise<void> {
    const { key } = this.#request;
    this.#repairs += 1;
    if (this.#repairs > MAX_REPAIRS) throw unreliable(this.name);
    await this.#settled;
    const before = structuredClone(this.#journal);
    this.#release?.();
    this.#release = undefined;
    const release = await this.#context.locks.take(key, 'exclusive', this.#abort.signal);
    const vault = await this.#openVault().catch((error: unknown) => {
      release();
      throw error;
    });
    if (vault.isClosed(index)) await vault.drop(index);
    await this.#start(vault, release, before);
  }

  async #judge(verdict: { isRight: boolean; wanted: string; actual: string }): Promise<void> {
    const { key } = this.#request;
    this.#release?.();
    this.#release = undefined;
    const release = await this.#context.locks.take(key, 'exclusive', this.#abort.signal);
    const vault = await this.#openVault();
    try {
      if (verdict.isRight) vault.verify(verdict.actual);
      else await vault.begin(UNKNOWN);
    } finally {
      vault.dispose();
      release();
    }
    if (!verdict.isRight) throw new Restart(mismatch(this.name, verdict));
  }

  #openVault(): Promise<Vault> {
    const { segmentBytes } = this.#context.tuning;
    return Vault.open(this.#folder, this.#request.identity, segmentBytes);
  }

  #newVerifier(wanted: string): Verifier {
    return new Verifier(this.#folder, wanted, this.#context.startHasher);
  }

  #tell(vault: Vault): void {
    vault.record();
    const { receivedBytes, durableBytes } = vault;
    const news = { receivedBytes, durableBytes, totalBytes: vault.journal.bytes };
    this.#request.onNews(news);
    this.#context.locks.tell(this.#request.key, news);
  }
}

/** Another length, or another validator that nothing speaks against. */
function isOther(kept: Version, told: Version): boolean {
  const differ = (a: unknown, b: unknown): boolean => a !== null && b !== null && a !== b;
  if (differ(kept.bytes, told.bytes)) return true;
  const isSameTime = kept.lastModified !== null && kept.lastModified === told.lastModified;
  // Servers in a row may each have their own tags for the same file.
  if (differ(kept.etag, told.etag)) return !isSameTime;
  const hasTags = kept.etag !== null && told.etag !== null;
  return !hasTags && differ(kept.lastModified, told.lastModified);
}

function hasDigestsOf(now: Readonly<Journal>, before: Readonly<Journal>): boolean {
  return (
    before.state !== 'verified' ||
    before.segments.every((digest, index) => digest === now.segments[index])
  );
}
