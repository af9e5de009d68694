// Overload: a server that loses capacity half-way, and the knobs that decide who feels it.
import type { LoadStretch } from 'tokenbrook/mock';
import { announce } from '../shared/announcer.js';
import { Controls } from '../shared/controls.js';
import { button, figureTable, h, type Row } from '../shared/elements.js';
import { fromParams, toParams } from '../shared/fields.js';
import {
  headRun, LOAD_FIELDS, lastOf, SWEEP_LOST, sweepRuns, theoryMs, tierRows, type LoadValues,
} from './load-plan.js';
import { LoadRunner } from './load-runner.js';
import { decimals, ms, percent, whole } from '../shared/numbers.js';
import { Plot } from '../shared/plot.js';
import type { Frame, Section } from './section.js';
import { shareRow } from './share.js';

interface Point {
  lost: number;
  stretches: LoadStretch[];
}

/** A pause in typing before the run begins anew. */
const PAUSE_MS = 300;

const PRESETS: readonly { label: string; values: Partial<LoadValues> }[] = [
  { label: 'The incident: 97 ms to about 850', values: { paid: 100, shed: false } },
  { label: 'Two tiers', values: { paid: 60, shed: false } },
  { label: 'Free sheds first', values: { paid: 60, shed: true, target: 0.75 } },
  { label: 'Seats for paid', values: { paid: 60, shed: false, seats: 4, provisioned: 6 } },
  { label: 'A bucket for free', values: {
    paid: 60, shed: false, bucket: 'free', share: 15, burst: 20,
  } },
];

export function overload(root: HTMLElement, frame: Frame): Section {
  return new Overload(root, frame);
}

class Overload implements Section {
  readonly #frame: Frame;
  readonly #runner = new LoadRunner();
  readonly #controls: Controls<typeof LOAD_FIELDS>;
  readonly #results = h('div', { 'data-role': 'results' });
  readonly #status = h('p', { class: 'figures', role: 'status' });
  readonly #plot = new Plot('Waits by loss of capacity');
  readonly #share = shareRow(() => this.#result());
  #points: Point[] = [];
  #head: LoadStretch[] | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  /** What the last run was told, as text. */
  #ran = '';

