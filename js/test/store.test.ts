// Files through storage, from a server that does as it is told: each case ends in a verified file
// or in one typed error, and what is kept is right.
//
// Long because it is one table of what servers and disks do, over one set-up.

import { createHash } from 'node:crypto';
import { expect, test } from '@playwright/test';

import { TokenbrookError } from '../errors.js';
import { JournalWriter, durableBytes, readJournal } from '../store/journal.js';
import type { News } from '../store/locks.js';
import { Shelf } from '../store/manage.js';
import { Lanes } from '../store/patience.js';
import { Restart } from '../store/restart.js';
import { Sha256 } from '../store/sha256.js';
import { expandShorthand, expandSplit, keyOf, readPointer } from '../store/source.js';
import { StoredFile } from '../store/stored-file.js';
import { DEFAULT_TUNING } from '../store/tuning.js';
import type { Tuning } from '../store/tuning.js';
import { LocalHasher } from '../store/verifier.js';
import { FakeLocks, FakeRoot, FileServer, modelBytes } from './fake-storage.js';

const SEGMENT = 100_000;
const MODEL = modelBytes(1_234_567);
const OTHER = modelBytes(1_234_567, 2);

const hex = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');

const TUNING: Tuning = {
  ...DEFAULT_TUNING,
  backoffMs: 5,
  maxBackoffMs: 20,
  stallMs: 5000,
  segmentBytes: SEGMENT,
};

let server: FileServer;
let root: FakeRoot;
let locks: FakeLocks;

test.beforeEach(async () => {
  server = await FileServer.start(MODEL);
  root = new FakeRoot();
  locks = new FakeLocks();
});

test.afterEach(() => server.stop());

interface Given {
  tuning?: Partial<Tuning>;
  sha256?: string;
  onNews?: (news: News) => void;
  /** In place of those of the test: another tab has its own. */
  root?: FakeRoot;
}

function open(given: Given = {}): Promise<StoredFile> {
  const tuning = { ...TUNING, ...given.tuning };
  const storage = given.root ?? root;
  return StoredFile.open(
    {
      root: storage,
      locks,
      lanes: new Lanes(tuning.connections),
      tuning,
      estimate: async () => ({ quota: storage.quota, usage: storage.usage }),
      startHasher: () => new LocalHasher(),
    },
    {
      key: 'k',
      target: { url: server.url, headers: [] },
      identity: { source: server.url, url: server.url, part: 0, parts: 1 },
      sha256: Promise.resolve(given.sha256 ?? null),
      isPinned: given.sha256 !== undefined,
      onNews: given.onNews ?? (() => undefined),
    },
  );
}

async function readFile(file: StoredFile): Promise<Uint8Array> {
  const pieces: Uint8Array[] = [];
  try {
    for (let piece = await file.read(); piece !== undefined; piece = await file.read()) {
      pieces.push(piece.slice());
    }
    await file.verified();
  } finally {
    await file.close();
  }
  return Buffer.concat(pieces);
}

/** All bytes, as one load reads them, begun anew once if it has to be. */
async function load(given: Given = {}): Promise<Uint8Array> {
  try {
    return await readFile(await open(given));
  } catch (error) {
    if (!(error instanceof Restart)) throw error;
  }
  return readFile(await open(given)).catch((error: unknown) => {
    throw error instanceof Restart ? error.failure : error;
  });
}

async function failure(given: Given = {}): Promise<TokenbrookError> {
  const error = await load(given).then(
    () => new Error('it loaded'),
    (thrown: unknown) => thrown,
  );
  if (!(error instanceof TokenbrookError)) throw error;
  return error;
}

const isModel = (bytes: Uint8Array, model = MODEL): boolean => Buffer.compare(bytes, model) === 0;

async function journal() {
  const folder = await root.existing('k');
  return folder && (await readJournal(folder))?.journal;
}

