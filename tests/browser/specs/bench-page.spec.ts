// The built bench page, on short prompts.

import type { Page } from '@playwright/test';
import { csvRows, expect, focusByKey, saved, test as base } from '../support/lab-page.js';

const test = base.extend<{ bench: string }>({
  bench: async ({ lab }, use) => use(lab.replace(/lab\/$/, 'bench/')),
});

/** One engine, two prompts and a reply of six tokens, twice each. */
const SHORT = '?webgpu=0&prompts=8,20&tokens=6&samples=2';

interface Spread {
  count: number;
  p50: number;
}

interface SavedSeries {
  promptTokens: number;
  outputTokens: number;
  ttft: Spread;
  tpot?: Spread;
  promptTokensPerSecond: number;
  tokensPerSecond: number | null;
  timelines: { outcome: string; outputTokens: number; requestMs: number; firstTokenMs: number }[];
}

interface SavedRun {
  browser: string;
  model: { name: string; bytes: number };
  plan: { lengths: number[] };
  rows: {
    setup: { name: string };
    info: { backend: string; wasmVariant: string; quantization: string };
    loadMs: number;
    loadedFrom: string;
    check: { against: string; agrees: boolean; worstNats: number; limitNats: number };
    memory: { wasmHeapBytes: number; weightsBytes: number };
    prompts: SavedSeries[];
    reply: SavedSeries;
  }[];
}

const main = (page: Page) => page.locator('main');
const status = (page: Page) => page.locator('[data-role="status"]');
const measure = (page: Page) => page.getByRole('button', { name: /^Measure SmolLM2/ });

test('an engine is checked and timed, and the figures are saved', async ({ page, bench }) => {
  await page.goto(`${bench}${SHORT}&plain=1`);
  await measure(page).click();
  await expect(page.getByRole('progressbar', { name: 'The run' })).toBeVisible();
  await expect(status(page)).toHaveText(/CPU: a prompt of \d+ tokens, \d of 2/);
  await expect(status(page)).toHaveText('Done. All tokens are right.', { timeout: 90_000 });
  const row = page.getByRole('row', { name: /^CPU, plain tg6/ });
  await expect(row.getByRole('cell').first()).toHaveText(/^[\d,]+\.\d$/);
  for (const name of [/^Prompt tokens a second/, /^Time from token to token/]) {
    await expect(page.getByRole('img', { name })).toBeVisible();
  }

  const file = JSON.parse(await saved(main(page), 'JSON')) as SavedRun;
  expect(file.model.name).toBe('SmolLM2-135M-Instruct');
  expect(file.plan.lengths).toEqual([8, 20]);
  expect(file.rows.map(({ setup }) => setup.name)).toEqual(['CPU', 'CPU, plain']);
  const [, plain] = file.rows;
  expect(plain?.info.wasmVariant).toBe('simd128');
  for (const { info, check, prompts, reply, memory, ...loaded } of file.rows) {
    expect([info.backend, info.quantization]).toEqual(['cpu', 'Q4_1']);
    expect(check).toMatchObject({ against: 'SmolLM2-135M-Instruct', agrees: true });
    expect(check.worstNats).toBeLessThan(check.limitNats);
    expect(loaded.loadMs).toBeGreaterThan(0);
    expect(loaded.loadedFrom).toBe('storage');
    expect(memory.wasmHeapBytes).toBeGreaterThan(memory.weightsBytes);
    expect(prompts.map(({ promptTokens }) => promptTokens)).toEqual([8, 20]);
    for (const series of [...prompts, reply]) {
      expect(series.timelines.length).toBe(2);
      expect(series.ttft.count).toBe(2);
      const times = series.timelines.map((one) => one.firstTokenMs - one.requestMs);
      expect(Math.min(...times)).toBeGreaterThan(0);
      const rate = (series.promptTokens / series.ttft.p50) * 1000;
      expect(series.promptTokensPerSecond).toBeCloseTo(rate, 6);
    }
    expect(reply.timelines.map(({ outputTokens }) => outputTokens)).toEqual([6, 6]);
    expect(reply.tokensPerSecond).toBeCloseTo(1000 / (reply.tpot?.p50 ?? NaN), 6);
  }
  const rows = csvRows(await saved(main(page), 'CSV'));
  expect(rows.length).toBe(2 * 2 * 3);
  expect(rows.filter(({ kind }) => kind === 'reply').length).toBe(4);
  expect(rows[0]).toMatchObject({
    engine: 'CPU', backend: 'cpu', quantization: 'Q4_1', tokensAgree: 'true', promptTokens: '8',
  });
});

