// `npx tokenbrook init`: workers that a site serves as they are, each without imports.

import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { CSP, expect, test as base } from '../support/app.js';
import { PACKAGE } from '../support/package.js';
import { FaultServer } from '../support/server.js';
import { tinyModel } from '../support/tiny-model.js';

const CLI = join(PACKAGE, 'node/cli.js');

function run(...args: string[]): { status: number | null; stderr: string } {
  return spawnSync(process.execPath, [CLI, ...args], { encoding: 'utf8' });
}

const PAGE = `<!doctype html><meta charset="utf-8"><title>tokenbrook</title>
<script type="module" src="/page.js"></script>`;

// The package is where a bundler might have put it: nothing of it lies beside the workers.
const SCRIPT = `
globalThis.tokenbrook = await import('/bundled/index.js');
globalThis.mock = await import('/bundled/mock.js');
document.title = 'ready';
`;

const test = base.extend<object, { folder: string; site: FaultServer }>({
  folder: [
    async ({}, use) => {
      const folder = join(mkdtempSync(join(tmpdir(), 'served-')), 'public');
      execFileSync(process.execPath, [CLI, 'init', folder]);
      await use(folder);
    },
    { scope: 'worker' },
  ],
  site: [
    async ({ folder }, use) => {
      const site = await FaultServer.start({
        '/bundled/': PACKAGE,
        '/index.html': Buffer.from(PAGE),
        '/page.js': Buffer.from(SCRIPT),
        '/tiny.gguf': tinyModel(),
        '/': folder,
      });
      site.headers.set('/', { 'content-security-policy': CSP });
      await use(site);
      await site.stop();
    },
    { scope: 'worker' },
  ],
});

test('copies workers without imports and every module', ({ folder }) => {
  const names = readdirSync(folder);
  for (const worker of ['worker.js', 'helper.js', 'mock-service-worker.js', 'hash-worker.js']) {
    const script = readFileSync(join(folder, worker), 'utf8');
    expect(script).toMatch(/^\/\/ tokenbrook \d+\.\d+\.\d+\n/);
    expect(script).not.toMatch(/^import\b|\bfrom "\.|import\("\./m);
  }
  const modules = (all: string[]): string[] => all.filter((name) => name.endsWith('.wasm')).sort();
  expect(modules(names)).toEqual(modules(readdirSync(PACKAGE)));
  expect(modules(names).length).toBeGreaterThan(3);
});

test('a page streams through them under a strict policy', async ({ page, site }) => {
  await page.goto(`${site.url}/index.html`);
  await page.waitForFunction(() => document.title === 'ready');
  site.requests.length = 0;
  const seen = await page.evaluate(async () => {
    const model = await tokenbrook.load('/tiny.gguf', {
      workerUrl: '/worker.js',
      wasmUrl: '/engine_bg.wasm',
    });
    const stream = model.generate('a', { maxTokens: 3, temperature: 0, ignoreEos: true });
    const ids: number[] = [];
    for await (const { id } of stream) ids.push(id);
    const { wasmVariant, cache } = model.info;
    await model.dispose();
    return { ids: ids.length, wasmVariant, cache };
  });
  expect(seen).toEqual({ ids: 3, wasmVariant: 'relaxed-simd', cache: 'opfs' });
  expect(site.requests.filter((request) => request.includes('/bundled/'))).toEqual([]);

  const body = await page.evaluate(async () => {
    await mock.register('/mock-service-worker.js', {
      scenario: { text: { kind: 'words', words: 'one two' }, pace: { kind: 'fixed', ms: 1 } },
    });
    return (await fetch('/lab/plain')).text();
  });
  expect(body).toBe('one two ');
});

test('a second run replaces its own files, and no other', () => {
  const folder = mkdtempSync(join(tmpdir(), 'served-'));
  writeFileSync(join(folder, 'worker.js'), '// tokenbrook 0.0.1\nold');
  expect(run('init', folder).status).toBe(0);
  expect(readFileSync(join(folder, 'worker.js'), 'utf8')).not.toContain('0.0.1\nold');

  const foreign = join(folder, 'other');
  mkdirSync(foreign);
  writeFileSync(join(foreign, 'worker.js'), 'self.onmessage = null;');
  const refused = run('init', foreign);
  expect(refused.status).toBe(1);
  expect(refused.stderr).toMatch(/worker\.js is no file of tokenbrook/);
  expect(readdirSync(foreign)).toEqual(['worker.js']);
});

test('without a folder it says how it is called', () => {
  const { status, stderr } = run('init');
  expect(status).toBe(1);
  expect(stderr).toContain('tokenbrook init FOLDER');
});
