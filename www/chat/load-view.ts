// The card that shows a model on its way: phase, bytes, a bar.
import type { Progress } from 'tokenbrook';
import { announce } from './announcer.js';
import { field, find } from './dom.js';
import { formatProgress } from './format.js';

const PHASES: Record<Progress['phase'], string> = {
  download: 'Receiving',
  compile: 'Receiving; preparing the GPU',
  check: 'Receiving; checking the GPU',
  upload: 'Preparing weights',
};

export class LoadView {
  readonly #root: HTMLElement;
  readonly #bar: HTMLProgressElement;
  #frame: number | null = null;
  #latest: Progress | null = null;
  #announced = '';

  constructor(root: HTMLElement) {
    this.#root = root;
    this.#bar = find(root, 'progress', HTMLProgressElement);
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
