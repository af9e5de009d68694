// What the model says when computed in float32 on its dequantized weights, and how far
// llama.cpp's int8 activations are from it. `tests/data/reference/` holds the files.

import { readFileSync } from 'node:fs';
import { join } from 'node:path';

import type { ChatMessage, ScoreResult } from '../../../js/index.js';
import { ROOT } from './package.js';

export interface Case {
  name: string;
  messages?: ChatMessage[];
  raw?: string;
  prompt_text: string;
  prompt_ids: number[];
  greedy_ids?: number[];
  /** Log-probability gap of each greedy id to the runner-up. */
  greedy_margin?: number[];
  greedy_text?: string;
  forced?: { top1: number[]; top1_logprob: number[]; next_logprob: number[] };
  llama_cpp_int8?: { top1_agreement: number; mean_abs_dlogprob: number };
}

const read = (name: string): Case[] => {
  const text = readFileSync(join(ROOT, 'tests/data/reference', name), 'utf8');
  return (JSON.parse(text) as { cases: Case[] }).cases;
};

const isGreedy = (c: Case): boolean => c.greedy_ids !== undefined;
const isForced = (c: Case): boolean => c.forced !== undefined;

const cases = read('smollm2-135m-q4_1.json');
const gemma = read('gemma-3-270m-q4_k_m.json');

export const GREEDY_CASES = cases.filter(isGreedy);
export const FORCED_CASES = cases.filter(isForced);
export const GEMMA_GREEDY_CASES = gemma.filter(isGreedy);
export const GEMMA_FORCED_CASES = gemma.filter(isForced);

export function caseNamed(name: string): Case {
  const found = cases.find((c) => c.name === name);
  if (found === undefined) throw new Error(`the reference has no case ${name}`);
  return found;
}

/** How many greedy ids have to be equal: up to the first that hangs on a hair. */
export function clearTokens({ greedy_margin: margins = [] }: Case, below = 0.05): number {
  const first = margins.findIndex((margin) => margin < below);
  return first === -1 ? margins.length : first;
}

export interface Distance {
  top1Agreement: number;
  meanAbsDlogprob: number;
}

/** How far a scoring is from the reference's, over all positions that predict a token. */
export function distance(forced: NonNullable<Case['forced']>, score: ScoreResult): Distance {
  const count = forced.top1.length;
  const same = forced.top1.filter((id, i) => id === score.top1[i]).length;
  const gaps = forced.next_logprob.map((p, i) => Math.abs(p - (score.nextLogprob[i] ?? NaN)));
  return {
    top1Agreement: same / count,
    meanAbsDlogprob: gaps.reduce((sum, gap) => sum + gap, 0) / count,
  };
}

/** `fast` on a GPU rounds only where that is measured to be faster: here it has to. */
export const ROUNDED = {
  variants: { linearOne: 'FastRows', linearFew: 'FastTiles', linearMany: 'FastTiles' },
};
