// A file system that forgets what was not flushed, locks within this thread, and a server that
// does as it is told.

import { createServer } from 'node:http';
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

import type { Folder, Root, SyncFile } from '../store/folder.js';
import type { Locks, News, Release } from '../store/locks.js';

/** What survives of writes that were under way in a crash. */
export type Survival = 'nothing' | 'everything' | 'half';

export class Crash extends Error {}

type Change = { at: number; bytes: Uint8Array } | { truncate: number };

/** A file: what is on the disk, and what is on its way there. */
class Data {
  durable = new Uint8Array(0);
  current = new Uint8Array(0);
  pending: Change[] = [];

  change(change: Change): void {
    this.pending.push(change);
    this.current = applied(this.current, change);
  }

  flush(): void {
    this.durable = this.current;
    this.pending = [];
  }

  after(survival: Survival): Uint8Array<ArrayBuffer> {
    if (survival === 'everything') return this.current;
    if (survival === 'nothing') return this.durable;
    const done = this.pending.slice(0, this.pending.length >> 1);
    const torn = this.pending[done.length];
    const half = done.reduce(applied, this.durable);
    if (torn === undefined || 'truncate' in torn) return half;
    return applied(half, { at: torn.at, bytes: torn.bytes.subarray(0, torn.bytes.length >> 1) });
  }
}

function applied(data: Uint8Array<ArrayBuffer>, change: Change): Uint8Array<ArrayBuffer> {
  if ('truncate' in change) {
    const cut = new Uint8Array(change.truncate);
    cut.set(data.subarray(0, change.truncate));
    return cut;
  }
  const grown = new Uint8Array(Math.max(data.byteLength, change.at + change.bytes.byteLength));
  grown.set(data);
  grown.set(change.bytes, change.at);
  return grown;
}

export class FakeRoot implements Root {
  readonly folders = new Map<string, FakeFolder>();
  /** Operations until everything fails. */
  operationsLeft = Number.POSITIVE_INFINITY;
  operations = 0;
  /** Bytes in all; a write beyond them is cut. */
  quota = Number.POSITIVE_INFINITY;

  /** What the next start finds. */
  crashed(survival: Survival): FakeRoot {
    const root = new FakeRoot();
    for (const [key, folder] of this.folders) {
      const copy = new FakeFolder(root);
      for (const [name, data] of folder.files) {
        const left = new Data();
        left.durable = left.current = data.after(survival);
        copy.files.set(name, left);
      }
      root.folders.set(key, copy);
    }
    return root;
  }

  step(): void {
    this.operations += 1;
    if (this.operations > this.operationsLeft) throw new Crash('the machine has stopped');
  }

  get usage(): number {
    let sum = 0;
    for (const { files } of this.folders.values()) {
      for (const { current } of files.values()) sum += current.byteLength;
    }
    return sum;
  }

  async folder(key: string): Promise<FakeFolder> {
    let folder = this.folders.get(key);
    if (folder === undefined) this.folders.set(key, (folder = new FakeFolder(this)));
    return folder;
  }

  async existing(key: string): Promise<FakeFolder | undefined> {
    return this.folders.get(key);
  }

  async keys(): Promise<string[]> {
    return [...this.folders.keys()];
  }

  async remove(key: string): Promise<void> {
    this.step();
    this.folders.delete(key);
  }
}

export class FakeFolder implements Folder {
  readonly #root: FakeRoot;
  readonly files = new Map<string, Data>();
  readonly open_ = new Set<string>();

  constructor(root: FakeRoot) {
    this.#root = root;
  }

  async open(name: string): Promise<SyncFile> {
    this.#root.step();
    if (this.open_.has(name)) throw new DOMException(name, 'NoModificationAllowedError');
    this.open_.add(name);
    let data = this.files.get(name);
    if (data === undefined) this.files.set(name, (data = new Data()));
    return this.#file(name, data);
  }

  async blob(name: string): Promise<Blob | undefined> {
    const data = this.files.get(name);
    return data && new Blob([data.current]);
  }

  async read(name: string, into: Uint8Array): Promise<number | undefined> {
    const data = this.files.get(name);
    const bytes = data?.current.subarray(0, into.byteLength);
    if (bytes !== undefined) into.set(bytes);
    return bytes?.byteLength;
  }

  async remove(name: string): Promise<void> {
    this.#root.step();
    if (this.open_.has(name)) throw new DOMException(name, 'NoModificationAllowedError');
    this.files.delete(name);
  }

  async names(): Promise<string[]> {
    return [...this.files.keys()];
  }

  #file(name: string, data: Data): SyncFile {
    const root = this.#root;
    return {
      read: (into, { at }) => {
        const bytes = data.current.subarray(at, at + into.byteLength);
        into.set(bytes);
        return bytes.byteLength;
      },
      write: (bytes, { at }) => {
        root.step();
        const room = Math.max(root.quota - root.usage, 0);
        const most = Math.max(data.current.byteLength - at, 0) + room;
        const part = bytes.slice(0, Math.min(bytes.byteLength, most));
        data.change({ at, bytes: part });
        return part.byteLength;
      },
      truncate: (bytes) => {
        root.step();
        const growth = bytes - data.current.byteLength;
        if (growth > Math.max(root.quota - root.usage, 0)) {
          throw new DOMException(name, 'QuotaExceededError');
        }
        data.change({ truncate: bytes });
      },
      flush: () => {
        root.step();
        data.flush();
      },
      getSize: () => data.current.byteLength,
      close: () => void this.open_.delete(name),
    };
  }
}

