// Wait or stream: the same replies in both modes, side by side, and twenty of each at once.
import type { Scenario } from 'tokenbrook/mock';
import { announce } from '../shared/announcer.js';
import { describeFailure } from '../shared/format.js';
import { Controls } from '../shared/controls.js';
import { button, figureTable, h, type Row } from '../shared/elements.js';
import { amount, choice, count, fromParams, text, toParams } from '../shared/fields.js';
import { chooseLocalModel, localModel } from './local-model.js';
import { decimals, ms, percent } from '../shared/numbers.js';
import { unpack } from './packed.js';
import { joined, Plot, type Line } from '../shared/plot.js';
import { Replay } from './replay.js';
import { arrivalsOf, BANDS, WORDS_PER_SECOND, type Arrival } from './replay-model.js';
import type { Frame, Section } from './section.js';
import { shareRow, type Result } from './share.js';
import { runLocal, runMock, type WaitPlan } from './wait-calls.js';
import {
  fromShared, PUBLISHED, sameText, summarizeMode, toShared, totalsApart,
  type Mode, type ModeSummary, type WaitRun,
} from './wait-run.js';

const FIELDS = {
  place: choice('Who writes', 'mock', { mock: 'Mock server', local: 'This device' }),
  calls: count('Calls of each mode', 20, [1, 40]),
  tokens: count('Tokens', 120, [1, 2000]),
  pace: amount('Time per token', 33, [1, 1000], { unit: 'ms' }),
  jitter: amount('Jitter, ±', 8, [0, 1000], { unit: 'ms' }),
  seed: count('Seed', 42, [0, 4_294_967_295]),
  prompt: text('Prompt', 'Why do rivers bend?', { lines: 2 }),
};

const TITLES: Record<Mode, string> = { wait: 'Wait', stream: 'Stream' };
const MODES = ['wait', 'stream'] as const;

/** A model on this device takes seconds a reply. */
const LOCAL_CALLS = 2;

/** The clock of replies under way, where no text comes. */
const CLOCK_MS = 100;

export function wait(root: HTMLElement, frame: Frame): Section {
  return new Wait(root, frame);
}

class Wait implements Section {
  readonly #frame: Frame;
  readonly #controls: Controls<typeof FIELDS>;
  readonly #replay = new Replay();
  readonly #plot = new Plot('Words on the screen over time');
  readonly #results = h('div', { 'data-role': 'results' });
  readonly #status = h('p', { class: 'figures', role: 'status' });
  readonly #run: HTMLButtonElement;
  readonly #share = shareRow(() => this.#result());
  #abort: AbortController | undefined;
  #found: WaitRun | undefined;
  /** The run that a link brought, as it was in the link. */
  #linked = '';

