// Shares one engine between the calls of a model, in the worker.
//
// Calls queue in order. A generation keeps the engine while it has credit, which its reader
// grants by reading. Without credit it keeps it for GRACE_MS more, so that a reader who takes a
// moment does not pay for a switch; then the next call that can run gets the engine, and the
// suspended one goes to the end of the queue. The engine prefills again what it lost meanwhile.
// Nothing else touches the engine during a step, and nothing polls when no call can run.
//
// Long because every kind of call is one job in the same queue, and whatever ends a job (its last
// token, a cancel, a failure, a lost device) has to see the same state.

import type { Embeddings, Engine } from './engine.js';
import { codeOf, toWire } from './errors.js';
import type { WireError } from './errors.js';
import { ExchangeOutput } from './exchange.js';
import type { Call, CallValue, Counters, EngineGenerateOptions, FromWorker } from './protocol.js';
import type { WireRequest } from './protocol.js';
import type { ChatMessage, EmbedOptions, ScoreResult, Stats, Token } from './types.js';

/** How long a generation without credit keeps the engine from a call that could run, ms. */
export const GRACE_MS = 100;

/** The part of the engine that is scheduled. */
export type ScheduledEngine = Pick<
  Engine,
  | 'memory'
  | 'tokenize'
  | 'detokenize'
  | 'applyChatTemplate'
  | 'start'
  | 'promptIds'
  | 'step'
  | 'end'
  | 'exchange'
  | 'startScore'
  | 'stepScore'
  | 'startEmbed'
  | 'stepEmbed'
  | 'endEmbed'
  | 'free'
>;

export interface SchedulerOptions {
  engine: ScheduledEngine;
  /** Loads the model again, for a device that was lost. */
  reload: () => Promise<ScheduledEngine>;
  post: (message: FromWorker) => void;
  /** Worker clock + offset = page clock, ms. */
  clockOffsetMs: number;
  /** Lets waiting messages in; resolves in a later task. */
  turn: () => Promise<void>;
}

/** What a generation starts from. */
export interface Start {
  input: string | ChatMessage[];
  options: EngineGenerateOptions;
}

/** Where the news of a generation goes. */
export interface Output {
  started(promptIds: number[]): void;
  token(token: Token, counters: Counters): void;
  /** Gives the generation that goes on with the same id and credit, if there is one. */
  finished(stats: Stats): Start | undefined;
  failed(error: WireError, stats: Stats | null): void;
}

interface Generation {
  kind: 'generation';
  id: number;
  engineId: number;
  calledAtMs: number;
  output: Output;
  /** Tokens that the reader wants in all. */
  credit: number;
  /** Tokens of the generations before this one that had the same id. */
  earlier: number;
  made: number;
  maxTokens: number;
  /** Page clock. */
  firstStepAtMs: number | undefined;
  firstTokenAtMs: number | undefined;
  firstTextAtMs: number | undefined;
}

/** Where the vectors of an embedding go. */
export interface EmbedOutput {
  embedded(embeddings: Embeddings): void;
  failed(error: WireError): void;
  /** Nobody wants them any more. */
  cancelled(): void;
}

interface Score {
  kind: 'score';
  id: number;
  engineId: number;
}

interface Embed {
  kind: 'embed';
  id: number;
  engineId: number;
  output: EmbedOutput;
}

type Job = Generation | Score | Embed;

/** What arrived and waits for the end of the step. */
interface Request {
  run: () => void;
  needsEngine: boolean;
}

export class Scheduler {
  #engine: ScheduledEngine;
  readonly #reload: () => Promise<ScheduledEngine>;
  /** Why the engine's device is gone; the next request that needs one loads the model anew. */
  #lost: unknown;
  readonly #post: (message: FromWorker) => void;
  readonly #clockOffsetMs: number;
  readonly #turn: () => Promise<void>;
  /** Requests that arrived and wait for the end of the step. */
  readonly #inbox: Request[] = [];
  /** In queue order. */
  #jobs: Job[] = [];
  #current: Job | undefined;
  #starvedAtMs: number | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #running = false;
  #crashed = false;

