// Plots in the page's own colours, as wide as their place.
import uPlot from 'uplot';
import { h } from './elements.js';

export type Data = uPlot.AlignedData;

/** A colour of the style sheet, `--stream` for `stream`. */
export type Colour = 'stream' | 'wait' | 'local' | 'remote' | 'soft' | 'warn';

export interface Line {
  /** In the legend; lines of one kind name only the first. */
  label?: string;
  colour: Colour;
  /** Default `line`. */
  kind?: 'line' | 'steps' | 'points';
  dashed?: boolean;
  /** Of the line, or of its points. */
  width?: number;
}

export interface Axis {
  label: string;
  log?: boolean;
  min?: number;
  max?: number;
  format?: (value: number) => string;
  /** Where there are labels and grid lines, and nowhere else. */
  ticks?: readonly number[];
}

/** A stretch of the x axis with a name, or a line where both ends are the same. */
export interface Mark {
  from: number;
  to: number;
  label: string;
}

export interface Drawing {
  x: Axis;
  y: Axis;
  lines: readonly Line[];
  data: Data;
  marks?: readonly Mark[];
  height?: number;
}

/** Lines with x values of their own, as one table. */
export function joined(lines: readonly (readonly [number[], number[]])[]): Data {
  return uPlot.join(lines.map(([xs, ys]) => [xs, ys] as Data));
}

const FONT = '12px system-ui, sans-serif';

export class Plot {
  readonly root: HTMLElement;
  readonly #canvas = h('div', { class: 'plot-canvas' });
  readonly #legend = h('ul', { class: 'legend', 'aria-hidden': 'true' });
  #drawing: Drawing | undefined;
  #plot: uPlot | undefined;