/** Locks of one thread, with the semantics of the browser's as far as they are used. */
export class FakeLocks implements Locks {
  readonly #held = new Map<string, Set<{ mode: LockMode; onLost: () => void }>>();
  readonly #listeners = new Set<(key: string, news: News) => void>();
  #changed: (() => void)[] = [];

  async take(
    key: string,
    mode: LockMode,
    signal: AbortSignal,
    onLost: () => void = () => undefined,
  ): Promise<Release> {
    while (!this.#isFree(key, mode)) {
      signal.throwIfAborted();
      await new Promise<void>((resume) => this.#changed.push(resume));
    }
    return this.#hold(key, mode, onLost);
  }

  async tryTake(key: string): Promise<Release | undefined> {
    return this.#isFree(key, 'exclusive') ? this.#hold(key, 'exclusive') : undefined;
  }

  async steal(key: string): Promise<Release> {
    for (const { onLost } of this.#held.get(key) ?? []) onLost();
    this.#held.delete(key);
    return this.#hold(key, 'exclusive');
  }

  tell(key: string, news: News): void {
    for (const listener of this.#listeners) listener(key, news);
  }

  follow(key: string, listener: (news: News) => void): Release {
    const own = (of: string, news: News): void => {
      if (of === key) listener(news);
    };
    this.#listeners.add(own);
    return () => this.#listeners.delete(own);
  }

  #isFree(key: string, mode: LockMode): boolean {
    const held = [...(this.#held.get(key) ?? [])];
    return held.every((other) => mode === 'shared' && other.mode === 'shared');
  }

  #hold(key: string, mode: LockMode, onLost: () => void = () => undefined): Release {
    const holder = { mode, onLost };
    const held = this.#held.get(key) ?? new Set();
    this.#held.set(key, held.add(holder));
    return () => {
      held.delete(holder);
      const changed = this.#changed;
      this.#changed = [];
      for (const resume of changed) resume();
    };
  }
}

export type Handler = (request: IncomingMessage, response: ServerResponse, count: number) => void;

/** One file over HTTP, with ranges, and with whatever a test does before that. */
export class FileServer {
  readonly #server: Server;
  bytes: Uint8Array;
  etag: string | undefined = '"one"';
  lastModified: string | undefined;
  hasRanges = true;
  /** Before each answer of its own. */
  delayMs = 0;
  /** Answers instead, if it does. */
  handler: Handler = () => undefined;
  /** What was asked for, in order: the range or `whole`. */
  readonly requests: string[] = [];
  sentBytes = 0;
  url = '';

  private constructor(bytes: Uint8Array) {
    this.bytes = bytes;
    this.#server = createServer((request, response) => this.#answer(request, response));
  }

  static async start(bytes: Uint8Array): Promise<FileServer> {
    const server = new FileServer(bytes);
    await new Promise<void>((ready) => server.#server.listen(0, '127.0.0.1', ready));
    server.url = `http://127.0.0.1:${(server.#server.address() as AddressInfo).port}/m.gguf`;
    return server;
  }

  stop(): void {
    this.#server.closeAllConnections();
    this.#server.close();
  }

  /** `sentBytes`, once requests that were given up have come and been answered. */
  async settled(): Promise<number> {
    for (let last = -1; last !== this.sentBytes; ) {
      last = this.sentBytes;
      await new Promise((later) => setTimeout(later, 100 + this.delayMs));
    }
    return this.sentBytes;
  }

  #answer(request: IncomingMessage, response: ServerResponse): void {
    const { method } = request;
    const { range } = request.headers;
    const name = method === 'HEAD' ? 'head' : (range ?? 'whole');
    this.requests.push(name);
    this.handler(request, response, this.requests.length);
    if (response.headersSent || response.destroyed || response.writableEnded) return;
    setTimeout(() => this.#send(request, response), this.delayMs);
  }

  #send(request: IncomingMessage, response: ServerResponse): void {
    const { method } = request;
    const { range } = request.headers;
    if (this.etag !== undefined) response.setHeader('etag', this.etag);
    if (this.lastModified !== undefined) response.setHeader('last-modified', this.lastModified);
    const [start, end] = this.#span(range);
    const isPart = this.hasRanges && range !== undefined;
    if (isPart && start >= this.bytes.byteLength) {
      response.writeHead(416).end();
      return;
    }
    const body = isPart ? this.bytes.subarray(start, end) : this.bytes;
    const total = this.bytes.byteLength;
    if (isPart) response.setHeader('content-range', `bytes ${start}-${end - 1}/${total}`);
    response.setHeader('content-length', body.byteLength);
    response.writeHead(isPart ? 206 : 200);
    if (method !== 'HEAD') this.sentBytes += body.byteLength;
    response.end(method === 'HEAD' ? undefined : body);
  }

  #span(range: string | undefined): [number, number] {
    const found = /^bytes=(\d+)-(\d*)$/.exec(range ?? '');
    if (found === null) return [0, this.bytes.byteLength];
    const last = found[2] === '' ? Number.POSITIVE_INFINITY : Number(found[2]);
    return [Number(found[1]), Math.min(last + 1, this.bytes.byteLength)];
  }
}

/** Bytes of a seeded file that begins as a GGUF does. */
export function modelBytes(length: number, seed = 1): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(length);
  let state = seed;
  for (let i = 0; i < length; i += 1) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) | 0;
    bytes[i] = state >>> 24;
  }
  bytes.set(Buffer.from('GGUF').subarray(0, length));
  return bytes;
}
