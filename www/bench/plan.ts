// What is measured: the engines of this device, prompts and replies.
import { choice, count, flag, text, type Values } from '../shared/fields.js';

export const BENCH_FIELDS = {
  webgpu: flag('GPU, by WebGPU', true),
  best: flag('CPU, the best for this browser', true),
  single: flag('CPU, one thread', false),
  plain: flag('CPU, the one for every browser', false),
  precision: choice('Precision', 'auto', { auto: 'Automatic', exact: 'Exact', fast: 'Fast' }),
  prompts: text('Prompts', '32, 128, 512', { maxLength: 60, hint: 'Tokens of each, at most six.' }),
  tokens: count('Reply', 64, [2, 2000], { unit: 'tokens' }),
  samples: count('Samples', 5, [1, 100]),
};
export type BenchValues = Values<typeof BENCH_FIELDS>;

/** One engine as it is loaded. */
export interface Setup {
  key: 'webgpu' | 'best' | 'single' | 'plain';
  name: string;
  backend: 'webgpu' | 'cpu';
  /** Holds the worker to one module; without it, the package chooses. */
  wasm?: 'relaxed-simd' | 'simd128';
}

const SETUPS: readonly Setup[] = [
  { key: 'webgpu', name: 'GPU', backend: 'webgpu' },
  { key: 'best', name: 'CPU', backend: 'cpu' },
  { key: 'single', name: 'CPU, one thread', backend: 'cpu', wasm: 'relaxed-simd' },
  { key: 'plain', name: 'CPU, plain', backend: 'cpu', wasm: 'simd128' },
];

const MOST_PROMPTS = 6;
const LONGEST_PROMPT = 8000;

/** A plan, or a sentence on what is wrong with it. */
export type Planned = { plan: Plan } | { problem: string };

export interface Plan {
  setups: Setup[];
  precision: BenchValues['precision'];
  /** Prompt lengths, rising. */
  lengths: number[];
  tokens: number;
  samples: number;
  contextLength: number;
}

export function planOf(values: BenchValues): Planned {
  const setups = SETUPS.filter(({ key }) => values[key]);
  if (setups.length === 0) return { problem: 'Choose at least one engine.' };
  const entered = values.prompts.split(/[\s,;]+/).filter((part) => part !== '').map(Number);
  const fits = (length: number): boolean =>
    Number.isInteger(length) && length >= 2 && length <= LONGEST_PROMPT;
  if (entered.length === 0 || entered.length > MOST_PROMPTS || !entered.every(fits)) {
    return {
      problem: `Prompts are one to ${MOST_PROMPTS} whole numbers from 2 to ` +
        `${LONGEST_PROMPT.toLocaleString('en-US')}, such as 32, 128, 512.`,
    };
  }
  const lengths = [...new Set(entered)].sort((a, b) => a - b);
  const { precision, tokens, samples } = values;
  const longest = Math.max(lengths.at(-1) ?? 0, (lengths[0] ?? 0) + tokens, CHECK_TOKENS);
  return { plan: { setups, precision, lengths, tokens, samples, contextLength: longest + 16 } };
}

/** Prompt and reply of the check of tokens have room. */
const CHECK_TOKENS = 128;

/** Steps of a run, for its progress: loading, checking, and each sample. */
export function stepsOf({ setups, lengths, samples }: Plan): number {
  return setups.length * (2 + samples * (lengths.length + 1));
}
