// Firefox, driven through WebDriver BiDi: an independent implementation of WebGPU and wasm.

import puppeteer from 'puppeteer-core';
import type { Browser, Page } from 'puppeteer-core';

import { PREFERENCES } from '../../../xtask/node/firefox.mjs';
import type { FaultServer } from './server.js';

/** Firefox's executable: TOKENBROOK_FIREFOX, else where Debian puts it. */
const FIREFOX = process.env['TOKENBROOK_FIREFOX'] ?? '/usr/bin/firefox-esr';

/** A step of a test may take as long as an adapter in software needs. */
const PROTOCOL_TIMEOUT_MS = 900_000;

export function launchFirefox(): Promise<Browser> {
  return puppeteer.launch({
    browser: 'firefox',
    executablePath: FIREFOX,
    headless: true,
    extraPrefsFirefox: PREFERENCES,
    protocolTimeout: PROTOCOL_TIMEOUT_MS,
  });
}

/** A page with the package imported as `tokenbrook`. */
export async function openFirefoxPage(
  browser: Browser,
  server: FaultServer,
  path = '/index.html',
): Promise<Page> {
  const page = await browser.newPage();
  await page.goto(server.url + path);
  await page.waitForFunction(() => document.title === 'ready');
  return page;
}
