// The pages' service worker, on a host that sends no headers of its own: visits without a
// network, isolation, new builds, and what it leaves alone.

import { expect, test } from '@playwright/test';
import type { Page } from '@playwright/test';
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { DIST, servePages } from '../support/page-server.js';

const LOAD_MS = 60_000;

/** Waits until the worker answers for the page and has all that it keeps. */
async function kept(page: Page): Promise<void> {
  await page.evaluate(async () => {
    await navigator.serviceWorker.ready;
    while (navigator.serviceWorker.controller === null) {
      await new Promise((resume) => setTimeout(resume, 20));
    }
  });
}

/** Addresses in all caches, below the folder of the pages. */
function cached(page: Page, folder: string): Promise<string[]> {
  return page.evaluate(async (folder) => {
    const found: string[] = [];
    for (const name of await caches.keys()) {
      const keys = await (await caches.open(name)).keys();
      found.push(...keys.map(({ url }) => url.replace(folder, '')));
    }
    return found;
  }, folder);
}

/** Visits the page anew, loads a model by its button, and gives its answer. */
async function loadAndAsk(page: Page, action: string): Promise<string> {
  await page.evaluate(() => {
    const settings = JSON.stringify({ temperature: 0, maxTokens: 8 });
    localStorage.setItem('tokenbrook.chat.settings', settings);
  });
  await page.reload();
  await page.locator(`[data-action="${action}"]:visible`).first().click();
  await expect(page.locator('body')).toHaveAttribute('data-state', 'ready', { timeout: LOAD_MS });
  await page.getByLabel('Message').fill('Why do rivers bend?');
  await page.getByRole('button', { name: 'Send' }).click();
  const answer = page.locator('[data-author="assistant"]').last();
  await expect(answer).toHaveAttribute('data-status', /complete/, { timeout: LOAD_MS });
  return (await answer.locator('[data-role="text"]').textContent()) ?? '';
}

test('after a first visit the pages, the lab and a verified model work without a network', async ({
  page,
  context,
}) => {
  const site = await servePages({ list: true });
  const mishaps: string[] = [];
  page.on('pageerror', (error) => mishaps.push(error.message));
  await page.goto(site.url);
  await kept(page);
  const online = await loadAndAsk(page, 'load-listed');
  await expect
    .poll(() => cached(page, site.url))
    .toContainEqual(expect.stringMatching(/^assets\/engine.*\.wasm$/));
  await context.setOffline(true);
  // What emulation lets through finds nobody.
  await site.close();
  const offline = await loadAndAsk(page, 'load-kept');
  expect(offline).toBe(online);
  expect(online.length).toBeGreaterThan(10);
  // Nothing of a model, and of engines only those in use: the page is isolated by now.
  const files = await cached(page, site.url);
  const pages = /^(|lab\/|bench\/|icon\.svg|assets\/[^/]+)$/;
  expect(files.filter((file) => !pages.test(file))).toEqual([]);
  const engines = files.filter((file) => /assets\/(engine|compat).*wasm/.test(file));
  expect(engines.filter((file) => !/engine-(relaxed|threads)_bg/.test(file))).toEqual([]);
  expect(engines).toContainEqual(expect.stringContaining('engine-threads_bg'));
  await page.goto(`${site.url}lab/#calculators`);
  await expect(page.locator('section[data-section="calculators"]')).toBeVisible();
  const plain = await page.evaluate(async () => {
    const response = await fetch(new URL('lab/plain', document.baseURI));
    return [response.status, (await response.text()).length > 0];
  });
  expect(plain).toEqual([200, true]);
  expect(mishaps).toEqual([]);
});

test('pages and their workers are isolated on a host that sends no headers', async ({ page }) => {
  const site = await servePages({ list: true });
  await page.goto(site.url);
  expect(await page.evaluate(() => crossOriginIsolated)).toBe(false);
  await kept(page);
  for (const path of ['', 'lab/']) {
    await page.goto(site.url + path);
    expect(await page.evaluate(() => crossOriginIsolated)).toBe(true);
  }
  await page.goto(site.url);
  const answer = await loadAndAsk(page, 'load-listed');
  expect(answer.length).toBeGreaterThan(10);
  const inWorker = await page.workers()[0]?.evaluate(() => crossOriginIsolated);
  expect(inWorker).toBe(true);
  await site.close();
});

test('requests for models, and whatever is not of the pages, go by the worker', async ({
  page,
}) => {
  const seen: string[] = [];
  const site = await servePages({ list: true, seen });
  await page.goto(site.url);
  await kept(page);
  await page.reload();
  const before = await cached(page, site.url);
  seen.length = 0;
  const timings = await page.evaluate(async () => {
    const paths = ['models/index.json', 'models/default.gguf', 'v1/models', 'lab/v1/models'];
    const found: Record<string, [number, boolean]> = {};
    for (const path of paths) {
      const url = new URL(path, document.baseURI).href;
      const range = { headers: { range: 'bytes=0-99' } };
      const response = await fetch(url, range);
      await response.body?.cancel();
      const [entry] = performance.getEntriesByName(url) as PerformanceResourceTiming[];
      found[path] = [response.status, (entry?.workerStart ?? 0) > 0];
    }
    return found;
  });
  expect(seen.sort()).toEqual(['models/default.gguf', 'models/index.json', 'v1/models']);
  expect(timings['lab/v1/models']?.[0]).toBe(200);
  expect(await cached(page, site.url)).toEqual(before);
  await site.close();
});

test('a new build is seen at the next visit, and offline after it', async ({ page, context }) => {
  const folder = mkdtempSync(join(tmpdir(), 'tokenbrook-dist-'));
  cpSync(DIST, folder, { recursive: true });
  const deploy = (version: string): void => {
    const edit = (file: string, from: RegExp, to: string): void => {
      const text = readFileSync(join(DIST, file), 'utf8');
      expect(text).toMatch(from);
      writeFileSync(join(folder, file), text.replace(from, to));
    };
    edit('index.html', /<title>[^<]*/, `<title>${version}`);
    edit('sw.js', /"version":"[^"]*"/, `"version":"${version}"`);
  };
  const builds = (): Promise<string[]> =>
    page.evaluate(async () => {
      const names = (await caches.keys()).filter((name) => name.startsWith('tokenbrook-shell'));
      return names.map((name) => name.split(' ').at(-1) ?? '');
    });
  deploy('one');
  const site = await servePages({ list: true, folder });
  await page.goto(site.url);
  await kept(page);
  await page.reload();
  for (const version of ['two', 'three']) {
    deploy(version);
    await page.reload();
    // The page is new at once; its worker and what that keeps follow, while the page is open.
    expect(await page.title()).toBe(version);
    await page.evaluate(async () => (await navigator.serviceWorker.ready).update());
    await expect
      .poll(() => page.evaluate(() => navigator.serviceWorker.ready.then((it) => !it.waiting)))
      .toBe(true);
    await expect.poll(async () => (await builds()).at(-1)).toBe(version);
  }
  // The build before is there for pages that are still open, those before it are not.
  await expect.poll(builds).toEqual(['two', 'three']);
  await context.setOffline(true);
  await site.close();
  await page.reload();
  expect(await page.title()).toBe('three');
  await expect(page.locator('body')).toHaveAttribute('data-state', 'setup');
  rmSync(folder, { recursive: true, force: true });
});
