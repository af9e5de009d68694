import { expect, loadDefault, openPage, test } from '../support/app.js';

interface Read {
  text: string;
  index: number;
  /** When it was made and when it was read, on one clock. */
  atMs: number;
  readMs: number;
}

const TOKENS = 12;

/** Clocks of a page and its worker differ by their rounding. */
const CLOCKS_MS = 2;

test('tokens of a model come when the delivery says', async ({ browser, server }) => {
  const page = await openPage(browser, server);
  await loadDefault(page);
  const runs = await page.evaluate(async (maxTokens) => {
    const read = async (delivery: import('../../../js/index.js').Delivery | undefined) => {
      const options = { maxTokens, temperature: 0, ignoreEos: true, delivery };
      const stream = model.generate('The sea is', options);
      const tokens: Read[] = [];
      for await (const { text, index, atMs } of stream) {
        tokens.push({ text, index, atMs, readMs: performance.now() });
      }
      return { tokens, stats: await stream.stats };
    };
    let looks = 0;
    return {
      plain: await read(undefined),
      batched: await read({ batchTokens: 4 }),
      held: await read({ holdBackTokens: 10 }),
      windowed: await read({ batchMs: 200 }),
      whole: await read({ whole: true }),
      replaced: await read({
        holdBackTokens: 2,
        check: ({ text, last }) => ({ replace: last ? text.toUpperCase() : text }),
      }),
      blocked: await read({ check: () => ((looks += 1) > 5 ? 'block' : 'release') }),
    };
  }, TOKENS);
  await page.close();

  const text = (tokens: Read[]): string => tokens.map((token) => token.text).join('');
  const expected = text(runs.plain.tokens);
  const last = TOKENS - 1;
  for (const [name, waitsFor] of [
    ['plain', (i: number) => i],
    ['batched', (i: number) => i - (i % 4) + 3],
    ['held', (i: number) => Math.min(i + 10, last)],
    ['windowed', (i: number) => i],
    ['whole', () => last],
  ] as const) {
    const { tokens, stats } = runs[name];
    expect(tokens.map(({ index }) => index)).toEqual(Array.from({ length: TOKENS }, (_, i) => i));
    expect(text(tokens)).toBe(expected);
    expect(stats.completionTokens).toBe(TOKENS);
    for (const [i, { readMs }] of tokens.entries()) {
      const madeMs = tokens[waitsFor(i)]?.atMs ?? Number.NaN;
      expect(readMs, `${name}, token ${i}`).toBeGreaterThan(madeMs - CLOCKS_MS);
    }
  }
  // Without a delivery the first token does not wait for the last.
  const [first] = runs.plain.tokens;
  expect(first?.readMs).toBeLessThan(runs.plain.tokens[last]?.atMs ?? 0);
  const [windowed] = runs.windowed.tokens;
  expect(windowed?.readMs).toBeGreaterThan((windowed?.atMs ?? 0) + 200 - CLOCKS_MS);
  expect(text(runs.replaced.tokens).toUpperCase()).toBe(expected.toUpperCase());
  expect(text(runs.replaced.tokens)).not.toBe(expected);
  expect(runs.blocked.tokens).toHaveLength(5);
  expect(runs.blocked.stats.finishReason).toBe('cancelled');
});
