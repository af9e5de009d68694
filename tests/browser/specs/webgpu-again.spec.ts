// Time to the first token on WebGPU, when a model is loaded a second time.

import type { Page } from '@playwright/test';

import { expect, openPage, test } from '../support/app.js';

const TIMEOUT_MS = 120_000;

let page: Page;
test.beforeEach(async ({ browser, server }) => {
  test.setTimeout(TIMEOUT_MS);
  page = await openPage(browser, server);
});
test.afterEach(() => page.close());

test('a second load is ready sooner, and its first token waits for no kernel', async () => {
  const loads = await page.evaluate(async () => {
    const times = [];
    for (let i = 0; i < 2; i += 1) {
      const phases = new Set<string>();
      const onProgress = ({ phase }: { phase: string }): void => void phases.add(phase);
      const start = performance.now();
      const model = await tokenbrook.load('/tiny.gguf', { backend: 'webgpu', onProgress });
      const readyMs = performance.now() - start;
      const ttfts = [];
      for (const prompt of ['then', 'once', 'when', 'what']) {
        const stream = model.generate(prompt, { maxTokens: 1, temperature: 0 });
        for await (const _ of stream);
        ttfts.push((await stream.stats).ttftMs ?? NaN);
      }
      const isKnown = model.info.gpu?.isKnown;
      await model.dispose();
      times.push({ readyMs, ttfts, isKnown, phases: [...phases] });
    }
    return times;
  });
  const [first, second] = loads;
  if (first === undefined || second === undefined) throw new Error('two loads');
  expect(first.isKnown).toBe(false);
  expect(second.isKnown).toBe(true);
  expect(first.phases).toContain('check');
  expect(second.phases).not.toContain('check');
  expect(second.phases).not.toContain('download');
  expect(second.readyMs).toBeLessThan(first.readyMs);
  // A kernel that a first use had to make takes hundreds of milliseconds, a token a few.
  for (const { ttfts } of loads) {
    const [cold = NaN, ...later] = ttfts;
    expect(cold).toBeLessThan(Math.max(...later) + 100);
  }
});
