// Waiting for a network: how long between attempts, and when a transfer has stalled.

import type { Tuning } from './tuning.js';

/** The longest that a browser which says that it is offline is waited for, ms. */
const MAX_OFFLINE_MS = 60_000;

/** Resolves when it is time for another attempt, or sooner where the network comes back. */
export async function pause(
  failures: number,
  retryAfterMs: number,
  tuning: Tuning,
  signal: AbortSignal,
): Promise<void> {
  const backoff = Math.min(tuning.backoffMs * 2 ** (failures - 1), tuning.maxBackoffMs);
  // Many pages lose one server at one moment; they should not all come back at another.
  const jittered = backoff * (0.5 + Math.random());
  const isOffline = globalThis.navigator?.onLine === false;
  await sleep(Math.max(jittered, retryAfterMs, isOffline ? MAX_OFFLINE_MS : 0), signal);
}

/** Rejects with the signal's reason. Ends early when the browser says that it is online again. */
function sleep(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const end = (settle: () => void) => (): void => {
      clearTimeout(timer);
      globalThis.removeEventListener?.('online', online);
      signal.removeEventListener('abort', aborted);
      settle();
    };
    const online = end(resolve);
    const aborted = end(() => reject(signal.reason as Error));
    const timer = setTimeout(online, ms);
    globalThis.addEventListener?.('online', online);
    signal.addEventListener('abort', aborted);
    if (signal.aborted) aborted();
  });
}

/**
 * What `work` settles to, or the signal's reason where that comes first: a browser can lose a
 * request so that not even its signal ends it.
 */
export function heeding<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const aborted = (): void => reject(signal.reason as Error);
    const end = (): void => signal.removeEventListener('abort', aborted);
    work.then(resolve, reject).finally(end);
    signal.addEventListener('abort', aborted);
    if (signal.aborted) aborted();
  });
}

/** Ends an attempt that brings too little, or that is not wanted any more. */
export class Watch {
  readonly #controller = new AbortController();
  readonly #outer: AbortSignal;
  readonly #timer: ReturnType<typeof setInterval>;
  #bytes = 0;
  isStalled = false;

  constructor({ stallMs, stallBytes }: Tuning, outer: AbortSignal) {
    this.#outer = outer;
    outer.addEventListener('abort', this.#abort);
    if (outer.aborted) this.#abort();
    this.#timer = setInterval(() => {
      this.isStalled = this.#bytes < stallBytes;
      this.#bytes = 0;
      if (this.isStalled) this.#controller.abort();
    }, stallMs);
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  note(bytes: number): void {
    this.#bytes += bytes;
  }

  end(): void {
    clearInterval(this.#timer);
    this.#outer.removeEventListener('abort', this.#abort);
  }

  readonly #abort = (): void => this.#controller.abort(this.#outer.reason);
}

/** Connections that the files of a model share; the earlier file's requests go first. */
export class Lanes {
  #free: number;
  /** Connections to take away as they are given back. */
  #surplus = 0;
  #all: number;
  readonly #waiting: { priority: number; grant: () => void }[] = [];

  constructor(count: number) {
    this.#free = count;
    this.#all = count;
  }

  /** Resolves to what gives the connection back. */
  async take(priority: number, signal: AbortSignal): Promise<() => void> {
    if (this.#free > 0) this.#free -= 1;
    else await this.#queue(priority, signal);
    return () => this.#giveBack();
  }

  /** A server wants fewer requests. */
  halve(): void {
    const fewer = Math.max(1, this.#all >> 1);
    this.#surplus += this.#all - fewer;
    this.#all = fewer;
  }

  #queue(priority: number, signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const aborted = (): void => {
        this.#waiting.splice(this.#waiting.indexOf(waiter), 1);
        reject(signal.reason as Error);
      };
      const grant = (): void => {
        signal.removeEventListener('abort', aborted);
        resolve();
      };
      const waiter = { priority, grant };
      if (signal.aborted) return reject(signal.reason as Error);
      signal.addEventListener('abort', aborted, { once: true });
      const at = this.#waiting.findIndex((other) => other.priority > priority);
      this.#waiting.splice(at < 0 ? this.#waiting.length : at, 0, waiter);
    });
  }

  #giveBack(): void {
    if (this.#surplus > 0) {
      this.#surplus -= 1;
      return;
    }
    const next = this.#waiting.shift();
    if (next === undefined) this.#free += 1;
    else next.grant();
  }
}
