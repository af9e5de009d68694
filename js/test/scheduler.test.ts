import { expect, test } from '@playwright/test';

import { GRACE_MS, Scheduler } from '../scheduler.js';
import type { FromWorker } from '../protocol.js';
import { FakeEngine, coded } from './fake-engine.js';

interface Setup {
  engine: FakeEngine;
  scheduler: Scheduler;
  posted: FromWorker[];
  of<T extends FromWorker['type']>(type: T): Extract<FromWorker, { type: T }>[];
}

const noReload = (): Promise<FakeEngine> => Promise.reject(new Error('nothing is lost'));

function setup(clockOffsetMs = 0, reload = noReload): Setup {
  const engine = new FakeEngine();
  const posted: FromWorker[] = [];
  const scheduler = new Scheduler({
    engine,
    reload,
    post: (message) => posted.push(message),
    clockOffsetMs,
    turn: () => new Promise((resume) => setImmediate(resume)),
  });
  return {
    engine,
    scheduler,
    posted,
    of: (type) => posted.filter((m): m is never => m.type === type),
  };
}

const settle = (ms = 60): Promise<void> => new Promise((resume) => setTimeout(resume, ms));

test('computes nothing for a generation that has no credit', async () => {
  const { engine, scheduler, of } = setup();
  scheduler.generate(1, 'hello', {}, performance.now());
  await settle(GRACE_MS + 30);
  expect(engine.log).toEqual([]);
  expect(of('started')).toEqual([{ type: 'started', id: 1, promptIds: [7, 8, 9] }]);
});

test('makes as many tokens as there is credit and no more', async () => {
  const { engine, scheduler, of } = setup();
  scheduler.generate(1, 'hello', {}, performance.now());
  scheduler.credit(1, 5);
  await settle();
  expect(of('token').map((m) => m.token.id)).toEqual([100, 101, 102, 103, 104]);
  // One step of prefill comes before the tokens.
  expect(engine.stepsOf(1)).toBe(6);
  scheduler.credit(1, 6);
  await settle();
  expect(of('token')).toHaveLength(6);
});

test('a lower credit takes nothing back', async () => {
  const { scheduler, of } = setup();
  scheduler.generate(1, 'hello', {}, performance.now());
  scheduler.credit(1, 3);
  scheduler.credit(1, 2);
  await settle();
  expect(of('token')).toHaveLength(3);
});

test('ends without further credit when all tokens asked for are made', async () => {
  const { scheduler, of } = setup();
  scheduler.generate(1, 'hello', { maxTokens: 3 }, performance.now());
  scheduler.credit(1, 3);
  await settle();
  expect(of('finished')).toHaveLength(1);
  expect(of('finished')[0]?.stats.finishReason).toBe('length');
});

test('runs queued generations one after the other in order of their calls', async () => {
  const { engine, scheduler } = setup();
  for (const id of [1, 2, 3]) scheduler.generate(id, 'a', { maxTokens: 2 }, performance.now());
  // The third asks before the second does, while the first has the engine.
  for (const id of [1, 3, 2]) scheduler.credit(id, 9);
  await settle();
  const ends = engine.log.filter((line) => line.startsWith('end'));
  expect(ends).toEqual(['end 1 null', 'end 2 null', 'end 3 null']);
  const order = engine.log.map((line) => line.split(' ')[1]).join('');
  expect(order).toBe('111112222233333');
});

test('a call behind a generation that nobody reads runs after the grace', async () => {
  const { scheduler, of } = setup();
  scheduler.generate(1, 'a', {}, performance.now());
  scheduler.credit(1, 1);
  await settle();
  scheduler.generate(2, 'b', { maxTokens: 2 }, performance.now());
  scheduler.credit(2, 9);
  await settle(GRACE_MS / 2 - 20);
  expect(of('token').map((m) => m.id)).toEqual([1]);
  await settle(GRACE_MS);
  expect(of('token').map((m) => m.id)).toEqual([1, 2, 2]);
  expect(of('finished').map((m) => m.id)).toEqual([2]);
});

test('a suspended generation resumes with the next token when it is read again', async () => {
  const { scheduler, of } = setup();
  scheduler.generate(1, 'a', {}, performance.now());
  scheduler.credit(1, 1);
  await settle();
  scheduler.generate(2, 'b', { maxTokens: 1 }, performance.now());
  scheduler.credit(2, 9);
  await settle(GRACE_MS + 30);
  scheduler.credit(1, 3);
  await settle();
  const mine = of('token').filter((m) => m.id === 1);
  expect(mine.map((m) => m.token.index)).toEqual([0, 1, 2]);
});

