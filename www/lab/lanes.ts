// A timeline as lanes of dots: made, read, parsed, painted.
import type { Timeline } from 'tokenbrook/measure';
import { decimals } from '../shared/numbers.js';
import { joined, Plot, type Colour, type Drawing } from '../shared/plot.js';

/** Moments in ms since the request. */
export interface Lanes {
  made: number[];
  reads: number[];
  parsed: number[];
  painted: number[];
}

const LANES: readonly { key: keyof Lanes; name: string; colour: Colour }[] = [
  { key: 'painted', name: 'painted', colour: 'stream' },
  { key: 'parsed', name: 'parsed', colour: 'local' },
  { key: 'reads', name: 'reads', colour: 'remote' },
  { key: 'made', name: 'made', colour: 'wait' },
];

/** Dots at one place are one dot: a lane without any still needs a value. */
const NOWHERE = -1e6;

export class LanePlot {
  readonly plot = new Plot('When tokens were made, read, parsed and painted');
  #isDrawn = false;

  get root(): HTMLElement {
    return this.plot.root;
  }

  /** Shows moments; `endMs` is as far as the axis reaches. */
  show(lanes: Lanes, endMs: number): void {
    const drawing = drawingOf(lanes, endMs);
    this.plot.draw(drawing);
    this.#isDrawn = true;
    const counts = LANES.map(({ key, name }) => `${lanes[key].length} ${name}`);
    this.plot.describe(`Timeline over ${decimals(endMs, 0)} ms: ${counts.join(', ')}.`);
  }

  /** The same while they come, within the axis that was shown. */
  update(lanes: Lanes): void {
    if (this.#isDrawn) this.plot.update(dataOf(lanes));
  }
}

function drawingOf(lanes: Lanes, endMs: number): Drawing {
  return {
    x: { label: 'ms since the request', min: 0, max: endMs },
    y: {
      label: '', min: 0.5, max: LANES.length + 0.5, ticks: LANES.map((_, at) => at + 1),
      format: (value) => LANES[value - 1]?.name ?? '',
    },
    lines: LANES.map(({ colour }) => ({ colour, kind: 'points' as const, width: 5 })),
    data: dataOf(lanes),
    height: 210,
  };
}

function dataOf(lanes: Lanes): Drawing['data'] {
  return joined(LANES.map(({ key }, at) => {
    const times = [NOWHERE, ...new Set(lanes[key])];
    return [times, times.map(() => at + 1)] as const;
  }));
}

/** Lanes of a finished timeline; what only its own page knows is handed in. */
export function lanesOf(timeline: Timeline, madeMs: number[], paintedMs: number[]): Lanes {
  const since = (atMs: number): number => atMs - timeline.requestMs;
  return {
    made: madeMs.map(since),
    reads: timeline.reads.map(({ atMs }) => since(atMs)),
    parsed: timeline.events.filter(({ textBytes }) => textBytes > 0).map(({ atMs }) => since(atMs)),
    painted: paintedMs.map(since),
  };
}
