// One file in storage, for the holder of its lock: bytes go into segments, and the journal
// says of them no more than what is durable.

import { DIGEST_PIECE_BYTES, digestPiece, joinDigests } from './digest.js';
import type { Folder, SyncFile } from './folder.js';
import { JournalWriter, durableBytes, readJournal, segmentCount } from './journal.js';
import { segmentLength, segmentName, writeAll } from './journal.js';
import type { Journal } from './journal.js';
import { TailWriter, salvage } from './tail.js';

/** What a file is called; it stays as the file's contents change. */
export type Identity = Pick<Journal, 'source' | 'url' | 'part' | 'parts'>;

/** What tells one version of a file from another. */
export type Version = Pick<Journal, 'bytes' | 'etag' | 'lastModified'>;

/** Commits take at most this share of the time, however slow the disk is. */
const COMMIT_SHARE = 0.1;
const COMMIT_EVERY_MS = 150;

export class Vault {
  readonly #folder: Folder;
  readonly #writer: JournalWriter;
  readonly #tail: TailWriter;
  readonly #open = new Map<number, SyncFile>();
  /** Bytes of open segments that were written, durable or not. */
  readonly #written = new Map<number, number>();
  readonly #dirty = new Set<number>();
  /** Digests of pieces that were written whole, by segment and piece. */
  readonly #digests = new Map<number, Promise<ArrayBuffer>[]>();
  /** Where pieces are read for their digests, one at a time. */
  readonly #scratch = new Uint8Array(DIGEST_PIECE_BYTES);
  #closing: Promise<void> = Promise.resolve();
  #nextCommitMs = 0;
  #isGone = false;
  readonly #segmentBytes: number;
  readonly journal: Journal;

  private constructor(
    folder: Folder,
    writer: JournalWriter,
    tail: TailWriter,
    journal: Journal,
    segmentBytes: number,
  ) {
    this.#folder = folder;
    this.#writer = writer;
    this.#tail = tail;
    this.journal = journal;
    this.#segmentBytes = segmentBytes;
  }

  /**
   * Opens what is there, less what its journal promises in vain. `segmentBytes`: of files that are
   * begun from now on.
   */
  static async open(folder: Folder, identity: Identity, segmentBytes: number): Promise<Vault> {
    const found = await readJournal(folder);
    const journal = found?.journal ?? emptyJournal(identity, segmentBytes);
    Object.assign(journal, identity);
    if (found !== undefined) await heal(folder, journal);
    const writer = await JournalWriter.open(folder, found?.sequence ?? 0);
    let vault: Vault;
    try {
      const saved = await salvage(folder, journal.generation, journal.segments);
      vault = new Vault(folder, writer, await TailWriter.open(folder), journal, segmentBytes);
      await vault.#adopt(saved);
      await vault.#sweep();
    } catch (error) {
      writer.close();
      throw error;
    }
    return vault;
  }

  get durableBytes(): number {
    return durableBytes(this.journal);
  }

