// Choosing a delivery from one's own n, d, k and w.
import { Controls } from '../shared/controls.js';
import { choose, costsOf, type Cost, type Delivery, type Reply } from './delivery-options.js';
import { figureTable, h, type Row } from '../shared/elements.js';
import { amount, choice, count, flag, fromParams, toParams, type Values } from '../shared/fields.js';
import { span, whole } from '../shared/numbers.js';
import { Plot, type Line } from '../shared/plot.js';
import type { Frame, Section } from './section.js';
import { shareRow } from './share.js';

const FIELDS = {
  n: count('Tokens, n', 120, [1, 100_000]),
  d: amount('Time per token, d', 33, [0.1, 10_000], { unit: 'ms' }),
  k: count('Tokens per event, k', 4, [1, 1000]),
  w: count('Held back, w', 10, [0, 1000]),
  wait: amount('Queue and prefill', 300, [0, 600_000], { unit: 'ms' }),
  rtt: amount('Round trip', 100, [0, 60_000], { unit: 'ms' }),
  reads: choice('Read by', 'person', { person: 'A person', program: 'A program' }),
  check: choice('Checked before it is shown', 'none', {
    none: 'No', window: 'A window of tokens', whole: 'The whole reply',
  }),
  frugal: flag('Bytes or renders are dear', false, 'A phone, a long reply.'),
  twoWay: flag('Goes both ways', false, 'Voice in, text out.'),
};

const NAMES: Record<Delivery, string> = {
  whole: 'Buffered',
  tokens: 'Stream, an event a token',
  batches: 'Stream, batched',
  held: 'Stream with hold-back',
  socket: 'WebSocket',
};

export function delivery(root: HTMLElement, frame: Frame): Section {
  return new DeliverySection(root, frame);
}

class DeliverySection implements Section {
  readonly #controls: Controls<typeof FIELDS>;
  readonly #results = h('div', { 'data-role': 'results', 'aria-live': 'polite' });
  readonly #plot = new Plot('Tokens on the screen over time, for each delivery');

  constructor(root: HTMLElement, frame: Frame) {
    this.#controls = new Controls(FIELDS, () => {
      this.#show();
      frame.changed();
    });
    root.append(h('div', { class: 'bench' },
      h('div', { class: 'bench-side' }, this.#controls.root),
      h('div', { class: 'bench-main' },
        this.#results, this.#plot.root,
        h('ul', { class: 'assumes' },
          h('li', {}, 'Every token takes d; nothing on the way buffers. The last batch and the ' +
            'last held tokens leave at the end, so all end at the same time.'),
          h('li', {}, 'Where the speed varies, a time window of 20 to 50 ms bounds the delay ' +
            'better than a count. Plain chunked text needs no framing but has no events, ids or ' +
            'errors; long polling needs no stream but a request for each look.')),
        shareRow(() => this.#result()))));
    this.#show();
  }

  params(): URLSearchParams {
    return toParams(FIELDS, this.#controls.values);
  }

  apply(params: URLSearchParams): void {
    this.#controls.set(fromParams(FIELDS, params));
    this.#show();
  }

  #show(): void {
    const { values } = this.#controls;
    const reply = replyOf(values);
    const costs = costsOf(reply);
    const { delivery: chosen, why } = choose(reply, values);
    this.#results.replaceChildren(
      h('p', { class: 'verdict' }, 'Take: ', h('strong', {}, NAMES[chosen]), `. ${why}`),
      figureTable('What each delivery costs',
        ['', 'first text', 'each token later by', 'end', 'events'], costs.map(rowOf(chosen))),
    );
    this.#draw(reply, costs);
  }

  #draw(reply: Reply, costs: readonly Cost[]): void {
    const { n, d, k, w } = reply;
    const [, tokens] = costs;
    const start = tokens?.firstTextMs ?? 0;
    const end = tokens?.endMs ?? 0;
    const steps = Math.min(400, Math.max(100, n * 2));
    const xs = Array.from({ length: steps + 1 }, (_, at) => (end * 1.05 * at) / steps);
    const made = xs.map((at) =>
      (at < start ? 0 : Math.min(n, Math.floor((at - start) / d + 1e-9) + 1)));
    const shown: Record<'whole' | 'tokens' | 'batches' | 'held', number[]> = {
      whole: made.map((count) => (count === n ? n : 0)),
      tokens: made,
      batches: made.map((count) => (count === n ? n : Math.floor(count / k) * k)),
      held: made.map((count) => (count === n ? n : Math.max(0, count - w))),
    };
    const lines: Line[] = [
      { colour: 'wait', label: NAMES.whole, kind: 'steps' },
      { colour: 'stream', label: NAMES.tokens, kind: 'steps' },
      { colour: 'local', label: NAMES.batches, kind: 'steps' },
      { colour: 'remote', label: NAMES.held, kind: 'steps', dashed: true },
    ];
    this.#plot.draw({
      x: { label: 'ms since the request', max: end * 1.05 },
      y: { label: 'tokens on the screen' },
      lines,
      data: [xs, shown.whole, shown.tokens, shown.batches, shown.held],
    });
  }

  #result(): ReturnType<Parameters<typeof shareRow>[0]> {
    const { values } = this.#controls;
    const reply = replyOf(values);
    const costs = costsOf(reply);
    return {
      name: 'delivery',
      json: { settings: values, choice: choose(reply, values), costs },
      table: {
        columns: ['delivery', 'firstTextMs', 'addedMs', 'endMs', 'events', 'goodFor', 'costs'],
        rows: costs.map((cost) => [NAMES[cost.delivery], cost.firstTextMs, cost.addedMs,
          cost.endMs, cost.events, cost.goodFor, cost.costs]),
      },
    };
  }
}

function rowOf(chosen: Delivery): (cost: Cost) => Row {
  return (cost) => ({
    head: NAMES[cost.delivery],
    note: `For ${cost.goodFor}. Costs ${cost.costs}.`,
    cells: [span(cost.firstTextMs), span(cost.addedMs), span(cost.endMs), whole(cost.events)],
    ...(cost.delivery === chosen && { kind: 'chosen' }),
  });
}

function replyOf(values: Values<typeof FIELDS>): Reply {
  const { n, d, k, w, wait, rtt } = values;
  return { n, d, k, w, waitMs: wait, rttMs: rtt };
}
