// What breaks a stream: hops, faults and rendering as switches, and what the stopwatch says.
import {
  comparePaths, diagnoseStream, measure, ready, timelinesToCsv,
  type Comparison, type Diagnosis, type Timeline,
} from 'tokenbrook/measure';
import { announce } from '../shared/announcer.js';
import { describeFailure } from '../shared/format.js';
import {
  BREAK_FIELDS, brokenScenario, CURES, directScenario, FAULT_FIELDS, HOP_FIELDS, hopList,
  HOP_NAMES, OPENS, SOURCE_FIELDS, VERDICTS, type BreakValues,
} from './breaks-plan.js';
import { Controls } from '../shared/controls.js';
import { button, facts, figureTable, h } from '../shared/elements.js';
import { fromParams, toParams } from '../shared/fields.js';
import { LanePlot, lanesOf, type Lanes } from './lanes.js';
import { fetchScenario, playScenario, type MockPlay } from './mock-link.js';
import { MOMENTS, momentText, outcomeText } from './moments.js';
import { ms, span, whole } from '../shared/numbers.js';
import { unpack } from './packed.js';
import { blockPage, Renderer, type RenderCost } from './rendering.js';
import type { Frame, Section } from './section.js';
import { shareRow, type Result } from './share.js';
import { fromShared, toShared } from './shared-timeline.js';

/** A run, as it is shown. */
interface Found {
  public: Timeline;
  direct: Timeline;
  madeMs: number[];
  paintedMs: number[];
  cost: RenderCost | undefined;
}

/** A pause in switching before the next run. */
const PAUSE_MS = 400;
/** How often the generator is asked how far it is. */
const ASK_MS = 250;
/** The axis reaches a little beyond what is expected. */
const MARGIN = 1.25;

export function breaks(root: HTMLElement, frame: Frame): Section {
  return new Breaks(root, frame);
}

class Breaks implements Section {
  readonly #frame: Frame;
  readonly #controls: Controls<typeof BREAK_FIELDS>;
  readonly #run: HTMLButtonElement;
  readonly #status = h('p', { class: 'figures', role: 'status' });
  readonly #verdict = h('div', { 'data-role': 'verdict', class: 'judgement' });
  readonly #lanes = new LanePlot();
  readonly #reply = h('p', { class: 'reply', 'aria-label': 'The reply', role: 'region' });
  readonly #figures = h('div', { 'data-role': 'results' });
  readonly #share = shareRow(() => this.#result());
  #abort: AbortController | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #found: Found | undefined;
  #linked = '';

