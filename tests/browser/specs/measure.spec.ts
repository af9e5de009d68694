// The stopwatch against the mock: in this process, and in a page through the service worker.

import type { BrowserContext, Page } from '@playwright/test';

import type { Timeline } from '../../../js/measure.js';
import type { MockRegistration, MockServer, Scenario } from '../../../js/mock.js';
import { expect, test } from '../support/app.js';
import { loadMeasure, loadMock } from '../support/streaming.js';

declare global {
  var stopwatch: typeof import('../../../js/measure.js');
  var link: MockRegistration;
  var mock: typeof import('../../../js/mock.js');
}

const TEXT = 'A model does not write the whole answer at once. It makes it one piece at a time. ';
const WORKER = '/pkg/mock-service-worker.js';

async function serve(scenario: Scenario): Promise<MockServer> {
  const { createMockServer } = await loadMock();
  const server = createMockServer(scenario);
  // What the first call of a process costs is no part of any measurement here.
  await (await server.fetch('/lab/stats')).text();
  return server;
}

const CHAT = {
  method: 'POST',
  body: JSON.stringify({
    model: 'mock',
    stream: true,
    stream_options: { include_usage: true },
    messages: [{ role: 'user', content: 'Hi' }],
  }),
};

test('the eighteen words, whole and streamed, at every moment', async () => {
  const { measure } = await loadMeasure();
  const { fetch } = await serve({});
  const [wait, stream] = await Promise.all([
    measure('/lab/wait', { fetch }),
    measure('/lab/stream', { fetch }),
  ]);
  expect([wait.bodyBytes, stream.bodyBytes]).toEqual([93, 276]);
  expect([wait.text, stream.text]).toEqual([TEXT, TEXT]);
  expect([wait.completion, stream.completion]).toEqual(['body', 'marker']);
  for (const timeline of [wait, stream]) {
    const { requestMs, headersMs, firstTokenMs, firstTextMs, closedMs } = timeline;
    expect((closedMs ?? 0) - requestMs).toBeGreaterThanOrEqual(594);
    expect((firstTokenMs ?? 0) - requestMs).toBeGreaterThanOrEqual(33);
    expect(headersMs).toBeLessThanOrEqual(firstTextMs ?? 0);
    // Nothing is parsed before it is made, on one clock.
    expect(firstTextMs).toBeGreaterThanOrEqual(firstTokenMs ?? Infinity);
    expect(timeline.firstRenderedMs).toBeNull();
  }
  expect(stream.events.length).toBe(18);
  expect(stream.reads.length).toBe(19);
  expect(stream.tokens).toBe(18);
  expect(wait.firstTextMs).toBeGreaterThanOrEqual(wait.generationEndMs ?? Infinity);
});

test('a run is there while it goes on, open, and stays as it ended', async () => {
  const { diagnoseStream, measure } = await loadMeasure();
  const { fetch } = await serve({});
  let soFar = (): Timeline => {
    throw new Error('nothing has begun');
  };
  const seen: Timeline[] = [];
  const timeline = await measure('/lab/stream', {
    fetch,
    onStart: (give) => (soFar = give),
    onEvent: () => seen.push(soFar()),
  });
  const counts = Array.from({ length: 18 }, (_, n) => n + 1);
  expect(seen.map(({ events }) => events.length)).toEqual(counts);
  expect(new Set(seen.map(({ outcome }) => outcome))).toEqual(new Set(['open']));
  expect(seen.at(-1)?.closedMs).toBeNull();
  const [first, , , , , , , last] = seen.map((one) => diagnoseStream(one).verdict);
  expect([first, last]).toEqual(['unclear', 'healthy']);
  expect(soFar()).toEqual(timeline);
});

