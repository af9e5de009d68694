// When text in an element was painted.

/** A paint, and how it was found. */
export interface Paint {
  /** Unix time in ms, with fractions. */
  atMs: number;
  by: 'element-timing' | 'animation-frames';
}

/** The part of an entry of type `element` that is used; the DOM library has none. */
interface ElementEntry extends PerformanceEntry {
  readonly element: Element | null;
  readonly renderTime: number;
}

/** How long after the frame an element's own report is waited for. */
const REPORT_MS = 300;

/** Watches an element from before it has text. */
export class PaintWatch {
  readonly #element: Element;
  readonly #hadName: boolean;
  #observer: PerformanceObserver | undefined;
  #textAtMs: number | undefined;
  #reported: number | undefined;
  #onReport: (() => void) | undefined;
  #framed: Promise<number | undefined> = Promise.resolve(undefined);

  constructor(element: Element) {
    this.#element = element;
    this.#hadName = element.hasAttribute('elementtiming');
    const types = globalThis.PerformanceObserver?.supportedEntryTypes ?? [];
    if (!types.includes('element')) return;
    // Only paints of elements that had the attribute before are reported.
    if (!this.#hadName) element.setAttribute('elementtiming', 'tokenbrook');
    this.#observer = new PerformanceObserver((list) => this.#report(list.getEntries()));
    this.#observer.observe({ type: 'element' });
  }

  /** The element has text now, or gets it within this frame. */
  textShown(): void {
    if (this.#textAtMs !== undefined) return;
    this.#textAtMs = performance.now();
    this.#framed = secondFrame();
  }

  /** The paint of the first text; nothing where it was not painted, as in a hidden page. */
  async painted(): Promise<Paint | undefined> {
    const framed = await this.#framed;
    if (framed !== undefined && this.#reported === undefined) await this.#reports();
    this.close();
    const [textAtMs, reported] = [this.#textAtMs, this.#reported];
    if (textAtMs !== undefined && reported !== undefined) {
      // Browsers round it, some down to before the text was there.
      return { atMs: unix(Math.max(reported, textAtMs)), by: 'element-timing' };
    }
    if (framed === undefined) return undefined;
    return { atMs: unix(framed), by: 'animation-frames' };
  }

  close(): void {
    this.#observer?.disconnect();
    if (this.#observer !== undefined && !this.#hadName) {
      this.#element.removeAttribute('elementtiming');
    }
    this.#observer = undefined;
  }

  #report(entries: readonly PerformanceEntry[]): void {
    const textAtMs = this.#textAtMs;
    if (textAtMs === undefined) return;
    const own = entries.find((entry) => {
      const { element, renderTime } = entry as ElementEntry;
      return element === this.#element && renderTime > 0;
    });
    if (own === undefined) return;
    this.#reported ??= (own as ElementEntry).renderTime;
    this.#onReport?.();
  }

  #reports(): Promise<void> {
    if (this.#observer === undefined) return Promise.resolve();
    return new Promise((done) => {
      const timer = setTimeout(done, REPORT_MS);
      this.#onReport = () => {
        clearTimeout(timer);
        done();
      };
    });
  }
}

/** The frame after the next: the next one is painted by then. Nothing in a hidden page. */
function secondFrame(): Promise<number | undefined> {
  return new Promise((done) => {
    if (document.visibilityState !== 'visible') {
      done(undefined);
      return;
    }
    const onHidden = (): void => settle(undefined);
    const settle = (ms: number | undefined): void => {
      document.removeEventListener('visibilitychange', onHidden);
      done(ms);
    };
    document.addEventListener('visibilitychange', onHidden);
    requestAnimationFrame(() => requestAnimationFrame(() => settle(performance.now())));
  });
}

function unix(ms: number): number {
  return performance.timeOrigin + ms;
}
