// One writer a file, among all tabs and workers of the origin, and news of its progress.

import type { Progress } from '../types.js';

/** Gives a lock back. */
export type Release = () => void;

export type News = Pick<Progress, 'receivedBytes' | 'durableBytes' | 'totalBytes'>;

export interface Locks {
  /** Waits for its turn. `shared`: beside others that share it. `onLost`: it was taken away. */
  take(key: string, mode: LockMode, signal: AbortSignal, onLost?: () => void): Promise<Release>;
  /** The lock, if nobody has it. */
  tryTake(key: string): Promise<Release | undefined>;
  /** Takes it away from whoever has it. */
  steal(key: string): Promise<Release>;
  /** Tells others how far a file is. */
  tell(key: string, news: News): void;
  /** Listens, until what it gives is called. */
  follow(key: string, listener: (news: News) => void): Release;
}

export class WebLocks implements Locks {
  readonly #locks: LockManager;
  #channel: BroadcastChannel | undefined;

  constructor(locks: LockManager) {
    this.#locks = locks;
  }

  take(
    key: string,
    mode: LockMode,
    signal: AbortSignal,
    onLost: () => void = () => undefined,
  ): Promise<Release> {
    return this.#request(key, { mode, signal }, onLost) as Promise<Release>;
  }

  tryTake(key: string): Promise<Release | undefined> {
    return this.#request(key, { ifAvailable: true });
  }

  steal(key: string): Promise<Release> {
    return this.#request(key, { steal: true }) as Promise<Release>;
  }

  tell(key: string, news: News): void {
    this.#channel ??= new BroadcastChannel(nameOf('news'));
    this.#channel.postMessage({ key, news });
  }

  follow(key: string, listener: (news: News) => void): Release {
    const channel = new BroadcastChannel(nameOf('news'));
    channel.onmessage = ({ data }: MessageEvent<{ key: string; news: News }>) => {
      if (data.key === key) listener(data.news);
    };
    return () => channel.close();
  }

  #request(
    key: string,
    options: LockOptions,
    onLost: () => void = () => undefined,
  ): Promise<Release | undefined> {
    return new Promise((resolve, reject) => {
      let isHeld = false;
      const held = this.#locks.request(nameOf(key), options, (lock) => {
        if (lock === null) return resolve(undefined);
        isHeld = true;
        return new Promise<void>((release) => resolve(release));
      });
      held.catch((error: unknown) => (isHeld ? onLost() : reject(error)));
    });
  }
}

function nameOf(what: string): string {
  return `tokenbrook:model:${what}`;
}
