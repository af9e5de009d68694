// The pages that the tests drive, the server behind them, and what tests do in them.

import { test as base } from '@playwright/test';
import type { Browser, Page } from '@playwright/test';
import { join } from 'node:path';

import type { ChatMessage, GenerateOptions, LoadOptions, Model } from '../../../js/index.js';
import type { Stats, Token } from '../../../js/index.js';
import { GEMMA, MODEL, PACKAGE, ROOT } from './package.js';
import { FaultServer } from './server.js';
import { tinyModel, tinyShards, tinyTokenizer } from './tiny-model.js';

declare global {
  // What the page's script sets up; functions that run in the page use these.
  var tokenbrook: typeof import('../../../js/index.js');
  var model: Model;
  var problems: string[];
}

const PAGE = `<!doctype html><meta charset="utf-8"><title>tokenbrook</title>
<script type="module" src="page.js"></script>`;

const PAGE_SCRIPT = `
globalThis.problems = [];
addEventListener('unhandledrejection', (event) => problems.push(String(event.reason)));
addEventListener('error', (event) => problems.push(event.message));
globalThis.tokenbrook = await import('./pkg/index.js');
document.title = 'ready';
`;

export const CSP = "default-src 'none'; connect-src 'self'; script-src 'self' 'wasm-unsafe-eval'";

/** A page that may share memory between threads, under the same policy. */
export const ISOLATED = {
  'content-security-policy': CSP,
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-embedder-policy': 'require-corp',
};

export const test = base.extend<object, { server: FaultServer }>({
  server: [
    async ({}, use) => {
      const [first, second] = tinyShards();
      const server = await FaultServer.start({
        '/index.html': Buffer.from(PAGE),
        '/page.html': Buffer.from('<!doctype html><p>not a model'),
        '/page.js': Buffer.from(PAGE_SCRIPT),
        '/csp/index.html': Buffer.from(PAGE),
        '/csp/page.js': Buffer.from(PAGE_SCRIPT),
        '/csp/pkg/': PACKAGE,
        '/isolated/index.html': Buffer.from(PAGE),
        '/isolated/page.js': Buffer.from(PAGE_SCRIPT),
        '/isolated/pkg/': PACKAGE,
        '/pkg/': PACKAGE,
        '/workers/': join(ROOT, 'tests/browser/workers'),
        '/model.gguf': MODEL,
        '/gemma.gguf': GEMMA,
        '/fixtures/': join(ROOT, 'tests/data/architectures'),
        '/tiny.gguf': tinyModel(),
        '/tiny-tokenizer.json': tinyTokenizer(),
        '/tiny-00001-of-00002.gguf': first,
        '/tiny-00002-of-00002.gguf': second,
      });
      server.headers.set('/csp/', { 'content-security-policy': CSP });
      // Threads need no more of a policy than the rest.
      server.headers.set('/isolated/', ISOLATED);
      await use(server);
      await server.stop();
    },
    { scope: 'worker' },
  ],
});

export { expect } from '@playwright/test';

/** A page with the package imported as `tokenbrook`. */
export async function openPage(
  browser: Browser,
  server: FaultServer,
  path = '/index.html',
): Promise<Page> {
  const page = await browser.newPage();
  page.on('console', (message) => {
    const text = message.text();
    // Refused requests are what many tests are about.
    if (message.type() !== 'error' || text.startsWith('Failed to load resource')) return;
    console.error(`browser: ${text}`);
  });
  await page.goto(server.url + path);
  await page.waitForFunction(() => document.title === 'ready');
  return page;
}

/** Code and message of what `load` rejects with for this source in the page. */
export function loadFailure(
  page: Page,
  source: string | string[],
  options: Record<string, unknown> = {},
): Promise<{ code: string; message: string; status?: number; url?: string }> {
  return page.evaluate(
    async ([source, options]) => {
      try {
        await (await tokenbrook.load(source, options)).dispose();
      } catch (error) {
        if (!(error instanceof tokenbrook.TokenbrookError)) throw error;
        const { code, message, status, url } = error;
        return { code: code as string, message, ...(status && { status }), ...(url && { url }) };
      }
      return { code: 'none', message: 'it loaded' };
    },
    [source, options] as const,
  );
}

/** Options that can be sent to the page. */
type PlainOptions = Omit<LoadOptions, 'tokenizer'>;

/**
 * Loads the default model as `model` of the page. Each page has a storage of its own here, which
 * would be filled for one load.
 */
export async function loadDefault(page: Page, options: PlainOptions = {}): Promise<void> {
  await page.evaluate(async (options) => {
    globalThis.model = await tokenbrook.load('/model.gguf', { cache: 'none', ...options });
  }, options);
}

/** Tokens and stats of one generation, read to its end. */
export function generate(
  page: Page,
  input: string | ChatMessage[],
  options: GenerateOptions,
): Promise<Generated> {
  return page.evaluate(
    async ([input, options]) => {
      const stream = model.generate(input, options);
      const tokens = [];
      for await (const token of stream) tokens.push(token);
      return {
        promptIds: await stream.promptIds,
        ids: tokens.map(({ id }) => id),
        text: tokens.map(({ text }) => text).join(''),
        tokens,
        stats: await stream.stats,
      };
    },
    [input, options] as const,
  );
}

export interface Generated {
  promptIds: number[];
  ids: number[];
  text: string;
  tokens: Token[];
  stats: Stats;
}
