// Models through the browser's own storage: what interrupts a download, and what it leaves.
//
// TOKENBROOK_KILLS: how often the tab, or the browser with it, is closed during the load of the
// default model; default 6.

import type { Page } from '@playwright/test';
import { stat } from 'node:fs/promises';

import { expect, loadFailure, test } from '../support/app.js';
import { MODEL } from '../support/package.js';
import { Profile, clearStorage, openTab } from '../support/profile.js';
import { FaultServer } from '../support/server.js';
import { tinyModel, tinyShards } from '../support/tiny-model.js';

/** Small segments make a large file of a tiny one, and short waits a patient server. */
const WORKER = '/pkg/worker.js?segmentBytes=16384&backoffMs=5&stallMs=400&connections=3';

const TINY = tinyModel();
const KILLS = Number(process.env['TOKENBROOK_KILLS'] ?? 6);
/** Each third time it is the whole browser. */
const BROWSER_EVERY = 3;

let profile: Profile;
/** Where models come from: another origin than the page's. */
let host: FaultServer;
let page: Page;

test.beforeAll(async ({ server }) => {
  profile = await Profile.open();
  host = await FaultServer.start({
    '/tiny.gguf': TINY,
    '/slow.gguf': TINY,
    '/page.html': Buffer.from('<p>no'),
  });
  page = await openTab(profile.context, server);
});

test.afterAll(async () => {
  await profile.close();
  await host.stop();
});

test.beforeEach(async () => {
  await clearStorage(page);
  host.sent.clear();
});

test.afterEach(async () => {
  expect(await page.evaluate(() => problems)).toEqual([]);
});

/** Loads in the page; greedy ids tell that the weights are right. */
function ids(url: string, options: Record<string, unknown> = {}): Promise<number[]> {
  return idsIn(page, url, options);
}

function idsIn(tab: Page, url: string, options: Record<string, unknown> = {}): Promise<number[]> {
  return tab.evaluate(
    async ([url, options]) => {
      const model = await tokenbrook.load(url, { backend: 'cpu', ...options });
      const ids = [];
      const greedy = { maxTokens: 6, temperature: 0, ignoreEos: true };
      for await (const token of model.generate('then', greedy)) ids.push(token.id);
      await model.dispose();
      return ids;
    },
    [url, options] as const,
  );
}

const tiny = (query = ''): string => `${host.url}/tiny.gguf${query}`;
const right = (): Promise<number[]> => ids('/tiny.gguf', { cache: 'none' });
const sentOf = (path: string): number => host.sent.get(path) ?? 0;

test('a second load fetches nothing, and needs no server', async () => {
  const wanted = await right();
  expect(await ids(tiny(), { workerUrl: WORKER })).toEqual(wanted);
  expect(sentOf('/tiny.gguf')).toBe(TINY.byteLength);
  expect(await ids(tiny(), { workerUrl: WORKER })).toEqual(wanted);
  expect(sentOf('/tiny.gguf')).toBe(TINY.byteLength);
  const other = await FaultServer.start({ '/tiny.gguf': TINY });
  const url = `${other.url}/tiny.gguf`;
  expect(await ids(url)).toEqual(wanted);
  await other.stop();
  expect(await ids(url)).toEqual(wanted);
});

const BORNE: [string, string][] = [
  ['a server without ranges', '?whole'],
  ['a body of unknown length', '?chunked'],
  ['a body in gzip', '?gzip'],
  ['transfers that end after 10,000 bytes each', '?truncate=10000'],
  ['a slow server', '?throttle=400000'],
  ['a server that tells no version', '?etag='],
  ['a redirect', '?redirect=%2Ftiny.gguf%3Fcopy'],
];

for (const [what, query] of BORNE) {
  test(`${what}: the model loads, and is kept`, async () => {
    const wanted = await right();
    expect(await ids(tiny(query), { workerUrl: WORKER })).toEqual(wanted);
    const sent = sentOf('/tiny.gguf');
    expect(await ids(tiny(query), { workerUrl: WORKER })).toEqual(wanted);
    expect(sentOf('/tiny.gguf')).toBe(sent);
  });
}

