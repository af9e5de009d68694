// Models that there is no room for: refused by their header, with the numbers, on both backends;
// and what a plan says of them.

import type { Page } from '@playwright/test';

import { expect, openPage, test } from '../support/app.js';
import { tinyModel } from '../support/tiny-model.js';

/** Positions that no memory has room for. */
const LONGEST = 1 << 24;

interface Outcome {
  plan: { fits: boolean; why: string; longest: number };
  failure: { code: string; message: string; need: number; have: number };
  /** The context of a load with the plan's longest. */
  loaded: number;
}

function outcome(page: Page, backend: 'cpu' | 'webgpu'): Promise<Outcome> {
  return page.evaluate(
    async ([backend, contextLength]) => {
      const gpu = { plan: 'software' } as const;
      const options = { backend, contextLength, gpu, cache: 'none' } as const;
      const planned = await tokenbrook.plan('/long.gguf', options);
      const loading = tokenbrook.load('/long.gguf', options);
      const thrown: unknown = await loading.catch((it: unknown) => it);
      if (!(thrown instanceof tokenbrook.TokenbrookError)) throw new Error('it loaded');
      const { code, message, need = 0, have = 0 } = thrown;
      // A cache grows as it is filled: to be able to is enough here.
      const fitting = { ...options, contextLength: planned.maxContextLength };
      const model = await tokenbrook.load('/long.gguf', fitting);
      const loaded = model.info.contextLength;
      await model.dispose();
      const { fits, why = '', maxContextLength: longest } = planned;
      return { plan: { fits, why, longest }, failure: { code, message, need, have }, loaded };
    },
    [backend, LONGEST] as const,
  );
}

for (const backend of ['cpu', 'webgpu'] as const) {
  test(`what ${backend} has no room for is refused with the numbers`, async ({
    browser,
    server,
  }) => {
    const metadata = { 'llama.context_length': { u32: LONGEST } };
    server.routes.set('/long.gguf', tinyModel({ metadata }));
    const page = await openPage(browser, server);
    const { plan, failure, loaded } = await outcome(page, backend);
    expect(plan.fits).toBe(false);
    expect(failure.code).toBe('out-of-memory');
    expect(failure.need).toBeGreaterThan(failure.have);
    for (const text of [plan.why, failure.message]) {
      expect(text).toContain(`${failure.need} bytes`);
      expect(text).toContain(String(failure.have));
    }
    expect(failure.message).toContain(`contextLength of at most ${plan.longest}`);
    expect(plan.longest).toBeGreaterThan(0);
    expect(plan.longest).toBeLessThan(LONGEST);
    expect(loaded).toBe(plan.longest);
    // In bytes of a position: keys and values of two layers, two heads of eight elements each.
    const position = 2 * 2 * 2 * 8 * 4;
    if (backend === 'cpu') {
      const room = 4 * 2 ** 30 - (256 << 20);
      expect(failure.have).toBe(room);
      expect(plan.longest * position).toBeLessThanOrEqual(room);
      expect((plan.longest + 256) * position).toBeGreaterThan(room - 1_000_000);
    } else {
      const limits = await page.evaluate(async () => {
        const { webgpu } = await tokenbrook.diagnose();
        const { maxBufferSize = 0, maxStorageBufferBindingSize = 0 } = webgpu?.limits ?? {};
        return Math.min(maxBufferSize, maxStorageBufferBindingSize);
      });
      expect(failure.have).toBe(limits);
      expect((plan.longest * position) / 2).toBeLessThanOrEqual(limits);
      expect(((plan.longest + 256) * position) / 2).toBeGreaterThan(limits);
    }
    await page.close();
  });
}
