// Waiting against streaming: what a run is, what it comes to, and how it travels in a link.
import { percentile } from '../shared/spread.js';
import type { Arrival } from './replay-model.js';

export type Mode = 'wait' | 'stream';

/** One call. Times in ms since its request. */
export interface WaitCall {
  mode: Mode;
  complete: boolean;
  headersMs: number | null;
  /** The generator's own stamp. */
  firstTokenMs: number | null;
  firstTextMs: number | null;
  totalMs: number;
  bodyBytes: number;
  arrivals: Arrival[];
}

export interface WaitRun {
  /** ISO time. */
  at: string;
  place: string;
  calls: WaitCall[];
}

export interface Spread {
  median: number;
  p95: number;
}

export interface ModeSummary {
  calls: number;
  /** Those that did not end as they should; they are in no figure. */
  failed: number;
  firstTextMs: Spread;
  totalMs: Spread;
}

/** Published for 120 words at 33 ± 8 ms, 20 calls a mode at once, elsewhere, in one process. */
export const PUBLISHED: Readonly<Record<Mode, Omit<ModeSummary, 'failed'>>> = {
  wait: {
    calls: 20,
    firstTextMs: { median: 3974.8, p95: 4062.2 },
    totalMs: { median: 3974.8, p95: 4062.2 },
  },
  stream: {
    calls: 20,
    firstTextMs: { median: 31.8, p95: 39.3 },
    totalMs: { median: 3980.7, p95: 4062.3 },
  },
};

export function summarizeMode(calls: readonly WaitCall[], mode: Mode): ModeSummary {
  const own = calls.filter((call) => call.mode === mode);
  const whole = own.filter(({ complete, firstTextMs }) => complete && firstTextMs !== null);
  const spread = (samples: number[]): Spread => ({
    median: percentile(samples, 50), p95: percentile(samples, 95),
  });
  return {
    calls: own.length,
    failed: own.length - whole.length,
    firstTextMs: spread(whole.map(({ firstTextMs }) => firstTextMs ?? NaN)),
    totalMs: spread(whole.map(({ totalMs }) => totalMs)),
  };
}

/** Whether all complete calls of both modes have the same text; `null` where there are none. */
export function sameText(calls: readonly WaitCall[]): boolean | null {
  const texts = calls.filter(({ complete }) => complete).map(textOf);
  return texts.length === 0 ? null : new Set(texts).size === 1;
}

export function textOf({ arrivals }: WaitCall): string {
  return arrivals.map(({ text }) => text).join('').trim();
}

/** How far apart the medians of both totals are, as a share. */
export function totalsApart(wait: ModeSummary, stream: ModeSummary): number {
  return Math.abs(stream.totalMs.median / wait.totalMs.median - 1);
}

/** A run as small as a link needs it: words once, times in whole ms as steps. */
export function toShared({ at, place, calls }: WaitRun): unknown {
  const words = calls.find(({ complete }) => complete)?.arrivals.map(({ text }) => text) ?? [];
  return {
    v: 1,
    at,
    place,
    words,
    calls: calls.filter(({ complete }) => complete).map((call) => [
      call.mode === 'stream' ? 1 : 0,
      tenths(call.firstTextMs ?? 0),
      tenths(call.totalMs),
      call.bodyBytes,
      steps(call.arrivals.map(({ atMs }) => Math.round(atMs))),
    ]),
  };
}

/** The run in a link; `undefined` for anything else. */
export function fromShared(shared: unknown): WaitRun | undefined {
  if (typeof shared !== 'object' || shared === null) return undefined;
  const { v, at, place, words, calls } = shared as Record<string, unknown>;
  if (v !== 1 || typeof at !== 'string' || Number.isNaN(Date.parse(at))) return undefined;
  if (typeof place !== 'string' || place.length > 200) return undefined;
  if (!isListOf(words, isShortText) || !Array.isArray(calls)) return undefined;
  const read = calls.map((call) => callFrom(call, words));
  if (read.length === 0 || read.length > 200) return undefined;
  const whole = read.filter((call) => call !== undefined);
  return whole.length === read.length ? { at, place, calls: whole } : undefined;
}

function callFrom(call: unknown, words: readonly string[]): WaitCall | undefined {
  if (!Array.isArray(call)) return undefined;
  const [isStream, first, total, bytes, gaps] = call as unknown[];
  const figures = [isStream, first, total, bytes];
  if (!isListOf(figures, isFigure) || !isListOf(gaps, isFigure)) return undefined;
  // Words and arrivals go together.
  if (gaps.length !== words.length) return undefined;
  let atMs = 0;
  const arrivals = gaps.map((gap, index) => ({ text: words[index] ?? '', atMs: (atMs += gap) }));
  return {
    mode: isStream === 1 ? 'stream' : 'wait',
    complete: true,
    headersMs: null,
    firstTokenMs: null,
    firstTextMs: (first as number) / 10,
    totalMs: (total as number) / 10,
    bodyBytes: bytes as number,
    arrivals,
  };
}

function isListOf<T>(value: unknown, fits: (entry: unknown) => entry is T): value is T[] {
  return Array.isArray(value) && value.length <= 10_000 && value.every(fits);
}

function isFigure(value: unknown): value is number {
  return typeof value === 'number' && Number.isFinite(value) && value >= 0 && value < 1e9;
}

function isShortText(value: unknown): value is string {
  return typeof value === 'string' && value.length <= 200;
}

function tenths(valueMs: number): number {
  return Math.round(valueMs * 10);
}

function steps(times: readonly number[]): number[] {
  return times.map((time, index) => Math.max(0, time - (times[index - 1] ?? 0)));
}
