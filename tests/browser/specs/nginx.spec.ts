// A real reverse proxy in front of the mock over HTTP: what reaches the reader, and when.

import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

import { expect, test } from '../support/app.js';
import { PACKAGE, ROOT } from '../support/package.js';
import { loadMeasure } from '../support/streaming.js';

const NGINX = '/usr/sbin/nginx';

interface Running {
  url: string;
  close(): Promise<void>;
}

let mock: Running;
let nginx: ChildProcess;
let folder: string;
let proxy: string;

/** Each kind of proxy at a path of its own. */
function config(port: number, upstream: string): string {
  const location = (path: string, lines: string): string =>
    `location /${path}/ { proxy_pass ${upstream}; ${lines} }`;
  // Chunks of HTTP/1.1 pass one by one even so; a body that ends with its connection does not.
  const buffered = 'proxy_ignore_headers X-Accel-Buffering; proxy_http_version 1.0;';
  const direct = 'proxy_http_version 1.1;';
  const gzip = 'gzip on; gzip_proxied any; gzip_min_length 1; gzip_types text/event-stream;';
  return `
daemon off; pid ${folder}/pid; error_log ${folder}/error.log; worker_processes 1;
events { worker_connections 64; }
http {
  access_log off; client_body_temp_path ${folder}/body; proxy_temp_path ${folder}/proxy;
  fastcgi_temp_path ${folder}/fastcgi; uwsgi_temp_path ${folder}/uwsgi;
  scgi_temp_path ${folder}/scgi;
  server {
    listen 127.0.0.1:${port};
    ${location('on', buffered)}
    ${location('off', `${direct} proxy_buffering off;`)}
    ${location('accel', direct)}
    ${location('gzip', `${buffered} ${gzip}`)}
    ${location('flushed', `${direct} proxy_buffering off; ${gzip}`)}
  }
}`;
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((ready) => server.listen(0, '127.0.0.1', ready));
  const { port } = server.address() as AddressInfo;
  await new Promise((closed) => server.close(closed));
  return port;
}

test.beforeAll(async () => {
  if (!existsSync(NGINX)) throw new Error(`${NGINX} is missing: install nginx-light`);
  const at = (path: string): string => pathToFileURL(path).href;
  const { MockHost } = (await import(at(join(PACKAGE, 'mock-host.js')))) as {
    MockHost: new (scenario: object, tokens: undefined) => object;
  };
  const { serveMock } = (await import(at(join(ROOT, 'xtask/node/mock-server.mjs')))) as {
    serveMock(host: object, port: number): Promise<Running>;
  };
  mock = await serveMock(new MockHost({}, undefined), 0);
  folder = mkdtempSync(join(tmpdir(), 'tokenbrook-nginx-'));
  mkdirSync(join(folder, 'logs'));
  const port = await freePort();
  proxy = `http://127.0.0.1:${port}`;
  writeFileSync(join(folder, 'nginx.conf'), config(port, mock.url.slice(0, -1)));
  nginx = spawn(NGINX, ['-c', join(folder, 'nginx.conf'), '-p', folder], { stdio: 'ignore' });
  await expect
    .poll(() => fetch(`${proxy}/off/lab/stats`).then(({ ok }) => ok, () => false))
    .toBe(true);
});

test.afterAll(async () => {
  nginx?.kill();
  await mock?.close();
  if (folder !== undefined) rmSync(folder, { recursive: true, force: true });
});

interface Seen {
  headMs: number;
  firstMs: number;
  totalMs: number;
  reads: number;
  bytes: number;
  encoding: string | null;
}

async function read(url: string): Promise<Seen> {
  const start = performance.now();
  const response = await fetch(url);
  const headMs = performance.now() - start;
  let [firstMs, reads, bytes] = [0, 0, 0];
  for await (const part of response.body as unknown as AsyncIterable<Uint8Array>) {
    if (reads === 0) firstMs = performance.now() - start;
    reads += 1;
    bytes += part.byteLength;
  }
  const totalMs = performance.now() - start;
  const encoding = response.headers.get('content-encoding');
  return { headMs, firstMs, totalMs, reads, bytes, encoding };
}

