// A static server that can misbehave: slow, short, silent about lengths, or refusing.
//
// Faults are asked for in the query: `status=503`, `throttle=BYTES_PER_SECOND` (of each
// transfer), `truncate=BYTES` (the promised length stays), `chunked` (no length at all),
// `whole` (no ranges), `gzip`, `drip` (a byte at a time), `redirect=URL`, `etag=TEXT`.

import { createHash } from 'node:crypto';
import { open, stat } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { extname, join, normalize } from 'node:path';
import { createGzip } from 'node:zlib';

const TYPES: Record<string, string> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.wasm': 'application/wasm',
};

const CHUNK_BYTES = 256 * 1024;

/** A file that is made while it is sent. */
export interface Made {
  bytes: number;
  etag: string;
  read(start: number, end: number): Promise<Uint8Array>;
}

/** A file or folder on disk, bytes in memory, or neither. */
export type Content = string | Uint8Array | Made;

interface Body extends Made {
  close(): Promise<void>;
}

export class FaultServer {
  /** Longest matching prefix wins; a folder serves what is below it. */
  readonly routes: Map<string, Content>;
  /** Sent with everything below a prefix. */
  readonly headers = new Map<string, Record<string, string>>();
  /** Requests seen, `METHOD path`. */
  readonly requests: string[] = [];
  /** Bytes of bodies, by path, that were handed to the network. */
  readonly sent = new Map<string, number>();
  /** Transfers that the other side ended before they were whole. */
  cutByClient = 0;
  readonly #server: Server;

