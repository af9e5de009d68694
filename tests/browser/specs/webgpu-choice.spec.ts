// What is chosen on a GPU, and why: the backend by `auto`, the kernels by measuring, what a page
// can learn of both, and what a later load need not do again.

import type { Page } from '@playwright/test';

import { expect, loadFailure, openPage, test } from '../support/app.js';
import type { LoadOptions, ModelInfo } from '../../../js/index.js';

const TIMEOUT_MS = 120_000;

let page: Page;
test.beforeEach(async ({ browser, server }) => {
  test.setTimeout(TIMEOUT_MS);
  page = await openPage(browser, server);
});
test.afterEach(() => page.close());

/** Of a small model, that answers in the end. */
function infoOf(options: Pick<LoadOptions, 'backend' | 'gpu' | 'workerUrl'>): Promise<ModelInfo> {
  return page.evaluate(async (options) => {
    const model = await tokenbrook.load('/tiny.gguf', options);
    const stream = model.generate('then', { maxTokens: 3, temperature: 0, ignoreEos: true });
    let tokens = 0;
    for await (const _ of stream) tokens += 1;
    if (tokens !== 3) throw new Error(`${tokens} tokens`);
    const { info } = model;
    await model.dispose();
    return info;
  }, options);
}

test('auto measures a GPU that does not call itself software, and takes what is faster', async () => {
  const info = await infoOf({ workerUrl: '/workers/disguised.js' });
  expect(info.backendReason).toMatch(/faster|slower/);
  expect(info.backendReason).toMatch(/measured .* [\d.]+ ms a token on the GPU, [\d.]+ on the CPU/);
  expect(info.backend).toBe(info.backendReason.includes('slower') ? 'cpu' : 'webgpu');
});

test('auto leaves a GPU that computes wrongly, and keeps the reason', async () => {
  const workerUrl = '/workers/disguised.js?fault';
  const info = await infoOf({ workerUrl });
  expect(info.backend).toBe('cpu');
  expect(info.backendReason).toContain('norm Serial is wrong on this GPU');
  const refused = await loadFailure(page, '/tiny.gguf', { workerUrl, backend: 'webgpu' });
  expect(refused.code).toBe('unsupported-environment');
  expect(refused.message).toContain('norm Serial');
});

test('kernels are measured once, checked, and told', async () => {
  const phases = await page.evaluate(async () => {
    const seen = new Set<string>();
    const onProgress = ({ phase }: { phase: string }): void => void seen.add(phase);
    const model = await tokenbrook.load('/tiny.gguf', { backend: 'webgpu', onProgress });
    await model.dispose();
    return [...seen];
  });
  expect(phases).toEqual(expect.arrayContaining(['compile', 'check', 'upload']));
  const { gpu } = await infoOf({ backend: 'webgpu' });
  if (gpu === null) throw new Error('no report');
  expect(gpu.isKnown).toBe(true);
  expect(gpu.checks.filter(({ fault }) => fault === null).length).toBeGreaterThanOrEqual(9);
  expect(gpu.timings.length).toBeGreaterThan(10);
  expect(gpu.pace?.decodeMs).toBeGreaterThan(0);
  // A processor that plays a GPU pays for each barrier.
  const products = gpu.variants.filter(({ role }) => role.startsWith('linear'));
  const formats = new Set(products.map(({ format }) => format));
  expect(formats).not.toContain(null);
  expect(products).toHaveLength(3 * formats.size);
  for (const { variant } of products) expect(variant).toMatch(/^(Rows|Tiles)(Quads)?$/);
  const { gpuReports } = await page.evaluate(() => tokenbrook.diagnose());
  expect(gpuReports.map(({ key }) => key)).toContain(gpu.key);
});

test('a second load is ready sooner, and its first token waits for no kernel', async () => {
  const loads = await page.evaluate(async () => {
    const times = [];
    for (let i = 0; i < 2; i += 1) {
      const phases = new Set<string>();
      const onProgress = ({ phase }: { phase: string }): void => void phases.add(phase);
      const start = performance.now();
      const model = await tokenbrook.load('/tiny.gguf', { backend: 'webgpu', onProgress });
      const readyMs = performance.now() - start;
      const ttfts = [];
      for (const prompt of ['then', 'once', 'when', 'what']) {
        const stream = model.generate(prompt, { maxTokens: 1, temperature: 0 });
        for await (const _ of stream);
        ttfts.push((await stream.stats).ttftMs ?? NaN);
      }
      const isKnown = model.info.gpu?.isKnown;
      await model.dispose();
      times.push({ readyMs, ttfts, isKnown, phases: [...phases] });
    }
    return times;
  });
  const [first, second] = loads;
  if (first === undefined || second === undefined) throw new Error('two loads');
  expect(first.isKnown).toBe(false);
  expect(second.isKnown).toBe(true);
  expect(first.phases).toContain('check');
  expect(second.phases).not.toContain('check');
  expect(second.phases).not.toContain('download');
  expect(second.readyMs).toBeLessThan(first.readyMs);
  // A kernel that a first use had to make takes hundreds of milliseconds, a token a few.
  for (const { ttfts } of loads) {
    const [cold = NaN, ...later] = ttfts;
    expect(cold).toBeLessThan(Math.max(...later) + 100);
  }
});

test('a variant can be asked for, and one that is not there is refused', async () => {
  const variants = { linearOne: 'Tree', norm: 'Tree' };
  const { gpu } = await infoOf({ backend: 'webgpu', gpu: { variants } });
  const products = gpu?.variants.filter(({ role }) => role === 'linearOne') ?? [];
  expect(products.length).toBeGreaterThan(0);
  for (const { variant } of products) expect(variant).toBe('Tree');
  expect(gpu?.variants).toContainEqual({ role: 'norm', format: null, variant: 'Tree' });
  const wrong = { backend: 'webgpu', gpu: { variants: { norm: 'Quick' } } };
  const refused = await loadFailure(page, '/tiny.gguf', wrong);
  expect(refused.code).toBe('invalid-option');
  expect(refused.message).toContain('Serial');
});

test('diagnose tells what there is, without a model', async () => {
  const found = await page.evaluate(() => tokenbrook.diagnose());
  expect(found).toMatchObject({
    secureContext: true,
    crossOriginIsolated: false,
    wasm: { simd: true, relaxedSimd: true, threads: true },
    storage: { persisted: false, opfs: true },
    gpuReports: [],
  });
  expect(found.webgpu?.limits['maxStorageBuffersPerShaderStage']).toBeGreaterThanOrEqual(8);
  expect(JSON.stringify(found.webgpu)).toMatch(/swiftshader/i);
  expect(structuredClone(found)).toEqual(JSON.parse(JSON.stringify(found)));
});

test('diagnose never rejects, whatever the browser lacks', async () => {
  const found = await page.evaluate(() => {
    const broken = { get: () => Promise.reject(new Error('no')) };
    Object.defineProperty(navigator, 'gpu', { value: { requestAdapter: broken.get } });
    Object.defineProperty(navigator, 'storage', { value: { estimate: broken.get } });
    Object.defineProperty(globalThis, 'indexedDB', { value: undefined });
    return tokenbrook.diagnose();
  });
  expect(found).toMatchObject({ webgpu: null, storage: null, gpuReports: [] });
});
