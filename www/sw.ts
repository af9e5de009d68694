// The pages' service worker: it keeps their files, so that they open without a network, adds the
// headers that isolate them where the host sends none, and plays the lab's mock. All else goes by
// it, models above all: nothing of them passes through here.
import { handle, handleMessage, type FetchEventLike } from 'tokenbrook/mock-service-worker';

/** What the build writes before this file: paths below the scope. */
interface Shell {
  /** A digest of all files. */
  version: string;
  /** What the pages need, kept when the worker is installed. */
  files: string[];
  /** Engines, of which a browser needs one: kept when they are used. */
  engines: string[];
}

/** The part of a service worker's global scope that is used here; the DOM library has none. */
interface WorkerScope {
  readonly tokenbrookShell?: Shell;
  readonly registration: { readonly scope: string; readonly active: unknown };
  readonly clients: { claim(): Promise<void> };
  skipWaiting(): Promise<void>;
  addEventListener(type: string, listener: (event: never) => void): void;
}

interface ExtendableEventLike {
  waitUntil(promise: Promise<unknown>): void;
}

type MessageEventLike = Parameters<typeof handleMessage>[0];

/** A page is taken from the network, so that none is stuck; from here after so long, ms. */
const NETWORK_MS = 3000;

/** Pages that are open may still ask for files of the build before. */
const BUILDS = 2;

/** The mock answers below the lab's page alone: a host may have a `/v1/` of its own. */
const MOCK = 'lab/';

/** Folders of the pages. */
const PAGES = ['', 'lab/', 'bench/'];

const ISOLATION = {
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-embedder-policy': 'require-corp',
};

const worker = globalThis as unknown as WorkerScope;
const { scope } = worker.registration;
/** Nothing is kept while the pages are developed. */
const shell: Shell = worker.tokenbrookShell ?? { version: '', files: [], engines: [] };
const known = new Set([...shell.files, ...shell.engines]);
/** Other deployments on this origin have caches too. */
const prefix = `tokenbrook-shell ${scope} `;
const cacheName = prefix + shell.version;

const network = globalThis.fetch.bind(globalThis);

// A worker's own requests do not come to its listener; the mock's module is kept all the same.
globalThis.fetch = async (input, init) => {
  const { url } = new Request(input, init);
  const path = pathOf(url);
  const found = path !== undefined && known.has(path) ? await kept(url) : undefined;
  return found ?? network(input, init);
};

worker.addEventListener('install', (event: ExtendableEventLike) => {
  event.waitUntil(install());
});
worker.addEventListener('activate', (event: ExtendableEventLike) => {
  event.waitUntil(activate());
});
worker.addEventListener('message', (event: MessageEventLike) => {
  if (!handleMessage(event) && isKeep(event.data)) event.waitUntil(keepEngines(event.data.engines));
});
worker.addEventListener('fetch', (event: FetchEventLike) => {
  const { request } = event;
  const path = pathOf(request.url);
  if (path === undefined) return;
  const page = request.mode === 'navigate' ? pageAt(path) : undefined;
  const isGet = request.method === 'GET';
  if (isGet && page !== undefined) event.respondWith(answerPage(request, page));
  else if (isGet && isFile(path)) event.respondWith(answerFile(request, path));
  else if (path.startsWith(MOCK)) handle(forMock(event));
});