/** What is kept, if anything is, is a verified file of these bytes. */
async function expectKept(model = MODEL): Promise<void> {
  expect(await journal()).toMatchObject({ state: 'verified', bytes: model.byteLength });
  const before = server.sentBytes;
  expect(isModel(await load(), model)).toBe(true);
  expect(server.sentBytes).toBe(before);
}

test('fetches each byte once, in ranges, and later loads fetch none', async () => {
  expect(isModel(await load())).toBe(true);
  expect(server.sentBytes).toBe(MODEL.byteLength);
  expect(server.requests[0]).toBe('bytes=0-99999');
  expect(server.requests.every((range) => range.startsWith('bytes='))).toBe(true);
  await expectKept();
});

test('asks for several ranges at a time, but for no more than it may', async () => {
  let open = 0;
  let most = 0;
  server.delayMs = 20;
  server.handler = (_, response) => {
    open += 1;
    most = Math.max(most, open);
    response.on('close', () => (open -= 1));
  };
  await load();
  expect(most).toBeGreaterThan(1);
  expect(most).toBeLessThanOrEqual(TUNING.connections);
});

test('a server without ranges gives one stream, of known length or not', async () => {
  server.hasRanges = false;
  expect(isModel(await load())).toBe(true);
  expect(server.requests).toHaveLength(1);
  await expectKept();
  root = new FakeRoot();
  server.handler = (_, response) => {
    response.writeHead(200);
    response.end(MODEL);
  };
  expect(isModel(await load())).toBe(true);
  server.handler = () => undefined;
  await expectKept();
});

test('a server that tells no version is not asked for parts', async () => {
  server.etag = undefined;
  expect(isModel(await load())).toBe(true);
  expect(server.requests.filter((request) => request !== 'whole')).toEqual(['bytes=0-99999']);
  await expectKept();
});

test('a digest makes up for a server that tells no version', async () => {
  server.etag = undefined;
  expect(isModel(await load({ sha256: hex(MODEL) }))).toBe(true);
  expect(server.requests).not.toContain('whole');
});

for (const cut of [0, 1, 99_999, 65_536]) {
  test(`goes on where a transfer broke off after ${cut} bytes`, async () => {
    let cuts = 0;
    server.handler = (request, response, count) => {
      if (count % 3 !== 2) return;
      cuts += 1;
      const [, start, end] = /(\d+)-(\d+)/.exec(request.headers.range ?? '') ?? [];
      const body = MODEL.subarray(Number(start), Math.min(Number(end) + 1, MODEL.byteLength));
      response.writeHead(206, {
        etag: server.etag,
        'content-range': `bytes ${start}-${Number(start) + body.byteLength - 1}/${MODEL.byteLength}`,
        'content-length': body.byteLength,
      });
      response.write(body.subarray(0, cut), () => response.destroy());
    };
    expect(isModel(await load())).toBe(true);
    expect(cuts).toBeGreaterThan(0);
    server.handler = () => undefined;
    await expectKept();
  });
}

test('goes on with a stream that breaks off, where the version is told', async () => {
  server.hasRanges = false;
  server.handler = (_, response, count) => {
    if (count > 1) return;
    response.writeHead(200, { etag: server.etag, 'content-length': MODEL.byteLength });
    response.write(MODEL.subarray(0, 654_321), () => response.destroy());
  };
  expect(isModel(await load())).toBe(true);
  expect(server.requests).toHaveLength(2);
  await expectKept();
});

for (const status of [408, 429, 500, 502, 503]) {
  test(`HTTP ${status} now and then is borne`, async () => {
    server.handler = (_, response, count) => {
      if (count % 3 === 1) response.writeHead(status, { 'retry-after': '0' }).end('no');
    };
    expect(isModel(await load())).toBe(true);
    server.handler = () => undefined;
    await expectKept();
  });
}

