// What is kept, for people to look at and to clear away.

import { publicUrl } from '../address.js';
import { invalidOption } from '../errors.js';
import { durableBytes, readJournal } from './journal.js';
import type { Journal } from './journal.js';
import type { Locks } from './locks.js';
import type { Root } from './folder.js';
import { expandShorthand, expandSplit, keyOf } from './source.js';
import type { StoredModel } from '../types.js';

interface Kept {
  key: string;
  journal: Journal;
}

/** The models of this origin's storage. */
export class Shelf {
  readonly #root: Root;
  readonly #locks: Locks;

  constructor(root: Root, locks: Locks) {
    this.#root = root;
    this.#locks = locks;
  }

  /** The last used first. */
  async list(): Promise<StoredModel[]> {
    const models = new Map<string, Kept[]>();
    for (const kept of await this.#kept()) {
      const { source } = kept.journal;
      models.set(source, [...(models.get(source) ?? []), kept]);
    }
    const list = [...models].map(([source, files]) => describeModel(source, files));
    return list.sort((a, b) => b.lastUsed - a.lastUsed);
  }

  /** Removes a model, whoever is about to fetch it; false where there is none. */
  async delete(source: string, base: string | undefined): Promise<boolean> {
    const keys = new Set<string>();
    const address = addressOf(source, base);
    for (const file of expandSplit(address)) keys.add(await keyOf(file));
    const shown = publicUrl(address);
    let isFound = false;
    for (const { key, journal } of await this.#kept()) {
      if (!keys.has(key) && journal.source !== shown) continue;
      isFound = true;
      await this.#remove(key);
    }
    return isFound;
  }

  /** Removes what was not used for longest until the rest takes no more than `maxBytes`. */
  async evict(maxBytes: number): Promise<StoredModel[]> {
    const list = await this.list();
    let total = list.reduce((sum, { bytes }) => sum + bytes, 0);
    const gone: StoredModel[] = [];
    for (const model of list.reverse()) {
      if (total <= maxBytes) break;
      await this.delete(model.source, undefined);
      total -= model.bytes;
      gone.push(model);
    }
    return gone;
  }

  async #kept(): Promise<Kept[]> {
    const kept: Kept[] = [];
    for (const key of await this.#root.keys()) {
      const folder = await this.#root.existing(key);
      const found = folder && (await readJournal(folder));
      if (found !== undefined) kept.push({ key, journal: found.journal });
    }
    return kept;
  }

  async #remove(key: string): Promise<void> {
    const release = await this.#locks.steal(key);
    try {
      await this.#root.remove(key);
    } finally {
      release();
    }
  }
}

function describeModel(source: string, files: Kept[]): StoredModel {
  const journals = files.map(({ journal }) => journal);
  const parts = Math.max(...journals.map(({ parts }) => parts));
  const isWhole = journals.length >= parts && journals.every(({ state }) => state === 'verified');
  const lengths = journals.map(({ bytes }) => bytes);
  const isKnown = journals.length >= parts && !lengths.includes(null);
  return {
    source,
    bytes: journals.reduce((sum, journal) => sum + durableBytes(journal), 0),
    totalBytes: isKnown ? lengths.reduce<number>((sum, bytes) => sum + (bytes ?? 0), 0) : null,
    state: isWhole ? 'verified' : 'partial',
    lastUsed: Math.max(...journals.map(({ lastUsed }) => lastUsed)),
  };
}

function addressOf(source: string, base: string | undefined): string {
  try {
    return new URL(expandShorthand(source), base).href;
  } catch {
    throw invalidOption('source', 'the address of a model');
  }
}
