import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Timeline } from 'tokenbrook/measure';
import { BREAK_FIELDS, brokenScenario, directScenario, hopList } from '../lab/breaks-plan.js';
import { defaults } from '../shared/fields.js';
import {
  breakEven, completionsUrl, mockScenario, PATH_FIELDS, placeOf, stagesOf, tieCurve,
} from '../lab/paths-plan.js';
import { arrivalsOf, bandOf, countUntil, readTimes } from '../lab/replay-model.js';
import { fromShared as timelineFrom, toShared as timelineTo } from '../lab/shared-timeline.js';
import {
  fromShared, PUBLISHED, sameText, summarizeMode, toShared, totalsApart,
  type Mode, type WaitCall, type WaitRun,
} from '../lab/wait-run.js';

const WORDS = ['one ', 'two '];

function call(mode: Mode, firstTextMs: number, totalMs: number, words = WORDS): WaitCall {
  return {
    mode, complete: true, headersMs: 1, firstTokenMs: 30, firstTextMs, totalMs, bodyBytes: 42,
    arrivals: words.map((text, at) => ({ text, atMs: firstTextMs + at * 33 })),
  };
}

const RUN: WaitRun = {
  at: '2026-01-02T03:04:05.678Z',
  place: 'the mock in a service worker',
  calls: [call('wait', 66, 67), call('stream', 33.3, 66.7), call('stream', 35.5, 70.2)],
};

test('a run sums up each mode, and leaves failed calls out of its figures', () => {
  const broken = { ...call('stream', 1, 2), complete: false };
  const stream = summarizeMode([...RUN.calls, broken], 'stream');
  assert.deepEqual([stream.calls, stream.failed], [3, 1]);
  assert.ok(Math.abs(stream.firstTextMs.median - 34.4) < 1e-9);
  assert.ok(Math.abs(totalsApart(summarizeMode(RUN.calls, 'wait'), stream) - 1.45 / 67) < 1e-9);
  assert.equal(sameText([...RUN.calls, broken]), true);
  assert.equal(sameText([...RUN.calls, call('wait', 1, 2, ['three '])]), false);
  assert.equal(sameText([broken]), null);
});

test('published totals are 0.15 % apart', () => {
  const [wait, stream] = [PUBLISHED.wait, PUBLISHED.stream].map((one) => ({ ...one, failed: 0 }));
  assert.ok(wait !== undefined && stream !== undefined);
  assert.equal((totalsApart(wait, stream) * 100).toFixed(2), '0.15');
});

test('a shared run comes back with its words and times, and nothing else is one', () => {
  const shared = JSON.parse(JSON.stringify(toShared(RUN))) as Record<string, unknown>;
  const back = fromShared(shared);
  assert.equal(back?.at, RUN.at);
  const figures = (run: WaitRun | undefined): unknown[] | undefined =>
    run?.calls.map(({ mode, firstTextMs, totalMs }) => [mode, firstTextMs, totalMs]);
  assert.deepEqual(figures(back), figures(RUN));
  assert.deepEqual(back?.calls[1]?.arrivals, [
    { text: 'one ', atMs: 33 }, { text: 'two ', atMs: 66 },
  ]);
  const wrong = [
    null, [], 'run', {}, { ...shared, v: 2 }, { ...shared, at: 'now' }, { ...shared, calls: [] },
    { ...shared, words: ['one '] }, { ...shared, calls: [[0, -1, 5, 5, [1, 1]]] },
    { ...shared, calls: Array(201).fill([0, 1, 5, 5, [1, 1]]) }, { ...shared, place: {} },
  ];
  for (const value of wrong) assert.equal(fromShared(value), undefined, JSON.stringify(value));
});

test('events become words that arrive together, and a reader follows them', () => {
  const arrivals = arrivalsOf([{ text: 'A model ', atMs: 10 }, { text: 'does', atMs: 500 }]);
  assert.deepEqual(arrivals, [
    { text: 'A ', atMs: 10 }, { text: 'model ', atMs: 10 }, { text: 'does', atMs: 500 },
  ]);
  assert.deepEqual(readTimes(arrivals, 5), [210, 410, 700]);
  assert.deepEqual([0, 209, 210, 700].map((now) => countUntil([210, 410, 700], now)), [0, 0, 1, 3]);
  assert.deepEqual([90, 100, 101, 9000, 10_001].map(bandOf), [
    'instant', 'instant', 'thought kept', 'attention kept', 'attention lost',
  ]);
});

