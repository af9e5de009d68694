import type { Attempt, CachedReply, Client, ClientOptions, Provider } from '../../../js/client.js';
import { expect, test } from '../support/app.js';
import { entryUrl } from '../support/streaming.js';

type ClientEntry = typeof import('../../../js/client.js');
type SseEntry = typeof import('../../../js/sse.js');

type Answer = (request: Request, nth: number) => Response | Promise<Response>;

/** A provider that tells what it was asked. */
interface Fake extends Provider {
  asked: Request[];
}

function fake(name: string, answer: Answer, rest: Partial<Provider> = {}): Fake {
  const asked: Request[] = [];
  return {
    name,
    asked,
    fetch: async (input, init) => {
      const request = new Request(input, init);
      asked.push(request.clone());
      return answer(request, asked.length);
    },
    ...rest,
  };
}

interface Setup {
  client: Client;
  attempts: Attempt[];
}

async function setup(providers: Provider[], options: Partial<ClientOptions> = {}): Promise<Setup> {
  const { createClient } = (await import(entryUrl('client'))) as ClientEntry;
  const attempts: Attempt[] = [];
  const client = createClient({
    providers,
    // Waits of nothing: how long they are is tested apart.
    random: () => 0,
    onAttempt: (attempt) => attempts.push(attempt),
    ...options,
  });
  return { client, attempts };
}

const WORDS = ['One', ' é', ' three', ' four', ' five'];

function chunk(content: string): string {
  return JSON.stringify({ choices: [{ index: 0, delta: { content }, finish_reason: null }] });
}

/** A whole stream, with ids if there is a name for them. */
function sse(name?: string, words = WORDS): string {
  const id = (n: number): string => (name === undefined ? '' : `id: ${name}:${n}\n`);
  const events = words.map((word, n) => `${id(n)}data: ${chunk(word)}\n\n`);
  return `${events.join('')}${id(words.length)}data: [DONE]\n\n`;
}

/** A response of bytes; `cut`: the connection breaks after so many. */
function streamed(text: string, { cut = Infinity, reset = false } = {}): Response {
  const bytes = new TextEncoder().encode(text);
  let sent = false;
  const body = new ReadableStream<Uint8Array>({
    pull: (controller) => {
      if (!sent) controller.enqueue(bytes.slice(0, cut));
      else if (reset) controller.error(new TypeError('reset'));
      else controller.close();
      sent = true;
    },
  });
  return new Response(body, { headers: { 'content-type': 'text/event-stream; charset=utf-8' } });
}

const refusal = (status: number, headers: Record<string, string> = {}): Response =>
  new Response('{"error":{"message":"no"}}', { status, headers });

const json = (body: string): Response =>
  new Response(body, { headers: { 'content-type': 'application/json' } });

const ask = (client: Client, init: RequestInit = {}): Promise<Response> =>
  client.fetch('http://one.test/v1/chat/completions', {
    method: 'POST',
    body: JSON.stringify({ model: 'asked', messages: [], stream: true }),
    ...init,
  });

/** The text of all events, and what ended them. */
async function textOf(response: Response): Promise<[string, unknown]> {
  const { EventStreamParser } = (await import(entryUrl('sse'))) as SseEntry;
  let text = '';
  let end: unknown = 'cut';
  const parser = new EventStreamParser({
    onEvent: ({ data }) => {
      if (data === '[DONE]') end = 'done';
      else text += (JSON.parse(data) as Chunk).choices?.[0]?.delta.content ?? '';
    },
  });
  try {
    for await (const bytes of response.body as unknown as AsyncIterable<Uint8Array>) {
      parser.push(bytes);
    }
  } catch (error) {
    end = (error as { code?: string }).code ?? error;
  }
  return [text, end];
}

interface Chunk {
  choices?: { delta: { content?: string } }[];
}

const codeOf = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(() => 'none', (error: { code?: string }) => error.code ?? error);

const asked = (providers: Fake[]): number[] => providers.map(({ asked }) => asked.length);

test('a healthy provider is asked once and read to its marker', async () => {
  const providers = [fake('a', () => streamed(sse('r'))), fake('b', () => refusal(500))];
  const { client, attempts } = await setup(providers);
  const response = await ask(client);
  expect(response.headers.get('x-tokenbrook-provider')).toBe('a');
  expect(await textOf(response)).toEqual([WORDS.join(''), 'done']);
  expect(asked(providers)).toEqual([1, 0]);
  expect(attempts).toEqual([{ provider: 'a', rung: 0, attempt: 1, waitMs: 0 }]);
  expect(await client.meters()).toMatchObject({ calls: 1, errorShare: 0, rungShares: [1] });
});