test('without buffering every event passes at once', async () => {
  for (const path of ['off', 'accel']) {
    const seen = await read(`${proxy}/${path}/lab/stream`);
    expect(seen, path).toMatchObject({ bytes: 276, encoding: null });
    expect(seen.reads, path).toBeGreaterThan(10);
    expect(seen.firstMs, path).toBeLessThan(300);
    expect(seen.totalMs, path).toBeGreaterThanOrEqual(594);
  }
});

test('with buffering, or compression, all comes at the end', async () => {
  for (const path of ['on', 'gzip']) {
    const seen = await read(`${proxy}/${path}/lab/stream`);
    expect(seen.bytes, path).toBe(276);
    expect(seen.firstMs, path).toBeGreaterThanOrEqual(594);
    expect(seen.reads, path).toBeLessThan(4);
    expect(seen.encoding, path).toBe(path === 'gzip' ? 'gzip' : null);
  }
});

test('a long reply comes in buffers, and the model of the hop agrees', async () => {
  const scenario = (hops: object[]): string =>
    encodeURIComponent(
      JSON.stringify({
        text: { kind: 'seeded', tokens: 1500 },
        pace: { kind: 'fixed', ms: 1 },
        hops,
      }),
    );
  const real = await read(`${proxy}/on/lab/stream?scenario=${scenario([])}`);
  const modelled = await read(
    `${mock.url}lab/stream?scenario=${scenario([{ kind: 'proxy', bufferBytes: 4096 }])}`,
  );
  expect(modelled.bytes).toBe(real.bytes);
  for (const seen of [real, modelled]) {
    expect(seen.firstMs).toBeGreaterThan(100);
    expect(seen.reads).toBeLessThan(40);
  }
});

test('leaving reaches the generator through the proxy', async () => {
  const leave = new AbortController();
  const scenario = encodeURIComponent(
    JSON.stringify({ text: { kind: 'seeded', tokens: 5000 }, pace: { kind: 'fixed', ms: 5 } }),
  );
  const stats = async (): Promise<{ cancelled: number; active: number }> =>
    (await fetch(`${mock.url}lab/stats?scenario=${scenario}`)).json() as Promise<{
      cancelled: number;
      active: number;
    }>;
  const response = await fetch(`${proxy}/off/lab/stream?scenario=${scenario}`, {
    signal: leave.signal,
  });
  await (response.body as ReadableStream<Uint8Array>).getReader().read();
  leave.abort();
  await expect.poll(stats).toMatchObject({ cancelled: 1 });
});

test('the diagnosis is right on each path, and beside the direct one it names the hop', async () => {
  const { comparePaths, diagnoseStream, measure } = await loadMeasure();
  const words = 'lab/stream';
  const long = `lab/stream?scenario=${encodeURIComponent(
    JSON.stringify({
      text: { kind: 'seeded', tokens: 1500 },
      pace: { kind: 'fixed', ms: 1 },
    }),
  )}`;
  const cases: [path: string, address: string, verdict: string, hops: string[]][] = [
    ['off', words, 'healthy', []],
    ['accel', words, 'healthy', []],
    ['flushed', words, 'healthy', []],
    ['on', words, 'buffered', ['proxy']],
    ['on', long, 'buffered', ['proxy']],
    ['gzip', words, 'buffered', ['proxy', 'compression']],
  ];
  for (const [path, address, verdict, hops] of cases) {
    const direct = await measure(mock.url + address);
    const seen = await measure(`${proxy}/${path}/${address}`);
    const what = `${path} ${address}`;
    expect(seen.text, what).toBe(direct.text);
    const found = diagnoseStream(seen);
    const why = JSON.stringify(found);
    expect(found.verdict, `${what}: ${why}`).toBe(verdict);
    // Whatever is named is there; what is there is on the list.
    if (found.hop !== null) expect(hops, `${what}: ${why}`).toContain(found.hop);
    expect(found.hops, `${what}: ${why}`).toEqual(expect.arrayContaining(hops));
    const compared = comparePaths(direct, seen);
    expect(compared.hops, `${what}: ${JSON.stringify(compared)}`).toEqual(hops);
    expect(compared.hop, what).toBe(hops.length === 1 ? (hops[0] as string) : null);
    if (address === words && hops.length > 0) {
      expect(compared.addedFirstTextMs, what).toBeGreaterThan(300);
      expect(compared.addedLastTextMs, what).toBeLessThan(compared.addedFirstTextMs ?? 0);
    }
  }
});