for (const [status, code] of [
  [401, 'download-failed'],
  [403, 'download-failed'],
  [404, 'model-not-found'],
  [429, 'download-failed'],
  [500, 'download-failed'],
  [503, 'download-failed'],
] as const) {
  test(`HTTP ${status} for ever is ${code}, and nothing is kept`, async () => {
    server.handler = (_, response) => response.writeHead(status).end('no');
    expect(await failure()).toMatchObject({ code, status });
    expect(await root.keys()).toEqual([]);
    server.handler = () => undefined;
    expect(isModel(await load())).toBe(true);
  });
}

test('a server that fails half-way leaves what came, and the next load fetches the rest', async () => {
  server.handler = (_, response, count) => {
    if (count > 5) response.writeHead(503).end('no');
  };
  expect(await failure()).toMatchObject({ code: 'download-failed', status: 503 });
  const kept = await journal();
  expect(kept).toMatchObject({ state: 'partial' });
  expect(durableBytes(kept ?? never())).toBeGreaterThan(SEGMENT);
  server.handler = () => undefined;
  const before = await server.settled();
  expect(isModel(await load())).toBe(true);
  expect(server.sentBytes - before).toBe(MODEL.byteLength - durableBytes(kept ?? never()));
  await expectKept();
});

test('a page in place of a model is refused, and not kept', async () => {
  server.handler = (_, response) => {
    response.writeHead(200, { 'content-type': 'text/html' }).end('<!doctype html><p>hello');
  };
  const error = await failure();
  expect(error).toMatchObject({ code: 'invalid-gguf', url: server.url });
  expect(error.message).toContain('a page');
  expect(await root.keys()).toEqual([]);
});

test('a page in place of a part, as a captive portal gives it, takes nothing away', async () => {
  server.handler = (_, response, count) => {
    if (count < 4 || count > 6) return;
    response.writeHead(200, { 'content-type': 'text/html' }).end('<p>sign in');
  };
  expect(isModel(await load())).toBe(true);
  server.handler = () => undefined;
  await expectKept();
});

test('an empty file is refused', async () => {
  server.bytes = new Uint8Array();
  expect(await failure()).toMatchObject({ code: 'invalid-gguf' });
  expect(await root.keys()).toEqual([]);
});

test('a file that changes between two ranges is begun anew', async () => {
  server.handler = (_, __, count) => {
    if (count !== 5) return;
    server.bytes = OTHER;
    server.etag = '"two"';
  };
  expect(isModel(await load(), OTHER)).toBe(true);
  server.handler = () => undefined;
  await expectKept(OTHER);
});

test('a file that keeps changing is download-failed', async () => {
  server.handler = (_, __, count) => {
    server.etag = `"${count}"`;
  };
  expect(await failure()).toMatchObject({ code: 'download-failed' });
  server.handler = () => undefined;
  expect(isModel(await load())).toBe(true);
  await expectKept();
});

for (const [what, change] of [
  ['another tag', () => (server.etag = '"two"')],
  ['another time', () => ([server.etag, server.lastModified] = [undefined, 'now'])],
  ['another length', () => (server.bytes = OTHER.subarray(0, 1_000_000))],
] as const) {
  test(`a file that was begun and has ${what} by now is not put together from both`, async () => {
    if (what === 'another time') server.etag = undefined;
    server.lastModified = 'then';
    server.handler = (_, response, count) => {
      if (count > 5) response.writeHead(503).end('no');
    };
    await failure();
    expect(durableBytes((await journal()) ?? never())).toBeGreaterThan(0);
    server.handler = () => undefined;
    server.bytes = OTHER;
    change();
    const now = server.bytes;
    expect(isModel(await load(), now as typeof MODEL)).toBe(true);
    await expectKept(now as typeof MODEL);
  });

  test(`a verified file that has ${what} on the server is fetched anew`, async () => {
    if (what === 'another time') server.etag = undefined;
    server.lastModified = 'then';
    await load();
    server.bytes = OTHER;
    if (what === 'another tag') server.lastModified = 'now';
    change();
    const now = server.bytes;
    expect(isModel(await load(), now as typeof MODEL)).toBe(true);
    await expectKept(now as typeof MODEL);
  });
}