const REFUSED: [string, string, string][] = [
  ['HTTP 403', '/tiny.gguf?status=403', 'download-failed'],
  ['HTTP 404', '/tiny.gguf?status=404', 'model-not-found'],
  ['HTTP 416 for ever', '/tiny.gguf?status=416', 'download-failed'],
  ['HTTP 429 for ever', '/tiny.gguf?status=429', 'download-failed'],
  ['HTTP 500 for ever', '/tiny.gguf?status=500', 'download-failed'],
  ['HTTP 503 for ever', '/tiny.gguf?status=503', 'download-failed'],
  ['a page with HTTP 200', '/page.html', 'invalid-gguf'],
  ['a byte now and then', '/tiny.gguf?drip', 'download-failed'],
  ['a stream that always breaks off', '/tiny.gguf?whole&truncate=60000', 'download-failed'],
];

test('what no patience mends ends in one typed error, and leaves no model', async () => {
  const failures = await Promise.all(
    REFUSED.map(([, path]) => loadFailure(page, host.url + path, { workerUrl: WORKER })),
  );
  expect(failures.map(({ code }) => code)).toEqual(REFUSED.map(([, , code]) => code));
  const states = await page.evaluate(async () => {
    const states: string[] = [];
    const root = await navigator.storage.getDirectory();
    const models = await (await root.getDirectoryHandle('tokenbrook')).getDirectoryHandle('models');
    for await (const name of models.keys()) states.push(name);
    return states;
  });
  // The drip and the broken stream have left what they brought, to be gone on with.
  expect(states.length).toBeLessThanOrEqual(2);
});

test('a file that changes under its address is fetched anew', async () => {
  const wanted = await right();
  const changed = tinyModel({ metadata: { 'general.name': { text: 'Another' } } });
  host.routes.set('/changing.gguf', changed);
  const url = `${host.url}/changing.gguf`;
  const name = (): Promise<string> =>
    page.evaluate(async (url) => {
      const model = await tokenbrook.load(url, { backend: 'cpu' });
      await model.dispose();
      return model.info.name;
    }, url);
  expect(await name()).toBe('Another');
  host.routes.set('/changing.gguf', TINY);
  expect(await name()).toBe('Tiny');
  expect(await ids(url)).toEqual(wanted);
});

test('a file that the engine refuses is not kept', async () => {
  host.routes.set('/short.gguf', TINY.subarray(0, TINY.byteLength - 1000));
  const url = `${host.url}/short.gguf`;
  expect(await loadFailure(page, url)).toMatchObject({ code: 'invalid-gguf' });
  host.routes.set('/short.gguf', TINY);
  expect(await ids(url)).toEqual(await right());
});

/** Runs in the page: cuts files in storage, or writes into them; gives how many. */
async function damage([change, names]: readonly [string, string]): Promise<number> {
  const root = await navigator.storage.getDirectory();
  const models = await (await root.getDirectoryHandle('tokenbrook')).getDirectoryHandle('models');
  let changed = 0;
  for await (const folder of models.values()) {
    for await (const file of (folder as FileSystemDirectoryHandle).values()) {
      if (!(file instanceof FileSystemFileHandle) || !file.name.includes(names)) continue;
      const { size } = await file.getFile();
      const writable = await file.createWritable({ keepExistingData: true });
      if (change === 'cut') await writable.truncate(size >> 1);
      else await writable.write({ type: 'write', position: size >> 1, data: 'scribble' });
      await writable.close();
      changed += 1;
    }
  }
  return changed;
}

