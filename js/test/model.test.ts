import { expect, test } from '@playwright/test';

import { load } from '../index.js';
import type { ChatMessage, GenerateOptions, Model, TokenStream } from '../index.js';
import { FakeModule } from './fake-engine.js';
import { FakeWorker, installWorker } from './fake-worker.js';

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

async function texts(stream: TokenStream): Promise<string> {
  let text = '';
  for await (const token of stream) text += token.text;
  return text;
}

test('streams what the engine makes, then tells stats and prompt', async () => {
  const stream = model.generate('hello', { maxTokens: 12 });
  expect(await texts(stream)).toBe('t0t1t2t3t4t5t6t7t8t9t10t11');
  expect(await stream.promptIds).toEqual([7, 8, 9]);
  expect(await stream.stats).toMatchObject({ finishReason: 'length', completionTokens: 12 });
});

test('a delivery of the wrong kind is refused, and a good one reaches the reader', async () => {
  for (const [delivery, name] of [
    [{ batchTokens: 0 }, 'batchTokens'],
    [{ batchTokens: 1.5 }, 'batchTokens'],
    [{ batchMs: -1 }, 'batchMs'],
    [{ batchMs: Number.POSITIVE_INFINITY }, 'batchMs'],
    [{ holdBackTokens: -1 }, 'holdBackTokens'],
    [{ check: 'release' as never }, 'check'],
    [{ whole: 1 as never }, 'whole'],
    [{ holdBack: 3 } as never, 'holdBack'],
  ] as const) {
    const refused = await rejection(texts(model.generate('hello', { delivery })));
    expect(refused).toMatchObject({ code: 'invalid-option' });
    expect(String(refused)).toContain(name);
  }
  const stream = model.generate('hello', { maxTokens: 12, delivery: { whole: true } });
  expect(await texts(stream)).toBe('t0t1t2t3t4t5t6t7t8t9t10t11');
});

test('a reader that waits after the first token finds at most lookahead + 1 made', async () => {
  for (const [index, lookahead] of [0, 3, 8].entries()) {
    const reader = model.generate('hello', { lookahead }).getReader();
    await reader.read();
    await later(60);
    // One step of prefill comes before the tokens.
    expect(fake.engine.stepsOf(index + 1)).toBe(1 + 1 + lookahead);
    await reader.cancel();
  }
});

test('two streams read in turns both get all their tokens in order', async () => {
  const readers = [1, 2].map(() => model.generate('hello', { maxTokens: 20 }).getReader());
  const seen: number[][] = [[], []];
  for (let i = 0; i < 20; i += 1) {
    for (const [n, reader] of readers.entries()) {
      const { value } = await reader.read();
      if (value !== undefined) seen[n]?.push(value.index);
    }
  }
  const all = Array.from({ length: 20 }, (_, i) => i);
  expect(seen).toEqual([all, all]);
});

test('no step runs once the loop that was left early is over', async () => {
  fake.engine.stepMs = 2;
  for await (const { index } of model.generate('hello', { maxTokens: 200 })) {
    if (index === 5) break;
  }
  const made = fake.engine.log.length;
  await later(40);
  expect(fake.engine.log.length).toBe(made);
  expect(fake.engine.log.at(-1)).toBe('end 1 cancelled');
});

test('an abort ends the generation in the engine too', async () => {
  const controller = new AbortController();
  const stream = model.generate('hello', { signal: controller.signal });
  const reader = stream.getReader();
  await reader.read();
  controller.abort('enough');
  expect(await rejection(reader.read())).toBe('enough');
  expect((await stream.stats).finishReason).toBe('cancelled');
  expect(fake.engine.log.at(-1)).toBe('end 1 cancelled');
});

test('a signal that was aborted before reaches no engine', async () => {
  const stream = model.generate('hello', { signal: AbortSignal.abort('no') });
  expect(await rejection(texts(stream))).toBe('no');
  expect((await stream.stats).finishReason).toBe('cancelled');
  await model.memory();
  expect(fake.engine.log).toEqual([]);
});

test('tokenizes, detokenizes, renders and scores', async () => {
  expect(await model.tokenize('four')).toEqual([4]);
  expect(await model.tokenize('four', { special: true })).toEqual([4, 1]);
  expect(await model.detokenize([4, 5])).toBe('<4 5>');
  expect(await model.applyChatTemplate([{ role: 'user', content: 'hi' }])).toBe('hi');
  expect((await model.score('four')).ids).toEqual([1, 2]);
  expect((await model.score([1, 2])).top1).toEqual([2]);
  const vectors = await model.embed(['four', 'xy'], { pooling: 'last' });
  expect(vectors).toEqual([Float32Array.of(4, 1), Float32Array.of(2, 1)]);
});

test('a trap settles everything with internal, and the next load works', async () => {
  fake.engine.stepMs = 5;
  fake.engine.beforeStep = (step) => {
    if (step === 6) throw new WebAssembly.RuntimeError('unreachable');
  };
  const running = model.generate('hello');
  const queued = model.generate('hello');
  const reader = running.getReader();
  await reader.read();
  const queuedRead = rejection(queued.getReader().read());
  const scored = rejection(model.score('text'));
  const read = async (): Promise<unknown> => {
    for (;;) if ((await reader.read()).done) return undefined;
  };
  expect(await rejection(read())).toMatchObject({ code: 'internal' });
  expect(await queuedRead).toMatchObject({ code: 'internal' });
  expect(await scored).toMatchObject({ code: 'internal' });
  for (const stream of [running, queued]) {
    expect((await stream.stats).finishReason).toBe('error');
  }
  expect(await rejection(model.memory())).toMatchObject({ code: 'internal' });
  expect(await rejection(texts(model.generate('again')))).toMatchObject({ code: 'internal' });
  expect(FakeWorker.started[0]?.terminated).toBe(true);
  const next = new FakeModule();
  FakeWorker.module = next.exports;
  model = await load(new Blob(['x']), { wasmUrl: 'data:application/wasm,fake' });
  expect(await texts(model.generate('hello', { maxTokens: 1 }))).toBe('t0');
});

