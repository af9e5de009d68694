// The WebGPU backend on Chromium's software adapter: the reference's rows, every architecture,
// default limits, stops, and a device that is lost.

import type { Page } from '@playwright/test';

import { expect, generate, loadDefault, loadFailure, openPage, test } from '../support/app.js';
import { FIXTURE_NAMES, fixtureCases, furthest } from '../support/fixtures.js';
import { FORCED_CASES, GEMMA_FORCED_CASES, GEMMA_GREEDY_CASES } from '../support/reference.js';
import { GREEDY_CASES, ROUNDED, caseNamed, clearTokens, distance } from '../support/reference.js';
import type { Case } from '../support/reference.js';
import type { Precision } from '../../../js/index.js';

/** A software adapter makes a few tokens a second. */
const TIMEOUT_MS = 600_000;

async function sameGreedyIds(page: Page, reference: Case): Promise<void> {
  const { greedy_ids: ids = [], messages, raw = '' } = reference;
  const count = Math.max(clearTokens(reference), 1);
  const options = { maxTokens: count, temperature: 0, ignoreEos: true };
  const made = await generate(page, messages ?? raw, options);
  expect(made.promptIds).toEqual(reference.prompt_ids);
  expect(made.ids).toEqual(ids.slice(0, count));
  expect(made.stats.finishReason).toBe('length');
}

async function forcedDistance(page: Page, reference: Case) {
  const { forced, prompt_ids: ids } = reference;
  if (forced === undefined) throw new Error('not a forced case');
  return distance(forced, await page.evaluate((ids) => model.score(ids), ids));
}

function withModel(
  title: string,
  load: (page: Page) => Promise<void>,
  tests: (page: () => Page) => void,
): void {
  test.describe(title, () => {
    let page: Page;
    test.beforeAll(async ({ browser, server }) => {
      test.setTimeout(TIMEOUT_MS);
      page = await openPage(browser, server);
      await load(page);
    });
    test.afterAll(() => page.close());
    tests(() => page);
  });
}

const smol =
  (precision: Precision, gpu = {}) =>
  (page: Page): Promise<void> =>
    loadDefault(page, { backend: 'webgpu', precision, gpu });

withModel('SmolLM2, exact tier', smol('auto'), (page) => {
  test('the model says where it runs', async () => {
    const info = await page().evaluate(() => model.info);
    expect(info).toMatchObject({
      backend: 'webgpu',
      backendReason: 'asked for',
      precision: 'exact',
      adapter: expect.stringMatching(/swiftshader/i),
    });
  });

  for (const reference of GREEDY_CASES) {
    test(`${reference.name}: prompt and greedy ids are the reference's`, async () => {
      test.setTimeout(TIMEOUT_MS);
      await sameGreedyIds(page(), reference);
    });
  }

  for (const reference of FORCED_CASES) {
    test(`${reference.name}: forced log-probabilities are the reference's`, async () => {
      test.setTimeout(TIMEOUT_MS);
      const { top1Agreement, meanAbsDlogprob } = await forcedDistance(page(), reference);
      expect(top1Agreement).toBeGreaterThanOrEqual(0.98);
      expect(meanAbsDlogprob).toBeLessThanOrEqual(0.02);
    });
  }

  test('a longer turn reuses the cache, and a cancelled one leaves it whole', async () => {
    test.setTimeout(TIMEOUT_MS);
    const { messages = [], greedy_ids: ids = [] } = caseNamed('capital');
    const seen = await page().evaluate(async (messages) => {
      const stopped = model.generate(messages, { temperature: 0 });
      const reader = stopped.getReader();
      const first = (await reader.read()).value?.id;
      await reader.cancel();
      const again = model.generate(messages, { temperature: 0, maxTokens: 2 });
      const after: number[] = [];
      for await (const token of again) after.push(token.id);
      const { finishReason } = await stopped.stats;
      return { first, after, finishReason, cached: (await again.stats).cachedTokens };
    }, messages);
    expect(seen.finishReason).toBe('cancelled');
    expect([seen.first, ...seen.after.slice(1)]).toEqual(ids.slice(0, 2));
    expect(seen.after).toEqual(ids.slice(0, 2));
    expect(seen.cached).toBe(caseNamed('capital').prompt_ids.length - 1);
  });

  test('weights are on the GPU, not in the wasm heap', async () => {
    const memory = await page().evaluate(() => model.memory());
    expect(memory.weightsBytes).toBeGreaterThan(90_000_000);
    expect(memory.wasmHeapBytes).toBeLessThanOrEqual(96 << 20);
  });
});

withModel('SmolLM2, fast tier', smol('fast', ROUNDED), (page) => {
  test('activations of the feed-forward products are rounded', async () => {
    const gpu = await page().evaluate(() => model.info.gpu);
    const rounded = gpu?.variants.filter(({ role }) => role.endsWith('Rounded')) ?? [];
    expect(rounded.length).toBeGreaterThan(0);
    for (const { variant } of rounded) expect(variant).toMatch(/^Fast/);
    const others = gpu?.variants.filter(({ role }) => /^linear(One|Few|Many)$/.test(role)) ?? [];
    for (const { variant } of others) expect(variant).not.toMatch(/^Fast/);
  });

  for (const reference of FORCED_CASES) {
    test(`${reference.name}: no further from the reference than llama.cpp`, async () => {
      test.setTimeout(TIMEOUT_MS);
      const yardstick = reference.llama_cpp_int8;
      if (yardstick === undefined) throw new Error('not a forced case');
      const { top1Agreement, meanAbsDlogprob } = await forcedDistance(page(), reference);
      expect(top1Agreement).toBeGreaterThanOrEqual(yardstick.top1_agreement - 0.01);
      expect(meanAbsDlogprob).toBeLessThanOrEqual(1.15 * yardstick.mean_abs_dlogprob);
    });
  }
});

