// The built chat page with the real package and the default model, as a reader uses it.

import { expect, test as base } from '@playwright/test';
import type { Locator, Page } from '@playwright/test';
import { readFileSync } from 'node:fs';
import { MODEL } from '../support/package.js';
import { modelBytes, servePages } from '../support/page-server.js';
import type { PageServer } from '../support/page-server.js';

/** Greedy, short and exact: the answer of the float32 reference each time, in seconds. */
const SHORT = { temperature: 0, maxTokens: 24, precision: 'exact' };

/** Long enough to be stopped midway. */
const LONG = { temperature: 0, maxTokens: 400 };

const LOAD_MS = 60_000;

interface Fixtures {
  /** Whether the site has a list of models. */
  list: boolean;
  site: PageServer;
  /** Collects what must never happen: errors in the console, requests to other hosts. */
  mishaps: string[];
}

const test = base.extend<Fixtures>({
  list: [true, { option: true }],
  site: async ({ list }, use) => {
    const site = await servePages({ list });
    await use(site);
    await site.close();
  },
  mishaps: [
    async ({ page, site }, use) => {
      const mishaps: string[] = [];
      page.on('pageerror', (error) => mishaps.push(`uncaught: ${error.message}`));
      page.on('console', (message) => {
        if (message.type() === 'error') mishaps.push(`console: ${message.text()}`);
      });
      page.on('request', (request) => {
        const { protocol, origin } = new URL(request.url());
        const ours = origin === new URL(site.url).origin;
        if (!ours && protocol !== 'blob:') mishaps.push(`request: ${request.url()}`);
      });
      await use(mishaps);
      expect(mishaps).toEqual([]);
    },
    { auto: true },
  ],
});

test.beforeEach(async ({ page }) => {
  await page.addInitScript(watchPage);
});

test('loads the listed model, streams answers frame by frame, and remembers the first one', async ({
  page,
  site,
}) => {
  await open(page, site, SHORT);
  const load = page.getByRole('button', { name: /Load SmolLM2-135M-Instruct/ });
  await expect(load).toContainText('93.8 MiB');
  await load.click();
  await expect(page.getByRole('progressbar')).toHaveJSProperty('max', modelBytes());
  await ready(page);

  await send(page, 'What is the capital of France?');
  const first = answers(page).nth(0);
  await expect(first.locator('[data-role="text"]')).toHaveText(/\S/);
  // Tokens gather while the page is busy and arrive together: the case that needs batching.
  for (let pauses = 0; pauses < 3; pauses += 1) await page.evaluate(holdUp, 150);
  await ended(first, 'complete');
  await expect(first.locator('[data-role="text"]')).toHaveText(/Paris/);
  await expect(first.locator('[data-role="stats"]')).toHaveText(
    /TTFT [\d.]+ m?s.*[\d.]+ tokens\/s.*\d+ tokens/,
  );
  const appends = await page.evaluate(() => window.appends);
  // The last one may be the flush at the end, which waits for no frame.
  const frames = appends.slice(0, -1);
  expect(appends.length, 'the text came in pieces').toBeGreaterThan(2);
  expect(new Set(frames).size, 'no two pieces within one frame').toBe(frames.length);

  await send(page, 'And of Italy?');
  const second = answers(page).nth(1);
  await ended(second, 'complete');
  await expect(second.locator('[data-role="stats"]')).toHaveText(/prompt \d+, \d+ reused/);
});

test('keeps the text of an answer that failed, and retry loads the lost model again', async ({
  page,
  site,
}) => {
  await openLoaded(page, site, LONG);
  await send(page, 'Write a long story about a river.');
  const first = answers(page).nth(0);
  await expect(first.locator('[data-role="text"]')).toHaveText(/\S/);
  await page.evaluate(() => {
    window.workers.at(-1)?.dispatchEvent(new ErrorEvent('error', { message: 'injected' }));
  });
  await ended(first, 'incomplete');
  const kept = await text(first);
  expect(kept.trim()).not.toBe('');
  const mark = first.locator('[data-role="mark"]');
  await expect(mark).toHaveText(/^Incomplete\. \S.*\.$/);
  await expect(mark).toHaveAttribute('data-code', 'internal');

  await first.getByRole('button', { name: 'Retry' }).click();
  const second = answers(page).nth(1);
  await second.waitFor({ timeout: LOAD_MS });
  await page.keyboard.press('Escape');
  await ended(second, 'stopped');
  expect(await text(first)).toBe(kept);
  await expect(first.getByRole('button', { name: 'Retry' })).toBeHidden();

  const saved = await download(page);
  expect(saved.messages.map((message) => message.status)).toEqual([
    undefined,
    'incomplete',
    'stopped',
  ]);
  expect(saved.messages[1]?.content).toBe(kept);
  expect(saved.messages[1]?.error?.code).toBe('internal');
  expect(saved.messages[2]?.stats?.finishReason).toBe('cancelled');
});

