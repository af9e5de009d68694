import { expect, test } from '@playwright/test';

import { load } from '../index.js';
import { FakeModule, coded } from './fake-engine.js';
import { FakeWorker, installWorker } from './fake-worker.js';

const WASM_URL = 'data:application/wasm,fake';

/** Longer than two pieces of what is read at once. */
const MODEL = Uint8Array.from({ length: (2 << 20) + 7 }, (_, i) => i % 251);

let fake: FakeModule;
let compat: FakeModule;
let uninstall: () => void;
let asked: string[];
const { fetch } = globalThis;

test.beforeEach(() => {
  fake = new FakeModule();
  compat = new FakeModule();
  uninstall = installWorker(fake.exports);
  FakeWorker.compat = compat.exports;
  asked = [];
  globalThis.fetch = async (input) => {
    asked.push(String(input));
    return new Response();
  };
});

test.afterEach(() => {
  uninstall();
  globalThis.fetch = fetch;
});

/** The engine says so once it has the first `bytes` bytes. */
function leaveToCompat(bytes: number): void {
  fake.headerBytes = Number.POSITIVE_INFINITY;
  const error = Object.assign(coded('unsupported-architecture', 'not here'), { compat: true });
  Object.defineProperty(fake, 'failPush', {
    get: () => (fake.received.length >= bytes ? error : undefined),
  });
}

test('a model of the other engine is read once, and whole, by that one', async () => {
  leaveToCompat(1 << 20);
  const model = await load(new Blob([MODEL]), { wasmUrl: WASM_URL, contextLength: 9 });
  expect(Buffer.compare(Buffer.from(compat.received), Buffer.from(MODEL))).toBe(0);
  expect(compat.options).toEqual({ fileBytes: [MODEL.length], contextLength: 9 });
  expect([fake.filesEnded, compat.filesEnded]).toEqual([0, 1]);
  expect(fake.received.length).toBe(1 << 20);
  expect(asked).toHaveLength(2);
  expect(asked[1]).toMatch(/compat_bg\.wasm$/);
  await model.dispose();
});

test('a model of the engine itself fetches nothing more', async () => {
  const model = await load(new Blob([MODEL]), { wasmUrl: WASM_URL });
  expect(asked).toEqual([WASM_URL]);
  expect(compat.options).toBeUndefined();
  await model.dispose();
});

test('what both refuse fails with the words of the second', async () => {
  leaveToCompat(0);
  compat.failPush = coded('invalid-gguf', 'a tensor is missing');
  const failure = load(new Blob([MODEL]), { wasmUrl: WASM_URL });
  await expect(failure).rejects.toMatchObject({
    code: 'invalid-gguf',
    message: 'a tensor is missing',
  });
});

test('an address of the engine tells where the other one is', async () => {
  leaveToCompat(0);
  const model = await load(new Blob([MODEL]), { wasmUrl: 'https://x.test/a/engine.wasm?v=1' });
  expect(asked[1]).toBe('https://x.test/a/compat_bg.wasm');
  await model.dispose();
});
