import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { cpSync, mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';

import type { Browser } from '@playwright/test';

import { expect, test } from '../support/app.js';
import { PACKAGE, ROOT } from '../support/package.js';

const APP = join(ROOT, 'target/vite-app');

test.beforeAll(() => {
  rmSync(APP, { recursive: true, force: true });
  mkdirSync(join(APP, 'node_modules'), { recursive: true });
  cpSync(join(ROOT, 'tests/browser/vite-app'), APP, { recursive: true });
  cpSync(PACKAGE, join(APP, 'node_modules/tokenbrook'), { recursive: true });
});

function vite(...args: string[]): ChildProcess {
  const cli = join(ROOT, 'node_modules/vite/bin/vite.js');
  return spawn(process.execPath, [cli, ...args], { cwd: APP, stdio: ['ignore', 'pipe', 'pipe'] });
}

/** Runs a server of Vite's and resolves with its address. */
function serving(...args: string[]): { child: ChildProcess; url: Promise<string> } {
  const child = vite(...args, '--host', '127.0.0.1', '--port', '0');
  let said = '';
  const url = new Promise<string>((resolve, reject) => {
    const listen = (data: Buffer): void => {
      // Colours come between the digits of the port.
      said += data.toString().replace(/\u001b\[\d+m/g, '');
      const found = /http:\/\/127\.0\.0\.1:\d+/.exec(said);
      if (found !== null && said.includes('\n', found.index)) resolve(found[0]);
    };
    child.stdout?.on('data', listen);
    child.stderr?.on('data', listen);
    child.on('exit', (code) => reject(new Error(`vite ended (${code}): ${said}`)));
  });
  return { child, url };
}

async function streams(browser: Browser, url: string, model: string): Promise<string> {
  const page = await browser.newPage();
  await page.goto(`${url}/?model=${encodeURIComponent(model)}`);
  await page.waitForFunction(() => document.title !== 'starting', undefined, { timeout: 30_000 });
  expect(await page.title()).toBe('done');
  const text = await page.locator('output').innerText();
  await page.close();
  return text;
}

test('a fresh Vite app streams in dev and in build and preview', async ({ browser, server }) => {
  const model = `${server.url}/tiny.gguf`;
  const dev = serving();
  let fromDev: string;
  try {
    fromDev = await streams(browser, await dev.url, model);
  } finally {
    dev.child.kill();
  }
  const build = vite('build');
  const status = await new Promise((resolve) => build.on('exit', resolve));
  expect(status).toBe(0);
  const preview = serving('preview');
  try {
    expect(await streams(browser, await preview.url, model)).toBe(fromDev);
  } finally {
    preview.child.kill();
  }
  const words = fromDev.trim().split(' ');
  expect([words.length, words.at(-1)]).toEqual([4, 'end']);
});
