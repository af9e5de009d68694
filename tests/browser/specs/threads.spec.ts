// The engine on several threads, which an isolated page may have: the same tokens, no thread that
// spins or stays, and a failure that is told.

import { readFileSync } from 'node:fs';
import { join } from 'node:path';

import type { Browser, Page } from '@playwright/test';

import type { LoadOptions } from '../../../js/index.js';
import { ISOLATED, expect, generate, loadDefault, openPage, test } from '../support/app.js';
import { PACKAGE } from '../support/package.js';
import { FORCED_CASES, caseNamed, distance } from '../support/reference.js';
import type { FaultServer } from '../support/server.js';
import { cpuMs, workerThreads } from '../support/threads.js';

const TIMEOUT_MS = 300_000;
const PATH = '/isolated/index.html';
const GREEDY = { temperature: 0, maxTokens: 16, ignoreEos: true };

const isolatedPage = (browser: Browser, server: FaultServer): Promise<Page> =>
  openPage(browser, server, PATH);

/**
 * An isolated page whose package has another file in place of one of its own. Its server is told:
 * the browser driver does not see what workers of workers fetch.
 */
function pageWith(
  [browser, server]: [Browser, FaultServer],
  file: string,
  content: string | Buffer,
): Promise<Page> {
  const folder = `/with-other-${file}/`;
  for (const name of ['index.html', 'page.js', 'pkg/']) {
    const original = server.routes.get(`/isolated/${name}`);
    if (original !== undefined) server.routes.set(folder + name, original);
  }
  server.routes.set(`${folder}pkg/${file}`, content);
  server.headers.set(folder, ISOLATED);
  return openPage(browser, server, `${folder}index.html`);
}

/** What a load of a tiny model says of its engine, and the tokens that it makes. */
const loadTiny = (page: Page, options: Pick<LoadOptions, 'backend' | 'threads'>) =>
  page.evaluate(async (options) => {
    const model = await tokenbrook.load('/tiny.gguf', { backend: 'cpu', ...options });
    const ids = [];
    const greedy = { temperature: 0, maxTokens: 24, ignoreEos: true };
    for await (const { id } of model.generate('hello', greedy)) ids.push(id);
    const { wasmVariant, threads, threadsReason, backendReason } = model.info;
    await model.dispose();
    return { wasmVariant, threads, threadsReason, backendReason, ids };
  }, options);

for (const precision of ['fast', 'exact'] as const) {
  test(`two threads compute what one computes, bit for bit: ${precision}`, async ({
    browser,
    server,
  }) => {
    test.setTimeout(TIMEOUT_MS);
    const [reference] = FORCED_CASES;
    const { forced, llama_cpp_int8: yardstick } = reference ?? {};
    if (reference === undefined || forced === undefined || yardstick === undefined) {
      throw new Error('not a forced case');
    }
    const { messages, raw = '', greedy_ids: ids = [] } = caseNamed('code');
    const answers = [];
    for (const [threads, variant, file] of [
      [2, 'relaxed-simd-threads', 'engine-threads_bg.wasm'],
      [1, 'relaxed-simd', 'engine-relaxed_bg.wasm'],
    ] as const) {
      const page = await isolatedPage(browser, server);
      const before = server.requests.length;
      await loadDefault(page, { backend: 'cpu', precision, threads });
      const { info } = await page.evaluate(() => ({ info: model.info }));
      expect(info).toMatchObject({ wasmVariant: variant, threads, threadsReason: 'asked for' });
      const modules = server.requests.slice(before).filter((it) => it.endsWith('.wasm'));
      expect(modules).toEqual([`GET /isolated/pkg/${file}`]);
      const scored = await page.evaluate((ids) => model.score(ids), reference.prompt_ids);
      const made = await generate(page, messages ?? raw, GREEDY);
      expect(made.ids).toEqual(ids.slice(0, 16));
      answers.push({ scored, ids: made.ids });
      await page.close();
    }
    expect(answers[0]).toEqual(answers[1]);
    const scored = answers[0]?.scored ?? { ids: [], top1: [], top1Logprob: [], nextLogprob: [] };
    const { top1Agreement, meanAbsDlogprob } = distance(forced, scored);
    const isFast = precision === 'fast';
    expect(top1Agreement).toBeGreaterThanOrEqual(isFast ? yardstick.top1_agreement - 0.01 : 0.98);
    const bound = isFast ? 1.15 * yardstick.mean_abs_dlogprob : 0.02;
    expect(meanAbsDlogprob).toBeLessThanOrEqual(bound);
  });
}

test('a page that is not isolated has one thread, and is told why', async ({ browser, server }) => {
  const page = await openPage(browser, server);
  const before = server.requests.length;
  const info = await loadTiny(page, { threads: 2 });
  expect(info).toMatchObject({ wasmVariant: 'relaxed-simd', threads: 1 });
  expect(info.threadsReason).toContain('not cross-origin isolated');
  expect(server.requests.slice(before).join()).not.toContain('engine-threads');
  await page.close();
});

test('without being asked, as many threads run as a measurement finds worth it', async ({
  browser,
  server,
}) => {
  const page = await isolatedPage(browser, server);
  const alone = await loadTiny(page, { threads: 1 });
  const auto = await loadTiny(page, {});
  expect(auto.threadsReason).toMatch(/^measured: the fastest of up to \d+$/);
  const most = await page.evaluate(() => navigator.hardwareConcurrency);
  expect(auto.threads).toBeGreaterThanOrEqual(1);
  expect(auto.threads).toBeLessThanOrEqual(most);
  expect(auto.ids).toEqual(alone.ids);
  // More than there are processors: slower, and still right.
  const many = await loadTiny(page, { threads: 5 });
  expect(many).toMatchObject({ threads: 5, ids: alone.ids });
  await page.close();
});