  constructor(root: HTMLElement, frame: Frame) {
    this.#frame = frame;
    this.#controls = new Controls(LOAD_FIELDS, () => this.#changed());
    const presets = PRESETS.map(({ label, values }) => button(label, 'quiet bordered', () => {
      const plain = { lost: 30, provisioned: 0, seats: 10, bucket: 'none' } as const;
      this.#controls.set({ ...plain, ...values });
      this.#changed();
    }));
    this.#share.hidden = true;
    root.append(
      h('div', { class: 'presets', role: 'group', 'aria-label': 'Knobs as in' }, ...presets),
      h('div', { class: 'bench' },
        h('div', { class: 'bench-side' }, this.#controls.root),
        h('div', { class: 'bench-main' },
          this.#status, this.#results, this.#plot.root, this.#share)),
    );
  }

  params(): URLSearchParams {
    return toParams(LOAD_FIELDS, this.#controls.values);
  }

  apply(params: URLSearchParams): void {
    this.#controls.set(fromParams(LOAD_FIELDS, params));
    this.#settle();
  }

  shown(): void {
    void this.#run();
  }

  stop(): boolean {
    clearTimeout(this.#timer);
    const { isBusy } = this.#runner;
    this.#runner.stop();
    return isBusy;
  }

  #changed(): void {
    this.#settle();
    this.#frame.changed();
    this.stop();
    this.#timer = setTimeout(() => void this.#run(), PAUSE_MS);
  }

  /** Shows only the knobs that turn something. */
  #settle(): void {
    const { shed, bucket } = this.#controls.values;
    this.#controls.place('target').hidden = !shed;
    this.#controls.place('share').hidden = bucket === 'none';
    this.#controls.place('burst').hidden = bucket === 'none';
  }

  async #run(): Promise<void> {
    const values = { ...this.#controls.values };
    const asked = JSON.stringify(values);
    if (asked === this.#ran && this.#head !== undefined) return;
    this.stop();
    this.#ran = asked;
    this.#head = undefined;
    this.#points = [];
    this.#status.textContent = `Running ${whole(values.requests)} requests…`;
    try {
      this.#head = await this.#runner.run(headRun(values));
      this.#show(values, this.#head);
      this.#status.textContent = 'Running other losses…';
      for (const { lost, run } of sweepRuns(values)) {
        this.#points.push({ lost, stretches: await this.#runner.run(run) });
        this.#draw(values);
      }
      this.#status.textContent = `${whole(values.requests)} requests, seed ${values.seed}.`;
      announce('The load has run.');
    } catch (error) {
      this.#ran = '';
      const stopped = error instanceof DOMException && error.name === 'AbortError';
      this.#status.textContent = stopped ? 'Stopped.' : String(error);
    }
  }

  #show(values: LoadValues, head: LoadStretch[]): void {
    this.#share.hidden = false;
    const came = tierRows(head).filter(({ arrived }) => arrived > 0);
    const rows: Row[] = came.map((row) => ({
      head: `${row.tier}, ${row.stretch}`,
      cells: [
        whole(row.arrived),
        percent(row.refused / row.arrived),
        ms(row.meanWaitMs),
        ms(row.maxWaitMs, 0),
      ],
    }));
    for (const [when, lost] of [['before', 0], ['after', values.lost]] as const) {
      const wait = ms(theoryMs(values, lost));
      rows.push({ head: `theory, ${when}`, kind: 'published', cells: ['', '', wait, ''] });
    }
    this.#results.replaceChildren(
      this.#sentence(head),
      figureTable('Before and after the loss',
        ['', 'arrived', 'refused', 'mean wait', 'longest'], rows),
    );
  }

  #sentence(head: LoadStretch[]): HTMLElement {
    const [before] = head;
    const paid = lastOf(head, 'paid');
    const free = lastOf(head, 'free');
    const tier = paid.arrived > 0 ? 'paid' : 'free';
    const was = before?.[tier].meanWaitMs ?? 0;
    const is = tier === 'paid' ? paid.meanWaitMs : free.meanWaitMs;
    const refused = free.arrived === 0 ? '' :
      ` ${percent(free.refused / free.arrived, 0)} of free requests are refused.`;
    return h('p', { class: 'verdict' },
      `The ${tier} wait goes from ${ms(was, 0)} to `, h('strong', {}, ms(is, 0)), '.', refused);
  }

  #draw(values: LoadValues): void {
    const xs = this.#points.map(({ lost }) => lost);
    const waits = (tier: 'paid' | 'free'): (number | null)[] => this.#points.map((point) => {
      const { arrived, refused, meanWaitMs } = lastOf(point.stretches, tier);
      return arrived > refused && meanWaitMs > 0 ? meanWaitMs : null;
    });
    const theory = xs.map((lost) => {
      const wait = theoryMs(values, lost);
      return Number.isFinite(wait) ? wait : null;
    });
    this.#plot.draw({
      x: { label: '% of capacity lost', min: 0, max: SWEEP_LOST * 100 },
      y: { label: 'mean wait, ms', log: true, format: (value) => decimals(value, 0) },
      lines: [
        { colour: 'stream', label: 'paid' },
        { colour: 'wait', label: 'free' },
        { colour: 'soft', label: 'theory, one tier', dashed: true },
      ],
      marks: [{ from: values.lost, to: values.lost, label: `${decimals(values.lost, 0)} %` }],
      data: [xs, waits('paid'), waits('free'), theory],
    });
  }

  #result(): ReturnType<Parameters<typeof shareRow>[0]> {
    if (this.#head === undefined) return undefined;
    const { values } = this.#controls;
    const rows = [{ lost: values.lost, stretches: this.#head }, ...this.#points].flatMap(
      ({ lost, stretches }, at) => tierRows(stretches).map((row) => [
        at === 0 ? 'run' : 'sweep', lost, row.stretch, row.tier, row.arrived, row.refused,
        row.meanWaitMs, row.maxWaitMs,
      ]),
    );
    return {
      name: 'overload',
      json: { settings: values, run: headRun(values), stretches: this.#head, sweep: this.#points },
      table: {
        columns: ['kind', 'capacityLostPercent', 'stretch', 'tier', 'arrived', 'refused',
          'meanWaitMs', 'maxWaitMs'],
        rows,
      },
    };
  }
}