test('a stream cut at any byte goes on where it was, each event once', async () => {
  const text = sse('r');
  const events = text.split(/(?<=\n\n)/);
  const first = new TextEncoder().encode(events[0]).length;
  const length = new TextEncoder().encode(text).length;
  for (let cut = first; cut < length; cut += 1) {
    const a = fake('a', ({ headers }) => {
      const last = headers.get('last-event-id');
      if (last === null) return streamed(text, { cut, reset: cut % 2 === 0 });
      return streamed(events.slice(Number(last.slice(2)) + 1).join(''));
    });
    const { client, attempts } = await setup([a]);
    expect(await textOf(await ask(client)), `cut at ${cut}`).toEqual([WORDS.join(''), 'done']);
    // A cut within the marker's event may leave nothing to ask for.
    const [, again] = a.asked;
    expect(again?.method, `cut at ${cut}`).toBe('GET');
    expect(attempts[1]?.lastEventId).toBe(again?.headers.get('last-event-id'));
  }
});

test('what a server tells again after a break is not shown again', async () => {
  const text = sse('r');
  const cut = text.indexOf('four');
  const a = fake('a', (_, nth) => streamed(text, { cut: nth === 1 ? cut : Infinity }));
  const { client } = await setup([a]);
  expect(await textOf(await ask(client))).toEqual([WORDS.join(''), 'done']);
  expect(a.asked).toHaveLength(2);
});

test('a POST is not sent again where it may have done something', async () => {
  for (const [answer, expected] of [
    [() => Promise.reject(new TypeError('reset')), [1, 1]],
    [() => refusal(500), [1, 1]],
    [() => streamed(sse(), { cut: 10, reset: true }), [1, 1]],
    [() => refusal(429), [3, 1]],
    [() => refusal(503), [3, 1]],
  ] as const) {
    const providers = [fake('a', answer), fake('b', () => streamed(sse()))];
    const { client, attempts } = await setup(providers);
    expect((await ask(client)).headers.get('x-tokenbrook-provider')).toBe('b');
    expect(asked(providers)).toEqual(expected);
    expect(attempts).toHaveLength(expected[0] + expected[1]);
  }
  const providers = [fake('a', () => refusal(500)), fake('b', () => streamed(sse()))];
  const { client } = await setup(providers);
  await ask(client, { headers: { 'idempotency-key': 'k' } });
  expect(asked(providers)).toEqual([3, 1]);
});

test('a stream that broke after its first text is not begun again elsewhere', async () => {
  const cut = sse().indexOf('three');
  const providers = [fake('a', () => streamed(sse(), { cut })), fake('b', () => streamed(sse()))];
  const { client } = await setup(providers);
  expect(await textOf(await ask(client))).toEqual(['One é', 'stream-incomplete']);
  expect(asked(providers)).toEqual([1, 0]);
});

test('a Retry-After is waited for', async () => {
  const a = fake('a', (_, nth) =>
    nth === 1 ? refusal(429, { 'retry-after': '1' }) : streamed(sse()),
  );
  const { client, attempts } = await setup([a]);
  const before = performance.now();
  await ask(client);
  expect(performance.now() - before).toBeGreaterThan(990);
  expect(attempts.map(({ waitMs }) => waitMs)).toEqual([0, 1000]);
});

test('a refusal of the request itself is the answer', async () => {
  const providers = [fake('a', () => refusal(400)), fake('b', () => streamed(sse()))];
  const { client } = await setup(providers);
  const response = await ask(client);
  expect([response.status, await response.text()]).toEqual([400, '{"error":{"message":"no"}}']);
  expect(asked(providers)).toEqual([1, 0]);
});

test('a rung that is late for its first text gives way to the next', async () => {
  const slow = fake('slow', () => new Promise<Response>(() => undefined), { deadlineMs: 40 });
  const role = `data: ${JSON.stringify({ choices: [{ delta: { role: 'assistant' } }] })}\n\n`;
  const silent = fake('silent', () => endless(role), { deadlineMs: 40 });
  const providers = [slow, silent, fake('c', () => streamed(sse()))];
  const { client } = await setup(providers);
  const response = await ask(client);
  expect(response.headers.get('x-tokenbrook-provider')).toBe('c');
  expect(slow.asked[0]?.signal.aborted).toBe(true);
});

/** A stream that says this and then nothing. */
function endless(text: string, cancelled: () => void = () => undefined): Response {
  const body = new ReadableStream<Uint8Array>({
    start: (controller) => controller.enqueue(new TextEncoder().encode(text)),
    cancel: cancelled,
  });
  return new Response(body, { headers: { 'content-type': 'text/event-stream' } });
}

