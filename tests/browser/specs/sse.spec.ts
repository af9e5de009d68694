import { execFileSync } from 'node:child_process';

import { createParser } from 'eventsource-parser';

import type { EventStreamParser, ServerSentEvent } from '../../../js/sse.js';
import { expect, openPage, test } from '../support/app.js';
import { cutAtRandom, entryUrl, loadSse, numbersFrom } from '../support/streaming.js';

const utf8 = new TextEncoder();

/** What `eventsource-parser` and ours both tell; it has ids of an event's own block only. */
interface Seen {
  events: { event: string; data: string }[];
  comments: string[];
  retries: number[];
}

function nothing(): Seen {
  return { events: [], comments: [], retries: [] };
}

/** What the package that serves as an oracle finds in these pieces. */
function oracle(pieces: Uint8Array<ArrayBuffer>[]): Seen {
  const seen = nothing();
  const parser = createParser({
    onEvent: ({ event = 'message', data }) => seen.events.push({ event, data }),
    onComment: (comment) => seen.comments.push(comment),
    onRetry: (ms) => seen.retries.push(ms),
  });
  const decoder = new TextDecoder();
  for (const piece of pieces) parser.feed(decoder.decode(piece, { stream: true }));
  return seen;
}

async function ours(pieces: Uint8Array<ArrayBuffer>[]): Promise<Seen> {
  const { EventStreamParser } = await loadSse();
  const seen = nothing();
  const parser = new EventStreamParser({
    onEvent: ({ event, data }) => seen.events.push({ event, data }),
    onComment: (comment) => seen.comments.push(comment),
    onRetry: (ms) => seen.retries.push(ms),
  });
  for (const piece of pieces) parser.push(piece);
  parser.end();
  return seen;
}

/** A source that tells how often it was asked. */
function source(pieces: string[]): { stream: ReadableStream<Uint8Array>; pulled(): number } {
  let pulled = 0;
  const stream = new ReadableStream<Uint8Array>(
    {
      pull: (controller) => {
        const piece = pieces[pulled];
        pulled += 1;
        if (piece === undefined) controller.close();
        else controller.enqueue(utf8.encode(piece));
      },
    },
    { highWaterMark: 0 },
  );
  return { stream, pulled: () => pulled };
}

const later = (ms = 20): Promise<void> => new Promise((resume) => setTimeout(resume, ms));

const rejection = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(() => 'no rejection', (error: unknown) => error);

async function collect(stream: ReadableStream<ServerSentEvent>): Promise<string[]> {
  const data = [];
  for await (const event of stream as unknown as AsyncIterable<ServerSentEvent>) {
    data.push(event.data);
  }
  return data;
}

test('random streams read as eventsource-parser reads them', async () => {
  const parts = [
    ...['data', 'data:', 'data: ', 'event: ', 'id: ', 'retry: ', ':', ' ', '\n', '\n', '\n\n'],
    ...['\r', '\r\n', '\r\n\r\n', '250', 'x', '[DONE]', 'é', '\u{1F600}', '\u2028', '{"a":1}'],
  ];
  let events = 0;
  for (let seed = 0; seed < 1_500; seed += 1) {
    const below = numbersFrom(seed);
    let text = '';
    for (let i = below(40); i >= 0; i -= 1) text += parts[below(parts.length)];
    // The package ends an event with a CR at the end of a piece only when more comes.
    const pieces = cutAtRandom(utf8.encode(`${text}\n:end\n`), 1 + below(9), below);
    const expected = oracle(pieces);
    expect(await ours(pieces), `seed ${seed}: ${JSON.stringify(text)}`).toEqual(expected);
    events += expected.events.length;
  }
  expect(events).toBeGreaterThan(500);
});

