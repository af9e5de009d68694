// Tiny random models of each architecture, with the logits of transformers.

import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';

import { ROOT } from './package.js';

const FIXTURES = join(ROOT, 'tests/data/architectures');

export interface FixtureCase {
  context_length: number;
  ids: number[];
  /** Positions, and the logits at each. */
  rows: number[];
  logits: number[][];
}

/** Names of all fixtures; `/fixtures/NAME.gguf` is the model. */
export const FIXTURE_NAMES = readdirSync(FIXTURES)
  .filter((name) => name.endsWith('.gguf'))
  .map((name) => name.slice(0, -'.gguf'.length));

export function fixtureCases(name: string): FixtureCase[] {
  const text = readFileSync(join(FIXTURES, `${name}.json`), 'utf8');
  return (JSON.parse(text) as { cases: FixtureCase[] }).cases;
}

/** The largest difference between these log-probabilities and the fixture's, in nats. */
export function furthest(fixture: FixtureCase, nextLogprob: readonly number[]): number {
  const gaps = fixture.rows.map((row, i) => {
    const next = fixture.ids[row + 1];
    // The last position predicts nothing that was given.
    if (next === undefined) return 0;
    return Math.abs((nextLogprob[row] ?? NaN) - logSoftmax(fixture.logits[i] ?? [], next));
  });
  return Math.max(...gaps);
}

function logSoftmax(logits: number[], id: number): number {
  const most = Math.max(...logits);
  const sum = logits.reduce((sum, z) => sum + Math.exp(z - most), 0);
  return (logits[id] ?? NaN) - most - Math.log(sum);
}
