// The entry `tokenbrook/mock`: a server that is not there, in this thread or in a service worker.

import { incoming, MockHost } from './mock-host.js';
import type { OutsideToken } from './mock-driver.js';
import { asTokenbrookError, invalidOption, TokenbrookError } from './errors.js';
import { module } from './ready.js';
import type { MockStats, Scenario, ScenarioOverload, TraceEvent } from './scenario.js';
import { PING_MS } from './mock-protocol.js';
import type { Answer, Ask, Told } from './mock-protocol.js';

export { ready } from './ready.js';
export { TokenbrookError } from './errors.js';
export { scenarios } from './scenario.js';
export type * from './scenario.js';
export type { OutsideToken } from './mock-driver.js';

/** The part of a request that a token source may look at. */
export interface MockRequest {
  method: string;
  url: URL;
  headers: Headers;
  body: Uint8Array;
}

export interface MockOptions {
  /** Text of replies, such as the local model's; the scenario's `text` is then `external`. */
  tokens?: (request: MockRequest) => ReadableStream<OutsideToken>;
}

export interface MockServer {
  /**
   * As the platform's: the OpenAI dialect below `/v1/`, and `/lab/wait`, `/lab/stream`,
   * `/lab/plain`, `/lab/trace`, `/lab/stats`. An address without a host is fine. Rejects with
   * `invalid-option` where the scenario is refused.
   */
  readonly fetch: (input: RequestInfo | URL, init?: RequestInit) => Promise<Response>;
  /** What happened so far, of one reply or of all; needs the module to run. */
  trace(reply?: number): TraceEvent[];
  /** Counts as they are now; needs the module to run (`await ready`). */
  stats(): MockStats;
}

/** A server that plays `scenario`, seeded: the same requests at the same times, the same trace. */
export function createMockServer(scenario: Scenario = {}, options: MockOptions = {}): MockServer {
  const { tokens } = options;
  if (tokens !== undefined && typeof tokens !== 'function') {
    throw invalidOption('tokens', 'a function that gives a stream of tokens');
  }
  const played =
    tokens === undefined ? scenario : { ...scenario, text: { kind: 'external' } as const };
  const host = new MockHost(played, tokens);
  return {
    fetch: async (input, init) => {
      // Kept from the `Request`: Node's leaves its listener on the signal that it is given.
      const { signal = input instanceof Request ? input.signal : null, ...rest } = init ?? {};
      signal?.throwIfAborted();
      const request = new Request(absolute(input), { ...rest, signal: null });
      const whole = await incoming(request);
      whole.url.searchParams.delete('scenario');
      return host.respond(whole, signal ?? undefined);
    },
    trace: (reply) => host.trace(reply),
    stats: () => host.stats(),
  };
}

/** An address without a host is one of this server. */
function absolute(input: RequestInfo | URL): RequestInfo | URL {
  return typeof input === 'string' ? new URL(input, 'http://mock.invalid/') : input;
}

/** Requests without text on pools, bucket and queue alone. */
export interface LoadRun {
  seed: number;
  overload: ScenarioOverload;
  arrivalsPerSecond: number;
  paidShare: number;
  /** Mean time on a seat. */
  serviceMs: number;
  /** What a request costs in the bucket. */
  tokens: number;
  requests: number;
  /** After the start and after an incident, so long is not counted. */
  settleMs: number;
}

/** What became of one tier. */
export interface LoadOutcome {
  arrived: number;
  refused: number;
  served: number;
  meanWaitMs: number;
  maxWaitMs: number;
}

/** A stretch of a load run between two incidents. */
export interface LoadStretch {
  fromMs: number;
  paid: LoadOutcome;
  free: LoadOutcome;
}

/** Runs a load at once, on a clock of its own. Throws `invalid-option`; needs the module to run. */
export function simulateLoad(run: LoadRun): LoadStretch[] {
  try {
    return JSON.parse(module().simulateLoad(JSON.stringify(run))) as LoadStretch[];
  } catch (error) {
    throw asTokenbrookError(error);
  }
}

export interface RegisterOptions {
  /** Played where an address names none. */
  scenario?: Scenario;
  /** As for `navigator.serviceWorker.register`. */
  scope?: string;
}

/** The service worker that answers this page's `/v1/*` and `/lab/*` below its scope. */
export interface MockRegistration {
  readonly registration: ServiceWorkerRegistration;
  /** Plays another scenario from the next request on, in all tabs. */
  play(scenario: Scenario): Promise<void>;
  /** As a server's; `scenario` as `?scenario` has it, otherwise of what is played now. */
  trace(reply?: number, scenario?: string): Promise<TraceEvent[]>;
  stats(): Promise<MockStats>;
  /** No more pings from this page; the worker stays. */
  close(): void;
}