test('eventsource-parser reads what the encoder writes', async () => {
  const { encodeEvent } = await loadSse();
  const texts = ['', 'a', ' b', 'x: y', 'é\u2028', ':', 'data: d', '\u{1F600}', 'e\nf', '\n\n'];
  for (let seed = 0; seed < 500; seed += 1) {
    const below = numbersFrom(seed);
    const pick = (lines: boolean): string => texts[below(texts.length - (lines ? 0 : 2))] ?? '';
    const event = pick(false);
    const fields = { event, data: pick(true), comment: pick(true), retry: below(9_999) };
    const seen = oracle([utf8.encode(encodeEvent(fields))]);
    expect(seen.events).toEqual([{ event: event || 'message', data: fields.data }]);
    expect(seen.retries).toEqual([fields.retry]);
    expect(seen.comments).toEqual(fields.comment.split('\n'));
  }
});

test('the encoder refuses what the format cannot carry', async () => {
  const { encodeEvent } = await loadSse();
  for (const [fields, name] of [
    [{ event: 'a\nb' }, 'event'],
    [{ id: 'a\rb' }, 'id'],
    [{ id: 'a\0' }, 'id'],
    [{ retry: 1.5 }, 'retry'],
    [{ retry: -1 }, 'retry'],
    [{ data: 5 as unknown as string }, 'data'],
  ] as const) {
    let thrown: unknown;
    try {
      encodeEvent(fields);
    } catch (error) {
      thrown = error;
    }
    expect(thrown).toMatchObject({ name: 'TokenbrookError', code: 'invalid-option' });
    expect(String(thrown)).toContain(name);
  }
});

test('events have the type message and the last id where they name none', async () => {
  const { EventStreamParser } = await loadSse();
  const events: ServerSentEvent[] = [];
  const parser = new EventStreamParser({ onEvent: (event) => events.push(event) });
  parser.push(utf8.encode('data: a\n\nid: 1\nevent: x\ndata: b\n\ndata: c\n\nid: 2\n\n'));
  expect(events).toEqual([
    { event: 'message', data: 'a', id: '' },
    { event: 'x', data: 'b', id: '1' },
    { event: 'message', data: 'c', id: '1' },
  ]);
  expect(parser.lastEventId).toBe('2');
});

test('pieces may be any kind of bytes, and nothing else', async () => {
  const { EventStreamParser } = await loadSse();
  const seen: string[] = [];
  const parser = new EventStreamParser({ onEvent: ({ data }) => seen.push(data) });
  const bytes = utf8.encode('xxdata: a\n\nyy');
  parser.push(bytes.subarray(2, 11));
  parser.push(bytes.buffer.slice(2, 11));
  parser.push(new DataView(bytes.buffer, 2, 9));
  parser.push(Buffer.from('data: a\n\n'));
  parser.push(new Uint8Array());
  parser.push(new ArrayBuffer(0));
  expect(seen).toEqual(['a', 'a', 'a', 'a']);
  for (const wrong of ['data: a\n\n', null, undefined, 7, [100], {}]) {
    expect(() => parser.push(wrong as never)).toThrow(/bytes/);
  }
});

test('an end within a callback drops the rest of the piece', async () => {
  const { EventStreamParser } = await loadSse();
  const seen: string[] = [];
  const parser: EventStreamParser = new EventStreamParser({
    onEvent: ({ data }) => {
      seen.push(data);
      if (data === '[DONE]') parser.end();
    },
  });
  parser.push(utf8.encode('data: a\n\ndata: [DONE]\n\ndata: late\n\n'));
  expect(seen).toEqual(['a', '[DONE]']);
});

test('a push within a callback is read after what is there', async () => {
  const { EventStreamParser } = await loadSse();
  const seen: string[] = [];
  const parser: EventStreamParser = new EventStreamParser({
    onEvent: ({ data }) => {
      seen.push(data);
      if (data !== 'a') return;
      parser.push(utf8.encode('data: c\n\n'));
      seen.push('pushed');
    },
  });
  parser.push(utf8.encode('data: a\n\ndata: b\n\n'));
  expect(seen).toEqual(['a', 'pushed', 'b', 'c']);
});

