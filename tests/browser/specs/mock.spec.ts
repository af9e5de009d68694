// The mock server in this process: real timers, the platform's streams.

import { getEventListeners } from 'node:events';

import type { MockServer, Scenario } from '../../../js/mock.js';
import { expect, test } from '../support/app.js';
import { loadMock } from '../support/streaming.js';

const FAST: Scenario = {
  text: { kind: 'seeded', tokens: 5000 },
  pace: { kind: 'fixed', ms: 1 },
};

async function serve(scenario: Scenario): Promise<MockServer> {
  const { createMockServer } = await loadMock();
  return createMockServer(scenario);
}

const later = (ms: number): Promise<void> => new Promise((resume) => setTimeout(resume, ms));

/** Reads a body; when its parts came, since `start`. */
async function timed(response: Response, start: number): Promise<{ at: number[]; text: string }> {
  const at: number[] = [];
  let text = '';
  const decoder = new TextDecoder();
  for await (const bytes of response.body as unknown as AsyncIterable<Uint8Array>) {
    at.push(performance.now() - start);
    text += decoder.decode(bytes, { stream: true });
  }
  return { at, text };
}

test('the eighteen words take 594 ms, in 93 bytes whole and 276 streamed', async () => {
  const server = await serve({});
  const calls = ['/lab/wait', '/lab/stream'].map(async (path) => {
    const start = performance.now();
    const response = await server.fetch(path);
    const headMs = performance.now() - start;
    const { at, text } = await timed(response, start);
    return { headMs, first: at[0] ?? 0, total: performance.now() - start, parts: at.length, text };
  });
  const [wait, stream] = await Promise.all(calls);
  expect(wait?.text.length).toBe(93);
  expect(stream?.text.length).toBe(276);
  expect(stream?.parts).toBe(19);
  for (const call of [wait, stream]) expect(call?.total).toBeGreaterThanOrEqual(594);
  expect(wait?.first).toBeGreaterThanOrEqual(594);
  expect(stream?.first).toBeGreaterThanOrEqual(33);
  // The head is there before the first token.
  expect(stream?.headMs).toBeLessThan(stream?.first ?? 0);
  expect(wait?.headMs).toBeLessThan(300);
  const tokens = server.trace().filter(({ event }) => event === 'token');
  expect(tokens.length).toBe(36);
});

test('leaving stops the generator, by cancel and by abort, in both modes', async () => {
  for (const path of ['/lab/stream', '/lab/wait']) {
    for (const how of ['cancel', 'abort']) {
      const server = await serve(FAST);
      const leave = new AbortController();
      const response = await server.fetch(path, { signal: leave.signal });
      const reader = (response.body as ReadableStream<Uint8Array>).getReader();
      const pending = reader.read().catch((error: unknown) => error);
      await later(50);
      if (how === 'cancel') await reader.cancel();
      else leave.abort('enough');
      const { produced } = server.stats();
      await later(50);
      expect(server.stats(), `${path} ${how}`).toMatchObject({
        produced,
        cancelled: 1,
        active: 0,
        connections: 0,
      });
      const first = await pending;
      if (how === 'abort' && path === '/lab/wait') expect(first).toBe('enough');
      expect(getEventListeners(leave.signal, 'abort').length).toBe(0);
    }
  }
});

test('an abort before the head rejects with its reason', async () => {
  const server = await serve({ transit: { requestMs: 500 } });
  const leave = new AbortController();
  const call = server.fetch('/lab/stream', { signal: leave.signal });
  setTimeout(() => leave.abort('too long'), 20);
  await expect(call).rejects.toBe('too long');
  expect(server.stats().connections).toBe(0);
  await expect(server.fetch('/lab/stream', { signal: AbortSignal.abort('no') })).rejects.toBe('no');
});

test('a slow reader holds the generator at the high-water mark', async () => {
  const server = await serve({ ...FAST, slowClient: { highWaterTokens: 5 } });
  const { body } = await server.fetch('/lab/stream');
  const reader = (body as ReadableStream<Uint8Array>).getReader();
  for (let consumed = 1; consumed <= 20; consumed += 1) {
    await reader.read();
    await later(25);
    expect(server.stats().produced - consumed).toBeLessThanOrEqual(5);
  }
  await reader.cancel();
});

test('ten thousand waits leave timers and listeners as they were', async () => {
  const server = await serve({
    text: { kind: 'words', words: 'a b' },
    pace: { kind: 'fixed', ms: 1 },
    keepAliveMs: 1000,
  });
  const timers = (): number =>
    process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length;
  const before = timers();
  const { signal } = new AbortController();
  for (let round = 0; round < 100; round += 1) {
    const calls = Array.from({ length: 100 }, async (_, n) => {
      const path = n % 2 === 0 ? '/lab/wait' : '/lab/stream';
      const response = await server.fetch(path, { signal });
      if (n % 3 === 0) await response.body?.cancel();
      else await response.text();
    });
    await Promise.all(calls);
  }
  expect(timers()).toBe(before);
  expect(getEventListeners(signal, 'abort').length).toBe(0);
  expect(server.stats()).toMatchObject({ requests: 10_000, connections: 0, active: 0 });
});

test('tokens come from outside at their own pace and are pulled only when read', async () => {
  const { createMockServer } = await loadMock();
  let pulled = 0;
  let cancelled = false;
  const tokens = (): ReadableStream<{ text: string }> =>
    new ReadableStream(
      {
        pull(controller) {
          pulled += 1;
          controller.enqueue({ text: `${pulled} ` });
        },
        cancel() {
          cancelled = true;
        },
      },
      { highWaterMark: 0 },
    );
  const scenario = { slowClient: { highWaterTokens: 3 } };
  const server = createMockServer(scenario, { tokens });
  const { body } = await server.fetch('/lab/plain');
  const reader = (body as ReadableStream<Uint8Array>).getReader();
  await later(30);
  expect(pulled).toBe(3);
  expect(new TextDecoder().decode((await reader.read()).value)).toBe('1 ');
  await later(30);
  expect(pulled).toBe(4);
  await reader.cancel();
  await later(10);
  expect(cancelled).toBe(true);
});

test('a scenario is refused with its place', async () => {
  const { createMockServer } = await loadMock();
  const server = createMockServer({ prefill: { queueMs: -1 } });
  const refused = { code: 'invalid-option', message: expect.stringContaining('prefill.queueMs') };
  await expect(server.fetch('/lab/wait')).rejects.toMatchObject(refused);
  const broken = createMockServer({ faults: { cut: { byte: 10, reset: true } } });
  const response = await broken.fetch('/lab/stream');
  await expect(response.text()).rejects.toThrow('The connection broke.');
});

test('an incident on pools is simulated at once', async () => {
  const { simulateLoad } = await loadMock();
  const run = {
    seed: 1,
    arrivalsPerSecond: 10,
    paidShare: 0.5,
    serviceMs: 50,
    tokens: 1,
    requests: 20_000,
    settleMs: 1000,
    overload: { pools: [{ name: 'all', seats: 1 }], incidents: [{ atMs: 1e6, capacity: 0 }] },
  };
  const [before, after] = simulateLoad(run);
  expect(before?.paid.meanWaitMs).toBeLessThan(before?.free.meanWaitMs ?? 0);
  expect(after?.paid.served).toBe(0);
  expect(() => simulateLoad({ ...run, paidShare: 2 })).toThrow('paidShare');
});