test('no step runs after a cancel, and the generation ends as cancelled', async () => {
  const { engine, scheduler, of } = setup();
  engine.stepMs = 5;
  scheduler.generate(1, 'a', {}, performance.now());
  scheduler.credit(1, 200);
  await settle(30);
  scheduler.cancel(1);
  const steps = engine.stepsOf(1);
  await settle(30);
  expect(engine.stepsOf(1)).toBe(steps);
  expect(engine.log.at(-1)).toBe('end 1 cancelled');
  expect(of('finished')[0]?.stats.finishReason).toBe('cancelled');
});

test('a cancel of a generation that has ended changes nothing', async () => {
  const { engine, scheduler, of } = setup();
  scheduler.generate(1, 'a', { maxTokens: 1 }, performance.now());
  scheduler.credit(1, 1);
  await settle();
  scheduler.cancel(1);
  await settle();
  expect(of('finished')).toHaveLength(1);
  expect(engine.log.filter((line) => line.startsWith('end'))).toHaveLength(1);
});

test('answers calls between two steps, never during one', async () => {
  const { engine, scheduler, posted } = setup();
  engine.stepMs = 20;
  let inStep = 0;
  let overlap = false;
  const { memory } = engine;
  const { step } = engine;
  engine.step = async (id) => {
    inStep += 1;
    try {
      return await step.call(engine, id);
    } finally {
      inStep -= 1;
    }
  };
  engine.memory = () => {
    overlap ||= inStep > 0;
    return memory.call(engine);
  };
  scheduler.generate(1, 'a', { maxTokens: 3 }, performance.now());
  scheduler.credit(1, 9);
  await settle(5);
  scheduler.call(2, { method: 'memory' });
  await settle(150);
  expect(overlap).toBe(false);
  const order = posted.map((m) => m.type).filter((type) => type !== 'started');
  expect(order).toEqual(['result', 'token', 'token', 'token', 'finished']);
});

test('a score waits for its turn in the same queue', async () => {
  const { engine, scheduler, of } = setup();
  scheduler.generate(1, 'a', { maxTokens: 2 }, performance.now());
  scheduler.credit(1, 9);
  scheduler.score(2, 'text');
  await settle();
  expect(engine.log).toEqual(['step 1', 'step 1', 'step 1', 'step 1', 'end 1 null', 'score 2']);
  expect(of('result')[0]?.value).toEqual({
    ids: [1, 2],
    top1: [2],
    top1Logprob: [-0.5],
    nextLogprob: [-0.5],
  });
});

test('a coded failure of a step ends that generation alone', async () => {
  const { engine, scheduler, of } = setup();
  engine.beforeStep = (step) => {
    if (step === 3) throw coded('context-full', 'The context is full.');
  };
  scheduler.generate(1, 'a', {}, performance.now());
  scheduler.generate(2, 'b', { maxTokens: 1 }, performance.now());
  scheduler.credit(1, 9);
  scheduler.credit(2, 9);
  await settle();
  const [failed] = of('failed');
  expect(failed?.id).toBe(1);
  expect(failed?.error.code).toBe('context-full');
  expect(failed?.stats?.finishReason).toBe('error');
  expect(of('finished').map((m) => m.id)).toEqual([2]);
});

test('a refused start fails the generation and leaves the queue running', async () => {
  const { scheduler, of } = setup();
  scheduler.generate(1, 'too long', {}, performance.now());
  scheduler.generate(2, 'b', { maxTokens: 1 }, performance.now());
  scheduler.credit(2, 1);
  await settle();
  expect(of('failed')[0]?.error.code).toBe('context-full');
  expect(of('finished').map((m) => m.id)).toEqual([2]);
});

test('a trap is told once, and nothing runs after it', async () => {
  const { engine, scheduler, of } = setup();
  engine.beforeStep = (step) => {
    if (step === 2) throw new WebAssembly.RuntimeError('unreachable');
  };
  scheduler.generate(1, 'a', {}, performance.now());
  scheduler.credit(1, 9);
  await settle();
  scheduler.call(2, { method: 'memory' });
  await settle();
  expect(of('crashed')).toHaveLength(1);
  expect(of('crashed')[0]?.error).toMatchObject({ code: 'internal' });
  expect(of('crashed')[0]?.error.message).toContain('unreachable');
  expect(of('result')).toEqual([]);
});

test('gives times on the clock of the page, counted from the call', async () => {
  const { engine, scheduler, of } = setup(1000);
  engine.stepMs = 10;
  const calledAtMs = performance.now() + 1000 - 50;
  scheduler.generate(1, 'a', { maxTokens: 1 }, calledAtMs);
  scheduler.credit(1, 9);
  await settle(80);
  const [token] = of('token');
  const [finished] = of('finished');
  expect(token?.token.atMs).toBeGreaterThan(1000);
  expect(finished?.stats.queueMs).toBeGreaterThanOrEqual(50);
  expect(finished?.stats.ttftMs).toBe((token?.token.atMs ?? 0) - calledAtMs);
  expect(finished?.stats.firstTextMs).toBe(finished?.stats.ttftMs);
});

