// What `plan` says of a model, against what a load of it then takes.

import { stat } from 'node:fs/promises';

import { expect, openPage, test } from '../support/app.js';
import { MODEL } from '../support/package.js';

const MIB = 1 << 20;

test('a plan reads the header alone, and foretells memory', async ({ browser, server }) => {
  const page = await openPage(browser, server);
  server.sent.clear();
  const planned = await page.evaluate(() =>
    tokenbrook.plan('/model.gguf', { backend: 'cpu', contextLength: 128 }),
  );
  const sent = server.sent.get('/model.gguf') ?? 0;
  const { size } = await stat(MODEL);
  expect(planned).toMatchObject({ architecture: 'llama', backend: 'cpu', fits: true });
  expect(planned).toMatchObject({ fetchBytes: size, cachedBytes: 0, contextLength: 128 });
  expect(planned.headerBytes).toBeGreaterThan(MIB);
  expect(sent).toBeLessThanOrEqual(planned.headerBytes + MIB);
  const real = await page.evaluate(async () => {
    const model = await tokenbrook.load('/model.gguf', { backend: 'cpu', contextLength: 128 });
    const score = Array.from({ length: 128 }, (_, i) => 100 + i);
    await model.score(score);
    const memory = await model.memory();
    await model.dispose();
    const again = await tokenbrook.plan('/model.gguf', { backend: 'cpu' });
    return { memory, parameters: model.info.parameters, again };
  });
  const near = (a: number, b: number): number => Math.abs(a / b - 1);
  expect(planned.parameters).toBe(real.parameters);
  expect(near(planned.weightsBytes, real.memory.weightsBytes)).toBeLessThan(0.05);
  expect(near(planned.kvCacheBytes, real.memory.kvCacheBytes)).toBeLessThan(0.05);
  expect(real.again).toMatchObject({ fetchBytes: 0, cachedBytes: size, headerFetchedBytes: 0 });
  expect(real.again.maxContextLength).toBe(8192);
  await page.close();
});

/** Rounds of a plan and an answer, in turn: a machine has other things to do at times. */
const ROUNDS = 15;

const middle = (values: number[]): number =>
  values.sort((a, b) => a - b)[values.length >> 1] ?? Number.NaN;

test('a plan foretells the speed of an answer within a quarter', async ({ browser, server }) => {
  const page = await openPage(browser, server);
  const rounds = await page.evaluate(async (count) => {
    const model = await tokenbrook.load('/model.gguf', { backend: 'cpu', contextLength: 512 });
    const rounds: { foretold: number; measured: number[] }[] = [];
    for (let round = 0; round < count; round += 1) {
      const { predicted } = await tokenbrook.plan('/model.gguf', { backend: 'cpu' });
      const stream = model.generate('Once', { maxTokens: 16, temperature: 0, ignoreEos: true });
      for await (const token of stream) void token;
      const { itlMs: measured } = await stream.stats;
      rounds.push({ foretold: 1000 / (predicted?.decodeTokensPerSecond ?? 0), measured });
    }
    await model.dispose();
    return rounds;
  }, ROUNDS);
  // A measurement takes about as long as a token, so that what else the machine does meets both
  // alike; the mean of an answer would hold all of it.
  const foretold = middle(rounds.map(({ foretold }) => foretold));
  const measured = middle(rounds.flatMap(({ measured }) => measured));
  console.log(`a token: ${foretold.toFixed(1)} ms foretold, ${measured.toFixed(1)} measured`);
  expect(foretold / measured).toBeGreaterThan(0.75);
  expect(foretold / measured).toBeLessThan(1.25);
  await page.close();
});

interface Timed {
  default(options: { module_or_path: Response }): Promise<unknown>;
  Loader: {
    open(options: object): Promise<{
      push(bytes: Uint8Array): void;
      readonly hasHeader: boolean;
      sketch(): Promise<{ pace: object | null } | undefined>;
      free(): void;
    }>;
  };
}

test('what a plan measures takes 100 ms at most', async ({ browser, server }) => {
  const page = await openPage(browser, server);
  const times = await page.evaluate(async (count) => {
    const url = '/pkg/engine-relaxed.js';
    const engine = (await import(url)) as Timed;
    await engine.default({ module_or_path: await fetch('/pkg/engine-relaxed_bg.wasm') });
    const bytes = new Uint8Array(await (await fetch('/model.gguf')).arrayBuffer());
    const times: number[] = [];
    for (let round = 0; round < count; round += 1) {
      const options = { backend: 'cpu', contextLength: 512, plans: true };
      const loader = await engine.Loader.open({ ...options, fileBytes: [bytes.byteLength] });
      for (let at = 0; !loader.hasHeader; at += 1 << 20) {
        loader.push(bytes.subarray(at, at + (1 << 20)));
      }
      const startMs = performance.now();
      const sketch = await loader.sketch();
      times.push(sketch?.pace == null ? Number.NaN : performance.now() - startMs);
      loader.free();
    }
    return times;
  }, ROUNDS);
  console.log(`measured in ${times.map((ms) => ms.toFixed(0)).join(', ')} ms`);
  // Whatever else the machine does makes some of them longer.
  expect(Math.min(...times)).toBeLessThanOrEqual(100);
  await page.close();
});

test('a plan of what is no model, or is not there, fails as a load does', async ({
  browser,
  server,
}) => {
  const page = await openPage(browser, server);
  const codes = await page.evaluate(() =>
    Promise.all(
      ['/page.html', '/none.gguf'].map((url) =>
        tokenbrook.plan(url).catch((error: { code: string }) => error.code),
      ),
    ),
  );
  expect(codes).toEqual(['invalid-gguf', 'model-not-found']);
  await page.close();
});
