import { readFileSync } from 'node:fs';

import { expect, test } from '@playwright/test';

import { TokenDelivery } from '../delivery.js';
import { TokenbrookError } from '../errors.js';
import type { Timers } from '../timers.js';
import { TokenFeed, createTokenStream } from '../token-stream.js';
import type { Delivery, DeliveryVerdict, Stats, Token, TokenStream } from '../types.js';

/** The rows that the Rust half is tested by. */
interface Row {
  what: string;
  options: Delivery;
  madeMs: number[];
  endMs: number;
  waitsMs: number[];
}

const ROWS = JSON.parse(
  readFileSync(new URL('../../tests/data/delivery.json', import.meta.url), 'utf8'),
) as Row[];

/** A clock that moves when told, and calls what has become due on its way. */
class VirtualTimers implements Timers {
  #nowMs = 0;
  #calls: { atMs: number; call: () => void }[] = [];

  get pending(): number {
    return this.#calls.length;
  }

  nowMs(): number {
    return this.#nowMs;
  }

  at(atMs: number, call: () => void): () => void {
    const entry = { atMs, call };
    this.#calls.push(entry);
    return () => {
      this.#calls = this.#calls.filter((other) => other !== entry);
    };
  }

  pass(toMs: number): void {
    for (;;) {
      const due = this.#calls.filter(({ atMs }) => atMs <= toMs);
      const next = due.sort((a, b) => a.atMs - b.atMs)[0];
      if (next === undefined) break;
      this.#calls = this.#calls.filter((other) => other !== next);
      this.#nowMs = next.atMs;
      next.call();
    }
    this.#nowMs = toMs;
  }
}

function token(index: number, text = `t${index}`): Token {
  return { id: index, text, index, atMs: 0 };
}

interface Outcome {
  shown: { atMs: number; token: Token }[];
  end: string;
  timers: VirtualTimers;
}

/** Delivers tokens made at these times. */
function deliver(options: Delivery, madeMs: number[], endMs: number, texts?: string[]): Outcome {
  const timers = new VirtualTimers();
  const outcome: Outcome = { shown: [], end: '', timers };
  const output = {
    show: (tokens: Token[]): void => {
      for (const token of tokens) outcome.shown.push({ atMs: timers.nowMs(), token });
    },
    blocked: () => void (outcome.end += 'blocked'),
    failed: (error: unknown) => void (outcome.end += String(error)),
  };
  const delivery = new TokenDelivery(options, output, timers);
  madeMs.forEach((atMs, index) => {
    timers.pass(atMs);
    delivery.push(token(index, texts?.[index]));
  });
  timers.pass(endMs);
  delivery.finish();
  return outcome;
}

function checked(options: Delivery, texts: string[]): string {
  const madeMs = texts.map((_, i) => 10 * i);
  const { shown, end } = deliver(options, madeMs, 10 * texts.length, texts);
  return shown.map(({ token }) => token.text).join('') + (end && `|${end}`);
}

for (const { what, options, madeMs, endMs, waitsMs } of ROWS) {
  test(`delays tokens as the table says: ${what}`, () => {
    const { shown, end, timers } = deliver(options, madeMs, endMs);
    expect(shown.map(({ token }) => token.index)).toEqual(madeMs.map((_, i) => i));
    expect(shown.map(({ atMs, token }) => atMs - (madeMs[token.index] ?? 0))).toEqual(waitsMs);
    expect(end).toBe('');
    expect(timers.pending).toBe(0);
  });
}

test('a check sees the next token with those held behind it', () => {
  const seen: [string, number, boolean][] = [];
  const check: Delivery['check'] = ({ text, tokens, last }) => {
    seen.push([text, tokens.length, last]);
    return 'release';
  };
  expect(checked({ holdBackTokens: 2, check }, ['a', 'b', 'c', 'd'])).toBe('abcd');
  expect(seen).toEqual([
    ['abc', 3, false],
    ['bcd', 3, false],
    ['cd', 2, true],
  ]);
});

