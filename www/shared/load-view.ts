// The card that shows a model on its way: phase, bytes, a bar.
import type { Progress } from 'tokenbrook';
import { announce } from './announcer.js';
import { field } from './dom.js';
import { button, freshId, h } from './elements.js';
import { formatProgress } from './format.js';

const PHASES: Record<Progress['phase'], string> = {
  download: 'Receiving',
  verify: 'Reading and checking',
  compile: 'Receiving; preparing the GPU',
  check: 'Receiving; checking the GPU',
  upload: 'Preparing weights',
};

function cancelButton(cancel: () => void): HTMLButtonElement {
  const made = button('Cancel', 'quiet', cancel);
  made.dataset['action'] = 'cancel-load';
  return made;
}

export class LoadView {
  readonly #root: HTMLElement;
  readonly #bar: HTMLProgressElement;
  #frame: number | null = null;
  #latest: Progress | null = null;
  #announced = '';

  /** Takes the place of `place`; `level` is that of its heading. */
  constructor(place: HTMLElement, level: 'h2' | 'h3', cancel: () => void) {
    const id = freshId('loading');
    this.#bar = h('progress', { 'data-role': 'progress', 'aria-labelledby': id, max: '1' });
    this.#root = h('section',
      { class: 'loading', 'data-role': 'loading', 'aria-labelledby': id, hidden: true },
      h(level, { id, 'data-field': 'loading-name' }), this.#bar,
      h('div', { class: 'loading-line' },
        h('p', {},
          h('span', { 'data-field': 'loading-phase' }), ' ',
          h('span', { class: 'figures', 'data-field': 'loading-bytes' })),
        cancelButton(cancel)));
    place.replaceWith(this.#root);
  }

  /** Shows the card for a model whose size may be known before its first byte. */
  start(name: string, bytes: number | null): void {
    field(this.#root, 'loading-name').textContent = name;
    this.#announced = '';
    this.#bar.removeAttribute('value');
    this.#paint('Starting', 0, bytes);
    this.#root.hidden = false;
  }

  /** Takes a report; the page changes once per frame, however many come. */
  report(progress: Progress): void {
    this.#latest = progress;
    this.#frame ??= requestAnimationFrame(() => {
      this.#frame = null;
      const latest = this.#latest;
      if (latest === null) return;
      this.#paint(PHASES[latest.phase], latest.receivedBytes, latest.totalBytes);
    });
  }

  end(): void {
    if (this.#frame !== null) cancelAnimationFrame(this.#frame);
    this.#frame = null;
    this.#latest = null;
    this.#root.hidden = true;
  }

  #paint(phase: string, receivedBytes: number, totalBytes: number | null): void {
    const total = totalBytes === null || totalBytes <= 0 ? null : totalBytes;
    this.#root.dataset['phase'] = phase;
    field(this.#root, 'loading-phase').textContent = phase;
    field(this.#root, 'loading-bytes').textContent = formatProgress(receivedBytes, total);
    if (total === null) {
      this.#bar.removeAttribute('value');
    } else {
      this.#bar.max = total;
      this.#bar.value = Math.min(receivedBytes, total);
    }
    if (phase !== this.#announced) announce(`${phase}.`);
    this.#announced = phase;
  }
}