/**
 * Registers the worker `url` (`tokenbrook/mock-service-worker`, or one of the page's own that
 * uses its `handle`) and resolves once it controls this page.
 *
 * While streams are open the page pings the worker: Firefox ends an idle worker after 30 s,
 * whatever it streams. A new version of the worker takes over when no stream is open.
 *
 * Rejects with `unsupported-environment`, `insecure-context`'s cause included, or
 * `download-failed`.
 */
export async function register(
  url: string | URL,
  options: RegisterOptions = {},
): Promise<MockRegistration> {
  const workers = globalThis.navigator?.serviceWorker as ServiceWorkerContainer | undefined;
  if (workers === undefined) {
    const message = 'There are no service workers here: use a page served by HTTPS or localhost.';
    throw new TokenbrookError('unsupported-environment', message);
  }
  const { scope, scenario } = options;
  const settings: RegistrationOptions = { type: 'module' };
  if (scope !== undefined) settings.scope = scope;
  let registration: ServiceWorkerRegistration;
  try {
    registration = await workers.register(url, settings);
  } catch (cause) {
    const message = `The service worker ${String(url)} could not be registered.`;
    throw new TokenbrookError('download-failed', message, { cause });
  }
  const link = new WorkerLink(workers, registration);
  await link.controlled();
  if (scenario !== undefined) await link.play(scenario);
  return link;
}

class WorkerLink implements MockRegistration {
  readonly registration: ServiceWorkerRegistration;
  readonly #workers: ServiceWorkerContainer;
  #pings: ReturnType<typeof setInterval> | undefined;
  readonly #onMessage = (event: MessageEvent): void => this.#told(event.data as Told);
  readonly #onUpdate = (): void => void this.#watch(this.registration.installing);

  constructor(workers: ServiceWorkerContainer, registration: ServiceWorkerRegistration) {
    this.#workers = workers;
    this.registration = registration;
    workers.addEventListener('message', this.#onMessage);
    workers.startMessages();
    registration.addEventListener('updatefound', this.#onUpdate);
    void this.#watch(registration.waiting);
  }

  /** Fulfils once a worker answers for this page. */
  async controlled(): Promise<void> {
    await this.#workers.ready;
    if (this.#workers.controller === null) {
      await new Promise<void>((done) => {
        this.#workers.addEventListener('controllerchange', () => done(), { once: true });
        // Only then: the worker may be faster than the listener.
        this.#post({ tokenbrook: 'claim' });
        if (this.#workers.controller !== null) done();
      });
    }
    // A page that joins while streams are open begins to ping at once.
    const open = await this.#ask({ tokenbrook: 'open' });
    this.#told({ tokenbrook: 'open', open: open as number });
  }

  async play(scenario: Scenario): Promise<void> {
    await this.#ask({ tokenbrook: 'play', scenario });
  }

  async trace(reply?: number, scenario?: string): Promise<TraceEvent[]> {
    return (await this.#ask({ tokenbrook: 'trace', reply, scenario })) as TraceEvent[];
  }

  async stats(): Promise<MockStats> {
    return (await this.#ask({ tokenbrook: 'stats' })) as MockStats;
  }

  close(): void {
    clearInterval(this.#pings);
    this.#pings = undefined;
    this.#workers.removeEventListener('message', this.#onMessage);
    this.registration.removeEventListener('updatefound', this.#onUpdate);
  }

  #told(told: Told): void {
    if (told?.tokenbrook !== 'open') return;
    if (told.open > 0) {
      this.#pings ??= setInterval(() => this.#post({ tokenbrook: 'ping' }), PING_MS);
      return;
    }
    clearInterval(this.#pings);
    this.#pings = undefined;
    this.#replace();
  }

  /** A new version is on its way: it takes over as soon as no stream is open. */
  async #watch(worker: ServiceWorker | null): Promise<void> {
    if (worker === null) return;
    if (worker.state === 'installing') {
      await new Promise<void>((installed) => {
        worker.addEventListener('statechange', () => installed(), { once: true });
      });
    }
    if (this.#workers.controller === null) return;
    const open = await this.#ask({ tokenbrook: 'open' });
    if (open === 0) this.#replace();
  }

  #replace(): void {
    const skip: Ask = { tokenbrook: 'skip-waiting' };
    this.registration.waiting?.postMessage(skip);
  }

  #post(ask: Ask, ports: Transferable[] = []): void {
    const worker = this.#workers.controller ?? this.registration.active;
    worker?.postMessage(ask, ports);
  }

  #ask(ask: Ask): Promise<unknown> {
    const { port1, port2 } = new MessageChannel();
    return new Promise((fulfil, reject) => {
      port1.onmessage = ({ data }: MessageEvent<Answer>) => {
        port1.close();
        if ('error' in data) reject(new TokenbrookError(data.error.code, data.error.message));
        else fulfil(data.value);
      };
      this.#post(ask, [port2]);
    });
  }
}
