import { CSP, expect, loadFailure, openPage, test } from '../support/app.js';
import { tinyModel } from '../support/tiny-model.js';

/** Greedy ids of the tiny model from each way to load it: all have to be the same. */
const GREEDY = { maxTokens: 6, temperature: 0, ignoreEos: true };

test('the same model comes out of an address, a Blob, a File, and shards', async ({
  browser,
  server,
}) => {
  const page = await openPage(browser, server);
  await page.setContent('<input type="file">');
  await page.locator('input').setInputFiles({
    name: 'tiny.gguf',
    mimeType: 'application/octet-stream',
    buffer: Buffer.from(tinyModel()),
  });
  const all = await page.evaluate(async (options) => {
    const blob = async (path: string): Promise<Blob> => (await fetch(path)).blob();
    const [one, two] = ['/tiny-00001-of-00002.gguf', '/tiny-00002-of-00002.gguf'];
    const file = document.querySelector('input')?.files?.[0];
    if (file === undefined) throw new Error('no file was chosen');
    const sources = {
      relative: 'tiny.gguf',
      url: new URL('/tiny.gguf', location.href),
      chunked: '/tiny.gguf?chunked',
      blob: await blob('/tiny.gguf'),
      blobUrl: URL.createObjectURL(file),
      file,
      shards: [one, two],
      mixedShards: [await blob(one), two],
    };
    const ids: Record<string, number[]> = {};
    for (const [name, source] of Object.entries(sources)) {
      const loaded = await tokenbrook.load(source, { contextLength: 128 });
      ids[name] = [];
      for await (const token of loaded.generate('then', options)) ids[name].push(token.id);
      await loaded.dispose();
    }
    return ids;
  }, GREEDY);
  expect(all['relative']).toHaveLength(6);
  for (const [name, ids] of Object.entries(all)) {
    expect({ [name]: ids }).toEqual({ [name]: all['relative'] });
  }
  await page.close();
});

test('tells what it loaded', async ({ browser, server }) => {
  const page = await openPage(browser, server);
  const told = await page.evaluate(async () => {
    const model = await tokenbrook.load('/tiny.gguf', { precision: 'exact', backend: 'cpu' });
    // The KV cache grows with what is in it.
    await model.generate('then', { maxTokens: 1 }).getReader().read();
    const told = { info: { ...model.info }, memory: await model.memory() };
    await model.dispose();
    return told;
  });
  expect(told.info).toMatchObject({ architecture: 'llama', backend: 'cpu', precision: 'exact' });
  expect(told.info.contextLength).toBe(512);
  expect(told.info.parameters).toBeGreaterThan(10_000);
  expect(told.memory.wasmHeapBytes).toBeGreaterThan(told.memory.weightsBytes);
  expect(told.memory.weightsBytes).toBeGreaterThan(0);
  expect(told.memory.kvCacheBytes).toBeGreaterThan(0);
  await page.close();
});

test('progress counts bytes up to the whole, then tells the upload', async ({
  browser,
  server,
}) => {
  const page = await openPage(browser, server);
  const seen = await page.evaluate(async () => {
    const seen: import('../../../js/index.js').Progress[] = [];
    const onProgress = (progress: (typeof seen)[number]): void => void seen.push(progress);
    const model = await tokenbrook.load('/tiny.gguf', { onProgress });
    await model.dispose();
    return seen;
  });
  const bytes = tinyModel().byteLength;
  const whole = { receivedBytes: bytes, durableBytes: bytes, totalBytes: bytes };
  expect(seen.slice(-2)).toEqual([
    { phase: 'download', ...whole },
    { phase: 'upload', ...whole },
  ]);
  await page.close();
});

test('an abort during the download rejects with the reason, ends transfer and worker', async ({
  browser,
  server,
}) => {
  const page = await openPage(browser, server);
  const cut = server.cutByClient;
  const { reason, before, after } = await page.evaluate(async (options) => {
    const greedy = async (): Promise<number[]> => {
      const model = await tokenbrook.load('/tiny.gguf');
      const ids = [];
      for await (const token of model.generate('then', options)) ids.push(token.id);
      await model.dispose();
      return ids;
    };
    const before = await greedy();
    const controller = new AbortController();
    const loading = tokenbrook.load('/model.gguf?throttle=10000000', {
      signal: controller.signal,
      onProgress: ({ receivedBytes }) => {
        if (receivedBytes > 2_000_000) controller.abort('enough');
      },
    });
    const reason: unknown = await loading.catch((error: unknown) => error);
    return { reason, before, after: await greedy() };
  }, GREEDY);
  expect(after).toEqual(before);
  expect(reason).toBe('enough');
  await expect.poll(() => page.workers().length).toBe(0);
  await expect.poll(() => server.cutByClient).toBeGreaterThan(cut);
  expect(await page.evaluate(() => problems)).toEqual([]);
  await page.close();
});

