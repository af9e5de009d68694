// The end of a worker that this one has started.

/** Longer than it takes to load a model that is given up at once. */
const DELAY_MS = 1000;

/**
 * Ends a worker a little later. Chromium never ends a worker that it is told to end while one of
 * that one's own is about to end; who fails, or is given up, ends all of his own with himself.
 */
export function endLater(worker: Worker): void {
  setTimeout(() => worker.terminate(), DELAY_MS);
}
