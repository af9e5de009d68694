// The conversation as data: who said what, how each answer ended, what the model is sent.
// It knows nothing of the page; the views follow it.
import type { ChatMessage, Stats } from 'tokenbrook';
import type { Failure } from '../shared/format.js';

/** How an answer stands. `incomplete` failed midway or before its first token. */
export type AnswerStatus = 'streaming' | 'complete' | 'stopped' | 'incomplete';

export interface Question {
  readonly role: 'user';
  readonly text: string;
}

export interface Answer {
  readonly role: 'assistant';
  text: string;
  status: AnswerStatus;
  stats: Stats | null;
  failure: Failure | null;
  /** A later attempt at the same question replaced it: shown and saved, never sent. */
  superseded: boolean;
}

export type Turn = Question | Answer;

/** What a downloaded conversation holds beside its turns. */
export interface ExportContext {
  exportedAt: string;
  model: unknown;
  settings: unknown;
}

export class Conversation {
  readonly #turns: Turn[] = [];

  get turns(): readonly Turn[] {
    return this.#turns;
  }

  get isEmpty(): boolean {
    return this.#turns.length === 0;
  }

  ask(text: string): Question {
    const question: Question = { role: 'user', text };
    this.#turns.push(question);
    return question;
  }

  /** Starts an answer to the last question. */
  begin(): Answer {
    const answer: Answer = {
      role: 'assistant', text: '', status: 'streaming', stats: null, failure: null,
      superseded: false,
    };
    this.#turns.push(answer);
    return answer;
  }

  /** Starts another attempt at the question of `failed`, which stays as it is. */
  retry(failed: Answer): Answer {
    if (!this.canRetry(failed)) throw new Error('only the last, incomplete answer is retried');
    failed.superseded = true;
    return this.begin();
  }

  canRetry(answer: Answer): boolean {
    return answer.status === 'incomplete' && this.#turns.at(-1) === answer;
  }

  /**
   * The messages that the model is sent, system prompt first where there is one.
   *
   * Questions that got no text in answer are joined with the next one: many chat templates refuse
   * two messages of one role in a row.
   */
  messages(systemPrompt: string): ChatMessage[] {
    const messages: ChatMessage[] = [];
    if (systemPrompt.trim() !== '') messages.push({ role: 'system', content: systemPrompt });
    for (const turn of this.#turns) {
      if (turn.role === 'assistant' && (turn.superseded || turn.text === '')) continue;
      const last = messages.at(-1);
      if (last !== undefined && last.role === turn.role) {
        last.content = `${last.content ?? ''}\n\n${turn.text}`;
      } else {
        messages.push({ role: turn.role, content: turn.text });
      }
    }
    return messages;
  }

  /** The saved form: messages in order, with figures and failures at each answer. */
  export(context: ExportContext): object {
    const messages = this.#turns.map((turn) => {
      if (turn.role === 'user') return { role: turn.role, content: turn.text };
      return {
        role: turn.role,
        content: turn.text,
        status: turn.status,
        superseded: turn.superseded,
        stats: turn.stats,
        error: turn.failure,
      };
    });
    return { format: 'tokenbrook-conversation', version: 1, ...context, messages };
  }
}