test('what damages a journal costs the model, what damages a segment that segment', async () => {
  const wanted = await right();
  const options = { workerUrl: WORKER };
  for (const change of ['cut', 'scribble']) {
    await ids(tiny(), options);
    expect(await page.evaluate(damage, [change, 'journal-'] as const)).toBe(2);
    host.sent.clear();
    expect(await ids(tiny(), options)).toEqual(wanted);
    expect(sentOf('/tiny.gguf')).toBe(TINY.byteLength);
    expect(await page.evaluate(damage, [change, '-00001.segment'] as const)).toBe(1);
    host.sent.clear();
    expect(await ids(tiny(), options)).toEqual(wanted);
    expect(sentOf('/tiny.gguf')).toBe(16_384);
    await clearStorage(page);
  }
});

test('sha256: the right one loads, a wrong one is told with both', async () => {
  const digest = async (bytes: Uint8Array): Promise<string> =>
    Buffer.from(await crypto.subtle.digest('SHA-256', Buffer.from(bytes))).toString('hex');
  const sha256 = await digest(TINY);
  const options = { workerUrl: WORKER, backend: 'cpu' };
  expect(await ids(tiny(), { ...options, sha256 })).toEqual(await right());
  const wrong = await page.evaluate(
    async ([url, options]) => {
      const failure = await tokenbrook.load(url, options as object).catch((error: unknown) => error);
      const { code, expected, actual } = failure as InstanceType<typeof tokenbrook.TokenbrookError>;
      return { code, expected, actual };
    },
    [tiny(), { ...options, sha256: '0'.repeat(64) }] as const,
  );
  expect(wrong).toEqual({ code: 'integrity-mismatch', expected: '0'.repeat(64), actual: sha256 });
});

test('two tabs that start at once fetch each byte once', async ({ server }) => {
  const other = await openTab(profile.context, server);
  const wanted = await right();
  const slow = tiny('?throttle=300000');
  const both = [page, other].map((tab) => idsIn(tab, slow, { workerUrl: WORKER }));
  expect(await Promise.all(both)).toEqual([wanted, wanted]);
  expect(sentOf('/tiny.gguf')).toBe(TINY.byteLength);
  await other.close();
});

test('a split model is found from its first file, and an OPFS handle loads', async () => {
  const [first, second] = tinyShards();
  host.routes.set('/s-00001-of-00002.gguf', first);
  host.routes.set('/s-00002-of-00002.gguf', second);
  const wanted = await right();
  const url = `${host.url}/s-00001-of-00002.gguf`;
  expect(await ids(url, { workerUrl: WORKER })).toEqual(wanted);
  const name = await page.evaluate(async (url) => {
    const root = await navigator.storage.getDirectory();
    const handle = await root.getFileHandle('own.gguf', { create: true });
    const writable = await handle.createWritable();
    await writable.write(await (await fetch(url)).blob());
    await writable.close();
    const model = await tokenbrook.load(handle);
    await model.dispose();
    await root.removeEntry('own.gguf');
    return [model.info.name, model.info.cache];
  }, tiny());
  expect(name).toEqual(['Tiny', 'none']);
});

test('too small a quota is storage-full with numbers, and memory is the way out', async ({
  server,
}) => {
  const session = await profile.context.newCDPSession(page);
  const origin = server.url;
  await session.send('Storage.overrideQuotaForOrigin', { origin, quotaSize: 100_000 });
  const failure = await page.evaluate(async (url) => {
    const thrown = await tokenbrook.load(url).catch((error: unknown) => error);
    const { code, need, have } = thrown as InstanceType<typeof tokenbrook.TokenbrookError>;
    return { code, need, have: have ?? -1 };
  }, tiny());
  expect(failure).toMatchObject({ code: 'storage-full', need: TINY.byteLength });
  expect(failure.have).toBeLessThanOrEqual(100_000);
  expect(failure.have).toBeGreaterThanOrEqual(0);
  expect(await ids(tiny(), { cache: 'none' })).toEqual(await right());
  await session.send('Storage.overrideQuotaForOrigin', { origin });
  expect(await ids(tiny())).toEqual(await right());
});