  constructor(root: HTMLElement, frame: Frame) {
    this.#frame = frame;
    this.#controls = new Controls(FIELDS, (name) => this.#changed(name));
    this.#run = button('', 'primary', () => {
      if (!this.stop()) void this.#start();
    });
    this.#run.dataset['action'] = 'run-wait';
    this.#share.hidden = true;
    root.append(
      this.#replay.root,
      h('div', { class: 'bench' },
        h('div', { class: 'bench-side' },
          this.#controls.root, h('div', { class: 'actions' }, this.#run, this.#status)),
        h('div', { class: 'bench-main' }, this.#results, this.#plot.root, this.#share)),
    );
    this.#settle();
    this.#clear();
  }

  params(): URLSearchParams {
    return toParams(FIELDS, this.#controls.values);
  }

  apply(params: URLSearchParams): void {
    this.#controls.set(fromParams(FIELDS, params));
    this.#settle();
    const linked = params.get('run') ?? '';
    if (linked === '' || linked === this.#linked) return;
    this.#linked = linked;
    void unpack(linked).then((shared) => {
      const run = fromShared(shared);
      if (run === undefined) {
        this.#status.textContent = 'The link holds no run that can be read.';
        return;
      }
      this.#show(run);
      this.#status.textContent = `From a link: ${run.place}, ${run.at.slice(0, 10)}.`;
    });
  }

  stop(): boolean {
    const runs = this.#abort !== undefined;
    this.#abort?.abort();
    return runs;
  }

  #changed(name: keyof typeof FIELDS): void {
    const { values } = this.#controls;
    if (name === 'place') {
      this.#controls.set({ calls: values.place === 'local' ? LOCAL_CALLS : FIELDS.calls.value });
      if (values.place === 'local' && localModel() === null) chooseLocalModel();
    }
    this.#settle();
    this.#frame.changed();
  }

  #settle(): void {
    const { place, calls } = this.#controls.values;
    for (const name of ['pace', 'jitter', 'seed'] as const) {
      this.#controls.place(name).hidden = place === 'local';
    }
    this.#controls.place('prompt').hidden = place !== 'local';
    this.#run.textContent = this.#abort === undefined ? `Run ${calls} + ${calls} calls` : 'Stop';
  }

  #scenario(): Scenario {
    const { tokens, pace, jitter, seed } = this.#controls.values;
    return {
      seed,
      text: { kind: 'seeded', tokens },
      pace: { kind: 'uniform', ms: pace, jitterMs: Math.min(jitter, pace) },
    };
  }

  async #start(): Promise<void> {
    const { place, calls, tokens, prompt } = this.#controls.values;
    const model = localModel();
    if (place === 'local' && model === null) {
      chooseLocalModel();
      return;
    }
    const abort = new AbortController();
    this.#abort = abort;
    this.#settle();
    this.#controls.setDisabled(true);
    const live = new Live(this.#replay);
    const plan: WaitPlan = {
      calls,
      scenario: this.#scenario(),
      signal: abort.signal,
      onStart: () => live.start(),
      onEvent: (mode, { text: written }, atMs) => live.take(mode, { text: written, atMs }),
      onCall: (done, all) => void (this.#status.textContent = `${done} of ${all} calls done`),
    };
    this.#status.textContent = 'Running…';
    try {
      const run = place === 'local' && model !== null
        ? await runLocal(model, prompt, tokens, plan) : await runMock(plan);
      this.#show(run);
      this.#status.textContent = `${run.place}, ${new Date(run.at).toLocaleTimeString()}.`;
      announce('The run is over.');
    } catch (error) {
      this.#status.textContent = abort.signal.aborted ? 'Stopped.' : describeFailure(error).message;
      if (this.#found === undefined) this.#clear();
      else this.#show(this.#found);
    } finally {
      live.end();
      this.#abort = undefined;
      this.#controls.setDisabled(false);
      this.#settle();
    }
  }

  /** Before the first run: the published figures alone. */
  #clear(): void {
    this.#replay.show(MODES.map((mode) => ({
      title: TITLES[mode], colour: mode, arrivals: [],
    })));
    this.#results.replaceChildren(figureTable('First text and total, in ms', COLUMNS,
      MODES.map((mode) => rowOf(`${TITLES[mode]}, published`, PUBLISHED[mode], 'published'))));
  }

  #show(run: WaitRun): void {
    this.#found = run;
    this.#share.hidden = false;
    const [waited, streamed] = MODES.map((mode) => summarizeMode(run.calls, mode));
    if (waited === undefined || streamed === undefined) return;
    this.#replay.show(MODES.map((mode) => ({
      title: TITLES[mode],
      colour: mode,
      arrivals: run.calls.find((call) => call.mode === mode)?.arrivals ?? [],
    })));
    this.#results.replaceChildren(
      verdict(run, waited, streamed),
      figureTable('First text and total, in ms', COLUMNS, [
        rowOf('Wait', waited),
        rowOf('Wait, published', PUBLISHED.wait, 'published'),
        rowOf('Stream', streamed),
        rowOf('Stream, published', PUBLISHED.stream, 'published'),
      ]),
      h('p', { class: 'figures' },
        'Published: 120 words at 33 ± 8 ms, 20 + 20 calls at once, elsewhere, in one process.'),
    );
    this.#draw(run);
  }

  #draw(run: WaitRun): void {
    const lines: Line[] = [];
    const curves: [number[], number[]][] = [];
    for (const mode of MODES) {
      for (const { arrivals } of run.calls.filter((call) => call.mode === mode)) {
        const label = lines.some(({ colour }) => colour === mode) ? {} : { label: TITLES[mode] };
        lines.push({ colour: mode, kind: 'steps', width: 1.25, ...label });
        curves.push(curveOf(arrivals));
      }
    }
    const first = run.calls.find(({ mode }) => mode === 'stream')?.arrivals[0]?.atMs ?? 0;
    lines.push({ colour: 'soft', dashed: true, label: `a reader at ${WORDS_PER_SECOND} words/s` });
    curves.push(readerCurve(first));
    this.#plot.draw({
      x: { label: 'ms since the request', log: true, min: LEAST_MS, format: axisMs },
      y: { label: 'words on the screen' },
      lines,
      data: joined(curves),
      marks: BANDS.map(({ untilMs, name }, at) => ({
        from: BANDS[at - 1]?.untilMs ?? LEAST_MS, to: Math.min(untilMs, 100_000), label: name,
      })),
      height: 300,
    });
  }

  #result(): Result | undefined {
    const run = this.#found;
    if (run === undefined) return undefined;
    const summary = Object.fromEntries(MODES.map((mode) => [mode, {
      ...summarizeMode(run.calls, mode),
      samples: run.calls.filter((call) => call.mode === mode),
    }]));
    return {
      name: 'wait-or-stream',
      json: { settings: this.#controls.values, ...run, calls: undefined, ...summary,
        sameText: sameText(run.calls), published: PUBLISHED },
      table: {
        columns: ['call', 'mode', 'complete', 'headersMs', 'firstTokenMs', 'firstTextMs', 'totalMs',
          'bodyBytes', 'words', 'arrivalsMs'],
        rows: run.calls.map((call, index) => [
          index, call.mode, call.complete, call.headersMs, call.firstTokenMs, call.firstTextMs,
          call.totalMs, call.bodyBytes, call.arrivals.length,
          call.arrivals.map(({ atMs }) => atMs.toFixed(1)).join(' '),
        ]),
      },
      shared: toShared(run),
    };
  }
}

