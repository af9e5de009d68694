// Troubles of a provider as the mock server makes them, seen through the client: each moves its
// own meter, and the ladder keeps its order.

import type { Client, ClientOptions, Provider } from '../../../js/client.js';
import type { MockServer, Scenario } from '../../../js/mock.js';
import { expect, test } from '../support/app.js';
import { entryUrl, loadMock } from '../support/streaming.js';

type ClientEntry = typeof import('../../../js/client.js');

const SYSTEM = 'You answer in one short sentence and never guess what you cannot know. ';

/** Four seats, and a cache of prompts. */
const WELL: Scenario = {
  text: { kind: 'words', words: 'Three words come.' },
  pace: { kind: 'fixed', ms: 1 },
  prefill: { prefixCache: { blockTokens: 4 } },
  overload: { pools: [{ name: 'shared', seats: 4 }] },
};

const LIMITS = {
  least: 20,
  errorShare: 0.05,
  // Far above what a busy machine adds, far below the squeeze.
  p95Ms: 700,
  evalShare: 0.8,
  cachedShare: 0.5,
  fallbackShare: 0.1,
  spend: 100,
};

const PRICES = { prompt: 2e6, cached: 1e6, completion: 8e6 };

interface Setup {
  client: Client;
  server: MockServer;
  tried: string[];
}

async function setup(
  scenario: Scenario = WELL,
  options: Partial<ClientOptions> = {},
  provider: Partial<Provider> = {},
): Promise<Setup> {
  const { createClient } = (await import(entryUrl('client'))) as ClientEntry;
  const { createMockServer } = await loadMock();
  const server = createMockServer(scenario);
  const smaller = createMockServer(WELL);
  const tried: string[] = [];
  const client = createClient({
    providers: [
      { name: 'large', fetch: server.fetch, prices: PRICES, ...provider },
      { name: 'small', fetch: smaller.fetch, prices: PRICES },
    ],
    retry: { attempts: 4 },
    random: () => 1,
    limits: LIMITS,
    onAttempt: ({ provider }) => tried.push(provider),
    ...options,
  });
  return { client, server, tried };
}

const request = (system: string, nth: number, stream = true): RequestInit => ({
  method: 'POST',
  body: JSON.stringify({
    model: 'm',
    stream,
    ...(stream && { stream_options: { include_usage: true } }),
    messages: [
      { role: 'system', content: system },
      { role: 'user', content: `What of ${nth} is left?` },
    ],
  }),
});

const PATH = 'http://large.test/v1/chat/completions';

/** One call, read to its end; the provider that answered. */
async function call(client: Client, nth: number, system = SYSTEM): Promise<string | null> {
  const response = await client.fetch(PATH, request(system, nth));
  expect(await response.text()).toContain('[DONE]');
  return response.headers.get('x-tokenbrook-provider');
}

async function calls(client: Client, count: number): Promise<void> {
  for (let nth = 0; nth < count; nth += 1) await call(client, nth);
}

/** Others take all seats of the shared pool until the function that this gives is called. */
async function crowd(server: MockServer): Promise<() => Promise<void>> {
  const guests = await Promise.all(
    Array.from({ length: 4 }, () => server.fetch('/lab/stream')),
  );
  return async () => void (await Promise.all(guests.map(({ body }) => body?.cancel())));
}

/** Replies last until their readers leave, as far as `max_tokens` of the client's own lets them. */
const LONG: Scenario = { ...WELL, text: { kind: 'seeded', tokens: 100_000 } };

async function short(client: Client, nth: number): Promise<string | null> {
  const { body, ...rest } = request(SYSTEM, nth);
  const limited = { ...(JSON.parse(body as string) as object), max_tokens: 3 };
  const response = await client.fetch(PATH, { ...rest, body: JSON.stringify(limited) });
  expect(await response.text()).toContain('[DONE]');
  return response.headers.get('x-tokenbrook-provider');
}

test('a provider that is well trips nothing', async () => {
  const { client } = await setup();
  await calls(client, 40);
  const { alerts, cachedShare, rungShares, calls: count } = await client.meters();
  expect(alerts).toEqual([]);
  expect(cachedShare).toBeGreaterThan(0.6);
  expect([rungShares, count]).toEqual([[1], 40]);
});