  constructor(root: HTMLElement, frame: Frame) {
    this.#frame = frame;
    this.#controls = new Controls(BREAK_FIELDS, () => this.#changed());
    this.#run = button('Run', 'primary', () => {
      if (!this.stop()) void this.#start();
    });
    this.#run.dataset['action'] = 'run-breaks';
    this.#share.hidden = true;
    const group = (title: string, fields: object): HTMLElement =>
      h('fieldset', {}, h('legend', {}, title), h('div', { class: 'controls' },
        ...Object.keys(fields).map((name) =>
          this.#controls.place(name as keyof typeof BREAK_FIELDS))));
    root.append(h('div', { class: 'bench' },
      h('div', { class: 'bench-side' },
        group('Hops on the way', HOP_FIELDS), group('A fault', FAULT_FIELDS),
        group('The reply', SOURCE_FIELDS)),
      h('div', { class: 'bench-main' },
        h('div', { class: 'actions' }, this.#run, this.#status),
        this.#verdict, this.#lanes.root, h('div', { class: 'panel' }, this.#reply),
        this.#figures, this.#share)));
    this.#settle();
  }

  params(): URLSearchParams {
    return toParams(BREAK_FIELDS, this.#controls.values);
  }

  apply(params: URLSearchParams): void {
    this.#controls.set(fromParams(BREAK_FIELDS, params));
    this.#settle();
    const linked = params.get('run') ?? '';
    if (linked === '' || linked === this.#linked) return;
    this.#linked = linked;
    void Promise.all([unpack(linked), ready]).then(([shared]) => this.#showLinked(shared));
  }

  shown(): void {
    if (this.#found === undefined && this.#abort === undefined && this.#linked === '') {
      void this.#start();
    }
  }

  stop(): boolean {
    clearTimeout(this.#timer);
    const runs = this.#abort !== undefined;
    this.#abort?.abort();
    return runs;
  }

  #showLinked(shared: unknown): void {
    const { p, d, m } = (shared ?? {}) as { p?: unknown; d?: unknown; m?: unknown };
    const [broken, direct] = [fromShared(p), fromShared(d)];
    if (broken === undefined || direct === undefined) {
      this.#status.textContent = 'The link holds no run that can be read.';
      return;
    }
    const made = Array.isArray(m) ? m.filter((at) => Number.isFinite(at)) as number[] : [];
    this.#show({
      public: broken, direct, madeMs: made.map((at) => broken.requestMs + at), paintedMs: [],
      cost: undefined,
    });
    this.#reply.textContent = broken.text;
    const date = new Date(broken.requestMs).toISOString().slice(0, 10);
    this.#status.textContent = `From a link: ${date}.`;
  }

  #changed(): void {
    this.#settle();
    this.#frame.changed();
    this.stop();
    this.#timer = setTimeout(() => void this.#start(), PAUSE_MS);
  }

  #settle(): void {
    const { values } = this.#controls;
    for (const [toggle, opened] of OPENS) {
      this.#controls.place(opened).hidden = !values[toggle];
    }
    const placed = ['fail', 'cut', 'reset', 'stall'].includes(values.fault);
    this.#controls.place('at').hidden = !placed;
    this.#controls.place('stallMs').hidden = values.fault !== 'stall';
    this.#run.textContent = this.#abort === undefined ? 'Run again' : 'Stop';
  }

  async #start(): Promise<void> {
    const values = { ...this.#controls.values };
    const abort = new AbortController();
    this.#abort = abort;
    this.#settle();
    const unblock = values.busy ? blockPage() : undefined;
    try {
      const found = await playScenario(brokenScenario(values), (play) =>
        this.#follow(play, values, abort.signal));
      // A newer run owns the section by now.
      if (this.#abort !== abort || abort.signal.aborted) return;
      this.#show(found);
      this.#status.textContent = '';
    } catch (error) {
      if (this.#abort === abort) this.#status.textContent = describeFailure(error).message;
    } finally {
      unblock?.();
      if (this.#abort === abort) {
        this.#abort = undefined;
        if (abort.signal.aborted) this.#status.textContent = 'Stopped.';
        this.#settle();
      }
    }
  }

  /** One call through all that is switched on, drawn while it runs, and one without. */
  async #follow(play: MockPlay, values: BreakValues, signal: AbortSignal): Promise<Found> {
    const renderer = new Renderer(this.#reply, values.render);
    const startMs = performance.timeOrigin + performance.now();
    const lanes: Lanes = { made: [], reads: [], parsed: [], painted: [] };
    this.#verdict.replaceChildren();
    delete this.#verdict.dataset['verdict'];
    this.#lanes.show(lanes, values.tokens * values.pace * MARGIN);
    let soFar: (() => Timeline) | undefined;
    const asking = setInterval(() => {
      void this.#ask(play, startMs, lanes, signal);
      if (soFar !== undefined) this.#judge(soFar(), lanes);
    }, ASK_MS);
    const [path, init] = requestOf(values, signal);
    const direct = measure(path, {
      fetch: () => fetchScenario(directScenario(values), path, init),
    });
    try {
      const timeline = await measure(path, {
        fetch: () => play.fetch(path, init),
        element: this.#reply,
        generator: play,
        onStart: (timeline) => {
          soFar = timeline;
        },
        onEvent: ({ text, atMs }) => {
          renderer.push(text);
          lanes.parsed.push(atMs - startMs);
          lanes.painted = renderer.paintedMs.map((painted) => painted - startMs);
        },
      });
      renderer.end();
      const made = tokensIn(await play.trace());
      return {
        public: timeline, direct: await direct, madeMs: made, paintedMs: renderer.paintedMs,
        cost: renderer.cost,
      };
    } finally {
      clearInterval(asking);
    }
  }

  /** How far the generator is, for the eye: text may be far behind. */
  async #ask(
    play: MockPlay, startMs: number, lanes: Lanes, signal: AbortSignal,
  ): Promise<void> {
    const made = tokensIn(await play.trace());
    if (signal.aborted || this.#abort?.signal !== signal) return;
    lanes.made = made.map((atMs) => atMs - startMs);
    this.#lanes.update(lanes);
    this.#status.textContent = `${whole(made.length)} tokens made, ` +
      `${whole(lanes.parsed.length)} events with text parsed`;
  }

  /** What can be said while it runs. */
  #judge(timeline: Timeline, lanes: Lanes): void {
    if (timeline.outcome !== 'open') return;
    lanes.reads = lanesOf(timeline, [], []).reads;
    const diagnosis = diagnoseStream(timeline);
    const waits = lanes.parsed.length === 0 && lanes.made.length > 1;
    const held = waits ? ` ${whole(lanes.made.length)} tokens are made, and none has arrived.` : '';
    const { verdict, because } = diagnosis;
    this.#verdict.dataset['verdict'] = `so-far-${verdict}`;
    this.#verdict.replaceChildren(h('p', { class: 'verdict' }, 'So far: ',
      h('strong', {}, VERDICTS[verdict]), `${suspects(diagnosis)}. ${because}${held}`));
  }

  #show(found: Found): void {
    this.#found = found;
    this.#share.hidden = false;
    const { public: timeline, direct, madeMs, paintedMs, cost } = found;
    const diagnosis = diagnoseStream(timeline);
    const endMs = Math.max(timeline.closedMs ?? 0, ...madeMs, ...paintedMs) - timeline.requestMs;
    this.#lanes.show(lanesOf(timeline, madeMs, paintedMs), Math.max(1, endMs) * 1.02);
    this.#verdict.replaceChildren(...judgement(diagnosis, comparePaths(direct, timeline)));
    this.#verdict.dataset['verdict'] = diagnosis.verdict;
    this.#figures.replaceChildren(
      figureTable('Moments through the hops, and without them', ['', 'public', 'direct'],
        [...MOMENTS.map(([head, name]) => ({
          head, cells: [momentText(timeline, name), momentText(direct, name)],
        })),
        { head: 'Outcome', cells: [outcomeText(timeline), outcomeText(direct)] },
        { head: 'Body', cells: [timeline, direct].map((one) => `${whole(one.bodyBytes)} bytes`) }]),
      h('details', {}, h('summary', {}, 'Evidence'), evidence(diagnosis, cost)),
    );
    announce(`${VERDICTS[diagnosis.verdict]}.`);
  }

  #result(): Result | undefined {
    const found = this.#found;
    if (found === undefined) return undefined;
    const { public: timeline, direct, madeMs, cost } = found;
    return {
      name: 'what-breaks-a-stream',
      json: {
        settings: this.#controls.values, scenario: brokenScenario(this.#controls.values),
        public: timeline, direct, generatedMs: madeMs, rendering: cost,
        diagnosis: diagnoseStream(timeline), comparison: comparePaths(direct, timeline),
      },
      csv: timelinesToCsv([timeline, direct]),
      shared: {
        p: toShared(timeline), d: toShared(direct),
        m: madeMs.map((atMs) => Math.round(atMs - timeline.requestMs)),
      },
    };
  }
}

function requestOf(values: BreakValues, signal: AbortSignal): [string, RequestInit] {
  if (values.framing === 'bare') return ['/lab/stream', { signal }];
  const body = { model: 'mock', messages: [{ role: 'user', content: 'Hi' }], stream: true };
  return ['/v1/chat/completions', {
    method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body),
    signal,
  }];
}

