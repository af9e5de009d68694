// What a stored file may fail with, in words.

import { TokenbrookError } from '../errors.js';

export function changed(url: string): TokenbrookError {
  const message = `${url} changed while it was fetched, again and again: load it later.`;
  return new TokenbrookError('download-failed', message, { url });
}

export function takenAway(url: string): TokenbrookError {
  const message = `${url} was deleted while it was fetched: load it again.`;
  return new TokenbrookError('download-failed', message, { url });
}

export function unreliable(url: string): TokenbrookError {
  const message =
    `What is stored of ${url} is damaged time and again: load it with \`cache: 'none'\`, ` +
    'and check the disk.';
  return new TokenbrookError('integrity-mismatch', message, { url });
}

export function mismatch(
  url: string,
  { wanted, actual }: { wanted: string; actual: string },
): TokenbrookError {
  const message =
    `${url} has the SHA-256 ${actual}, not ${wanted}, and had it twice: check \`sha256\` ` +
    'and the address.';
  return new TokenbrookError('integrity-mismatch', message, {
    url,
    expected: wanted,
    actual,
  });
}
