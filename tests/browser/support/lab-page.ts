// The built lab page, watched for what must never happen.

import { expect, test as base } from '@playwright/test';
import type { Download, Locator, Page } from '@playwright/test';
import { readFileSync } from 'node:fs';
import { servePages } from './page-server.js';

interface Fixtures {
  /** Address of the lab, without a section. */
  lab: string;
  /** Errors in the console, breaches of the policy. */
  mishaps: string[];
}

export const test = base.extend<Fixtures>({
  lab: async ({}, use) => {
    const site = await servePages({ list: true });
    await use(`${site.url}lab/`);
    await site.close();
  },
  mishaps: [
    async ({ page }, use) => {
      const mishaps: string[] = [];
      page.on('pageerror', (error) => mishaps.push(`uncaught: ${error.message}`));
      // A breach of the content security policy is an error in the console.
      page.on('console', (message) => {
        if (message.type() === 'error') mishaps.push(`console: ${message.text()}`);
      });
      await use(mishaps);
      expect(mishaps).toEqual([]);
    },
    { auto: true },
  ],
});

export { expect };

/** A section of the page. */
export function section(page: Page, name: string): Locator {
  return page.locator(`main > section[data-section="${name}"]`);
}

/** What a button of the row under a result saves. */
export async function saved(place: Locator, kind: 'JSON' | 'CSV'): Promise<string> {
  const [download] = await Promise.all([
    place.page().waitForEvent('download') as Promise<Download>,
    place.getByRole('button', { name: kind, exact: true }).click(),
  ]);
  expect(download.suggestedFilename()).toMatch(new RegExp(`\\.${kind.toLowerCase()}$`));
  return readFileSync(await download.path(), 'utf8');
}

/** Rows of a CSV file by the names of their columns. */
export function csvRows(csv: string): Record<string, string>[] {
  const [head = [], ...rows] = csv.trimEnd().split('\r\n').map(cells);
  for (const row of rows) expect(row.length, row.join()).toBe(head.length);
  return rows.map((row) => Object.fromEntries(row.map((cell, at) => [head[at] ?? '', cell])));
}

function cells(line: string): string[] {
  const found = line.matchAll(/(?:^|,)(?:"((?:[^"]|"")*)"|([^,]*))/g);
  return [...found].map(([, quoted, plain]) => quoted?.replaceAll('""', '"') ?? plain ?? '');
}

/** The address with the run in it. */
export async function linkOf(place: Locator): Promise<string> {
  await place.getByRole('button', { name: 'Copy link' }).click();
  await expect(place.locator('[data-field="share-note"]')).not.toBeEmpty();
  return place.page().url();
}

/** Presses `key` until `target` has the focus. */
export async function focusByKey(target: Locator, key = 'Tab'): Promise<void> {
  for (let presses = 0; presses < 40; presses += 1) {
    await target.page().keyboard.press(key);
    if (await target.evaluate((element) => element === document.activeElement)) return;
  }
  throw new Error(`${key} never reached ${target}`);
}
