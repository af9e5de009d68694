// The mock as a service worker, in pages that know nothing of it but their own addresses.

import type { BrowserContext, Page } from '@playwright/test';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';

import type { MockRegistration, Scenario } from '../../../js/mock.js';
import { expect, test } from '../support/app.js';
import { PACKAGE } from '../support/package.js';
import type { FaultServer } from '../support/server.js';
import { bundleClients, importClients } from '../support/clients.js';

declare global {
  var link: MockRegistration;
  var mock: typeof import('../../../js/mock.js');
}

const TEXT = 'A model does not write the whole answer at once. It makes it one piece at a time. ';
const WORKER = '/pkg/mock-service-worker.js';

test.beforeAll(async ({ server }) => {
  server.routes.set('/clients/', await bundleClients());
  server.routes.set('/plain.html', Buffer.from('<!doctype html><title>plain</title>'));
  server.headers.set(WORKER, { 'service-worker-allowed': '/' });
});

/** A page that the worker controls. */
async function controlled(
  context: BrowserContext,
  server: FaultServer,
  scenario: Scenario = {},
  worker = WORKER,
): Promise<Page> {
  const page = await context.newPage();
  await page.goto(`${server.url}/plain.html`);
  await page.evaluate(
    async ([worker, scenario]) => {
      const address = '/pkg/mock.js';
      globalThis.mock = (await import(address)) as typeof mock;
      globalThis.link = await mock.register(worker, { scope: '/', scenario });
    },
    [worker, scenario] as const,
  );
  return page;
}

test('a page streams from the worker, first text after one token', async ({ context, server }) => {
  const page = await controlled(context, server);
  const seen = await page.evaluate(async () => {
    const call = async (path: string) => {
      const start = performance.now();
      const response = await fetch(path);
      const reader = (response.body as ReadableStream<Uint8Array>).getReader();
      const at: number[] = [];
      let bytes = 0;
      for (;;) {
        const { done, value } = await reader.read();
        if (done) break;
        at.push(performance.now() - start);
        bytes += value.byteLength;
      }
      const total = performance.now() - start;
      return { first: at[0] ?? 0, total, bytes, reads: at.length };
    };
    await call('/lab/stream');
    return { stream: await call('/lab/stream'), wait: await call('/lab/wait') };
  });
  expect(seen.stream.bytes).toBe(276);
  expect(seen.wait.bytes).toBe(93);
  expect(seen.stream.first).toBeGreaterThanOrEqual(33);
  expect(seen.stream.first).toBeLessThan(250);
  expect(seen.stream.total).toBeGreaterThanOrEqual(594);
  expect(seen.wait.first).toBeGreaterThanOrEqual(594);
  expect(seen.stream.reads).toBeGreaterThan(10);
  const alone = await page.evaluate(async () => (await fetch('/page.html')).text());
  expect(alone).toContain('not a model');
});

test('other clients read it unchanged', async ({ context, server }) => {
  const page = await controlled(context, server, { pace: { kind: 'fixed', ms: 5 } });
  await importClients(page);
  const seen = await page.evaluate(async () => {
    const openai = new clients.OpenAI({
      baseURL: `${location.origin}/v1`,
      apiKey: 'none',
      dangerouslyAllowBrowser: true,
      maxRetries: 0,
    });
    const body = { model: 'mock', messages: [{ role: 'user' as const, content: 'Hi' }] };
    const options = { stream: true as const, stream_options: { include_usage: true } };
    let streamed = '';
    let tokens = 0;
    for await (const chunk of await openai.chat.completions.create({ ...body, ...options })) {
      streamed += chunk.choices[0]?.delta.content ?? '';
      tokens = chunk.usage?.completion_tokens ?? tokens;
    }
    const whole = await openai.chat.completions.create(body);
    const models = await openai.models.list();
    const parsed: string[] = [];
    const parser = clients.createParser({ onEvent: ({ data }) => void parsed.push(data) });
    parser.feed(await (await fetch('/lab/stream')).text());
    const native = await new Promise<string[]>((done) => {
      const data: string[] = [];
      const source = new EventSource('/lab/stream');
      source.onmessage = (event: MessageEvent<string>) => {
        data.push(event.data);
        if (event.data !== '[DONE]') return;
        source.close();
        done(data);
      };
    });
    const text = whole.choices[0]?.message.content;
    return { streamed, tokens, text, models: models.data.map(({ id }) => id), parsed, native };
  });
  const { streamed, text, tokens, models, parsed, native } = seen;
  expect([streamed, text, tokens, models]).toEqual([TEXT, TEXT, 18, ['mock']]);
  for (const data of [parsed, native]) {
    expect(data.pop()).toBe('[DONE]');
    expect(data.map((word) => JSON.parse(word) as string).join('')).toBe(TEXT);
  }
});

