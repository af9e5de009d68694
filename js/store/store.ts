// Where models are kept: the browser's own file system, as far as there is one.

import { publicUrl } from '../address.js';
import { describe } from '../errors.js';
import { openRoot } from './folder.js';
import type { Target } from './http.js';
import { WebLocks } from './locks.js';
import type { News } from './locks.js';
import { Lanes } from './patience.js';
import { startRemoteReader } from './remote-reader.js';
import { findSha256, keyOf } from './source.js';
import { StoredFile } from './stored-file.js';
import type { StoreContext } from './stored-file.js';
import type { Tuning } from './tuning.js';
import { startHasher } from './verifier.js';

export interface StoreFile {
  target: Target;
  /** Address of the model's first file. */
  source: string;
  part: number;
  parts: number;
  /** In hex; `undefined` where the caller does not say. */
  sha256: string | undefined;
  onNews: (news: News) => void;
}

/** Opens files of one load. */
export class Store {
  readonly #context: StoreContext;

  constructor(context: StoreContext) {
    this.#context = context;
  }

  async open({ target, source, part, parts, sha256, onNews }: StoreFile): Promise<StoredFile> {
    const isPinned = sha256 !== undefined;
    return StoredFile.open(this.#context, {
      key: await keyOf(target.url),
      target,
      identity: { source: publicUrl(source), url: publicUrl(target.url), part, parts },
      sha256: isPinned ? Promise.resolve(sha256) : findSha256(target),
      isPinned,
      onNews,
    });
  }
}

/** The store, or why there is none here. */
export async function openStore(tuning: Tuning): Promise<Store | string> {
  const { navigator } = globalThis as { navigator?: Navigator };
  if (navigator?.storage?.getDirectory === undefined || navigator.locks === undefined) {
    return globalThis.isSecureContext === false
      ? 'there is no storage for models in an insecure context: serve the page over HTTPS'
      : 'this browser has no storage for models';
  }
  const { storage, locks } = navigator;
  try {
    return new Store({
      root: await openRoot(),
      locks: new WebLocks(locks),
      lanes: new Lanes(tuning.connections),
      tuning,
      estimate: () => storage.estimate(),
      startHasher,
      startReader: startRemoteReader,
    });
  } catch (error) {
    return `storage cannot be used here, as in private windows (${describe(error).message})`;
  }
}