test('without storage, as in private windows, it runs from memory and says why', async () => {
  const info = await page.evaluate(async (url) => {
    const workerUrl = '/workers/no-storage.js';
    const model = await tokenbrook.load(url, { workerUrl });
    await model.dispose();
    return { cache: model.info.cache, reason: model.info.cacheReason };
  }, tiny());
  expect(info.cache).toBe('none');
  expect(info.reason).toContain('private');
});

test('a plan tells what is here, what storage lacks, and diagnose what it has', async () => {
  const planned = (workerUrl?: string): Promise<{ cachedBytes: number }> =>
    page.evaluate(
      ([url, workerUrl]) => tokenbrook.plan(url, { backend: 'cpu', workerUrl }),
      [tiny(), workerUrl] as const,
    );
  const none = { fits: true, cachedBytes: 0, fetchBytes: TINY.byteLength };
  expect(await planned()).toMatchObject(none);
  const short = TINY.byteLength - 80_000;
  const why = `storage is ${short} bytes short: it can run from memory this time`;
  const small = await planned('/workers/small-storage.js');
  expect(small).toMatchObject({ ...none, fits: false, why });
  const failure = await loadFailure(page, tiny(), { workerUrl: '/workers/small-storage.js' });
  expect(failure).toMatchObject({ code: 'storage-full' });
  const { storage } = await page.evaluate(() => tokenbrook.diagnose());
  expect(storage).toMatchObject({ opfs: true, persisted: expect.any(Boolean) });
  expect(storage?.quotaBytes).toBeGreaterThan(storage?.usageBytes ?? Number.POSITIVE_INFINITY);
  const slow = `${host.url}/slow.gguf?throttle=60000`;
  await page.evaluate(
    async ([url, workerUrl]) => {
      const controller = new AbortController();
      const onProgress = ({ durableBytes }: { durableBytes: number }): void => {
        if (durableBytes > 20_000) controller.abort();
      };
      const { signal } = controller;
      await tokenbrook.load(url, { workerUrl, onProgress, signal }).catch(() => undefined);
    },
    [slow, WORKER] as const,
  );
  const partial = await page.evaluate((url) => tokenbrook.plan(url, { backend: 'cpu' }), slow);
  expect(partial.cachedBytes).toBeGreaterThan(20_000);
  expect(partial.fetchBytes).toBe(TINY.byteLength - partial.cachedBytes);
  await ids(tiny(), { workerUrl: WORKER });
  expect(await planned()).toMatchObject({ cachedBytes: TINY.byteLength, fetchBytes: 0 });
});

test('eviction takes what was not used for longest, and a use counts', async () => {
  host.routes.set('/other.gguf', TINY);
  const other = `${host.url}/other.gguf`;
  /** However soon the model is given up, its use is noted. */
  const use = (url: string): Promise<void> =>
    page.evaluate(
      async ([url, workerUrl]) => {
        const model = await tokenbrook.load(url, { backend: 'cpu', workerUrl });
        await model.dispose();
      },
      [url, WORKER] as const,
    );
  await use(tiny());
  await use(other);
  const order = (): Promise<string[]> =>
    page.evaluate(async () => (await tokenbrook.models.list()).map(({ source }) => source));
  await expect.poll(order).toEqual([other, tiny()]);
  await use(tiny());
  await expect.poll(order).toEqual([tiny(), other]);
  const evict = (maxBytes: number): Promise<string[]> =>
    page.evaluate(
      async (maxBytes) =>
        (await tokenbrook.models.evict({ maxBytes })).map(({ source }) => source),
      maxBytes,
    );
  expect(await evict(2 * TINY.byteLength)).toEqual([]);
  expect(await evict(2 * TINY.byteLength - 1)).toEqual([other]);
  expect(await order()).toEqual([tiny()]);
  expect(await evict(0)).toEqual([tiny()]);
});

