// Ways to hand over a reply, what each costs for given n, d, k and w, and which one to take.
import {
  atClientMs, batchFirstMs, batchMeanMs, firstTokenMs, holdBackMs, replyMs,
} from './formulas.js';

export type Delivery = 'whole' | 'tokens' | 'batches' | 'held' | 'socket';

/** A reply and its way: `n` tokens, one each `d` ms, by `k`, or held back by `w`. */
export interface Reply {
  n: number;
  d: number;
  k: number;
  w: number;
  /** Queue and prefill. */
  waitMs: number;
  /** There and back. */
  rttMs: number;
}

export interface Cost {
  delivery: Delivery;
  firstTextMs: number;
  /** Of a token, on average, against one event a token. */
  addedMs: number;
  endMs: number;
  events: number;
  goodFor: string;
  costs: string;
}

export function costsOf(reply: Reply): Cost[] {
  const { n, d, k, w, waitMs, rttMs } = reply;
  const ttft = firstTokenMs(waitMs, 0, d);
  const first = atClientMs(ttft, rttMs / 2, rttMs / 2);
  const end = atClientMs(replyMs(n, ttft, d), rttMs / 2, rttMs / 2);
  // Neither a batch nor a window is longer than the reply: what is left leaves at its end.
  const [batch, window] = [Math.min(k, n), Math.min(w, n - 1)];
  const cost = (delivery: Delivery, addedMs: number, events: number): Cost => ({
    delivery, addedMs, endMs: end, events, firstTextMs: first, ...WORDS[delivery],
  });
  return [
    { ...cost('whole', batchMeanMs(n, d), 1), firstTextMs: end },
    cost('tokens', 0, n),
    { ...cost('batches', batchMeanMs(batch, d), Math.ceil(n / batch)),
      firstTextMs: first + batchFirstMs(batch, d) },
    { ...cost('held', heldMeanMs(n, window, d), n - window + (window > 0 ? 1 : 0)),
      firstTextMs: first + holdBackMs(window, d) },
    cost('socket', 0, n),
  ];
}

/** Each token waits for `window` others; the last ones leave together, at the end. */
function heldMeanMs(tokens: number, window: number, tokenMs: number): number {
  const full = tokens - window;
  const last = (window * (window - 1)) / 2;
  return ((full * window + last) * tokenMs) / tokens;
}

const WORDS: Record<Delivery, Pick<Cost, 'goodFor' | 'costs'>> = {
  whole: {
    goodFor: 'short replies, programs, whole-reply checks',
    costs: 'a blank wait as long as the generation',
  },
  tokens: { goodFor: 'earliest text, smooth typing', costs: 'bytes, renders' },
  batches: {
    goodFor: 'long replies, mobile', costs: '(k − 1) × d for the first of a batch; jumpier',
  },
  held: { goodFor: 'window checks before text is shown', costs: 'w × d on every token' },
  socket: {
    goodFor: 'two-way: voice in, text out', costs: 'an upgrade, state, harder proxies',
  },
};

export interface Needs {
  reads: 'person' | 'program';
  check: 'none' | 'window' | 'whole';
  twoWay: boolean;
  /** Bytes or renders are dear: a phone, a long reply. */
  frugal: boolean;
}

/** People feel so much as instant. */
const INSTANT_MS = 100;

/** Which one to take, and why. */
export function choose(reply: Reply, needs: Needs): { delivery: Delivery; why: string } {
  const { n, d, k, w } = reply;
  if (needs.check === 'whole') {
    return { delivery: 'whole', why: 'A check of the whole reply has to hold the whole reply.' };
  }
  if (needs.twoWay) {
    return { delivery: 'socket', why: 'Events go one way only, and this talk goes both ways.' };
  }
  if (needs.reads === 'program') {
    const why = 'A program can do nothing with half a reply, and one body is the simplest.';
    return { delivery: 'whole', why };
  }
  if (needs.check === 'window') {
    const why = `The check sees ${w} tokens before a reader does: ` +
      `${Math.round(holdBackMs(w, d))} ms on each.`;
    return { delivery: 'held', why };
  }
  if (replyMs(n, reply.waitMs + d, d) + reply.rttMs <= INSTANT_MS) {
    return { delivery: 'whole', why: 'All of it is there within 0.1 s, which feels instant.' };
  }
  if (needs.frugal && k > 1) {
    const why = `By ${k}, a ${k}th of the events; the first waits ` +
      `${Math.round(batchFirstMs(k, d))} ms more.`;
    return { delivery: 'batches', why };
  }
  return { delivery: 'tokens', why: 'Nothing speaks against the earliest text.' };
}
