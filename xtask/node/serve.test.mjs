import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync, mkdirSync } from 'node:fs';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { rangeOf, serve } from './serve.mjs';

const CONTENT = '0123456789abc';
let folder;
let server;

before(async () => {
  folder = mkdtempSync(join(tmpdir(), 'serve-test-'));
  mkdirSync(join(folder, 'open'));
  writeFileSync(join(folder, 'open/index.html'), '<p>hi');
  writeFileSync(join(folder, 'open/a b.bin'), CONTENT);
  writeFileSync(join(folder, 'open/empty'), '');
  writeFileSync(join(folder, 'secret'), 'secret');
  const routes = { '/': join(folder, 'open'), '/list': { json: [1] } };
  server = await serve({ routes: { '/only': join(folder, 'secret'), ...routes } });
});

after(async () => {
  await server.close();
  rmSync(folder, { recursive: true });
});

/** A request with the path as it stands: `fetch` would tidy it first. */
function get(path, { method = 'GET', range } = {}) {
  return new Promise((resolve, reject) => {
    const headers = range ? { range } : {};
    const sent = request({ host: '127.0.0.1', port: server.port, path, method, headers }, (got) => {
      let body = '';
      got.on('data', (chunk) => (body += chunk));
      got.on('end', () => resolve({ status: got.statusCode, headers: got.headers, body }));
    });
    sent.on('error', reject);
    sent.end();
  });
}

test('serves files, folders and values with their types', async () => {
  const page = await get('/');
  assert.deepEqual([page.status, page.body], [200, '<p>hi']);
  assert.match(page.headers['content-type'], /^text\/html/);
  assert.equal((await get('/a%20b.bin')).body, CONTENT);
  assert.equal((await get('/list')).body, '[1]');
  assert.equal((await get('/only')).body, 'secret');
});

test('answers HEAD with the length and no body', async () => {
  const head = await get('/a%20b.bin', { method: 'HEAD' });
  assert.deepEqual([head.status, head.headers['content-length'], head.body], [200, '13', '']);
});

test('serves an empty file', async () => {
  const empty = await get('/empty');
  assert.deepEqual([empty.status, empty.headers['content-length'], empty.body], [200, '0', '']);
});

test('serves the bytes of a range and says which', async () => {
  const part = await get('/a%20b.bin', { range: 'bytes=4-6' });
  assert.deepEqual([part.status, part.body], [206, '456']);
  assert.equal(part.headers['content-range'], 'bytes 4-6/13');
  assert.equal(part.headers['content-length'], '3');
  const beyond = await get('/a%20b.bin', { range: 'bytes=13-' });
  assert.deepEqual([beyond.status, beyond.headers['content-range']], [416, 'bytes */13']);
});

test('reads each form of a range', () => {
  const rows = [
    ['bytes=0-0', [0, 0]],
    ['bytes=5-', [5, 12]],
    ['bytes=5-99', [5, 12]],
    ['bytes=-3', [10, 12]],
    ['bytes=-99', [0, 12]],
    ['bytes=-0', 'unsatisfiable'],
    ['bytes=6-5', null],
    ['bytes=0-1,3-4', null],
    ['bytes=-', null],
    [undefined, null],
  ];
  for (const [header, want] of rows) assert.deepEqual(rangeOf(header, 13), want, header);
});

test('never leaves a folder that it serves', async () => {
  for (const path of ['/../secret', '/%2e%2e/secret', '/..%2fsecret', '/x/../../secret', '/%00']) {
    assert.equal((await get(path)).status, 404, path);
  }
  assert.equal((await get('/%')).status, 404);
});

test('rejects methods that change something', async () => {
  const post = await get('/', { method: 'POST' });
  assert.deepEqual([post.status, post.headers.allow], [405, 'GET, HEAD']);
});
