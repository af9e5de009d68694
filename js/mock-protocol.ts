// What pages and the mock's service worker say to each other.

import type { ErrorCode } from './errors.js';
import type { Scenario } from './scenario.js';

/** How often a page pings while streams are open: a third of Firefox's patience. */
export const PING_MS = 10_000;

/** From a page; all but `ping`, `claim` and `skip-waiting` carry a port for the answer. */
export type Ask =
  | { tokenbrook: 'ping' | 'claim' | 'skip-waiting' | 'stats' | 'open' }
  | { tokenbrook: 'trace'; reply: number | undefined; scenario: string | undefined }
  | { tokenbrook: 'play'; scenario: Scenario };

/** On the port. */
export type Answer = { value: unknown } | { error: { code: ErrorCode; message: string } };

/** From the worker, to all pages of its scope: how many streams are open. */
export interface Told {
  tokenbrook: 'open';
  open: number;
}