test('tags that differ from server to server do not make a copy old', async () => {
  server.lastModified = 'then';
  await load();
  server.etag = '"of another machine"';
  await expectKept();
});

test('a verified file needs no server', async () => {
  await load();
  server.stop();
  expect(isModel(await load())).toBe(true);
});

test('wrong words about ranges: the file comes in one stream', async () => {
  for (const range of ['bytes 5-100004/1234567', 'bytes 0-99999/*', 'bytes 0-0', 'none', '']) {
    root = new FakeRoot();
    server.handler = (request, response) => {
      if (request.headers.range === undefined) return;
      response.writeHead(206, { etag: server.etag, 'content-range': range });
      response.end(MODEL.subarray(0, 100_000));
    };
    expect(isModel(await load())).toBe(true);
    server.handler = () => undefined;
    await expectKept();
  }
});

test('a length that is not true ends in download-failed, and the truth is kept', async () => {
  server.handler = (request, response) => {
    const [, start, end] = /(\d+)-(\d+)/.exec(request.headers.range ?? '') ?? [];
    if (start === undefined || Number(start) >= MODEL.byteLength) {
      response.writeHead(416).end();
      return;
    }
    const body = MODEL.subarray(Number(start), Number(end) + 1);
    const last = Number(start) + body.byteLength - 1;
    response.writeHead(206, { etag: '"1"', 'content-range': `bytes ${start}-${last}/9999999` });
    response.end(body);
  };
  expect(await failure()).toMatchObject({ code: 'download-failed' });
  expect((await journal())?.state).not.toBe('verified');
  server.handler = () => undefined;
  expect(isModel(await load())).toBe(true);
  await expectKept();
});

test('a part may be shorter than asked', async () => {
  server.handler = (request, response) => {
    const [, from, to] = /(\d+)-(\d+)/.exec(request.headers.range ?? '') ?? [];
    const start = Number(from);
    const body = MODEL.subarray(start, Math.min(start + 70_000, Number(to) + 1));
    const range = `bytes ${start}-${start + body.byteLength - 1}/${MODEL.byteLength}`;
    response.writeHead(206, { etag: server.etag, 'content-range': range }).end(body);
  };
  expect(isModel(await load())).toBe(true);
});

test('a transfer that stands still, or drips, is begun again', async () => {
  server.handler = (_, response, count) => {
    if (count !== 2 && count !== 4) return;
    response.writeHead(206, {
      etag: server.etag,
      'content-range': `bytes 100000-199999/${MODEL.byteLength}`,
    });
    const drip = setInterval(() => response.write('x'), 20);
    if (count === 2) clearInterval(drip);
    response.on('close', () => clearInterval(drip));
    response.write('');
  };
  const promise = load({ tuning: { connections: 1, stallMs: 200 } });
  // A drip is taken for what it says it is; only its pace gives it away.
  const bytes = await promise;
  expect(bytes.byteLength).toBe(MODEL.byteLength);
});

test('a server that never sends is download-failed in the end', async () => {
  server.handler = (_, response) => {
    response.writeHead(200, { 'content-length': 1000 });
    response.write('G');
  };
  const error = await failure({ tuning: { attempts: 2, stallMs: 200 } });
  expect(error).toMatchObject({ code: 'download-failed' });
  expect(error.message).toContain('next to nothing');
});

test('a request that the browser has lost is made again, and does not hold up a close', async () => {
  const { fetch } = globalThis;
  const lost = new Promise<never>(() => undefined);
  try {
    let count = 0;
    globalThis.fetch = (...args) => ((count += 1) === 1 ? lost : fetch(...args));
    expect(isModel(await load({ tuning: { stallMs: 100 } }))).toBe(true);
    expect(count).toBeGreaterThan(1);
    globalThis.fetch = async (...args) => {
      const { status, headers } = await fetch(...args);
      return new Response(new ReadableStream({ pull: () => lost }), { status, headers });
    };
    await root.remove('k');
    const opening = open({ tuning: { attempts: 2, stallMs: 100 } });
    const file = await opening;
    await expect(file.read()).rejects.toMatchObject({ code: 'download-failed' });
    await file.close();
  } finally {
    globalThis.fetch = fetch;
  }
});