const COLUMNS = ['', 'calls', 'first text, median', 'p95', 'total, median', 'p95'];
const LEAST_MS = 10;

function rowOf(head: string, found: Omit<ModeSummary, 'failed'>, kind?: string): Row {
  const { calls, firstTextMs, totalMs } = found;
  const times = [firstTextMs.median, firstTextMs.p95, totalMs.median, totalMs.p95];
  return {
    head, cells: [String(calls), ...times.map((time) => decimals(time))],
    ...(kind !== undefined && { kind }),
  };
}

function verdict(run: WaitRun, waited: ModeSummary, streamed: ModeSummary): HTMLElement {
  const sooner = waited.firstTextMs.median - streamed.firstTextMs.median;
  const failed = waited.failed + streamed.failed;
  const same = sameText(run.calls);
  if (Number.isNaN(sooner)) {
    const why = `Nothing to compare: ${failed} of ${run.calls.length} calls failed.`;
    return h('p', { class: 'verdict' }, why);
  }
  return h('p', { class: 'verdict' },
    'First text ', h('strong', {}, `${ms(sooner, 0)} sooner`), '; totals ',
    h('strong', {}, `${percent(totalsApart(waited, streamed), 2)} apart`), '. ',
    same === true ? 'All texts are identical.' : 'Texts differ.',
    failed === 0 ? '' : ` ${failed} calls failed and are in no figure.`);
}

function curveOf(arrivals: readonly Arrival[]): [number[], number[]] {
  const xs = [LEAST_MS];
  const ys = [0];
  arrivals.forEach(({ atMs }, index) => {
    // One step for words that came together.
    if (arrivals[index + 1]?.atMs === atMs) return;
    xs.push(Math.max(atMs, LEAST_MS + 0.01));
    ys.push(index + 1);
  });
  return [xs, ys];
}

/** Straight in words over seconds, so curved on this axis. */
function readerCurve(firstMs: number): [number[], number[]] {
  const xs = Array.from({ length: 40 }, (_, at) => firstMs + 10 * 1.2 ** at)
    .filter((at) => at <= 10_000);
  return [xs, xs.map((at) => ((at - firstMs) / 1000) * WORDS_PER_SECOND)];
}

function axisMs(value: number): string {
  return value < 1000 ? `${value} ms` : `${value / 1000} s`;
}

/** What the first calls bring while they run. Paints no more than has changed: it is no load. */
class Live {
  readonly #replay: Replay;
  readonly #arrivals: Record<Mode, Arrival[]> = { wait: [], stream: [] };
  #clock: ReturnType<typeof setInterval> | undefined;
  #frame: number | undefined;
  #startMs = 0;

  constructor(replay: Replay) {
    this.#replay = replay;
    this.#show(0);
  }

  /** The calls begin now. */
  start(): void {
    this.#startMs = performance.now();
    this.#clock = setInterval(() => this.#paint(), CLOCK_MS);
  }

  take(mode: Mode, event: { text: string; atMs: number }): void {
    this.#arrivals[mode].push(...arrivalsOf([event]));
    this.#paint();
  }

  end(): void {
    clearInterval(this.#clock);
    if (this.#frame !== undefined) cancelAnimationFrame(this.#frame);
  }

  #paint(): void {
    this.#frame ??= requestAnimationFrame(() => {
      this.#frame = undefined;
      this.#show(performance.now() - this.#startMs);
    });
  }

  #show(nowMs: number): void {
    this.#replay.show(MODES.map((mode) => ({
      title: TITLES[mode], colour: mode, arrivals: this.#arrivals[mode],
    })), nowMs);
  }
}
