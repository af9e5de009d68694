// Follows the end of the conversation while the reader is there, and leaves them alone elsewhere.

/** Pixels from the end that still count as being there: a line and a half. */
const SLACK_PX = 40;

export class ScrollFollower {
  readonly #scroller: HTMLElement;
  readonly #jump: HTMLButtonElement;
  #following = true;

  constructor(scroller: HTMLElement, jump: HTMLButtonElement) {
    this.#scroller = scroller;
    this.#jump = jump;
    scroller.addEventListener('scroll', () => this.#observe(), { passive: true });
    jump.addEventListener('click', () => this.toEnd());
    // A narrower window or a taller message field moves the end without a scroll by the reader.
    new ResizeObserver(() => this.follow()).observe(scroller);
  }

  /** After new content: stays at the end if the reader was there. */
  follow(): void {
    if (this.#following) this.toEnd();
    else this.#jump.hidden = this.#isAtEnd();
  }

  /** Goes to the end and follows from there: the reader asked for it. */
  toEnd(): void {
    this.#following = true;
    this.#jump.hidden = true;
    this.#scroller.scrollTop = this.#scroller.scrollHeight;
  }

  /** Goes to the beginning of a page that has no messages. */
  toStart(): void {
    this.#following = true;
    this.#jump.hidden = true;
    this.#scroller.scrollTop = 0;
  }

  #observe(): void {
    this.#following = this.#isAtEnd();
    this.#jump.hidden = this.#following;
  }

  #isAtEnd(): boolean {
    const { scrollTop, clientHeight, scrollHeight } = this.#scroller;
    return scrollHeight - scrollTop - clientHeight <= SLACK_PX;
  }
}