test('an abort keeps what is durable', async () => {
  server.handler = (_, response, count) => {
    // Headers, and never a body.
    if (count > 5) response.writeHead(200, { etag: server.etag }).flushHeaders();
  };
  const file = await open({ tuning: { stallMs: 10_000 } });
  await file.read();
  await file.close();
  expect(durableBytes((await journal()) ?? never())).toBeGreaterThanOrEqual(SEGMENT);
  server.handler = () => undefined;
  expect(isModel(await load())).toBe(true);
  await expectKept();
});

test('what is durable is told apart from what is received, and neither falls', async () => {
  const news: News[] = [];
  await load({ onNews: (it) => news.push(it) });
  expect(news.every((it) => it.durableBytes <= it.receivedBytes)).toBe(true);
  const whole = MODEL.byteLength;
  expect(news.at(-1)).toEqual({ receivedBytes: whole, durableBytes: whole, totalBytes: whole });
  expect(news.map((it) => it.receivedBytes)).toEqual(
    news.map((it) => it.receivedBytes).sort((a, b) => a - b),
  );
});

test('what came before a server fell silent is told, however soon that was', async () => {
  server.handler = (_, response) => {
    response.writeHead(200, { 'content-length': MODEL.byteLength });
    response.write(MODEL.subarray(0, 5000));
  };
  const news: News[] = [];
  const file = await open({ onNews: (it) => news.push(it), tuning: { stallMs: 10_000 } });
  const last = { receivedBytes: 5000, durableBytes: 0, totalBytes: MODEL.byteLength };
  await expect.poll(() => news.at(-1), { timeout: 2000 }).toEqual(last);
  await file.close();
});

test('two tabs fetch one file once, and the second hears of the first', async () => {
  const news: News[] = [];
  server.handler = (_, response) => void response.on('close', () => undefined);
  const [one, two] = await Promise.all([load(), load({ onNews: (it) => news.push(it) })]);
  expect([isModel(one), isModel(two)]).toEqual([true, true]);
  expect(server.sentBytes).toBe(MODEL.byteLength);
  expect(news.length).toBeGreaterThan(0);
});

test('a tab whose file is taken away says so', async () => {
  server.handler = (_, response, count) => {
    // Headers, and never a body.
    if (count > 3) response.writeHead(200, { etag: server.etag }).flushHeaders();
  };
  const loading = failure({ tuning: { stallMs: 10_000 } });
  await expect.poll(() => server.requests.length).toBeGreaterThan(3);
  (await locks.steal('k'))();
  const error = await loading;
  expect(error).toMatchObject({ code: 'download-failed' });
  expect(error.message).toContain('deleted');
});

test('a damaged segment comes again, and no other', async () => {
  await load();
  const folder = await root.folder('k');
  const name = [...folder.files.keys()].find((it) => it.endsWith('00007.segment')) ?? '';
  for (const damage of ['flip', 'cut', 'remove']) {
    const data = folder.files.get(name) ?? never();
    data.current = data.current.slice(0, damage === 'cut' ? 50_000 : SEGMENT);
    data.current[77] = (data.current[77] ?? 0) ^ 1;
    if (damage === 'remove') folder.files.delete(name);
    const before = server.sentBytes;
    expect(isModel(await load())).toBe(true);
    expect(server.sentBytes - before).toBe(SEGMENT);
    await expectKept();
  }
});

test('a damaged segment of a file that is another by now: all of it comes anew', async () => {
  await load();
  const folder = await root.folder('k');
  const name = [...folder.files.keys()].find((it) => it.endsWith('00007.segment')) ?? '';
  folder.files.delete(name);
  // Under the same tag, so that only the digest tells.
  server.bytes = OTHER;
  expect(isModel(await load(), OTHER)).toBe(true);
  await expectKept(OTHER);
});

