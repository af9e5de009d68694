// The lab page's run of waits and streams, as a visitor starts it, in headless Chromium.
// Usage: node bench-lab.mjs CONFIG, a JSON object that `cargo xtask bench` writes:
// { chromium, dist }. What was measured goes to stdout as JSON, with a `table` for people.
import { readFileSync } from 'node:fs';
import { chromium } from 'playwright-core';
import { FLAGS } from './chromium.mjs';
import { serve } from './serve.mjs';

const config = JSON.parse(process.argv[2]);

/** Forty replies of four seconds at once, on a machine that may be busy. */
const RUN_MS = 120_000;

async function main() {
  // Under a sub-path, as the pages may lie.
  const server = await serve({ routes: { '/pages/': config.dist } });
  const browser = await chromium.launch({ executablePath: config.chromium, args: FLAGS });
  try {
    const page = await browser.newPage();
    page.on('pageerror', (error) => console.error(`browser: ${error.message}`));
    await page.goto(`${server.url}pages/lab/#wait`);
    const run = page.locator('[data-action="run-wait"]');
    await run.click();
    const save = page.locator('section[data-section="wait"]').getByRole('button', { name: 'JSON' });
    await save.waitFor({ timeout: RUN_MS });
    const [file] = await Promise.all([page.waitForEvent('download'), save.click()]);
    finish(JSON.parse(readFileSync(await file.path(), 'utf8')), browser.version());
  } finally {
    await browser.close();
    await server.close();
  }
}

function finish({ at, place, settings, wait, stream, sameText }, version) {
  if (!place.includes('service worker')) throw new Error(`the run was of ${place}`);
  if (sameText !== true) throw new Error('the texts of both modes differ');
  const result = {
    command: 'bench', suite: 'lab', at, place, settings, browser: `Chromium ${version}`,
    wait, stream,
  };
  const report = { ...result, table: table(result) };
  process.stdout.write(`${JSON.stringify(report)}\n`);
}

function table({ wait, stream, place, browser }) {
  const lines = [
    `${place}, ${browser}`,
    '',
    '| mode | calls | failed | first text, median | p95 | total, median | p95 |',
    '|---|---:|---:|---:|---:|---:|---:|',
  ];
  for (const [mode, { calls, failed, firstTextMs, totalMs }] of Object.entries({ wait, stream })) {
    const times = [firstTextMs.median, firstTextMs.p95, totalMs.median, totalMs.p95];
    const cells = times.map((time) => `${time.toFixed(1)} ms`).join(' | ');
    lines.push(`| ${mode} | ${calls} | ${failed} | ${cells} |`);
  }
  return `${lines.join('\n')}\n`;
}

try {
  await main();
} catch (error) {
  console.error(`error: ${error.message}`);
  process.exitCode = 1;
}
