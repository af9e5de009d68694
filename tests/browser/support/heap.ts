// JavaScript heaps of a page and its workers, by the browser's protocol.

import type { CDPSession, Page } from '@playwright/test';

interface Usage {
  usedSize: number;
  backingStorageSize?: number;
}

/** Samples heaps while something runs, and tells how far the page and each worker grew. */
export class HeapWatch {
  readonly #session: CDPSession;
  readonly #workers = new Map<string, string>();
  readonly #answers = new Map<number, (usage: Usage) => void>();
  #nextId = 1;
  #baseline = new Map<string, number>();
  #peak = new Map<string, number>();
  #timer: ReturnType<typeof setInterval> | undefined;

  private constructor(session: CDPSession) {
    this.#session = session;
  }

  static async start(page: Page): Promise<HeapWatch> {
    const session = await page.context().newCDPSession(page);
    const watch = new HeapWatch(session);
    session.on('Target.attachedToTarget', ({ sessionId, targetInfo }) => {
      if (targetInfo.type === 'worker') watch.#workers.set(sessionId, targetInfo.url);
    });
    session.on('Target.detachedFromTarget', ({ sessionId }) => watch.#workers.delete(sessionId));
    session.on('Target.receivedMessageFromTarget', ({ message }) => {
      const { id, result } = JSON.parse(message) as { id: number; result?: Usage };
      if (result !== undefined) watch.#answers.get(id)?.(result);
      watch.#answers.delete(id);
    });
    // Unflattened: this session's own channel then carries the workers' messages.
    await session.send('Target.setAutoAttach', {
      autoAttach: true,
      waitForDebuggerOnStart: false,
      flatten: false,
    });
    await session.send('HeapProfiler.collectGarbage');
    await watch.#sample();
    watch.#timer = setInterval(() => void watch.#sample().catch(() => undefined), 20);
    return watch;
  }

  /** Peak growth in bytes: of the page over its start, of a worker over nothing. */
  async stop(): Promise<{ page: number; workers: number[]; samples: number }> {
    clearInterval(this.#timer);
    await this.#sample();
    await this.#session.detach();
    const growth = (key: string) => (this.#peak.get(key) ?? 0) - (this.#baseline.get(key) ?? 0);
    const workers = [...this.#peak.keys()].filter((key) => key !== 'page').map(growth);
    return { page: growth('page'), workers, samples: this.#samples };
  }

  #samples = 0;

  async #sample(): Promise<void> {
    const page = await this.#session.send('Runtime.getHeapUsage');
    this.#note('page', page);
    for (const sessionId of this.#workers.keys()) {
      this.#note(sessionId, await this.#ask(sessionId));
      this.#samples += 1;
    }
  }

  #note(key: string, { usedSize, backingStorageSize = 0 }: Usage): void {
    const bytes = usedSize + backingStorageSize;
    if (key === 'page' && !this.#baseline.has(key)) this.#baseline.set(key, bytes);
    this.#peak.set(key, Math.max(this.#peak.get(key) ?? 0, bytes));
  }

  async #ask(sessionId: string): Promise<Usage> {
    const id = this.#nextId++;
    const answer = new Promise<Usage>((resolve) => this.#answers.set(id, resolve));
    const message = JSON.stringify({ id, method: 'Runtime.getHeapUsage' });
    await this.#session.send('Target.sendMessageToTarget', { sessionId, message });
    return answer;
  }
}
