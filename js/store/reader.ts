// Closed segments, read and checked one ahead of whoever takes them.

import type { Folder } from './folder.js';
import { segmentLength, segmentName } from './journal.js';
import type { Journal } from './journal.js';
import { sha256 } from './vault.js';

/** What is in storage is not what was put there. */
export class Damaged extends Error {
  readonly index: number;

  constructor(index: number) {
    super(`segment ${index} is damaged`);
    this.index = index;
  }
}

/** The bytes of a closed segment. Throws `Damaged` where they are not those of its digest. */
export async function readSegment(
  folder: Folder,
  journal: Readonly<Journal>,
  index: number,
): Promise<Uint8Array<ArrayBuffer>> {
  const { segments, generation } = journal;
  const digest = segments[index];
  let read: Uint8Array<ArrayBuffer> | undefined;
  try {
    const blob = await folder.blob(segmentName(generation, index));
    if (blob !== undefined) read = new Uint8Array(await blob.arrayBuffer());
  } catch {
    // It was changed or removed under our hands.
  }
  const isWhole = read?.byteLength === segmentLength(journal, index);
  if (read === undefined || !isWhole || (await sha256(read)) !== digest) throw new Damaged(index);
  return read;
}

/** Gives memory back now, where the browser can: collections come late for large buffers. */
export function discard(bytes: Uint8Array<ArrayBuffer>): void {
  const { buffer } = bytes;
  (buffer as ArrayBuffer & { transfer?: (length: number) => ArrayBuffer }).transfer?.(0);
}
