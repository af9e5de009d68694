// A timeline as small as a link needs it, and back.
import type { Timeline, TimelineEvent, TimelineRead } from 'tokenbrook/measure';

const MOMENTS = [
  'headersMs', 'firstTokenMs', 'generationEndMs', 'firstRenderedMs', 'closedMs',
] as const;
const OUTCOMES = ['open', 'complete', 'incomplete', 'failed'] as const;
const COMPLETIONS = [null, 'marker', 'finish-reason', 'body'] as const;
const FAILURES = [null, 'reset', 'status', 'event', 'truncated', 'aborted'] as const;
const RENDERED = [null, 'element-timing', 'animation-frames'] as const;

/** More reads or events than that are no timeline of this page. */
const MOST = 20_000;

/** Moments in tenths of ms since the request, reads and events as steps. */
export function toShared(timeline: Timeline): unknown[] {
  const { requestMs, status, isStream, marks, outputTokens } = timeline;
  const since = (atMs: number): number => Math.max(0, Math.round((atMs - requestMs) * 10));
  const step = stepper(since);
  const eventStep = stepper(since);
  return [
    1,
    Math.round(requestMs),
    MOMENTS.map((name) => (timeline[name] === null ? -1 : since(timeline[name]))),
    [status ?? 0, isStream ? 1 : 0, outputTokens ?? -1,
      OUTCOMES.indexOf(timeline.outcome), COMPLETIONS.indexOf(timeline.completion),
      FAILURES.indexOf(timeline.failure), RENDERED.indexOf(timeline.renderedBy)],
    marks === null ? [] : [marks.compression, marks.proxy, marks.cdn].map(Number),
    timeline.reads.map(({ atMs, bytes, withinEvent }) =>
      [step(atMs), bytes, withinEvent ? 1 : 0]),
    timeline.events.map(({ atMs, bytes, tokens, textBytes, text, hasChoices }) =>
      [eventStep(atMs), bytes, tokens, textBytes, hasChoices ? 1 : 0, text]),
  ];
}

function stepper(since: (atMs: number) => number): (atMs: number) => number {
  let last = 0;
  return (atMs) => {
    const at = Math.max(last, since(atMs));
    const step = at - last;
    last = at;
    return step;
  };
}

/** The timeline of a link; `undefined` for anything else. */
export function fromShared(shared: unknown): Timeline | undefined {
  if (!Array.isArray(shared) || shared.length !== 7 || shared[0] !== 1) return undefined;
  const [, requestMs, moments, codes, marks, reads, events] = shared as unknown[];
  if (!isNumber(requestMs) || !isNumbers(moments, 5) || !isNumbers(codes, 7)) return undefined;
  if (!isNumbers(marks, 3) && !isNumbers(marks, 0)) return undefined;
  if (!isRows(reads, 3) || !isRows(events, 6)) return undefined;
  const at = (tenths: number): number => requestMs + tenths / 10;
  const [status = 0, isStream, output = -1] = codes;
  const [outcome = 0, completion = 0, failure = 0, rendered = 0] = codes.slice(3);
  const times = moments.map((tenths) => (tenths < 0 ? null : at(tenths)));
  const [headersMs = null, firstTokenMs = null, generationEndMs = null, firstRenderedMs = null,
    closedMs = null] = times;
  const all = eventsFrom(events, at);
  if (all === undefined) return undefined;
  const read = readsFrom(reads, at);
  const texts = all.filter(({ textBytes }) => textBytes > 0);
  const counted = all.reduce((sum, { tokens }) => sum + tokens, 0);
  return {
    requestMs, headersMs, firstTokenMs, generationEndMs, firstRenderedMs, closedMs,
    firstByteMs: headersMs ?? read[0]?.atMs ?? null,
    firstTextMs: texts[0]?.atMs ?? null,
    lastTextMs: texts.at(-1)?.atMs ?? null,
    renderedBy: RENDERED[rendered] ?? null,
    status: status === 0 ? null : status,
    isStream: isStream === 1,
    marks: marks.length === 0 ? null
      : { compression: marks[0] === 1, proxy: marks[1] === 1, cdn: marks[2] === 1 },
    reads: read,
    events: all,
    text: all.map(({ text }) => text).join(''),
    bodyBytes: read.reduce((sum, { bytes }) => sum + bytes, 0),
    outputTokens: output < 0 ? null : output,
    tokens: output < 0 ? counted : output,
    outcome: OUTCOMES[outcome] ?? 'open',
    completion: COMPLETIONS[completion] ?? null,
    failure: FAILURES[failure] ?? null,
  };
}

function readsFrom(rows: unknown[][], at: (tenths: number) => number): TimelineRead[] {
  let tenths = 0;
  return rows.map(([step, bytes, within]) => {
    tenths += Number(step);
    return { atMs: at(tenths), bytes: Number(bytes), withinEvent: within === 1 };
  });
}

function eventsFrom(
  rows: unknown[][], at: (tenths: number) => number,
): TimelineEvent[] | undefined {
  let tenths = 0;
  const events: TimelineEvent[] = [];
  for (const [step, bytes, tokens, textBytes, hasChoices, text] of rows) {
    if (typeof text !== 'string') return undefined;
    tenths += Number(step);
    events.push({
      atMs: at(tenths), bytes: Number(bytes), tokens: Number(tokens),
      textBytes: Number(textBytes), hasChoices: hasChoices === 1, text,
    });
  }
  return events;
}

function isNumber(value: unknown): value is number {
  return typeof value === 'number' && Number.isFinite(value);
}

function isNumbers(value: unknown, length: number): value is number[] {
  return Array.isArray(value) && value.length === length && value.every(isNumber);
}

/** Rows of numbers, the sixth of which is a text. */
function isRows(value: unknown, length: number): value is unknown[][] {
  if (!Array.isArray(value) || value.length > MOST) return false;
  return value.every((row) => Array.isArray(row) && row.length === length &&
    row.slice(0, 5).every((cell) => isNumber(cell) && cell >= 0));
}
