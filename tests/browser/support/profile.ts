// A browser with a profile on disk, as visitors have it: what is stored outlives its pages.

import { chromium } from '@playwright/test';
import type { BrowserContext, Page } from '@playwright/test';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import type { FaultServer } from './server.js';

export interface Profile {
  context: BrowserContext;
  close(): Promise<void>;
}

export async function openProfile(): Promise<Profile> {
  const folder = mkdtempSync(join(tmpdir(), 'tokenbrook-profile-'));
  const context = await chromium.launchPersistentContext(folder, {
    executablePath: process.env['TOKENBROOK_CHROMIUM'] ?? '/usr/bin/chromium',
    headless: true,
    args: ['--no-sandbox', '--disable-quic', '--no-first-run', '--disable-sync'],
  });
  return {
    context,
    close: async () => {
      await context.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** A page with the package imported as `tokenbrook`. */
export async function openTab(context: BrowserContext, server: FaultServer): Promise<Page> {
  const page = await context.newPage();
  await page.goto(`${server.url}/index.html`);
  await page.waitForFunction(() => document.title === 'ready');
  return page;
}

/** Removes all models, as a visitor who clears the site's storage does. */
export async function clearStorage(page: Page): Promise<void> {
  await page.evaluate(async () => {
    const root = await navigator.storage.getDirectory();
    await root.removeEntry('tokenbrook', { recursive: true }).catch((error: unknown) => {
      if (!(error instanceof DOMException) || error.name !== 'NotFoundError') throw error;
    });
  });
}
