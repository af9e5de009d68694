import type { Page } from '@playwright/test';

import { expect, generate, loadDefault, openPage, test } from '../support/app.js';
import type { Generated } from '../support/app.js';
import { caseNamed, clearTokens } from '../support/reference.js';

const PROMPT = 'Once upon a time, in a small village by the river, there lived';
const OTHER = 'def fibonacci(n):\n    """Return the n-th Fibonacci number."""\n    if n <= 1:';

test.describe('the stream of the default model', () => {
  let page: Page;
  let fresh: Generated;
  let other: Generated;

  test.beforeAll(async ({ browser, server }) => {
    page = await openPage(browser, server);
    await page.evaluate(() => {
      // Kinds of the engine's steps, as the worker tells them.
      const steps: string[] = [];
      new BroadcastChannel('steps').onmessage = ({ data }) => steps.push(String(data));
      Object.assign(globalThis, { steps });
    });
    await loadDefault(page, { workerUrl: '/workers/counting.js?wasm=simd128' });
    fresh = await generate(page, PROMPT, { maxTokens: 24, temperature: 0 });
    other = await generate(page, OTHER, { maxTokens: 24, temperature: 0 });
  });

  test.afterAll(() => page.close());

  test('stats are consistent with the tokens', () => {
    const { tokens, stats, promptIds } = fresh;
    const at = tokens.map(({ atMs }) => atMs);
    const gaps = at.slice(1).map((ms, i) => ms - (at[i] ?? 0));
    expect(tokens.map(({ index }) => index)).toEqual(at.map((_, i) => i));
    expect(stats).toMatchObject({ finishReason: 'length', completionTokens: 24 });
    expect(stats.promptTokens).toBe(promptIds.length);
    expect(stats.itlMs).toHaveLength(23);
    expect(Math.min(...gaps)).toBeGreaterThan(0);
    for (const [i, gap] of gaps.entries()) expect(stats.itlMs[i]).toBeCloseTo(gap, 1);
    const spanMs = (at.at(-1) ?? 0) - (at[0] ?? 0);
    expect(stats.decodeTokensPerSecond).toBeCloseTo((23 / spanMs) * 1000, 1);
    expect(stats.ttftMs).toBeGreaterThanOrEqual(stats.queueMs + (stats.prefillMs ?? Number.NaN) - 1);
    expect(stats.firstTextMs).toBeGreaterThanOrEqual(stats.ttftMs ?? Infinity);
  });

  test('times are on the timeline of the page', async () => {
    const [before, atMs, after] = await page.evaluate(async () => {
      const before = performance.now();
      const { value } = await model.generate('Hello', { maxTokens: 1 }).getReader().read();
      return [before, value?.atMs ?? NaN, performance.now()];
    });
    expect(atMs).toBeGreaterThan(before ?? NaN);
    expect(atMs).toBeLessThan(after ?? NaN);
  });

  test('after a break no step runs, and the next greedy call equals a fresh one', async () => {
    const counts = await page.evaluate(async (prompt) => {
      const { steps } = globalThis as unknown as { steps: string[] };
      const stream = model.generate(prompt, { maxTokens: 200, temperature: 0 });
      for await (const { index } of stream) if (index === 4) break;
      // The channel may lag behind the loop by a turn.
      await new Promise((resume) => setTimeout(resume, 50));
      const atBreak = steps.length;
      await new Promise((resume) => setTimeout(resume, 1000));
      const { finishReason, completionTokens } = await stream.stats;
      return { extra: steps.length - atBreak, finishReason, completionTokens };
    }, PROMPT);
    expect(counts.extra).toBe(0);
    expect(counts.finishReason).toBe('cancelled');
    // 5 read, 8 ahead of the reader, one in flight.
    expect(counts.completionTokens).toBeLessThanOrEqual(14);
    const again = await generate(page, PROMPT, { maxTokens: 24, temperature: 0 });
    expect(again.ids).toEqual(fresh.ids);
    expect(again.text).toBe(fresh.text);
  });

  test('a cancel during the prefill ends it, and the next call equals a fresh one', async () => {
    const text = caseNamed('long-forced').prompt_text;
    const outcome = await page.evaluate(async (text) => {
      const { steps } = globalThis as unknown as { steps: string[] };
      const controller = new AbortController();
      const stream = model.generate(text, { signal: controller.signal, temperature: 0 });
      const read = stream.getReader().read();
      const before = steps.length;
      while (steps.length === before) await new Promise((resume) => setTimeout(resume, 5));
      controller.abort('enough');
      const abortedAtMs = performance.now();
      const reason = await read.catch((error: unknown) => error);
      const { finishReason, completionTokens } = await stream.stats;
      const tookMs = performance.now() - abortedAtMs;
      return { reason, finishReason, completionTokens, tookMs };
    }, text);
    expect(outcome).toMatchObject({
      reason: 'enough',
      finishReason: 'cancelled',
      completionTokens: 0,
    });
    // One chunk is 100 ms of work; the machine may be busy.
    expect(outcome.tookMs).toBeLessThan(1000);
    const again = await generate(page, PROMPT, { maxTokens: 24, temperature: 0 });
    expect(again.ids).toEqual(fresh.ids);
  });

  test('a reader that waits 2 s after the first token finds lookahead + 1 made', async () => {
    for (const lookahead of [undefined, 2]) {
      const made = await page.evaluate(async ([prompt, lookahead]) => {
        const { steps } = globalThis as unknown as { steps: string[] };
        const options = { maxTokens: 100, temperature: 0, ...(lookahead && { lookahead }) };
        const before = steps.length;
        const reader = model.generate(prompt, options).getReader();
        await reader.read();
        await new Promise((resume) => setTimeout(resume, 2000));
        const made = steps.slice(before).filter((kind) => kind === 'token').length;
        await reader.cancel();
        return made;
      }, [PROMPT, lookahead] as const);
      expect(made).toBe((lookahead ?? 8) + 1);
    }
  });

  test('a call behind an unread stream runs, and the unread one resumes when read', async () => {
    const seen = await page.evaluate(async ([prompt, second]) => {
      const ids = async (reader: ReadableStreamDefaultReader<{ id: number }>) => {
        const ids: number[] = [];
        for (;;) {
          const { done, value } = await reader.read();
          if (done) return ids;
          ids.push(value.id);
        }
      };
      const options = { maxTokens: 24, temperature: 0, lookahead: 2 };
      const unread = model.generate(prompt, options).getReader();
      const first = (await unread.read()).value?.id ?? -1;
      const queued = await ids(model.generate(second, options).getReader());
      return { queued, unread: [first, ...(await ids(unread))] };
    }, [PROMPT, OTHER] as const);
    expect(seen.queued).toEqual(other.ids);
    expect(seen.unread).toEqual(fresh.ids);
  });

  test('two streams read in turns both say what they say alone', async () => {
    const seen = await page.evaluate(async ([prompt, second]) => {
      const options = { maxTokens: 24, temperature: 0, lookahead: 4 };
      const readers = [prompt, second].map((p) => model.generate(p, options).getReader());
      const seen: number[][] = [[], []];
      for (let i = 0; i < 25; i += 1) {
        for (const [n, reader] of readers.entries()) {
          const { value } = await reader.read();
          if (value !== undefined) seen[n]?.push(value.id);
        }
      }
      return seen;
    }, [PROMPT, OTHER] as const);
    expect(seen).toEqual([fresh.ids, other.ids]);
  });

  test('the text of a reply holds no U+FFFD that the model did not make', async () => {
    const { raw = '', greedy_text: text = '', ...reference } = caseNamed('unicode');
    const made = await generate(page, raw, { maxTokens: 24, temperature: 0, ignoreEos: true });
    // An incomplete character at the cut is the model's.
    const whole = made.text.replace(/\uFFFD$/, '');
    expect(whole).not.toContain('\uFFFD');
    expect(made.promptIds).toEqual(reference.prompt_ids);
    expect(await page.evaluate((ids) => model.detokenize(ids), reference.prompt_ids)).toBe(raw);
    // Where tokens split characters, the pieces join to the same text as all at once.
    const joined = await page.evaluate((ids) => model.detokenize(ids), made.ids);
    expect(joined.startsWith(whole)).toBe(true);
    expect(text.length).toBeGreaterThan(0);
  });

  test('a stop string across the edge of tokens ends the text before it', async () => {
    const { tokens, text } = fresh;
    const [left, right] = [tokens[10], tokens[11]];
    if (left === undefined || right === undefined) throw new Error('too few tokens');
    const stop = left.text.slice(-2) + right.text.slice(0, 2);
    const made = await generate(page, PROMPT, { maxTokens: 24, temperature: 0, stop: [stop] });
    expect(made.stats.finishReason).toBe('stop');
    expect(made.text).toBe(text.slice(0, text.indexOf(stop)));
    const none = await generate(page, PROMPT, { maxTokens: 5, temperature: 0, stop: ['§§'] });
    expect(none.text).toBe(tokens.slice(0, 5).map((token) => token.text).join(''));
  });

  test('the same seed gives the same tokens, another seed gives others', async () => {
    const sample = (seed: number): Promise<Generated> =>
      generate(page, PROMPT, { maxTokens: 12, seed });
    const [one, same, different] = [await sample(7), await sample(7), await sample(8)];
    expect(same.ids).toEqual(one.ids);
    expect(different.ids).not.toEqual(one.ids);
  });

  test('a later turn reuses the cache of what it extends', async () => {
    const first = await generate(page, PROMPT, { maxTokens: 4, temperature: 0 });
    const longer = PROMPT + first.text + ' and then';
    const { stats } = await generate(page, longer, { maxTokens: 1, temperature: 0 });
    expect(stats.cachedTokens).toBeGreaterThanOrEqual(first.stats.promptTokens - 1);
    expect(stats.cachedTokens).toBeLessThan(stats.promptTokens);
  });

  test('text, tokens and template go back and forth', async () => {
    const reference = caseNamed('multi-turn');
    const { rendered, closed, ids } = await page.evaluate(async (messages) => {
      const rendered = await model.applyChatTemplate(messages);
      const closed = await model.applyChatTemplate(messages, { addGenerationPrompt: false });
      const ids = await model.tokenize(rendered, { special: true });
      return { rendered, closed, ids };
    }, reference.messages ?? []);
    expect(rendered).toBe(reference.prompt_text);
    expect(rendered).toBe(`${closed}<|im_start|>assistant\n`);
    expect(ids).toEqual(reference.prompt_ids);
    expect(clearTokens(reference)).toBeGreaterThan(0);
  });
});

test('a generation ends with length at the end of the context', async ({ browser, server }) => {
  const page = await openPage(browser, server);
  await page.evaluate(async () => {
    globalThis.model = await tokenbrook.load('/tiny.gguf', { contextLength: 40 });
  });
  const { stats } = await generate(page, 'then', { temperature: 0, ignoreEos: true });
  expect(stats.finishReason).toBe('length');
  expect(stats.promptTokens + stats.completionTokens).toBeGreaterThanOrEqual(40);
  expect(stats.promptTokens + stats.completionTokens).toBeLessThanOrEqual(41);
  await page.close();
});
