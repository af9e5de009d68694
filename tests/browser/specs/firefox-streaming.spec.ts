// The small module in Firefox: the mock's service worker, other people's clients, the stopwatch.

import type { Browser, Page } from 'puppeteer-core';

import type { MockRegistration, Scenario } from '../../../js/mock.js';
import { expect, test } from '../support/app.js';
import { bundleClients } from '../support/clients.js';
import { launchFirefox } from '../support/firefox.js';

declare global {
  var stopwatch: typeof import('../../../js/measure.js');
  var link: MockRegistration;
}

const TEXT = 'A model does not write the whole answer at once. It makes it one piece at a time. ';
const WORKER = '/pkg/mock-service-worker.js';

/** Firefox ends an idle worker after 30 s; two minutes are asked for by TOKENBROOK_SLOW. */
const LONG_MS = process.env['TOKENBROOK_SLOW'] === undefined ? 40_000 : 120_000;

let browser: Browser;
let page: Page;

test.beforeAll(async ({ server }) => {
  server.routes.set('/clients/', await bundleClients());
  server.routes.set('/plain.html', Buffer.from('<!doctype html><p id="out"></p>'));
  server.headers.set(WORKER, { 'service-worker-allowed': '/' });
  browser = await launchFirefox();
  page = await browser.newPage();
  await page.goto(`${server.url}/plain.html`);
  await page.evaluate(async (worker) => {
    const [mock, measure] = ['/pkg/mock.js', '/pkg/measure.js'];
    const { register } = (await import(mock)) as typeof import('../../../js/mock.js');
    globalThis.stopwatch = (await import(measure)) as typeof stopwatch;
    globalThis.link = await register(worker, { scope: '/', scenario: {} });
    await stopwatch.ready;
  }, WORKER);
});

test.afterAll(() => browser?.close());

const play = (scenario: Scenario): Promise<void> =>
  page.evaluate((scenario) => link.play(scenario), scenario);

test('the stopwatch sees a stream as it is made, up to its paint', async () => {
  const { timeline, verdict } = await page.evaluate(async () => {
    await (await fetch('/lab/stream')).text();
    const element = document.querySelector('#out') as Element;
    const timeline = await stopwatch.measure('/lab/stream', { element, generator: link });
    return { timeline, verdict: stopwatch.diagnoseStream(timeline).verdict };
  });
  expect(timeline.text).toBe(TEXT);
  expect([timeline.bodyBytes, timeline.completion, verdict]).toEqual([276, 'marker', 'healthy']);
  const { requestMs, firstTokenMs, firstTextMs, firstRenderedMs, lastTextMs } = timeline;
  // Firefox tells times in whole milliseconds.
  const moments = [requestMs, firstTokenMs, firstTextMs, firstRenderedMs].map((at) => at ?? 0);
  for (let n = 1; n < moments.length; n += 1) {
    expect((moments[n] ?? 0) - (moments[n - 1] ?? 0)).toBeGreaterThan(-2);
  }
  expect((lastTextMs ?? 0) - (firstTextMs ?? 0)).toBeGreaterThan(400);
  expect(timeline.renderedBy).not.toBeNull();
});

test('other clients read the mock unchanged', async () => {
  const seen = await page.evaluate(async () => {
    const address = '/clients/clients.js';
    const clients = (await import(address)) as typeof globalThis.clients;
    const openai = new clients.OpenAI({
      baseURL: `${location.origin}/v1`,
      apiKey: 'none',
      dangerouslyAllowBrowser: true,
      maxRetries: 0,
    });
    const body = { model: 'mock', messages: [{ role: 'user' as const, content: 'Hi' }] };
    let streamed = '';
    for await (const chunk of await openai.chat.completions.create({ ...body, stream: true })) {
      streamed += chunk.choices[0]?.delta.content ?? '';
    }
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
    return { streamed, parsed, native };
  });
  expect(seen.streamed).toBe(TEXT);
  for (const data of [seen.parsed, seen.native]) {
    expect(data.pop()).toBe('[DONE]');
    expect(data.map((word) => JSON.parse(word) as string).join('')).toBe(TEXT);
  }
});

test('a native EventSource comes back after a broken body', async () => {
  await play({
    pace: { kind: 'fixed', ms: 10 },
    faults: { cut: { byte: 200, reset: true }, firstRequests: 1 },
    resume: { graceMs: 10_000, ttlMs: 60_000, retryMs: 100 },
  });
  const seen = await page.evaluate(async () => {
    const events = new Map<string, string>();
    const source = new EventSource('/lab/stream?reply=native');
    const end = await new Promise<string>((done) => {
      source.onmessage = (event: MessageEvent<string>) => {
        events.set(event.lastEventId, event.data);
        if (event.data === '[DONE]') done('the marker');
      };
      setTimeout(() => done(`nothing more, state ${source.readyState}`), 15_000);
    });
    source.close();
    return { ids: [...events.keys()], end };
  });
  expect(seen.end).toBe('the marker');
  expect(seen.ids).toEqual(Array.from({ length: 19 }, (_, n) => `native:${n}`));
});

test('a stream longer than an idle worker lives arrives whole', async () => {
  test.setTimeout(LONG_MS + 120_000);
  const tokens = LONG_MS / 200;
  await play({ text: { kind: 'seeded', tokens }, pace: { kind: 'fixed', ms: 200 } });
  const seen = await page.evaluate(async () => {
    const start = performance.now();
    const text = await (await fetch('/lab/stream')).text();
    return { text, ms: performance.now() - start };
  });
  expect(seen.ms).toBeGreaterThanOrEqual(LONG_MS);
  expect(seen.text.match(/^data: "/gm)?.length).toBe(tokens);
  expect(seen.text.endsWith('data: [DONE]\n\n')).toBe(true);
});