  constructor(options: SchedulerOptions) {
    this.#engine = options.engine;
    this.#reload = options.reload;
    this.#post = options.post;
    this.#clockOffsetMs = options.clockOffsetMs;
    this.#turn = options.turn;
  }

  call(id: number, call: Call): void {
    this.#enqueue(() => {
      this.#answer(id, () => this.#post({ type: 'result', id, value: this.#perform(call) }));
    });
  }

  score(id: number, input: string | Uint32Array): void {
    this.#enqueue(() => {
      this.#answer(id, () => {
        this.#jobs.push({ kind: 'score', id, engineId: this.#engine.startScore(input) });
      });
    });
  }

  embed(id: number, texts: string[], options: EmbedOptions): void {
    const output: EmbedOutput = {
      embedded: ({ vectors }) => this.#post({ type: 'result', id, value: vectors }),
      failed: (error) => this.#post({ type: 'error', id, error }),
      cancelled: () => undefined,
    };
    this.#enqueue(() => this.#startEmbed(id, texts, options, output));
  }

  generate(
    id: number,
    input: string | ChatMessage[],
    options: EngineGenerateOptions,
    calledAtMs: number,
  ): void {
    const output: Output = {
      started: (promptIds) => this.#post({ type: 'started', id, promptIds }),
      token: (token, counters) => this.#post({ type: 'token', id, token, counters }),
      finished: (stats) => {
        this.#post({ type: 'finished', id, stats });
        return undefined;
      },
      failed: (error, stats) => this.#post({ type: 'failed', id, error, stats }),
    };
    this.#enqueue(() => {
      this.#start({ input, options }, { id, calledAtMs, output, credit: 0, earlier: 0 });
    });
  }

  exchange(id: number, { method, path, body }: WireRequest, calledAtMs: number): void {
    this.#enqueue(() => {
      const exchange = this.#engine.exchange(method, path, body);
      const output = new ExchangeOutput(id, exchange, this.#post);
      const texts = exchange.texts();
      if (texts !== undefined) return this.#startEmbed(id, texts, {}, output);
      const start = output.open();
      if (start === undefined) return;
      this.#start(start, { id, calledAtMs, output, credit: output.credit, earlier: 0 });
    });
  }

  credit(id: number, total: number): void {
    this.#enqueue(() => {
      const job = this.#generation(id);
      if (job !== undefined) job.credit = Math.max(job.credit, total);
    }, false);
  }

  cancel(id: number): void {
    this.#enqueue(() => {
      const job = this.#jobs.find((other) => other.id === id);
      if (job?.kind === 'generation') this.#finish(job, 'cancelled');
      if (job?.kind === 'embed') {
        this.#endEmbed(job);
        job.output.cancelled();
      }
    }, false);
  }

  #startEmbed(
    id: number,
    texts: readonly (string | number[])[],
    options: EmbedOptions,
    output: EmbedOutput,
  ): void {
    try {
      const engineId = this.#engine.startEmbed(texts, options);
      this.#jobs.push({ kind: 'embed', id, engineId, output });
    } catch (error) {
      if (codeOf(error) === undefined) throw error;
      output.failed(toWire(error));
    }
  }

  #start(
    { input, options }: Start,
    call: Pick<Generation, 'id' | 'calledAtMs' | 'output' | 'credit' | 'earlier'>,
  ): void {
    try {
      const engineId = this.#engine.start(input, options);
      const job: Generation = {
        ...call,
        kind: 'generation',
        engineId,
        made: 0,
        maxTokens: options.maxTokens ?? Number.POSITIVE_INFINITY,
        firstStepAtMs: undefined,
        firstTokenAtMs: undefined,
        firstTextAtMs: undefined,
      };
      // What goes on keeps its place in the queue.
      if (call.earlier > 0) this.#jobs.unshift(job);
      else this.#jobs.push(job);
      call.output.started(Array.from(this.#engine.promptIds(engineId)));
    } catch (error) {
      if (codeOf(error) === undefined) throw error;
      call.output.failed(toWire(error), null);
    }
  }

  #enqueue(run: () => void, needsEngine = true): void {
    if (this.#crashed) return;
    this.#inbox.push({ run, needsEngine });
    this.#wake();
  }

  #wake(): void {
    if (this.#running || this.#crashed) return;
    this.#running = true;
    void this.#run();
  }

  async #run(): Promise<void> {
    try {
      for (;;) {
        for (let request = this.#inbox.shift(); request; request = this.#inbox.shift()) {
          if (request.needsEngine && this.#lost !== undefined) await this.#rebuild();
          request.run();
        }
        const job = this.#next();
        if (job === undefined) break;
        await this.#step(job);
        await this.#turn();
      }
      this.#running = false;
    } catch (error) {
      this.#crash(error);
    }
  }

  /** Ends what ran on a lost device; what it made stays with its readers. */
  #lose(error: unknown): void {
    this.#lost = error;
    for (const job of this.#jobs) this.#fail(job, error);
  }

  /** Requests that come before the model is there again end as the ones before them. */
  async #rebuild(): Promise<void> {
    try {
      const engine = await this.#reload();
      this.#engine.free();
      this.#engine = engine;
      this.#lost = undefined;
    } catch (error) {
      this.#lost = error;
    }
  }

  #fail(job: Job, error: unknown): void {
    switch (job.kind) {
      case 'generation':
        return job.output.failed(toWire(error), this.#end(job, 'error'));
      case 'score':
        this.#remove(job);
        return this.#post({ type: 'error', id: job.id, error: toWire(error) });
      case 'embed':
        this.#endEmbed(job);
        return job.output.failed(toWire(error));
    }
  }

  /** After a failed step: what the caller may act on ends the job, all else the engine. */
  #stepFailed(job: Job, error: unknown): void {
    const code = codeOf(error);
    if (code === undefined) throw error;
    if (code === 'device-lost') this.#lose(this.#lost ?? error);
    else this.#fail(job, error);
  }

  /** The job that may step now; `undefined` when none can or the grace is not over. */
  #next(): Job | undefined {
    const current = this.#current;
    if (current !== undefined && isReady(current)) {
      this.#starvedAtMs = undefined;
      return current;
    }
    const waiting = this.#jobs.find((job) => job !== current && isReady(job));
    if (current !== undefined) {
      this.#starvedAtMs ??= performance.now();
      if (waiting === undefined) return undefined;
      const leftMs = this.#starvedAtMs + GRACE_MS - performance.now();
      if (leftMs > 0) {
        this.#wakeIn(leftMs);
        return undefined;
      }
      this.#jobs = [...this.#jobs.filter((job) => job !== current), current];
    }
    this.#starvedAtMs = undefined;
    this.#current = waiting;
    return waiting;
  }

  #wakeIn(ms: number): void {
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      this.#wake();
    }, Math.ceil(ms));
  }

  #step(job: Job): Promise<void> {
    switch (job.kind) {
      case 'generation':
        return this.#stepGeneration(job);
      case 'score':
        return this.#stepScore(job);
      case 'embed':
        return this.#stepEmbed(job);
    }
  }

  async #stepGeneration(job: Generation): Promise<void> {
    job.firstStepAtMs ??= this.#now();
    try {
      // Tokens that the reader has asked for may be sampled before the first is read.
      const wanted = job.earlier + job.made < job.credit ? job.credit - job.earlier - job.made : 1;
      const result = await this.#engine.step(job.engineId, wanted);
      if (result.kind === 'token') this.#deliver(job, result.token);
      else if (result.kind === 'finished') this.#finish(job, null);
    } catch (error) {
      this.#stepFailed(job, error);
    }
  }

  #deliver(job: Generation, made: Token): void {
    const token = { ...made, atMs: made.atMs + this.#clockOffsetMs };
    job.made += 1;
    job.firstTokenAtMs ??= token.atMs;
    if (token.text !== '') job.firstTextAtMs ??= token.atMs;
    // The first token comes out of the prefill.
    const counters = { decodeSteps: job.made - 1, queueMs: this.#queueMs(job) };
    job.output.token(token, counters);
  }

  async #stepScore(job: Score): Promise<void> {
    try {
      const result = await this.#engine.stepScore(job.engineId);
      if (!('ids' in result)) return;
      this.#remove(job);
      this.#post({ type: 'result', id: job.id, value: plainScore(result) });
    } catch (error) {
      this.#stepFailed(job, error);
    }
  }

  async #stepEmbed(job: Embed): Promise<void> {
    try {
      const result = await this.#engine.stepEmbed(job.engineId);
      if (!('vectors' in result)) return;
      this.#remove(job);
      job.output.embedded(result);
    } catch (error) {
      this.#stepFailed(job, error);
    }
  }

  #endEmbed(job: Embed): void {
    this.#remove(job);
    this.#engine.endEmbed(job.engineId);
  }

  #perform(call: Call): CallValue {
    switch (call.method) {
      case 'memory':
        return this.#engine.memory();
      case 'tokenize':
        return Array.from(this.#engine.tokenize(call.text, call.special));
      case 'detokenize':
        return this.#engine.detokenize(call.ids);
      case 'applyChatTemplate':
        return this.#engine.applyChatTemplate(call.messages, call.options);
    }
  }

  /** Runs a request whose failure belongs to call `id`, unless the engine is lost. */
  #answer(id: number, request: () => void): void {
    try {
      request();
    } catch (error) {
      if (codeOf(error) === undefined) throw error;
      this.#post({ type: 'error', id, error: toWire(error) });
    }
  }

  #finish(job: Generation, reason: 'cancelled' | null): void {
    const next = job.output.finished(this.#end(job, reason));
    if (next !== undefined) this.#start(next, { ...job, earlier: job.earlier + job.made });
  }

  #end(job: Generation, reason: 'cancelled' | 'error' | null): Stats {
    this.#remove(job);
    const stats = this.#engine.end(job.engineId, reason);
    const since = (atMs: number | undefined) => (atMs === undefined ? null : atMs - job.calledAtMs);
    return {
      ...stats,
      itlMs: Array.from(stats.itlMs),
      queueMs: this.#queueMs(job),
      ttftMs: since(job.firstTokenAtMs),
      firstTextMs: since(job.firstTextAtMs),
    };
  }

  #queueMs(job: Generation): number {
    return Math.max(0, (job.firstStepAtMs ?? this.#now()) - job.calledAtMs);
  }

  #remove(job: Job): void {
    this.#jobs = this.#jobs.filter((other) => other !== job);
    if (this.#current !== job) return;
    this.#current = undefined;
    this.#starvedAtMs = undefined;
  }

  #generation(id: number): Generation | undefined {
    const job = this.#jobs.find((other) => other.kind === 'generation' && other.id === id);
    return job?.kind === 'generation' ? job : undefined;
  }

  #now(): number {
    return performance.now() + this.#clockOffsetMs;
  }

  #crash(error: unknown): void {
    this.#crashed = true;
    clearTimeout(this.#timer);
    this.#post({ type: 'crashed', error: toWire(error) });
  }
}

/** A generation that made all it may needs no credit for the step that only ends it. */
function isReady(job: Job): boolean {
  if (job.kind !== 'generation') return true;
  return job.earlier + job.made < job.credit || (job.made > 0 && job.made >= job.maxTokens);
}

function plainScore(score: ScoreResult): ScoreResult {
  return {
    ids: Array.from(score.ids),
    top1: Array.from(score.top1),
    top1Logprob: Array.from(score.top1Logprob),
    nextLogprob: Array.from(score.nextLogprob),
  };
}
