// What the worker needs of the wasm module `engine.js`, written by wasm-bindgen beside it.
// Every failure that a caller may act on is an `Error` with a `code` of errors.ts; anything
// else that is thrown means that the engine is lost.

import type { EngineGenerateOptions } from './protocol.js';
import type { ChatMessage, EmbedOptions, GpuOptions, GpuReport, KvCacheFormat } from './types.js';
import type { Memory, ModelInfo } from './types.js';
import type { ScoreResult, Stats, TemplateOptions, Token } from './types.js';

export interface LoaderOptions {
  contextLength?: number;
  precision?: 'auto' | 'exact' | 'fast';
  backend?: 'auto' | 'cpu' | 'webgpu';
  kvCache?: KvCacheFormat;
  gpu?: GpuOptions;
  /** Of earlier loads. */
  gpuReports?: GpuReport[];
  /** What does not fit is not refused: the caller judges. */
  plans?: boolean;
  /** Why `cpu` is asked for, where it was not the caller who did. */
  backendReason?: string;
  /** One entry per file; `null` where the length is unknown. */
  fileBytes: (number | null)[];
}

export type StepResult =
  | { kind: 'prefill'; done: number; total: number }
  | { kind: 'token'; token: Token }
  | { kind: 'finished' };

export interface Embeddings {
  vectors: Float32Array<ArrayBuffer>[];
  /** Of all texts. */
  tokens: number;
}

export type EmbedStep = { done: number; total: number } | Embeddings;

export type ScoreStep = { done: number; total: number } | ScoreResult;

/** One request in the OpenAI dialect and its answer; see `src/wasm/dialect.rs`. */
export class Exchange {
  private constructor();
  readonly streams: boolean;
  head(): { status: number; headers: [string, string][] };
  next(): { input: string | ChatMessage[]; options: EngineGenerateOptions } | undefined;
  /** What the answer needs embedded, if it is about embeddings. */
  texts(): (string | number[])[] | undefined;
  embedded(vectors: Float32Array[], tokens: number): void;
  begin(): void;
  token(token: Token): void;
  finish(stats: Stats): void;
  /** `option`: the one that the failure is about. */
  fail(code: string, message: string, option?: string): void;
  take(): Uint8Array<ArrayBuffer>;
  free(): void;
}

/** A model before its weights are there; see `src/wasm/loader.rs`. */
export interface Sketch {
  architecture: string;
  name: string;
  parameters: number;
  weightsBytes: number;
  kvCacheBytes: number;
  maxContext: number;
  contextLength: number;
  /** The longest context that there is room for. */
  longestContext: number;
  /** What there is too little of. */
  shortage: { what: string; need: number; have: number } | null;
  backend: 'cpu' | 'webgpu';
  pace: { decodeMs: number; prefillMs: number } | null;
  /** What preparing found of a GPU. */
  gpu: (GpuReport & { isKnown: boolean }) | null;
}

export class Loader {
  private constructor();
  /** `tokenizer`: the bytes of a `tokenizer.json`. */
  static open(options: LoaderOptions, tokenizer?: Uint8Array): Promise<Loader>;
  push(bytes: Uint8Array): void;
  /** Types of the model whose kernels have other bits than their plain twins in this browser. */
  differingKernels(): string[];
  endFile(): void;
  /**
   * Finds the kernels of the model whose header is there, while its bytes go on arriving; there
   * may be nothing to find. Gives why `auto` has to take the CPU, if it has to.
   */
  prepare(onPhase: (phase: 'compile' | 'check') => void): Promise<string | undefined> | undefined;
  /** Why the CPU will run the model, if it will. */
  cpuReason?(): string | undefined;
  finish(): Promise<Engine>;
  /** What the header says; `undefined` for models of the compat engine. Takes a moment. */
  sketch(): Promise<Sketch | undefined>;
  free(): void;
  /** Whether the header of the first file is complete and accepted. */
  readonly hasHeader: boolean;
  readonly receivedBytes: number;
}

export type EngineInfo = Omit<ModelInfo, 'cache' | 'cacheReason' | 'threadsReason'>;

export class Engine {
  private constructor();
  /** All but what storage has to say. */
  info(): EngineInfo;
  memory(): Memory;
  tokenize(text: string, special: boolean): Uint32Array;
  detokenize(ids: Uint32Array): string;
  applyChatTemplate(messages: ChatMessage[], options?: TemplateOptions): string;
  start(input: string | ChatMessage[], options: EngineGenerateOptions): number;
  exchange(method: string, path: string, body: Uint8Array): Exchange;
  promptIds(id: number): Uint32Array;
  step(id: number, lookahead: number): Promise<StepResult>;
  end(id: number, reason: 'cancelled' | 'error' | null): Stats;
  startScore(input: string | Uint32Array): number;
  stepScore(id: number): Promise<ScoreStep>;
  startEmbed(texts: readonly (string | number[])[], options: EmbedOptions): number;
  stepEmbed(id: number): Promise<EmbedStep>;
  endEmbed(id: number): void;
  free(): void;
}

export default function init(options: { module_or_path: Response }): Promise<unknown>;