test('a callback that throws loses nothing behind it', async () => {
  const { EventStreamParser } = await loadSse();
  const seen: string[] = [];
  const parser = new EventStreamParser({
    onEvent: ({ data }) => {
      seen.push(data);
      if (data === 'a') throw new Error('not now');
    },
  });
  expect(() => parser.push(utf8.encode('data: a\n\ndata: b\n\n'))).toThrow('not now');
  parser.push(new Uint8Array());
  expect(seen).toEqual(['a', 'b']);
});

test('an event beyond the limit is a server-error, until the stream is over', async () => {
  const { EventStreamParser } = await loadSse();
  const seen: string[] = [];
  const parser = new EventStreamParser({
    onEvent: ({ data }) => seen.push(data),
    maxBufferBytes: 16,
  });
  const push = (text: string): unknown => {
    try {
      parser.push(utf8.encode(text));
    } catch (error) {
      return error;
    }
    return undefined;
  };
  const tooLarge = { name: 'TokenbrookError', code: 'server-error' };
  expect(push(`data: a\n\ndata: ${'x'.repeat(17)}`)).toMatchObject(tooLarge);
  expect(push('\n\ndata: b\n\n')).toMatchObject(tooLarge);
  parser.end();
  expect(push('data: c\n\n')).toBeUndefined();
  expect(seen).toEqual(['a', 'c']);
  for (const maxBufferBytes of [0, -1, 1.5, Number.NaN, '9' as unknown as number]) {
    expect(() => new EventStreamParser({ onEvent: () => undefined, maxBufferBytes })).toThrow(
      /maxBufferBytes/,
    );
  }
});

test('a stream is parsed no further than its reader pulls', async () => {
  const { eventStream } = await loadSse();
  const pieces = Array.from({ length: 50 }, (_, i) => `data: ${i}\n\n`);
  const { stream, pulled } = source(pieces);
  const reader = stream.pipeThrough(eventStream()).getReader();
  await later();
  // What the two sides of the pipe hold by themselves.
  expect(pulled()).toBeLessThanOrEqual(2);
  for (let i = 0; i < 5; i += 1) {
    expect((await reader.read()).value?.data).toBe(String(i));
    await later(5);
    expect(pulled()).toBeLessThanOrEqual(i + 3);
  }
  await reader.cancel();
});

test('what is wrong later in a piece shows only when the reader comes to it', async () => {
  const { eventStream } = await loadSse();
  const { stream } = source([`data: a\n\ndata: b\n\ndata: ${'x'.repeat(99)}\n\n`]);
  const reader = stream.pipeThrough(eventStream({ maxBufferBytes: 50 })).getReader();
  for (const data of ['a', 'b']) {
    expect((await reader.read()).value?.data).toBe(data);
    await later(5);
  }
  await expect(reader.read()).rejects.toMatchObject({ code: 'server-error' });
});

test('a stream that ends drops an unfinished event and closes', async () => {
  const { eventStream } = await loadSse();
  const pieces = ['data: a\n\n: hm\n\nretry: 5\n\nda', 'ta: b\r', '\n\r', 'data: lost\n'];
  const { stream } = source(pieces);
  expect(await collect(stream.pipeThrough(eventStream()))).toEqual(['a', 'b']);
});

test('a cancel reaches the source with its reason, even while a piece waits', async () => {
  const { eventStream } = await loadSse();
  let reason: unknown;
  const stream = new ReadableStream<Uint8Array>({
    start: (controller) => controller.enqueue(utf8.encode('data: a\n\ndata: b\n\n')),
    cancel: (why) => void (reason = why),
  });
  const reader = stream.pipeThrough(eventStream()).getReader();
  await reader.read();
  await reader.cancel('enough');
  await later();
  expect(reason).toBe('enough');
});

test('a cancel reaches a source that is silent', async () => {
  const { eventStream } = await loadSse();
  let reason: unknown;
  const stream = new ReadableStream<Uint8Array>({
    start: (controller) => controller.enqueue(utf8.encode('data: a\n\n')),
    cancel: (why) => void (reason = why),
  });
  const reader = stream.pipeThrough(eventStream()).getReader();
  await reader.read();
  await later();
  await reader.cancel('enough');
  await later();
  expect(reason).toBe('enough');
});