test('leaving a page stops its generator, and other tabs go on', async ({ context, server }) => {
  const scenario: Scenario = {
    text: { kind: 'seeded', tokens: 6000 },
    pace: { kind: 'fixed', ms: 10 },
  };
  const stays = await controlled(context, server, scenario);
  const leaves = await controlled(context, server, scenario);
  const read = async (path: string): Promise<void> => {
    const response = await fetch(path);
    void response.text().catch(() => undefined);
  };
  await stays.evaluate(read, '/lab/stream');
  for (const path of ['/lab/stream', '/lab/wait']) {
    await leaves.goto(`${server.url}/plain.html`);
    await leaves.evaluate(read, path);
    await leaves.waitForTimeout(300);
    const left = await leaves.evaluate(() => performance.timeOrigin + performance.now());
    await leaves.goto('about:blank');
    const gone = Date.now();
    await stays.waitForTimeout(500);
    const trace = await stays.evaluate(() => link.trace());
    const replies = trace.filter((event) => event.event === 'cancelled');
    const last = replies.at(-1);
    expect(last?.['why'], path).toBe('reader-left');
    expect(last?.atMs).toBeGreaterThan(left);
    expect(last?.atMs).toBeLessThan(gone + 100);
    const tokens = trace.filter(({ reply, event }) => reply === last?.reply && event === 'token');
    expect(tokens.at(-1)?.atMs).toBeLessThan(gone + 100);
  }
  const stats = await stays.evaluate(() => link.stats());
  expect(stats).toMatchObject({ active: 1, cancelled: 2 });
});

test('a page that is busy moves no stamp of the generator', async ({ context, server }) => {
  const page = await controlled(context, server, { text: { kind: 'seeded', tokens: 60 } });
  const trace = await page.evaluate(async () => {
    const block = setInterval(() => {
      const end = performance.now() + 200;
      while (performance.now() < end);
    }, 1000);
    await (await fetch('/lab/stream')).text();
    clearInterval(block);
    return link.trace();
  });
  const at = trace.filter(({ event }) => event === 'token').map(({ atMs }) => atMs);
  const wrote = trace.filter(({ event }) => event === 'wrote').map(({ atMs }) => atMs);
  expect(at.length).toBe(60);
  for (let n = 1; n < at.length; n += 1) expect((at[n] ?? 0) - (at[n - 1] ?? 0)).toBeCloseTo(33, 0);
  expect(wrote.slice(0, 60)).toEqual(at);
});