  /** `name` is what the plot shows, for those who cannot see it. */
  constructor(name: string) {
    this.#canvas.setAttribute('role', 'img');
    this.#canvas.setAttribute('aria-label', name);
    this.root = h('figure', { class: 'plot' }, this.#canvas, this.#legend);
    new ResizeObserver(() => this.#fit()).observe(this.#canvas);
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => this.#draw());
  }

  /** Says in one sentence what there is to see. */
  describe(sentence: string): void {
    this.#canvas.setAttribute('aria-label', sentence);
  }

  /** Draws anew. */
  draw(drawing: Drawing): void {
    this.#drawing = drawing;
    this.#draw();
  }

  /** Other values of the same lines. */
  update(data: Data): void {
    if (this.#drawing === undefined) return;
    this.#drawing = { ...this.#drawing, data };
    this.#plot?.setData(data);
  }

  #fit(): void {
    const width = this.#canvas.clientWidth;
    if (width === 0 || this.#drawing === undefined) return;
    if (this.#plot === undefined) this.#draw();
    else if (this.#plot.width !== width) {
      this.#plot.setSize({ width, height: this.#plot.height });
    }
  }

  #draw(): void {
    this.#plot?.destroy();
    this.#plot = undefined;
    const drawing = this.#drawing;
    const width = this.#canvas.clientWidth;
    if (drawing === undefined || width === 0) return;
    this.#plot = new uPlot(optionsOf(drawing, width), drawing.data, this.#canvas);
    this.#legend.replaceChildren(...drawing.lines.flatMap(legendItem));
  }
}

function legendItem(line: Line): HTMLElement[] {
  if (line.label === undefined) return [];
  const look = line.kind === 'points' ? 'points' : line.dashed === true ? 'dashed' : 'line';
  const swatch = h('span', { class: 'swatch', 'data-colour': line.colour, 'data-look': look });
  return [h('li', {}, swatch, line.label)];
}

function optionsOf(drawing: Drawing, width: number): uPlot.Options {
  const { x, y, lines, marks = [], height = 280 } = drawing;
  return {
    width,
    height,
    legend: { show: false },
    cursor: { show: false },
    padding: [marks.length > 0 ? 22 : 10, 22, 0, 0],
    scales: { x: { time: false, ...scaleOf(x) }, y: scaleOf(y) },
    axes: [{ ...axisOf(x), size: 26, space: 60 }, { ...axisOf(y), size: 50, space: 32 }],
    series: [{}, ...lines.map(seriesOf)],
    hooks: { drawClear: [(plot) => drawMarks(plot, marks)] },
  };
}

function scaleOf(axis: Axis): uPlot.Scale {
  const { min, max } = axis;
  const range: uPlot.Range.Function = (_plot, low, high) => {
    const from = min ?? (axis.log === true ? low : Math.min(0, low));
    const to = max ?? high;
    if (axis.log === true) return uPlot.rangeLog(from, to, 10, false);
    // A flat line still needs a height.
    return [from, to > from ? to + (max === undefined ? (to - from) * 0.05 : 0) : from + 1];
  };
  return { ...(axis.log === true && { distr: 3 as const }), range };
}

function axisOf(axis: Axis): uPlot.Axis {
  const { format, ticks } = axis;
  return {
    ...(axis.label !== '' && { label: axis.label, labelFont: FONT, labelSize: 18 }),
    font: FONT,
    gap: 4,
    stroke: () => colour('soft'),
    grid: {
      stroke: () => token('--line'),
      width: 1,
      // Of a logarithmic axis only the decades: the lines between would be a hatching.
      ...(axis.log === true && { filter: (_plot: uPlot, splits: number[]) => splits.map(decade) }),
    },
    ticks: { show: false },
    ...(ticks !== undefined && { splits: () => [...ticks] }),
    ...(format !== undefined && {
      values: (_plot: uPlot, splits: (number | null)[]) =>
        splits.map((value) => (value === null ? '' : format(value))),
    }),
  };
}

function decade(value: number): number | null {
  return Number.isInteger(Math.round(Math.log10(value) * 1e6) / 1e6) ? value : null;
}

function seriesOf(line: Line): uPlot.Series {
  const { kind = 'line', dashed = false, width = 2 } = line;
  const paint = colour(line.colour);
  return {
    stroke: paint,
    width: kind === 'points' ? 0 : width,
    spanGaps: kind !== 'points',
    ...(dashed && { dash: [6, 5] }),
    ...(kind === 'steps' && uPlot.paths.stepped !== undefined && {
      paths: uPlot.paths.stepped({ align: 1 }),
    }),
    points: kind === 'points'
      ? { show: true, size: line.width ?? 9, fill: paint, stroke: paint }
      : { show: false },
  };
}

/** Stretches are shaded by turns, with their names above the plot. */
function drawMarks(plot: uPlot, marks: readonly Mark[]): void {
  const { ctx, bbox } = plot;
  const ratio = devicePixelRatio;
  ctx.save();
  ctx.font = `${11 * ratio}px system-ui, sans-serif`;
  ctx.textBaseline = 'bottom';
  marks.forEach(({ from, to, label }, index) => {
    const clamp = (at: number): number =>
      Math.min(Math.max(plot.valToPos(at, 'x', true), bbox.left), bbox.left + bbox.width);
    const [left, right] = [clamp(from), clamp(to)];
    if (from === to) {
      ctx.fillStyle = colour('soft');
      ctx.fillRect(left, bbox.top, ratio, bbox.height);
    } else if (index % 2 === 0) {
      ctx.fillStyle = token('--tint');
      ctx.fillRect(left, bbox.top, right - left, bbox.height);
    }
    ctx.fillStyle = colour('soft');
    const room = from === to ? Infinity : right - left;
    if (ctx.measureText(label).width + 4 * ratio <= room) {
      ctx.fillText(label, left + 2 * ratio, bbox.top - 3 * ratio);
    }
  });
  ctx.restore();
}

function colour(name: Colour): string {
  return token(`--${name}`);
}

function token(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}
