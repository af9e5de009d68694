import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  atClientMs, batchFirstMs, batchMeanMs, cacheBytes, cachedWork, contextsHeld, firstTokenMs,
  holdBackMs, placeMs, queueWaitMs, readerDoneMs, recomputedWork, replyByRateMs, replyMs,
  shedShare, stepMs, streamBytes, tieRttMs, tieTokensPerSecond, wholeBytes, windowTokens, wordsOf,
} from '../lab/formulas.js';

const SENTENCE =
  'A model does not write the whole answer at once. It makes it one piece at a time.';

function near(value: number, wanted: number, within = 1e-6): void {
  assert.ok(Math.abs(value - wanted) <= within, `${value} is not ${wanted}`);
}

test('a reply takes the first token and the rest', () => {
  near(replyMs(120, 33, 33), 3960);
  near(replyMs(300, 500, 30), 9470);
  near(replyMs(400, 700, 25), 10_675);
  near(replyMs(0, 700, 25), 0);
  near(replyByRateMs(500, 500, 24), 21_333.333, 0.01);
});

test('transit adds once to a reply, not to each token', () => {
  const ttft = firstTokenMs(600, 0, 33);
  near(atClientMs(ttft, 50, 50), 733);
  near(atClientMs(replyMs(120, ttft, 33), 50, 50), 4660);
});

test('batches and windows cost what they hold', () => {
  near(batchFirstMs(4, 33), 99);
  near(batchMeanMs(4, 33), 49.5);
  near(batchFirstMs(1, 33), 0);
  near(holdBackMs(10, 33), 330);
  assert.equal(windowTokens(50, 33), 2);
  assert.equal(windowTokens(20, 33), 1);
  assert.equal(windowTokens(20, 5), 5);
});

test('eighteen words are 93 bytes whole, 276 streamed, and five events by fours', () => {
  const words = wordsOf(SENTENCE);
  assert.equal(words.length, 18);
  assert.equal(wholeBytes(words.join('')), 93);
  assert.equal(streamBytes(words, 1), 276);
  // Ten bytes an event besides the text's 82, and 14 for the marker.
  assert.equal(streamBytes(words, 4), 82 + 5 * 10 + 14);
});

test('a cache of 4,096 tokens is 512 MiB, and 64 GiB hold 128 of them', () => {
  const shape = { layers: 32, kvHeads: 8, headDim: 128, numberBytes: 2 };
  assert.equal(cacheBytes(shape, 1), 128 * 1024);
  assert.equal(cacheBytes(shape, 4096), 536_870_912);
  assert.equal(cacheBytes(shape, 2048), 268_435_456);
  assert.equal(contextsHeld(64 * 2 ** 30, 536_870_912), 128);
  assert.equal(contextsHeld(32 * 2 ** 30, 268_435_456), 128);
  assert.equal(contextsHeld(1, 0), 0);
});

test('a step reads all weights and every active cache', () => {
  near(stepMs(16e9, 0, 2e12), 8);
  near(stepMs(16e9, 64 * 536_870_912, 2e12), 25.18, 0.01);
});

test('waits grow like rho over one minus rho', () => {
  near(queueWaitMs(49.7, 0.661), 97, 0.2);
  near(queueWaitMs(49.7, 0.661 / 0.7), 842, 1);
  assert.equal(queueWaitMs(49.7, 1), Infinity);
  near(shedShare(0.9, 0.6), 1 / 3);
  near(shedShare(0.5, 0.6), 0);
});

test('work in closed form is the sum over all steps', () => {
  for (const [prompt, tokens] of [[1, 1], [7, 1], [13, 5], [100, 33]] as const) {
    let positions = 0;
    let pairs = 0;
    for (let step = 0; step < tokens; step += 1) {
      for (let at = 1; at <= prompt + step; at += 1) {
        positions += 1;
        pairs += at;
      }
    }
    assert.deepEqual(recomputedWork(prompt, tokens), { positions, pairs });
    let cached = 0;
    for (let at = 1; at <= prompt + tokens - 1; at += 1) cached += at;
    assert.deepEqual(cachedWork(prompt, tokens), { positions: prompt + tokens - 1, pairs: cached });
  }
});

test('a reader is never ahead of the text and never waits for what is there', () => {
  near(readerDoneMs([0, 10, 20], 5), 600);
  near(readerDoneMs([1000, 1000, 1000], 5), 1600);
  near(readerDoneMs([100, 1000], 5), 1200);
});

test('places tie where both have the token at the same time', () => {
  const local = { ttftMs: 120, tokensPerSecond: 20 };
  const remote = { ttftMs: 40, tokensPerSecond: 50 };
  for (const tokens of [1, 7, 120]) {
    const rtt = tieRttMs(local, remote, tokens);
    near(placeMs(remote, tokens, rtt), placeMs(local, tokens, 0));
  }
  const speed = tieTokensPerSecond(local, 40, 200, 121);
  near(placeMs({ ttftMs: 40, tokensPerSecond: speed }, 121, 200), placeMs(local, 121, 0));
  assert.equal(tieTokensPerSecond(local, 40, 80, 1), Infinity);
});