test('kept replies survive the end of their worker', async ({ context, server }) => {
  const scenario: Scenario = {
    seed: 3,
    text: { kind: 'seeded', tokens: 100 },
    pace: { kind: 'uniform', ms: 20, jitterMs: 10 },
    resume: { graceMs: 60_000, ttlMs: 60_000 },
  };
  const page = await controlled(context, server, scenario);
  const before = await page.evaluate(async () => {
    const response = await fetch('/lab/stream?reply=kept');
    const reader = (response.body as ReadableStream<Uint8Array>).getReader();
    let text = '';
    while (text.length < 600) text += new TextDecoder().decode((await reader.read()).value);
    void reader.read().catch(() => undefined);
    return text;
  });
  const devtools = await context.newCDPSession(page);
  await devtools.send('ServiceWorker.enable');
  await devtools.send('ServiceWorker.stopAllWorkers');
  const complete = before.slice(0, before.lastIndexOf('\n\n') + 2);
  const last = complete.match(/id: kept:\d+/g)?.at(-1)?.slice(4) ?? '';
  const after = await page.evaluate(async (last) => {
    const again = await fetch('/lab/stream', { headers: { 'last-event-id': last } });
    return again.text();
  }, last);
  const ids = (complete + after).match(/id: kept:\d+/g);
  expect(ids).toEqual(Array.from({ length: 101 }, (_, n) => `id: kept:${n}`));
  expect(after.endsWith('data: [DONE]\n\n')).toBe(true);
  const whole = await page.evaluate(async () => (await fetch('/lab/stream')).text());
  const words = (body: string): string => body.match(/data: .*/g)?.join('') ?? '';
  expect(words(complete + after)).toBe(words(whole));
});

test("a page's own worker composes the mock with its own answers", async ({ context, server }) => {
  server.headers.set('/workers/own.js', { 'service-worker-allowed': '/' });
  const page = await controlled(context, server, {}, '/workers/own.js');
  const seen = await page.evaluate(async () => {
    const own = await (await fetch('/own')).text();
    const wait = await (await fetch('/lab/wait')).json();
    const alone = await (await fetch('/page.html')).text();
    return { own, wait, alone };
  });
  expect(seen.own).toBe('answered by the own worker');
  expect(seen.wait).toEqual({ text: TEXT });
  expect(seen.alone).toContain('not a model');
});

test('a native EventSource comes back to its reply by name', async ({ context, server }) => {
  for (const reset of [false, true]) {
    const page = await controlled(context, server, {
      pace: { kind: 'fixed', ms: 10 },
      faults: { cut: { byte: 200, reset }, firstRequests: 1 },
      resume: { graceMs: 10_000, ttlMs: 60_000, retryMs: 100 },
    });
    const seen = await page.evaluate(async (name) => {
      // Chromium shows workers no `Last-Event-ID`: the reply comes from its start, and ids tell
      // what was there before.
      const events = new Map<string, string>();
      const source = new EventSource(`/lab/stream?reply=${name}`);
      let errors = 0;
      source.onerror = () => void (errors += 1);
      const over = new Promise<string>((done) => {
        source.onmessage = (event: MessageEvent<string>) => {
          events.set(event.lastEventId, event.data);
          if (event.data === '[DONE]') done('the marker');
        };
        setTimeout(() => done(`nothing more, state ${source.readyState}`), 8000);
      });
      const end = await over;
      source.close();
      const trace = await link.trace();
      const joined = trace.filter(({ event }) => event === 'joined').length;
      return { ids: [...events.keys()], data: [...events.values()], errors, end, joined };
    }, `native-${reset}`);
    expect(seen.end).toBe('the marker');
    expect(seen.ids).toEqual(Array.from({ length: 19 }, (_, n) => `native-${reset}:${n}`));
    expect(seen.data.pop()).toBe('[DONE]');
    expect(seen.data.map((word) => JSON.parse(word) as string).join('')).toBe(TEXT);
    expect(seen).toMatchObject({ errors: 1, joined: 1 });
    await page.close();
  }
});

