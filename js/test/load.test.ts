import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { IncomingMessage, Server, ServerResponse } from 'node:http';

import { expect, test } from '@playwright/test';

import { load, plan } from '../index.js';
import type { LoadOptions, Model, Progress, Source } from '../index.js';
import { FakeModule, coded } from './fake-engine.js';
import { FakeWorker, installWorker } from './fake-worker.js';

const WASM_URL = 'data:application/wasm,fake';

let fake: FakeModule;
let uninstall: () => void;
let server: Server;
let base: string;
let answer: (request: IncomingMessage, response: ServerResponse) => void;

test.beforeAll(async () => {
  server = createServer((request, response) => answer(request, response));
  await new Promise<void>((resume) => server.listen(0, '127.0.0.1', resume));
  base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});

test.afterAll(() => {
  server.closeAllConnections();
  server.close();
});

test.beforeEach(() => {
  fake = new FakeModule();
  uninstall = installWorker(fake.exports);
});

test.afterEach(() => uninstall());

const loadFake = (source: Source, options: LoadOptions = {}): Promise<Model> =>
  load(source, { wasmUrl: WASM_URL, ...options });

const bytes = (count: number): Uint8Array<ArrayBuffer> =>
  Uint8Array.from({ length: count }, (_, i) => i % 251);

const blob = (): Blob => new Blob([bytes(10)]);

const rejection = async (promise: Promise<unknown>): Promise<unknown> => {
  const value = await promise.then(() => undefined, (error: unknown) => error);
  expect(value).toBeDefined();
  return value;
};

test('loads a blob byte for byte and tells its length', async () => {
  const model = await loadFake(new Blob([bytes(100_003)]), { contextLength: 7, backend: 'cpu' });
  expect(fake.received).toEqual(Array.from(bytes(100_003)));
  expect(fake.options).toEqual({ fileBytes: [100_003], contextLength: 7, backend: 'cpu' });
  expect(fake.filesEnded).toBe(1);
  expect(model.info.name).toBe('fake');
  expect(await model.memory()).toMatchObject({ kvCacheBytes: 2 });
});

test('loads shards in order, whatever each is', async () => {
  answer = (request, response) => {
    response.writeHead(200, { 'content-length': 3 });
    response.end(request.method === 'HEAD' ? undefined : Buffer.from([7, 8, 9]));
  };
  const url = `${base}/b.gguf`;
  await loadFake([new Blob([bytes(2)]), url, new URL(url), 'data:,AB']);
  expect(fake.received).toEqual([0, 1, 7, 8, 9, 7, 8, 9, 65, 66]);
  expect(fake.options?.fileBytes.slice(0, 3)).toEqual([2, 3, 3]);
  expect(fake.filesEnded).toBe(4);
});

test('reads the tokenizer.json, and tells its server no secrets of another', async () => {
  const seen: [string | undefined, string | undefined][] = [];
  answer = (request, response) => {
    seen.push([request.url, request.headers.authorization]);
    response.end(bytes(3_000_001));
  };
  const headers = { authorization: 'Bearer hush' };
  const model = `${base}/m.gguf`;
  await loadFake(model, { headers, tokenizer: `${base}/t.json` });
  expect(Buffer.compare(fake.tokenizer ?? Buffer.of(), bytes(3_000_001))).toBe(0);
  expect(seen.map(([, secret]) => secret)).toEqual(['Bearer hush', 'Bearer hush']);
  seen.length = 0;
  const other = base.replace('127.0.0.1', 'localhost');
  await loadFake(model, { headers, tokenizer: new URL(`${other}/t.json`) });
  expect(new Map(seen)).toEqual(
    new Map([
      ['/m.gguf', 'Bearer hush'],
      ['/t.json', undefined],
    ]),
  );
  await loadFake(blob(), { tokenizer: new Blob([bytes(5)]) });
  expect(fake.tokenizer).toEqual(bytes(5));
  await loadFake(blob());
  expect(fake.tokenizer).toBeUndefined();
});

test('reports progress up to the last byte, then the upload', async () => {
  answer = (_request, response) => {
    response.writeHead(200, { 'content-length': 300_000 });
    response.end(bytes(300_000));
  };
  const seen: Progress[] = [];
  await loadFake(`${base}/m.gguf`, { onProgress: (progress) => seen.push(progress) });
  const whole = { receivedBytes: 300_000, durableBytes: 0, totalBytes: 300_000 };
  expect(seen.at(-2)).toEqual({ phase: 'download', ...whole });
  expect(seen.at(-1)).toEqual({ phase: 'upload', ...whole });
  expect(seen[0]?.receivedBytes).toBeLessThan(300_000);
});

test('sends the headers it is given, and none of them is in an error', async () => {
  let seen: string | undefined;
  answer = (request, response) => {
    seen = request.headers.authorization;
    response.writeHead(403).end();
  };
  const headers = { authorization: 'Bearer hush' };
  const error = await rejection(loadFake(`${base}/m.gguf?token=hush#hush`, { headers }));
  expect(seen).toBe('Bearer hush');
  expect(error).toMatchObject({ code: 'download-failed', status: 403, url: `${base}/m.gguf` });
  expect(JSON.stringify(error) + String(error)).not.toContain('hush');
});

