// Local against network: who is asked, the stages of a reply, and where both would tie.
import type { Scenario } from 'tokenbrook/mock';
import type { Timeline } from 'tokenbrook/measure';
import { amount, count, flag, text, type Values } from '../shared/fields.js';
import { placeMs, tieRttMs, tieTokensPerSecond, type Place } from './formulas.js';

export const PATH_FIELDS = {
  prompt: text('Prompt', 'Why do rivers bend?', { lines: 2 }),
  tokens: count('Longest reply', 60, [2, 1000], { unit: 'tokens' }),
  local: flag('This device', true),
  mock: flag('A server at this distance', true),
  rtt: amount('Round trip', 80, [0, 10_000], { unit: 'ms' }),
  speed: amount('Its speed', 50, [0.5, 1000], { unit: 'tokens/s' }),
  wait: amount('Its queue and prefill', 150, [0, 60_000], { unit: 'ms' }),
  remote: flag('A real server', false),
  url: text('Base address', '', { maxLength: 500, hint: 'As in https://host/v1. It has to allow ' +
    'requests from this page (CORS).' }),
  model: text('Model', '', { maxLength: 200 }),
  ttft: amount('First token after', 300, [0, 600_000], { unit: 'ms' }),
  pace: amount('Speed', 20, [0.05, 10_000], { unit: 'tokens/s' }),
};

export type PathValues = Values<typeof PATH_FIELDS>;
export type PlaceName = 'local' | 'mock' | 'remote';

export function mockScenario({ tokens, rtt, speed, wait }: PathValues): Scenario {
  return {
    seed: 42,
    text: { kind: 'seeded', tokens },
    // The first token costs a step besides.
    prefill: { queueMs: wait },
    pace: { kind: 'fixed', ms: 1000 / speed },
    transit: { requestMs: rtt / 2, responseMs: rtt / 2 },
  };
}

/** A part of a reply's time, in ms since the request. */
export interface Stage {
  name: StageName;
  fromMs: number;
  toMs: number;
}

export type StageName = 'before' | 'way' | 'writing' | 'end';

export const STAGES: Record<StageName, string> = {
  before: 'to the first token: transit, queue, prefill',
  way: 'from there to parsed text: transit, buffers, parsing',
  writing: 'writing, first to last text',
  end: 'last text to the end',
};

/** Stages in order; what the generator does not tell belongs to the first. */
export function stagesOf(timeline: Timeline): Stage[] {
  const { requestMs, firstTokenMs, firstTextMs, lastTextMs, closedMs } = timeline;
  const until: [StageName, number | null][] = [
    ['before', firstTokenMs ?? firstTextMs ?? closedMs],
    ['way', firstTextMs],
    ['writing', lastTextMs],
    ['end', closedMs],
  ];
  let fromMs = 0;
  const stages: Stage[] = [];
  for (const [name, atMs] of until) {
    if (atMs === null) continue;
    const toMs = Math.max(fromMs, atMs - requestMs);
    if (toMs > fromMs) stages.push({ name, fromMs, toMs });
    fromMs = toMs;
  }
  return stages;
}

/** First text and speed of a reply; nothing where it has too little text to tell. */
export function placeOf(timeline: Timeline): Place | undefined {
  const { requestMs, firstTextMs, lastTextMs, outcome } = timeline;
  const texts = timeline.events.filter(({ textBytes }) => textBytes > 0).length;
  if (outcome !== 'complete' || firstTextMs === null || lastTextMs === null) return undefined;
  if (texts < 2 || lastTextMs <= firstTextMs) return undefined;
  return {
    ttftMs: firstTextMs - requestMs,
    tokensPerSecond: ((texts - 1) * 1000) / (lastTextMs - firstTextMs),
  };
}

export interface BreakEven {
  local: Place;
  /** Its first token at the server. */
  remote: Place;
  /** Round trips at which both are as soon; below 0: the network never is. */
  firstTextRttMs: number;
  wholeRttMs: number;
  /** The speed at which the whole reply ties, at the round trip that is set. */
  wholeTokensPerSecond: number;
  localMs: number;
  remoteMs: number;
}

export function breakEven(values: PathValues): BreakEven {
  const { ttft, pace, wait, speed, rtt, tokens } = values;
  const local = { ttftMs: ttft, tokensPerSecond: pace };
  const remote = { ttftMs: wait + 1000 / speed, tokensPerSecond: speed };
  return {
    local,
    remote,
    firstTextRttMs: tieRttMs(local, remote, 1),
    wholeRttMs: tieRttMs(local, remote, tokens),
    wholeTokensPerSecond: tieTokensPerSecond(local, remote.ttftMs, rtt, tokens),
    localMs: placeMs(local, tokens, 0),
    remoteMs: placeMs(remote, tokens, rtt),
  };
}

/** Round trips of a tie for speeds of a server; `null` where the network is behind at any. */
export function tieCurve(
  values: PathValues, speeds: readonly number[], tokens: number,
): (number | null)[] {
  const local = { ttftMs: values.ttft, tokensPerSecond: values.pace };
  return speeds.map((speed) => {
    const remote = { ttftMs: values.wait + 1000 / speed, tokensPerSecond: speed };
    const rttMs = tieRttMs(local, remote, tokens);
    return rttMs < 0 ? null : rttMs;
  });
}

/** `https://host/v1` to its chat completions; `undefined` where it is no such address. */
export function completionsUrl(base: string): URL | undefined {
  try {
    const url = new URL(base.trim().replace(/\/+$/, '').replace(/\/chat\/completions$/, ''));
    if (url.protocol !== 'https:' && url.protocol !== 'http:') return undefined;
    url.pathname = `${url.pathname.replace(/\/$/, '')}/chat/completions`;
    return url;
  } catch {
    return undefined;
  }
}