test('a stream that falls silent is a timeout, and what came stays', async () => {
  let cancelled = false;
  const answer = () => endless(`data: ${chunk('One')}\n\n`, () => (cancelled = true));
  const { client } = await setup([fake('a', answer)], { silenceMs: 50 });
  expect(await textOf(await ask(client))).toEqual(['One', 'timeout']);
  expect(cancelled).toBe(true);
});

test('a failure within a stream is told and ends it', async () => {
  const text = `data: ${chunk('One')}\n\nevent: error\ndata: {"error":{"message":"busy"}}\n\n`;
  const { client } = await setup([fake('a', () => streamed(text))]);
  expect(await textOf(await ask(client))).toEqual(['One', 'server-error']);
});

test('a wrong kind of body before the first text goes to the next rung', async () => {
  const html = () => new Response('<p>', { headers: { 'content-type': 'text/html' } });
  const half = () => json('{"choices":[');
  const error = () => streamed(`data: {"error":{"message":"busy"}}\n\n${sse()}`);
  const broken = () => streamed('data: {"a":\n\n');
  const providers = [html, half, error, broken].map((answer, i) => fake(String(i), answer));
  const last = fake('last', () => streamed(sse()));
  const { client } = await setup([...providers, last]);
  expect((await ask(client)).headers.get('x-tokenbrook-provider')).toBe('last');
  expect(asked(providers)).toEqual([1, 1, 1, 1]);
});

test('the last rung is a reply of earlier', async () => {
  const kept = new Map<string, CachedReply>();
  const cache = {
    get: (key: string) => kept.get(key),
    set: (key: string, reply: CachedReply) => void kept.set(key, reply),
  };
  const a = fake('a', (_, nth) => (nth === 1 ? streamed(sse('r')) : refusal(503)));
  const { client } = await setup([a], { cache });
  const whole = await textOf(await ask(client));
  const again = await ask(client);
  expect(again.headers.get('x-tokenbrook-provider')).toBe('cache');
  expect(await textOf(again)).toEqual(whole);
  expect(await codeOf(ask(client, { body: '{"other":1}' }))).toBe('server-error');
});

test('an incomplete reply is not kept', async () => {
  const kept: string[] = [];
  const cache = { get: () => undefined, set: (key: string) => void kept.push(key) };
  const cut = sse().indexOf('three');
  const { client } = await setup([fake('a', () => streamed(sse(), { cut }))], { cache });
  await textOf(await ask(client));
  expect(kept).toEqual([]);
});

test('without an answer the client says why', async () => {
  for (const [answer, code, rest] of [
    [() => refusal(429), 'rate-limited', {}],
    [() => refusal(500), 'server-error', {}],
    [() => new Promise<Response>(() => undefined), 'timeout', { deadlineMs: 20 }],
  ] as const) {
    const { client } = await setup([fake('a', answer, rest)]);
    expect(await codeOf(ask(client))).toBe(code);
  }
  const { client } = await setup([fake('a', () => Promise.reject(new TypeError('reset')))]);
  await expect(ask(client)).rejects.toMatchObject({ cause: { message: 'reset' } });
});

test('a provider that fails is left alone for a while, and then asked by one call', async () => {
  const providers = [
    fake('a', (_, nth) => (nth > 4 ? streamed(sse()) : refusal(500))),
    fake('b', () => streamed(sse())),
  ];
  const breaker = { least: 4, restMs: 300 };
  const { client } = await setup(providers, { breaker });
  for (let i = 0; i < 8; i += 1) await (await ask(client)).text();
  expect(asked(providers)).toEqual([4, 8]);
  await new Promise((resume) => setTimeout(resume, 350));
  expect((await ask(client)).headers.get('x-tokenbrook-provider')).toBe('a');
});

test('each provider gets its address, its key and its pinned model', async () => {
  const a = fake('a', () => refusal(500));
  const b = fake('b', () => streamed(sse()), {
    baseUrl: 'https://two.test/api/v1/',
    headers: { authorization: 'Bearer two' },
    model: 'm-2',
    previousModel: 'm-1',
  });
  const { client } = await setup([a, b]);
  await ask(client, { headers: { 'x-own': 'yes' } });
  client.rollBack('b');
  await ask(client);
  expect(a.asked[0]?.url).toBe('http://one.test/v1/chat/completions');
  expect(await a.asked[0]?.json()).toMatchObject({ model: 'asked' });
  const [first, second] = b.asked;
  expect(first?.url).toBe('https://two.test/api/v1/chat/completions');
  expect(first?.headers.get('authorization')).toBe('Bearer two');
  expect(first?.headers.get('x-own')).toBe('yes');
  expect(await first?.json()).toEqual({ model: 'm-2', messages: [], stream: true });
  expect(await second?.json()).toMatchObject({ model: 'm-1' });
});

