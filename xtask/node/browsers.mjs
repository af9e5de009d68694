// The browsers that are measured in, behind what both of their drivers have: contexts, pages, and
// `evaluate` with one argument.
import { chromium } from 'playwright-core';
import puppeteer from 'puppeteer-core';
import { FLAGS, GPU_FLAGS } from './chromium.mjs';
import { PREFERENCES } from './firefox.mjs';

/** A sample may take as long as an adapter in software needs. */
const STEP_MS = 1_800_000;

/** `{ name, newContext(), close() }`: Firefox where its program is given, else Chromium. */
export async function launch({ chromium: program, firefox, gpu }) {
  if (!firefox) {
    const args = gpu ? GPU_FLAGS : FLAGS;
    const browser = await chromium.launch({ executablePath: program, args });
    return {
      name: `Chromium ${browser.version()}`,
      newContext: () => browser.newContext(),
      close: () => browser.close(),
    };
  }
  const browser = await puppeteer.launch({
    browser: 'firefox',
    executablePath: firefox,
    headless: true,
    extraPrefsFirefox: PREFERENCES,
    protocolTimeout: STEP_MS,
  });
  return {
    name: (await browser.version()).replace('/', ' '),
    newContext: () => browser.createBrowserContext(),
    close: () => browser.close(),
  };
}
