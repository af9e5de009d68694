// What happens often, told seldom: the last of it is told all the same.

import { TIMERS } from './timers.js';
import type { Timers } from './timers.js';

export class Pace {
  readonly #everyMs: number;
  readonly #tell: () => void;
  readonly #timers: Timers;
  #toldAtMs = Number.NEGATIVE_INFINITY;
  /** Takes back what waits for its time. */
  #takeBack: (() => void) | undefined;

  constructor(everyMs: number, tell: () => void, timers = TIMERS) {
    this.#everyMs = everyMs;
    this.#tell = tell;
    this.#timers = timers;
  }

  /** Tells at once where nothing was told of late, else as soon as that is so. */
  soon(): void {
    if (this.#takeBack !== undefined) return;
    const dueMs = this.#toldAtMs + this.#everyMs;
    if (dueMs <= this.#timers.nowMs()) this.now();
    else this.#takeBack = this.#timers.at(dueMs, () => this.now());
  }

  /** Tells at once, and nothing that was said before. */
  now(): void {
    this.end();
    this.#toldAtMs = this.#timers.nowMs();
    this.#tell();
  }

  /** What waits is not told any more. */
  end(): void {
    this.#takeBack?.();
    this.#takeBack = undefined;
  }
}
