// The entry `tokenbrook/mock-service-worker`: a worker file that is ready to be registered, and
// `handle` for a page's own worker. Streams are made in the worker's own thread, so that a page
// that is busy distorts no time.

import { incoming, MockHost } from './mock-host.js';
import type { KeptReplies } from './mock-host.js';
import { asTokenbrookError } from './errors.js';
import { whenReady } from './ready.js';
import type { Scenario } from './scenario.js';
import type { Answer, Ask, Told } from './mock-protocol.js';

/** The part of a service worker's global scope that is used here; the DOM library has none. */
interface WorkerScope {
  readonly registration: { readonly scope: string; readonly active: unknown };
  readonly clients: {
    claim(): Promise<void>;
    matchAll(options: { includeUncontrolled: boolean }): Promise<readonly Receiver[]>;
  };
  readonly location: { readonly href: string };
  skipWaiting(): Promise<void>;
  addEventListener(type: string, listener: (event: never) => void): void;
}

interface Receiver {
  postMessage(message: unknown): void;
}

/** A service worker's event of type `fetch`, as far as it is used. */
export interface FetchEventLike {
  readonly request: Request;
  respondWith(response: Response | Promise<Response>): void;
  waitUntil(promise: Promise<unknown>): void;
}

interface MessageEventLike {
  readonly data: unknown;
  readonly ports: readonly MessagePort[];
  waitUntil(promise: Promise<unknown>): void;
}

/** Where the scenario and kept replies outlive the worker. */
const STORE = 'tokenbrook-mock';

/** How long a ping keeps the worker awake beyond its own event. */
const WAKE_MS = 50;

const host = new MockHost({}, undefined);
let restored: Promise<void> | undefined;
/** What was last written to the store. */
let stored = '';
let told = 0;

function scope(): WorkerScope {
  return globalThis as unknown as WorkerScope;
}

/**
 * Answers a request for `/v1/*` or `/lab/*` below the worker's scope; false for all else, which
 * is the page's own business. To be called within a listener of `fetch`, before any `await`.
 */
export function handle(event: FetchEventLike): boolean {
  const { request } = event;
  if (!isOurs(new URL(request.url))) return false;
  const answered = answer(request);
  event.respondWith(answered);
  event.waitUntil(answered.then(remember, () => undefined));
  return true;
}

/**
 * Answers a page that has registered this worker through `register`; false for messages of
 * others. To be called within a listener of `message`.
 */
export function handleMessage(event: MessageEventLike): boolean {
  const ask = event.data as Ask | null | undefined;
  if (typeof ask !== 'object' || ask === null || typeof ask.tokenbrook !== 'string') return false;
  const [port] = event.ports;
  event.waitUntil(
    obey(ask).then(
      (value) => port?.postMessage({ value } satisfies Answer),
      (error: unknown) => {
        const { code, message } = asTokenbrookError(error);
        port?.postMessage({ error: { code, message } } satisfies Answer);
      },
    ),
  );
  return true;
}

function isOurs(url: URL): boolean {
  const own = new URL(scope().registration.scope);
  if (url.origin !== own.origin || !url.pathname.startsWith(own.pathname)) return false;
  const path = pathBelow(url);
  return path.startsWith('v1/') || path.startsWith('lab/');
}

/** A path below the scope, without the slash at its start. */
function pathBelow(url: URL): string {
  return url.pathname.slice(new URL(scope().registration.scope).pathname.length);
}

async function answer(request: Request): Promise<Response> {
  // Its signal does not fire when the reader leaves: the body's `cancel` does.
  const [whole] = await Promise.all([incoming(request), restore()]);
  // The mock's own paths: a scope may itself be called `lab`.
  whole.url.pathname = `/${pathBelow(whole.url)}`;
  const response = await host.respond(whole);
  if (response.body === null) return response;
  void tell();
  const { status, headers } = response;
  return new Response(watched(response.body, isEventSource(request)), { status, headers });
}

/** Requests of `EventSource` have this and nothing else in common. */
function isEventSource({ method, headers, cache }: Request): boolean {
  const accepts = headers.get('accept') === 'text/event-stream';
  return method === 'GET' && accepts && cache === 'no-store';
}