test('tokens made before a trap are delivered before its error', async () => {
  fake.engine.beforeStep = (step) => {
    if (step === 4) throw new WebAssembly.RuntimeError('unreachable');
  };
  const reader = model.generate('hello').getReader();
  const got = [(await reader.read()).value?.index, (await reader.read()).value?.index];
  expect(got).toEqual([0, 1]);
  expect(await rejection(reader.read())).toMatchObject({ code: 'internal' });
});

test('an error event of the worker settles everything with internal', async () => {
  const stream = model.generate('hello');
  const call = rejection(model.score('text'));
  FakeWorker.started[0]?.fail('Uncaught RuntimeError: unreachable');
  expect(await call).toMatchObject({ code: 'internal' });
  expect(await rejection(texts(stream))).toMatchObject({ code: 'internal' });
});

test('a message that cannot be read settles everything with internal', async () => {
  const call = rejection(model.score('text'));
  FakeWorker.started[0]?.onmessageerror?.();
  expect(await call).toMatchObject({ code: 'internal' });
});

test('dispose settles what is pending and refuses later calls', async () => {
  const stream = model.generate('hello');
  const read = rejection(stream.getReader().read());
  const call = rejection(model.score('text'));
  await model.dispose();
  await model.dispose();
  expect(await read).toMatchObject({ code: 'disposed' });
  expect(await call).toMatchObject({ code: 'disposed' });
  expect((await stream.stats).finishReason).toBe('cancelled');
  expect(await rejection(model.tokenize('x'))).toMatchObject({ code: 'disposed' });
  expect(await rejection(texts(model.generate('x')))).toMatchObject({ code: 'disposed' });
  expect(FakeWorker.started[0]?.terminated).toBe(true);
});

test('the end of an `await using` scope disposes the model', async () => {
  await model[Symbol.asyncDispose]();
  expect(await rejection(model.memory())).toMatchObject({ code: 'disposed' });
});

test('a failing generation leaves the model usable', async () => {
  const stream = model.generate('too long');
  expect(await rejection(texts(stream))).toMatchObject({ code: 'context-full' });
  expect((await stream.stats).finishReason).toBe('error');
  expect(await texts(model.generate('hello', { maxTokens: 1 }))).toBe('t0');
});

const INVALID: [string, unknown, unknown][] = [
  ['input', 7, {}],
  ['input', [{ role: 'user' }], {}],
  ['temprature', 'x', { temprature: 1 }],
  ['lookahead', 'x', { lookahead: -1 }],
  ['presencePenalty', 'x', { presencePenalty: Number.NaN }],
  ['logitBias', 'x', { logitBias: [1] }],
  ['logitBias', 'x', { logitBias: { 7: 'much' } }],
  ['logprobs', 'x', { logprobs: 'all' }],
  ['responseFormat', 'x', { responseFormat: 'json' }],
  ['tools', 'x', { tools: {} }],
  ['toolChoice', 'x', { toolChoice: 1 }],
  ['lookahead', 'x', { lookahead: 0.5 }],
  ['maxTokens', 'x', { maxTokens: '5' }],
  ['temperature', 'x', { temperature: Number.NaN }],
  ['seed', 'x', { seed: null }],
  ['stop', 'x', { stop: 'end' }],
  ['stop', 'x', { stop: [1] }],
  ['ignoreEos', 'x', { ignoreEos: 1 }],
  ['templateOptions', 'x', { templateOptions: [] }],
  ['addGenerationPrompt', 'x', { templateOptions: { addGenerationPrompt: 1 } }],
  ['signal', 'x', { signal: 1 }],
];

for (const [name, input, options] of INVALID) {
  const given = JSON.stringify([input, options]);
  test(`generate fails with invalid-option and names ${name} when given ${given}`, async () => {
    const stream = model.generate(input as ChatMessage[], options as GenerateOptions);
    const error = await rejection(texts(stream));
    expect(error).toMatchObject({ code: 'invalid-option' });
    expect(String(error)).toContain(`\`${name}\``);
    expect((await stream.stats).finishReason).toBe('error');
  });
}

test('a value that cannot go to the worker is an invalid option', async () => {
  const templateOptions = { now: () => 0 };
  const stream = model.generate('x', { templateOptions });
  expect(await rejection(texts(stream))).toMatchObject({ code: 'invalid-option' });
  const call = model.applyChatTemplate([], templateOptions);
  expect(await rejection(call)).toMatchObject({ code: 'invalid-option' });
});

test('calls with wrong arguments are refused with what was expected', async () => {
  const wrong = [
    model.tokenize(1 as unknown as string),
    model.tokenize('x', { special: 1 as unknown as boolean }),
    model.detokenize([-1]),
    model.detokenize([1.5]),
    model.detokenize('abc' as unknown as number[]),
    model.score(7 as unknown as string),
    model.applyChatTemplate('x' as unknown as ChatMessage[]),
  ];
  for (const call of wrong) {
    expect(await rejection(call)).toMatchObject({ code: 'invalid-option' });
  }
});
