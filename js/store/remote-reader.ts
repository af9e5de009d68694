// Segments that a worker of their own reads and checks, while the engine takes those before: both
// take about as long, and the engine's thread has enough to do.

import { endLater } from './ending.js';
import { canShareReading } from './folder.js';
import type { ReadAnswer, ReadRequest } from './hash-worker.js';

/** Reads segments elsewhere. */
export interface RemoteReader {
  /** The buffer with the segment in it; `undefined` where it cannot be had from there. */
  read(request: ReadRequest): Promise<ArrayBuffer | undefined>;
  end(): void;
}

/** `undefined` where there can be no such worker, or files are read as Blobs, which needs none. */
export function startRemoteReader(): RemoteReader | undefined {
  if (!canShareReading()) return undefined;
  try {
    const url = new URL('./hash-worker.js', import.meta.url);
    return new WorkerReader(new Worker(url, { type: 'module' }));
  } catch {
    return undefined;
  }
}

class WorkerReader implements RemoteReader {
  readonly #worker: Worker;
  /** Of requests, in their order. */
  readonly #waiting: ((buffer: ArrayBuffer | undefined) => void)[] = [];
  #isOver = false;

  constructor(worker: Worker) {
    this.#worker = worker;
    worker.onmessage = ({ data }: MessageEvent<ReadAnswer>) => {
      this.#waiting.shift()?.(data.isRight ? data.buffer : undefined);
    };
    worker.onerror = (event) => {
      event.preventDefault();
      // A bundler may have lost its script.
      this.end();
    };
  }

  read(request: ReadRequest): Promise<ArrayBuffer | undefined> {
    if (this.#isOver) return Promise.resolve(undefined);
    this.#worker.postMessage(request, [request.buffer]);
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  end(): void {
    if (!this.#isOver) endLater(this.#worker);
    this.#isOver = true;
    for (const resolve of this.#waiting.splice(0)) resolve(undefined);
  }
}
