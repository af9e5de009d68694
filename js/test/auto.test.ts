import { expect, test } from '@playwright/test';

import { load } from '../index.js';
import { FakeModule, coded } from './fake-engine.js';
import { FakeWorker, installWorker } from './fake-worker.js';

const WASM_URL = 'data:application/wasm,fake';

/** Longer than two pieces of what is read at once. */
const MODEL = Uint8Array.from({ length: (2 << 20) + 7 }, (_, i) => i % 251);

let fake: FakeModule;
let uninstall: () => void;
const { fetch } = globalThis;

test.beforeEach(() => {
  fake = new FakeModule();
  uninstall = installWorker(fake.exports);
  globalThis.fetch = async () => new Response();
});

test.afterEach(() => {
  uninstall();
  globalThis.fetch = fetch;
});

test('a GPU that auto cannot use leaves the model, from its first byte on, to the CPU', async () => {
  fake.found = async () => 'norm Serial is wrong on this GPU';
  const phases: string[] = [];
  const onProgress = ({ phase }: { phase: string }): void => void phases.push(phase);
  const model = await load(new Blob([MODEL]), { wasmUrl: WASM_URL, onProgress });
  expect(fake.options).toMatchObject({
    backend: 'cpu',
    backendReason: 'norm Serial is wrong on this GPU',
  });
  expect(Buffer.compare(Buffer.from(fake.received), Buffer.from(MODEL))).toBe(0);
  expect(phases).toContain('compile');
  await model.dispose();
});

test('after a GPU, a CPU whose better kernels are wrong leaves the model to the plain ones', async () => {
  const relaxed = new FakeModule();
  relaxed.found = async () => 'norm Serial is wrong on this GPU';
  relaxed.differing = ['Q4_1'];
  FakeWorker.relaxed = relaxed.exports;
  const model = await load(new Blob([MODEL]), { wasmUrl: 'http://localhost/engine_bg.wasm' });
  expect(fake.options).toMatchObject({
    backend: 'cpu',
    backendReason: 'norm Serial is wrong on this GPU',
  });
  expect(Buffer.compare(Buffer.from(fake.received), Buffer.from(MODEL))).toBe(0);
  expect(relaxed.filesEnded).toBe(0);
  await model.dispose();
});

test('a GPU that auto can use keeps the model', async () => {
  fake.found = async () => undefined;
  const model = await load(new Blob([MODEL]), { wasmUrl: WASM_URL });
  expect(fake.options?.backend).toBeUndefined();
  expect(fake.received.length).toBe(MODEL.length);
  await model.dispose();
});

test('a GPU that was asked for by name fails with what it refuses, when all bytes are there', async () => {
  let refuse: (error: Error) => void = () => undefined;
  fake.found = () => new Promise((_, reject) => (refuse = reject));
  const settings = { wasmUrl: WASM_URL, backend: 'webgpu' } as const;
  const failure = load(new Blob([MODEL]), settings);
  await expect.poll(() => fake.filesEnded).toBe(1);
  refuse(coded('unsupported-environment', 'norm Serial is wrong on this GPU'));
  await expect(failure).rejects.toMatchObject({ code: 'unsupported-environment' });
});
