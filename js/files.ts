// The files of a load, opened: through storage where there is any, else straight to the engine.

import { TokenbrookError, codeOf } from './errors.js';
import type { Meter } from './meter.js';
import { lengthOf, openPlain } from './plain-file.js';
import type { OpenFile } from './plain-file.js';
import type { WireFile } from './protocol.js';
import type { Store } from './store/store.js';
import type { StoredFile } from './store/stored-file.js';

export interface FilesOptions {
  files: readonly WireFile[];
  headers: [string, string][];
  /** In hex, for files whose digest the caller says. */
  sha256: readonly (string | undefined)[];
  /** `undefined`: nothing is kept. */
  store: Store | undefined;
}

/** The files of one attempt at a load. */
export class Files {
  readonly #options: FilesOptions;
  readonly #stored: (Promise<StoredFile> | undefined)[];
  readonly #first: string | undefined;

  constructor(options: FilesOptions, meter: Meter) {
    this.#options = options;
    const { files } = options;
    this.#first = files.find((file) => typeof file === 'string');
    this.#stored = files.map((file, part) => this.#startStored(file, part, meter));
  }

  get count(): number {
    return this.#options.files.length;
  }

  /** Lengths of the files behind the first, as far as they are known before they are read. */
  async lengths(): Promise<(number | null)[]> {
    const rest = this.#options.files.slice(1);
    return Promise.all(rest.map((file) => lengthOf(file, this.headersFor(file))));
  }

  async open(index: number, meter: Meter): Promise<OpenFile> {
    const file = this.#options.files[index];
    if (file === undefined) throw new Error('there is no such file');
    const stored = await this.#stored[index];
    if (stored === undefined) {
      const opened = await openPlain(file, this.headersFor(file));
      meter.know(index, opened.bytes);
      return opened;
    }
    const { name, bytes, isHere } = stored;
    if (isHere && bytes !== null) meter.stored(index, bytes);
    else meter.know(index, bytes);
    return { name, bytes, pieces: stored };
  }

  /** Whether the engine's taking of bytes is what there is to tell of a file's progress. */
  async isCounted(index: number): Promise<boolean> {
    return (await this.#stored[index])?.isHere !== false;
  }

  /** Resolves when all files are what they should be. */
  async verified(): Promise<void> {
    await Promise.all(this.#stored.map(async (file) => (await file)?.verified()));
  }

  /** Gives everything back. What the engine calls no model is not kept. */
  async close(error?: unknown): Promise<void> {
    const isNone = codeOf(error) === 'invalid-gguf';
    await Promise.allSettled(
      this.#stored.map(async (file) => {
        const stored = await file;
        await (isNone ? stored?.forget() : stored?.close());
      }),
    );
  }

  /** Secrets are for the server that the model's address names. */
  headersFor(file: WireFile): [string, string][] {
    const { headers } = this.#options;
    if (typeof file !== 'string' || this.#first === undefined) return [];
    return new URL(file).origin === new URL(this.#first).origin ? headers : [];
  }

  #startStored(file: WireFile, part: number, meter: Meter): Promise<StoredFile> | undefined {
    const { store, files, sha256 } = this.#options;
    const isKept = typeof file === 'string' && /^https?:/.test(file);
    if (store === undefined || !isKept || this.#first === undefined) return undefined;
    const opening = store.open({
      target: { url: file, headers: this.headersFor(file) },
      source: this.#first,
      part,
      parts: files.length,
      sha256: sha256[part],
      onNews: (news) => meter.news(part, news),
    });
    opening.catch(() => undefined);
    return opening;
  }
}

/** The error for a load of nothing. */
export function noFile(): TokenbrookError {
  return new TokenbrookError('invalid-option', 'There is no file to load.');
}
