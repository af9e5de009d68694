// When a token that has arrived is shown to the reader: `src/stream/delivery.rs` in the page,
// where checks are called. Both are tested by tests/data/delivery.json.

import { invalidOption } from './errors.js';
import { TIMERS } from './timers.js';
import type { Timers } from './timers.js';
import type { Delivery, DeliveryVerdict, Token } from './types.js';

export interface DeliveryOutput {
  /** Show these now. */
  show(tokens: Token[]): void;
  /** The check let nothing more through. */
  blocked(): void;
  /** The check threw, or gave no verdict. */
  failed(error: unknown): void;
}

/** Tokens that have to be made before the reader gets the first of them, less that one. */
export function aheadOf({ batchTokens = 1, holdBackTokens = 0, whole }: Delivery): number {
  return whole ? Number.POSITIVE_INFINITY : batchTokens - 1 + holdBackTokens;
}

/** One stream of tokens on its way to a reader. */
export class TokenDelivery {
  readonly #options: Delivery;
  readonly #output: DeliveryOutput;
  readonly #timers: Timers;
  #held: Token[] = [];
  #batch: Token[] = [];
  #takeBack: (() => void) | undefined;
  #finished = false;
  /** Nothing is shown any more. */
  #closed = false;

  constructor(options: Delivery, output: DeliveryOutput, timers: Timers = TIMERS) {
    this.#options = options;
    this.#output = output;
    this.#timers = timers;
  }

  push(token: Token): void {
    if (this.#closed) return;
    this.#held.push(token);
    this.#run();
  }

  /** There are no more tokens: what is held is checked a last time and shown. */
  finish(): void {
    if (this.#closed) return;
    this.#finished = true;
    this.#run();
    this.#showBatch();
    this.#closed = true;
  }

  /** Nobody reads any more. */
  drop(): void {
    this.#closed = true;
    this.#held = [];
    this.#batch = [];
    this.#takeBack?.();
  }

  #run(): void {
    while (this.#mayLeave()) {
      if (!this.#check()) return;
      // At the end the check has seen all of it.
      const leave = this.#held.splice(0, this.#finished ? this.#held.length : 1);
      for (const token of leave) {
        if (this.#batch.length === 0) this.#open();
        this.#batch.push(token);
        if (this.#isFull()) this.#showBatch();
      }
    }
  }

  #mayLeave(): boolean {
    if (this.#finished) return this.#held.length > 0;
    return !this.#options.whole && this.#held.length > (this.#options.holdBackTokens ?? 0);
  }

  #isFull(): boolean {
    const { batchTokens, batchMs, whole } = this.#options;
    const enough = batchTokens ?? (batchMs === undefined ? 1 : Number.POSITIVE_INFINITY);
    return !whole && this.#batch.length >= enough;
  }

  #open(): void {
    const { batchMs, whole } = this.#options;
    if (batchMs === undefined || whole) return;
    const dueMs = this.#timers.nowMs() + batchMs;
    this.#takeBack = this.#timers.at(dueMs, () => this.#showBatch());
  }

  #showBatch(): void {
    this.#takeBack?.();
    this.#takeBack = undefined;
    const tokens = this.#batch;
    this.#batch = [];
    if (tokens.length > 0) this.#output.show(tokens);
  }

  /** False when the check has ended the stream. */
  #check(): boolean {
    const { check } = this.#options;
    if (check === undefined) return true;
    try {
      const text = this.#held.map((token) => token.text).join('');
      return this.#decide(check({ text, tokens: [...this.#held], last: this.#finished }));
    } catch (error) {
      this.#close();
      this.#output.failed(error);
      return false;
    }
  }

  #decide(verdict: DeliveryVerdict): boolean {
    if (verdict === 'block') {
      this.#close();
      this.#output.blocked();
      return false;
    }
    if (verdict === 'release') return true;
    if (typeof verdict !== 'object' || typeof verdict?.replace !== 'string') {
      const expected = "a function that gives 'release', { replace } or 'block'";
      throw invalidOption('delivery.check', expected);
    }
    this.#held = replaced(this.#held, verdict.replace);
    return true;
  }

  /** Shows what the check has let through, and nothing after it. */
  #close(): void {
    this.#held = [];
    this.#closed = true;
    this.#showBatch();
  }
}

/**
 * These tokens with this text: those at the start and at the end whose text stays keep it, the
 * first of the others gets what is new.
 */
function replaced(tokens: readonly Token[], text: string): Token[] {
  let [rest, front, back] = [text, 0, tokens.length];
  const textAt = (at: number): string => tokens[at]?.text ?? '';
  while (front < back && rest.startsWith(textAt(front))) {
    rest = rest.slice(textAt(front).length);
    front += 1;
  }
  while (front < back && rest.endsWith(textAt(back - 1))) {
    rest = rest.slice(0, rest.length - textAt(back - 1).length);
    back -= 1;
  }
  // An insertion goes to the token before it.
  const isInsertion = front === back;
  const place = isInsertion ? Math.max(0, front - 1) : front;
  return tokens.map((token, i) => {
    if (i === place) {
      const own = isInsertion ? token.text : '';
      return { ...token, text: front === 0 ? rest + own : own + rest };
    }
    return i > front && i < back ? { ...token, text: '' } : token;
  });
}
