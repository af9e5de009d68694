// What the samples come to. The definitions are those of `tokenbrook/measure`, by their names.
import { summarize, type Spread, type Timeline } from 'tokenbrook/measure';
import type { Cell, Table } from '../shared/csv.js';
import { percentile } from '../shared/spread.js';
import type { Measured, Outcome, Series } from './run.js';

/** Times in ms, rates in tokens a second. */
export interface SeriesFigures {
  promptTokens: number;
  outputTokens: number;
  samples: number;
  /** `ttft.generator`: the request to the first token that the engine chose. */
  ttft: Spread | undefined;
  /** `ttft.first_text`. */
  firstText: Spread | undefined;
  /** `tpot`: without the first token. */
  tpot: Spread | undefined;
  /** Prompt tokens over the median of `ttft.generator`. */
  promptTokensPerSecond: number | null;
  /** 1 over the median of `tpot`. */
  tokensPerSecond: number | null;
}

/** Whose definition each figure has, for those who read the file. */
export const DEFINITIONS = {
  ttft: 'ttft.generator',
  firstText: 'ttft.first_text',
  tpot: 'tpot',
  promptTokensPerSecond: 'promptTokens / ttft.generator',
  tokensPerSecond: '1 / tpot',
};

/** Needs `ready` of the stopwatch. */
export function figuresOf({ promptTokens, outputTokens, timelines }: Series): SeriesFigures {
  const { figures } = summarize(timelines);
  const { tpot, 'ttft.generator': ttft } = figures;
  return {
    promptTokens,
    outputTokens,
    samples: timelines.length,
    ttft,
    firstText: figures['ttft.first_text'],
    tpot: outputTokens > 1 ? tpot : undefined,
    promptTokensPerSecond: rate(promptTokens, ttft?.p50),
    tokensPerSecond: outputTokens > 1 ? rate(1, tpot?.p50) : null,
  };
}

function rate(tokens: number, ms: number | undefined): number | null {
  return ms === undefined || ms <= 0 ? null : (tokens / ms) * 1000;
}

/** Median gap before each token of a reply but the first, over its samples. */
export function gapsOf({ timelines }: Series): number[] {
  const gaps = timelines.map(gapsIn);
  const longest = Math.max(0, ...gaps.map(({ length }) => length));
  return Array.from({ length: longest }, (_, at) =>
    percentile(gaps.flatMap((one) => one[at] ?? []), 50));
}

function gapsIn({ events }: Timeline): number[] {
  const at = events.filter(({ textBytes }) => textBytes > 0).map(({ atMs }) => atMs);
  return at.slice(1).map((atMs, n) => atMs - (at[n] ?? atMs));
}

export function isMeasured(outcome: Outcome): outcome is Measured {
  return 'info' in outcome;
}

const COLUMNS = [
  'engine', 'backend', 'wasmVariant', 'precision', 'threads', 'adapter', 'model', 'quantization',
  'loadMs', 'loadedFrom', 'tokensAgree', 'worstNats', 'weightsBytes', 'kvCacheBytes',
  'scratchBytes', 'wasmHeapBytes', 'kind', 'sample', 'promptTokens', 'outputTokens', 'ttftMs',
  'firstTextMs', 'tpotMs', 'promptTokensPerSecond', 'tokensPerSecond',
] as const;

/** A row for each sample. */
export function tableOf(outcomes: readonly Outcome[]): Table {
  const rows = outcomes.filter(isMeasured).flatMap((outcome) => {
    const common = commonCells(outcome);
    const { prompts, reply } = outcome;
    return [...prompts.map((one) => ['prompt', one] as const), ['reply', reply] as const].flatMap(
      ([kind, series]) => series.timelines.map((timeline, at) =>
        [...common, kind, at + 1, ...sampleCells(series, timeline)]),
    );
  });
  return { columns: COLUMNS, rows };
}

function commonCells({ setup, info, loadMs, loadedFrom, check, memory }: Measured): Cell[] {
  return [
    setup.name, info.backend, info.wasmVariant, info.precision, info.threads, info.adapter,
    info.name, info.quantization, loadMs, loadedFrom, check.agrees, check.worstNats,
    memory.weightsBytes, memory.kvCacheBytes, memory.scratchBytes, memory.wasmHeapBytes,
  ];
}

function sampleCells(series: Series, timeline: Timeline): Cell[] {
  const { promptTokens, outputTokens } = series;
  const one = figuresOf({ ...series, timelines: [timeline] });
  return [
    promptTokens, outputTokens, one.ttft?.p50, one.firstText?.p50, one.tpot?.p50,
    one.promptTokensPerSecond, one.tokensPerSecond,
  ];
}