test('each definition has its own figure of the same calls', async () => {
  const { measure, summarize, figureSources } = await loadMeasure();
  const { fetch } = await serve({
    faults: { roleChunk: 'at-once' },
    prefill: { queueMs: 900 },
    pace: { kind: 'fixed', ms: 10 },
  });
  const calls = Array.from({ length: 6 }, () =>
    measure('/v1/chat/completions', { fetch, init: CHAT }),
  );
  const summary = summarize(await Promise.all(calls));
  expect(summary).toMatchObject({ calls: 6, complete: 6, completionRate: 1, tokens: 108 });
  const names = figureSources().map(([name]) => name);
  // Nothing is painted here; all else is measured.
  expect(Object.keys(summary.figures)).toEqual(names.filter((name) => name !== 'ttft.first_paint'));
  const p50 = (name: (typeof names)[number]): number => summary.figures[name]?.p50 ?? NaN;
  // A chunk with a role alone is a first token for some, and text for nobody.
  expect(p50('ttft.any_chunk')).toBeLessThan(900);
  expect(p50('ttft.generator')).toBeGreaterThanOrEqual(910);
  expect(p50('ttft.first_text')).toBeGreaterThanOrEqual(p50('ttft.generator'));
  expect(p50('ttft.first_response')).toBe(p50('ttft.any_chunk'));
  // A usage event counts as a response and as no token.
  expect(p50('e2e.last_response')).toBeGreaterThan(p50('e2e.last_text'));
  expect(p50('tpot')).toBeGreaterThan(10);
  expect(summary.figures['ttft.first_text']?.p50Interval).not.toBeNull();
  expect(summary.figures['itl.events']?.count).toBe(6 * 19);
});

test('what is not complete is an outcome and no time', async () => {
  const { measure, summarize } = await loadMeasure();
  const cases: [Scenario, Partial<Timeline>][] = [
    [{ faults: { omit: 'all' } }, { outcome: 'incomplete', failure: null }],
    [{ faults: { cut: { byte: 100, reset: true } } }, { outcome: 'failed', failure: 'reset' }],
    [{ faults: { cut: { byte: 105 } } }, { outcome: 'failed', failure: 'truncated' }],
    [{ faults: { failAt: { token: 3 } } }, { outcome: 'failed', failure: 'event' }],
    [{ faults: { failBefore: { status: 503 } } }, { outcome: 'failed', failure: 'status' }],
  ];
  const seen = [];
  for (const [scenario, wanted] of cases) {
    const { fetch } = await serve({ pace: { kind: 'fixed', ms: 1 }, ...scenario });
    const timeline = await measure('/lab/stream', { fetch });
    expect(timeline, JSON.stringify(scenario)).toMatchObject(wanted);
    seen.push(timeline);
  }
  const { fetch } = await serve({});
  const init = { signal: AbortSignal.timeout(150) };
  const aborted = await measure('/lab/stream', { fetch, init });
  expect(aborted).toMatchObject({ outcome: 'failed', failure: 'aborted' });
  expect(aborted.text).toMatch(/^A model /);
  const nobody = await measure('http://127.0.0.1:1/', {});
  expect(nobody).toMatchObject({ outcome: 'failed', failure: 'reset', headersMs: null });
  const summary = summarize([...seen, aborted, nobody]);
  expect(summary).toMatchObject({ complete: 0, incomplete: 1, failed: 6, completionRate: 0 });
  expect(summary.figures).toEqual({});
});

test('runs are read back from JSON, and written as tables', async () => {
  const { measure, summarize, summaryToCsv, timelinesToCsv } = await loadMeasure();
  const { fetch } = await serve({
    text: { kind: 'words', words: 'a "b", c' },
    pace: { kind: 'fixed', ms: 5 },
  });
  const timeline = await measure('/lab/stream', { fetch });
  const again = JSON.parse(JSON.stringify(timeline)) as Timeline;
  expect(summarize([again])).toEqual(summarize([timeline]));
  const rows = timelinesToCsv([again]).trimEnd().split('\r\n');
  expect(rows[0]).toBe('call,kind,ms,at,bytes,tokens,text');
  expect(rows.filter((row) => row.startsWith('0,event,')).length).toBe(3);
  expect(rows.join('\n')).toContain(',"""b"", "');
  expect(rows.at(-1)).toMatch(/^0,outcome,,,\d+,3,complete: marker$/);
  const table = summaryToCsv(summarize([timeline])).trimEnd().split('\r\n');
  expect(table.find((row) => row.startsWith('ttft.first_text,1,'))).toBeDefined();
  for (const row of table) expect(row.split(',').length).toBe(13);
  for (const bad of [[{ requestMs: 'x' }], 5, null]) {
    const refused = expect.objectContaining({ code: 'invalid-option' }) as Error;
    expect(() => summarize(bad as unknown as Timeline[])).toThrow(refused);
  }
});

