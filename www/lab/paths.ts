// Local or network: one prompt to this device, a server of any distance, and any real one.
import { measure, timelinesToCsv, type MeasureOptions, type Timeline } from 'tokenbrook/measure';
import { announce } from '../shared/announcer.js';
import { describeFailure } from '../shared/format.js';
import { Controls } from '../shared/controls.js';
import { button, figureTable, freshId, h } from '../shared/elements.js';
import { fromParams, toParams } from '../shared/fields.js';
import { chooseLocalModel, localModel, onLocalModel } from './local-model.js';
import { playScenario } from './mock-link.js';
import { MOMENTS, momentText, outcomeText } from './moments.js';
import { decimals, span, whole } from '../shared/numbers.js';
import { unpack } from './packed.js';
import {
  breakEven, completionsUrl, mockScenario, PATH_FIELDS, placeOf, stagesOf, STAGES, tieCurve,
  type PathValues, type PlaceName, type StageName,
} from './paths-plan.js';
import { joined, Plot } from '../shared/plot.js';
import type { Frame, Section } from './section.js';
import { shareRow, type Result } from './share.js';
import { fromShared, toShared } from './shared-timeline.js';

interface Reply {
  place: PlaceName;
  name: string;
  timeline: Timeline;
}

const PLACES = ['local', 'mock', 'remote'] as const;
const NAMES: Record<PlaceName, string> = {
  local: 'This device', mock: 'Mock server', remote: 'Real server',
};
const COLOURS: Record<PlaceName, 'local' | 'stream' | 'remote'> = {
  local: 'local', mock: 'stream', remote: 'remote',
};

/** Ends of the axis of round trips. */
const LEAST_RTT_MS = 1;
const MOST_RTT_MS = 10_000;

export function paths(root: HTMLElement, frame: Frame): Section {
  return new Paths(root, frame);
}

