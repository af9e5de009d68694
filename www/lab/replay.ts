// Two replies side by side on one clock that can be played, dragged and hurried.
import { button, h } from '../shared/elements.js';
import { span } from '../shared/numbers.js';
import {
  bandOf, countUntil, readTimes, WORDS_PER_SECOND, type Arrival,
} from './replay-model.js';

export interface Track {
  title: string;
  colour: string;
  arrivals: readonly Arrival[];
}

/** Steps of the slider. */
const STEP_MS = 10;
const SPEEDS = [1, 4, 16] as const;

export class Replay {
  readonly root: HTMLElement;
  readonly #panels = h('div', { class: 'panels' });
  readonly #slider = h('input', { type: 'range', min: '0', step: String(STEP_MS),
    'aria-label': 'Moment of the replay' });
  readonly #clock = h('span', { class: 'figures clock', 'aria-hidden': 'true' });
  readonly #play: HTMLButtonElement;
  readonly #speed: HTMLSelectElement;
  #views: PanelView[] = [];
  #nowMs = 0;
  #endMs = 0;
  #frame: number | undefined;

  constructor() {
    this.#play = button('Play', 'quiet bordered', () => this.#toggle());
    this.#speed = h('select', { 'aria-label': 'Speed' }, ...SPEEDS.map((speed) =>
      h('option', { value: String(speed) }, `${speed} ×`)));
    this.#slider.addEventListener('input', () => {
      this.#pause();
      this.#moveTo(Number(this.#slider.value));
    });
    this.root = h('div', { class: 'replay', 'data-role': 'replay' },
      this.#panels,
      h('div', { class: 'transport' }, this.#play, this.#slider, this.#clock, this.#speed));
  }

  /** Other replies; `liveMs`: they are still coming, and it is so late. */
  show(tracks: readonly Track[], liveMs?: number): void {
    if (this.#views.length !== tracks.length) {
      this.#views = tracks.map(() => new PanelView());
      this.#panels.replaceChildren(...this.#views.map((view) => view.root));
    }
    tracks.forEach((track, at) => this.#views[at]?.take(track));
    const ends = this.#views.map((view) => view.endMs);
    this.#endMs = Math.ceil(Math.max(1, ...ends) / STEP_MS) * STEP_MS;
    this.#slider.max = String(this.#endMs);
    this.#slider.disabled = liveMs !== undefined;
    this.#play.disabled = liveMs !== undefined;
    if (liveMs !== undefined) this.#pause();
    this.#moveTo(liveMs ?? this.#endMs);
  }

  play(): void {
    if (this.#nowMs >= this.#endMs) this.#moveTo(0);
    this.#play.textContent = 'Pause';
    let last = performance.now();
    const tick = (): void => {
      const now = performance.now();
      this.#moveTo(this.#nowMs + (now - last) * Number(this.#speed.value));
      last = now;
      if (this.#nowMs >= this.#endMs) this.#pause();
      else this.#frame = requestAnimationFrame(tick);
    };
    this.#frame = requestAnimationFrame(tick);
  }

  #toggle(): void {
    if (this.#frame === undefined) this.play();
    else this.#pause();
  }

  #pause(): void {
    if (this.#frame !== undefined) cancelAnimationFrame(this.#frame);
    this.#frame = undefined;
    this.#play.textContent = 'Play';
  }

  #moveTo(nowMs: number): void {
    this.#nowMs = Math.min(nowMs, this.#slider.disabled ? Infinity : this.#endMs);
    this.#slider.value = String(this.#nowMs);
    const clock = span(Math.round(this.#nowMs));
    this.#clock.textContent = clock;
    this.#slider.setAttribute('aria-valuetext', clock);
    for (const view of this.#views) view.moveTo(this.#nowMs);
  }
}

/** One reply: words that are read, words that are there, and what they cost to wait for. */
class PanelView {
  readonly root: HTMLElement;
  endMs = 0;
  readonly #title = h('h3');
  readonly #read = h('span', { class: 'read' });
  readonly #unread = h('span', { class: 'unread' });
  readonly #note = h('p', { class: 'figures' });
  #words: string[] = [];
  #arrived: number[] = [];
  #readAt: number[] = [];
  #shown = '';

  constructor() {
    this.root = h('article', { class: 'panel' },
      this.#title, h('p', { class: 'reply' }, this.#read, this.#unread), this.#note);
  }

  take({ title, colour, arrivals }: Track): void {
    this.#title.textContent = title;
    this.root.dataset['colour'] = colour;
    this.#words = arrivals.map(({ text }) => text);
    this.#arrived = arrivals.map(({ atMs }) => atMs);
    this.#readAt = readTimes(arrivals, WORDS_PER_SECOND);
    this.endMs = this.#readAt.at(-1) ?? 0;
    this.#shown = '';
  }

  moveTo(nowMs: number): void {
    const there = countUntil(this.#arrived, nowMs);
    const read = countUntil(this.#readAt, nowMs);
    const firstMs = this.#arrived[0];
    this.#note.textContent = there === 0
      ? `Nothing yet: ${bandOf(nowMs)}`
      : `First text ${span(firstMs ?? 0)}: ${bandOf(firstMs ?? 0)}. ` +
        `Read ${read} of ${there} words there`;
    const shown = `${there} ${read}`;
    if (shown === this.#shown) return;
    this.#shown = shown;
    this.root.dataset['empty'] = String(there === 0);
    this.#read.textContent = this.#words.slice(0, read).join('');
    this.#unread.textContent = this.#words.slice(read, there).join('');
  }
}