test('where there is no GPU to choose, auto takes the threads', async ({ browser, server }) => {
  const page = await isolatedPage(browser, server);
  // Software adapters are not taken.
  const info = await loadTiny(page, { backend: 'auto', threads: 2 });
  expect(info).toMatchObject({ wasmVariant: 'relaxed-simd-threads', threads: 2 });
  expect(info.backendReason).toContain('software');
  await page.close();
});

for (const file of ['engine-threads_bg.wasm', 'engine-threads.js', 'helper.js']) {
  test(`without ${file} there is one thread, and what is wrong is told`, async ({
    browser,
    server,
  }) => {
    const page = await pageWith([browser, server], file, join(PACKAGE, 'no-such-file'));
    const info = await loadTiny(page, { threads: 2 });
    expect(info).toMatchObject({ wasmVariant: 'relaxed-simd', threads: 1 });
    expect(info.threadsReason).toContain('more could not be started');
    await page.close();
  });
}

test('a thread that stops in its work fails the answer, with a code', async ({
  browser,
  server,
}) => {
  const script = readFileSync(join(PACKAGE, 'helper.js'), 'utf8');
  const call = 'helper.help();';
  expect(script).toContain(call);
  // It has joined, and is gone.
  const gone = script.replace(call, 'await new Promise((go) => setTimeout(go, 300)); throw 1;');
  const page = await pageWith([browser, server], 'helper.js', Buffer.from(gone));
  const failures = await page.evaluate(async () => {
    const model = await tokenbrook.load('/tiny.gguf', { backend: 'cpu', threads: 2 });
    await new Promise((go) => setTimeout(go, 1000));
    const codes = [];
    for (let i = 0; i < 2; i += 1) {
      try {
        for await (const _ of model.generate('hello', { maxTokens: 4 }));
      } catch (error) {
        if (!(error instanceof tokenbrook.TokenbrookError)) throw error;
        codes.push(`${error.code}: ${error.message}`);
      }
    }
    await model.dispose();
    return codes;
  });
  // What was computed without it is not trusted later either.
  expect(failures).toHaveLength(2);
  for (const failure of failures) {
    expect(failure).toMatch(/^internal: .*threads: one of them stopped/);
  }
  await page.close();
});

test('threads sleep while nothing is asked, and none stays behind', async ({ browser, server }) => {
  test.setTimeout(TIMEOUT_MS);
  const page = await isolatedPage(browser, server);
  const before = workerThreads();
  await loadDefault(page, { backend: 'cpu', threads: 2 });
  const during = workerThreads().filter((it) => !before.includes(it));
  expect(during).toHaveLength(2);
  // A stop in the middle of an answer leaves nothing running.
  const stopped = await page.evaluate(async () => {
    const stop = new AbortController();
    const stream = model.generate('Once upon a time', { maxTokens: 400, signal: stop.signal });
    let tokens = 0;
    try {
      for await (const _ of stream) if ((tokens += 1) === 3) stop.abort();
    } catch {
      // The signal's reason.
    }
    return (await stream.stats).finishReason;
  });
  expect(stopped).toBe('cancelled');
  await page.waitForTimeout(200);
  const began = cpuMs(during);
  await page.waitForTimeout(1000);
  expect(cpuMs(during) - began).toBeLessThanOrEqual(50);
  const { messages, raw = '', greedy_ids: ids = [] } = caseNamed('code');
  expect((await generate(page, messages ?? raw, GREEDY)).ids).toEqual(ids.slice(0, 16));
  await page.evaluate(() => model.dispose());
  const left = () => workerThreads().filter((it) => during.includes(it)).length;
  await expect.poll(left, { timeout: 10_000 }).toBe(0);
  await page.close();
});

test('two models at once have threads and memory of their own, which grows', async ({
  browser,
  server,
}) => {
  test.setTimeout(TIMEOUT_MS);
  const page = await isolatedPage(browser, server);
  const alone = await loadTiny(page, { threads: 1 });
  const { tiny, big, grown } = await page.evaluate(async () => {
    const options = { backend: 'cpu', threads: 2, cache: 'none' } as const;
    const [tiny, big] = await Promise.all([
      tokenbrook.load('/tiny.gguf', options),
      tokenbrook.load('/model.gguf', options),
    ]);
    const read = async (model: typeof tiny, prompt: string, maxTokens: number) => {
      const ids = [];
      const greedy = { temperature: 0, maxTokens, ignoreEos: true };
      for await (const { id } of model.generate(prompt, greedy)) ids.push(id);
      return ids;
    };
    const before = (await big.memory()).wasmHeapBytes;
    const short = await read(big, 'The capital of France is', 8);
    const [tinyIds] = await Promise.all([
      read(tiny, 'hello', 24),
      // A context that needs more memory than there was.
      read(big, 'far away '.repeat(150), 2),
    ]);
    const after = (await big.memory()).wasmHeapBytes;
    const again = await read(big, 'The capital of France is', 8);
    await tiny.dispose();
    const last = await read(big, 'The capital of France is', 8);
    await big.dispose();
    return { tiny: tinyIds, big: [short, again, last], grown: after - before };
  });
  expect(tiny).toEqual(alone.ids);
  expect(grown).toBeGreaterThan(0);
  expect(big[0]).toHaveLength(8);
  expect(big[1]).toEqual(big[0]);
  expect(big[2]).toEqual(big[0]);
  await page.close();
});