test('a damaged segment without a server is download-failed', async () => {
  await load();
  const folder = await root.folder('k');
  folder.files.delete([...folder.files.keys()].find((it) => it.endsWith('3.segment')) ?? '');
  server.stop();
  expect(await failure()).toMatchObject({ code: 'download-failed' });
});

test('the right digest is kept, a wrong one is tried twice, then told with both', async () => {
  expect(isModel(await load({ sha256: hex(MODEL) }))).toBe(true);
  expect(await journal()).toMatchObject({ state: 'verified', sha256: hex(MODEL) });
  const before = server.sentBytes;
  expect(isModel(await load({ sha256: hex(MODEL) }))).toBe(true);
  expect(server.sentBytes).toBe(before);
  const error = await failure({ sha256: hex(OTHER) });
  expect(error).toMatchObject({ code: 'integrity-mismatch' });
  expect(error).toMatchObject({ expected: hex(OTHER), actual: hex(MODEL) });
  expect(server.sentBytes - before).toBe(2 * MODEL.byteLength);
  expect(await root.keys()).toEqual([]);
  server.bytes = OTHER;
  expect(isModel(await load({ sha256: hex(OTHER) }), OTHER)).toBe(true);
});

test('a file that was kept without a digest is checked when one is given', async () => {
  await load();
  const before = server.sentBytes;
  expect(isModel(await load({ sha256: hex(MODEL) }))).toBe(true);
  expect(server.sentBytes).toBe(before);
  expect(await journal()).toMatchObject({ sha256: hex(MODEL) });
  root = new FakeRoot();
  await load();
  server.bytes = OTHER;
  expect(isModel(await load({ sha256: hex(OTHER) }), OTHER)).toBe(true);
});

test('a transfer that damages one byte once comes again', async () => {
  let isHurt = false;
  server.handler = (request, response) => {
    const [, start, end] = /(\d+)-(\d+)/.exec(request.headers.range ?? '') ?? [];
    if (isHurt || start !== '100000') return;
    isHurt = true;
    const body = MODEL.slice(100_000, Number(end) + 1);
    body[5] = (body[5] ?? 0) ^ 1;
    const range = `bytes ${start}-${end}/${MODEL.byteLength}`;
    response.writeHead(206, { etag: server.etag, 'content-range': range }).end(body);
  };
  const tuning = { connections: 1 };
  expect(isModel(await load({ sha256: hex(MODEL), tuning }))).toBe(true);
  expect(isHurt).toBe(true);
  await expectKept();
});

test('too little storage is told before a byte is kept, with numbers', async () => {
  root.quota = 1_000_000;
  const error = await failure();
  expect(error).toMatchObject({ code: 'storage-full', need: MODEL.byteLength, have: 1_000_000 });
  expect(await root.keys()).toEqual([]);
  root.quota = Number.POSITIVE_INFINITY;
  expect(isModel(await load())).toBe(true);
});

test('storage that fills up on the way is storage-full, and what is durable stays', async () => {
  server.handler = (_, __, count) => {
    if (count === 3) root.quota = root.usage + 150_000;
  };
  // One after the other, so that the segments before the third request are whole.
  const error = await failure({ tuning: { connections: 1 } });
  expect(error).toMatchObject({ code: 'storage-full' });
  expect(error.need).toBeGreaterThan(error.have ?? Number.POSITIVE_INFINITY);
  const kept = durableBytes((await journal()) ?? never());
  expect(kept).toBeGreaterThanOrEqual(SEGMENT);
  server.handler = () => undefined;
  root.quota = Number.POSITIVE_INFINITY;
  const before = await server.settled();
  expect(isModel(await load())).toBe(true);
  // What was written and not committed may be there too.
  expect(server.sentBytes - before).toBeLessThanOrEqual(MODEL.byteLength - kept);
});

test('a use is noted before anybody has the model', async () => {
  await load();
  const before = (await journal())?.lastUsed ?? 0;
  await new Promise((later) => setTimeout(later, 5));
  const file = await open();
  expect((await journal())?.lastUsed).toBeGreaterThan(before);
  await file.close();
});