test('a replacement takes the place of the window', () => {
  const check: Delivery['check'] = ({ text }) =>
    text.includes('sk-1') ? { replace: text.replace('sk-1', '[key]') } : 'release';
  const texts = ['my ', 's', 'k', '-', '1', ' is', '.'];
  expect(checked({ holdBackTokens: 3, check }, texts)).toBe('my [key] is.');
  expect(checked({ holdBackTokens: 2, check }, texts)).toBe('my sk-1 is.');
});

test('a replacement changes only the tokens that differ', () => {
  for (const [replace, expected] of [
    ['abcd', ['a', 'b', 'c', 'd']],
    ['aXd', ['a', 'X', '', 'd']],
    ['Xd', ['X', '', '', 'd']],
    ['abX', ['a', 'b', 'X', '']],
    ['', ['', '', '', '']],
    ['abcdX', ['a', 'b', 'c', 'dX']],
    ['abXcd', ['a', 'bX', 'c', 'd']],
    ['Xabcd', ['Xa', 'b', 'c', 'd']],
    ['X', ['X', '', '', '']],
  ] as const) {
    const options: Delivery = { whole: true, check: () => ({ replace }) };
    const { shown } = deliver(options, [1, 2, 3, 4], 5, ['a', 'b', 'c', 'd']);
    expect(shown.map(({ token }) => token.text)).toEqual(expected);
  }
});

test('a block shows nothing of its window, and all that was let through before', () => {
  const check: Delivery['check'] = ({ text }) => (text.includes('bad') ? 'block' : 'release');
  const texts = ['a', 'b', 'bad', 'c', 'd'];
  expect(checked({ holdBackTokens: 1, check }, texts)).toBe('a|blocked');
  expect(checked({ batchTokens: 3, check }, texts)).toBe('ab|blocked');
  expect(checked({ whole: true, check }, texts)).toBe('|blocked');
});

test('a check that throws or gives no verdict ends the stream with that', () => {
  const failing = (): never => {
    throw new Error('no verdict');
  };
  expect(checked({ check: failing }, ['a', 'b'])).toBe('|Error: no verdict');
  for (const nothing of [undefined, null, true, 'no', { replace: 1 }, Promise.resolve('release')]) {
    const check = (): DeliveryVerdict => nothing as DeliveryVerdict;
    expect(checked({ check }, ['a', 'b'])).toMatch(/^\|TokenbrookError: Option `delivery.check`/);
  }
});

interface Setup {
  feed: TokenFeed;
  stream: TokenStream;
  sent: string[];
  timers: VirtualTimers;
}

function setup(delivery: Delivery, signal?: AbortSignal): Setup {
  const sent: string[] = [];
  const timers = new VirtualTimers();
  const feed = new TokenFeed({
    link: {
      credit: (total) => void sent.push(`credit ${total}`),
      cancel: () => {
        sent.push('cancel');
        feed.finished(stats('cancelled'));
      },
    },
    lookahead: 2,
    delivery,
    signal,
    timers,
    calledAtMs: 0,
  });
  return { feed, stream: createTokenStream(feed), sent, timers };
}

function stats(finishReason: Stats['finishReason']): Stats {
  return {
    finishReason,
    promptTokens: 1,
    cachedTokens: 0,
    completionTokens: 2,
    decodeSteps: 1,
    queueMs: 0,
    prefillMs: 0,
    ttftMs: 0,
    firstTextMs: 0,
    decodeMs: 0,
    prefillTokensPerSecond: 0,
    decodeTokensPerSecond: 0,
    itlMs: [],
  };
}

const counters = { decodeSteps: 0, queueMs: 0 };
const later = (): Promise<void> => new Promise((resume) => setTimeout(resume, 5));

async function texts(stream: TokenStream): Promise<string> {
  let text = '';
  for await (const token of stream) text += token.text;
  return text;
}

