// Prompts of exactly so many tokens, each with a beginning of its own: what an engine keeps of
// one helps with no other.

/** The part of a model that makes them. */
export interface Tokenizer {
  tokenize(text: string): Promise<ArrayLike<number>>;
  detokenize(ids: number[]): Promise<string>;
}

const STORY = `The river came down from the hills in spring, brown and loud, and took the old
bridge with it. Nobody had crossed there for years; still, people stood at the bank and spoke of
where it had led. An engineer drew another one on the back of a letter. Children counted logs as
they went by. When summer came the water was low, clear and slow, and you could walk over on the
stones without wetting a shoe. In autumn two masons began with the piers, then carpenters, then a
smith. Before the first snow a cart went over, loaded with apples, and its driver did not look
down once. Winter closed the road behind him.`.replaceAll('\n', ' ');

export class Prompts {
  readonly #tokenizer: Tokenizer;
  /** Tokens that the model puts before every text. */
  readonly #added: number;
  #ids: number[] = [];
  #at = 0;
  readonly #begun = new Set<number>();

  constructor(tokenizer: Tokenizer, added: number) {
    this.#tokenizer = tokenizer;
    this.#added = added;
  }

  /** A text of `length` tokens; rejects where no text of that length is found. */
  async next(length: number): Promise<string> {
    if (this.#ids.length === 0) this.#ids = Array.from(await this.#tokenizer.tokenize(STORY));
    const { length: count } = this.#ids;
    for (let tries = 0; tries < count; tries += 1) {
      this.#at = (this.#at + 1) % count;
      const first = this.#ids[this.#at];
      if (first === undefined || this.#begun.has(first)) continue;
      const wanted = Math.max(length - this.#added, 1);
      const ids = Array.from({ length: wanted }, (_, n) => this.#ids[(this.#at + n) % count] ?? 0);
      const text = await this.#tokenizer.detokenize(ids);
      const again = await this.#tokenizer.tokenize(text);
      // What was cut has to be read as the same tokens again.
      if (again.length !== wanted || again[0] !== first) continue;
      this.#begun.add(first);
      return text;
    }
    // All beginnings are used: long ago enough that nothing of them is kept.
    if (this.#begun.size === 0) throw new Error(`no prompt of ${length} tokens was found`);
    this.#begun.clear();
    return this.next(length);
  }
}