test('a squeeze of the shared pool trips the p95 alone, which the median hides', async () => {
  const { client, server } = await setup(LONG);
  for (let nth = 0; nth < 40; nth += 1) await short(client, nth);
  expect((await client.meters()).alerts).toEqual([]);
  const leave = await crowd(server);
  const late = [1, 2, 3, 4].map((nth) => short(client, nth));
  setTimeout(() => void leave(), 1500);
  expect(await Promise.all(late)).toEqual(['large', 'large', 'large', 'large']);
  const { alerts, p50Ms, p95Ms } = await client.meters();
  expect(alerts).toEqual(['p95']);
  expect(p50Ms).toBeLessThan(300);
  expect(p95Ms).toBeGreaterThan(1300);
});

test('a surge of 429 trips the error share alone, as calls are asked again', async () => {
  const pools = [{ name: 'shared', seats: 4 }];
  const { client, server, tried } = await setup({
    ...LONG,
    overload: { pools, waiting: { limit: 0 } },
  });
  for (let nth = 0; nth < 40; nth += 1) await short(client, nth);
  const leave = await crowd(server);
  const refused = [1, 2, 3, 4].map((nth) => short(client, nth));
  setTimeout(() => void leave(), 300);
  await Promise.all(refused);
  expect(new Set(tried)).toEqual(new Set(['large']));
  const { alerts, errorShare } = await client.meters();
  expect(alerts).toEqual(['error-share']);
  expect(errorShare).toBeCloseTo(4 / 48, 5);
});

test('an edited prompt trips the cached share and the spend alone', async () => {
  const { client } = await setup(WELL, { limits: { ...LIMITS, spend: 52 } });
  await calls(client, 20);
  const before = await client.meters();
  expect(before.alerts).toEqual([]);
  for (let nth = 0; nth < 40; nth += 1) await call(client, nth, `At ${nth} o'clock. ${SYSTEM}`);
  const { alerts, cachedShare } = await client.meters();
  expect(alerts).toEqual(['cached-share', 'spend']);
  expect(cachedShare).toBeLessThan(0.4);
});

test('a silent swap trips the evaluation set alone, and a roll-back passes it', async () => {
  const other = { kind: 'words', words: 'Other words come.' } as const;
  const body = { messages: [{ role: 'user', content: 'How many come?' }] };
  const cases = [{ body, passes: (text: string) => text.startsWith('Three') }];
  const { client } = await setup(
    { ...WELL, swap: { afterRequests: 25, text: other, pinned: 'm-1' } },
    { evals: { cases }, limits: { ...LIMITS, window: 40 } },
    { model: 'm', previousModel: 'm-1' },
  );
  await calls(client, 20);
  expect([await client.evaluate(), (await client.meters()).alerts]).toEqual([1, []]);
  await calls(client, 5);
  expect(await client.evaluate()).toBe(0);
  expect((await client.meters()).alerts).toEqual(['eval-share']);
  client.rollBack('large');
  for (let n = 0; n < 4; n += 1) expect(await client.evaluate()).toBe(1);
  expect((await client.meters()).alerts).toEqual([]);
});

test('rungs are asked in their order, and a reply of earlier is the last', async () => {
  const { createMockServer } = await loadMock();
  const refuses = createMockServer({ faults: { failBefore: { status: 503 } } });
  const sleeps = createMockServer({ prefill: { queueMs: 60_000 } });
  let isUp = true;
  const small = createMockServer(WELL);
  const kept = new Map<string, { contentType: string; body: string }>();
  const { client, tried } = await setup(WELL, {
    providers: [
      { name: 'refuses', fetch: refuses.fetch },
      { name: 'sleeps', fetch: sleeps.fetch, deadlineMs: 50 },
      {
        name: 'small',
        fetch: (...asked) => (isUp ? small : refuses).fetch(...asked),
      },
    ],
    retry: { attempts: 2, baseMs: 1 },
    breaker: { errorShare: 1.1 },
    cache: { get: (key) => kept.get(key), set: (key, reply) => void kept.set(key, reply) },
  });
  expect(await call(client, 1)).toBe('small');
  expect(tried).toEqual(['refuses', 'refuses', 'sleeps', 'small']);
  const { rungShares, alerts } = await client.meters();
  expect([rungShares, alerts]).toEqual([[0, 0, 1], []]);
  isUp = false;
  expect(await call(client, 1)).toBe('cache');
  expect(tried.slice(4)).toEqual(['refuses', 'refuses', 'sleeps', 'small', 'small']);
});
