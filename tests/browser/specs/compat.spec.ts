// Models of architectures that only candle-transformers has: the page loads them like any other,
// and the package fetches its second engine for them.

import { readFileSync } from 'node:fs';
import { join } from 'node:path';

import type { Page } from '@playwright/test';

import { expect, generate, loadFailure, openPage, test } from '../support/app.js';
import { ROOT } from '../support/package.js';

const FIXTURES = join(ROOT, 'tests/data/architectures/compat');

interface Reference {
  ids: number[];
  greedy: number[];
  text: { text: string; ids: number[]; greedy: number[] };
}

let page: Page;

test.beforeAll(async ({ browser, server }) => {
  server.routes.set('/compat/', FIXTURES);
  const text = readFileSync(join(FIXTURES, 'phi2.gguf'));
  // Another name of the same length.
  const name = text.indexOf('phi2');
  text.write('mamb', name);
  server.routes.set('/neither.gguf', text);
  page = await openPage(browser, server);
});

test.afterAll(() => page.close());

function read(name: string): Reference {
  return JSON.parse(readFileSync(join(FIXTURES, `${name}.json`), 'utf8')) as Reference;
}

// First, because a browser may keep what it has fetched.
test('a model of the first engine does not fetch the second', async ({ server }) => {
  const variant = await page.evaluate(async () => {
    const model = await tokenbrook.load('/tiny.gguf');
    const { wasmVariant } = model.info;
    await model.dispose();
    return wasmVariant;
  });
  expect(variant).not.toBe('compat');
  expect(server.requests).not.toContain('GET /pkg/compat_bg.wasm');
});

for (const name of ['phi2', 'glm4', 'lfm2', 'mixtral']) {
  test(`${name} is run by the second engine, and writes what it should`, async ({ server }) => {
    const { ids, greedy, text } = read(name);
    const info = await page.evaluate(async (url) => {
      globalThis.model = await tokenbrook.load(url, { contextLength: 64 });
      return model.info;
    }, `/compat/${name}.gguf`);
    expect(info).toMatchObject({
      backend: 'cpu',
      wasmVariant: 'compat',
      precision: 'fast',
      contextLength: 64,
      quantization: 'F32',
    });
    expect(info.backendReason).toContain('candle-transformers');
    expect(server.requests).toContain('GET /pkg/compat_bg.wasm');
    // No byte of the file is fetched twice.
    const file = `GET /compat/${name}.gguf`;
    expect(server.requests.filter((request) => request === file)).toHaveLength(1);
    // Along the reference's own ids the likeliest are the reference's.
    const score = await page.evaluate((ids) => model.score(ids), [...ids, ...greedy]);
    expect(score.top1.slice(ids.length - 1)).toEqual(greedy);
    const options = { temperature: 0, maxTokens: text.greedy.length, ignoreEos: true };
    for (let run = 0; run < 2; run += 1) {
      const answer = await generate(page, text.text, options);
      expect(answer.promptIds).toEqual(text.ids);
      expect(answer.ids).toEqual(text.greedy);
      // The same prompt does not go on from what is cached.
      expect(answer.stats.cachedTokens).toBe(0);
    }
    const failure = await page.evaluate(() =>
      model.embed(['x']).then(
        () => 'none',
        (error: { code: string }) => error.code,
      ),
    );
    expect(failure).toBe('unsupported-architecture');
    await page.evaluate(() => model.dispose());
  });
}

test('what neither engine has is refused with its name and both lists', async () => {
  const failure = await loadFailure(page, '/neither.gguf');
  expect(failure.code).toBe('unsupported-architecture');
  for (const name of ['mamb', 'llama, qwen2', 'glm4, lfm2, llama with experts, phi2']) {
    expect(failure.message).toContain(name);
  }
});

test('a precision that the second engine does not have is refused', async () => {
  const failure = await loadFailure(page, '/compat/phi2.gguf', { precision: 'exact' });
  expect(failure).toMatchObject({ code: 'invalid-option' });
  expect(failure.message).toContain('exact');
});
