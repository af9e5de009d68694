// The pages' service worker, from their side.
import workerUrl from './sw.ts?worker&url';

/** Where the worker is; its folder is what it answers for. */
export const SHELL_WORKER = new URL(workerUrl, document.baseURI);

/** The engines that a model's `wasmVariant` stands for; `compat` begins with another's header. */
const ENGINES: Readonly<Record<string, string[]>> = {
  'relaxed-simd': ['engine-relaxed'],
  // The first one finds out that the processor computes.
  'relaxed-simd-threads': ['engine-relaxed', 'engine-threads'],
  compat: ['engine', 'engine-relaxed', 'compat'],
};

/**
 * Registers the worker, which keeps the pages for visits without a network. A new build takes
 * over at once where no stream of the mock is under way.
 */
export async function keepPages(): Promise<void> {
  const workers = (navigator as Partial<Navigator>).serviceWorker;
  if (workers === undefined) return;
  try {
    const registration = await workers.register(SHELL_WORKER, { type: 'module' });
    const replace = (): void => void replaceIdle(workers.controller, registration.waiting);
    replace();
    registration.addEventListener('updatefound', () => {
      registration.installing?.addEventListener('statechange', replace);
    });
  } catch (error) {
    console.warn('The pages are not kept for visits without a network:', error);
  }
}

/** Has the worker keep the engine that runs a model, wherever it came from. */
export function keepEngine(variant: string): void {
  const engines = ENGINES[variant] ?? ['engine'];
  (navigator as Partial<Navigator>).serviceWorker?.ready.then(
    ({ active }) => active?.postMessage({ engines }),
    () => undefined,
  );
}

/** Lets a worker that waits take over from one that is not busy. */
async function replaceIdle(
  present: ServiceWorker | null, waiting: ServiceWorker | null,
): Promise<void> {
  if (present === null || waiting === null) return;
  const { port1, port2 } = new MessageChannel();
  const open = await new Promise<number>((resolve) => {
    port1.onmessage = ({ data }: MessageEvent<{ value?: number }>) => resolve(data.value ?? 0);
    present.postMessage({ tokenbrook: 'open' }, [port2]);
  });
  port1.close();
  if (open === 0) waiting.postMessage({ tokenbrook: 'skip-waiting' });
}
