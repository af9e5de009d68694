// Asks the model and shows what it answers: one answer at a time, ended in one of three ways.
import type { Model, Stats, TokenStream } from 'tokenbrook';
import { announce } from '../shared/announcer.js';
import { Conversation, type Answer } from './conversation.js';
import { describeFailure, formatCount, type Failure } from '../shared/format.js';
import { AnswerView, questionView } from './message-view.js';
import type { ModelControl } from '../shared/model-control.js';
import type { ScrollFollower } from './scroll.js';
import { generateOptions, type Settings } from '../shared/settings.js';

const NOT_LOADED: Failure = {
  code: 'aborted',
  message: 'Loading the model was cancelled: retry loads it again.',
};

interface Cleared {
  conversation: Conversation;
  nodes: Node[];
}

export class ChatControl {
  conversation = new Conversation();
  #views = new Map<Answer, AnswerView>();
  #abort: AbortController | null = null;
  #cleared: Cleared | null = null;
  readonly #transcript: HTMLElement;
  readonly #models: ModelControl;
  readonly #settings: Settings;
  readonly #scroll: ScrollFollower;
  readonly #onChange: () => void;

  constructor(
    transcript: HTMLElement,
    models: ModelControl,
    settings: Settings,
    scroll: ScrollFollower,
    onChange: () => void,
  ) {
    this.#transcript = transcript;
    this.#models = models;
    this.#settings = settings;
    this.#scroll = scroll;
    this.#onChange = onChange;
  }

  get isBusy(): boolean {
    return this.#abort !== null;
  }

  get canUndoClear(): boolean {
    return this.#cleared !== null && this.conversation.isEmpty;
  }

  /** Sends a message; false, with nothing changed, where it cannot be sent now. */
  send(text: string): boolean {
    if (this.isBusy || this.#models.isLoading || this.#models.choice === null) return false;
    if (text.trim() === '') return false;
    this.#cleared = null;
    this.#retryable()?.setRetry(false);
    const question = this.conversation.ask(text);
    this.#transcript.append(questionView(question));
    this.#scroll.toEnd();
    void this.#answer(() => this.conversation.begin(), true);
    return true;
  }

  stop(): void {
    this.#abort?.abort();
  }

  /** Empties the conversation; `undoClear` brings it back until the next message. */
  clear(): void {
    if (this.conversation.isEmpty) return;
    this.stop();
    this.#cleared = { conversation: this.conversation, nodes: [...this.#transcript.childNodes] };
    this.conversation = new Conversation();
    this.#transcript.replaceChildren();
    announce('The conversation was cleared.');
    this.#onChange();
    this.#scroll.toStart();
  }

  undoClear(): void {
    if (!this.canUndoClear || this.#cleared === null) return;
    this.conversation = this.#cleared.conversation;
    this.#transcript.replaceChildren(...this.#cleared.nodes);
    this.#cleared = null;
    announce('The conversation is back.');
    this.#onChange();
    this.#scroll.toEnd();
  }

  async #retry(failed: Answer): Promise<void> {
    if (this.isBusy || this.#models.isLoading || !this.conversation.canRetry(failed)) return;
    const view = this.#views.get(failed);
    await this.#answer(() => {
      view?.supersede();
      return this.conversation.retry(failed);
    }, false);
  }

  /**
   * Generates one answer. `begin` adds it to the conversation once there is a model to ask, or,
   * where `always`, to say that there is none: a new question has no other place for that.
   */
  async #answer(begin: () => Answer, always: boolean): Promise<void> {
    const abort = new AbortController();
    this.#abort = abort;
    this.#onChange();
    const model = await this.#models.ensure();
    if (model !== null || always) await this.#run(model, begin(), abort.signal);
    this.#abort = null;
    this.#onChange();
  }

  async #run(model: Model | null, answer: Answer, signal: AbortSignal): Promise<void> {
    const view = new AnswerView(
      () => this.#scroll.follow(),
      () => void this.#retry(answer),
    );
    this.#views.set(answer, view);
    this.#transcript.append(view.root);
    this.#scroll.follow();
    if (model === null) {
      answer.failure = this.#models.failure ?? NOT_LOADED;
      answer.status = 'incomplete';
    } else {
      await this.#read(model, answer, view, signal);
    }
    if (answer.failure !== null) this.#models.noteFailure(answer.failure);
    view.end(answer);
    this.#scroll.follow();
    announce(outcome(answer));
  }

  async #read(
    model: Model,
    answer: Answer,
    view: AnswerView,
    signal: AbortSignal,
  ): Promise<void> {
    let stream: TokenStream | null = null;
    try {
      signal.throwIfAborted();
      stream = model.generate(
        this.conversation.messages(this.#settings.systemPrompt),
        { ...generateOptions(this.#settings), signal },
      );
      for await (const token of stream) {
        answer.text += token.text;
        view.push(token);
      }
    } catch (thrown) {
      if (!signal.aborted) answer.failure = describeFailure(thrown);
    }
    answer.stats = stream === null ? null : await stream.stats;
    answer.status = statusOf(answer, answer.stats, signal.aborted);
  }

  /** The view of a last answer that still offers another attempt. */
  #retryable(): AnswerView | undefined {
    const last = this.conversation.turns.at(-1);
    return last?.role === 'assistant' && this.conversation.canRetry(last)
      ? this.#views.get(last)
      : undefined;
  }
}

function statusOf(answer: Answer, stats: Stats | null, aborted: boolean): Answer['status'] {
  if (answer.failure !== null || stats?.finishReason === 'error') return 'incomplete';
  // A stop that came after the last token changed nothing.
  const ended = stats?.finishReason === 'stop' || stats?.finishReason === 'length';
  return aborted && !ended ? 'stopped' : 'complete';
}

function outcome(answer: Answer): string {
  const tokens = formatCount(answer.stats?.completionTokens ?? 0, 'token');
  switch (answer.status) {
    case 'incomplete':
      return `The answer is incomplete. ${answer.failure?.message ?? ''}`.trim();
    case 'stopped':
      return `Stopped after ${tokens}.`;
    default:
      return `The answer is complete, ${tokens}.`;
  }
}
