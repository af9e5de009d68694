// Tokens that are known, for the suite `peers`: a fast wrong answer is worth nothing.
import { readFileSync, readdirSync } from 'node:fs';
import { basename, join } from 'node:path';

/** Greedy ids are compared up to the first whose lead is smaller, in nats: as int8 allows. */
export const CLEAR_LEAD = 0.5;
/** Greedy tokens of weights that were rounded a second time. */
const ROUNDED_TOKENS = 4;

/**
 * `{ isOwn, cases: { prompt, text, ids, clear }[], text }`: prompts with what follows, of which
 * `clear` tokens are beyond doubt, the most first; and a longer text to cut prompts from. Another
 * quantization of a known model gets its prompts, and no answers of its own.
 */
export function referenceOf(folder, file) {
  const fold = (text) => text.toLowerCase().replace(/[^a-z0-9]/g, '');
  const wanted = fold(basename(file));
  const all = readdirSync(folder)
    .filter((name) => name.endsWith('.json') && name !== 'cases.json')
    .map((name) => JSON.parse(readFileSync(join(folder, name), 'utf8')));
  const own = all.find(({ model }) => fold(model) === wanted);
  const family = own ?? all.find(({ model }) => fold(model).slice(0, 6) === wanted.slice(0, 6));
  if (family === undefined) throw new Error(`there is no reference for ${basename(file)}`);
  const cases = family.cases
    .filter(({ greedy_ids }) => greedy_ids !== undefined)
    .map((it) => ({
      prompt: it.prompt_text,
      text: it.greedy_text,
      ids: it.greedy_ids,
      clear: clearOf(it.greedy_margin ?? []),
    }));
  const long = family.cases.find(({ name }) => name === 'long-forced');
  return { isOwn: own !== undefined, cases: clearest(cases), text: long.prompt_text };
}

/** Takes answers, `{ prompt, text, ids, leads }`, in place of those at hand. */
export function adopt(reference, answers) {
  const cases = answers.map(({ leads, ...answer }) => ({ ...answer, clear: clearOf(leads) }));
  reference.cases = clearest(cases);
}

function clearOf(leads) {
  const first = leads.findIndex((lead) => lead < CLEAR_LEAD);
  return first === -1 ? leads.length : first;
}

const clearest = (cases) => cases.sort((a, b) => b.clear - a.clear);

/** `{ failure, words }`: null and what was found, or what is wrong. */
export async function checkGreedy(engine, { cases: [best] }) {
  if (best.clear < 2) return { failure: 'the reference has no clear tokens' };
  const made = await engine.run(best.prompt, best.clear);
  const right =
    made.ids === null
      ? made.text.length > 0 && best.text.startsWith(made.text)
      : common(made.ids, best.ids) === best.clear;
  return right
    ? { failure: null, words: `${best.clear} greedy tokens are the reference's` }
    : { failure: `it writes ${JSON.stringify(made.text)}` };
}

/**
 * Weights that are rounded a second time, to other formats, leave the reference where its leads
 * are small: one of the reference's answers has to begin as it should.
 */
export async function checkRounded(engine, { cases }) {
  let furthest = 0;
  for (const it of cases) {
    const made = await engine.run(it.prompt, ROUNDED_TOKENS);
    furthest = Math.max(furthest, common(made.ids, it.ids));
    if (furthest === ROUNDED_TOKENS) {
      const words =
        `has the same weights rounded again: ${ROUNDED_TOKENS} greedy tokens of one answer of ` +
        'the reference are all that it is held to';
      return { failure: null, isRounded: true, words };
    }
  }
  return { failure: `no answer begins with more than ${furthest} tokens of the reference` };
}

/** How many tokens two answers have in common. */
function common(made, wanted) {
  const first = made.findIndex((id, i) => id !== wanted[i]);
  return first === -1 ? made.length : first;
}
