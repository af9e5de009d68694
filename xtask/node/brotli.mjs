// Bytes as a site that compresses its files once would serve them.
import { brotliCompressSync, constants } from 'node:zlib';

/** A tenth of the time, for a tenth more bytes. */
export const QUICK = 9;

/** How many bytes these have after brotli, at its best by default, which takes seconds. */
export function brotliBytes(bytes, quality = constants.BROTLI_MAX_QUALITY) {
  const params = {
    [constants.BROTLI_PARAM_QUALITY]: quality,
    [constants.BROTLI_PARAM_LGWIN]: constants.BROTLI_MAX_WINDOW_BITS,
    [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length,
  };
  return brotliCompressSync(bytes, { params }).length;
}
