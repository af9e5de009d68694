// Bytes of a body or a Blob, piece by piece, none longer than a buffer that is used again.

/** One buffer of this size goes back and forth between the browser and the engine. */
export const PIECE_BYTES = 1 << 20;

export interface Pieces {
  /** The next bytes, good until the next read; `undefined` at the end. */
  read(): Promise<Uint8Array | undefined>;
  cancel(): Promise<void>;
}

/** Reads into one reused buffer where the body is a byte stream, else takes its chunks. */
export function bodyPieces(
  body: ReadableStream<Uint8Array<ArrayBuffer>>,
  pieceBytes = PIECE_BYTES,
): Pieces {
  let reader: ReadableStreamBYOBReader;
  try {
    reader = body.getReader({ mode: 'byob' });
  } catch {
    const plain = body.getReader();
    return {
      read: async () => (await plain.read()).value,
      cancel: () => plain.cancel(),
    };
  }
  let buffer = new ArrayBuffer(pieceBytes);
  return {
    read: async () => {
      const { done, value } = await reader.read(new Uint8Array(buffer));
      if (done || value === undefined) return undefined;
      buffer = value.buffer;
      return value;
    },
    cancel: () => reader.cancel(),
  };
}

/** Slices, one read each: they end and fail one by one, where a stream may stall as a whole. */
export function blobPieces(blob: Blob): Pieces {
  let offset = 0;
  let last: ArrayBuffer | undefined;
  const read = async (): Promise<Uint8Array | undefined> => {
    if (last !== undefined) discard(last);
    last = undefined;
    if (offset >= blob.size) return undefined;
    const slice = blob.slice(offset, offset + PIECE_BYTES);
    offset += slice.size;
    last = await slice.arrayBuffer();
    return new Uint8Array(last);
  };
  const cancel = async (): Promise<void> => {
    offset = blob.size;
  };
  return { read, cancel };
}

/** Gives memory back now, where the browser can: collections come late for large buffers. */
export function discard(buffer: ArrayBuffer): void {
  (buffer as ArrayBuffer & { transfer?: (length: number) => ArrayBuffer }).transfer?.(0);
}