test('an abort of the writer errors the reader at once, even while a piece waits', async () => {
  const { eventStream } = await loadSse();
  const { readable, writable } = eventStream();
  const writer = writable.getWriter();
  const write = rejection(writer.write(utf8.encode('data: a\n\ndata: b\n\n')));
  const reader = readable.getReader();
  expect((await reader.read()).value?.data).toBe('a');
  const reason = new Error('gone');
  await writer.abort(reason);
  await expect(reader.read()).rejects.toBe(reason);
  expect(await write).toBe(reason);
});

test('an error of the source errors the reader, after what came before it', async () => {
  const { eventStream } = await loadSse();
  const failure = new Error('the connection is gone');
  let piece = 0;
  const stream = new ReadableStream<Uint8Array>({
    pull: (controller) => {
      if (piece === 0) controller.enqueue(utf8.encode('data: a\n\nda'));
      else controller.error(failure);
      piece += 1;
    },
  });
  const reader = stream.pipeThrough(eventStream()).getReader();
  expect((await reader.read()).value?.data).toBe('a');
  await expect(reader.read()).rejects.toBe(failure);
});

test('a write of something else errors both ends', async () => {
  const { eventStream } = await loadSse();
  const { readable, writable } = eventStream();
  const wrong = { code: 'invalid-option' };
  const read = rejection(readable.getReader().read());
  expect(await rejection(writable.getWriter().write('data: a\n\n' as never))).toMatchObject(wrong);
  expect(await read).toMatchObject(wrong);
});

test('in Node, streams wait for the module and the rest says so', () => {
  const script = `
    import { EventStreamParser, encodeEvent, eventStream, ready } from '${entryUrl('sse')}';
    const codes = [];
    for (const early of [
      () => encodeEvent({ data: 'a' }),
      () => new EventStreamParser({ onEvent() {} }),
    ]) {
      try { early(); } catch ({ code }) { codes.push(code); }
    }
    const bytes = new Blob(['data: a\\n\\ndata: b\\n\\n']).stream();
    const data = [];
    for await (const event of bytes.pipeThrough(eventStream())) data.push(event.data);
    await Promise.all([ready, ready]);
    data.push(encodeEvent({ data: 'c' }), ready instanceof Promise);
    process.stdout.write(JSON.stringify({ codes, data }));
  `;
  const run = execFileSync(process.execPath, ['--input-type=module', '-e', script]);
  expect(JSON.parse(run.toString())).toEqual({
    codes: ['unsupported-environment', 'unsupported-environment'],
    data: ['a', 'b', 'data: c\n\n', true],
  });
});

test('the entries work in a page, a worker and a service worker alike', async ({ browser, server }) => {
  const page = await openPage(browser, server);
  const found = await page.evaluate(async () => {
    const ask = (target: { postMessage(message: string, transfer: Transferable[]): void }) =>
      new Promise<unknown>((resolve) => {
        const { port1, port2 } = new MessageChannel();
        port1.onmessage = ({ data }) => resolve(data);
        target.postMessage('check', [port2]);
      });
    const address = '/workers/sse.js';
    const here = (await import(address)) as { check(): Promise<unknown> };
    const all = [await here.check()];
    const worker = new Worker(address, { type: 'module' });
    all.push(await ask(worker));
    worker.terminate();
    const registration = await navigator.serviceWorker.register(address, { type: 'module' });
    const serviceWorker = registration.installing ?? registration.active;
    if (serviceWorker === null) return all;
    all.push(await ask(serviceWorker));
    await registration.unregister();
    return all;
  });
  const expected = (scope: string) => ({
    scope,
    streamed: [
      { event: 'message', data: 'é😀', id: '7' },
      { event: 'message', data: '[DONE]', id: '7' },
    ],
    parsed: [{ event: 'x', data: 'a\nb', id: '1' }],
    answer: '{"choices":[]}',
  });
  expect(found).toEqual(
    ['Window', 'DedicatedWorkerGlobalScope', 'ServiceWorkerGlobalScope'].map(expected),
  );
  await page.close();
});
