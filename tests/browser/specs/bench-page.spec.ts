// The built bench page, on short prompts.

import type { Page } from '@playwright/test';
import { csvRows, expect, focusByKey, saved, test as base } from '../support/lab-page.js';

const test = base.extend<{ bench: string }>({
  bench: async ({ lab }, use) => use(lab.replace(/lab\/$/, 'bench/')),
});

/** A model of a few thousand weights, which runs on both engines of the CPU at once. */
const TINY = '?model=../models/tiny.gguf&webgpu=0&plain=1';

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
const measure = (page: Page, name = 'tiny') =>
  page.getByRole('button', { name: new RegExp(`^Measure ${name}`) });

test.beforeEach(() => test.setTimeout(300_000));

/** How long a busy machine may take for a run. */
const RUN = { timeout: 200_000 };

test('the chat and the lab lead here, and back', async ({ page, bench, lab }) => {
  for (const from of [lab.replace(/lab\/$/, ''), lab]) {
    await page.goto(from);
    await page.getByRole('link', { name: 'Bench' }).click();
    await expect(page).toHaveURL(bench);
    await expect(measure(page, 'SmolLM2')).toBeVisible();
  }
  await page.getByRole('link', { name: 'Chat' }).click();
  await expect(page).toHaveURL(lab.replace(/lab\/$/, ''));
  await page.setViewportSize({ width: 360, height: 740 });
  await expect(page.getByRole('link', { name: 'Bench' })).toBeHidden();
});

test('the default model is checked against its known tokens, and timed', async ({
  page,
  bench,
}) => {
  await page.goto(`${bench}?webgpu=0&prompts=6&tokens=3&samples=1`);
  await measure(page, 'SmolLM2').click();
  await expect(page.getByRole('progressbar', { name: 'The run' })).toBeVisible();
  await expect(status(page)).toHaveText('Done. All tokens are right.', RUN);
  const file = JSON.parse(await saved(main(page), 'JSON')) as SavedRun;
  expect(file.model.name).toBe('SmolLM2-135M-Instruct');
  expect(file.rows.length).toBe(1);
  const [row] = file.rows;
  expect(row?.info).toMatchObject({ backend: 'cpu', quantization: 'Q4_1' });
  expect(row?.check).toMatchObject({ against: 'SmolLM2-135M-Instruct', agrees: true });
  expect(row?.check.worstNats).toBeLessThan(row?.check.limitNats ?? 0);
  expect(row?.loadedFrom).toBe('storage');
  expect(row?.memory.wasmHeapBytes).toBeGreaterThan(row?.memory.weightsBytes ?? Infinity);
});

test('engines are timed in turn, and all samples are saved', async ({ page, bench }) => {
  await page.goto(`${bench}${TINY}&prompts=20,8&tokens=6&samples=2`);
  await measure(page).click();
  await expect(status(page)).toHaveText('Done. All tokens are right.', RUN);
  const row = page.getByRole('row', { name: /^CPU, plain tg6/ });
  await expect(row.getByRole('cell').first()).toHaveText(/^[\d,]+\.\d$/);
  for (const name of [/^Prompt tokens a second/, /^Time from token to token/]) {
    await expect(page.getByRole('img', { name })).toBeVisible();
  }
  const file = JSON.parse(await saved(main(page), 'JSON')) as SavedRun;
  expect(file.plan.lengths).toEqual([8, 20]);
  expect(file.rows.map(({ setup }) => setup.name)).toEqual(['CPU', 'CPU, plain']);
  expect(file.rows[1]?.info.wasmVariant).toBe('simd128');
  expect(file.rows[1]?.check).toMatchObject({ against: 'CPU', agrees: true });
  for (const { loadMs, prompts, reply } of file.rows) {
    expect(loadMs).toBeGreaterThan(0);
    expect(prompts.map(({ promptTokens }) => promptTokens)).toEqual([8, 20]);
    for (const series of [...prompts, reply]) {
      expect([series.timelines.length, series.ttft.count]).toEqual([2, 2]);
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
    engine: 'CPU',
    backend: 'cpu',
    tokensAgree: 'true',
    promptTokens: '8',
  });
});

/** A run that lasts. */
const LONG = `${TINY}&prompts=40&tokens=400&samples=100`;

test('a run is stopped by keyboard, and starts again', async ({ page, bench }) => {
  await page.goto(`${bench}${LONG}`);
  await expect(measure(page)).toBeVisible();
  await focusByKey(measure(page));
  await page.keyboard.press('Enter');
  await expect(page.getByRole('button', { name: 'Stop' })).toBeFocused();
  await expect(status(page)).toHaveText(/a reply of 400 tokens/, RUN);
  await page.keyboard.press('Escape');
  await expect(status(page)).toHaveText('Stopped.');
  await expect(page.getByRole('button', { name: 'JSON' })).toBeHidden();
  await expect(page.getByRole('progressbar', { name: 'The run' })).toBeHidden();
  const again = page.getByRole('button', { name: /^Measure again/ });
  await expect(again).toBeFocused();
  await page.getByRole('textbox', { name: 'Reply' }).fill('2');
  await page.getByRole('textbox', { name: 'Samples' }).fill('1');
  await expect(page).toHaveURL(/tokens=2&samples=1/);
  await again.click();
  await expect(status(page)).toHaveText('Done. All tokens are right.', RUN);
});

test('a run in a tab that was hidden is void', async ({ page, bench }) => {
  await page.goto(`${bench}${LONG}`);
  await measure(page).click();
  await expect(status(page)).toHaveText(/a reply of 400 tokens/, RUN);
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
  await expect(page.getByRole('button', { name: 'Stop' })).toBeVisible();
});

test('what cannot be measured is said', async ({ page, bench }) => {
  await page.goto(`${bench}?model=../models/tiny.gguf&webgpu=0&best=0`);
  await measure(page).click();
  await expect(status(page)).toHaveText('Choose at least one engine.');
  await page.getByLabel('CPU, the best for this browser').check();
  await page.getByRole('textbox', { name: 'Prompts' }).fill('32, many');
  await measure(page).click();
  await expect(status(page)).toHaveText(/^Prompts are one to 6 whole numbers from 2 to 8,000/);
  await page.getByRole('textbox', { name: 'Prompts' }).fill('700');
  await measure(page).click();
  await expect(page.locator('[data-role="results"]')).toContainText(/^CPU: .*512/);
  await expect(status(page)).toHaveText('Nothing could be measured.');
});

test('the page fits a phone in both colour schemes', async ({ page, bench }) => {
  await page.setViewportSize({ width: 360, height: 740 });
  await page.goto(`${bench}${TINY}&prompts=8,20&tokens=6&samples=2`);
  await measure(page).click();
  await expect(status(page)).toHaveText('Done. All tokens are right.', RUN);
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