test('models: listed with what is there, deleted even while they are fetched', async () => {
  await ids(tiny(), { workerUrl: WORKER });
  const seen = await page.evaluate(
    async ([url, slow, workerUrl]) => {
      const { models, load } = tokenbrook;
      const verified = await models.list();
      let told: (() => void) | undefined;
      const begun = new Promise<void>((resolve) => (told = resolve));
      const loading = load(slow, {
        workerUrl,
        onProgress: ({ durableBytes }) => durableBytes > 20_000 && told?.(),
      }).catch((error: { code: string }) => error.code);
      await Promise.race([begun, loading]);
      const both = await models.list();
      const deleted = [await models.delete(slow), await models.delete(slow)];
      const outcome = await loading;
      const left = await models.list();
      await models.delete(url);
      const none = await models.list();
      return { verified, both, deleted, outcome, left, none, persist: await models.persist() };
    },
    [tiny(), `${host.url}/slow.gguf?throttle=60000`, WORKER] as const,
  );
  const whole = { source: tiny(), bytes: TINY.byteLength, state: 'verified' };
  expect(seen.verified).toEqual([expect.objectContaining(whole)]);
  expect(seen.both[0]).toMatchObject({ source: `${host.url}/slow.gguf`, state: 'partial' });
  expect(seen.both[0]?.bytes).toBeGreaterThan(20_000);
  expect(seen.both[0]?.totalBytes).toBe(TINY.byteLength);
  expect([seen.deleted, seen.outcome]).toEqual([[true, false], 'download-failed']);
  expect([seen.left.length, seen.none.length]).toEqual([1, 0]);
  expect(typeof seen.persist).toBe('boolean');
});

test(`${KILLS} closed tabs cost no more than what was in flight`, async ({ server }) => {
  test.setTimeout(90_000 + KILLS * 20_000);
  const { size } = await stat(MODEL);
  server.sent.clear();
  // Of each of four transfers: the file lasts for about all of the tabs.
  const url = `/model.gguf?throttle=${Math.round(72_000_000 / KILLS)}`;
  const random = seeded(11);
  const sent = (): number => server.sent.get('/model.gguf') ?? 0;
  let inFlight = 0;
  let before = 0;
  let gained = 0;
  /** What a tab had the server send, less what it told of. */
  const count = (): void => {
    inFlight += Math.max(sent() - before - gained, 0);
    before = sent();
    gained = 0;
  };
  /** What the tab before had told of as received. */
  let received = 0;
  for (let kill = 0; kill < KILLS; kill += 1) {
    const tab = await openTab(profile.context, server);
    count();
    await tab.evaluate(startLoad, url);
    await tab.waitForTimeout(300 + 900 * random());
    const told = await tab.evaluate(() => (globalThis as unknown as { told: Told }).told);
    if (kill % BROWSER_EVERY === BROWSER_EVERY - 1) await profile.restart();
    else await tab.close();
    if (told.first >= 0) {
      // Nothing that had been received was lost with the tab.
      expect(told.first).toBeGreaterThanOrEqual(received);
      received = told.received;
    }
    gained = Math.max(told.received - told.first, 0);
  }
  expect(received).toBeGreaterThan(0);
  page = await openTab(profile.context, server);
  await page.waitForTimeout(500);
  count();
  const made = await ids(url);
  const total = sent();
  expect(made).toEqual(await ids('/model.gguf', { cache: 'none' }));
  console.log(`${KILLS} kills: ${total / size} of the file, ${inFlight / size} in flight`);
  expect(total).toBeGreaterThanOrEqual(size);
  expect(total).toBeLessThanOrEqual(1.05 * size + inFlight);
});

interface Told {
  /** Durable bytes when the load began; −1 before it has. */
  first: number;
  received: number;
}

/** Runs in the page: a load whose progress can be asked for. */
function startLoad(url: string): void {
  const told: Told = { first: -1, received: 0 };
  Object.assign(globalThis, { told });
  const onProgress = (progress: { durableBytes: number; receivedBytes: number }): void => {
    if (told.first < 0) told.first = progress.durableBytes;
    told.received = progress.receivedBytes;
  };
  void tokenbrook.load(url, { backend: 'cpu', onProgress }).catch(() => undefined);
}

/** Numbers in [0, 1): a linear congruence. */
function seeded(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}
