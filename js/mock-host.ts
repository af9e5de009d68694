// Mock servers by scenario behind one address: `?scenario=NAME` or `?scenario={…}` of a request
// chooses, otherwise the host's own scenario is played.

import { Driver } from './mock-driver.js';
import type { Incoming, TokenSource } from './mock-driver.js';
import { asTokenbrookError, invalidOption } from './errors.js';
import { module, whenReady } from './ready.js';
import { scenarios } from './scenario.js';
import type { MockStats, Scenario, TraceEvent } from './scenario.js';

/** Most scenarios that are played at a time; the one that was asked least recently goes first. */
const MAX_SERVERS = 16;

/** A scenario's replies that outlive the host. */
export interface KeptReplies {
  /** As `?scenario` has it; empty for the host's own. */
  scenario: string;
  records: unknown[];
}

export class MockHost {
  /** As JSON. */
  #own: string;
  readonly #tokens: TokenSource | undefined;
  readonly #servers = new Map<string, Driver>();

  constructor(scenario: Scenario, tokens: TokenSource | undefined) {
    this.#own = asJson(scenario);
    this.#tokens = tokens;
  }

  /** Plays another scenario from now on; what runs is played to its end. */
  set scenario(scenario: Scenario) {
    this.#own = asJson(scenario);
    const server = this.#servers.get('');
    if (server !== undefined && server.open === 0) this.#free('', server);
    else this.#servers.delete('');
  }

  /** Answers a request, once the module runs. */
  async respond(request: Incoming, signal?: AbortSignal): Promise<Response> {
    await whenReady();
    signal?.throwIfAborted();
    const chosen = request.url.searchParams.get('scenario') ?? '';
    let server: Driver;
    try {
      server = this.#server(chosen);
    } catch (error) {
      if (chosen === '') throw error;
      const { message } = asTokenbrookError(error);
      const detail = { message, type: 'invalid_request_error', param: 'scenario', code: null };
      return Response.json({ error: detail }, { status: 400 });
    }
    return server.respond(request, signal);
  }

  /** Bodies that are not at their end. */
  get open(): number {
    let open = 0;
    for (const server of this.#servers.values()) open += server.open;
    return open;
  }

  trace(reply?: number, scenario = ''): TraceEvent[] {
    const server = this.#servers.get(scenario);
    return server === undefined ? [] : (JSON.parse(server.core.trace(reply)) as TraceEvent[]);
  }

  stats(scenario = ''): MockStats {
    return JSON.parse(this.#server(scenario).core.stats()) as MockStats;
  }

  /** What it takes to continue kept replies elsewhere, or here after a restart. */
  kept(): KeptReplies[] {
    const all: KeptReplies[] = [];
    for (const [scenario, { core }] of this.#servers) {
      const records = JSON.parse(core.kept()) as unknown[];
      if (records.length > 0) all.push({ scenario, records });
    }
    return all;
  }

  /** Continues kept replies; those that cannot be are passed over. */
  restore(all: readonly KeptReplies[]): void {
    for (const { scenario, records } of all) {
      const server = this.#server(scenario);
      server.core.restore(Driver.now(), JSON.stringify(records));
      server.settle();
    }
  }

  #server(chosen: string): Driver {
    const known = this.#servers.get(chosen);
    this.#servers.delete(chosen);
    const server = known ?? this.#start(chosen);
    this.#servers.set(chosen, server);
    for (const [name, old] of this.#servers) {
      if (this.#servers.size <= MAX_SERVERS) break;
      if (old.open === 0 && name !== '') this.#free(name, old);
    }
    return server;
  }

  #start(chosen: string): Driver {
    const { MockServer } = module();
    // What tells the replies of this server from those of one that ran here before.
    // Pages without a secure context have no `randomUUID`.
    const [random = 0] = crypto.getRandomValues(new Uint32Array(1));
    const instance = `${random.toString(16).padStart(8, '0')}-`;
    try {
      const core = new MockServer(this.#json(chosen), instance, Driver.now());
      return new Driver(core, this.#tokens);
    } catch (error) {
      throw asTokenbrookError(error);
    }
  }

  #json(chosen: string): string {
    if (chosen === '') return this.#own;
    if (chosen.startsWith('{')) return chosen;
    if (Object.hasOwn(scenarios, chosen)) {
      return JSON.stringify(scenarios[chosen as keyof typeof scenarios]);
    }
    throw invalidOption('scenario', `JSON or one of ${Object.keys(scenarios).join(', ')}`);
  }

  #free(name: string, server: Driver): void {
    this.#servers.delete(name);
    server.stop();
  }
}

/** A request with its body read. */
export async function incoming(request: Request): Promise<Incoming> {
  const { method, url, headers } = request;
  const body = new Uint8Array(await request.arrayBuffer());
  return { method, url: new URL(url), headers, body };
}

function asJson(scenario: Scenario): string {
  if (typeof scenario !== 'object' || scenario === null) {
    throw invalidOption('scenario', 'an object');
  }
  return JSON.stringify(scenario);
}
