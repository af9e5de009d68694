// Bytes to an engine, or to the other one where it turns out that the model is one of its.

import type { Engine, Loader } from './engine.js';

export interface FeedOptions {
  loader: Loader;
  /** A loader for the CPU, and why. */
  onCpu: (reason: string) => Promise<Loader>;
  /** A loader of the other engine. */
  compat: () => Promise<Loader>;
  /** A loader of the engine that runs everywhere, for kernels that do not compute right here. */
  plain: (differing: string[]) => Promise<Loader>;
  /** The backend is chosen when there is a header. */
  isAuto: boolean;
  onPhase: (phase: 'compile' | 'check') => void;
}

/**
 * Bytes to a loader, or, where it is found that another has to take this model, to that one, from
 * the first byte on: until that is known, what was pushed is kept. It is known with the header.
 */
export class Feed {
  #loader: Loader;
  readonly #options: FeedOptions;
  #kept: Uint8Array[] | undefined = [];
  /** The loader has become an engine, or failed to. */
  #isFinished = false;
  /** Kernels being found while bytes arrive. */
  #finding: Promise<string | undefined> | undefined;

  constructor(options: FeedOptions) {
    this.#loader = options.loader;
    this.#options = options;
  }

  async push(piece: Uint8Array): Promise<void> {
    // The piece's buffer is used again.
    this.#kept?.push(piece.slice());
    await this.#attempt(() => this.#loader.push(piece));
    if (this.#kept !== undefined && this.#loader.hasHeader) await this.#prepare();
  }

  async endFile(): Promise<void> {
    await this.#attempt(() => this.#loader.endFile(), () => this.#loader.endFile());
  }

  async finish(): Promise<Engine> {
    await this.#finding;
    this.#isFinished = true;
    return this.#loader.finish();
  }

  /** Gives up. */
  free(): void {
    this.#finding?.catch(() => undefined);
    if (!this.#isFinished) this.#loader.free();
  }

  async #prepare(): Promise<void> {
    const differing = this.#differing();
    if (differing.length > 0) await this.#switch(await this.#options.plain(differing));
    const finding = this.#loader.prepare(this.#options.onPhase);
    if (this.#options.isAuto) {
      const refusal = await finding;
      if (refusal !== undefined) await this.#toCpu(refusal);
    } else {
      // `finish` hears of a failure; until then nobody waits.
      finding?.catch(() => undefined);
      this.#finding = finding;
    }
    this.#kept = undefined;
  }

  async #attempt(work: () => void, again: () => void = () => undefined): Promise<void> {
    try {
      work();
    } catch (error) {
      if (this.#kept === undefined) throw error;
      if (wantsOther(error)) await this.#switch(await this.#options.compat());
      else if (this.#options.isAuto && isGpuShort(error)) await this.#toCpu(error.message);
      else throw error;
      again();
    }
  }

  async #toCpu(reason: string): Promise<void> {
    await this.#switch(await this.#options.onCpu(reason));
  }

  async #switch(loader: Loader): Promise<void> {
    const pieces = this.#kept ?? [];
    this.#kept = undefined;
    this.#take(loader, pieces);
    const differing = this.#differing();
    if (differing.length > 0) this.#take(await this.#options.plain(differing), pieces);
  }

  #take(loader: Loader, pieces: Uint8Array[]): void {
    this.#loader.free();
    this.#loader = loader;
    for (const piece of pieces) loader.push(piece);
  }

  /** Types that this loader's engine would compute wrongly, once the model's are known. */
  #differing(): string[] {
    return this.#loader.hasHeader ? this.#loader.differingKernels() : [];
  }
}

/** Whether the engine refuses the model because the other one runs it. */
function wantsOther(error: unknown): boolean {
  return typeof error === 'object' && error !== null && 'compat' in error && error.compat === true;
}

/** Whether the engine refuses the model because a GPU has no room for it. */
function isGpuShort(error: unknown): error is Error {
  return error instanceof Error && 'onGpu' in error && error.onGpu === true;
}
