// Bytes as a site that compresses its files once would serve them.
import { brotliCompressSync, constants } from 'node:zlib';

/** How many bytes these have after brotli at its best, which takes seconds. */
export function brotliBytes(bytes) {
  const params = {
    [constants.BROTLI_PARAM_QUALITY]: constants.BROTLI_MAX_QUALITY,
    [constants.BROTLI_PARAM_LGWIN]: constants.BROTLI_MAX_WINDOW_BITS,
    [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length,
  };
  return brotliCompressSync(bytes, { params }).length;
}