test('switches become hops and faults in the order of the way', () => {
  const values = { ...defaults(BREAK_FIELDS), proxy: true, client: true, framework: true };
  assert.deepEqual(brokenScenario(values).hops?.map(({ kind }) => kind),
    ['framework', 'proxy', 'client']);
  assert.equal('hops' in directScenario(values), false);
  const fault = (kind: typeof values.fault) => brokenScenario({ ...values, fault: kind });
  assert.equal(fault('none').faults, undefined);
  assert.deepEqual(fault('fail').faults, { failAt: { token: 40 } });
  assert.deepEqual(fault('marker').faults, { omit: 'all' });
  assert.equal(fault('reset').faults?.cut?.reset, true);
  assert.deepEqual(fault('stall').stalls, [{ atToken: 40, ms: 2000 }]);
  assert.equal(hopList(['proxy']), 'a proxy');
  assert.equal(hopList(['proxy', 'compression', 'cdn']), 'a proxy, compression or a CDN');
});

const TIMELINE: Timeline = {
  requestMs: 1_000_000, headersMs: 1_000_020, firstByteMs: 1_000_020, firstTokenMs: 1_000_100,
  generationEndMs: 1_000_300, firstTextMs: 1_000_150, lastTextMs: 1_000_350,
  firstRenderedMs: 1_000_166, renderedBy: 'animation-frames', closedMs: 1_000_360, status: 200,
  isStream: true, marks: { compression: false, proxy: true, cdn: false },
  reads: [
    { atMs: 1_000_150, bytes: 100, withinEvent: true },
    { atMs: 1_000_350, bytes: 60, withinEvent: false },
  ],
  events: [
    { atMs: 1_000_150, bytes: 80, tokens: 1, textBytes: 3, text: 'ä ', hasChoices: true },
    { atMs: 1_000_350, bytes: 40, tokens: 1, textBytes: 2, text: 'b ', hasChoices: true },
  ],
  text: 'ä b ', bodyBytes: 160, tokens: 2, outputTokens: null, outcome: 'complete',
  completion: 'marker', failure: null,
};

test('a timeline survives a link, and what is none is refused', () => {
  const packed = JSON.parse(JSON.stringify(timelineTo(TIMELINE))) as unknown[];
  assert.deepEqual(timelineFrom(packed), TIMELINE);
  const none: Timeline = {
    ...TIMELINE, headersMs: null, firstByteMs: null, firstTokenMs: null, generationEndMs: null,
    firstTextMs: null, lastTextMs: null, firstRenderedMs: null, renderedBy: null, status: null,
    isStream: false, marks: null, reads: [], events: [], text: '', bodyBytes: 0, tokens: 0,
    outcome: 'failed', completion: null, failure: 'reset',
  };
  assert.deepEqual(timelineFrom(timelineTo(none)), none);
  const wrong = [null, [], [2, ...packed.slice(1)], packed.slice(1),
    [...packed.slice(0, 6), [[1, 1, 1, 1, 1, 7]]], [...packed.slice(0, 5), [[-1, 1, 0]], []]];
  for (const value of wrong) assert.equal(timelineFrom(value), undefined);
});

test('stages follow one another from the request to the end', () => {
  assert.deepEqual(stagesOf(TIMELINE), [
    { name: 'before', fromMs: 0, toMs: 100 }, { name: 'way', fromMs: 100, toMs: 150 },
    { name: 'writing', fromMs: 150, toMs: 350 }, { name: 'end', fromMs: 350, toMs: 360 },
  ]);
  assert.deepEqual(stagesOf({ ...TIMELINE, firstTokenMs: null }).map(({ name }) => name),
    ['before', 'writing', 'end']);
  assert.deepEqual(placeOf(TIMELINE), { ttftMs: 150, tokensPerSecond: 5 });
  assert.equal(placeOf({ ...TIMELINE, outcome: 'incomplete' }), undefined);
});

test('the curve of ties goes through the figures that are told', () => {
  const values = defaults(PATH_FIELDS);
  const tie = breakEven(values);
  const [rttMs] = tieCurve(values, [values.speed], values.tokens);
  assert.ok(Math.abs((rttMs ?? NaN) - tie.wholeRttMs) < 1e-9);
  const [atTie] = tieCurve(values, [tie.wholeTokensPerSecond], values.tokens);
  // That speed is for the first token's time that is set, which a step of another speed moves.
  assert.ok(atTie !== null && atTie !== undefined && Math.abs(atTie - values.rtt) < 40, `${atTie}`);
  assert.deepEqual(tieCurve(values, [0.5], values.tokens), [null]);
  assert.equal(mockScenario(values).transit?.requestMs, values.rtt / 2);
});

test('base addresses lead to chat completions, and others nowhere', () => {
  const rows: [string, string | undefined][] = [
    ['https://host/v1', 'https://host/v1/chat/completions'],
    ['http://localhost:8080/v1/', 'http://localhost:8080/v1/chat/completions'],
    ['https://host/v1/chat/completions', 'https://host/v1/chat/completions'],
    ['https://host', 'https://host/chat/completions'],
    ['javascript:alert(1)', undefined], ['host/v1', undefined], ['', undefined],
  ];
  for (const [base, url] of rows) assert.equal(completionsUrl(base)?.href, url, base);
});
