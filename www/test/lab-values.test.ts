import assert from 'node:assert/strict';
import { test } from 'node:test';
import { formatHash, parseHash } from '../lab/address.js';
import { toCsv } from '../shared/csv.js';
import {
  amount, choice, count, defaults, flag, fromParams, parseField, text, toParams,
} from '../shared/fields.js';
import { bytesExact, bytesShort, decimals, large, percent, span } from '../shared/numbers.js';
import { pack, unpack } from '../lab/packed.js';
import { median, percentile } from '../shared/spread.js';

const FIELDS = {
  calls: count('Calls', 20, [1, 40]),
  rtt: amount('Round trip', 80, [0, 5000], { unit: 'ms' }),
  place: choice('Place', 'mock', { mock: 'The mock', local: 'This device' }),
  busy: flag('Busy page', false),
  prompt: text('Prompt', 'Hi', { maxLength: 20 }),
};

test('an address holds what differs from the defaults and gives it back', () => {
  const values = { ...defaults(FIELDS), calls: 7, rtt: 12.5, busy: true, prompt: 'a=b & c?#%' };
  const hash = formatHash({ section: 'paths', params: toParams(FIELDS, values) });
  assert.ok(!hash.includes('place='));
  const { section, params } = parseHash(hash);
  assert.equal(section, 'paths');
  assert.deepEqual(fromParams(FIELDS, params), values);
  assert.equal(formatHash({ section: 'wait', params: new URLSearchParams() }), '#wait');
  assert.deepEqual(parseHash('').section, '');
});

test('an address that does not fit leaves the defaults', () => {
  const hash = '#x?calls=41&rtt=fast&place=moon&busy=yes&prompt=' + 'x'.repeat(21);
  assert.deepEqual(fromParams(FIELDS, parseHash(hash).params), defaults(FIELDS));
});

test('numbers outside their limits are refused with a sentence', () => {
  assert.deepEqual(parseField(FIELDS.calls, '1.5'), {
    problem: 'Calls is a whole number from 1 to 40.',
  });
  assert.deepEqual(parseField(FIELDS.rtt, ''), {
    problem: 'Round trip is a number from 0 to 5,000.',
  });
  assert.deepEqual(parseField(FIELDS.rtt, ' 1,234.5 '), { value: 1234.5 });
  assert.deepEqual(parseField(FIELDS.place, 'toString'), {
    problem: 'Place is one of mock, local.',
  });
});

test('csv quotes what has to be, and disarms formulas', () => {
  const csv = toCsv({
    columns: ['name', 'ms'],
    rows: [['a "b", c', 1.5], ['=1+1', -2], [null, NaN], ['line\nbreak', undefined]],
  });
  const lines = ['name,ms', '"a ""b"", c",1.5', "'=1+1,-2", ',', '"line\nbreak",', ''];
  assert.equal(csv, lines.join('\r\n'));
});

test('a run comes back from its letters, and other letters are none', async () => {
  const run = { calls: [[31.8, 3974.8]], text: 'ä 🙂' };
  const letters = await pack(run);
  assert.match(letters, /^[\w-]+$/);
  assert.deepEqual(await unpack(letters), run);
  for (const wrong of ['', '!!', letters.slice(0, -4), 'A'.repeat(64_001)]) {
    assert.equal(await unpack(wrong), undefined);
  }
  // A small text that would be large: 4 MiB of one letter.
  assert.equal(await unpack(await pack('x'.repeat(4 << 20))), undefined);
});

test('percentiles lie between the nearest samples', () => {
  assert.equal(median([3, 1, 2]), 2);
  assert.equal(median([4, 1, 2, 3]), 2.5);
  assert.equal(percentile([1, 2, 3, 4, 5], 95), 4.8);
  assert.ok(Number.isNaN(median([])));
});

test('figures are written as people read them', () => {
  assert.equal(decimals(3974.83), '3,974.8');
  assert.equal(decimals(Infinity), '∞');
  assert.equal(span(733), '733 ms');
  assert.equal(span(49.5), '49.5 ms');
  assert.equal(span(4660), '4.66 s');
  assert.equal(span(150_000), '2.5 min');
  assert.equal(percent(0.0015, 2), '0.15 %');
  assert.equal(bytesExact(536_870_912), '536,870,912 bytes (512 MiB)');
  assert.equal(bytesShort(1536), '1.50 KiB');
  assert.equal(bytesShort(93), '93 B');
  assert.equal(large(1_234_567), '1.23 M');
  assert.equal(large(999), '999');
});
