// A mock host behind Node's HTTP server: one write a chunk, waiting for the reader.
import { createServer } from 'node:http';

/** A little more than the mock's own limit of silence, which is then what ends the body. */
const DRAIN_MS = 35_000;
const MAX_BODY_BYTES = 8 << 20;
const CORS = {
  'access-control-allow-origin': '*',
  'access-control-allow-methods': 'GET, POST',
  'access-control-allow-headers': '*',
  'access-control-expose-headers': '*',
};

/**
 * Starts a server on the loopback address.
 *
 * @param {{ respond(request: object, signal: AbortSignal): Promise<Response> }} host
 * @param {number} port 0 for any
 * @returns {Promise<{ url: string, port: number, close(): Promise<void> }>}
 */
export async function serveMock(host, port) {
  const server = createServer((request, response) => {
    answer(host, request, response).catch((error) => {
      // What cannot be written any more can only be broken off.
      if (!response.headersSent && !response.destroyed) response.writeHead(500).end(String(error));
      else response.destroy();
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
  return { url: `http://127.0.0.1:${bound}/`, port: bound, close };
}

async function answer(host, request, response) {
  if (request.method === 'OPTIONS') {
    response.writeHead(204, CORS).end();
    return;
  }
  const leave = new AbortController();
  response.once('close', () => leave.abort());
  const body = await read(request);
  if (body === null) {
    response.writeHead(413, CORS).end();
    return;
  }
  const incoming = {
    method: request.method,
    url: new URL(request.url, 'http://127.0.0.1'),
    headers: headersOf(request),
    body,
  };
  const reply = await host.respond(incoming, leave.signal);
  response.socket?.setNoDelay(true);
  response.writeHead(reply.status, { ...CORS, ...Object.fromEntries(reply.headers) });
  // Otherwise Node keeps them for the first write, and they say nothing about the wait.
  response.flushHeaders();
  if (reply.body === null) {
    response.end();
    return;
  }
  for await (const bytes of reply.body) {
    // Leaving the loop cancels the body.
    if (response.destroyed) return;
    if (!response.write(bytes)) await drained(response);
  }
  response.end();
}

/** The whole body; null for one that is too large. */
async function read(request) {
  const parts = [];
  let bytes = 0;
  for await (const part of request) {
    bytes += part.byteLength;
    if (bytes > MAX_BODY_BYTES) return null;
    parts.push(part);
  }
  return new Uint8Array(Buffer.concat(parts));
}

function headersOf(request) {
  const headers = new Headers();
  for (const [name, value] of Object.entries(request.headers)) {
    headers.set(name, Array.isArray(value) ? value.join(', ') : value);
  }
  return headers;
}

/** Waits until the socket takes more; leaves no listener behind. */
function drained(response) {
  return new Promise((resolve, reject) => {
    const done = (settle) => (value) => {
      clearTimeout(timer);
      response.off('drain', onDrain);
      response.off('close', onClose);
      settle(value);
    };
    const onDrain = done(resolve);
    const onClose = done(() => reject(new Error('the reader left')));
    const onSlow = done(() => reject(new Error('the reader is too slow')));
    const timer = setTimeout(onSlow, DRAIN_MS);
    response.once('drain', onDrain);
    response.once('close', onClose);
  });
}
