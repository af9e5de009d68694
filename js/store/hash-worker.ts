// Entry of a worker that hashes. Of a file, Blobs in order, then a `null` for the digest; of
// segments, what it is told to read.

import { PIECE_BYTES } from '../pieces.js';
import { segmentDigest } from './digest.js';
import { openRoot } from './folder.js';
import type { Root } from './folder.js';
import { Sha256 } from './sha256.js';

/** A segment to be read into a buffer, which goes back with the answer. */
export interface ReadRequest {
  /** The folder's. */
  key: string;
  name: string;
  buffer: ArrayBuffer;
  length: number;
  /** What its digest has to be. */
  digest: string;
}

/** In the order of the requests. */
export interface ReadAnswer {
  buffer: ArrayBuffer;
  /** Its first bytes are those of the digest. */
  isRight: boolean;
}

interface Scope {
  addEventListener(
    type: 'message',
    listener: (event: MessageEvent<Blob | ReadRequest | null>) => void,
  ): void;
  postMessage(
    message: { digest: string } | { failed: string } | ReadAnswer,
    transfer?: ArrayBuffer[],
  ): void;
}

const scope = globalThis as unknown as Scope;
const hash = new Sha256();
let root: Promise<Root> | undefined;
let work = Promise.resolve();

scope.addEventListener('message', ({ data }) => {
  work = work
    .then(() => {
      if (data === null) return scope.postMessage({ digest: hash.digest() });
      return data instanceof Blob ? add(data) : read(data);
    })
    .catch((error: unknown) => scope.postMessage({ failed: String(error) }));
});

async function add(blob: Blob): Promise<void> {
  for (let at = 0; at < blob.size; at += PIECE_BYTES) {
    hash.update(new Uint8Array(await blob.slice(at, at + PIECE_BYTES).arrayBuffer()));
  }
}

async function read({ key, name, buffer, length, digest }: ReadRequest): Promise<void> {
  const bytes = new Uint8Array(buffer, 0, length);
  let isRight = false;
  try {
    root ??= openRoot();
    const folder = await (await root).existing(key);
    const count = await folder?.read(name, bytes);
    isRight = count === length && (await segmentDigest(bytes)) === digest;
  } catch {
    // Whoever asked looks for himself.
  }
  scope.postMessage({ buffer, isRight }, [buffer]);
}
