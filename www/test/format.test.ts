import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Stats } from 'tokenbrook';
import {
  describeFailure, describeStats, formatBytes, formatDuration, formatProgress, formatRate,
  liveRate, nameOfUrl,
} from '../shared/format.js';

const STATS: Stats = {
  finishReason: 'stop', promptTokens: 52, cachedTokens: 31, completionTokens: 3, decodeSteps: 3,
  queueMs: 0, prefillMs: 300, ttftMs: 323.4, firstTextMs: 323.4, decodeMs: 100,
  prefillTokensPerSecond: 70, decodeTokensPerSecond: 20.04, itlMs: [50, 50],
};

test('formats bytes in binary units without reaching 1024 of one', () => {
  const rows: [number, string][] = [
    [0, '0 B'], [1023, '1023 B'], [1024, '1 KiB'], [98_362_432, '93.8 MiB'],
    [1024 ** 3 - 1, '1.00 GiB'], [1024 ** 3 * 1.5, '1.50 GiB'], [NaN, 'unknown size'],
    [-1, 'unknown size'],
  ];
  for (const [bytes, text] of rows) assert.equal(formatBytes(bytes), text);
});

test('shows progress with one unit where both figures share it', () => {
  assert.equal(formatProgress(49_181_216, 98_362_432), '46.9 of 93.8 MiB');
  assert.equal(formatProgress(2048, 98_362_432), '2 KiB of 93.8 MiB');
  assert.equal(formatProgress(2048, null), '2 KiB');
  assert.equal(formatProgress(99_000_000, 98_362_432), '93.8 of 93.8 MiB');
});

test('formats durations and rates with three figures', () => {
  assert.equal(formatDuration(84.6), '85 ms');
  assert.equal(formatDuration(999.7), '1.00 s');
  assert.equal(formatDuration(12_440), '12.4 s');
  assert.equal(formatDuration(-1), 'unknown');
  assert.equal(formatRate(21.27), '21.3 tokens/s');
  assert.equal(formatRate(120.4), '120 tokens/s');
  assert.equal(formatRate(0), '');
  assert.equal(formatRate(null), '');
});

test('describes the figures of an answer and leaves out what was not measured', () => {
  assert.deepEqual(describeStats(STATS), [
    'TTFT 323 ms', '20.0 tokens/s', '3 tokens', 'prompt 52, 31 reused',
  ]);
  const none: Stats = {
    ...STATS, ttftMs: null, firstTextMs: null, completionTokens: 0, decodeTokensPerSecond: null,
    promptTokens: 0,
  };
  assert.deepEqual(describeStats(none), ['0 tokens']);
  const one: Stats = { ...STATS, completionTokens: 1, decodeTokensPerSecond: null, cachedTokens: 0 };
  assert.deepEqual(describeStats(one), ['TTFT 323 ms', '1 token', 'prompt 52']);
});

test('has no live rate before a second token', () => {
  assert.equal(liveRate(10, 10, 1), 0);
  assert.equal(liveRate(10, 10, 2), 0);
  assert.equal(liveRate(1000, 1500, 11), 20);
});

test('describes typed errors by their code and everything else as internal', () => {
  const typed = Object.assign(new Error('The prompt is too long.'), { code: 'context-full' });
  assert.deepEqual(describeFailure(typed), {
    code: 'context-full', message: 'The prompt is too long.',
  });
  assert.equal(describeFailure(new TypeError('x is not a function')).code, 'internal');
  assert.match(describeFailure(new Error('')).message, /without saying why/);
  assert.deepEqual(describeFailure('plain'), {
    code: 'internal', message: 'Something failed: plain',
  });
});

test('names a model after the last part of its address', () => {
  assert.equal(nameOfUrl('https://h/a/Smol%20LM.Q4_1.gguf?download=1#x'), 'Smol LM.Q4_1');
  assert.equal(nameOfUrl('https://h/100%.gguf'), '100%');
  assert.equal(nameOfUrl('https://h/folder/'), 'folder');
});
