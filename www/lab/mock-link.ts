// The lab's server: the mock in the pages' service worker or, where there is none, in the page
// itself.
import {
  createMockServer, register, type MockRegistration, type Scenario, type TraceEvent,
} from 'tokenbrook/mock';
import { SHELL_WORKER } from '../shell.js';

/** What plays one scenario. */
export interface MockPlay {
  fetch(path: string, init?: RequestInit): Promise<Response>;
  /** What happened to a reply, or to all of them. */
  trace(reply?: number): TraceEvent[] | Promise<TraceEvent[]>;
}

/** Where the mock runs, for people. */
export type MockPlace = 'a service worker' | 'this page';

let linked: Promise<MockRegistration | undefined> | undefined;

/** Registers the worker once; `undefined` where this page cannot have one. */
function link(): Promise<MockRegistration | undefined> {
  linked ??= register(SHELL_WORKER).catch((error: unknown) => {
    console.warn('The mock runs in the page:', error);
    return undefined;
  });
  return linked;
}

export async function mockPlace(): Promise<MockPlace> {
  return (await link()) === undefined ? 'this page' : 'a service worker';
}

/**
 * Plays `scenario` while `use` is busy. One at a time, over all tabs: the worker is theirs
 * together, and plays one scenario.
 */
export async function playScenario<T>(
  scenario: Scenario, use: (play: MockPlay) => Promise<T>,
): Promise<T> {
  const worker = await link();
  if (worker === undefined) {
    const server = createMockServer(scenario);
    return use({ fetch: server.fetch, trace: (reply) => server.trace(reply) });
  }
  return locked(async () => {
    await worker.play(scenario);
    const fetchHere = (path: string, init?: RequestInit): Promise<Response> =>
      fetch(new URL(path.replace(/^\//, ''), document.baseURI), init);
    return use({ fetch: fetchHere, trace: (reply) => worker.trace(reply) });
  });
}

/** Asks a server with a scenario of its own, whoever plays what else. */
export async function fetchScenario(
  scenario: Scenario, path: string, init?: RequestInit,
): Promise<Response> {
  if ((await link()) === undefined) return createMockServer(scenario).fetch(path, init);
  const address = new URL(path.replace(/^\//, ''), document.baseURI);
  address.searchParams.set('scenario', JSON.stringify(scenario));
  return fetch(address, init);
}

function locked<T>(run: () => Promise<T>): Promise<T> {
  // Only secure contexts have locks, and only they have service workers.
  return navigator.locks.request('tokenbrook-lab-mock', run) as Promise<T>;
}
