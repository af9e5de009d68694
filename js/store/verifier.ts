// The SHA-256 of a whole file, while its segments close or are read: in a worker of its own,
// since at some hundred megabytes a second it would hold the engine up; in Firefox it does.

import { PIECE_BYTES } from '../pieces.js';
import { deferred } from './deferred.js';
import type { Folder } from './folder.js';
import { segmentCount, segmentName } from './journal.js';
import type { Journal } from './journal.js';
import { Sha256 } from './sha256.js';

export interface Verdict {
  isRight: boolean;
  wanted: string;
  actual: string;
}

export class Verifier {
  readonly #folder: Folder;
  readonly #wanted: string;
  readonly #start: () => Hasher;
  #hasher: Hasher | undefined;
  #actual: Promise<string> | undefined;

  constructor(folder: Folder, wanted: string, start: () => Hasher) {
    this.#folder = folder;
    this.#wanted = wanted;
    this.#start = start;
  }

  /** Takes the segments as they close; `segment` is false past the last one. */
  follow(journal: Readonly<Journal>, segment: (index: number) => Promise<boolean>): void {
    this.end();
    this.#actual = this.#run(journal, segment);
    // Whoever asks for the verdict hears of it.
    this.#actual.catch(() => undefined);
  }

  /** Takes a file that is there. */
  file(journal: Readonly<Journal>): void {
    const count = segmentCount(journal);
    this.follow(journal, async (index) => index < count);
  }

  async verdict(): Promise<Verdict> {
    const actual = (await this.#actual) ?? '';
    return { isRight: actual === this.#wanted, wanted: this.#wanted, actual };
  }

  end(): void {
    this.#hasher?.end();
    this.#hasher = undefined;
  }

  async #run(
    journal: Readonly<Journal>,
    segment: (index: number) => Promise<boolean>,
  ): Promise<string> {
    const hasher = this.#start();
    this.#hasher = hasher;
    try {
      for (let index = 0; await segment(index); index += 1) {
        const blob = await this.#folder.blob(segmentName(journal.generation, index));
        if (blob === undefined) throw new Error(`segment ${index} is gone`);
        await hasher.add(blob);
      }
      return await hasher.digest();
    } finally {
      hasher.end();
    }
  }
}

export interface Hasher {
  add(blob: Blob): Promise<void>;
  digest(): Promise<string>;
  end(): void;
}

/** In a worker where one can be had for sure. */
export function startHasher(): Hasher {
  // In one of 25 loads Firefox 153 never came back from starting a worker in this one.
  if (globalThis.navigator?.userAgent.includes('Firefox/')) return new LocalHasher();
  try {
    const url = new URL('./hash-worker.js', import.meta.url);
    return new WorkerHasher(new Worker(url, { type: 'module' }));
  } catch {
    return new LocalHasher();
  }
}

class WorkerHasher implements Hasher {
  readonly #worker: Worker;
  readonly #blobs: Blob[] = [];
  readonly #answer = deferred<string>();
  #isAsked = false;
  #isLost = false;

  constructor(worker: Worker) {
    this.#worker = worker;
    worker.onmessage = ({ data }: MessageEvent<{ digest?: string; failed?: string }>) => {
      if (data.digest === undefined) this.#answer.reject(new Error(data.failed));
      else this.#answer.resolve(data.digest);
    };
    worker.onerror = (event) => {
      event.preventDefault();
      // A bundler may have lost its script.
      this.#isLost = true;
      if (this.#isAsked) this.#answer.resolve(this.#here());
    };
  }

  async add(blob: Blob): Promise<void> {
    this.#blobs.push(blob);
    this.#worker.postMessage(blob);
  }

  digest(): Promise<string> {
    this.#isAsked = true;
    if (this.#isLost) return this.#here();
    this.#worker.postMessage(null);
    return this.#answer.promise;
  }

  end(): void {
    this.#worker.terminate();
    this.#answer.reject(new Error('the check was ended'));
  }

  async #here(): Promise<string> {
    const hasher = new LocalHasher();
    for (const blob of this.#blobs) await hasher.add(blob);
    return hasher.digest();
  }
}

export class LocalHasher implements Hasher {
  readonly #hash = new Sha256();

  async add(blob: Blob): Promise<void> {
    for (let at = 0; at < blob.size; at += PIECE_BYTES) {
      this.#hash.update(new Uint8Array(await blob.slice(at, at + PIECE_BYTES).arrayBuffer()));
    }
  }

  async digest(): Promise<string> {
    return this.#hash.digest();
  }

  end(): void {
    // It lives in this thread.
  }
}
