import type { Page } from '@playwright/test';

import { expect, loadFailure, openPage, test } from '../support/app.js';
import { IQ2_XXS } from '../support/gguf.js';
import { tinyModel } from '../support/tiny-model.js';
import type { TinyOptions } from '../support/tiny-model.js';

let page: Page;

test.beforeAll(async ({ browser, server }) => {
  page = await openPage(browser, server);
  const files: Record<string, TinyOptions> = {
    architecture: { metadata: { 'general.architecture': { text: 'mystery' } } },
    quantization: {
      edit: (tensors) => {
        const tensor = tensors.find(({ name }) => name.endsWith('ffn_up.weight'));
        if (tensor === undefined) throw new Error('the tiny model has no such tensor');
        // 66 bytes hold 256 weights of this type.
        tensor.type = IQ2_XXS;
        tensor.shape = [256, 12];
        tensor.data = new Uint8Array(66 * 12);
      },
    },
    zero: { metadata: { 'llama.embedding_length': { u32: 0 } } },
  };
  for (const [name, options] of Object.entries(files)) {
    server.routes.set(`/bad-${name}.gguf`, tinyModel(options));
  }
  const tiny = tinyModel();
  server.routes.set('/bad-short.gguf', tiny.subarray(0, tiny.length - 1000));
  server.routes.set('/bad-header.gguf', tiny.subarray(0, 500));
  server.routes.set('/bad-empty.gguf', new Uint8Array(0));
});

test.afterAll(() => page.close());

test.afterEach(async () => {
  // What failed has left no worker and no unhandled rejection behind.
  await expect.poll(() => page.workers().length).toBe(0);
  expect(await page.evaluate(() => problems)).toEqual([]);
});

test('model-not-found: the server knows no such file', async ({ server }) => {
  expect(await loadFailure(page, '/none.gguf?secret')).toMatchObject({
    code: 'model-not-found',
    status: 404,
    url: `${server.url}/none.gguf`,
  });
});

test('model-not-found: the second shard is missing', async () => {
  const shards = ['/tiny-00001-of-00002.gguf', '/none.gguf'];
  expect(await loadFailure(page, shards)).toMatchObject({ code: 'model-not-found' });
});

test('download-failed: the server refuses', async ({ server }) => {
  for (const status of [401, 403, 429, 500, 503]) {
    const url = `${server.url}/tiny.gguf`;
    const failure = await loadFailure(page, `/tiny.gguf?status=${status}`);
    expect(failure).toMatchObject({ code: 'download-failed', status, url });
  }
});

test('download-failed: there is no server', async () => {
  const failure = await loadFailure(page, 'http://127.0.0.1:9/m.gguf');
  expect(failure).toMatchObject({ code: 'download-failed', url: 'http://127.0.0.1:9/m.gguf' });
});

test('download-failed: the transfer breaks off', async () => {
  const failure = await loadFailure(page, '/tiny.gguf?truncate=30000');
  expect(failure.code).toBe('download-failed');
  expect(failure.message).toContain(`of ${tinyModel().length} bytes`);
});

test('download-failed: the engine is not where wasmUrl says', async ({ server }) => {
  for (const wasmUrl of ['/none.wasm', '/page.html']) {
    const failure = await loadFailure(page, '/tiny.gguf', { wasmUrl });
    expect(failure).toMatchObject({ code: 'download-failed', url: server.url + wasmUrl });
  }
});

const INVALID: [string, string][] = [
  ['a page instead of a model', '/page.html'],
  ['an empty file', '/bad-empty.gguf'],
  ['a file cut in its header', '/bad-header.gguf'],
  ['a file cut in its tensors', '/bad-short.gguf'],
  ['a model of width zero', '/bad-zero.gguf'],
  ['a file cut in its header, of unknown length', '/bad-header.gguf?chunked'],
  ['a file cut in its tensors, of unknown length', '/bad-short.gguf?chunked'],
];

for (const [what, path] of INVALID) {
  test(`invalid-gguf: ${what}`, async () => {
    const failure = await loadFailure(page, path);
    expect(failure).toMatchObject({ code: 'invalid-gguf' });
    expect(failure.message.length).toBeGreaterThan(20);
  });
}

test('invalid-gguf: a first shard without the second', async () => {
  const failure = await loadFailure(page, ['/tiny-00001-of-00002.gguf']);
  expect(failure).toMatchObject({ code: 'invalid-gguf' });
});