test('works by keyboard alone, and Escape stops an answer but keeps its text', async ({
  page,
  site,
}) => {
  await open(page, site, LONG);
  await focusByTab(page, page.getByRole('button', { name: /Load SmolLM2/ }));
  await page.keyboard.press('Enter');
  await ready(page);
  const message = page.getByLabel('Message');
  await expect(message).toBeFocused();
  await page.keyboard.type('Write a long story');
  await page.keyboard.press('Shift+Enter');
  await page.keyboard.type('about a river.');
  await expect(message).toHaveValue('Write a long story\nabout a river.');
  await page.keyboard.press('Enter');
  const answer = answers(page).nth(0);
  await expect(answer.locator('[data-role="text"]')).toHaveText(/\S/);
  await expect(page.getByRole('button', { name: 'Stop' })).toBeVisible();
  await page.keyboard.press('Escape');
  await ended(answer, 'stopped');
  await expect(answer.locator('[data-role="mark"]')).toHaveText('Stopped.');
  expect((await text(answer)).trim()).not.toBe('');
  await expect(page.getByRole('status')).toHaveText(/^Stopped after \d+ tokens?\.$/);
  await expect(message).toBeFocused();

  const settings = page.getByRole('button', { name: 'Settings' });
  await focusByTab(page, settings, 'Shift+Tab');
  await page.keyboard.press('Enter');
  await expect(page.getByRole('dialog', { name: 'Settings' })).toBeVisible();
  await page.keyboard.press('Escape');
  await expect(page.getByRole('dialog')).toHaveCount(0);
  await expect(settings).toBeFocused();
});

test('Stop stops, the next answer is whole, and clearing can be undone', async ({ page, site }) => {
  await openLoaded(page, site, LONG);
  await send(page, 'Write a long story about a river.');
  await expect(answers(page).nth(0).locator('[data-role="text"]')).toHaveText(/\S/);
  await page.getByRole('button', { name: 'Stop' }).click();
  await ended(answers(page).nth(0), 'stopped');
  await setSetting(page, 'Longest answer', '8');
  await send(page, 'Say hello.');
  await ended(answers(page).nth(1), 'complete');

  await page.getByRole('button', { name: 'New conversation' }).click();
  await expect(answers(page)).toHaveCount(0);
  await page.getByRole('button', { name: 'Undo' }).click();
  await expect(answers(page)).toHaveCount(2);
});

test('follows the end only while the reader is there', async ({ page, site }) => {
  await page.setViewportSize({ width: 360, height: 420 });
  await openLoaded(page, site, LONG);
  await send(page, 'Write a long story about a river.');
  const scroller = page.locator('[data-role="scroller"]');
  const overflow = () => scroller.evaluate((el) => el.scrollHeight - el.clientHeight);
  await expect.poll(overflow, { timeout: 60_000 }).toBeGreaterThan(80);
  const rest = () =>
    scroller.evaluate((el) => el.scrollHeight - el.clientHeight - el.scrollTop);
  expect(await rest()).toBeLessThan(40);
  await scroller.evaluate((el) => (el.scrollTop = 0));
  await expect(page.getByRole('button', { name: 'Latest' })).toBeVisible();
  const before = await overflow();
  await expect.poll(overflow, { timeout: 60_000 }).toBeGreaterThan(before);
  expect(await scroller.evaluate((el) => el.scrollTop)).toBe(0);
  await page.getByRole('button', { name: 'Latest' }).click();
  expect(await rest()).toBeLessThan(40);
  await page.keyboard.press('Escape');
  await ended(answers(page).nth(0), 'stopped');
});

test('cancels a load, says why another failed, and then takes a file', async ({
  page,
  site,
  mishaps,
}) => {
  await open(page, site, SHORT);
  const main = page.getByRole('main');
  await main.getByText('Use another model').click();
  const address = main.getByLabel('Address of a GGUF file');
  await address.fill(site.stalledUrl);
  await address.press('Enter');
  await expect(page.locator('[data-field="loading-bytes"]')).toHaveText(/ of 93\.8 MiB$/);
  await page.getByRole('button', { name: 'Cancel' }).click();
  await expect(page.locator('body')).toHaveAttribute('data-state', 'setup');
  await expect(page.getByRole('button', { name: /^Load SmolLM2/ })).toBeFocused();

  await address.fill('models/absent.gguf');
  await address.press('Enter');
  await expect(page.locator('[data-field="load-error-code"]')).toHaveText('model-not-found');
  await expect(page.locator('[data-field="load-error-message"]')).toHaveText(/absent\.gguf/);
  await expect(page.getByRole('button', { name: 'Try again' })).toBeFocused();
  expectOnlyNotFound(mishaps.splice(0));

  await main.getByLabel('A GGUF file on this device').setInputFiles(MODEL);
  await ready(page);
  await page.getByRole('button', { name: /^Model:/ }).click();
  const sheet = page.getByRole('dialog', { name: 'Model' });
  await expect(sheet).toContainText('llama');
  await expect(sheet).toContainText(/KV cache\s*[\d.]+ (B|MiB)/);
});