test('rejects with model-not-found when the server knows no such file', async () => {
  for (const status of [404, 410]) {
    answer = (_request, response) => response.writeHead(status).end();
    const error = await rejection(loadFake(`${base}/m.gguf`));
    expect(error).toMatchObject({ code: 'model-not-found', status, name: 'TokenbrookError' });
  }
  expect(FakeWorker.started.every((worker) => worker.terminated)).toBe(true);
});

test('rejects with download-failed when nobody answers', async () => {
  const error = await rejection(loadFake('http://127.0.0.1:9/m.gguf'));
  expect(error).toMatchObject({ code: 'download-failed', url: 'http://127.0.0.1:9/m.gguf' });
});

test('rejects with download-failed when the transfer breaks off', async () => {
  answer = (_request, response) => {
    response.writeHead(200, { 'content-length': 1000 });
    response.write(bytes(600), () => response.destroy());
  };
  const error = await rejection(loadFake(`${base}/m.gguf`));
  expect(error).toMatchObject({ code: 'download-failed' });
  expect(String(error)).toContain('600 of 1000 bytes');
});

test('does not trust the length of a compressed body', async () => {
  answer = (_request, response) => {
    response.writeHead(200, { 'content-length': 3, 'content-encoding': 'unknown' });
    response.end(bytes(3));
  };
  await loadFake(`${base}/m.gguf`);
  expect(fake.options?.fileBytes).toEqual([null]);
});

test("passes the engine's verdict on the bytes on", async () => {
  fake.failPush = coded('invalid-gguf', 'magic at byte 0: expected GGUF.');
  const error = await rejection(loadFake(blob()));
  expect(error).toMatchObject({ code: 'invalid-gguf', message: 'magic at byte 0: expected GGUF.' });
  expect(FakeWorker.started[0]?.terminated).toBe(true);
});

test('rejects with internal when the engine traps while loading, and loads again', async () => {
  fake.failPush = new WebAssembly.RuntimeError('unreachable');
  const error = await rejection(loadFake(blob()));
  expect(error).toMatchObject({ code: 'internal' });
  expect((error as Error).cause).toMatchObject({ name: 'RuntimeError' });
  fake.failPush = undefined;
  expect((await loadFake(blob())).info.name).toBe('fake');
});

test('rejects with internal when the worker does not start', async () => {
  const loading = loadFake(blob());
  await Promise.resolve();
  FakeWorker.started[0]?.fail('');
  const error = await rejection(loading);
  expect(error).toMatchObject({ code: 'internal' });
  expect(String(error)).toContain('workerUrl');
});

test('an abort during the download rejects with the reason and ends the worker', async () => {
  answer = (_request, response) => {
    response.writeHead(200, { 'content-length': 1000 });
    response.write(bytes(10));
  };
  const controller = new AbortController();
  const loading = loadFake(`${base}/m.gguf`, {
    signal: controller.signal,
    onProgress: () => controller.abort('enough'),
  });
  expect(await rejection(loading)).toBe('enough');
  expect(FakeWorker.started[0]?.terminated).toBe(true);
});

test('a signal that was aborted before starts no worker', async () => {
  expect(await rejection(loadFake(blob(), { signal: AbortSignal.abort('no') }))).toBe('no');
  expect(FakeWorker.started).toEqual([]);
});

const SKETCH = {
  architecture: 'llama',
  name: 'fake',
  parameters: 7,
  weightsBytes: 1000,
  kvCacheBytes: 4000,
  maxContext: 9000,
  contextLength: 70,
  longestContext: 9000,
  shortage: null,
  backend: 'cpu',
  pace: { decodeMs: 20, prefillMs: 4 },
  gpu: null,
} as const;

test('a plan reads no further than the header, and refuses nothing', async () => {
  fake.sketch = SKETCH;
  let sent = 0;
  answer = (request, response) => {
    const [, start = '0', end = '0'] = /(\d+)-(\d+)/.exec(request.headers.range ?? '') ?? [];
    const body = bytes(3_000_000).subarray(Number(start), Number(end) + 1);
    sent += body.byteLength;
    response.writeHead(206, { 'content-range': `bytes ${start}-${end}/3000000`, etag: '"1"' });
    response.end(body);
  };
  fake.headerBytes = 1_500_000;
  const planned = await plan(`${base}/m.gguf`, { wasmUrl: WASM_URL });
  expect(sent).toBe(2 << 20);
  expect(planned).toMatchObject({ fetchBytes: 3_000_000, cachedBytes: 0, weightsBytes: 1000 });
  expect(planned.headerBytes).toBeGreaterThanOrEqual(1_500_000);
  expect(planned).toMatchObject({ kvCacheBytes: 4000, maxContextLength: 9000, fits: true });
  expect(fake.options).toMatchObject({ plans: true, fileBytes: [null] });
  expect(planned.predicted).toEqual({ prefillTokensPerSecond: 250, decodeTokensPerSecond: 50 });
  expect(FakeWorker.started[0]?.terminated).toBe(true);
});

