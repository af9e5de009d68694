// Which of the two engines a browser gets, and that both say what the reference says.

import type { Page } from '@playwright/test';

import { expect, generate, loadDefault, openPage, test } from '../support/app.js';
import { FORCED_CASES, caseNamed, distance } from '../support/reference.js';

const TIMEOUT_MS = 300_000;

for (const [variant, workerUrl, file] of [
  ['relaxed-simd', '/pkg/worker.js', 'engine-relaxed_bg.wasm'],
  ['simd128', '/pkg/worker.js?wasm=simd128', 'engine_bg.wasm'],
] as const) {
  test(`${variant} is fetched alone, and is as near to the reference as int8 is`, async ({
    browser,
    server,
  }) => {
    test.setTimeout(TIMEOUT_MS);
    const [reference] = FORCED_CASES;
    const { forced, llama_cpp_int8: yardstick } = reference ?? {};
    if (reference === undefined || forced === undefined || yardstick === undefined) {
      throw new Error('not a forced case');
    }
    const page = await openPage(browser, server);
    const before = server.requests.length;
    await loadDefault(page, { backend: 'cpu', workerUrl });
    expect(await page.evaluate(() => model.info.wasmVariant)).toBe(variant);
    const modules = server.requests.slice(before).filter((request) => request.endsWith('.wasm'));
    expect(modules).toEqual([`GET /pkg/${file}`]);
    const scored = await page.evaluate((ids) => model.score(ids), reference.prompt_ids);
    const { top1Agreement, meanAbsDlogprob } = distance(forced, scored);
    expect(top1Agreement).toBeGreaterThanOrEqual(yardstick.top1_agreement - 0.01);
    expect(meanAbsDlogprob).toBeLessThanOrEqual(1.15 * yardstick.mean_abs_dlogprob);
    const { messages, raw = '', greedy_ids: ids = [] } = caseNamed('code');
    const options = { temperature: 0, maxTokens: 16, ignoreEos: true };
    const made = await generate(page, messages ?? raw, options);
    expect(made.ids).toEqual(ids.slice(0, 16));
    await page.close();
  });
}

/** The engine that loads a tiny model. */
const variantOfTiny = (page: Page): Promise<string | undefined> =>
  page.evaluate(async () => {
    const model = await tokenbrook.load('/tiny.gguf');
    const { wasmVariant } = model.info;
    await model.dispose();
    return wasmVariant;
  });

test('a site without the relaxed engine gets the one that runs everywhere', async ({
  browser,
  server,
}) => {
  const page = await openPage(browser, server);
  await page.route('**/engine-relaxed_bg.wasm', (route) => route.fulfill({ status: 404 }));
  await page.context().route('**/engine-relaxed_bg.wasm', (route) =>
    route.fulfill({ status: 404 }),
  );
  expect(await variantOfTiny(page)).toBe('simd128');
  await page.close();
});

test('where relaxed instructions give other bits, the plain engine is taken', async ({
  browser,
  server,
}) => {
  const page = await openPage(browser, server);
  await page.context().route('**/engine-relaxed.js', async (route) => {
    const script = await (await route.fetch()).text();
    const verdict = '    differingKernels() {';
    expect(script).toContain(verdict);
    const body = script.replace(verdict, `${verdict} return ['Q4_1'];`);
    await route.fulfill({ body, contentType: 'text/javascript' });
  });
  expect(await variantOfTiny(page)).toBe('simd128');
  await page.close();
});