test('shows what is kept on the device, resumes it, and deletes it', async ({ page, site }) => {
  await open(page, site, SHORT);
  const main = page.getByRole('main');
  const kept = main.locator('[data-role="kept"]');
  await expect(kept).toBeHidden();
  await page.getByRole('button', { name: /Load SmolLM2-135M-Instruct/ }).click();
  await ready(page);
  await page.reload();
  await expect(kept).toContainText('93.8 MiB');
  await kept.getByRole('button', { name: 'Load default' }).click();
  await ready(page);
  await page.getByRole('button', { name: /^Model:/ }).click();
  const sheet = page.getByRole('dialog', { name: 'Model' });
  await sheet.getByRole('button', { name: 'Delete default' }).click();
  await expect(sheet.locator('[data-role="kept"]')).toBeHidden();
});

test('a dropped file that is no model is refused with the reason', async ({ page, site }) => {
  await page.goto(site.url);
  const files = await page.evaluateHandle(() => {
    const transfer = new DataTransfer();
    transfer.items.add(new File(['<!doctype html><p>Sign in first'], 'model.gguf'));
    return transfer;
  });
  await page.dispatchEvent('body', 'dragover', { dataTransfer: files });
  await expect(page.getByText('Drop a GGUF file to load it')).toBeVisible();
  await page.dispatchEvent('body', 'drop', { dataTransfer: files });
  await expect(page.locator('[data-field="load-error-code"]')).toHaveText('invalid-gguf');
  await expect(page.getByText('Drop a GGUF file to load it')).toBeHidden();
});

test('an address in the query is loaded at once when it asks for it', async ({ page, site }) => {
  await page.goto(`${site.url}?autoload=1&model=models/default.gguf`);
  await ready(page);
});

test.describe('without a list of models', () => {
  test.use({ list: false });

  test('offers an address and a file at once', async ({ page, site, mishaps }) => {
    await page.goto(site.url);
    const main = page.getByRole('main');
    const address = main.getByLabel('Address of a GGUF file');
    await expect(address).toBeVisible();
    await expect(main.getByRole('button', { name: /^Load SmolLM2/ })).toHaveCount(0);
    await address.fill('https://');
    await main.getByRole('button', { name: 'Load', exact: true }).click();
    await expect(main.getByRole('alert')).toHaveText(/address of a GGUF file/);
    await expect(address).toBeFocused();
    expectOnlyNotFound(mishaps.splice(0));
  });
});

test('keeps settings, and refuses values outside their limits', async ({ page, site }) => {
  await page.goto(site.url);
  await setSetting(page, 'Temperature', '0.25');
  await setSetting(page, 'Top-p', '7');
  await page.getByRole('button', { name: 'Settings' }).click();
  await page.getByLabel('Top-p').fill('7');
  await page.keyboard.press('Tab');
  await expect(page.getByRole('alert')).toHaveText('Top-p is a number from 0.01 to 1.');
  await page.reload();
  await page.getByRole('button', { name: 'Settings' }).click();
  await expect(page.getByLabel('Temperature')).toHaveValue('0.25');
  await expect(page.getByLabel('Top-p')).toHaveValue('0.95');
});

for (const [device, viewport] of [
  ['desktop', { width: 1280, height: 800 }],
  ['phone', { width: 360, height: 740 }],
] as const) {
  for (const colorScheme of ['light', 'dark'] as const) {
    test(`fits a ${device} in ${colorScheme}`, async ({ page, site }, info) => {
      await page.setViewportSize(viewport);
      await page.emulateMedia({ colorScheme });
      const shoot = async (state: string) => {
        const path = info.outputPath(`chat-${device}-${colorScheme}-${state}.png`);
        await page.screenshot({ path });
        await info.attach(state, { path, contentType: 'image/png' });
        const wide = await page.evaluate(() => document.documentElement.scrollWidth);
        expect(wide, `${state}: no sideways scrolling`).toBeLessThanOrEqual(viewport.width);
      };
      await open(page, site, SHORT);
      await expect(page.getByRole('button', { name: /Load SmolLM2/ })).toBeVisible();
      await shoot('setup');
      await page.getByRole('button', { name: /Load SmolLM2/ }).click();
      await ready(page);
      await shoot('ready');
      await page.getByRole('button', { name: 'Why do rivers bend?' }).click();
      await ended(answers(page).nth(0), 'complete');
      await shoot('answered');
    });
  }
}

