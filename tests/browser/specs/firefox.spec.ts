// The same rows in Firefox: its WebGPU and its wasm compiler share nothing with Chromium's.

import type { Browser, Page } from 'puppeteer-core';

import { expect, test } from '../support/app.js';
import { FIXTURE_NAMES, fixtureCases, furthest } from '../support/fixtures.js';
import { launchFirefox, openFirefoxPage } from '../support/firefox.js';
import { FORCED_CASES, GEMMA_FORCED_CASES, GEMMA_GREEDY_CASES } from '../support/reference.js';
import { GREEDY_CASES, ROUNDED, clearTokens, distance } from '../support/reference.js';
import type { Case, Distance } from '../support/reference.js';
import type { LoadOptions, ScoreResult } from '../../../js/index.js';

/** Software adapters make a few tokens a second. */
const TIMEOUT_MS = 900_000;

let browser: Browser;
test.beforeAll(async () => {
  browser = await launchFirefox();
});
test.afterAll(() => browser.close());

const load = (page: Page, url: string, options: Omit<LoadOptions, 'tokenizer'>) =>
  page.evaluate(
    async (url, options) => {
      globalThis.model = await tokenbrook.load(url, options);
      return model.info;
    },
    url,
    options,
  );

async function greedyIds(page: Page, { messages, raw = '' }: Case, maxTokens: number) {
  return page.evaluate(
    async (input, maxTokens) => {
      const options = { maxTokens, temperature: 0, ignoreEos: true };
      const ids: number[] = [];
      for await (const { id } of model.generate(input, options)) ids.push(id);
      return ids;
    },
    messages ?? raw,
    maxTokens,
  );
}

const score = (page: Page, ids: number[]): Promise<ScoreResult> =>
  page.evaluate((ids) => model.score(ids), ids);

const EXACT_BOUND: Distance = { top1Agreement: 0.98, meanAbsDlogprob: 0.02 };

/** Rounded activations: no further from the reference than llama.cpp's. */
function fastBound({ llama_cpp_int8: yardstick }: Case): Distance {
  if (yardstick === undefined) throw new Error('not a forced case');
  return {
    top1Agreement: yardstick.top1_agreement - 0.01,
    meanAbsDlogprob: 1.15 * yardstick.mean_abs_dlogprob,
  };
}

function rows(
  title: string,
  [url, options]: [string, Omit<LoadOptions, 'tokenizer'>],
  [greedy, forced]: [Case[], Case[]],
): void {
  test.describe(title, () => {
    let page: Page;
    test.beforeAll(async ({ server }) => {
      test.setTimeout(TIMEOUT_MS);
      page = await openFirefoxPage(browser, server);
      const info = await load(page, url, options);
      expect(info.backend).toBe(options.backend);
    });
    test.afterAll(() => page.close());

    for (const reference of greedy) {
      test(`${reference.name}: greedy ids are the reference's`, async () => {
        test.setTimeout(TIMEOUT_MS);
        const count = Math.max(clearTokens(reference), 1);
        const ids = await greedyIds(page, reference, count);
        expect(ids).toEqual(reference.greedy_ids?.slice(0, count));
      });
    }

    for (const reference of forced) {
      test(`${reference.name}: forced log-probabilities are the reference's`, async () => {
        test.setTimeout(TIMEOUT_MS);
        if (reference.forced === undefined) throw new Error('not a forced case');
        const made = await score(page, reference.prompt_ids);
        const { top1Agreement, meanAbsDlogprob } = distance(reference.forced, made);
        const bound = options.precision === 'fast' ? fastBound(reference) : EXACT_BOUND;
        expect(top1Agreement).toBeGreaterThanOrEqual(bound.top1Agreement);
        expect(meanAbsDlogprob).toBeLessThanOrEqual(bound.meanAbsDlogprob);
      });
    }
  });
}

rows('WebGPU, SmolLM2', ['/model.gguf', { backend: 'webgpu' }], [GREEDY_CASES, FORCED_CASES]);
rows(
  'WebGPU, SmolLM2, fast tier',
  ['/model.gguf', { backend: 'webgpu', precision: 'fast', gpu: ROUNDED }],
  [[], FORCED_CASES],
);
rows(
  'WebGPU, Gemma 3',
  ['/gemma.gguf', { backend: 'webgpu' }],
  [GEMMA_GREEDY_CASES, GEMMA_FORCED_CASES],
);
rows(
  'CPU, SmolLM2',
  ['/model.gguf', { backend: 'cpu', precision: 'exact' }],
  [GREEDY_CASES.slice(0, 2), []],
);
rows(
  'CPU, SmolLM2, fast tier',
  ['/model.gguf', { backend: 'cpu', precision: 'fast' }],
  [[], FORCED_CASES],
);

test.describe('architectures', () => {
  let page: Page;
  test.beforeAll(async ({ server }) => {
    page = await openFirefoxPage(browser, server);
  });
  test.afterAll(() => page.close());

  for (const name of FIXTURE_NAMES) {
    test(`${name} has the log-probabilities of transformers`, async () => {
      test.setTimeout(TIMEOUT_MS);
      for (const fixture of fixtureCases(name)) {
        const scored = await page.evaluate(
          async (name, contextLength, ids) => {
            // As measuring would choose, which is not the matter here.
            const gpu = { plan: 'software' } as const;
            const options = { backend: 'webgpu', kvCache: 'f32', contextLength, gpu } as const;
            const model = await tokenbrook.load(`/fixtures/${name}.gguf`, options);
            const scored = await model.score(ids);
            await model.dispose();
            return scored;
          },
          name,
          fixture.context_length,
          fixture.ids,
        );
        expect(furthest(fixture, scored.nextLogprob)).toBeLessThanOrEqual(2e-3);
      }
    });
  }
});
