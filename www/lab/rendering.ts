// Two ways to show text that arrives, and what each costs the page's thread.
import { FrameAppender } from '../shared/frame-appender.js';
import { h } from '../shared/elements.js';

export type Rendering = 'append' | 'reparse';

/** What rendering cost. Times in ms. */
export interface RenderCost {
  updates: number;
  totalMs: number;
  longestMs: number;
}

export class Renderer {
  /** When text was painted, on the page's clock: the frame in which it changed. */
  readonly paintedMs: number[] = [];
  readonly cost: RenderCost = { updates: 0, totalMs: 0, longestMs: 0 };
  readonly #place: HTMLElement;
  readonly #appender: FrameAppender | undefined;
  #text = '';

  constructor(place: HTMLElement, rendering: Rendering) {
    this.#place = place;
    place.replaceChildren();
    if (rendering === 'reparse') return;
    const target = { append: (text: string) => this.#timed(() => place.append(text)) };
    this.#appender = new FrameAppender(target, () => this.#painted());
  }

  push(text: string): void {
    if (this.#appender !== undefined) return this.#appender.push(text);
    // A role or a finish reason alone.
    if (text === '') return;
    this.#text += text;
    this.#timed(() => {
      this.#place.replaceChildren(...parsed(this.#text));
      // What reads a size after each change makes the browser lay the page out again at once.
      void this.#place.offsetHeight;
    });
    requestAnimationFrame(() => this.#painted());
  }

  end(): void {
    this.#appender?.flush();
  }

  #painted(): void {
    this.paintedMs.push(performance.timeOrigin + performance.now());
  }

  #timed(change: () => void): void {
    const start = performance.now();
    change();
    const took = performance.now() - start;
    this.cost.updates += 1;
    this.cost.totalMs += took;
    this.cost.longestMs = Math.max(this.cost.longestMs, took);
  }
}

/** As a formatter does it: the whole text to sentences, words and marks, each an element. */
function parsed(text: string): HTMLElement[] {
  return text.split(/(?<=[.!?])\s+/).map((sentence) => {
    const words = sentence.split(/(\s+)/);
    return h('span', {}, ...words.map((word) =>
      (/\w/.test(word) ? h('span', {}, word) : word)));
  });
}

/** Blocks the page's thread for 200 ms of every second until it is stopped. */
export function blockPage(): () => void {
  const timer = setInterval(() => {
    const until = performance.now() + 200;
    while (performance.now() < until);
  }, 1000);
  return () => clearInterval(timer);
}