interface Saved {
  messages: {
    content: string;
    status?: string;
    error?: { code: string } | null;
    stats?: { finishReason: string } | null;
  }[];
}

declare global {
  interface Window {
    /** Frame times at which text was added to an answer. */
    appends: number[];
    workers: Worker[];
  }
}

/** Runs in the page before its scripts: notes its workers and each piece of text it shows. */
function watchPage(): void {
  const { Worker: Plain } = window;
  window.workers = [];
  window.appends = [];
  window.Worker = class extends Plain {
    constructor(url: string | URL, options?: WorkerOptions) {
      super(url, options);
      window.workers.push(this);
    }
  };
  new MutationObserver((records) => {
    for (const { target, addedNodes } of records) {
      const answer = target instanceof Element && target.matches('.answer [data-role="text"]');
      if (!answer || addedNodes.length === 0) continue;
      window.appends.push(Number(document.timeline.currentTime));
    }
  }).observe(document, { childList: true, subtree: true });
}

/** Runs in the page: keeps its thread busy. */
function holdUp(ms: number): void {
  const until = performance.now() + ms;
  while (performance.now() < until);
}

async function open(page: Page, site: PageServer, settings: object): Promise<void> {
  await page.addInitScript(
    (json) => localStorage.setItem('tokenbrook.chat.settings', json),
    JSON.stringify(settings),
  );
  await page.goto(site.url);
}

async function openLoaded(page: Page, site: PageServer, settings: object): Promise<void> {
  await open(page, site, settings);
  await page.getByRole('button', { name: /Load SmolLM2/ }).click();
  await ready(page);
}

async function ready(page: Page): Promise<void> {
  await expect(page.locator('body')).toHaveAttribute('data-state', 'ready', { timeout: LOAD_MS });
}

/** A browser may note a 404 in its console, whatever the page makes of it. */
function expectOnlyNotFound(mishaps: string[]): void {
  expect(mishaps.filter((mishap) => !mishap.includes('404'))).toEqual([]);
}

function answers(page: Page): Locator {
  return page.locator('[data-author="assistant"]');
}

async function ended(answer: Locator, status: string): Promise<void> {
  await expect(answer).toHaveAttribute('data-status', status, { timeout: 60_000 });
}

async function text(answer: Locator): Promise<string> {
  return (await answer.locator('[data-role="text"]').textContent()) ?? '';
}

async function send(page: Page, message: string): Promise<void> {
  await page.getByLabel('Message').fill(message);
  await page.getByRole('button', { name: 'Send' }).click();
}

async function setSetting(page: Page, label: string, value: string): Promise<void> {
  await page.getByRole('button', { name: 'Settings' }).click();
  await page.getByLabel(label).fill(value);
  await page.keyboard.press('Escape');
}

/** Presses `key` until `target` has the focus, as often as a page has things to focus. */
async function focusByTab(page: Page, target: Locator, key = 'Tab'): Promise<void> {
  for (let presses = 0; presses < 20; presses += 1) {
    await page.keyboard.press(key);
    if (await target.evaluate((element) => element === document.activeElement)) return;
  }
  throw new Error(`${key} never reached ${target}`);
}

async function download(page: Page): Promise<Saved> {
  await page.getByRole('button', { name: /^Model:/ }).click();
  const [saved] = await Promise.all([
    page.waitForEvent('download'),
    page.getByRole('button', { name: 'Download as JSON' }).click(),
  ]);
  return JSON.parse(readFileSync(await saved.path(), 'utf8')) as Saved;
}

test('shows what the browser offers, before and after a model', async ({ page, site }) => {
  await page.goto(`${site.url}?autoload=1&model=models/default.gguf`);
  await expect(page.locator('body')).toHaveAttribute('data-state', 'ready', { timeout: LOAD_MS });
  await page.locator('[data-action="open-model"]').click();
  const section = page.locator('[data-role="diagnosis"]');
  await section.locator('summary').click();
  const report = section.locator('[data-field="diagnosis-report"]');
  await expect(report).toContainText('"secureContext": true');
  await expect(report).toContainText('"gpuReports"');
  const downloading = page.waitForEvent('download');
  await section.locator('[data-action="download-diagnosis"]').click();
  const file = await (await downloading).path();
  const told = JSON.parse(readFileSync(file, 'utf8')) as { wasm: { simd: boolean } };
  expect(told.wasm.simd).toBe(true);
});
