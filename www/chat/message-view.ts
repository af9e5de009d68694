// One message on the page. Text enters as text nodes, so nothing that a model writes is markup.
import type { Token } from 'tokenbrook';
import type { Answer, Question } from './conversation.js';
import { action, instantiate, role } from '../shared/dom.js';
import { describeStats, formatDuration, formatRate, liveRate } from '../shared/format.js';
import { FrameAppender } from '../shared/frame-appender.js';

/** Milliseconds between two changes of the live figures: faster ones cannot be read. */
const FIGURES_EVERY_MS = 250;

/** Builds the view of a question. */
export function questionView(question: Question): HTMLElement {
  const root = instantiate('question-template');
  role(root, 'text').textContent = question.text;
  return root;
}

export class AnswerView {
  readonly root = instantiate('answer-template');
  readonly #text = role(this.root, 'text');
  readonly #waiting = role(this.root, 'waiting');
  readonly #stats = role(this.root, 'stats');
  readonly #mark = role(this.root, 'mark');
  readonly #retry = action(this.root, 'retry');
  readonly #appender: FrameAppender;
  readonly #startedAtMs = performance.now();
  #ttftMs = 0;
  #firstAtMs = 0;
  #lastAtMs = 0;
  #tokens = 0;
  #figuresAtMs = -Infinity;

  /** `onFrame` runs after text was written; `onRetry` when the reader asks for another attempt. */
  constructor(onFrame: () => void, onRetry: () => void) {
    this.#appender = new FrameAppender(this.#text, () => {
      this.#waiting.hidden = true;
      this.#showLive();
      onFrame();
    });
    this.#retry.addEventListener('click', onRetry);
    this.root.dataset['status'] = 'streaming';
    this.root.setAttribute('aria-busy', 'true');
  }

  /** Takes one token of the stream. */
  push(token: Token): void {
    if (this.#tokens === 0) {
      this.#ttftMs = performance.now() - this.#startedAtMs;
      this.#firstAtMs = token.atMs;
    }
    this.#tokens += 1;
    this.#lastAtMs = token.atMs;
    this.#appender.push(token.text);
  }

  /** Shows how the answer ended; its text stays whatever happened. */
  end(answer: Answer): void {
    this.#appender.flush();
    // One node instead of one a frame: selection and search in the page stay quick.
    this.#text.normalize();
    this.#waiting.hidden = true;
    this.root.dataset['status'] = answer.status;
    this.root.removeAttribute('aria-busy');
    this.#showFigures(answer.stats === null ? [] : describeStats(answer.stats));
    this.#mark.textContent = markOf(answer);
    this.#mark.hidden = this.#mark.textContent === '';
    if (answer.failure !== null) this.#mark.dataset['code'] = answer.failure.code;
    this.setRetry(answer.status === 'incomplete');
  }

  setRetry(offered: boolean): void {
    this.#retry.hidden = !offered;
  }

  /** Dims an attempt that another one follows. */
  supersede(): void {
    this.root.dataset['superseded'] = 'true';
    this.setRetry(false);
  }

  focusRetry(): void {
    this.#retry.focus();
  }

  #showLive(): void {
    const now = performance.now();
    if (now - this.#figuresAtMs < FIGURES_EVERY_MS) return;
    this.#figuresAtMs = now;
    const rate = formatRate(liveRate(this.#firstAtMs, this.#lastAtMs, this.#tokens));
    const ttft = `TTFT ${formatDuration(this.#ttftMs)}`;
    this.#showFigures(rate === '' ? [ttft] : [ttft, rate]);
  }

  #showFigures(parts: readonly string[]): void {
    this.#stats.replaceChildren(...parts.map((part) => {
      const figure = document.createElement('span');
      figure.textContent = part;
      return figure;
    }));
  }
}

/** The sentence that marks an answer which did not end by itself. */
function markOf(answer: Answer): string {
  switch (answer.status) {
    case 'incomplete':
      return `Incomplete. ${answer.failure?.message ?? ''}`.trim();
    case 'stopped':
      return 'Stopped.';
    default:
      return answer.stats?.finishReason === 'length' ? 'Ended at the length limit.' : '';
  }
}