class Paths implements Section {
  readonly #frame: Frame;
  readonly #controls: Controls<typeof PATH_FIELDS>;
  /** Never stored, and in no address. */
  readonly #key = h('input', {
    id: freshId('key'), type: 'password', autocomplete: 'off', spellcheck: 'false',
  });
  readonly #keyField: HTMLElement;
  readonly #run: HTMLButtonElement;
  readonly #load: HTMLButtonElement;
  readonly #status = h('p', { class: 'figures', role: 'status' });
  readonly #panels = h('div', { class: 'panels' });
  readonly #results = h('div', { 'data-role': 'results' });
  readonly #tie = h('div', { 'data-role': 'tie', 'aria-live': 'polite' });
  readonly #plot = new Plot('Round trips and speeds at which network and device tie');
  readonly #share = shareRow(() => this.#result());
  #abort: AbortController | undefined;
  #replies: Reply[] = [];
  #linked = '';

  constructor(root: HTMLElement, frame: Frame) {
    this.#frame = frame;
    this.#controls = new Controls(PATH_FIELDS, () => this.#changed());
    this.#run = button('Ask', 'primary', () => {
      if (!this.stop()) void this.#start();
    });
    this.#run.dataset['action'] = 'run-paths';
    this.#load = button('Load a model', 'quiet bordered', chooseLocalModel);
    this.#keyField = h('div', { class: 'field', 'data-control': 'key' },
      h('label', { for: this.#key.id }, 'Key'), this.#key,
      h('small', {}, 'Sent to that address, kept nowhere.'));
    this.#share.hidden = true;
    this.#build(root);
    onLocalModel(() => this.#settle());
    this.#settle();
    this.#showTie();
  }

  params(): URLSearchParams {
    return toParams(PATH_FIELDS, this.#controls.values);
  }

  apply(params: URLSearchParams): void {
    this.#controls.set(fromParams(PATH_FIELDS, params));
    this.#settle();
    this.#showTie();
    const linked = params.get('run') ?? '';
    if (linked === '' || linked === this.#linked) return;
    this.#linked = linked;
    void unpack(linked).then((shared) => this.#showLinked(shared));
  }

  stop(): boolean {
    const runs = this.#abort !== undefined;
    this.#abort?.abort();
    return runs;
  }

  #build(root: HTMLElement): void {
    const group = (title: string, ...parts: (keyof typeof PATH_FIELDS | HTMLElement)[]) =>
      h('fieldset', {}, h('legend', {}, title), h('div', { class: 'controls' },
        ...parts.map((part) => (typeof part === 'string' ? this.#controls.place(part) : part))));
    root.append(
      h('div', { class: 'bench' },
        h('div', { class: 'bench-side' },
          group('The same question', 'prompt', 'tokens'),
          group('To whom', 'local', this.#load, 'mock', 'rtt', 'speed', 'wait', 'remote', 'url',
            'model', this.#keyField)),
        h('div', { class: 'bench-main' },
          h('div', { class: 'actions' }, this.#run, this.#status),
          this.#panels, this.#results, this.#share)),
      h('h3', {}, 'Where they tie'),
      h('div', { class: 'bench' },
        h('div', { class: 'bench-side' },
          group('This device, as measured or as you say', 'ttft', 'pace')),
        h('div', { class: 'bench-main' }, this.#tie, this.#plot.root,
          h('ul', { class: 'assumes' },
            h('li', {}, 'Below a line the network is sooner, above it this device. It has ' +
              'the queue and prefill that are set above; transit counts once.'),
            h('li', {}, 'A real server\'s dot has its time to first text beyond those as its ' +
              'round trip.')))),
    );
  }

  #changed(): void {
    this.#settle();
    this.#showTie();
    this.#frame.changed();
  }

  #settle(): void {
    const { remote } = this.#controls.values;
    for (const name of ['url', 'model'] as const) this.#controls.place(name).hidden = !remote;
    this.#keyField.hidden = !remote;
    this.#load.hidden = localModel() !== null || !this.#controls.values.local;
    this.#run.textContent = this.#abort === undefined ? 'Ask' : 'Stop';
  }

  async #start(): Promise<void> {
    const values = { ...this.#controls.values };
    const abort = new AbortController();
    this.#abort = abort;
    this.#settle();
    this.#controls.setDisabled(true);
    this.#replies = [];
    this.#panels.replaceChildren();
    try {
      for (const place of PLACES.filter((name) => values[name])) {
        this.#status.textContent = `Asking: ${NAMES[place].toLowerCase()}…`;
        const reply = await this.#ask(place, values, abort.signal);
        if (abort.signal.aborted) break;
        if (reply !== undefined) this.#take(reply);
      }
      this.#status.textContent = abort.signal.aborted ? 'Stopped.'
        : this.#replies.length === 0 ? 'Nobody to ask: load a model, or switch a server on.' : '';
      announce('The replies are there.');
    } catch (error) {
      this.#status.textContent = describeFailure(error).message;
    } finally {
      this.#abort = undefined;
      this.#controls.setDisabled(false);
      this.#settle();
    }
  }

  async #ask(
    place: PlaceName, values: PathValues, signal: AbortSignal,
  ): Promise<Reply | undefined> {
    const { prompt, tokens, model } = values;
    const body = {
      model: place === 'remote' ? model : place,
      messages: [{ role: 'user', content: prompt }],
      stream: true,
      max_tokens: tokens,
      temperature: 0,
    };
    const headers: Record<string, string> = { 'content-type': 'application/json' };
    if (place === 'remote' && this.#key.value !== '') {
      headers['authorization'] = `Bearer ${this.#key.value}`;
    }
    const init = { method: 'POST', headers, body: JSON.stringify(body), signal };
    const timed = async (
      name: string, address: string | URL, options: MeasureOptions,
    ): Promise<Reply> => {
      const element = this.#panel(place, name);
      return { place, name, timeline: await measure(address, { init, element, ...options }) };
    };
    switch (place) {
      case 'local': {
        const loaded = localModel();
        if (loaded === null) return undefined;
        return timed(loaded.info.name, 'http://local/v1/chat/completions', { fetch: loaded.fetch });
      }
      case 'mock': {
        const path = '/v1/chat/completions';
        return playScenario(mockScenario(values), (play) =>
          timed(NAMES.mock, path, { fetch: () => play.fetch(path, init), generator: play }));
      }
      case 'remote': {
        const url = completionsUrl(values.url);
        if (url === undefined) {
          throw new Error('The base address is something like https://host/v1.');
        }
        return timed(url.host, url, {});
      }
    }
  }

  #panel(place: PlaceName, name: string): HTMLElement {
    const reply = h('p', { class: 'reply' });
    this.#panels.append(h('article', { class: 'panel', 'data-colour': COLOURS[place] },
      h('h3', {}, name), reply));
    return reply;
  }

  #take(reply: Reply): void {
    this.#replies.push(reply);
    const found = placeOf(reply.timeline);
    if (reply.place === 'local' && found !== undefined) {
      // Whole figures: they go into the address.
      const round = (value: number): number => Math.round(value * 10) / 10;
      this.#controls.set({ ttft: round(found.ttftMs), pace: round(found.tokensPerSecond) });
      this.#frame.changed();
    }
    this.#showReplies();
    this.#showTie();
  }

  #showLinked(shared: unknown): void {
    const rows = Array.isArray(shared) ? shared.slice(0, 3) as unknown[] : [];
    const replies = rows.map((row): Reply | undefined => {
      const [place, name, packed] = Array.isArray(row) ? row as unknown[] : [];
      const known = PLACES.find((one) => one === place);
      const timeline = fromShared(packed);
      if (known === undefined || timeline === undefined) return undefined;
      if (typeof name !== 'string') return undefined;
      return { place: known, name: name.slice(0, 200), timeline };
    }).filter((reply) => reply !== undefined);
    if (replies.length === 0) {
      this.#status.textContent = 'The link holds no run that can be read.';
      return;
    }
    this.#replies = replies;
    this.#panels.replaceChildren();
    for (const { place, name, timeline } of replies) {
      this.#panel(place, name).textContent = timeline.text;
    }
    this.#status.textContent = 'From a link.';
    this.#showReplies();
    this.#showTie();
  }

  #showReplies(): void {
    this.#share.hidden = false;
    const rows = this.#replies.map(({ name, timeline }) => {
      const speed = placeOf(timeline)?.tokensPerSecond;
      return {
        head: name,
        note: outcomeText(timeline),
        cells: [...MOMENTS.map(([, moment]) => momentText(timeline, moment)),
          speed === undefined ? 'n/a' : decimals(speed)],
      };
    });
    this.#results.replaceChildren(
      stageBars(this.#replies),
      figureTable('The four firsts, and the rest',
        ['', ...MOMENTS.map(([name]) => name.toLowerCase()), 'tokens/s'], rows));
  }

  #showTie(): void {
    const { values } = this.#controls;
    const tie = breakEven(values);
    const gap = tie.remoteMs - tie.localMs;
    const together = tie.wholeRttMs < 0 ? 'at no distance: it writes too slowly'
      : `at a round trip of ${span(tie.wholeRttMs)}`;
    const speed = Number.isFinite(tie.wholeTokensPerSecond)
      ? `, or at ${decimals(tie.wholeTokensPerSecond)} tokens/s` : '';
    const first = tie.firstTextRttMs < 0 ? 'at no distance'
      : `at ${span(tie.firstTextRttMs)}`;
    this.#tie.replaceChildren(h('p', { class: 'verdict' },
      `${values.tokens} tokens: `, h('strong', {}, gap > 0 ? 'this device' : 'the network'),
      ` is through ${span(Math.abs(gap))} sooner (${span(tie.localMs)} against ` +
      `${span(tie.remoteMs)}). They tie ${together}${speed}. First texts tie ${first}.`));
    this.#drawTie(values);
  }

  #drawTie(values: PathValues): void {
    const speeds = Array.from({ length: 61 }, (_, at) => 2 * 250 ** (at / 60));
    const remote = this.#replies.find(({ place }) => place === 'remote');
    const found = remote === undefined ? undefined : placeOf(remote.timeline);
    const dot = (speed: number, rttMs: number): [number[], number[]] =>
      [[speed], [Math.max(LEAST_RTT_MS, rttMs)]];
    const firsts = tieCurve(values, speeds, 1);
    const wholes = tieCurve(values, speeds, values.tokens);
    const known = (curve: (number | null)[]): [number[], number[]] => {
      const isShown = (rttMs: number | null | undefined): rttMs is number =>
        typeof rttMs === 'number' && rttMs >= LEAST_RTT_MS;
      return [speeds.filter((_, at) => isShown(curve[at])), curve.filter(isShown)];
    };
    this.#plot.draw({
      x: { label: 'the server\'s tokens/s', log: true, min: 2, max: 500 },
      y: { label: 'round trip, ms', log: true, min: LEAST_RTT_MS, max: MOST_RTT_MS, format: whole },
      lines: [
        { colour: 'wait', label: `${values.tokens} tokens tie` },
        { colour: 'local', label: 'first texts tie', dashed: true },
        { colour: 'stream', label: 'the server that is set', kind: 'points' },
        ...(found === undefined ? [] : [
          { colour: 'remote', label: 'the real server', kind: 'points' } as const,
        ]),
      ],
      data: joined([known(wholes), known(firsts), dot(values.speed, values.rtt),
        ...(found === undefined ? [] : [
          dot(found.tokensPerSecond, found.ttftMs - values.wait),
        ])]),
    });
  }

  #result(): Result | undefined {
    if (this.#replies.length === 0) return undefined;
    const { values } = this.#controls;
    return {
      name: 'local-or-network',
      json: {
        settings: values,
        replies: this.#replies.map((reply) => ({ ...reply, stages: stagesOf(reply.timeline),
          speed: placeOf(reply.timeline) })),
        breakEven: breakEven(values),
      },
      csv: timelinesToCsv(this.#replies.map(({ timeline }) => timeline)),
      shared: this.#replies.map(({ place, name, timeline }) => [place, name, toShared(timeline)]),
    };
  }
}