function tokensIn(trace: Awaited<ReturnType<MockPlay['trace']>>): number[] {
  return trace.filter(({ event }) => event === 'token').map(({ atMs }) => atMs);
}

function suspects({ hops }: Diagnosis): string {
  return hops.length === 0 ? '' : `: ${hopList(hops)}`;
}

function judgement(diagnosis: Diagnosis, comparison: Comparison): HTMLElement[] {
  const { verdict, hop, because } = diagnosis;
  const cures = hop === null ? undefined
    : h('p', {}, `Cure for ${HOP_NAMES[hop]}: ${CURES[hop]}.`);
  const added = comparison.addedFirstTextMs;
  return [
    h('p', { class: 'verdict' }, h('strong', {}, VERDICTS[verdict]),
      `${suspects(diagnosis)}. ${because}`),
    cures,
    h('p', { class: 'figures' }, `Against the direct path: ${comparison.because}`,
      added === null ? '' : ` First text comes ${span(Math.max(0, added))} later.`),
  ].filter((part) => part !== undefined);
}

function evidence({ evidence: found }: Diagnosis, cost: RenderCost | undefined): HTMLElement {
  const time = (value: number | null): string => (value === null ? 'none' : ms(value));
  return facts([
    ['Events with text', whole(found.textEvents)],
    ['Reads in which one ended', whole(found.textReads)],
    ['Median gap between texts', time(found.medianGapMs)],
    ['Largest gap', time(found.largestGapMs)],
    ['Bursts of reads', whole(found.bursts)],
    ['Bytes of a burst, median', found.burstBytes === null ? 'none' : whole(found.burstBytes)],
    ['Silence to the first text', time(found.silenceMs)],
    ['Headers ahead of the body', time(found.headersAheadMs)],
    ['First text behind its token', time(found.firstLagMs)],
    ['Last text behind its token', time(found.lastLagMs)],
    ...(cost === undefined ? [] : [
      ['Updates of the page', whole(cost.updates)],
      ['Time spent on them', `${ms(cost.totalMs)}, the longest ${ms(cost.longestMs)}`],
    ] as const),
  ]);
}