test('a plan of what does not fit says why, and how much of a context would', async () => {
  const shortage = { what: 'weights and context together', need: 5e9, have: 4e9 };
  fake.sketch = { ...SKETCH, shortage, longestContext: 512 };
  const planned = await plan(blob(), { wasmUrl: WASM_URL });
  expect(planned).toMatchObject({ fits: false, maxContextLength: 512 });
  expect(planned.why).toBe(
    'weights and context together takes 5000000000 bytes, and there are 4000000000 at most',
  );
  fake.sketch = undefined;
  expect(await rejection(plan(blob(), { wasmUrl: WASM_URL }))).toMatchObject({
    code: 'unsupported-architecture',
  });
});

test('a plan for whatever is faster is of the processor where the GPU is refused', async () => {
  fake.sketch = { ...SKETCH, backend: 'webgpu' };
  const backends: unknown[] = [];
  const planFake = async (): Promise<unknown> => {
    await plan(blob(), { wasmUrl: WASM_URL });
    backends.push(fake.options?.backend);
    return backends.at(-1);
  };
  fake.found = async () => undefined;
  expect(await planFake()).toBeUndefined();
  fake.found = async () => 'it is slower';
  expect(await planFake()).toBe('cpu');
  fake.found = async () => undefined;
  fake.sketch = { ...SKETCH, backend: 'webgpu', shortage: { what: 'a layer', need: 2, have: 1 } };
  expect(await planFake()).toBe('cpu');
  const named = await plan(blob(), { wasmUrl: WASM_URL, backend: 'webgpu' });
  expect(named.fits).toBe(false);
});

test('what the engine has no room for is told with the numbers', async () => {
  const short = coded('out-of-memory', 'There is no room.');
  fake.failPush = Object.assign(short, { need: 5e9, have: 4e9, onGpu: false });
  const error = await rejection(loadFake(blob()));
  expect(error).toMatchObject({ code: 'out-of-memory', need: 5e9, have: 4e9 });
});

test('where a GPU has no room, the processor may, unless the GPU was asked for', async () => {
  const short = Object.assign(coded('out-of-memory', 'No room.'), { onGpu: true });
  fake.failPushOf = (options) => (options.backend === 'cpu' ? undefined : short);
  const error = await rejection(loadFake(blob(), { backend: 'webgpu' }));
  expect(error).toMatchObject({ code: 'out-of-memory' });
  const model = await loadFake(blob());
  expect(fake.options).toMatchObject({ backend: 'cpu', backendReason: 'No room.' });
  expect(fake.received).toEqual(Array.from(bytes(10)));
  await model.dispose();
});

test('rejects with unsupported-environment where there are no workers', async () => {
  uninstall();
  expect(await rejection(loadFake(blob()))).toMatchObject({ code: 'unsupported-environment' });
});

const INVALID: [string, unknown, unknown][] = [
  ['source', [], {}],
  ['source', 7, {}],
  ['source', [blob(), null], {}],
  ['source', 'no scheme', {}],
  ['source', 'ftp://host/m.gguf', {}],
  ['kvCache', blob(), { kvCache: 'f8' }],
  ['backend', blob(), { backend: 'gpu' }],
  ['precision', blob(), { precision: 'half' }],
  ['contextLength', blob(), { contextLength: 0 }],
  ['contextLength', blob(), { contextLength: 1.5 }],
  ['tokenizer', blob(), { tokenizer: 7 as never }],
  ['tokenizer', blob(), { tokenizer: 'ftp://x/y' }],
  ['headers', blob(), { headers: { 'bad name': 'x' } }],
  ['onProgress', blob(), { onProgress: 'log' }],
  ['signal', blob(), { signal: {} }],
  ['workerUrl', blob(), { workerUrl: 3 }],
  ['wasmUrl', blob(), { wasmUrl: 3 }],
];

for (const [name, source, options] of INVALID) {
  const given = source instanceof Blob ? JSON.stringify(options) : JSON.stringify(source);
  test(`rejects with invalid-option and names ${name} when given ${given}`, async () => {
    const error = await rejection(loadFake(source as Source, options as LoadOptions));
    expect(error).toMatchObject({ code: 'invalid-option' });
    expect(String(error)).toContain(`\`${name}\``);
    expect(FakeWorker.started).toEqual([]);
  });
}

test('a relaxed engine that computes other bits than plain code gives way', async () => {
  answer = (_request, response) => void response.end();
  const relaxed = new FakeModule();
  for (const differing of [[], ['Q4_1']]) {
    FakeWorker.relaxed = relaxed.exports;
    relaxed.differing = differing;
    const model = await load(blob(), { wasmUrl: `${base}/engine_bg.wasm` });
    const isRight = differing.length === 0;
    expect((isRight ? relaxed : fake).received).toHaveLength(10);
    expect((isRight ? relaxed : fake).filesEnded).toBe(1);
    expect((isRight ? fake : relaxed).filesEnded).toBe(0);
    relaxed.filesEnded = 0;
    await model.dispose();
  }
});
