// The one way in which a file under way takes back what it gave.

import type { TokenbrookError } from '../errors.js';

/** The load has to begin anew: bytes that the engine may have had are not those of the file. */
export class Restart extends Error {
  /** What to say when it does not help. */
  readonly failure: TokenbrookError;

  constructor(failure: TokenbrookError) {
    super(failure.message);
    this.failure = failure;
  }
}