test('an abort ends everything with its reason', async () => {
  const reason = new Error('enough');
  const early = new AbortController();
  const waiting = await setup([fake('a', () => new Promise<Response>(() => undefined))]);
  const call = codeOf(ask(waiting.client, { signal: early.signal }));
  setTimeout(() => early.abort(reason), 20);
  expect(await call).toBe(reason);

  const late = new AbortController();
  const answer = () => endless(`data: ${chunk('One')}\n\n`);
  const reading = await setup([fake('a', answer)]);
  const text = textOf(await ask(reading.client, { signal: late.signal }));
  setTimeout(() => late.abort(reason), 20);
  expect(await text).toEqual(['One', reason]);
  expect(reading.attempts).toHaveLength(1);
});

test('a reader that leaves closes the connection', async () => {
  let cancelled = false;
  const answer = () => endless(`data: ${chunk('One')}\n\n`, () => (cancelled = true));
  const a = fake('a', answer);
  const { client } = await setup([a]);
  const reader = (await ask(client)).body?.getReader();
  await reader?.read();
  await reader?.cancel();
  expect([cancelled, a.asked[0]?.signal.aborted]).toEqual([true, true]);
});

test('a whole reply is handed on as it is, with its spend and its cached share', async () => {
  const body = JSON.stringify({
    choices: [{ message: { content: 'hi' }, finish_reason: 'stop' }],
    usage: {
      prompt_tokens: 1000,
      completion_tokens: 100,
      prompt_tokens_details: { cached_tokens: 600 },
    },
  });
  const a = fake('a', () => json(body), { prices: { prompt: 2, cached: 1, completion: 10 } });
  const { client } = await setup([a]);
  expect(await (await ask(client)).text()).toBe(body);
  const { spend, cachedShare } = await client.meters();
  expect(spend).toBeCloseTo((400 * 2 + 600 * 1 + 100 * 10) / 1e6, 12);
  expect(cachedShare).toBe(0.6);
});

test('a silent model swap shows in the evaluation set', async () => {
  let model = 'Paris';
  const reply = () => JSON.stringify({ choices: [{ message: { content: model } }] });
  const a = fake('a', () => json(reply()));
  const cases = [{ body: { messages: [] }, passes: (text: string) => text === 'Paris' }];
  const { client } = await setup([a], { evals: { cases }, limits: { evalShare: 0.9 } });
  expect([await client.evaluate(), (await client.meters()).alerts]).toEqual([1, []]);
  model = 'Lyon';
  expect(await client.evaluate()).toBe(0);
  expect((await client.meters()).alerts).toEqual(['eval-share']);
});

test('the evaluation set is asked on a schedule until the client is disposed', async () => {
  let nowMs = 0;
  let calls: { ms: number; call: () => void }[] = [];
  const timers = {
    nowMs: () => nowMs,
    at: (ms: number, call: () => void) => {
      const entry = { ms, call };
      calls.push(entry);
      return () => void (calls = calls.filter((other) => other !== entry));
    },
  };
  const a = fake('a', () => json('{"choices":[{"message":{"content":"Paris"}}]}'));
  const cases = [{ body: {}, passes: (text: string) => text === 'Paris' }];
  const { client } = await setup([a], { evals: { cases, everyMs: 1000 }, timers });
  for (const expected of [1, 2]) {
    nowMs += 1000;
    const due = calls.filter(({ ms }) => ms <= nowMs);
    calls = calls.filter((entry) => !due.includes(entry));
    for (const { call } of due) call();
    await expect.poll(() => a.asked.length).toBe(expected);
  }
  expect((await client.meters()).evalShare).toBe(1);
  client.dispose();
  expect(calls).toEqual([]);
});

test('options of the wrong kind are refused', async () => {
  const good = fake('a', () => refusal(500));
  for (const [providers, options, name] of [
    [[], {}, 'providers'],
    [[good], { retry: { attempts: Number.NaN } }, 'attempts'],
    [[good], { silenceMs: -1 }, 'silenceMs'],
    [[good], { retry: { baseMs: '5' as unknown as number } }, 'baseMs'],
    [[{ ...good, deadlineMs: 0 }], {}, 'deadlineMs'],
    [[{ ...good, fetch: 5 as never }], {}, 'fetch'],
  ] as const) {
    await expect(setup([...providers], options)).rejects.toThrow(new RegExp(name));
  }
});
