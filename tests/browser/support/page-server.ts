// Serves the built pages as a static host would, under a sub-path, with a list of models.

import { createReadStream, existsSync, statSync } from 'node:fs';
import { createServer } from 'node:http';
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { extname, join } from 'node:path';
import { MODEL, ROOT } from './package.js';
import { tinyModel } from './tiny-model.js';

/** The built pages. */
export const DIST = process.env['TOKENBROOK_DIST'] ?? join(ROOT, 'dist');

/** The pages work wherever they lie; a sub-path shows it. */
const SUB_PATH = '/some/folder/';

const TYPES: Record<string, string> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.wasm': 'application/wasm',
};

export interface PageServer {
  /** Address of the chat page. */
  url: string;
  /** Address of a model whose body stops after one MiB and never ends. */
  stalledUrl: string;
  close(): Promise<void>;
}

interface ServeOptions {
  /** Whether there is a `models/index.json`. */
  list: boolean;
  /** Pages other than the built ones. */
  folder?: string;
  /** Requests seen, by path below the pages' folder. */
  seen?: string[];
}

/** Starts the server. */
export async function servePages(options: ServeOptions): Promise<PageServer> {
  if (!existsSync(join(DIST, 'index.html'))) {
    throw new Error(`${DIST} holds no pages: run \`cargo xtask build\` first`);
  }
  const server = createServer((request, response) => answer(request, response, options));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const url = `http://127.0.0.1:${port}${SUB_PATH}`;
  return { url, stalledUrl: `${url}models/stalled.gguf`, close: () => close(server) };
}

function answer(
  request: IncomingMessage,
  response: ServerResponse,
  { list, folder = DIST, seen }: ServeOptions,
): void {
  const { pathname } = new URL(request.url ?? '/', 'http://localhost');
  const path = pathname.startsWith(SUB_PATH) ? pathname.slice(SUB_PATH.length) : undefined;
  if (path === undefined || path.includes('..')) return notFound(response);
  seen?.push(path);
  if (path === 'models/index.json' && list) {
    const entry = { name: 'SmolLM2-135M-Instruct', url: 'default.gguf', bytes: modelBytes() };
    response.setHeader('content-type', 'application/json');
    response.end(JSON.stringify([entry]));
    return;
  }
  if (path === 'models/default.gguf') return sendFile(response, MODEL);
  if (path === 'models/tiny.gguf') {
    const bytes = tinyModel();
    response.setHeader('content-length', bytes.byteLength);
    response.end(bytes);
    return;
  }
  if (path === 'models/stalled.gguf') return stall(response);
  return sendFile(response, join(folder, path.replace(/(^|\/)$/, '$1index.html')));
}

/** Size of the default model's file. */
export function modelBytes(): number {
  return statSync(MODEL).size;
}

/** The first MiB of the model, under the length of the whole; the rest never comes. */
function stall(response: ServerResponse): void {
  response.setHeader('content-length', modelBytes());
  createReadStream(MODEL, { end: (1 << 20) - 1 }).pipe(response, { end: false });
}

function sendFile(response: ServerResponse, file: string): void {
  const info = statSync(file, { throwIfNoEntry: false });
  if (info === undefined || !info.isFile()) return notFound(response);
  response.setHeader('content-type', TYPES[extname(file)] ?? 'application/octet-stream');
  response.setHeader('content-length', info.size);
  const body = createReadStream(file);
  // A reader that goes away, as on cancel, leaves a file to close.
  response.on('close', () => body.destroy());
  body.pipe(response);
}

function notFound(response: ServerResponse): void {
  response.writeHead(404, { 'content-type': 'text/plain; charset=utf-8' });
  response.end('not found');
}

function close(server: Server): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve());
    server.closeAllConnections();
  });
}
