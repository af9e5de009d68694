// Asks the worker for one load after the other; a newer question ends an older one.
import type { LoadRun, LoadStretch } from 'tokenbrook/mock';
import type { LoadAnswer, LoadAsk } from './load-worker.js';

export class LoadRunner {
  #worker: Worker | undefined;
  #ids = 0;
  #reject: ((reason: unknown) => void) | undefined;

  /** Whether something runs. */
  get isBusy(): boolean {
    return this.#reject !== undefined;
  }

  async run(run: LoadRun): Promise<LoadStretch[]> {
    this.#worker ??= new Worker(new URL('./load-worker.ts', import.meta.url), { type: 'module' });
    const worker = this.#worker;
    const id = (this.#ids += 1);
    try {
      return await new Promise((fulfil, reject) => {
        this.#reject = reject;
        worker.onmessage = ({ data }: MessageEvent<LoadAnswer>) => {
          if (data.id !== id) return;
          if ('problem' in data) reject(new Error(data.problem));
          else fulfil(data.stretches);
        };
        worker.onerror = () => reject(new Error('The worker did not start.'));
        worker.postMessage({ id, run } satisfies LoadAsk);
      });
    } finally {
      this.#reject = undefined;
    }
  }

  /** Ends what runs: its promise rejects with an `AbortError`. */
  stop(): void {
    if (this.#reject === undefined) return;
    this.#worker?.terminate();
    this.#worker = undefined;
    this.#reject(new DOMException('Stopped.', 'AbortError'));
  }
}