test('an option of the wrong kind is refused', async () => {
  const { measure } = await loadMeasure();
  const wrong = [
    { fetch: 1 },
    { onEvent: {} },
    { onStart: 1 },
    { element: 'body' },
    { generator: {} },
  ];
  for (const options of wrong) {
    const refused = { code: 'invalid-option', message: expect.stringContaining('Option') };
    await expect(measure('/x', options as object)).rejects.toMatchObject(refused);
  }
  const { fetch, stats } = await serve({});
  const onEvent = (): void => {
    throw new Error('mine');
  };
  await expect(measure('/lab/stream', { fetch, onEvent })).rejects.toThrow('mine');
  expect(stats()).toMatchObject({ cancelled: 1, connections: 0 });
});

/** A page that the mock's worker controls, with the stopwatch. */
async function controlled(context: BrowserContext, url: string, scenario: Scenario): Promise<Page> {
  const page = await context.newPage();
  await page.goto(`${url}/stopwatch.html`);
  await page.evaluate(
    async ([worker, scenario]) => {
      const [mock, measure] = ['/pkg/mock.js', '/pkg/measure.js'];
      globalThis.mock = (await import(mock)) as typeof globalThis.mock;
      globalThis.stopwatch = (await import(measure)) as typeof stopwatch;
      globalThis.link = await globalThis.mock.register(worker, { scope: '/', scenario });
      // The first call of a worker is no part of any measurement here.
      await (await fetch('/lab/stats')).text();
    },
    [WORKER, scenario] as const,
  );
  return page;
}

