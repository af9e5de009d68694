// What the overload section is told, as loads for the mock's admission.
import type { LoadRun, LoadStretch, Scenario } from 'tokenbrook/mock';
import { amount, choice, count, flag, type Values } from '../shared/fields.js';
import { queueWaitMs } from './formulas.js';

export const LOAD_FIELDS = {
  service: amount('Time on a seat', 49.7, [0.1, 60_000], { unit: 'ms' }),
  load: amount('Load before, ρ', 0.661, [0.01, 3]),
  seats: count('Shared seats', 10, [2, 1000], { hint: 'Each with a queue of its own.' }),
  provisioned: count('Paid-only seats', 0, [0, 1000]),
  lost: amount('Capacity lost', 30, [0, 99], { unit: '%', hint: 'Half-way through the run.' }),
  paid: amount('Paid requests', 100, [0, 100], { unit: '%' }),
  shed: flag('Shed the free tier', false),
  target: amount('Load to shed down to', 0.75, [0.01, 1]),
  bucket: choice('Token bucket', 'none', {
    none: 'None', free: 'For the free tier', all: 'For everyone',
  }),
  share: amount('Bucket\'s share of capacity', 80, [1, 100], { unit: '%' }),
  burst: count('Burst', 20, [1, 1_000_000], { hint: 'Requests at once.' }),
  queue: count('Longest queue', 100_000, [0, 1_000_000]),
  requests: count('Requests', 1_200_000, [1000, 2_000_000]),
  seed: count('Seed', 8, [0, 4_294_967_295]),
};

export type LoadValues = Values<typeof LOAD_FIELDS>;

/** Of requests before the incident, and of those after it. */
const SETTLING_SHARE = 0.1;
const LONGEST_SETTLING_MS = 60_000;

/** Points of the sweep are shorter runs: their waits are noisier, and there are many. */
const SWEEP_REQUESTS = 100_000;
const SWEEP_POINTS = 9;
/** Beyond that the plot would be all queue. */
export const SWEEP_LOST = 0.4;

export function allSeats({ seats, provisioned }: LoadValues): number {
  return seats + provisioned;
}

/** All requests together, as the load says. */
export function arrivalsPerSecond(values: LoadValues): number {
  return (values.load * allSeats(values) * 1000) / values.service;
}

/** What was asked for: the whole capacity, then the rest of it. */
export function headRun(values: LoadValues): LoadRun {
  return runOf(values, values.requests, values.lost);
}

/** The same for other losses. */
export function sweepRuns(values: LoadValues): { lost: number; run: LoadRun }[] {
  const requests = Math.min(values.requests, SWEEP_REQUESTS);
  const seats = allSeats(values);
  const most = Math.floor(seats * SWEEP_LOST);
  const points = Math.min(SWEEP_POINTS, most + 1);
  return Array.from({ length: points }, (_, at) => {
    // Seats are lost whole.
    const lost = (100 * Math.round((most * at) / Math.max(1, points - 1))) / seats;
    return { lost, run: runOf(values, requests, lost) };
  });
}

function runOf(values: LoadValues, requests: number, lost: number): LoadRun {
  const rate = arrivalsPerSecond(values);
  const atMs = (requests / 2 / rate) * 1000;
  return {
    seed: values.seed,
    overload: overloadOf(values, atMs, lost),
    arrivalsPerSecond: rate,
    paidShare: values.paid / 100,
    serviceMs: values.service,
    tokens: 1,
    requests,
    settleMs: Math.min(LONGEST_SETTLING_MS, atMs * SETTLING_SHARE),
  };
}

function overloadOf(values: LoadValues, atMs: number, lost: number): Scenario['overload'] & {} {
  const { seats, provisioned, bucket, burst, share, service, shed, target, queue } = values;
  const shared = { name: 'shared', seats: 1, replicas: seats };
  const own = { name: 'provisioned', tier: 'paid', seats: 1, replicas: provisioned } as const;
  return {
    pools: provisioned > 0 ? [own, shared] : [shared],
    waiting: { limit: queue },
    ...(bucket !== 'none' && {
      bucket: {
        burstTokens: burst,
        // A request is one token: the bucket counts requests.
        tokensPerSecond: (allSeats(values) * 1000) / service,
        share: share / 100,
        ...(bucket === 'free' && { tier: 'free' as const }),
      },
    }),
    ...(shed && { shed: { targetLoad: target, serviceMs: service } }),
    incidents: [{ atMs, capacity: 1 - lost / 100 }],
  };
}

/** Without tiers, bucket and shedding: what theory has for the same loss. */
export function theoryMs({ service, load }: LoadValues, lost: number): number {
  return queueWaitMs(service, load / (1 - lost / 100));
}

/** A stretch's figures, one row a tier. */
export interface TierRow {
  stretch: 'before' | 'after';
  tier: 'paid' | 'free';
  arrived: number;
  refused: number;
  meanWaitMs: number;
  maxWaitMs: number;
}

export function tierRows(stretches: readonly LoadStretch[]): TierRow[] {
  return stretches.flatMap((stretch, at) => (['paid', 'free'] as const).map((tier) => {
    const { arrived, refused, meanWaitMs, maxWaitMs } = stretch[tier];
    const when = at === 0 ? 'before' : 'after';
    return { stretch: when, tier, arrived, refused, meanWaitMs, maxWaitMs };
  }));
}

/** What became of all of the last stretch, free or paid. */
export function lastOf(stretches: readonly LoadStretch[], tier: 'paid' | 'free'): TierRow {
  const row = tierRows(stretches).findLast((row) => row.tier === tier);
  if (row === undefined) throw new Error('a load run has a stretch');
  return row;
}