test('what is kept is listed, and deleted, and evicted by last use', async () => {
  const shelf = new Shelf(root, locks);
  expect(await shelf.list()).toEqual([]);
  await load();
  const [model] = await shelf.list();
  expect(model).toMatchObject({ source: server.url, bytes: MODEL.byteLength, state: 'verified' });
  expect(model?.totalBytes).toBe(MODEL.byteLength);
  const folder = await root.folder('k');
  for (const [key, lastUsed, part] of [
    ['a', 3, 0],
    ['b', 9, 0],
    ['b2', 2, 1],
  ] as const) {
    const found = (await readJournal(folder)) ?? never();
    const writer = await JournalWriter.open(await root.folder(key), 0);
    const source = `http://h/${key.charAt(0)}`;
    writer.write({ ...found.journal, source, lastUsed, part, parts: key === 'a' ? 1 : 3 });
    writer.close();
  }
  const names = async (): Promise<string[]> => (await shelf.list()).map(({ source }) => source);
  expect(await names()).toEqual([server.url, 'http://h/b', 'http://h/a']);
  const b = (await shelf.list())[1];
  expect(b).toMatchObject({ bytes: 2 * MODEL.byteLength, totalBytes: null, state: 'partial' });
  expect((await shelf.evict(3 * MODEL.byteLength)).map(({ source }) => source)).toEqual([
    'http://h/a',
  ]);
  expect(await shelf.delete('http://h/b?token=1', undefined)).toBe(true);
  expect(await shelf.delete('http://h/b', undefined)).toBe(false);
  expect(await names()).toEqual([server.url]);
});

test('addresses: shorthands, split names, digests of LFS', async () => {
  const hub = 'https://huggingface.co/o/r/resolve';
  expect(expandShorthand('hf:o/r/m.gguf')).toBe(`${hub}/main/m.gguf`);
  expect(expandShorthand('hf:o/r/a b/m.gguf@v1')).toBe(`${hub}/v1/a%20b/m.gguf`);
  for (const odd of ['hf:o/r', 'hf:o/r/', 'hf:o/../m', 'hf:o/r/m@', 'hf:o/r/m@1@2', 'x.gguf']) {
    expect(expandShorthand(odd)).toBe(odd);
  }
  expect(expandSplit('http://h/m-00001-of-00003.gguf?k=1')).toEqual([
    'http://h/m-00001-of-00003.gguf?k=1',
    'http://h/m-00002-of-00003.gguf?k=1',
    'http://h/m-00003-of-00003.gguf?k=1',
  ]);
  for (const single of ['m.gguf', 'm-00002-of-00003.gguf', 'm-00001-of-99999.gguf']) {
    expect(expandSplit(`http://h/${single}`)).toEqual([`http://h/${single}`]);
  }
  const digest = hex(MODEL);
  const pointer = `version https://git-lfs.github.com/spec/v1\noid sha256:${digest}\nsize 5\n`;
  expect(readPointer(pointer)).toBe(digest);
  expect(readPointer(`x${pointer}`)).toBeNull();
  expect(readPointer(pointer + ' '.repeat(2000))).toBeNull();
  const keys = await Promise.all(['http://h/m', 'http://h/m#x', 'http://h/m?y'].map(keyOf));
  expect(new Set(keys).size).toBe(2);
});

test('hashes as node does, however the bytes are cut', () => {
  for (const length of [0, 1, 55, 56, 63, 64, 65, 119, 120, 1000, 65_537]) {
    const bytes = modelBytes(length, length);
    for (const cut of [1, 63, 64, 1000]) {
      const hash = new Sha256();
      for (let at = 0; at < length; at += cut) hash.update(bytes.subarray(at, at + cut));
      expect(hash.digest()).toBe(hex(bytes));
    }
  }
});

function never(): never {
  throw new Error('there is nothing');
}
