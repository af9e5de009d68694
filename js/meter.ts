// How far a load is, over all of its files.

import type { News } from './store/locks.js';
import type { Progress } from './types.js';

/** Between two progress reports, ms; the last report of a phase is always made. */
const REPORT_EVERY_MS = 50;

export class Meter {
  readonly #report: (progress: Progress) => void;
  readonly #files: News[];
  #phase: 'download' | 'verify' = 'download';
  #reportedAtMs = Number.NEGATIVE_INFINITY;
  /** A report that waits for its time: nothing more may come after what it tells. */
  #later: ReturnType<typeof setTimeout> | undefined;

  /** `fileBytes`: of each file, in order, as far as they are known. */
  constructor(fileBytes: readonly (number | null)[], report: (progress: Progress) => void) {
    this.#report = report;
    this.#files = fileBytes.map((totalBytes) => ({
      receivedBytes: 0,
      durableBytes: 0,
      totalBytes,
    }));
  }

  /** What is known of a file's length, unless the file itself has told it. */
  know(index: number, totalBytes: number | null): void {
    const file = this.#files[index];
    if (file !== undefined) file.totalBytes ??= totalBytes;
  }

  /** Bytes of a file are on their way to the engine, and are received by that. */
  add(index: number, bytes: number): void {
    const file = this.#files[index];
    if (file !== undefined) file.receivedBytes += bytes;
    this.#sendIfDue();
  }

  /** A file is verified and only read, up to so many bytes by now. */
  stored(index: number, bytes: number): void {
    const file = this.#files[index];
    if (file !== undefined) Object.assign(file, { durableBytes: bytes, totalBytes: bytes });
    this.#phase = 'verify';
  }

  /** What a download tells of itself. */
  news(index: number, news: News): void {
    const file = this.#files[index];
    if (file !== undefined) Object.assign(file, news);
    this.#phase = 'download';
    this.#sendIfDue();
  }

  phase(phase: 'compile' | 'check'): void {
    this.#send(phase);
  }

  upload(): void {
    this.#send(this.#phase);
    this.#send('upload');
  }

  #sendIfDue(): void {
    const waitMs = this.#reportedAtMs + REPORT_EVERY_MS - performance.now();
    if (waitMs <= 0) this.#send(this.#phase);
    else this.#later ??= setTimeout(() => this.#send(this.#phase), waitMs);
  }

  #send(phase: Progress['phase']): void {
    clearTimeout(this.#later);
    this.#later = undefined;
    this.#reportedAtMs = performance.now();
    const sum = (of: 'receivedBytes' | 'durableBytes'): number =>
      this.#files.reduce((all, file) => all + file[of], 0);
    const totalBytes = this.#files.reduce<number | null>(
      (all, file) => (all === null || file.totalBytes === null ? null : all + file.totalBytes),
      0,
    );
    const [receivedBytes, durableBytes] = [sum('receivedBytes'), sum('durableBytes')];
    this.#report({ phase, receivedBytes, durableBytes, totalBytes });
  }
}
