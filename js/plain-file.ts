// A file that goes straight to the engine: a Blob, or an address that is read in one stream.

import { publicUrl } from './address.js';
import { TokenbrookError } from './errors.js';
import { blobPieces, bodyPieces } from './pieces.js';
import type { Pieces } from './pieces.js';
import type { WireFile } from './protocol.js';
import { Restart } from './store/restart.js';
import { contentLength, cutShort, statusError, unreachable } from './store/http.js';

/** An open file: its length where it is known, and its bytes. */
export interface OpenFile {
  name: string;
  bytes: number | null;
  pieces: Pieces;
}

export async function openPlain(
  file: WireFile,
  headers: [string, string][],
  what: 'model' | 'tokenizer' = 'model',
): Promise<OpenFile> {
  if (typeof file !== 'string') {
    return { name: 'the chosen file', bytes: file.size, pieces: blobPieces(file) };
  }
  const url = publicUrl(file);
  let response: Response;
  try {
    response = await fetch(file, { headers });
  } catch (cause) {
    throw unreachable(file, cause);
  }
  const { status, body } = response;
  if (!response.ok) throw statusError(file, status, what);
  if (body === null) {
    const message = `${url} answered without a body.`;
    throw new TokenbrookError('download-failed', message, { url, status });
  }
  return { name: url, bytes: contentLength(response), pieces: bodyPieces(body) };
}

/** The length of a file that is read later; `null` where the server does not say. */
export async function lengthOf(
  file: WireFile,
  headers: [string, string][],
): Promise<number | null> {
  if (typeof file !== 'string') return file.size;
  try {
    const response = await fetch(file, { method: 'HEAD', headers });
    return response.ok ? contentLength(response) : null;
  } catch {
    // Some servers refuse HEAD for files that they serve; the GET that follows decides.
    return null;
  }
}

/** Reads to the end, or fails where that comes too early. */
export async function readAll(file: OpenFile, push: Push): Promise<void> {
  let received = 0;
  const counted = (piece: Uint8Array): void | Promise<void> => {
    received += piece.byteLength;
    return push(piece);
  };
  await pump(file, counted, () => received);
  if (file.bytes !== null && received < file.bytes) {
    throw cutShort(file.name, received, file.bytes);
  }
}

type Push = (piece: Uint8Array) => void | Promise<void>;

async function pump(file: OpenFile, push: Push, received: () => number): Promise<void> {
  const { pieces } = file;
  try {
    for (;;) {
      const piece = await pieces.read().catch((cause: unknown) => {
        // What comes through storage has its own words for what goes wrong.
        if (cause instanceof TokenbrookError || cause instanceof Restart) throw cause;
        throw cutShort(file.name, received(), file.bytes, cause);
      });
      if (piece === undefined) return;
      // What the piece is in is used again by the next read.
      await push(piece);
    }
  } catch (error) {
    // Ends the transfer; the error that stopped it is the one to tell.
    pieces.cancel().catch(() => undefined);
    throw error;
  }
}