test('a signal that was aborted before fetches nothing', async ({ browser, server }) => {
  const page = await openPage(browser, server);
  const before = server.requests.length;
  const reason = await page.evaluate(() =>
    tokenbrook.load('/tiny.gguf', { signal: AbortSignal.abort('no') }).then(
      () => 'loaded',
      (error: unknown) => error,
    ),
  );
  expect(reason).toBe('no');
  expect(server.requests.length).toBe(before);
  await page.close();
});

test(`runs under the policy "${CSP}"`, async ({ browser, server }) => {
  const page = await openPage(browser, server, '/csp/index.html');
  const ids = await page.evaluate(async (options) => {
    const model = await tokenbrook.load('/tiny.gguf');
    const ids = [];
    for await (const token of model.generate('then', options)) ids.push(token.id);
    await model.dispose();
    return ids;
  }, GREEDY);
  expect(ids).toHaveLength(6);
  // The policy is in force: a page under it may not evaluate text.
  const evaluated = await page.evaluate(() => {
    const script = document.createElement('script');
    script.textContent = 'globalThis.inline = true';
    document.head.append(script);
    return 'inline' in globalThis;
  });
  expect(evaluated).toBe(false);
  await page.close();
});

test('workerUrl and wasmUrl say where the two files are', async ({ browser, server }) => {
  const page = await openPage(browser, server);
  const before = server.requests.length;
  await page.evaluate(async () => {
    const options = { workerUrl: '/csp/pkg/worker.js', wasmUrl: 'csp/pkg/engine_bg.wasm' };
    await (await tokenbrook.load('/tiny.gguf', options)).dispose();
  });
  const requests = server.requests.slice(before);
  expect(requests).toContain('GET /csp/pkg/worker.js');
  // The variant for this browser is looked for beside the one that is named.
  expect(requests).toContain('GET /csp/pkg/engine-relaxed_bg.wasm');
  const elsewhere = /^GET \/pkg\/(worker\.js|.*\.wasm)$/;
  expect(requests.filter((request) => elsewhere.test(request))).toEqual([]);
  await page.close();
});

test('two models live side by side, each in its worker', async ({ browser, server }) => {
  const page = await openPage(browser, server);
  const [same, workers] = await page.evaluate(async (options) => {
    const models = [await tokenbrook.load('/tiny.gguf'), await tokenbrook.load('/tiny.gguf')];
    const ids = await Promise.all(
      models.map(async (model) => {
        const ids = [];
        for await (const token of model.generate('then', options)) ids.push(token.id);
        return ids.join();
      }),
    );
    return [ids[0] === ids[1], models.length] as const;
  }, GREEDY);
  expect(same).toBe(true);
  // Who read the second file ahead is gone a moment later.
  await expect.poll(() => page.workers().length).toBe(workers);
  await page.close();
});

test('a tokenizer.json from an address or a Blob replaces the vocabulary of the file', async ({
  browser,
  server,
}) => {
  const page = await openPage(browser, server);
  const ids = await page.evaluate(async () => {
    const address = '/tiny-tokenizer.json';
    const blob = await (await fetch(address)).blob();
    const all: Record<string, number[]> = {};
    for (const [name, tokenizer] of Object.entries({ none: undefined, address, blob })) {
      const loaded = await tokenbrook.load('/tiny.gguf', { tokenizer });
      all[name] = [...(await loaded.tokenize('a the b<|im_end|>', { special: true }))];
      all[`${name}, back`] = [...(await loaded.detokenize(all[name]))].map((c) => c.charCodeAt(0));
      await loaded.dispose();
    }
    return all;
  });
  const { none = [], address = [] } = ids;
  expect(address).toEqual([none.at(-2), ...none.slice(1, -2), none[0], none.at(-1)]);
  expect(address).not.toEqual(none);
  expect(ids['blob']).toEqual(address);
  expect(ids['address, back']).toEqual(ids['none, back']);
  await page.close();
});

test('a tokenizer.json that is not there, or not that of the model, is refused', async ({
  browser,
  server,
}) => {
  const page = await openPage(browser, server);
  const refused = (tokenizer: unknown) => loadFailure(page, '/tiny.gguf', { tokenizer });
  const missing = await refused('/none.json');
  expect(missing).toMatchObject({ code: 'download-failed', status: 404 });
  expect(missing.message).toContain('no tokenizer at');
  const other = await refused('/page.html');
  expect(other.code).toBe('invalid-option');
  expect(other.message).toContain('"tokenizer"');
  expect((await refused(7)).code).toBe('invalid-option');
  expect((await refused('ftp://x/y')).message).toContain('`tokenizer`');
  await page.close();
});
