// Digests of segments. Browsers hash what they are given as a whole, and take memory for all of
// it each time: pieces of half a megabyte cost half as much as eight megabytes at once, and can be
// hashed as they come.

export const DIGEST_PIECE_BYTES = 512 << 10;

/** What stands for the bytes of a segment: the digest of its pieces' digests, of one its own. */
export async function segmentDigest(bytes: Uint8Array<ArrayBuffer>): Promise<string> {
  const pieces: Promise<ArrayBuffer>[] = [];
  for (let at = 0; at === 0 || at < bytes.byteLength; at += DIGEST_PIECE_BYTES) {
    pieces.push(digestPiece(bytes.subarray(at, at + DIGEST_PIECE_BYTES)));
  }
  return joinDigests(await Promise.all(pieces));
}

/** Of one piece; it may be written over at once. */
export function digestPiece(bytes: Uint8Array<ArrayBuffer>): Promise<ArrayBuffer> {
  return crypto.subtle.digest('SHA-256', bytes);
}

/** Of a segment whose pieces have these, in hex. */
export async function joinDigests(pieces: readonly ArrayBuffer[]): Promise<string> {
  const [first] = pieces;
  if (pieces.length === 1 && first !== undefined) return hex(first);
  const all = new Uint8Array(pieces.reduce((sum, { byteLength }) => sum + byteLength, 0));
  let at = 0;
  for (const piece of pieces) {
    all.set(new Uint8Array(piece), at);
    at += piece.byteLength;
  }
  return hex(await crypto.subtle.digest('SHA-256', all));
}

function hex(digest: ArrayBuffer): string {
  return Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, '0')).join('');
}
