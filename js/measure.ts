// The entry `tokenbrook/measure`: one stopwatch for the local model, the mock and any server.

import { asTokenbrookError, invalidOption } from './errors.js';
import { Exchange } from './measure-exchange.js';
import type { Generator } from './measure-exchange.js';
import { module, whenReady } from './ready.js';
import type { Comparison, Diagnosis } from './diagnosis.js';
import type { FigureName, Summary, Timeline, TimelineEvent } from './timeline.js';

export { ready } from './ready.js';
export { TokenbrookError } from './errors.js';
export type { ErrorCode } from './errors.js';
export { summaryToCsv, timelinesToCsv } from './measure-csv.js';
export type { Generator } from './measure-exchange.js';
export type { Paint } from './paint.js';
export type * from './diagnosis.js';
export type * from './timeline.js';

export interface MeasureOptions {
  /** Who is asked: `model.fetch`, a mock's, or the platform's, which is the default. */
  fetch?: (input: RequestInfo | URL, init?: RequestInit) => Promise<Response>;
  /** As for `fetch`: method, headers, body, signal. */
  init?: RequestInit;
  /**
   * An empty element, whose first painted text is `firstRenderedMs`. The text is appended to
   * it, once a frame; with `onEvent` the caller shows it there instead. Until the paint it has
   * an attribute `elementtiming`, where the browser knows that.
   */
  element?: Element;
  /** Called as each event is parsed. */
  onEvent?: (event: TimelineEvent) => void;
  /**
   * Called once, as the request is sent, with what gives the timeline up to that moment: its
   * outcome is `open` until the end.
   */
  onStart?: (soFar: () => Timeline) => void;
  /**
   * A mock elsewhere, as `register` gives it, whose trace has the generator's stamps. Those of
   * responses made in this thread are found without it.
   */
  generator?: Generator;
}

/**
 * Sends a request, reads its response to the end and tells when everything happened. Waits for
 * `ready` first, so that nothing is loaded on the clock.
 *
 * Always fulfils: a refusal, a broken body and an abort are outcomes. Rejects with
 * `invalid-option`, with what `onEvent` throws, or where the module cannot be loaded.
 */
export async function measure(
  request: RequestInfo | URL,
  options: MeasureOptions = {},
): Promise<Timeline> {
  check(options);
  const { ExchangeWatch } = await whenReady();
  const exchange = new Exchange(ExchangeWatch, options);
  try {
    await exchange.run(request);
    return exchange.timeline();
  } finally {
    exchange.free();
  }
}

function check({ fetch, element, onEvent, onStart, generator }: MeasureOptions): void {
  const isFunction = (value: unknown): boolean =>
    value === undefined || typeof value === 'function';
  if (!isFunction(fetch)) throw invalidOption('fetch', 'a function like the platform’s');
  if (!isFunction(onEvent)) throw invalidOption('onEvent', 'a function');
  if (!isFunction(onStart)) throw invalidOption('onStart', 'a function');
  if (element !== undefined && typeof element.setAttribute !== 'function') {
    throw invalidOption('element', 'an element of the page');
  }
  if (generator !== undefined && typeof generator.trace !== 'function') {
    throw invalidOption('generator', 'what `register` or `createMockServer` gives');
  }
}

/** Sums up what [measure] gave. Throws `invalid-option`; needs `ready`. */
export function summarize(timelines: readonly Timeline[]): Summary {
  return judged(() => module().summarizeTimelines(timelines)) as Summary;
}

/**
 * Says whether text came as it was made, and if not, what held it back: `hop` where only one
 * thing on the way looks like this, otherwise `hops` has all that do.
 *
 * Throws `invalid-option`; needs `ready`.
 */
export function diagnoseStream(timeline: Timeline): Diagnosis {
  return judged(() => module().diagnoseTimeline(timeline)) as Diagnosis;
}

/**
 * Names what the public path adds to the direct one: the same request to the server itself, and
 * through all that its users go through.
 *
 * Throws `invalid-option`; needs `ready`.
 */
export function comparePaths(direct: Timeline, publicPath: Timeline): Comparison {
  return judged(() => module().compareTimelines(direct, publicPath)) as Comparison;
}

function judged(judge: () => unknown): unknown {
  try {
    return judge();
  } catch (error) {
    throw asTokenbrookError(error);
  }
}

/** Each figure's name and whose definition it is, empty where it is nobody's. Needs `ready`. */
export function figureSources(): [name: FigureName, source: string][] {
  return module().figureSources() as [FigureName, string][];
}
