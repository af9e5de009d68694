// Timelines and summaries as tables, RFC 4180.

import type { Spread, Summary, Timeline } from './timeline.js';

type Cell = string | number | null | undefined;

const MOMENTS = [
  ['request', 'requestMs'],
  ['headers', 'headersMs'],
  ['first token', 'firstTokenMs'],
  ['generation end', 'generationEndMs'],
  ['first text', 'firstTextMs'],
  ['first rendered', 'firstRenderedMs'],
  ['last text', 'lastTextMs'],
  ['closed', 'closedMs'],
] as const;

/**
 * One row for each moment, read and event: `call` counts from 0, `ms` from the call's request,
 * `at` is Unix milliseconds. The last row of a call has its outcome as text.
 */
export function timelinesToCsv(timelines: readonly Timeline[]): string {
  const rows: Cell[][] = [['call', 'kind', 'ms', 'at', 'bytes', 'tokens', 'text']];
  timelines.forEach((timeline, call) => {
    const since = (atMs: number): number => Math.round((atMs - timeline.requestMs) * 1000) / 1000;
    const row = (kind: string, atMs: number, ...more: Cell[]): void =>
      void rows.push([call, kind, since(atMs), atMs, ...more]);
    for (const [kind, name] of MOMENTS) {
      const atMs = timeline[name];
      if (atMs !== null) row(kind, atMs);
    }
    for (const { atMs, bytes } of timeline.reads) row('read', atMs, bytes);
    for (const { atMs, bytes, tokens, text } of timeline.events) {
      row('event', atMs, bytes, tokens, text);
    }
    const { bodyBytes, tokens, outcome, failure, completion } = timeline;
    const why = failure ?? completion;
    const text = why === null ? outcome : `${outcome}: ${why}`;
    rows.push([call, 'outcome', null, null, bodyBytes, tokens, text]);
  });
  return write(rows);
}

/** One row for each figure, behind rows of the counts, whose value is under `count`. */
export function summaryToCsv(summary: Summary): string {
  const columns = ['count', 'mean', 'min', 'p50', 'p90', 'p95', 'p99', 'max'] as const;
  const intervals = ['p50 low', 'p50 high', 'p95 low', 'p95 high'];
  const rows: Cell[][] = [['figure', ...columns, ...intervals]];
  const { figures, ...counts } = summary;
  for (const [name, value] of Object.entries(counts)) rows.push([name, value]);
  for (const [name, spread] of Object.entries(figures) as [string, Spread][]) {
    const { p50Interval, p95Interval } = spread;
    const bounds = [...(p50Interval ?? [null, null]), ...(p95Interval ?? [null, null])];
    rows.push([name, ...columns.map((column) => spread[column]), ...bounds]);
  }
  return write(rows);
}

function write(rows: readonly Cell[][]): string {
  const width = rows[0]?.length ?? 0;
  return rows.map((row) => `${pad(row, width).map(quote).join(',')}\r\n`).join('');
}

function pad(row: Cell[], width: number): Cell[] {
  return [...row, ...Array.from({ length: width - row.length }, () => null)];
}

function quote(cell: Cell): string {
  const text = cell === null || cell === undefined ? '' : String(cell);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