test('unsupported-architecture names it', async () => {
  const failure = await loadFailure(page, '/bad-architecture.gguf');
  expect(failure.code).toBe('unsupported-architecture');
  expect(failure.message).toContain('mystery');
});

test('unsupported-quantization names it', async () => {
  const failure = await loadFailure(page, '/bad-quantization.gguf');
  expect(failure.code).toBe('unsupported-quantization');
  expect(failure.message).toContain('IQ2_XXS');
});

test('out-of-memory: the address space ends before the weights do', async () => {
  const workerUrl = `/workers/starving.js?wasm=simd128&left=${48 << 20}`;
  const failure = await loadFailure(page, '/model.gguf', { workerUrl });
  expect(failure).toMatchObject({ code: 'out-of-memory' });
});

test('invalid-option: an unknown name, an unknown value, no source', async () => {
  const cases: [string, string | string[], Record<string, unknown>][] = [
    ['sha256', '/tiny.gguf', { sha256: 'x' }],
    ['precision', '/tiny.gguf', { precision: 'f16' }],
    ['contextLength', '/tiny.gguf', { contextLength: -1 }],
    ['source', [], {}],
    ['source', 'gopher://x/y', {}],
  ];
  for (const [name, source, options] of cases) {
    const failure = await loadFailure(page, source, options);
    expect(failure).toMatchObject({ code: 'invalid-option' });
    expect(failure.message).toContain(`\`${name}\``);
  }
});

test('unsupported-environment: no workers, no SIMD', async () => {
  const codes = await page.evaluate(async () => {
    const codes: string[] = [];
    const attempt = (): Promise<void> =>
      tokenbrook.load('/tiny.gguf').then(
        () => void codes.push('loaded'),
        (error: { code: string }) => void codes.push(error.code),
      );
    const { Worker } = globalThis;
    Reflect.deleteProperty(globalThis, 'Worker');
    await attempt();
    globalThis.Worker = Worker;
    const { validate } = WebAssembly;
    WebAssembly.validate = () => false;
    await attempt();
    WebAssembly.validate = validate;
    return codes;
  });
  expect(codes).toEqual(['unsupported-environment', 'unsupported-environment']);
});

test('internal: the worker cannot be fetched', async () => {
  const failure = await loadFailure(page, '/tiny.gguf', { workerUrl: '/none.js' });
  expect(failure.code).toBe('internal');
  expect(failure.message).toContain('workerUrl');
});

test('context-full, invalid-option and disposed of a loaded model', async () => {
  const seen = await page.evaluate(async () => {
    const model = await tokenbrook.load('/tiny.gguf', { contextLength: 32 });
    const outcome = async (run: () => Promise<unknown>): Promise<string> => {
      try {
        await run();
        return 'no failure';
      } catch (error) {
        return error instanceof tokenbrook.TokenbrookError ? error.code : String(error);
      }
    };
    const read = (input: string, options: object) => async () => {
      for await (const token of model.generate(input, options)) void token;
    };
    const seen: Record<string, string> = {
      tooLong: await outcome(read('a b c d e f g h i j k l m n o p q r s t', {})),
      scoreTooLong: await outcome(() => model.score('word '.repeat(40))),
      unknownName: await outcome(read('a', { topk: 3 })),
      lookahead: await outcome(read('a', { lookahead: -1 })),
      scoreId: await outcome(() => model.score([1, 1e9])),
    };
    const ranges: Record<string, unknown> = {
      maxTokens: 0,
      temperature: -1,
      topK: -1,
      topP: 1.5,
      minP: -0.1,
      seed: -1,
      stop: [''],
    };
    for (const [name, value] of Object.entries(ranges)) {
      seen[name] = await outcome(read('a', { [name]: value }));
    }
    // The model is none the worse for it.
    seen['after'] = await outcome(read('a', { maxTokens: 2 }));
    await model.dispose();
    seen['disposed'] = await outcome(() => model.memory());
    seen['disposedStream'] = await outcome(read('a', {}));
    return seen;
  });
  expect(seen).toEqual({
    tooLong: 'context-full',
    scoreTooLong: 'context-full',
    unknownName: 'invalid-option',
    lookahead: 'invalid-option',
    scoreId: 'invalid-option',
    maxTokens: 'invalid-option',
    temperature: 'invalid-option',
    topK: 'invalid-option',
    topP: 'invalid-option',
    minP: 'invalid-option',
    seed: 'invalid-option',
    stop: 'invalid-option',
    after: 'no failure',
    disposed: 'disposed',
    disposedStream: 'disposed',
  });
});
