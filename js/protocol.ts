// Messages between the page's face and the worker. Ids are given out by the face.
// A token crosses as one message: a batch would make every reader wait for the slowest.

import type { WireError } from './errors.js';
import type { ChatMessage, EmbedOptions, GenerateOptions, LoadOptions } from './types.js';
import type { LoadPlan, Memory, ModelInfo, Progress, ScoreResult, Stats, TemplateOptions, Token } from './types.js';

/** A file as it goes to the worker: an absolute address or its bytes. */
export type WireFile = string | Blob;

export type EngineSettings = Pick<
  LoadOptions,
  'backend' | 'precision' | 'contextLength' | 'kvCache' | 'threads' | 'gpu'
>;

/** What `engine.start` gets; credit and abort stay in the worker and the face. */
export type EngineGenerateOptions = Omit<GenerateOptions, 'signal' | 'lookahead' | 'delivery'>;

/** A request in the OpenAI dialect. */
export interface WireRequest {
  method: string;
  /** The path of its address, percent-encoded. */
  path: string;
  body: Uint8Array;
}

/** The head of a response, as `new Response()` takes it. */
export interface WireHead {
  status: number;
  headers: [string, string][];
}

/** Requests with one answer, served between two steps. */
export type Call =
  | { method: 'memory' }
  | { method: 'tokenize'; text: string; special: boolean }
  | { method: 'detokenize'; ids: Uint32Array }
  | { method: 'applyChatTemplate'; messages: ChatMessage[]; options: TemplateOptions };

export interface LoadMessage {
  type: 'load';
  files: WireFile[];
  /** A `tokenizer.json`. */
  tokenizer: WireFile | undefined;
  settings: EngineSettings;
  /** Never logged, never part of an error. */
  headers: [string, string][];
  cache: 'opfs' | 'none';
  /** Of each file, in hex, where the caller says. */
  sha256: (string | undefined)[];
  wasmUrl: string;
  /** Fetched in place of `wasmUrl` where the browser has relaxed SIMD. */
  relaxedWasmUrl: string | undefined;
  /** Fetched in place of both for the CPU, where there can be more threads than one. */
  threadsWasmUrl: string | undefined;
  /** Fetched only for a model that needs it. */
  compatWasmUrl: string;
  /** `performance.timeOrigin` of the page, to give times on its timeline. */
  pageTimeOrigin: number;
}

/** The same without the weights. */
export type PlanMessage = Omit<LoadMessage, 'type'> & { type: 'plan' };

export type ToWorker =
  | LoadMessage
  | PlanMessage
  | { type: 'call'; id: number; call: Call }
  | { type: 'score'; id: number; input: string | Uint32Array }
  | { type: 'embed'; id: number; texts: string[]; options: EmbedOptions }
  | {
      type: 'generate';
      id: number;
      input: string | ChatMessage[];
      options: EngineGenerateOptions;
      calledAtMs: number;
    }
  | { type: 'exchange'; id: number; request: WireRequest; calledAtMs: number }
  /** The reader wants `total` tokens of generation or exchange `id` in all. */
  | { type: 'credit'; id: number; total: number }
  | { type: 'cancel'; id: number };

/** The value of a call, a score or embeddings. */
export type CallValue = Memory | number[] | string | ScoreResult | Float32Array<ArrayBuffer>[];

export type FromWorker =
  | { type: 'progress'; progress: Progress }
  | { type: 'loaded'; info: ModelInfo }
  | { type: 'planned'; plan: LoadPlan }
  | { type: 'load-failed'; error: WireError }
  | { type: 'result'; id: number; value: CallValue }
  | { type: 'error'; id: number; error: WireError }
  | { type: 'started'; id: number; promptIds: number[] }
  | { type: 'token'; id: number; token: Token; counters: Counters }
  | { type: 'finished'; id: number; stats: Stats }
  | { type: 'failed'; id: number; error: WireError; stats: Stats | null }
  /** `body`: the whole of it, after which nothing comes; `null` when it comes in parts. */
  | ({
      type: 'response';
      id: number;
      body: Uint8Array<ArrayBuffer> | null;
      madeAtMs?: Made | undefined;
    } & WireHead)
  /** What `tokens` tokens added to the body, which may be nothing. */
  | {
      type: 'body';
      id: number;
      bytes: Uint8Array<ArrayBuffer>;
      tokens: number;
      madeAtMs?: Made | undefined;
    }
  | { type: 'body-end'; id: number }
  /** The engine is lost; the worker answers nothing any more. */
  | { type: 'crashed'; error: WireError };

/** When the first and the last token of an answer so far were made, on the page's timeline. */
export interface Made {
  first: number;
  last: number;
}

/** What is known of a generation so far, in case that its end is never told. */
export interface Counters {
  decodeSteps: number;
  queueMs: number;
}
