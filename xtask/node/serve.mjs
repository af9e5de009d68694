// A static server on the loopback address, for the demo, the command line and the tests.
// It knows HEAD, Range and nothing else beyond GET.
import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { createServer } from 'node:http';
import { extname, join, normalize, sep } from 'node:path';
import { pipeline } from 'node:stream';

const TYPES = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.mjs': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.json': 'application/json',
  '.svg': 'image/svg+xml',
  '.png': 'image/png',
  '.wasm': 'application/wasm',
};

/** Headers of a page that may share memory between threads. */
export const ISOLATED = {
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-embedder-policy': 'require-corp',
  'cross-origin-resource-policy': 'same-origin',
};

/**
 * Starts a server.
 *
 * `routes` maps paths to what they serve; the longest that fits wins. A path that ends
 * in `/` serves a folder, any other path one file; `{ json }` serves a value.
 * `headers` go out with every response.
 *
 * @param {{ routes: Record<string, string | { json: unknown }>, port?: number,
 *   headers?: Record<string, string> }} options
 * @returns {Promise<{ url: string, port: number, close(): Promise<void> }>}
 */
export async function serve({ routes, port = 0, headers = {} }) {
  const prefixes = Object.keys(routes).sort((a, b) => b.length - a.length);
  const server = createServer((request, response) => {
    answer(request, response, { routes, prefixes, headers }).catch((error) => {
      console.error(`server: ${request.url}: ${error}`);
      response.destroy();
    });
  });
  await new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, '127.0.0.1', resolve);
  });
  const bound = server.address().port;
  const close = () =>
    new Promise((resolve) => {
      server.close(() => resolve());
      server.closeAllConnections();
    });
  return { url: `http://localhost:${bound}/`, port: bound, close };
}

async function answer(request, response, { routes, prefixes, headers }) {
  const base = { 'cache-control': 'no-cache', 'x-content-type-options': 'nosniff', ...headers };
  if (request.method !== 'GET' && request.method !== 'HEAD') {
    return sendText(response, 405, { ...base, allow: 'GET, HEAD' }, 'method not allowed');
  }
  const path = pathOf(request);
  const fits = (p) => p === path || (p.endsWith('/') && path.startsWith(p));
  const prefix = path && prefixes.find(fits);
  if (!prefix) return sendText(response, 404, base, 'not found');
  const target = routes[prefix];
  if (typeof target !== 'string') {
    const type = { 'content-type': TYPES['.json'] };
    return sendText(response, 200, { ...base, ...type }, JSON.stringify(target.json));
  }
  const isFolder = prefix.endsWith('/');
  const found = await fileAt(isFolder ? join(target, path.slice(prefix.length)) : target);
  if (!found) return sendText(response, 404, base, 'not found');
  sendFile(request, response, base, found);
}

/** The decoded path without `..` parts that would leave a folder; null for a bad one. */
function pathOf(request) {
  try {
    const path = decodeURIComponent(new URL(request.url, 'http://localhost').pathname);
    const clean = normalize(path).split(sep).join('/');
    return path.includes('\0') || clean.startsWith('/..') ? null : clean;
  } catch {
    return null;
  }
}

async function fileAt(path) {
  for (const file of [path, join(path, 'index.html')]) {
    const info = await stat(file).catch(() => null);
    if (info?.isFile()) return { file, bytes: info.size };
  }
  return null;
}

function sendText(response, status, headers, text) {
  response.writeHead(status, {
    'content-type': 'text/plain; charset=utf-8',
    'content-length': Buffer.byteLength(text),
    ...headers,
  });
  response.end(response.req.method === 'HEAD' ? undefined : text);
}

function sendFile(request, response, base, { file, bytes }) {
  const headers = {
    ...base,
    'content-type': TYPES[extname(file)] ?? 'application/octet-stream',
    'accept-ranges': 'bytes',
  };
  const range = rangeOf(request.headers.range, bytes);
  if (range === 'unsatisfiable') {
    return sendText(response, 416, { ...headers, 'content-range': `bytes */${bytes}` }, '');
  }
  const [first, last] = range ?? [0, bytes - 1];
  headers['content-length'] = last - first + 1;
  if (range) headers['content-range'] = `bytes ${first}-${last}/${bytes}`;
  response.writeHead(range ? 206 : 200, headers);
  if (request.method === 'HEAD' || bytes === 0) return response.end();
  // A reader that goes away ends the pipeline with an error that nobody needs.
  pipeline(createReadStream(file, { start: first, end: last }), response, () => {});
}

/** First and last byte of a single range; null where there is none to honour. */
export function rangeOf(header, bytes) {
  const match = /^bytes=(\d*)-(\d*)$/.exec(header ?? '');
  if (!match || (match[1] === '' && match[2] === '')) return null;
  if (match[1] === '') {
    const suffix = Math.min(Number(match[2]), bytes);
    return suffix === 0 ? 'unsatisfiable' : [bytes - suffix, bytes - 1];
  }
  const first = Number(match[1]);
  const last = match[2] === '' ? bytes - 1 : Math.min(Number(match[2]), bytes - 1);
  if (match[2] !== '' && Number(match[2]) < first) return null;
  return first >= bytes ? 'unsatisfiable' : [first, last];
}
