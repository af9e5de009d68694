// Text that arrives token by token, written to the page at most once per animation frame.

/** Where the text goes: an element, or a list in tests. */
export interface TextTarget {
  append(text: string): void;
}

/** The animation frame clock. */
export interface FrameClock {
  request(callback: () => void): number;
  cancel(handle: number): void;
}

/** The browser's clock; it rests while the tab is hidden, and `flush` makes up for that. */
export const animationFrames: FrameClock = {
  request: (callback) => requestAnimationFrame(callback),
  cancel: (handle) => cancelAnimationFrame(handle),
};

export class FrameAppender {
  readonly #target: TextTarget;
  readonly #onFrame: () => void;
  readonly #clock: FrameClock;
  #pending = '';
  #handle: number | null = null;

  /** `onFrame` runs after each write, in the same frame: the place to scroll and update figures. */
  constructor(target: TextTarget, onFrame: () => void, clock: FrameClock = animationFrames) {
    this.#target = target;
    this.#onFrame = onFrame;
    this.#clock = clock;
  }

  /** Takes text for the next frame. Empty text, a token inside a character, asks for none. */
  push(text: string): void {
    if (text === '') return;
    this.#pending += text;
    this.#handle ??= this.#clock.request(() => {
      this.#handle = null;
      this.#write();
    });
  }

  /** Writes what is pending now: the answer is over. */
  flush(): void {
    if (this.#handle !== null) this.#clock.cancel(this.#handle);
    this.#handle = null;
    this.#write();
  }

  #write(): void {
    if (this.#pending === '') return;
    const text = this.#pending;
    this.#pending = '';
    this.#target.append(text);
    this.#onFrame();
  }
}