withModel('SmolLM2 with default limits', smol('auto', { defaultLimits: true }), (page) => {
  for (const reference of FORCED_CASES) {
    test(`${reference.name}: forced log-probabilities are the reference's`, async () => {
      test.setTimeout(TIMEOUT_MS);
      const { top1Agreement, meanAbsDlogprob } = await forcedDistance(page(), reference);
      expect(top1Agreement).toBeGreaterThanOrEqual(0.98);
      expect(meanAbsDlogprob).toBeLessThanOrEqual(0.02);
    });
  }
});

const gemma = (page: Page): Promise<void> =>
  page.evaluate(async () => {
    globalThis.model = await tokenbrook.load('/gemma.gguf', { backend: 'webgpu' });
  });

withModel('Gemma 3, exact tier', gemma, (page) => {
  for (const reference of GEMMA_GREEDY_CASES) {
    test(`${reference.name}: prompt and greedy ids are the reference's`, async () => {
      test.setTimeout(TIMEOUT_MS);
      await sameGreedyIds(page(), reference);
    });
  }

  for (const reference of GEMMA_FORCED_CASES) {
    test(`${reference.name}: forced log-probabilities are the reference's`, async () => {
      test.setTimeout(TIMEOUT_MS);
      const { top1Agreement, meanAbsDlogprob } = await forcedDistance(page(), reference);
      expect(top1Agreement).toBeGreaterThanOrEqual(0.98);
      expect(meanAbsDlogprob).toBeLessThanOrEqual(0.02);
    });
  }
});

test.describe('architectures', () => {
  let page: Page;
  test.beforeAll(async ({ browser, server }) => {
    page = await openPage(browser, server);
  });
  test.afterAll(() => page.close());

  for (const name of FIXTURE_NAMES) {
    test(`${name} has the log-probabilities of transformers`, async () => {
      test.setTimeout(TIMEOUT_MS);
      for (const fixture of fixtureCases(name)) {
        const scored = await page.evaluate(
          async ([name, contextLength, ids]) => {
            // As measuring would choose, which is not the matter here.
            const gpu = { plan: 'software' } as const;
            const options = { backend: 'webgpu', kvCache: 'f32', contextLength, gpu } as const;
            const model = await tokenbrook.load(`/fixtures/${name}.gguf`, options);
            const scored = await model.score(ids);
            await model.dispose();
            return scored;
          },
          [name, fixture.context_length, fixture.ids] as const,
        );
        expect(furthest(fixture, scored.nextLogprob)).toBeLessThanOrEqual(2e-3);
      }
    });
  }
});

test.describe('a page', () => {
  let page: Page;
  test.beforeEach(async ({ browser, server }) => {
    page = await openPage(browser, server);
  });
  test.afterEach(() => page.close());

  test('auto passes a software adapter by, and says so', async () => {
    const info = await page.evaluate(async () => {
      const { info } = await tokenbrook.load('/tiny.gguf');
      return info;
    });
    expect(info.backend).toBe('cpu');
    expect(info.backendReason).toContain('software');
  });

  test('where there is no WebGPU, webgpu is refused and auto takes the CPU', async () => {
    const workerUrl = '/workers/without-gpu.js';
    const refused = await loadFailure(page, '/tiny.gguf', { backend: 'webgpu', workerUrl });
    expect(refused.code).toBe('unsupported-environment');
    expect(refused.message).toContain('cpu');
    const reason = await page.evaluate(async (workerUrl) => {
      const { info } = await tokenbrook.load('/tiny.gguf', { workerUrl });
      return [info.backend, info.backendReason];
    }, workerUrl);
    expect(reason[0]).toBe('cpu');
    expect(reason[1]).toContain('WebGPU');
  });

  test('a lost device ends its stream, and the next call works again', async () => {
    test.setTimeout(TIMEOUT_MS);
    const seen = await page.evaluate(async () => {
      const workerUrl = '/workers/losing.js';
      const options = { backend: 'webgpu', workerUrl } as const;
      const model = await tokenbrook.load('/tiny.gguf', options);
      const ids = async (stream: AsyncIterable<{ id: number }>): Promise<number[]> => {
        const ids: number[] = [];
        for await (const { id } of stream) ids.push(id);
        return ids;
      };
      const settings = { temperature: 0, ignoreEos: true, maxTokens: 20 } as const;
      const want = await ids(model.generate('then', settings));
      const stream = model.generate('then', { ...settings, maxTokens: 400 });
      const kept: number[] = [];
      let code = 'none';
      try {
        for await (const { id } of stream) {
          kept.push(id);
          if (kept.length === 5) new BroadcastChannel('lose').postMessage(null);
        }
      } catch (error) {
        code = (error as { code: string }).code;
      }
      const { finishReason, completionTokens } = await stream.stats;
      const again = await ids(model.generate('then', settings));
      return { want, kept, code, finishReason, completionTokens, again };
    });
    expect(seen.code).toBe('device-lost');
    expect(seen.finishReason).toBe('error');
    expect(seen.kept.length).toBeGreaterThanOrEqual(5);
    expect(seen.kept.slice(0, 5)).toEqual(seen.want.slice(0, 5));
    expect(seen.completionTokens).toBeGreaterThanOrEqual(seen.kept.length);
    expect(seen.again).toEqual(seen.want);
  });
});
