// Gemma 3 270M (Q4_K_M), a base model: raw prompts in both tiers, memory, and its vocabulary.

import { open, stat } from 'node:fs/promises';

import type { Page } from '@playwright/test';

import { expect, generate, openPage, test } from '../support/app.js';
import { GEMMA } from '../support/package.js';
import { GEMMA_FORCED_CASES, GEMMA_GREEDY_CASES, clearTokens } from '../support/reference.js';
import { distance } from '../support/reference.js';
import type { Precision, Progress } from '../../../js/index.js';

/** The engine sets the pace: some hundred tokens at the exact tier's speed. */
const TIMEOUT_MS = 400_000;
const MIB = 1 << 20;

function inTier(precision: Precision, tests: (page: () => Page) => void): void {
  test.describe(`${precision} tier`, () => {
    let page: Page;
    test.beforeAll(async ({ browser, server }) => {
      test.setTimeout(TIMEOUT_MS);
      page = await openPage(browser, server);
      await page.evaluate(async (precision) => {
        globalThis.model = await tokenbrook.load('/gemma.gguf', { precision, backend: 'cpu' });
      }, precision);
    });
    test.afterAll(() => page.close());
    tests(() => page);
  });
}

inTier('exact', (page) => {
  for (const { name, raw = '', prompt_ids, greedy_ids = [], ...rest } of GEMMA_GREEDY_CASES) {
    test(`${name}: prompt and greedy ids are the reference's`, async () => {
      test.setTimeout(TIMEOUT_MS);
      const count = clearTokens({ name, prompt_ids, ...rest });
      expect(count).toBeGreaterThan(0);
      const options = { maxTokens: count, temperature: 0, ignoreEos: true };
      const made = await generate(page(), raw, options);
      expect(made.promptIds).toEqual(prompt_ids);
      expect(made.ids).toEqual(greedy_ids.slice(0, count));
      expect(made.text).not.toContain('\uFFFD');
    });
  }

  for (const { name, prompt_text, prompt_ids, forced } of GEMMA_FORCED_CASES) {
    test(`${name}: forced log-probabilities are the reference's`, async () => {
      test.setTimeout(TIMEOUT_MS);
      if (forced === undefined) throw new Error('not a forced case');
      const scored = await page().evaluate((text) => model.score(text), prompt_text);
      expect(scored.ids).toEqual(prompt_ids);
      const { top1Agreement, meanAbsDlogprob } = distance(forced, scored);
      expect(top1Agreement).toBeGreaterThanOrEqual(0.98);
      expect(meanAbsDlogprob).toBeLessThanOrEqual(0.02);
    });
  }
});

inTier('fast', (page) => {
  for (const { name, prompt_ids: prompt, raw = '', greedy_ids: ids = [] } of GEMMA_GREEDY_CASES) {
    test(`${name}: prompt ids are the reference's, greedy ids are near`, async () => {
      test.setTimeout(TIMEOUT_MS);
      const made = await generate(page(), raw, { maxTokens: 1, temperature: 0 });
      expect(made.promptIds).toEqual(prompt);
      const whole = [...prompt, ...ids];
      const { top1Logprob, nextLogprob } = await page().evaluate(
        (ids) => model.score(ids),
        whole,
      );
      for (let i = prompt.length - 1; i < whole.length - 1; i += 1) {
        const gap = (top1Logprob[i] ?? NaN) - (nextLogprob[i] ?? NaN);
        expect(gap, `nats from the top at token ${i + 1}`).toBeLessThanOrEqual(0.5);
      }
    });
  }

  for (const { name, prompt_text, prompt_ids, forced, ...rest } of GEMMA_FORCED_CASES) {
    test(`${name}: no further from the reference than llama.cpp`, async () => {
      test.setTimeout(TIMEOUT_MS);
      const yardstick = rest.llama_cpp_int8;
      if (forced === undefined || yardstick === undefined) throw new Error('not a forced case');
      const scored = await page().evaluate((text) => model.score(text), prompt_text);
      expect(scored.ids).toEqual(prompt_ids);
      const { top1Agreement, meanAbsDlogprob } = distance(forced, scored);
      expect(top1Agreement).toBeGreaterThanOrEqual(yardstick.top1_agreement - 0.01);
      expect(meanAbsDlogprob).toBeLessThanOrEqual(1.15 * yardstick.mean_abs_dlogprob);
    });
  }

  test('the wasm heap is near the size of the file after all that', async () => {
    const { size } = await stat(GEMMA);
    const memory = await page().evaluate(() => model.memory());
    const limit = 1.25 * size + memory.kvCacheBytes + 64 * MIB;
    expect(memory.wasmHeapBytes).toBeLessThanOrEqual(limit);
    expect(memory.weightsBytes).toBeGreaterThan(0.9 * size);
    expect(memory.wasmHeapBytes).toBeGreaterThanOrEqual(memory.weightsBytes);
  });

  test('a base model has no chat template, and says how to do without', async () => {
    const error = await page().evaluate(async () => {
      try {
        await model.applyChatTemplate([{ role: 'user', content: 'Hi' }]);
        return 'no error';
      } catch (error) {
        return String(error);
      }
    });
    expect(error).toContain('pass the prompt as a string');
  });
});

/** Where the tensors of a GGUF begin, at the latest: behind the last name of its directory. */
async function headerBytes(path: string): Promise<number> {
  const file = await open(path);
  try {
    const { buffer } = await file.read(Buffer.alloc(32 * MIB), 0, 32 * MIB, 0);
    return buffer.lastIndexOf('output_norm.weight');
  } finally {
    await file.close();
  }
}

test('262,144 tokens are ready a second after their bytes, while tensors are on the way', async ({
  browser,
  server,
}) => {
  test.setTimeout(TIMEOUT_MS);
  const header = await headerBytes(GEMMA);
  expect(header).toBeGreaterThan(4 * MIB);
  const page = await openPage(browser, server);
  // Reports come at 50 ms at most after a piece of the file has been dealt with, so the longest
  // silence from the first byte to well past the header is that in which the vocabulary is made.
  const silences = await page.evaluate(async (enough) => {
    const longest: number[] = [];
    for (let i = 0; i < 3; i += 1) {
      const stop = new AbortController();
      let [last, silence, total] = [Number.NaN, 0, 0];
      const onProgress = ({ receivedBytes, totalBytes }: Progress): void => {
        const now = performance.now();
        if (now - last > silence) silence = now - last;
        last = now;
        total = totalBytes ?? 0;
        if (receivedBytes > enough) stop.abort();
      };
      // Kept nowhere: each time has to see all bytes, and the engine to take them as they come.
      const options = { onProgress, signal: stop.signal, cache: 'none' } as const;
      await tokenbrook.load('/gemma.gguf', options).catch((error: unknown) => {
        if (!stop.signal.aborted) throw error;
      });
      if (total < 4 * enough) throw new Error('the header is most of the file');
      longest.push(silence);
    }
    return longest;
  }, header + 16 * MIB);
  console.log(`vocabulary ready within ${silences.map(Math.round).join(', ')} ms`);
  expect(Math.min(...silences)).toBeGreaterThan(0);
  // What else a busy machine does in the meantime makes one longer, hardly all three.
  expect(Math.min(...silences)).toBeLessThanOrEqual(1000);
  await page.close();
});
