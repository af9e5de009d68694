import { expect, test } from '@playwright/test';

import { TokenbrookError } from '../errors.js';
import { TokenFeed, createTokenStream } from '../token-stream.js';
import type { Stats, Token, TokenStream } from '../types.js';

interface Setup {
  feed: TokenFeed;
  stream: TokenStream;
  /** `credit 9`, `cancel`, … in order. */
  sent: string[];
  push(count: number): void;
}

function setup(lookahead = 8, signal?: AbortSignal): Setup {
  const sent: string[] = [];
  const feed = new TokenFeed({
    link: {
      credit: (total) => void sent.push(`credit ${total}`),
      cancel: () => {
        sent.push('cancel');
        feed.finished(stats('cancelled'));
      },
    },
    lookahead,
    signal,
    calledAtMs: 100,
  });
  let index = 0;
  const push = (count: number): void => {
    for (let i = 0; i < count; i += 1, index += 1) {
      feed.token(token(index), { decodeSteps: index, queueMs: 3 });
    }
  };
  return { feed, stream: createTokenStream(feed), sent, push };
}

function token(index: number): Token {
  return { id: index, text: index === 0 ? '' : `t${index}`, index, atMs: 110 + 10 * index };
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

async function ids(stream: TokenStream): Promise<number[]> {
  const seen: number[] = [];
  for await (const { id } of stream) seen.push(id);
  return seen;
}

const failure = new TokenbrookError('internal', 'The engine stopped.');
const later = (): Promise<void> => new Promise((resume) => setTimeout(resume, 5));

test('grants no credit before the first read', async () => {
  const { sent, stream } = setup();
  await later();
  expect(stream).toBeInstanceOf(ReadableStream);
  expect(sent).toEqual([]);
});

test('the k-th read grants k + lookahead', async () => {
  for (const lookahead of [0, 1, 8]) {
    const { stream, sent, push } = setup(lookahead);
    const reader = stream.getReader();
    push(2);
    await reader.read();
    await reader.read();
    await later();
    expect(sent).toEqual([`credit ${1 + lookahead}`, `credit ${2 + lookahead}`]);
  }
});

test('delivers tokens in order, then closes', async () => {
  const { feed, stream, push } = setup();
  push(3);
  feed.finished(stats('stop'));
  expect(await ids(stream)).toEqual([0, 1, 2]);
  expect((await stream.stats).finishReason).toBe('stop');
});

test('a pending read gets the token that arrives later', async () => {
  const { stream, push } = setup();
  const reader = stream.getReader();
  const reads = [reader.read(), reader.read()];
  await later();
  push(2);
  expect((await Promise.all(reads)).map((r) => r.value?.id)).toEqual([0, 1]);
});

test('a pending read ends when the generation ends', async () => {
  const { feed, stream } = setup();
  const read = stream.getReader().read();
  await later();
  feed.finished(stats('stop'));
  expect(await read).toEqual({ done: true, value: undefined });
});

test('after a failure the tokens received come first, then the error', async () => {
  const { feed, stream, push } = setup();
  push(2);
  feed.failed(failure, null);
  const reader = stream.getReader();
  expect((await reader.read()).value?.id).toBe(0);
  expect((await reader.read()).value?.id).toBe(1);
  await expect(reader.read()).rejects.toBe(failure);
  await expect(reader.closed).rejects.toBe(failure);
});

test('a failure without tokens rejects the pending read', async () => {
  const { feed, stream } = setup();
  const read = stream.getReader().read();
  await later();
  feed.failed(failure, null);
  await expect(read).rejects.toBe(failure);
});

test('a failure keeps a token that a released reader left behind', async () => {
  const { feed, stream, push } = setup();
  const first = stream.getReader();
  first.read().catch(() => undefined);
  await later();
  first.releaseLock();
  push(1);
  feed.failed(failure, null);
  const reader = stream.getReader();
  expect((await reader.read()).value?.id).toBe(0);
  await expect(reader.read()).rejects.toBe(failure);
});

test('stats of a failure tell what is known', async () => {
  const { feed, stream, push } = setup();
  feed.started([5, 6]);
  push(3);
  feed.failed(failure, null);
  expect(await stream.stats).toEqual({
    finishReason: 'error',
    promptTokens: 2,
    cachedTokens: 0,
    completionTokens: 3,
    decodeSteps: 2,
    queueMs: 3,
    prefillMs: null,
    ttftMs: 10,
    firstTextMs: 20,
    decodeMs: 20,
    prefillTokensPerSecond: null,
    decodeTokensPerSecond: 100,
    itlMs: [10, 10],
  });
});

test('stats fulfil once: the first end counts', async () => {
  const { feed, stream } = setup();
  feed.finished(stats('length'));
  feed.failed(failure, null);
  expect((await stream.stats).finishReason).toBe('length');
  expect(await ids(stream)).toEqual([]);
});

test('an abort rejects the pending read with the reason, and cancels once', async () => {
  const controller = new AbortController();
  const { stream, sent } = setup(0, controller.signal);
  const read = stream.getReader().read();
  await later();
  const reason = new Error('enough');
  controller.abort(reason);
  await expect(read).rejects.toBe(reason);
  expect((await stream.stats).finishReason).toBe('cancelled');
  expect(sent).toEqual(['credit 1', 'cancel']);
});

test('a signal that was aborted before errors the stream and asks for nothing', async () => {
  const reason = new Error('too late');
  const { stream, sent } = setup(8, AbortSignal.abort(reason));
  await expect(stream.getReader().read()).rejects.toBe(reason);
  await expect(stream.promptIds).rejects.toBe(reason);
  expect((await stream.stats).finishReason).toBe('cancelled');
  expect(sent).toEqual([]);
});

test('an abort after the end changes nothing', async () => {
  const controller = new AbortController();
  const { feed, stream, sent } = setup(8, controller.signal);
  feed.finished(stats('stop'));
  controller.abort();
  expect(await ids(stream)).toEqual([]);
  expect(sent).toEqual([]);
});

test('break cancels, and is over when the worker has stopped', async () => {
  const { stream, sent, push } = setup();
  push(5);
  for await (const { index } of stream) if (index === 2) break;
  expect(sent.at(-1)).toBe('cancel');
  expect(stream.locked).toBe(false);
  expect((await stream.stats).finishReason).toBe('cancelled');
});

test('break with preventCancel leaves the rest to the next reader', async () => {
  const { feed, stream, sent, push } = setup();
  push(3);
  for await (const { index } of stream.values({ preventCancel: true })) if (index === 0) break;
  feed.finished(stats('stop'));
  expect(await ids(stream)).toEqual([1, 2]);
  expect(sent).not.toContain('cancel');
});

test('cancel closes quietly and drops what was not read', async () => {
  const { stream, push } = setup();
  push(2);
  await stream.cancel();
  expect(await ids(stream)).toEqual([]);
});

test('leaving the scope of `using` stops the work, locked or not', async () => {
  for (const locked of [false, true]) {
    const { stream, sent } = setup();
    const read = locked ? stream.getReader().read() : undefined;
    await later();
    await stream[Symbol.asyncDispose]();
    expect(sent.at(-1)).toBe('cancel');
    if (read !== undefined) expect((await read).done).toBe(true);
  }
});

test('promptIds are the prompt, or reject with the failure', async () => {
  const good = setup();
  good.feed.started([1, 2]);
  expect(await good.stream.promptIds).toEqual([1, 2]);
  const bad = setup();
  bad.feed.failed(failure, null);
  await expect(bad.stream.promptIds).rejects.toBe(failure);
});