test('an embedding waits for its turn and ends with its vectors', async () => {
  const { engine, scheduler, of } = setup();
  scheduler.generate(1, 'a', { maxTokens: 1 }, performance.now());
  scheduler.credit(1, 9);
  scheduler.embed(2, ['four', 'xy'], { pooling: 'last' });
  const log = ['step 1', 'step 1', 'step 1', 'end 1 null', 'embed 2', 'embed 2', 'embed 2'];
  await expect.poll(() => engine.log).toEqual(log);
  await expect.poll(() => of('result')).toHaveLength(1);
  expect(of('result')).toEqual([
    { type: 'result', id: 2, value: [Float32Array.of(4, 1), Float32Array.of(2, 1)] },
  ]);
});

test('an embedding that is refused or fails answers its call alone', async () => {
  const { engine, scheduler, of } = setup();
  scheduler.embed(1, ['too long'], {});
  engine.beforeStep = () => {
    throw coded('out-of-memory', 'No room.');
  };
  scheduler.embed(2, ['x'], {});
  await expect.poll(() => of('error')).toHaveLength(2);
  expect(of('error').map(({ id, error }) => [id, error.code])).toEqual([
    [1, 'context-full'],
    [2, 'out-of-memory'],
  ]);
  expect(engine.log.at(-1)).toMatch(/^end-embed/);
  expect(of('crashed')).toEqual([]);
});

test('a request for embeddings is answered whole, and cancelled without an answer', async () => {
  const { engine, scheduler, of } = setup();
  const body = new TextEncoder().encode(JSON.stringify({ texts: ['ab', 'c'] }));
  scheduler.exchange(1, { method: 'POST', path: '/v1/embeddings', body }, performance.now());
  await expect.poll(() => of('response')).toHaveLength(1);
  const [response] = of('response');
  expect(new TextDecoder().decode(response?.body ?? undefined)).toBe('2,0 1,0 of 5');
  scheduler.exchange(2, { method: 'POST', path: '/v1/embeddings', body }, performance.now());
  scheduler.cancel(2);
  await expect.poll(() => of('body-end')).toHaveLength(1);
  await settle();
  expect(of('body-end')).toEqual([{ type: 'body-end', id: 2 }]);
  expect(of('response')).toHaveLength(1);
  expect(engine.exchanges.map(({ freed }) => freed)).toEqual([1, 1]);
});

const deviceLost = (): never => {
  throw coded('device-lost', 'The GPU device was lost.');
};

test('a lost device ends all that ran on it, and the next call loads the model anew', async () => {
  const fresh = new FakeEngine();
  let loads = 0;
  const { engine, scheduler, of } = setup(0, async () => {
    loads += 1;
    return fresh;
  });
  engine.beforeStep = (step) => {
    if (step === 4) deviceLost();
  };
  for (const id of [1, 2]) {
    scheduler.generate(id, 'a', { maxTokens: 9 }, performance.now());
    scheduler.credit(id, 9);
  }
  await settle();
  expect(of('token').map((m) => m.id)).toEqual([1, 1]);
  expect(of('failed').map((m) => [m.id, m.error.code])).toEqual([
    [1, 'device-lost'],
    [2, 'device-lost'],
  ]);
  expect(of('failed')[0]?.stats?.finishReason).toBe('error');
  // Neither reading on nor giving up needs a device.
  scheduler.credit(1, 10);
  scheduler.cancel(2);
  await settle();
  expect(loads).toBe(0);
  scheduler.generate(3, 'a', { maxTokens: 2 }, performance.now());
  scheduler.credit(3, 2);
  await settle();
  expect(loads).toBe(1);
  expect(of('token').filter((m) => m.id === 3)).toHaveLength(2);
  expect(of('finished').map((m) => m.id)).toEqual([3]);
});

test('a model that cannot be loaded again says why at the next call', async () => {
  const { engine, scheduler, of } = setup(0, async () => {
    throw coded('download-failed', 'The model is gone.');
  });
  engine.beforeStep = deviceLost;
  for (const id of [1, 2]) {
    scheduler.generate(id, 'a', { maxTokens: 2 }, performance.now());
    scheduler.credit(id, 2);
    await settle();
  }
  expect(of('failed').map((m) => m.error.code)).toEqual(['device-lost', 'download-failed']);
});
