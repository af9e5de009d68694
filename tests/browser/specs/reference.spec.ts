import type { Page } from '@playwright/test';

import { expect, generate, loadDefault, openPage, test } from '../support/app.js';
import type { Precision, ScoreResult } from '../../../js/index.js';
import { FORCED_CASES, GREEDY_CASES, caseNamed, clearTokens } from '../support/reference.js';
import { distance } from '../support/reference.js';
import type { Case } from '../support/reference.js';

/** The engine sets the pace: a few hundred tokens at the exact tier's speed. */
const TIMEOUT_MS = 400_000;

const score = (page: Page, ids: number[]): Promise<ScoreResult> =>
  page.evaluate((ids) => model.score(ids), ids);

function inTier(precision: Precision, tests: (page: () => Page) => void): void {
  test.describe(`${precision} tier`, () => {
    let page: Page;
    test.beforeAll(async ({ browser, server }) => {
      page = await openPage(browser, server);
      await loadDefault(page, { precision, backend: 'cpu' });
    });
    test.afterAll(() => page.close());
    tests(() => page);
  });
}

async function greedy(page: Page, reference: Case, count: number) {
  return generate(page, reference.messages ?? reference.raw ?? '', {
    maxTokens: count,
    temperature: 0,
    ignoreEos: true,
  });
}

inTier('exact', (page) => {
  for (const reference of GREEDY_CASES) {
    test(`${reference.name}: prompt and greedy ids are the reference's`, async () => {
      test.setTimeout(TIMEOUT_MS);
      const { greedy_ids: ids = [] } = reference;
      const count = clearTokens(reference);
      const made = await greedy(page(), reference, Math.max(count, 1));
      expect(made.promptIds).toEqual(reference.prompt_ids);
      expect(made.ids.slice(0, count)).toEqual(ids.slice(0, count));
      expect(made.stats.finishReason).toBe('length');
    });
  }

  test('an end token ends the reply, and its text is no part of it', async () => {
    const { messages = [], greedy_ids: ids = [], greedy_text: text = '' } = caseNamed('capital');
    const end = '<|im_end|>';
    const made = await generate(page(), messages, { temperature: 0 });
    expect(made.stats.finishReason).toBe('stop');
    expect(made.text).toBe(text.slice(0, text.indexOf(end)));
    expect(made.ids).toEqual(ids.slice(0, made.ids.length));
    const last = await page().evaluate((id) => model.detokenize([id ?? -1]), made.ids.at(-1));
    expect(last).toBe(end);
  });

  for (const reference of FORCED_CASES) {
    test(`${reference.name}: forced log-probabilities are the reference's`, async () => {
      test.setTimeout(TIMEOUT_MS);
      const { forced } = reference;
      if (forced === undefined) throw new Error('not a forced case');
      const scored = await score(page(), reference.prompt_ids);
      expect(scored.ids).toEqual(reference.prompt_ids);
      const { top1Agreement, meanAbsDlogprob } = distance(forced, scored);
      expect(top1Agreement).toBeGreaterThanOrEqual(0.98);
      expect(meanAbsDlogprob).toBeLessThanOrEqual(0.02);
    });
  }
});

inTier('fast', (page) => {
  for (const reference of GREEDY_CASES) {
    test(`${reference.name}: prompt ids are the reference's, greedy ids are near`, async () => {
      test.setTimeout(TIMEOUT_MS);
      const { prompt_ids: prompt, greedy_ids: ids = [] } = reference;
      const made = await greedy(page(), reference, 1);
      expect(made.promptIds).toEqual(prompt);
      const { top1Logprob, nextLogprob } = await score(page(), [...prompt, ...ids]);
      for (let i = prompt.length - 1; i < prompt.length + ids.length - 1; i += 1) {
        const gap = (top1Logprob[i] ?? NaN) - (nextLogprob[i] ?? NaN);
        expect(gap, `nats from the top at token ${i + 1}`).toBeLessThanOrEqual(0.5);
      }
    });
  }

  for (const reference of FORCED_CASES) {
    test(`${reference.name}: no further from the reference than llama.cpp`, async () => {
      test.setTimeout(TIMEOUT_MS);
      const { forced, llama_cpp_int8: yardstick } = reference;
      if (forced === undefined || yardstick === undefined) throw new Error('not a forced case');
      // From text: the tokenizer is part of the path.
      const scored = await page().evaluate((text) => model.score(text), reference.prompt_text);
      expect(scored.ids).toEqual(reference.prompt_ids);
      const { top1Agreement, meanAbsDlogprob } = distance(forced, scored);
      expect(top1Agreement).toBeGreaterThanOrEqual(yardstick.top1_agreement - 0.01);
      expect(meanAbsDlogprob).toBeLessThanOrEqual(1.15 * yardstick.mean_abs_dlogprob);
    });
  }
});
