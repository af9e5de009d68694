// The life of the loaded model: one at a time, loaded, cancelled, lost, loaded again.
import { load, type Model } from 'tokenbrook';
import { describeFailure, type Failure } from './format.js';
import type { LoadView } from './load-view.js';
import type { ModelChoice } from './models.js';
import { loadOptions, type Settings } from './settings.js';

/** Where a model is kept: `none` runs it from memory. */
export type Cache = 'opfs' | 'none';

/** Codes after which the model answers no more and must be loaded again. */
const FATAL: readonly string[] = ['internal', 'disposed'];

export class ModelControl {
  model: Model | null = null;
  /** What was chosen last: loading it again needs no new choice. */
  choice: ModelChoice | null = null;
  /** Why the last load ended without a model; null where it was cancelled or went well. */
  failure: Failure | null = null;
  #abort: AbortController | null = null;
  #loadedWith = '';
  readonly #view: LoadView;
  readonly #settings: Settings;
  readonly #onChange: () => void;

  constructor(view: LoadView, settings: Settings, onChange: () => void) {
    this.#view = view;
    this.#settings = settings;
    this.#onChange = onChange;
  }

  get isLoading(): boolean {
    return this.#abort !== null;
  }

  /** Whether the settings of loading differ from those that the model was loaded with. */
  get isOutdated(): boolean {
    return this.model !== null && this.#loadedWith !== this.#wanted();
  }

  /** Loads a model in place of the present one. A load under way gives way to it. */
  async load(choice: ModelChoice, cache: Cache = 'opfs'): Promise<Model | null> {
    this.#abort?.abort();
    const abort = new AbortController();
    const previous = this.model;
    this.#abort = abort;
    this.model = null;
    this.choice = choice;
    this.failure = null;
    this.#view.start(choice.name, choice.bytes);
    this.#onChange();
    try {
      // One at a time: two models may not fit.
      await previous?.dispose();
      const model = await this.#fetch(choice, abort, cache);
      if (this.#abort === abort) this.model = model;
    } catch (thrown) {
      if (this.#abort === abort && !abort.signal.aborted) this.failure = describeFailure(thrown);
    }
    // A newer load owns the card by now.
    if (this.#abort !== abort) return null;
    this.#abort = null;
    this.#view.end();
    this.#onChange();
    return this.model;
  }

  /** The model, loaded again if it was lost; null where there is none to be had. */
  async ensure(): Promise<Model | null> {
    if (this.model !== null || this.choice === null) return this.model;
    return this.load(this.choice);
  }

  cancel(): void {
    this.#abort?.abort();
  }

  /** Gives up a model whose failure says that it cannot go on. */
  noteFailure(failure: Failure): void {
    if (!FATAL.includes(failure.code) || this.model === null) return;
    const lost = this.model;
    this.model = null;
    // It has failed already; how its disposal ends changes nothing.
    lost.dispose().catch(() => undefined);
    this.#onChange();
  }

  async #fetch(choice: ModelChoice, abort: AbortController, cache: Cache): Promise<Model> {
    const { signal } = abort;
    signal.throwIfAborted();
    this.#loadedWith = this.#wanted();
    const model = await load(choice.source, {
      ...loadOptions(this.#settings),
      cache,
      signal,
      onProgress: (progress) => {
        if (!signal.aborted) this.#view.report(progress);
      },
    });
    if (signal.aborted) {
      await model.dispose();
      signal.throwIfAborted();
    }
    return model;
  }

  #wanted(): string {
    return JSON.stringify(loadOptions(this.#settings));
  }
}