  /** Bytes that are here, durable or not. */
  get receivedBytes(): number {
    const { segments } = this.journal;
    const count = Math.max(segments.length, ...[...this.#open.keys()].map((index) => index + 1));
    let sum = 0;
    for (let index = 0; index < count; index += 1) sum += this.written(index);
    return sum;
  }

  /** Bytes of a segment that are here, durable or not. */
  written(index: number): number {
    const segment = this.journal.segments[index] ?? 0;
    if (typeof segment === 'string') return segmentLength(this.journal, index);
    return this.#written.get(index) ?? segment;
  }

  isClosed(index: number): boolean {
    return typeof this.journal.segments[index] === 'string';
  }

  get isComplete(): boolean {
    if (this.journal.bytes === null) return false;
    const count = segmentCount(this.journal);
    return Array.from({ length: count }, (_, i) => i).every((i) => this.isClosed(i));
  }

  /** Forgets all bytes: those to come are of this version. */
  async begin(version: Version): Promise<void> {
    await this.#closing;
    this.#closeSegments();
    const { journal } = this;
    Object.assign(journal, version, { state: 'partial', sha256: null, segments: [] });
    journal.segmentBytes = this.#segmentBytes;
    // Segments of the older journal, should a crash bring it back, are not written over.
    journal.generation += 1;
    this.commit();
    await this.#sweep();
  }

  /** Has to come before `write`. */
  async openSegment(index: number): Promise<void> {
    if (this.#open.has(index)) return;
    const file = await this.#folder.open(segmentName(this.journal.generation, index));
    if (this.#isGone) return file.close();
    if (this.journal.bytes !== null) reserve(file, segmentLength(this.journal, index));
    this.#written.set(index, this.written(index));
    this.#open.set(index, file);
  }

  /** Adds bytes to a segment. Throws `QuotaExceededError` where there is no room. */
  write(index: number, bytes: Uint8Array<ArrayBuffer>): void {
    const file = this.#open.get(index);
    if (file === undefined) throw new Error('the segment is not open');
    const at = this.written(index);
    writeAll(file, bytes, at);
    this.#digest(index, at, bytes);
    this.#tail.add(this.journal.generation, index, at, bytes);
    this.#written.set(index, at + bytes.byteLength);
    this.#dirty.add(index);
    if (performance.now() >= this.#nextCommitMs) this.commit();
  }

  /** A closed tab will not cost what was written until now: to be called before that is told. */
  record(): void {
    if (!this.#isGone) this.#tail.record();
  }

  /** The segment is whole: from now on it does not change, and others may read it. */
  close(index: number): Promise<void> {
    const { generation } = this.journal;
    const closing = this.#closing.then(() => this.#closeSegment(generation, index));
    this.#closing = closing.catch(() => undefined);
    return closing;
  }

  /** The length turned out with the last byte. */
  endAt(bytes: number): void {
    this.journal.bytes = bytes;
  }

  /** The file is what it should be. */
  verify(sha256: string | null): void {
    Object.assign(this.journal, { state: 'verified', sha256, lastUsed: Date.now() });
    this.commit();
  }

  /** A segment is damaged: it has to come again. */
  async drop(index: number): Promise<void> {
    this.journal.state = 'partial';
    this.journal.segments[index] = 0;
    this.commit();
    await this.#folder.remove(segmentName(this.journal.generation, index));
  }

  /** Makes durable what was written, and only then says so in the journal. */
  commit(): void {
    const startMs = performance.now();
    for (const index of this.#dirty) this.#open.get(index)?.flush();
    const { segments } = this.journal;
    for (const [index, bytes] of this.#written) {
      while (segments.length < index) segments.push(0);
      segments[index] = bytes;
    }
    this.#writer.write(this.journal);
    this.#dirty.clear();
    this.#tail.restart();
    const nowMs = performance.now();
    this.#nextCommitMs = nowMs + Math.max(COMMIT_EVERY_MS, (nowMs - startMs) / COMMIT_SHARE);
  }

  /** Gives all files back. What was not committed is lost. */
  dispose(): void {
    if (this.#isGone) return;
    this.#isGone = true;
    this.#closeSegments();
    this.#writer.close();
    this.#tail.close();
  }

  /** Takes in what was written and never committed. */
  async #adopt(saved: ReadonlyMap<number, number>): Promise<void> {
    for (const [index, bytes] of saved) {
      if (bytes > segmentLength(this.journal, index)) continue;
      await this.openSegment(index);
      this.#written.set(index, bytes);
      this.#dirty.add(index);
    }
    if (saved.size > 0) this.commit();
  }

  /** Begins the digests of pieces that are all in `bytes`. */
  #digest(index: number, at: number, bytes: Uint8Array<ArrayBuffer>): void {
    const length = segmentLength(this.journal, index);
    const end = at + bytes.byteLength;
    const digests = this.#digests.get(index) ?? [];
    this.#digests.set(index, digests);
    for (let piece = Math.ceil(at / DIGEST_PIECE_BYTES); ; piece += 1) {
      const start = piece * DIGEST_PIECE_BYTES;
      const pieceEnd = Math.min(start + DIGEST_PIECE_BYTES, length);
      if (start >= pieceEnd || pieceEnd > end) return;
      digests[piece] = digestPiece(bytes.subarray(start - at, pieceEnd - at));
    }
  }

  /** The digest of a segment that is all there; pieces that came in parts are read again. */
  async #digestOf(index: number, file: SyncFile): Promise<string> {
    const length = this.written(index);
    const digests = this.#digests.get(index) ?? [];
    const all: Promise<ArrayBuffer>[] = [];
    for (let start = 0; start === 0 || start < length; start += DIGEST_PIECE_BYTES) {
      const known = digests[all.length];
      all.push(known ?? digestPiece(this.#readPiece(file, start, length)));
    }
    return joinDigests(await Promise.all(all));
  }

  #readPiece(file: SyncFile, start: number, end: number): Uint8Array<ArrayBuffer> {
    const piece = this.#scratch.subarray(0, Math.min(DIGEST_PIECE_BYTES, end - start));
    const read = file.read(piece, { at: start });
    if (read === piece.byteLength) return piece;
    throw new Error(`a segment of ${end} bytes gives only ${start + read}`);
  }

  async #closeSegment(generation: number, index: number): Promise<void> {
    const isOver = (): boolean =>
      this.#isGone || this.isClosed(index) || this.journal.generation !== generation;
    if (isOver()) return;
    // It may have become whole in an earlier life, which ended before this.
    await this.openSegment(index);
    const file = this.#open.get(index);
    if (file === undefined || isOver()) return;
    const length = this.written(index);
    const digest = await this.#digestOf(index, file);
    if (this.#isGone || this.#open.get(index) !== file) return;
    file.truncate(length);
    file.flush();
    file.close();
    this.#open.delete(index);
    this.#written.delete(index);
    this.#dirty.delete(index);
    this.#digests.delete(index);
    const { segments } = this.journal;
    while (segments.length < index) segments.push(0);
    segments[index] = digest;
    this.commit();
  }

  #closeSegments(): void {
    for (const file of this.#open.values()) file.close();
    this.#open.clear();
    this.#written.clear();
    this.#dirty.clear();
    this.#digests.clear();
  }

  /** Removes segments of other generations. */
  async #sweep(): Promise<void> {
    const own = `${this.journal.generation}-`;
    for (const name of await this.#folder.names()) {
      if (name.endsWith('.segment') && !name.startsWith(own)) await this.#folder.remove(name);
    }
  }
}

/** Takes the room of a segment at once: growing with each write costs more than the writes. */
function reserve(file: SyncFile, bytes: number): void {
  try {
    if (file.getSize() < bytes) file.truncate(bytes);
  } catch {
    // There is no room for all of it; the writes tell how far there is.
  }
}

function emptyJournal(identity: Identity, segmentBytes: number): Journal {
  return {
    ...identity,
    generation: 0,
    bytes: null,
    segmentBytes,
    etag: null,
    lastModified: null,
    state: 'partial',
    sha256: null,
    segments: [],
    lastUsed: Date.now(),
  };
}

/** Takes back promises that the files do not keep: storage was damaged, or cleared in part. */
async function heal(folder: Folder, journal: Journal): Promise<void> {
  const { segments } = journal;
  await Promise.all(
    segments.map(async (segment, index) => {
      if (segment === 0) return;
      const length = segmentLength(journal, index);
      const needed = typeof segment === 'string' ? length : segment;
      const blob = await folder.blob(segmentName(journal.generation, index));
      if (needed > length || (blob?.size ?? 0) < needed) {
        segments[index] = 0;
        journal.state = 'partial';
      }
    }),
  );
}
