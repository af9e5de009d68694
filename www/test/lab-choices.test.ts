import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CALCULATORS } from '../lab/calculator-list.js';
import { choose, costsOf } from '../lab/delivery-options.js';
import { defaults } from '../shared/fields.js';
import {
  arrivalsPerSecond, headRun, LOAD_FIELDS, sweepRuns, theoryMs, tierRows,
} from '../lab/load-plan.js';

const REPLY = { n: 120, d: 33, k: 4, w: 10, waitMs: 600, rttMs: 100 };
const NEEDS = { reads: 'person', check: 'none', twoWay: false, frugal: false } as const;

test('each delivery has its first text where the arithmetic says, and all end together', () => {
  const [whole, tokens, batches, held, socket] = costsOf(REPLY).map((cost) => cost.firstTextMs);
  assert.deepEqual([whole, tokens, batches, held, socket], [4660, 733, 832, 1063, 733]);
  assert.deepEqual(costsOf(REPLY).map((cost) => cost.endMs), Array(5).fill(4660));
  assert.deepEqual(costsOf(REPLY).map((cost) => cost.events), [1, 120, 30, 111, 120]);
});

test('batches and windows longer than the reply end with it', () => {
  const costs = costsOf({ ...REPLY, n: 3, k: 8, w: 9 });
  const [whole, , batches, held] = costs;
  assert.equal(batches?.firstTextMs, whole?.endMs);
  assert.equal(held?.firstTextMs, whole?.endMs);
  assert.equal(batches?.addedMs, 33);
});

test('the choice follows the needs in order', () => {
  const taken = (needs: object, reply: object = {}): string =>
    choose({ ...REPLY, ...reply }, { ...NEEDS, ...needs }).delivery;
  assert.equal(taken({}), 'tokens');
  assert.equal(taken({ check: 'whole', twoWay: true }), 'whole');
  assert.equal(taken({ twoWay: true }), 'socket');
  assert.equal(taken({ reads: 'program' }), 'whole');
  assert.equal(taken({ check: 'window', frugal: true }), 'held');
  assert.equal(taken({ frugal: true }), 'batches');
  assert.equal(taken({ frugal: true }, { k: 1 }), 'tokens');
  assert.equal(taken({}, { n: 2, d: 10, waitMs: 0, rttMs: 20 }), 'whole');
});

test('calculators have unlike names, known fields in examples, and finite figures', () => {
  const ids = CALCULATORS.map(({ id }) => id);
  assert.equal(new Set(ids).size, ids.length);
  for (const { id, fields, examples = [], compute, drawing, assumes } of CALCULATORS) {
    assert.ok(assumes.length > 0, id);
    for (const { values } of [...examples, { values: {} }]) {
      for (const name of Object.keys(values)) assert.ok(Object.hasOwn(fields, name), name);
      const all = { ...defaults(fields), ...values } as ReturnType<typeof defaults>;
      for (const { label, value } of compute(all)) assert.ok(Number.isFinite(value), label);
      const data = drawing?.(all).data ?? [];
      assert.equal(new Set(data.map((column) => column.length)).size, data.length === 0 ? 0 : 1);
    }
  }
});

test('the default load is the incident: ten seats at 0.661 that lose three', () => {
  const values = defaults(LOAD_FIELDS);
  assert.ok(Math.abs(arrivalsPerSecond(values) - 133) < 0.1);
  const run = headRun(values);
  assert.equal(run.overload.incidents?.[0]?.capacity, 0.7);
  const middle = ((run.overload.incidents?.[0]?.atMs ?? 0) * run.arrivalsPerSecond) / 1000;
  assert.equal(Math.round(middle), values.requests / 2);
  assert.deepEqual(sweepRuns(values).map(({ lost }) => lost), [0, 10, 20, 30, 40]);
  assert.ok(Math.abs(theoryMs(values, 0) - 97) < 0.2);
  assert.ok(Math.abs(theoryMs(values, 30) - 842.4) < 0.5);
});

test('knobs become pools, bucket and shedding', () => {
  const values = {
    ...defaults(LOAD_FIELDS), provisioned: 6, seats: 4, bucket: 'free' as const, share: 15,
    shed: true,
  };
  const { overload } = headRun(values);
  assert.deepEqual(overload.pools.map(({ name, tier }) => [name, tier]),
    [['provisioned', 'paid'], ['shared', undefined]]);
  assert.equal(overload.bucket?.tier, 'free');
  assert.equal(overload.bucket?.share, 0.15);
  assert.equal(overload.shed?.targetLoad, 0.75);
  const none = { arrived: 0, refused: 0, served: 0, meanWaitMs: 0, maxWaitMs: 0 };
  const rows = tierRows([
    { fromMs: 0, paid: none, free: none }, { fromMs: 9, paid: { ...none, arrived: 3 }, free: none },
  ]);
  assert.deepEqual(rows.map(({ stretch, tier, arrived }) => [stretch, tier, arrived]), [
    ['before', 'paid', 0], ['before', 'free', 0], ['after', 'paid', 3], ['after', 'free', 0],
  ]);
});