/**
 * The body; pages are told when it is over. With `endsQuietly` it ends where it would break:
 * an `EventSource` comes back after either, but in Chromium not after a worker's broken body.
 */
function watched(
  body: ReadableStream<Uint8Array<ArrayBuffer>>,
  endsQuietly: boolean,
): ReadableStream {
  const reader = body.getReader();
  return new ReadableStream<Uint8Array<ArrayBuffer>>(
    {
      async pull(controller) {
        try {
          const { done, value } = await reader.read();
          if (!done) return controller.enqueue(value);
          controller.close();
        } catch (error) {
          if (endsQuietly) controller.close();
          else controller.error(error);
        }
        void tell();
      },
      async cancel(reason) {
        await reader.cancel(reason);
        void tell();
      },
    },
    { highWaterMark: 0 },
  );
}

/** Tells all pages how many streams are open, when that comes to none or to some. */
async function tell(): Promise<void> {
  const { open } = host;
  // The way to the pages costs a busy worker more than the streams do.
  if ((open > 0) === (told > 0)) return;
  told = open;
  const message: Told = { tokenbrook: 'open', open };
  const pages = await scope().clients.matchAll({ includeUncontrolled: true });
  for (const page of pages) page.postMessage(message);
}

async function obey(ask: Ask): Promise<unknown> {
  switch (ask.tokenbrook) {
    case 'ping':
      return new Promise((awake) => setTimeout(awake, WAKE_MS));
    case 'claim':
      return scope().clients.claim();
    case 'skip-waiting':
      return scope().skipWaiting();
    case 'open':
      return host.open;
    case 'trace':
      await restore();
      return host.trace(ask.reply, ask.scenario);
    case 'stats':
      await restore();
      return host.stats();
    case 'play':
      await restore();
      return play(ask.scenario);
  }
}

async function play(scenario: Scenario): Promise<void> {
  host.scenario = scenario;
  // Refuses what it cannot play before it is kept.
  host.stats();
  const store = await caches.open(STORE);
  await store.put(place('scenario'), Response.json(scenario));
}

/** After a restart: the scenario that was played, and replies that are kept. */
function restore(): Promise<void> {
  restored ??= load().catch(() => undefined);
  return restored;
}

async function load(): Promise<void> {
  const [, store] = await Promise.all([whenReady(), caches.open(STORE)]);
  const scenario = await store.match(place('scenario'));
  if (scenario !== undefined) host.scenario = (await scenario.json()) as Scenario;
  const kept = await store.match(place('kept'));
  if (kept !== undefined) host.restore((await kept.json()) as KeptReplies[]);
}

/** Kept replies are written down when they begin: the seed makes their events again. */
async function remember(): Promise<void> {
  const kept = JSON.stringify(host.kept());
  if (kept === stored || (stored === '' && kept === '[]')) return;
  stored = kept;
  const store = await caches.open(STORE);
  await store.put(place('kept'), new Response(kept));
}

/** A place of its own for each scope, below which nothing is served. */
function place(name: string): string {
  return new URL(`.tokenbrook-mock/${name}`, scope().registration.scope).href;
}

/**
 * Whether this file itself is the worker, and not a part of a page's own: a bundler may make one
 * file of both, which then has another name.
 */
function isMain(): boolean {
  const { location, registration } = scope();
  const file = (url: string): string => url.split(/[?#]/)[0] ?? '';
  const own = file(import.meta.url);
  const isNamed = /mock-service-worker[^/]*$/.test(own);
  return registration !== undefined && file(location.href) === own && isNamed;
}

if (isMain()) {
  const self = scope();
  self.addEventListener('install', (event: { waitUntil(promise: Promise<unknown>): void }) => {
    // A first version need not wait; a new one would break the streams of the old one.
    if (self.registration.active === null) event.waitUntil(self.skipWaiting());
  });
  self.addEventListener('activate', (event: { waitUntil(promise: Promise<unknown>): void }) => {
    event.waitUntil(self.clients.claim());
  });
  self.addEventListener('fetch', (event: FetchEventLike) => void handle(event));
  self.addEventListener('message', (event: MessageEventLike) => void handleMessage(event));
}