/** One bar a reply, all on one scale. */
function stageBars(replies: readonly Reply[]): HTMLElement {
  const stages = replies.map(({ timeline }) => stagesOf(timeline));
  const endMs = Math.max(1, ...stages.map((own) => own.at(-1)?.toMs ?? 0));
  const rows = replies.map(({ name }, at) => {
    const own = stages[at] ?? [];
    const parts = own.map(({ name: stage, fromMs, toMs }) => {
      const part = h('span', { class: 'stage', 'data-stage': stage });
      part.style.left = `${(100 * fromMs) / endMs}%`;
      part.style.width = `${(100 * (toMs - fromMs)) / endMs}%`;
      return part;
    });
    const said = own.map(({ name: stage, fromMs, toMs }) =>
      `${STAGES[stage]}: ${span(toMs - fromMs)}`).join('; ');
    return h('div', { class: 'stage-row' }, h('span', {}, name),
      h('div', { class: 'stage-track', role: 'img', 'aria-label': `${name}: ${said}` }, ...parts));
  });
  const legend = (Object.keys(STAGES) as StageName[]).map((stage) =>
    h('li', {}, h('span', { class: 'stage-swatch', 'data-stage': stage }), STAGES[stage]));
  return h('div', { class: 'stages' }, ...rows,
    h('ul', { class: 'legend', 'aria-hidden': 'true' }, ...legend));
}
