// The moments of an exchange as rows of a table.
import type { Timeline } from 'tokenbrook/measure';
import { span } from '../shared/numbers.js';

export const MOMENTS = [
  ['First model token', 'firstTokenMs'],
  ['First byte', 'firstByteMs'],
  ['First parsed text', 'firstTextMs'],
  ['First rendered text', 'firstRenderedMs'],
  ['Last text', 'lastTextMs'],
  ['Closed', 'closedMs'],
] as const satisfies readonly (readonly [string, keyof Timeline])[];

/** `733 ms` since the request, or that it did not happen. */
export function momentText(timeline: Timeline, name: (typeof MOMENTS)[number][1]): string {
  const atMs = timeline[name];
  return atMs === null ? 'none' : span(Math.max(0, atMs - timeline.requestMs));
}

/** How it ended, in words. */
export function outcomeText({ outcome, failure, completion }: Timeline): string {
  const why = failure ?? completion;
  return why === null ? outcome : `${outcome} (${why})`;
}
