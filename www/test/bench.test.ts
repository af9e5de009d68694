import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { BENCH_FIELDS, planOf, stepsOf } from '../bench/plan.js';
import { Prompts, type Tokenizer } from '../bench/prompts.js';
import { judge, KNOWN, knownReference } from '../bench/reference.js';
import { defaults } from '../shared/fields.js';

const plan = (changes: object) => planOf({ ...defaults(BENCH_FIELDS), ...changes });

test('a plan has each length once, rising, and room for all of it', () => {
  const planned = plan({ prompts: ' 512, 32;128 32', tokens: 700, plain: true });
  assert.ok('plan' in planned);
  assert.deepEqual(planned.plan.lengths, [32, 128, 512]);
  assert.ok(planned.plan.contextLength >= 32 + 700);
  assert.deepEqual(planned.plan.setups.map(({ key }) => key), ['webgpu', 'best', 'plain']);
  // Loading, checking, and five samples of three prompts and a reply.
  assert.equal(stepsOf(planned.plan), 3 * (2 + 5 * 4));
});

test('plans that measure nothing are refused with a reason', () => {
  for (const prompts of ['', ',', 'many', '32.5', '1', '9000', '2 3 4 5 6 7 8']) {
    const planned = plan({ prompts });
    assert.ok('problem' in planned && /whole numbers/.test(planned.problem), prompts);
  }
  const none = plan({ webgpu: false, best: false });
  assert.ok('problem' in none && /engine/.test(none.problem));
});

test('known tokens are those of the reference files', () => {
  const files = ['smollm2-135m-q4_1.json', 'gemma-3-270m-q4_k_m.json'];
  assert.equal(KNOWN.length, files.length);
  files.forEach((file, at) => {
    interface Case { name: string; prompt_ids: number[]; greedy_ids: number[] }
    const text = readFileSync(`${process.cwd()}/tests/data/reference/${file}`, 'utf8');
    const { cases } = JSON.parse(text) as { cases: Case[] };
    const capital = cases.find(({ name }) => name === 'capital');
    const known = KNOWN[at];
    assert.deepEqual(known?.promptIds, capital?.prompt_ids);
    assert.deepEqual(known?.ids, capital?.greedy_ids.slice(0, known?.ids.length));
    assert.ok((known?.ids.length ?? 0) >= 16);
    assert.equal(known && knownReference(known), known);
  });
  const other = { architecture: 'llama', quantization: 'Q4_1', parameters: 1 };
  assert.equal(knownReference(other), undefined);
});

test('a token far below the likeliest one is wrong, and how far depends on the precision', () => {
  const reference = { of: 'm', promptIds: [1, 2, 3], ids: [4, 5] };
  const check = (gap: number, precision: string) => judge(
    reference,
    // Positions 2 and 3 predict the two tokens; what comes before and after is not asked.
    { top1Logprob: [0, 0, -1, -1, 0], nextLogprob: [-9, -9, -1, -1 - gap, -9] },
    precision,
  );
  assert.equal(check(0, 'exact').agrees, true);
  assert.equal(check(0.2, 'fast').agrees, true);
  assert.equal(check(0.2, 'exact').agrees, false);
  assert.equal(check(0.6, 'fast').agrees, false);
  assert.equal(check(0.6, 'fast').worstNats.toFixed(3), '0.600');
  assert.equal(check(NaN, 'fast').agrees, false);
  assert.equal(judge(reference, { top1Logprob: [], nextLogprob: [] }, 'fast').agrees, false);
});

/** Words are tokens. */
function words(): Tokenizer {
  const known: string[] = [];
  return {
    tokenize: async (text) => text.split(' ').map((word) => {
      if (!known.includes(word)) known.push(word);
      return known.indexOf(word);
    }),
    detokenize: async (ids) => ids.map((id) => known[id]).join(' '),
  };
}

test('prompts have their length and beginnings of their own', async () => {
  const prompts = new Prompts(words(), 1);
  const made: string[] = [];
  for (let n = 0; n < 40; n += 1) made.push(await prompts.next(n % 2 === 0 ? 9 : 300));
  made.forEach((text, n) => assert.equal(text.split(' ').length + 1, n % 2 === 0 ? 9 : 300));
  assert.equal(new Set(made.map((text) => text.split(' ')[0])).size, 40);
  // Beginnings run out at last, and then start again.
  for (let n = 0; n < 200; n += 1) assert.equal((await prompts.next(4)).split(' ').length, 3);
});

test('a length that no text has is an error', async () => {
  const longer = { ...words(), detokenize: async () => 'one more than was asked for' };
  await assert.rejects(new Prompts(longer, 0).next(3), /no prompt of 3 tokens/);
});