test.describe('in a page', () => {
  test.beforeAll(({ server }) => {
    const page = '<!doctype html><title>stopwatch</title><p id="out"></p>';
    server.routes.set('/stopwatch.html', Buffer.from(page));
    server.headers.set(WORKER, { 'service-worker-allowed': '/' });
  });

  test('text is shown and its paint is seen, on the clock of the generator', async ({
    context,
    server,
  }) => {
    const page = await controlled(context, server.url, {});
    for (const by of ['element-timing', 'animation-frames'] as const) {
      const timeline = await page.evaluate(async (by) => {
        const old = document.querySelector('#out') as Element;
        const element = document.createElement('p');
        element.id = 'out';
        old.replaceWith(element);
        // Text of an inline element is reported for the block around it.
        if (by === 'animation-frames') {
          element.append(document.createElement('span'));
        }
        const target = element.firstElementChild ?? element;
        const options = { element: target, generator: link };
        const timeline = await stopwatch.measure('/lab/stream', options);
        await new Promise((frame) => requestAnimationFrame(frame));
        if (target.textContent !== timeline.text) throw new Error('the text is not all shown');
        if (target.hasAttribute('elementtiming')) throw new Error('the attribute stays');
        return timeline;
      }, by);
      expect(timeline.text).toBe(TEXT);
      expect(timeline.renderedBy).toBe(by);
      const { requestMs, firstTokenMs, firstTextMs, firstRenderedMs, lastTextMs } = timeline;
      const moments = [firstTokenMs, firstTextMs, firstRenderedMs];
      const firsts = moments.map((at) => (at ?? 0) - requestMs);
      expect(firsts).toEqual([...firsts].sort((a, b) => a - b));
      expect(firsts[0]).toBeGreaterThanOrEqual(33);
      expect(firsts[2]).toBeLessThan((lastTextMs ?? 0) - requestMs);
      expect(timeline.generationEndMs).toBeLessThanOrEqual(lastTextMs ?? 0);
      expect(timeline.bodyBytes).toBe(276);
    }
  });

  test('stamps are found for scenarios of the address too', async ({ context, server }) => {
    const page = await controlled(context, server.url, {});
    const timeline = await page.evaluate(() =>
      stopwatch.measure('/lab/stream?scenario=lab', { generator: link }),
    );
    expect(timeline.tokens).toBe(120);
    expect(timeline.firstTokenMs).not.toBeNull();
    expect(timeline.firstTextMs).toBeGreaterThanOrEqual(timeline.firstTokenMs ?? Infinity);
  });

  test('a busy page distorts no stamp of the generator, and delays only the paint', async ({
    context,
    server,
  }) => {
    const scenario: Scenario = {
      pace: { kind: 'fixed', ms: 33 },
      text: { kind: 'seeded', tokens: 150 },
    };
    const page = await controlled(context, server.url, scenario);
    const other = JSON.stringify({ ...scenario, seed: 1 });
    const seen = await page.evaluate(async (other) => {
      const block = (): void => {
        const end = performance.now() + 200;
        while (performance.now() < end);
      };
      const now = (): number => performance.timeOrigin + performance.now();
      const element = document.querySelector('#out') as Element;
      /** When each event was painted, as frames tell. */
      const paints: number[] = [];
      const worker = new Worker('/workers/stopwatch.js', { type: 'module' });
      const run = new Promise<import('../../../js/measure.js').Timeline>((done) => {
        let shown = 0;
        let got = 0;
        worker.onmessage = ({ data }: MessageEvent) => {
          const { event, timeline } = data as {
            event?: { text: string };
            timeline?: import('../../../js/measure.js').Timeline;
          };
          if (timeline !== undefined) done(timeline);
          if (event === undefined) return;
          element.append(event.text);
          got += 1;
          requestAnimationFrame(() =>
            requestAnimationFrame(() => {
              for (; shown < got; shown += 1) paints.push(now());
            }),
          );
        };
      });
      worker.postMessage(`/lab/stream?scenario=${encodeURIComponent(other)}`);
      // The page's own stopwatch is as busy as the page.
      const own = stopwatch.measure('/lab/stream', { generator: link });
      const jank = setInterval(block, 1000);
      const timeline = await run;
      clearInterval(jank);
      worker.terminate();
      const trace = await link.trace(undefined, other);
      const made = trace.filter(({ event }) => event === 'token').map(({ atMs }) => atMs);
      const verdicts = [timeline, await own].map((at) => stopwatch.diagnoseStream(at));
      return { timeline, own: await own, paints, made, verdicts };
    }, other);
    const gaps = (times: readonly number[]): number[] =>
      times.slice(1).map((at, index) => at - (times[index] ?? 0));
    const parsed = seen.timeline.events.map(({ atMs }) => atMs);
    expect(seen.made.length).toBe(150);
    expect(parsed.length).toBe(150);
    // The generator's own stamps keep their pace to the end.
    const total = (seen.made.at(-1) ?? 0) - (seen.made[0] ?? 0);
    expect(Math.abs(total - 149 * 33)).toBeLessThan(20);
    expect(Math.max(...gaps(seen.made))).toBeLessThan(45);
    // The stopwatch in its thread sees text as it is made ...
    const lags = parsed.map((at, index) => at - (seen.made[index] ?? 0));
    const late = lags.filter((ms) => ms > 120).length;
    expect(late, String(Math.max(...lags))).toBeLessThan(10);
    // ... and the page shows it late, which it has to: it was busy for a fifth of the time.
    const delays = seen.paints.map((at, index) => at - (parsed[index] ?? 0));
    expect(Math.max(...delays)).toBeGreaterThan(130);
    const { firstTokenMs, generationEndMs } = seen.own;
    const ownTotal = (generationEndMs ?? 0) - (firstTokenMs ?? 0);
    expect(Math.abs(ownTotal - 149 * 33)).toBeLessThan(20);
    expect(seen.verdicts[0]?.verdict).toBe('healthy');
    // No hop is blamed for it.
    expect(seen.verdicts[1]?.hop, JSON.stringify(seen.verdicts[1])).toBeNull();
  });
});