test('a stream of two minutes arrives whole', async ({ context, server }) => {
  test.skip(process.env['TOKENBROOK_SLOW'] === undefined, 'takes two minutes: TOKENBROOK_SLOW=1');
  test.setTimeout(240_000);
  const page = await controlled(context, server, {
    text: { kind: 'seeded', tokens: 1200 },
    pace: { kind: 'fixed', ms: 100 },
  });
  const seen = await page.evaluate(async () => {
    const start = performance.now();
    const text = await (await fetch('/lab/stream')).text();
    return { text, ms: performance.now() - start };
  });
  expect(seen.ms).toBeGreaterThanOrEqual(120_000);
  expect(seen.text.match(/^data: "/gm)?.length).toBe(1200);
  expect(seen.text.endsWith('data: [DONE]\n\n')).toBe(true);
});

/** The worker's file in another version, which may take over without being asked. */
async function newVersion(server: FaultServer, rest = ''): Promise<void> {
  const file = await readFile(join(PACKAGE, 'mock-service-worker.js'));
  server.routes.set(WORKER, Buffer.concat([file, Buffer.from(`\n// another version\n${rest}`)]));
}

/** In the page: an update is there, whether it waits or works. */
const updated = (): Promise<boolean> =>
  link.registration.update().then(async () => {
    const { registration } = link;
    const there = registration.installing ?? registration.waiting ?? registration.active;
    while (there?.state === 'installing') await new Promise((next) => setTimeout(next, 20));
    return registration.waiting !== null;
  });

test('an update waits for the streams of all tabs and then takes over', async ({
  context,
  server,
}) => {
  const scenario: Scenario = {
    text: { kind: 'seeded', tokens: 120 },
    pace: { kind: 'fixed', ms: 20 },
  };
  const reads = await controlled(context, server, scenario);
  const updates = await controlled(context, server, scenario);
  const reading = reads.evaluate(async () => (await fetch('/lab/stream')).text());
  await updates.waitForTimeout(300);
  await newVersion(server);
  try {
    expect(await updates.evaluate(updated)).toBe(true);
    await updates.evaluate(() => {
      navigator.serviceWorker.addEventListener('controllerchange', () => {
        document.title = 'taken over';
      });
    });
    await updates.waitForTimeout(300);
    expect(await updates.title()).toBe('plain');
    const text = await reading;
    expect(text.match(/^data: "/gm)?.length).toBe(120);
    expect(text.endsWith('data: [DONE]\n\n')).toBe(true);
    await expect(updates).toHaveTitle('taken over');
    // The new one plays what the old one played, in both tabs.
    for (const page of [reads, updates]) {
      const again = await page.evaluate(async () => (await fetch('/lab/stream')).text());
      expect(again).toBe(text);
    }
  } finally {
    server.routes.delete(WORKER);
  }
});

test('a stream whose worker is replaced at once is whole or resumed, each event once', async ({
  context,
  server,
}) => {
  const page = await controlled(context, server, {
    text: { kind: 'seeded', tokens: 120 },
    pace: { kind: 'fixed', ms: 20 },
    resume: { graceMs: 30_000, ttlMs: 60_000 },
  });
  const reading = page.evaluate(async () => {
    const address = '/pkg/client.js';
    const { createClient } = (await import(address)) as typeof import('../../../js/client.js');
    const client = createClient({ providers: [{ name: 'worker' }] });
    const response = await client.fetch('/v1/chat/completions', {
      method: 'POST',
      body: JSON.stringify({ messages: [{ role: 'user', content: 'Hi' }], stream: true }),
    });
    return response.text();
  });
  await page.waitForTimeout(400);
  await newVersion(server, 'addEventListener("install", () => skipWaiting());\n');
  try {
    await page.evaluate(async () => {
      const { serviceWorker } = navigator;
      const over = new Promise((done) => {
        serviceWorker.addEventListener('controllerchange', done, { once: true });
      });
      await link.registration.update();
      await over;
    });
    const text = await reading;
    const ids = text.match(/^id: .*/gm) ?? [];
    expect(new Set(ids).size).toBe(ids.length);
    expect(text.match(/"content":"\w+ "/g)?.length).toBe(120);
    expect(text.endsWith('data: [DONE]\n\n')).toBe(true);
  } finally {
    server.routes.delete(WORKER);
  }
});
