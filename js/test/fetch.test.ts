import { expect, test } from '@playwright/test';

import { load } from '../index.js';
import type { Model } from '../index.js';
import { FakeModule } from './fake-engine.js';
import type { FakeRequest } from './fake-engine.js';
import { FakeWorker, installWorker } from './fake-worker.js';
import { stampsOf } from '../stamps.js';

const URL_OF_CHAT = 'http://local/v1/chat/completions?x=1';

let fake: FakeModule;
let model: Model;
let uninstall: () => void;

test.beforeEach(async () => {
  fake = new FakeModule();
  uninstall = installWorker(fake.exports);
  model = await load(new Blob(['x']), { wasmUrl: 'data:application/wasm,fake' });
});

test.afterEach(() => uninstall());

const later = (ms: number): Promise<void> => new Promise((resume) => setTimeout(resume, ms));

const rejection = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(() => undefined, (error: unknown) => error);

function post(body: FakeRequest, init: RequestInit = {}): Promise<Response> {
  // As clients hold it: a function without its object.
  const { fetch } = model;
  return fetch(URL_OF_CHAT, { method: 'post', body: JSON.stringify(body), ...init });
}

async function bodyOf(response: Response): Promise<ReadableStreamDefaultReader<Uint8Array>> {
  if (response.body === null) throw new Error('the response has no body');
  return response.body.getReader();
}

async function read(reader: ReadableStreamDefaultReader<Uint8Array>): Promise<string | undefined> {
  const { value } = await reader.read();
  return value && new TextDecoder().decode(value);
}

test('a request that needs no generation is answered at once', async () => {
  const response = await model.fetch(new Request('http://local/v1/models'));
  expect(response.status).toBe(200);
  expect(response.headers.get('content-type')).toBe('text/plain');
  expect(await response.text()).toBe('nothing asked');
  expect(fake.engine.log).toEqual(['exchange GET /v1/models']);
  expect(fake.engine.exchanges[0]?.freed).toBe(1);
});

test('a whole answer holds all choices in order and needs no reader', async () => {
  const response = await post({ maxTokens: 11, choices: 2 });
  const ends = fake.engine.log.filter((line) => line.startsWith('end'));
  expect(ends).toEqual(['end 1 null', 'end 2 null']);
  expect(fake.engine.log[0]).toBe('exchange POST /v1/chat/completions');
  expect(await response.text()).toBe(
    'begin0 t0 t2 t4 t6 t8 t10 end11 begin1 t0 t2 t4 t6 t8 t10 end11 ',
  );
  expect(fake.engine.exchanges[0]?.freed).toBe(1);
});

test('a streamed answer arrives token by token, passing over those without bytes', async () => {
  const reader = await bodyOf(await post({ stream: true, maxTokens: 4, choices: 2 }));
  const parts: (string | undefined)[] = [];
  do parts.push(await read(reader));
  while (parts.at(-1) !== undefined);
  const first = ['begin0 ', 't0 ', 't2 ', 'end4 '];
  expect(parts).toEqual([...first, 'begin1 ', 't0 ', 't2 ', 'end4 ', undefined]);
  expect(fake.engine.exchanges[0]?.freed).toBe(1);
});

test('nothing is computed for a body that is not read, then at most lookahead + 1', async () => {
  const reader = await bodyOf(await post({ stream: true }));
  await later(40);
  expect(fake.engine.stepsOf(1)).toBe(0);
  expect(await read(reader)).toBe('begin0 ');
  expect(await read(reader)).toBe('t0 ');
  // One step of prefill comes before the tokens.
  await expect.poll(() => fake.engine.stepsOf(1)).toBe(1 + 1 + 8);
  await later(60);
  expect(fake.engine.stepsOf(1)).toBe(1 + 1 + 8);
  await reader.cancel();
});

test('a long run of tokens without bytes is passed over', async () => {
  const response = await post({ stream: true, maxTokens: 30, every: 25 });
  expect(await response.text()).toBe('begin0 t0 t25 end30 ');
});

test('the second answer of a stream is made no further ahead than the first', async () => {
  const reader = await bodyOf(await post({ stream: true, maxTokens: 12, choices: 2, every: 1 }));
  const upTo = async (part: string): Promise<void> => {
    while ((await read(reader)) !== part);
  };
  await upTo('begin1 ');
  await upTo('t0 ');
  await expect.poll(() => fake.engine.stepsOf(2)).toBe(1 + 1 + 8);
  await later(60);
  expect(fake.engine.stepsOf(2)).toBe(1 + 1 + 8);
  await reader.cancel();
});

