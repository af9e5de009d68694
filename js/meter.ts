// How far a load is, over all of its files.

import { Pace } from './pace.js';
import type { News } from './store/locks.js';
import type { Progress } from './types.js';

/** Between two progress reports, ms; the last report of a phase is always made. */
const REPORT_EVERY_MS = 50;

export class Meter {
  readonly #report: (progress: Progress) => void;
  readonly #files: News[];
  readonly #pace = new Pace(REPORT_EVERY_MS, () => this.#send());
  #phase: Progress['phase'] = 'download';

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
    this.#pace.soon();
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
    this.#pace.soon();
  }

  phase(phase: 'compile' | 'check'): void {
    this.#enter(phase);
  }

  upload(): void {
    this.#pace.now();
    this.#enter('upload');
  }

  /** A phase that bytes do not belong to; the next ones go on with theirs. */
  #enter(phase: Progress['phase']): void {
    const before = this.#phase;
    this.#phase = phase;
    this.#pace.now();
    this.#phase = before;
  }

  #send(): void {
    const sum = (of: 'receivedBytes' | 'durableBytes'): number =>
      this.#files.reduce((all, file) => all + file[of], 0);
    const totalBytes = this.#files.reduce<number | null>(
      (all, file) => (all === null || file.totalBytes === null ? null : all + file.totalBytes),
      0,
    );
    const [receivedBytes, durableBytes] = [sum('receivedBytes'), sum('durableBytes')];
    this.#report({ phase: this.#phase, receivedBytes, durableBytes, totalBytes });
  }
}
