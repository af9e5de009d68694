// The lab as a page: sections, addresses, keyboard, calculators, loads, widths.

import type { Page } from '@playwright/test';
import { csvRows, expect, focusByKey, saved, section, test } from '../support/lab-page.js';

const SECTIONS = ['wait', 'breaks', 'paths', 'calculators', 'overload', 'delivery'];

/** Small runs, so that pictures have something to show. */
const SMALL = {
  wait: '#wait?calls=3&tokens=30&pace=10',
  breaks: '#breaks?proxy=1&tokens=60&pace=12',
  paths: '#paths?local=0&tokens=20&speed=200',
  calculators: '#calculators',
  overload: '#overload?requests=20000&seed=7',
  delivery: '#delivery',
};

test('opens each section by keyboard, and the chat page leads here and back', async ({
  page,
  lab,
}) => {
  await page.goto(lab.replace(/lab\/$/, ''));
  await page.getByRole('link', { name: 'Lab' }).click();
  await expect(page).toHaveURL(lab);
  await expect(section(page, 'wait')).toBeVisible();
  for (const name of ['Calculators', 'Overload', 'Delivery']) {
    const link = page.getByRole('link', { name });
    await focusByKey(link);
    await page.keyboard.press('Enter');
    await expect(link).toHaveAttribute('aria-current', 'page');
  }
  await expect(section(page, 'delivery')).toBeVisible();
  await expect(section(page, 'wait')).toBeHidden();
  await expect(page).toHaveTitle(/^Choose a delivery/);
  await page.getByRole('link', { name: 'Chat' }).click();
  await expect(page.getByRole('heading', { name: 'A language model, running in this tab.' }))
    .toBeVisible();
});

test('calculators answer at once, are kept in the address, and refuse what is none', async ({
  page,
  lab,
}) => {
  await page.goto(`${lab}#calculators`);
  const reply = page.locator('[data-calculator="reply"]');
  await expect(reply.getByRole('definition').nth(1)).toHaveText('733 ms');
  await expect(reply.getByRole('definition').nth(3)).toHaveText('4.66 s');
  const cache = page.locator('[data-calculator="cache"]');
  await expect(cache.getByText('536,870,912 bytes (512 MiB)')).toBeVisible();
  await reply.getByRole('button', { name: '300 at 30 ms' }).click();
  await expect(reply.getByRole('definition').nth(3)).toHaveText('9.47 s');
  await reply.getByLabel('Tokens, n').fill('many');
  await page.keyboard.press('Tab');
  await expect(reply.getByRole('alert')).toHaveText(/whole number from 1 to 1,000,000/);
  await expect(reply.getByRole('definition').nth(3)).toHaveText('9.47 s');

  const address = page.url();
  await page.goto('about:blank');
  await page.goto(address);
  await expect(reply.getByLabel('Tokens, n')).toHaveValue('300');
  const files = section(page, 'calculators');
  const rows = csvRows(await saved(files, 'CSV'));
  const end = rows.find(({ calculator, figure }) =>
    calculator === 'How long a reply takes' && figure === 'End of both');
  expect(end?.['value']).toBe('9470');
  const cards = JSON.parse(await saved(files, 'JSON')) as { id: string; figures: unknown[] }[];
  expect(cards.length).toBe(8);
});

test('ten seats that lose three go from 97 ms to hundreds, and shedding keeps it low', async ({
  page,
  lab,
}) => {
  await page.goto(`${lab}#overload?requests=200000&seed=7`);
  const overload = section(page, 'overload');
  await overload.getByText('200,000 requests, seed 7.').waitFor();
  interface Load {
    stretches: { paid: { meanWaitMs: number; refused: number }; free: { refused: number } }[];
    sweep: unknown[];
  }
  const load = async (): Promise<Load> => JSON.parse(await saved(overload, 'JSON')) as Load;
  const plain = await load();
  const [before, after] = plain.stretches;
  expect(before?.paid.meanWaitMs).toBeGreaterThan(90);
  expect(before?.paid.meanWaitMs).toBeLessThan(104);
  expect(after?.paid.meanWaitMs).toBeGreaterThan(500);
  expect(plain.sweep.length).toBe(5);

  await overload.getByRole('button', { name: 'Free sheds first' }).click();
  await expect(overload.locator('.verdict')).toContainText(/[1-9]\d % of free requests/);
  await overload.getByText('200,000 requests, seed 7.').waitFor();
  const [, shed] = (await load()).stretches;
  expect(shed?.paid.refused).toBe(0);
  expect(shed?.paid.meanWaitMs).toBeLessThan(200);
  const rows = csvRows(await saved(overload, 'CSV'));
  expect(rows.filter(({ kind }) => kind === 'run').length).toBe(4);
});

test('the choice of a delivery follows the needs', async ({ page, lab }) => {
  await page.goto(`${lab}#delivery`);
  const delivery = section(page, 'delivery');
  const verdict = delivery.locator('.verdict strong');
  await expect(verdict).toHaveText('Stream, an event a token');
  await delivery.getByLabel('Bytes or renders are dear').check();
  await expect(verdict).toHaveText('Stream, batched');
  await expect(delivery.getByRole('row', { name: /^Stream, batched/ })).toContainText('532 ms');
  await delivery.getByLabel('Checked before it is shown').selectOption('whole');
  await expect(verdict).toHaveText('Buffered');
  await expect(page).toHaveURL(/#delivery\?.*check=whole/);
  expect(csvRows(await saved(delivery, 'CSV')).length).toBe(5);
});

for (const [device, viewport] of [
  ['desktop', { width: 1280, height: 900 }],
  ['phone', { width: 360, height: 740 }],
] as const) {
  test(`fits a ${device}, light and dark`, async ({ page, lab }, info) => {
    await page.setViewportSize(viewport);
    for (const [name, hash] of Object.entries(SMALL)) {
      await page.goto('about:blank');
      await page.goto(`${lab}${hash}`);
      await shown(page, name);
      for (const colorScheme of ['light', 'dark'] as const) {
        await page.emulateMedia({ colorScheme });
        const path = info.outputPath(`lab-${name}-${device}-${colorScheme}.png`);
        await page.screenshot({ path, fullPage: true });
        await info.attach(`${name} ${colorScheme}`, { path, contentType: 'image/png' });
        const wide = await page.evaluate(() => document.documentElement.scrollWidth);
        expect(wide, `${name}: no sideways scrolling`).toBeLessThanOrEqual(viewport.width);
      }
    }
  });
}

test('a section that is not there leads to the first', async ({ page, lab }) => {
  await page.goto(`${lab}#toString`);
  await expect(section(page, 'wait')).toBeVisible();
  for (const name of SECTIONS.slice(1)) await expect(section(page, name)).toBeHidden();
});

/** Runs what a section runs, and waits for its end. */
async function shown(page: Page, name: string): Promise<void> {
  const place = section(page, name);
  const run = { wait: 'Run 3 + 3 calls', paths: 'Ask' }[name];
  if (run !== undefined) await place.getByRole('button', { name: run }).click();
  if (name === 'overload') await place.getByText('20,000 requests, seed 7.').waitFor();
  await expect(place.getByRole('button', { name: 'JSON' }).first()).toBeVisible();
  // A plot draws as soon as it has a width.
  if (name !== 'overload') await expect(place.locator('canvas').first()).toBeVisible();
}
