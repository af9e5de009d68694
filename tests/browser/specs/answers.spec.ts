// Log-probabilities and answers held to a form, on a tiny model whose tokens are bytes.

import type { Page } from '@playwright/test';

import type { ResponseFormat } from '../../../js/index.js';
import { expect, generate, openPage, test } from '../support/app.js';
import type { Generated } from '../support/app.js';

let page: Page;

test.beforeAll(async ({ browser, server }) => {
  page = await openPage(browser, server);
  await page.evaluate(async () => {
    globalThis.model = await tokenbrook.load('/tiny.gguf', { precision: 'exact' });
  });
});

test.afterAll(() => page.close());

test('logprobs bring alternatives whose first is what scoring finds', async () => {
  const made = await generate(page, 'then', { maxTokens: 9, temperature: 0, logprobs: 4 });
  const all = [...made.promptIds, ...made.ids];
  const score = await page.evaluate((ids) => model.score(ids), all);
  expect(made.tokens.length).toBeGreaterThan(1);
  for (const [i, { id, logprob, topLogprobs = [] }] of made.tokens.entries()) {
    const at = made.promptIds.length - 1 + i;
    for (const token of topLogprobs) {
      // Control tokens have no bytes.
      const names = Object.keys(token).filter((name) => name !== 'bytes');
      expect(names).toEqual(['id', 'text', 'logprob']);
      expect('bytes' in token).toBe(token.id >= 3);
    }
    expect(topLogprobs[0]?.id).toBe(score.top1[at]);
    // Greedy: the chosen one is the likeliest.
    expect(topLogprobs[0]?.id).toBe(id);
    expect(logprob).toBeCloseTo(score.nextLogprob[at] ?? NaN, 4);
    expect(topLogprobs[0]?.logprob).toBe(logprob);
    const falling = [...topLogprobs].sort((a, b) => b.logprob - a.logprob);
    expect(topLogprobs).toEqual(falling);
  }
  const silent = await generate(page, 'then', { maxTokens: 1 });
  expect(Object.keys(silent.tokens[0] ?? {})).toEqual(['id', 'text', 'index', 'atMs']);
});

test('penalties and biases reach the engine', async () => {
  const greedy = { maxTokens: 12, temperature: 0, ignoreEos: true };
  const forced = await generate(page, 'then', { ...greedy, logitBias: { 77: 100 } });
  expect(forced.ids).toEqual(Array(12).fill(77));
  const free = await generate(page, 'then', { ...greedy, maxTokens: 60 });
  const fresh = await generate(page, 'then', { ...greedy, maxTokens: 60, repetitionPenalty: 9 });
  expect(new Set(fresh.ids).size).toBeGreaterThan(new Set(free.ids).size);
});

test('answers of a form stream in pieces, end with stop and are valid', async () => {
  const schema = {
    type: 'object',
    properties: {
      zeta: { type: 'string', maxLength: 6 },
      alpha: { type: 'array', minItems: 1, maxItems: 3, items: { enum: [1, 'two', null] } },
    },
    required: ['zeta', 'alpha'],
    additionalProperties: false,
  };
  const hot = { temperature: 9, topK: 0, topP: 1 };
  const held = (responseFormat: ResponseFormat, seed: number): Promise<Generated> =>
    generate(page, 'then', { ...hot, responseFormat, seed });
  for (const seed of [1, 2, 3]) {
    const asked = { type: 'json_schema', json_schema: { name: 'x', schema } } as const;
    const { text, tokens, stats } = await held(asked, seed);
    expect(stats.finishReason).toBe('stop');
    const value: unknown = JSON.parse(text);
    // In the order of the schema.
    expect(Object.keys(value as object)).toEqual(['zeta', 'alpha']);
    for (const item of (value as { alpha: unknown[] }).alpha) {
      expect([1, 'two', null]).toContain(item);
    }
    expect(tokens.filter((token) => token.text !== '').length).toBeGreaterThan(10);
    const regex = await held({ type: 'regex', pattern: '[äß€]{4}-[0-9]{2,3}' }, seed);
    expect(regex.text).toMatch(/^[äß€]{4}-[0-9]{2,3}$/u);
    const lark = await held({ type: 'lark', grammar: 'start: "a" start "b" | "c"' }, seed);
    const depth = (lark.text.length - 1) / 2;
    expect(lark.text).toBe(`${'a'.repeat(depth)}c${'b'.repeat(depth)}`);
    expect([regex, lark].map(({ stats }) => stats.finishReason)).toEqual(['stop', 'stop']);
  }
});

test('a form that cannot be is refused with its place', async () => {
  const failure = await page.evaluate(async () => {
    const schema = { properties: { a: { items: { type: 'strnig' } } } };
    const responseFormat = { type: 'json_schema', schema } as const;
    try {
      for await (const token of model.generate('x', { responseFormat })) void token;
    } catch (error) {
      if (error instanceof tokenbrook.TokenbrookError) return `${error.code} ${error.message}`;
    }
    return 'none';
  });
  expect(failure).toMatch(/^invalid-option .*responseFormat\.schema\.properties\.a\.items.*strnig/);
});
