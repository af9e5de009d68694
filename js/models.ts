// The models that are kept in this origin's storage.

import { invalidOption } from './errors.js';
import { openRoot } from './store/folder.js';
import { WebLocks } from './store/locks.js';
import { Shelf } from './store/manage.js';
import type { StoredModel } from './types.js';

/** `undefined` where there is no storage for models, and so no model. */
async function shelf(): Promise<Shelf | undefined> {
  const { navigator } = globalThis as { navigator?: Navigator };
  if (navigator?.storage?.getDirectory === undefined || navigator.locks === undefined) {
    return undefined;
  }
  try {
    return new Shelf(await openRoot(), new WebLocks(navigator.locks));
  } catch {
    return undefined;
  }
}

export const models = {
  /** What is there, the last used first. */
  async list(): Promise<StoredModel[]> {
    return (await (await shelf())?.list()) ?? [];
  },

  /**
   * Removes a model, by an address that `load` takes or that `list` gives; resolves to whether
   * there was one. A load that is fetching it ends with `download-failed`.
   */
  async delete(source: string | URL): Promise<boolean> {
    if (typeof source !== 'string' && !(source instanceof URL)) {
      throw invalidOption('source', 'the address of a model');
    }
    const base = globalThis.document?.baseURI ?? globalThis.location?.href;
    return (await (await shelf())?.delete(String(source), base)) ?? false;
  },

  /** Removes what was not used for longest until the rest takes `maxBytes` at most. */
  async evict({ maxBytes }: { maxBytes: number }): Promise<StoredModel[]> {
    if (!(maxBytes >= 0)) throw invalidOption('maxBytes', 'a number of bytes');
    return (await (await shelf())?.evict(maxBytes)) ?? [];
  },

  /** Asks the browser to keep this origin's storage when it is short of room. */
  async persist(): Promise<boolean> {
    const { navigator } = globalThis as { navigator?: Navigator };
    return (await navigator?.storage?.persist?.()) ?? false;
  },
};
