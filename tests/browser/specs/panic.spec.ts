import type { Page } from '@playwright/test';

import { expect, loadFailure, openPage, test } from '../support/app.js';

let page: Page;

test.beforeAll(async ({ browser, server }) => {
  page = await openPage(browser, server);
});

test.afterAll(() => page.close());

const trapping = (name: string, after: number): string =>
  `/workers/trapping.js?wasm=simd128&export=${name}&after=${after}`;

test('a trap while loading rejects with internal, and the next load works', async () => {
  for (const [name, after] of [
    ['push', 0],
    ['endFile', 0],
    ['finish', 0],
  ] as const) {
    const failure = await loadFailure(page, '/tiny.gguf', { workerUrl: trapping(name, after) });
    expect(failure).toMatchObject({ code: 'internal' });
    await expect.poll(() => page.workers().length).toBe(0);
  }
  expect(await loadFailure(page, '/tiny.gguf')).toMatchObject({ code: 'none' });
});

test('a trap in a step settles all that is pending, and the next load works', async () => {
  const seen = await page.evaluate(async (workerUrl) => {
    const model = await tokenbrook.load('/tiny.gguf', { workerUrl });
    const code = (promise: Promise<unknown>): Promise<string> =>
      promise.then(
        () => 'fulfilled',
        (error: { code: string }) => error.code,
      );
    const running = model.generate('then', { temperature: 0, ignoreEos: true });
    const queued = model.generate('then');
    const unread = model.generate('then');
    const reader = running.getReader();
    const tokens = [(await reader.read()).value?.index];
    const others = [code(queued.getReader().read()), code(model.score('then'))];
    let failure = 'none';
    try {
      for (;;) {
        const { done, value } = await reader.read();
        if (done) break;
        tokens.push(value.index);
      }
    } catch (error) {
      failure = (error as { code: string }).code;
    }
    return {
      failure,
      tokens,
      others: await Promise.all(others),
      stats: await Promise.all(
        [running, queued, unread].map(async (stream) => {
          const { finishReason, completionTokens } = await stream.stats;
          return [finishReason, completionTokens];
        }),
      ),
      unread: await code(unread.getReader().read()),
      later: [await code(model.memory()), await code(model.generate('x').getReader().read())],
    };
  }, trapping('step', 5));
  const made = seen.tokens.length;
  expect(seen).toEqual({
    failure: 'internal',
    // Each step but those of the prefill made one; all of them were delivered.
    tokens: [0, 1, 2, 3, 4].slice(0, made),
    others: ['internal', 'internal'],
    stats: [
      ['error', made],
      ['error', 0],
      ['error', 0],
    ],
    unread: 'internal',
    later: ['internal', 'internal'],
  });
  expect(made).toBeGreaterThanOrEqual(3);
  await expect.poll(() => page.workers().length).toBe(0);
  expect(await loadFailure(page, '/tiny.gguf')).toMatchObject({ code: 'none' });
  expect(await page.evaluate(() => problems)).toEqual([]);
});
