// Entry of a worker that hashes: Blobs in the order of a file, then a `null` for the digest.

import { PIECE_BYTES } from '../pieces.js';
import { Sha256 } from './sha256.js';

interface Scope {
  addEventListener(type: 'message', listener: (event: MessageEvent<Blob | null>) => void): void;
  postMessage(message: { digest: string } | { failed: string }): void;
}

const scope = globalThis as unknown as Scope;
const hash = new Sha256();
let work = Promise.resolve();

scope.addEventListener('message', ({ data }) => {
  work = work
    .then(() => (data === null ? scope.postMessage({ digest: hash.digest() }) : add(data)))
    .catch((error: unknown) => scope.postMessage({ failed: String(error) }));
});

async function add(blob: Blob): Promise<void> {
  for (let at = 0; at < blob.size; at += PIECE_BYTES) {
    hash.update(new Uint8Array(await blob.slice(at, at + PIECE_BYTES).arrayBuffer()));
  }
}