test('credit covers what has to be made before the reader gets anything', async () => {
  for (const [delivery, credit] of [
    [{ batchTokens: 2 }, 3],
    [{ batchTokens: 8 }, 8],
    [{ holdBackTokens: 10 }, 11],
    [{ batchTokens: 4, holdBackTokens: 10 }, 14],
    [{ whole: true }, Number.POSITIVE_INFINITY],
  ] as const) {
    const { stream, sent } = setup(delivery);
    void stream.getReader().read();
    await later();
    expect(sent).toEqual([`credit ${credit}`]);
  }
});

test('a pending read waits for its batch, the next ones do not', async () => {
  const { feed, stream } = setup({ batchTokens: 2 });
  const reader = stream.getReader();
  let first: string | undefined;
  const read = reader.read().then(({ value }) => (first = value?.text));
  await later();
  feed.token(token(0), counters);
  await later();
  expect(first).toBeUndefined();
  feed.token(token(1), counters);
  await read;
  expect([first, (await reader.read()).value?.text]).toEqual(['t0', 't1']);
});

test('the end delivers what is held before it closes, and so does a failure', async () => {
  for (const fails of [false, true]) {
    const { feed, stream } = setup({ holdBackTokens: 5, batchTokens: 9 });
    const seen: string[] = [];
    const reading = (async () => {
      for await (const { text } of stream) seen.push(text);
    })();
    await later();
    for (let i = 0; i < 3; i += 1) feed.token(token(i), counters);
    await later();
    expect(seen).toEqual([]);
    const failure = new TokenbrookError('internal', 'The engine stopped.');
    if (fails) feed.failed(failure, null);
    else feed.finished(stats('stop'));
    if (fails) await expect(reading).rejects.toBe(failure);
    else await reading;
    expect(seen).toEqual(['t0', 't1', 't2']);
  }
});

test('a time window opens with its first token', async () => {
  const { feed, stream, timers } = setup({ batchMs: 40 });
  const reading = texts(stream);
  timers.pass(100);
  feed.token(token(0), counters);
  expect(timers.pending).toBe(1);
  timers.pass(139);
  feed.token(token(1), counters);
  expect(timers.pending).toBe(1);
  timers.pass(140);
  expect(timers.pending).toBe(0);
  feed.finished(stats('stop'));
  expect(await reading).toBe('t0t1');
});

test('a block cancels the generation and closes the stream', async () => {
  const { feed, stream, sent } = setup({
    check: ({ text }) => (text === 't1' ? 'block' : 'release'),
  });
  const reading = texts(stream);
  await later();
  for (let i = 0; i < 3; i += 1) feed.token(token(i), counters);
  expect(await reading).toBe('t0');
  expect((await stream.stats).finishReason).toBe('cancelled');
  expect(sent.filter((message) => message === 'cancel')).toHaveLength(1);
});

test('a check that throws cancels the generation and errors the stream', async () => {
  const failure = new Error('the check is broken');
  const { feed, stream, sent } = setup({
    check: () => {
      throw failure;
    },
  });
  const reading = texts(stream);
  await later();
  feed.token(token(0), counters);
  await expect(reading).rejects.toBe(failure);
  expect(sent.at(-1)).toBe('cancel');
});

test('nothing is shown and no timer is left after a cancel or an abort', async () => {
  const controller = new AbortController();
  for (const end of ['cancel', 'abort'] as const) {
    const { feed, stream, timers } = setup({ batchMs: 40 }, controller.signal);
    const reader = stream.getReader();
    const read = reader.read().then(({ done }) => done, () => 'rejected');
    await later();
    feed.token(token(0), counters);
    expect(timers.pending).toBe(1);
    if (end === 'cancel') await reader.cancel();
    else controller.abort();
    expect(await read).toBe(end === 'cancel' ? true : 'rejected');
    expect(timers.pending).toBe(0);
  }
});