  private constructor(routes: Record<string, Content>) {
    this.routes = new Map(Object.entries(routes));
    this.#server = createServer((request, response) => {
      this.#answer(request, response).catch((error: unknown) => {
        response.destroy(error instanceof Error ? error : undefined);
      });
    });
  }

  static async start(routes: Record<string, Content>): Promise<FaultServer> {
    const server = new FaultServer(routes);
    await new Promise<void>((ready) => server.#server.listen(0, '127.0.0.1', ready));
    return server;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((stopped) => this.#server.close(stopped));
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? '/', this.url);
    this.requests.push(`${request.method} ${url.pathname}`);
    response.setHeader('access-control-allow-origin', '*');
    response.setHeader('cross-origin-resource-policy', 'cross-origin');
    response.setHeader('cache-control', 'no-store');
    response.setHeader('access-control-expose-headers', 'content-range, etag');
    response.setHeader('access-control-allow-headers', 'authorization');
    for (const [prefix, headers] of this.headers) {
      if (!url.pathname.startsWith(prefix)) continue;
      for (const [name, value] of Object.entries(headers)) response.setHeader(name, value);
    }
    if (request.method === 'OPTIONS') {
      response.writeHead(204).end();
      return;
    }
    const redirect = url.searchParams.get('redirect');
    if (redirect !== null) {
      response.writeHead(302, { location: redirect }).end();
      return;
    }
    const status = Number(url.searchParams.get('status') ?? 200);
    const content = this.#find(url.pathname);
    if (status !== 200 || content === undefined) {
      response.writeHead(status === 200 ? 404 : status).end('no');
      return;
    }
    response.setHeader('content-type', TYPES[extname(url.pathname)] ?? 'application/octet-stream');
    const body = await openBody(content);
    if (body === undefined) {
      response.writeHead(404).end('no');
      return;
    }
    try {
      await this.#send(request, response, url, body);
    } finally {
      await body.close();
    }
  }

  #find(pathname: string): Content | undefined {
    const exact = this.routes.get(pathname);
    if (exact !== undefined) return exact;
    for (const [prefix, content] of this.routes) {
      if (typeof content !== 'string' || !prefix.endsWith('/')) continue;
      const rest = normalize(pathname.slice(prefix.length));
      if (pathname.startsWith(prefix) && !rest.startsWith('..')) return join(content, rest);
    }
    return undefined;
  }

  async #send(
    request: IncomingMessage,
    response: ServerResponse,
    { pathname, searchParams: faults }: URL,
    body: Body,
  ): Promise<void> {
    const etag = faults.get('etag') ?? body.etag;
    if (etag !== '') response.setHeader('etag', `"${etag}"`);
    const isWhole = faults.has('whole') || faults.has('chunked') || faults.has('gzip');
    const asked = isWhole ? '' : (request.headers.range ?? '');
    const range = /^bytes=(\d+)-(\d*)$/.exec(asked);
    const start = range === null ? 0 : Number(range[1]);
    const last = range === null || range[2] === '' ? body.bytes - 1 : Number(range[2]);
    const end = Math.min(last + 1, body.bytes);
    if (range !== null && start >= body.bytes) {
      response.writeHead(416, { 'content-range': `bytes */${body.bytes}` }).end();
      return;
    }
    if (faults.has('gzip')) {
      response.writeHead(200, { 'content-encoding': 'gzip' });
      const gzip = createGzip();
      gzip.pipe(response);
      gzip.end(await body.read(0, body.bytes));
      return;
    }
    if (range !== null) {
      response.setHeader('content-range', `bytes ${start}-${end - 1}/${body.bytes}`);
    }
    if (!faults.has('chunked')) response.setHeader('content-length', end - start);
    response.writeHead(range === null ? 200 : 206);
    if (request.method === 'HEAD') {
      response.end();
      return;
    }
    await this.#sendBody({ response, faults, body, start, end, pathname });
  }

  async #sendBody({ response, faults, body, start, end, pathname }: Transfer): Promise<void> {
    const truncate = Number(faults.get('truncate') ?? Number.POSITIVE_INFINITY);
    const perSecond = Number(faults.get('throttle') ?? Number.POSITIVE_INFINITY);
    const last = Math.min(end, start + truncate);
    const chunk = faults.has('drip') ? 1 : CHUNK_BYTES;
    for (let at = start; at < last; at += chunk) {
      const piece = await body.read(at, Math.min(at + chunk, last));
      await wait(faults.has('drip') ? 50 : (piece.byteLength / perSecond) * 1000);
      this.sent.set(pathname, (this.sent.get(pathname) ?? 0) + piece.byteLength);
      if (!(await write(response, piece))) {
        this.cutByClient += 1;
        return;
      }
    }
    if (last === end) {
      response.end();
      return;
    }
    // What was sent should be read before the other side hears of the end.
    await wait(30);
    response.destroy();
  }
}

interface Transfer {
  response: ServerResponse;
  faults: URLSearchParams;
  body: Body;
  start: number;
  end: number;
  pathname: string;
}

async function openBody(content: Content): Promise<Body | undefined> {
  if (typeof content !== 'string' && 'read' in content) {
    return { ...content, close: async () => undefined };
  }
  if (typeof content !== 'string') {
    return {
      bytes: content.byteLength,
      etag: createHash('sha1').update(content).digest('hex'),
      read: async (start, end) => content.subarray(start, end),
      close: async () => undefined,
    };
  }
  const info = await stat(content).catch(() => undefined);
  if (!info?.isFile()) return undefined;
  const file = await open(content);
  return {
    bytes: info.size,
    etag: `${info.size}-${info.mtimeMs}`,
    read: async (start, end) => {
      const { buffer, bytesRead } = await file.read(Buffer.alloc(end - start), 0, null, start);
      return buffer.subarray(0, bytesRead);
    },
    close: () => file.close(),
  };
}

/** False when the other side has gone. */
function write(response: ServerResponse, piece: Uint8Array): Promise<boolean> {
  return new Promise((done) => {
    if (response.destroyed) return done(false);
    const gone = (): void => done(false);
    response.once('close', gone);
    response.write(piece, (error) => {
      response.off('close', gone);
      done(error === null || error === undefined);
    });
  });
}

function wait(ms: number): Promise<void> {
  return ms > 0 ? new Promise((resume) => setTimeout(resume, ms)) : Promise.resolve();
}