test('a run is stopped by keyboard, and starts again', async ({ page, bench }) => {
  await page.goto(`${bench}?webgpu=0&prompts=40&tokens=2000&samples=3`);
  await expect(measure(page)).toBeVisible();
  await focusByKey(measure(page));
  await page.keyboard.press('Enter');
  await expect(page.getByRole('button', { name: 'Stop' })).toBeFocused();
  await expect(status(page)).toHaveText(/a reply of 2000 tokens/, { timeout: 60_000 });
  await page.keyboard.press('Escape');
  await expect(status(page)).toHaveText('Stopped.');
  await expect(page.getByRole('button', { name: 'JSON' })).toBeHidden();
  await expect(page.getByRole('progressbar', { name: 'The run' })).toBeHidden();
  const again = page.getByRole('button', { name: /^Measure again/ });
  await expect(again).toBeFocused();
  await page.getByLabel('Reply').fill('2');
  await page.getByLabel('Samples').fill('1');
  await expect(page).toHaveURL(/tokens=2&samples=1/);
  await again.click();
  await expect(status(page)).toHaveText('Done. All tokens are right.', { timeout: 60_000 });
});

test('a run in a tab that was hidden is void', async ({ page, bench }) => {
  await page.goto(`${bench}?webgpu=0&prompts=40&tokens=2000&samples=3`);
  await measure(page).click();
  await expect(status(page)).toHaveText(/a reply of 2000 tokens/, { timeout: 60_000 });
  const hide = (hidden: boolean) =>
    page.evaluate((hidden) => {
      Object.defineProperty(document, 'hidden', { configurable: true, get: () => hidden });
      document.dispatchEvent(new Event('visibilitychange'));
    }, hidden);
  await hide(true);
  await expect(status(page)).toHaveText(/^Void: the tab was hidden/);
  await expect(page.locator('[data-role="results"]')).toBeHidden();
  await expect(page.getByRole('button', { name: 'JSON' })).toBeHidden();
  // And none begins in one.
  await page.getByRole('button', { name: /^Measure again/ }).click();
  await expect(status(page)).toHaveText('This tab is hidden: show it, then start.');
  await hide(false);
  await page.getByRole('button', { name: /^Measure again/ }).click();
  await expect(status(page)).toHaveText(/CPU: loading/);
});

test('what cannot be measured is said before anything is loaded', async ({ page, bench }) => {
  await page.goto(`${bench}?webgpu=0&relaxed=0`);
  await measure(page).click();
  await expect(status(page)).toHaveText('Choose at least one engine.');
  await page.getByLabel('CPU, the best for this browser').check();
  await page.getByLabel('Prompts').fill('32, many');
  await measure(page).click();
  await expect(status(page)).toHaveText(/^Prompts are one to 6 whole numbers from 2 to 8,000/);
});

test('the page fits a phone in both colour schemes', async ({ page, bench }) => {
  await page.setViewportSize({ width: 360, height: 740 });
  await page.goto(`${bench}${SHORT}`);
  await measure(page).click();
  await expect(status(page)).toHaveText('Done. All tokens are right.', { timeout: 60_000 });
  for (const colorScheme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme });
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    expect(wide).toBe(0);
    for (const button of await page.getByRole('button').all()) {
      if (!(await button.isVisible())) continue;
      const box = await button.boundingBox();
      expect(box?.height).toBeGreaterThanOrEqual(36);
    }
  }
});
