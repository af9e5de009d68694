// Whether there is room for a model.

import { TokenbrookError } from '../errors.js';

/** What the browser says of this origin's storage. */
export type Estimate = () => Promise<{ quota?: number | undefined; usage?: number | undefined }>;

/** Throws `storage-full` where so many more bytes will not fit. */
export async function checkRoom(estimate: Estimate, need: number): Promise<void> {
  const have = await room(estimate);
  if (have !== null && need > have) throw fullError(need, have);
}

/** The error for a write that found no room. */
export async function storageFull(
  estimate: Estimate,
  need: number,
  cause: unknown,
): Promise<TokenbrookError> {
  const have = (await room(estimate)) ?? 0;
  // A disk may be full before the quota is.
  return fullError(need, have < need ? have : 0, cause);
}

/** Bytes that this origin may still store; `null` where nobody says. */
export async function room(estimate: Estimate): Promise<number | null> {
  try {
    const { quota, usage } = await estimate();
    return quota === undefined ? null : Math.max(quota - (usage ?? 0), 0);
  } catch {
    return null;
  }
}

function fullError(need: number, have: number, cause?: unknown): TokenbrookError {
  const message =
    `Storage has room for ${have} bytes, and the model needs ${need} more: delete others ` +
    "(`models.delete`), or load it with `cache: 'none'` to run from memory this time.";
  return new TokenbrookError('storage-full', message, { cause, need, have });
}
