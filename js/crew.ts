// Starts the threads of an engine: workers that share its memory.

import type { HelperReply, HelperStart } from './helper.js';

/** Longest that a worker may take to start, ms: it reads two small scripts. */
const PATIENCE_MS = 10_000;

/** Most threads that are tried without being asked for: on more, small models gain nothing. */
const MOST_AUTO = 8;

/** How many threads there may be. */
export function threadsFor(asked: number | 'auto' | undefined, processors: number): number {
  if (typeof asked === 'number') return asked;
  return Math.max(1, Math.min(processors, MOST_AUTO));
}

/** Starts that many workers; each has joined when this resolves, or it rejects and all are gone. */
export async function startHelpers(count: number, start: HelperStart): Promise<void> {
  const workers: Worker[] = [];
  try {
    const joined = Array.from({ length: count }, () => {
      // It must stand as it is: bundlers look for it.
      const worker = new Worker(new URL('./helper.js', import.meta.url), { type: 'module' });
      workers.push(worker);
      return joins(worker, start);
    });
    await Promise.all(joined);
  } catch (error) {
    for (const worker of workers) worker.terminate();
    throw error;
  }
}

function joins(worker: Worker, start: HelperStart): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error('a thread did not start')), PATIENCE_MS);
    worker.onmessage = ({ data }: MessageEvent<HelperReply>) => {
      clearTimeout(timer);
      if (data.type === 'enlisted') resolve();
      else reject(new Error(`a thread did not start: ${data.message}`));
    };
    worker.onerror = (event) => {
      event.preventDefault();
      clearTimeout(timer);
      reject(new Error(event.message || 'the script of a thread could not be loaded'));
    };
    worker.postMessage(start);
  });
}
