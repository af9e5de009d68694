// Tables and plots of a run, engine by engine as they are done.
import { bytesShort, decimals, span } from '../shared/numbers.js';
import { facts, figureTable, h, type Row } from '../shared/elements.js';
import { joined, Plot, type Colour } from '../shared/plot.js';
import { figuresOf, gapsOf, isMeasured } from './figures.js';
import type { Measured, Outcome, Series } from './run.js';
import type { Setup } from './plan.js';

const COLOURS: Readonly<Record<Setup['key'], Colour>> = {
  webgpu: 'stream', best: 'local', single: 'remote', plain: 'wait',
};

export class Results {
  readonly root = h('div', { 'data-role': 'results' });
  readonly #tables = h('div', { class: 'tables' });
  readonly #speed = new Plot('Prompt tokens a second, by length of the prompt');
  readonly #gaps = new Plot('Time from token to token within a reply');

  constructor() {
    this.root.append(this.#tables,
      h('h3', {}, 'Reading a prompt'), this.#speed.root,
      h('h3', {}, 'Writing a reply'), this.#gaps.root);
    this.clear();
  }

  clear(): void {
    this.root.hidden = true;
    this.#tables.replaceChildren();
  }

  show(outcomes: readonly Outcome[]): void {
    const measured = outcomes.filter(isMeasured);
    this.root.hidden = false;
    this.#tables.replaceChildren(
      ...outcomes.filter((outcome) => !isMeasured(outcome)).map(({ setup, ...rest }) =>
        h('p', { class: 'notice' }, h('strong', {}, `${setup.name}: `),
          'failure' in rest ? rest.failure : '')),
      ...(measured.length === 0 ? [] : [
        speedTable(measured), loadTable(measured),
        h('details', {}, h('summary', {}, 'What ran'), ...measured.map(description)),
      ]),
    );
    const hasFigures = measured.length > 0;
    for (const { root } of [this.#speed, this.#gaps]) {
      root.hidden = !hasFigures;
      if (root.previousElementSibling instanceof HTMLElement) {
        root.previousElementSibling.hidden = !hasFigures;
      }
    }
    if (hasFigures) this.#draw(measured);
  }

  #draw(measured: readonly Measured[]): void {
    const lines = measured.map(({ setup }) => ({
      colour: COLOURS[setup.key], label: setup.name,
    }));
    const speeds = measured.map(({ prompts }) => {
      const figures = prompts.map(figuresOf);
      return [
        figures.map(({ promptTokens }) => promptTokens),
        figures.map(({ promptTokensPerSecond }) => promptTokensPerSecond ?? 0),
      ] as const;
    });
    const lengths = speeds.flatMap(([xs]) => [...xs]);
    const pointed = lines.flatMap((line) =>
      [line, { colour: line.colour, kind: 'points' as const }]);
    this.#speed.draw({
      x: {
        label: 'tokens of the prompt', min: 0, max: Math.max(...lengths) * 1.05,
        ticks: [...new Set(lengths)], format: (value) => decimals(value, 0),
      },
      y: { label: 'tokens/s', format: (value) => decimals(value, 0) },
      lines: pointed,
      data: joined(speeds.flatMap(([xs, ys]) => [[xs, ys], [xs, ys]] as [number[], number[]][])),
      height: 220,
    });
    const gaps = measured.map(({ reply }) => {
      const found = gapsOf(reply);
      return [found.map((_, at) => at + 2), found] as [number[], number[]];
    });
    this.#gaps.draw({
      x: { label: 'token of the reply', min: 0 },
      y: { label: 'ms', format: (value) => decimals(value, value > 0 && value < 10 ? 1 : 0) },
      lines: lines.map((line) => ({ ...line, width: 1.5 })),
      data: joined(gaps),
      height: 220,
    });
  }
}

/** `pp32` and `tg64`, as llama.cpp names them. */
export function seriesName({ promptTokens, outputTokens }: Series): string {
  return outputTokens === 1 ? `pp${promptTokens}` : `tg${outputTokens}`;
}

function speedTable(measured: readonly Measured[]): HTMLElement {
  const rows = measured.flatMap(({ setup, check, prompts, reply }): Row[] =>
    [...prompts, reply].map((series) => {
      const { ttft, firstText, tpot, ...rates } = figuresOf(series);
      const isReply = series === reply;
      const rate = isReply ? rates.tokensPerSecond : rates.promptTokensPerSecond;
      return {
        head: `${setup.name} ${seriesName(series)}`,
        ...(!check.agrees && { note: 'its tokens are wrong' }),
        cells: [
          decimals(rate ?? NaN),
          decimals(ttft?.p50 ?? NaN),
          decimals(firstText?.p50 ?? NaN),
          tpot === undefined ? '' : decimals(tpot.p50, 2),
        ],
      };
    }));
  return h('div', {},
    figureTable('Speed, medians',
      ['', 'tokens/s', 'first token, ms', 'first text, ms', 'ms per token'], rows),
    h('p', { class: 'figures' },
      'pp: prompt tokens over the time to the first token (ttft.generator). tg: 1 over the time ',
      'per token after it (tpot, as vLLM has it). Medians.'));
}

function loadTable(measured: readonly Measured[]): HTMLElement {
  const rows = measured.map(({ setup, loadMs, loadedFrom, memory, check }): Row => ({
    head: setup.name,
    note: `loaded from ${loadedFrom}`,
    cells: [
      span(loadMs),
      bytesShort(memory.weightsBytes + memory.kvCacheBytes + memory.scratchBytes),
      bytesShort(memory.wasmHeapBytes),
      check.agrees ? 'agree' : 'wrong',
    ],
  }));
  return figureTable('Loading, memory and the check of tokens',
    ['', 'load', 'model in memory', 'WebAssembly heap', 'tokens'], rows);
}

function description({ setup, info, check }: Measured): HTMLElement {
  const { against, worstNats, limitNats } = check;
  const where = info.adapter ?? `${info.wasmVariant}, ${info.threads} ` +
    `thread${info.threads === 1 ? '' : 's'}`;
  return facts([
    [setup.name, `${info.name}, ${info.quantization}`],
    ['Runs on', `${info.backend}: ${where}; ${info.precision}`],
    ...(info.backend === 'cpu' ? [['Threads', info.threadsReason] as const] : []),
    ['Tokens against', limitNats === 0 ? against
      : `${against}: at most ${decimals(worstNats, 3)} nats off, ` +
        `${decimals(limitNats, 1)} allowed`],
  ]);
}
