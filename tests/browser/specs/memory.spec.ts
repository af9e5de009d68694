import { stat } from 'node:fs/promises';

import { expect, openPage, test } from '../support/app.js';
import { HeapWatch } from '../support/heap.js';
import { MODEL } from '../support/package.js';

const MIB = 1 << 20;

for (const [from, asBlob] of [
  ['an address', false],
  ['a Blob', true],
] as const) {
  test(`loading at context 4096 from ${from} keeps memory near the size of the file`, async ({
    browser,
    server,
  }) => {
    const page = await openPage(browser, server);
    await page.evaluate(async (asBlob) => {
      const source = asBlob ? await (await fetch('/model.gguf')).blob() : '/model.gguf';
      Object.assign(globalThis, { source });
    }, asBlob);
    const watch = await HeapWatch.start(page);
    const { memory, info } = await page.evaluate(async () => {
      const { source } = globalThis as unknown as { source: string | Blob };
      globalThis.model = await tokenbrook.load(source, { contextLength: 4096 });
      return { memory: await model.memory(), info: { ...model.info } };
    });
    const growth = await watch.stop();
    const { size } = await stat(MODEL);
    expect(info.contextLength).toBe(4096);
    const limit = 1.25 * size + memory.kvCacheBytes + 64 * MIB;
    expect(memory.wasmHeapBytes).toBeLessThanOrEqual(limit);
    expect(memory.weightsBytes).toBeGreaterThan(0.9 * size);
    expect(memory.wasmHeapBytes).toBeGreaterThanOrEqual(memory.weightsBytes);
    // The worker was seen at work, not only before and after.
    expect(growth.samples).toBeGreaterThan(2);
    expect(growth.page).toBeLessThanOrEqual(32 * MIB);
    expect(growth.workers).toHaveLength(1);
    for (const bytes of growth.workers) expect(bytes).toBeLessThanOrEqual(32 * MIB);
    await page.close();
  });
}