/** The mock takes itself to be right below the scope. */
function forMock(event: FetchEventLike): FetchEventLike {
  const { request } = event;
  const url = scope + request.url.slice(scope.length + MOCK.length);
  const moved = new Proxy(request, {
    get(target, name) {
      if (name === 'url') return url;
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
  return {
    request: moved,
    respondWith: (response) => event.respondWith(response),
    waitUntil: (promise) => event.waitUntil(promise),
  };
}

/** The page that a path leads to, if it does. */
function pageAt(path: string): string | undefined {
  return PAGES.find((page) => [page, page.replace(/\/$/, ''), `${page}index.html`].includes(path));
}

/** Below the scope; `undefined` for what is elsewhere. */
function pathOf(url: string): string | undefined {
  if (!url.startsWith(scope)) return undefined;
  return new URL(url).pathname.slice(new URL(scope).pathname.length);
}

/** Files of a build: this one's, or those of a page that is newer than its worker. */
function isFile(path: string): boolean {
  return known.has(path) || /^assets\/[^/]+\.(js|css|wasm|svg)$/.test(path);
}

async function install(): Promise<void> {
  const cache = await caches.open(cacheName);
  await Promise.all(shell.files.map((path) => keep(cache, path)));
  // A first version need not wait; a new one would break the mock's streams of the old one.
  if (worker.registration.active === null) await worker.skipWaiting();
}

async function activate(): Promise<void> {
  // In the order in which they were made.
  const builds = (await caches.keys()).filter((name) => name.startsWith(prefix));
  const others = builds.filter((name) => name !== cacheName);
  const old = others.slice(0, Math.max(others.length - (BUILDS - 1), 0));
  await Promise.all(old.map((name) => caches.delete(name)));
  await worker.clients.claim();
}

/** Keeps a file of this build, once. */
async function keep(cache: Cache, path: string): Promise<void> {
  const url = new URL(path, scope).href;
  if ((await cache.match(url)) !== undefined) return;
  // A name with a digest stands for one content; others may be old in the browser's own cache.
  const isHashed = path.startsWith('assets/');
  const before = isHashed ? await kept(url) : undefined;
  const response = before ?? (await network(url, { cache: isHashed ? 'default' : 'no-cache' }));
  if (!response.ok) throw new Error(`${path} answered HTTP ${response.status}`);
  await cache.put(url, response);
}

/** A page that has loaded a model names the engine, which it may have fetched before all this. */
function isKeep(data: unknown): data is { engines: string[] } {
  const engines = (data as { engines?: unknown } | null)?.engines;
  return Array.isArray(engines);
}

async function keepEngines(names: string[]): Promise<void> {
  const cache = await caches.open(cacheName);
  const isNamed = (path: string): boolean =>
    names.some((name) => path.startsWith(`assets/${name}_bg`));
  await Promise.all(shell.engines.filter(isNamed).map((path) => keep(cache, path)));
}

/** From any build that is kept here, the newest first. */
async function kept(url: string): Promise<Response | undefined> {
  const builds = (await caches.keys()).filter((name) => name.startsWith(prefix));
  for (const name of [cacheName, ...builds.reverse()]) {
    const found = await (await caches.open(name)).match(url);
    if (found !== undefined) return found;
  }
  return undefined;
}

async function answerPage(request: Request, page: string): Promise<Response> {
  const asking = network(request);
  asking.catch(() => undefined);
  const late = new Promise<undefined>((resume) => setTimeout(resume, NETWORK_MS));
  const answer = await Promise.race([asking, late]).catch(() => undefined);
  if (answer !== undefined && answer.status < 500) return isolated(answer);
  return isolated((await kept(new URL(page, scope).href)) ?? (await asking));
}

async function answerFile(request: Request, path: string): Promise<Response> {
  const url = new URL(path, scope).href;
  const found = await kept(url);
  if (found !== undefined) return isolated(found);
  const answer = await network(request);
  if (answer.ok && shell.engines.includes(path)) {
    const copy = answer.clone();
    // Where there is no room, the page goes on without.
    void caches.open(cacheName).then((cache) => cache.put(url, copy)).catch(() => undefined);
  }
  return isolated(answer);
}

/** The same under the headers that isolate a page, its workers and what it loads. */
function isolated(answer: Response): Response {
  // What leads elsewhere has no headers to change.
  if (answer.status === 0) return answer;
  const headers = new Headers(answer.headers);
  for (const [name, value] of Object.entries(ISOLATION)) {
    if (!headers.has(name)) headers.set(name, value);
  }
  const { status, statusText, body } = answer;
  return new Response(body, { status, statusText, headers });
}