test('cancelling the body ends the generation before it resolves', async () => {
  fake.engine.stepMs = 2;
  const reader = await bodyOf(await post({ stream: true }));
  await read(reader);
  await read(reader);
  await reader.cancel();
  const made = fake.engine.log.length;
  expect(fake.engine.log.at(-1)).toBe('end 1 cancelled');
  await later(40);
  expect(fake.engine.log.length).toBe(made);
  expect(fake.engine.exchanges[0]?.freed).toBe(1);
});

test('an abort errors the body with its reason and ends the generation', async () => {
  const controller = new AbortController();
  const reader = await bodyOf(await post({ stream: true }, { signal: controller.signal }));
  await read(reader);
  controller.abort('enough');
  expect(await rejection(reader.read())).toBe('enough');
  await model.memory();
  expect(fake.engine.log.at(-1)).toBe('end 1 cancelled');
});

test('an abort before the response rejects with its reason and ends the generation', async () => {
  fake.engine.stepMs = 5;
  const controller = new AbortController();
  const response = rejection(post({}, { signal: controller.signal }));
  await expect.poll(() => fake.engine.stepsOf(1)).toBeGreaterThan(2);
  controller.abort('enough');
  expect(await response).toBe('enough');
  await model.memory();
  expect(fake.engine.log.at(-1)).toBe('end 1 cancelled');
  const late = post({}, { signal: AbortSignal.abort('before') });
  expect(await rejection(late)).toBe('before');
  expect(fake.engine.exchanges).toHaveLength(1);
});

test('a refusal of the engine is a response with a status', async () => {
  for (const stream of [false, true]) {
    const response = await post({ stream, input: 'too long' });
    expect(response.status).toBe(400);
    expect(await response.text()).toBe('failed context-full');
  }
});

test('a failure after the first byte is told in the stream', async () => {
  fake.engine.beforeStep = (step) => {
    if (step === 4) throw Object.assign(new Error('lost'), { code: 'out-of-memory' });
  };
  const response = await post({ stream: true });
  expect(response.status).toBe(200);
  expect(await response.text()).toBe('begin0 t0 failed out-of-memory');
  expect((await post({ maxTokens: 1 })).status).toBe(200);
});

test('a crash rejects what waits and errors the bodies after what was made', async () => {
  fake.engine.beforeStep = (step) => {
    if (step === 3) throw new WebAssembly.RuntimeError('unreachable');
  };
  const reader = await bodyOf(await post({ stream: true }));
  const waiting = rejection(post({}));
  expect(await read(reader)).toBe('begin0 ');
  expect(await read(reader)).toBe('t0 ');
  expect(await rejection(reader.read())).toMatchObject({ code: 'internal' });
  expect(await waiting).toMatchObject({ code: 'internal' });
  expect(await rejection(post({}))).toMatchObject({ code: 'internal' });
});

test('dispose ends responses under way and refuses later requests', async () => {
  const reader = await bodyOf(await post({ stream: true }));
  const pending = rejection(reader.read().then(() => reader.read()).then(() => reader.read()));
  await model.dispose();
  expect(await pending).toMatchObject({ code: 'disposed' });
  expect(await rejection(post({}))).toMatchObject({ code: 'disposed' });
  expect(FakeWorker.started[0]?.terminated).toBe(true);
});

test('a generation that waits for its turn gets it between streamed answers', async () => {
  const first = await bodyOf(await post({ stream: true, maxTokens: 40 }));
  await read(first);
  const whole = await post({ maxTokens: 2 });
  expect(await whole.text()).toBe('begin0 t0 end2 ');
  const rest: (string | undefined)[] = [];
  do rest.push(await read(first));
  while (rest.at(-1) !== undefined);
  expect(rest).toHaveLength(22);
});

test('what fetch refuses is refused in the same way', async () => {
  const wrong = model.fetch('http://local/v1/models', { method: 'GET', body: 'x' });
  expect(await rejection(wrong)).toBeInstanceOf(TypeError);
});

test('a response tells when its tokens were made, whole or in parts', async () => {
  const unix = (): number => performance.timeOrigin + performance.now();
  for (const stream of [false, true]) {
    const before = unix();
    const response = await post({ maxTokens: 6, stream });
    await response.text();
    const { firstTokenMs = 0, endMs = 0 } = stampsOf(response) ?? {};
    expect(firstTokenMs).toBeGreaterThanOrEqual(before);
    expect(endMs).toBeGreaterThan(firstTokenMs);
    expect(endMs).toBeLessThanOrEqual(unix());
  }
  const nothing = await model.fetch(new Request('http://local/v1/models'));
  expect(stampsOf(nothing)).toEqual({});
});
