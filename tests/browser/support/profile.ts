// A browser with a profile on disk, as visitors have it: what is stored outlives its pages.

import { chromium } from '@playwright/test';
import type { BrowserContext, Page } from '@playwright/test';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import type { FaultServer } from './server.js';

/** A folder, and the browser that runs on it. */
export class Profile {
  readonly #folder: string;
  context: BrowserContext;

  private constructor(folder: string, context: BrowserContext) {
    this.#folder = folder;
    this.context = context;
  }

  static async open(): Promise<Profile> {
    const folder = mkdtempSync(join(tmpdir(), 'tokenbrook-profile-'));
    return new Profile(folder, await launch(folder));
  }

  /** Ends the browser, whatever its pages are at, and starts it anew on the same folder. */
  async restart(): Promise<void> {
    await this.context.close();
    this.context = await launch(this.#folder);
  }

  async close(): Promise<void> {
    await this.context.close();
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

function launch(folder: string): Promise<BrowserContext> {
  return chromium.launchPersistentContext(folder, {
    executablePath: process.env['TOKENBROOK_CHROMIUM'] ?? '/usr/bin/chromium',
    headless: true,
    args: ['--no-sandbox', '--disable-quic', '--no-first-run', '--disable-sync'],
  });
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
