// The public types. Units are in the names: `Ms` milliseconds, `Bytes` bytes, `Tokens` counts.
//
// Long because it is what a developer reads: all that the main entry speaks of, with its
// documentation, in one place.

/**
 * One GGUF file: an address (relative ones are resolved against the page), its bytes, or a handle
 * of a file system. `hf:owner/repo/file.gguf@revision` is a file on Hugging Face; without a
 * revision, that of `main`.
 */
export type SourceFile = string | URL | Blob | FileSystemFileHandle;

/** A model: one GGUF file, or its shards in order; the address of the first finds the others. */
export type Source = SourceFile | readonly SourceFile[];

export type Backend = 'auto' | 'cpu' | 'webgpu';
export type Precision = 'auto' | 'exact' | 'fast';

export interface Progress {
  /**
   * `download`: bytes arrive and go to the engine; `verify`: they come from storage and are checked
   * on their way; `upload`: the backend takes what is left. On a GPU, while bytes arrive,
   * `compile`: kernels are made and measured; `check`: they are compared with what has to come out.
   */
  phase: 'download' | 'verify' | 'compile' | 'check' | 'upload';
  /** Those of earlier visits that are used count too; while `verify`, those that were checked. */
  receivedBytes: number;
  /** Bytes in storage that no crash takes away: a later load does not fetch them. */
  durableBytes: number;
  /** `null` while a server has not told the length of a file. */
  totalBytes: number | null;
}

/** How keys and values of the context are kept. */
export type KvCacheFormat = 'auto' | 'f32' | 'f16' | 'q8_0';

/** What a kernel is for: `One` row, a `Few` rows (2 to 8) or `Many` in a pass. */
export type KernelRole =
  | 'norm'
  | 'rope'
  | 'sample'
  | `${'linear' | 'attention'}${'One' | 'Few' | 'Many'}`;

/** What to leave unused of a GPU, to run as on a lesser one, and which kernels to use. */
export interface GpuOptions {
  /** WebGPU's default limits and no features. */
  defaultLimits?: boolean;
  /** Default true: subgroup operations are used where the GPU has them. */
  subgroups?: boolean;
  /** Default true: 16-bit floats are used where the GPU has them. */
  f16?: boolean;
  /**
   * Kernels for processors that play a GPU, or for GPUs, without measuring. Default: those for the
   * kind of adapter, changed to what is measured to be faster.
   */
  plan?: 'software' | 'hardware';
  /** Profile the model when it is loaded: `model.info.gpu.profile`. Takes a moment. */
  profile?: boolean;
  /** Variants to use, by role; `model.info.gpu.timings` names those that there are. */
  variants?: Partial<Record<KernelRole, string>>;
}

/** What a load found out about a GPU. Kept for later loads with the same `key`. */
export interface GpuReport {
  /** Version, browser, adapter, limits, features, and what the model asks for. */
  key: string;
  adapter: string;
  /**
   * The variant in use of each kernel, products by the quantization of their weights, `format`.
   * Products whose activations may be rounded are by themselves, their role ending in `Rounded`.
   */
  variants: { role: string; format: string | null; variant: string }[];
  /** Checks against what has to come out; variants with a fault are not used. */
  checks: { role: string; format: string | null; variant: string; fault: string | null }[];
  /** Of one run; `format`: the quantization of the weights. */
  timings: { role: string; variant: string; format: string | null; micros: number }[];
  /** What that predicts for a token of the answer and of the prompt. */
  pace: { decodeMs: number; prefillMs: number } | null;
  checkMs: number;
  tuneMs: number;
}

export interface LoadOptions {
  /** Default `auto`. `model.info.backendReason` says why the one in use was chosen. */
  backend?: Backend | undefined;
  /** `exact`: f32 activations; `fast`: int8 ones where they are faster. Default `auto`. */
  precision?: Precision | undefined;
  /** Tokens of prompt and answer together. Default min(the model's, 4096). */
  contextLength?: number | undefined;
  /** Default `auto`: `f16` on WebGPU. The CPU backend keeps `f32`. */
  kvCache?: KvCacheFormat | undefined;
  /**
   * Threads of the CPU backend; a GPU needs none. More than one need a page that is cross-origin
   * isolated; `model.info.threadsReason` tells why there are as many as there are. `auto` measures
   * how many are worth their while. Default `auto`.
   */
  threads?: number | 'auto' | undefined;
  gpu?: GpuOptions | undefined;
  /**
   * A `tokenizer.json` of Hugging Face's `tokenizers` (BPE, at most 64 MiB), to be used rather
   * than the vocabulary in the model's file. It has to list the tokens of this model. What the
   * model's file says of the ids of special tokens, and on adding them to prompts, still counts.
   */
  tokenizer?: SourceFile | undefined;
  /**
   * Sent with each request for the model, for downloads behind a login, to the origin of the
   * model's first address only; with that for `tokenizer` too where it has that origin. Never
   * stored.
   */
  headers?: HeadersInit | undefined;
  /**
   * `opfs` keeps the model in the storage of this origin: an interrupted download goes on where it
   * was, and a whole one is there for ever. Where there is no such storage, as in some private
   * windows, and for sources that are files, nothing is kept; `model.info.cacheReason` tells why.
   * Default `opfs`.
   */
  cache?: 'opfs' | 'none' | undefined;
  /**
   * The SHA-256 of the file, or of each of the files, in hex. Files on Hugging Face are checked
   * without it. Only what goes through storage is checked.
   */
  sha256?: string | readonly string[] | undefined;
  onProgress?: ((progress: Progress) => void) | undefined;
  /** Aborting ends the load, which rejects with the signal's reason. */
  signal?: AbortSignal | undefined;
  /** Where `worker.js` is served, for bundlers that lose it. */
  workerUrl?: string | URL | undefined;
  /**
   * Where `engine_bg.wasm` is served, for bundlers that lose it. `engine-relaxed_bg.wasm`, for
   * browsers with relaxed SIMD, `engine-threads_bg.wasm`, for pages that are isolated, and
   * `compat_bg.wasm`, for the architectures that need it, are looked for beside it.
   */
  wasmUrl?: string | URL | undefined;
}

/** What a model will cost. */
export interface LoadPlan {
  name: string;
  architecture: string;
  parameters: number;
  /** The one that is asked for, or that `auto` would try first. */
  backend: 'cpu' | 'webgpu';
  /** Read to know all this, and how much of it had to be fetched. */
  headerBytes: number;
  headerFetchedBytes: number;
  /** Still to be fetched; `null` where a server does not tell the length of a file. */
  fetchBytes: number | null;
  /** In storage already. */
  cachedBytes: number;
  weightsBytes: number;
  /** Of a context of `contextLength` tokens that is full. */
  kvCacheBytes: number;
  contextLength: number;
  /** The longest that the model knows and memory has room for, tokens. */
  maxContextLength: number;
  fits: boolean;
  /** Why it does not fit. */
  why?: string;
  /**
   * On the CPU from some tens of milliseconds of products with weights of the model's main type,
   * on a GPU from its kernels as a load finds them, which is kept for that. `null` where kernels
   * were chosen by the caller and so not measured.
   */
  predicted: { prefillTokensPerSecond: number; decodeTokensPerSecond: number } | null;
}

/** A model in the storage of this origin. */
export interface StoredModel {
  /** Its address, or that of the first of its files, without query and credentials. */
  source: string;
  /** Bytes that are there. */
  bytes: number;
  /** Bytes that it has; `null` while that is not known of all of its files. */
  totalBytes: number | null;
  /** `partial`: the next load fetches the rest. */
  state: 'partial' | 'verified';
  /** Milliseconds since 1970. */
  lastUsed: number;
}

export interface ModelInfo {
  name: string;
  architecture: string;
  quantization: string;
  parameters: number;
  contextLength: number;
  backend: string;
  backendReason: string;
  precision: string;
  threads: number;
  threadsReason: string;
  adapter: string | null;
  /** Where the model was kept: `none` if it will be fetched again. */
  cache: 'opfs' | 'none';
  cacheReason: string;
  /** `isKnown`: an earlier load found it. `null` on the CPU. */
  gpu: (GpuReport & { isKnown: boolean; profile?: PassProfile[] }) | null;
  /**
   * `simd128`, or `relaxed-simd` where the browser has it; `relaxed-simd-threads` on more threads
   * than one. `compat`: candle-transformers runs the
   * model, on the CPU.
   */
  wasmVariant: string;
}

/** Where a pass's time goes on the GPU: a step of decode, or a chunk of a prompt. */
export interface PassProfile {
  rows: number;
  /** Positions that the last row sees. */
  positions: number;
  /** The costliest first. */
  kernels: KernelProfile[];
  dispatches: number;
  /** The whole pass on the device, without sampling. */
  micros: number;
  /** Weights and cache that it reads. */
  bytes: number;
  flops: number;
  /** Writing the pass into a command buffer. */
  encodeMs: number;
  /** A read where there is no work to wait for. */
  readMs: number;
  /** Of a copy, read and written bytes together: the measure of all others. */
  copyBytesPerSecond: number;
  /** Of nothing but multiplications with additions. */
  flopsPerSecond: number;
}

export interface KernelProfile {
  kernel: string;
  /** Of one pass. */
  dispatches: number;
  /** Of all of them, once. */
  micros: number;
  /** Of the sum of all kernels, 0 to 1. */
  share: number;
  bytes: number;
  flops: number;
  /** Shares of what the device can do, 0 to 1; caches may take the first beyond 1. */
  ofCopy: number;
  ofPeak: number;
}

/** What `diagnose()` tells; `null` for what cannot be told. */
export interface Diagnosis {
  userAgent: string | null;
  /** WebGPU is for secure contexts only. */
  secureContext: boolean | null;
  crossOriginIsolated: boolean;
  hardwareConcurrency: number | null;
  deviceMemoryGiB: number | null;
  /** `null` without WebGPU, or without an adapter. */
  webgpu: AdapterDiagnosis | null;
  wasm: {
    simd: boolean;
    relaxedSimd: boolean;
    threads: boolean;
    memory64: boolean;
    /** Promises inside WebAssembly. */
    jspi: boolean;
  };
  storage: StorageDiagnosis | null;
  /** What loads in this origin found out about GPUs, the newest first. */
  gpuReports: GpuReport[];
}

export interface AdapterDiagnosis {
  vendor: string;
  architecture: string;
  device: string;
  description: string;
  isFallbackAdapter: boolean;
  features: string[];
  wgslLanguageFeatures: string[];
  /** By their WebGPU names. */
  limits: Record<string, number>;
}

export interface StorageDiagnosis {
  usageBytes: number | null;
  quotaBytes: number | null;
  /** The browser does not clear it by itself. */
  persisted: boolean;
  /** There is a private file system. */
  opfs: boolean;
}

export interface Memory {
  weightsBytes: number;
  kvCacheBytes: number;
  scratchBytes: number;
  wasmHeapBytes: number;
}

export interface ChatMessage {
  role: string;
  /** May be absent beside `tool_calls`. */
  content?: string | null | undefined;
  /** Calls that this message of the assistant makes. */
  tool_calls?: ToolCall[] | undefined;
  /** The call whose result this message of a tool is. */
  tool_call_id?: string | undefined;
  name?: string | undefined;
}

/** A call of a tool as messages hold it, which is as OpenAI's clients write it. */
export interface ToolCall {
  id: string;
  type: 'function';
  /** `arguments`: an object, or the same as JSON. */
  function: { name: string; arguments: string | Record<string, unknown> };
}

/** A function that an answer may call. */
export interface Tool {
  type: 'function';
  function: {
    /** 1 to 64 letters, digits, `_`, `-` and `.`. */
    name: string;
    description?: string | undefined;
    /** Of the arguments, an object. Default: an object without properties. */
    parameters?: Record<string, unknown> | undefined;
    [rest: string]: unknown;
  };
}

export type ToolChoice =
  /** As the model likes. */
  | 'auto'
  /** No calls; the model is not told of the tools. */
  | 'none'
  /** One call and nothing else, which is valid whenever the answer ends with `tool-calls`. */
  | 'required'
  /** The same, of this tool. */
  | { type: 'function'; function: { name: string } };

/** A part of a tool call. */
export interface ToolCallDelta {
  /** Which call of the answer, from 0. */
  index: number;
  /** What goes into `tool_call_id` of the message with the result. */
  id: string;
  /** In the first part of a call. */
  name?: string;
  /** What this part adds to the arguments, a JSON object. */
  argumentsDelta: string;
}

/** What is not named here becomes a variable of the model's chat template. */
export interface TemplateOptions {
  /** Ends the prompt with the opening of the assistant's turn. Default `true`. */
  addGenerationPrompt?: boolean | undefined;
  [variable: string]: unknown;
}

export interface GenerateOptions {
  /** Default: up to the end of the context. */
  maxTokens?: number | undefined;
  /** Default 0.8; 0 takes the likeliest token each time. */
  temperature?: number | undefined;
  /** Default 40; 0 keeps all. */
  topK?: number | undefined;
  /** Default 0.95. */
  topP?: number | undefined;
  /** Default 0. */
  minP?: number | undefined;
  /**
   * Above 0 and at most 10; default 1, which does nothing. Divides positive and multiplies
   * negative logits of every token that prompt and answer, all of both, hold so far.
   */
  repetitionPenalty?: number | undefined;
  /** −2 to 2, default 0. Subtracted for each time that the answer holds a token. */
  frequencyPenalty?: number | undefined;
  /** −2 to 2, default 0. Subtracted for every token that the answer holds. */
  presencePenalty?: number | undefined;
  /** Added to the logits of token ids, −100 to 100 each, after the penalties. */
  logitBias?: Record<number, number> | undefined;
  /**
   * Gives each token its `logprob`, and as many of the likeliest tokens as `topLogprobs`:
   * 0 to 20; `true` is 0.
   */
  logprobs?: number | boolean | undefined;
  /**
   * Holds the answer to a form: it is complete and valid whenever it ends with `stop`. Not
   * together with `stop` and `ignoreEos`.
   */
  responseFormat?: ResponseFormat | undefined;
  /**
   * What the answer may call. The chat template tells the model of them; where it has no place
   * for tools, the first message of the user does.
   */
  tools?: readonly Tool[] | undefined;
  /** Default `auto`. A required call goes neither with `stop` nor with `ignoreEos`. */
  toolChoice?: ToolChoice | undefined;
  /** Same seed, same tokens, on the same backend, file and package version. */
  seed?: number | undefined;
  /** Texts that end the answer; they are not part of it. */
  stop?: string[] | undefined;
  /** Goes on past the model's end tokens, for comparisons. Default `false`. */
  ignoreEos?: boolean | undefined;
  templateOptions?: TemplateOptions | undefined;
  /** Tokens made ahead of the reader at most. Default 8; 0 makes one per read. */
  lookahead?: number | undefined;
  /** When tokens that are made reach the reader. Default: one by one and at once. */
  delivery?: Delivery | undefined;
  /** Aborting rejects pending reads with the signal's reason. */
  signal?: AbortSignal | undefined;
}

/**
 * Tokens reach the reader one by one in any delivery; this is about when. With one token every
 * d ms, `batchTokens: k` makes the first of a batch wait (k − 1)·d, `holdBackTokens: w` each
 * token w·d. The end waits for nothing. Tokens that wait here are made beyond `lookahead`.
 */
export interface Delivery {
  /** Tokens that come together: 1 or more. Default 1, or with `batchMs` all of that time. */
  batchTokens?: number | undefined;
  /** The longest that the first token of a batch waits for the others, ms. */
  batchMs?: number | undefined;
  /** Tokens that wait behind the one that comes next. Default 0. */
  holdBackTokens?: number | undefined;
  /**
   * Looks at each window, that is the token that comes next and those held back behind it, and
   * at the end at all that is left. Tokens that the reader has cannot be taken back.
   */
  check?: ((window: DeliveryWindow) => DeliveryVerdict) | undefined;
  /** Everything together at the end; a check sees all of it. Default `false`. */
  whole?: boolean | undefined;
}

export interface DeliveryWindow {
  /** The tokens' text. */
  text: string;
  /** In order; never empty. */
  tokens: readonly Token[];
  /** No token follows. */
  last: boolean;
}

/**
 * `release`: it may come. `{ replace }`: this in place of the window's text; tokens at its start
 * and end whose text stays keep it, the first of the others gets what is new. `block`: the
 * stream closes here and the generation is cancelled.
 */
export type DeliveryVerdict = 'release' | 'block' | { replace: string };

/** A JSON schema, as far as llguidance knows it; what it does not is refused by name. */
export type JsonSchema = Record<string, unknown> | boolean;

export type ResponseFormat =
  /** Nothing is asked for. */
  | { type: 'text' }
  /** Any JSON object. */
  | { type: 'json_object' }
  /** Properties come in the order of the schema. */
  | { type: 'json_schema'; schema: JsonSchema }
  /** The same as OpenAI's clients write it; name and the rest do not matter. */
  | { type: 'json_schema'; json_schema: { schema: JsonSchema; [rest: string]: unknown } }
  /** In the syntax of Rust's `regex`; it matches the whole answer. */
  | { type: 'regex'; pattern: string }
  /** In llguidance's variant of Lark, from the rule `start`. */
  | { type: 'lark'; grammar: string };

/** A token that could have come. */
export interface TopLogprob {
  id: number;
  /** Its text by itself; U+FFFD stands for parts of characters. */
  text: string;
  /** What it is made of; not for control tokens. */
  bytes?: number[];
  logprob: number;
}

export interface Token {
  id: number;
  /**
   * What this token adds to the text; `''` while a UTF-8 character is incomplete, or while a
   * stop string or a tool call may have begun.
   */
  text: string;
  /**
   * Parts of calls that became certain with this token. They are no part of the text, except
   * those of a call that the answer's end leaves incomplete: its text follows at the end.
   */
  toolCalls?: ToolCallDelta[];
  /** Position in the answer, from 0. */
  index: number;
  /** When it was sampled, on the page's `performance.now()` timeline. */
  atMs: number;
  /** What it is made of; with `logprobs` only, and not for control tokens. */
  bytes?: number[];
  /** Natural logarithm of its probability under the raw logits; with `logprobs` only. */
  logprob?: number;
  /** The likeliest tokens under the raw logits, likeliest first; with `logprobs` only. */
  topLogprobs?: TopLogprob[];
}

/** `tool-calls`: like `stop`, of an answer that calls tools. */
export type FinishReason = 'stop' | 'length' | 'tool-calls' | 'cancelled' | 'error';

export interface Stats {
  finishReason: FinishReason;
  promptTokens: number;
  /** Prompt tokens whose KV cache was reused. */
  cachedTokens: number;
  completionTokens: number;
  decodeSteps: number;
  /** From the call to the engine's first step for it. */
  queueMs: number;
  /** From the first step to the first sampled token; `null` when there was none. */
  prefillMs: number | null;
  /** From the call to the first sampled token; `null` when there was none. */
  ttftMs: number | null;
  /** From the call to the first non-empty text; `null` when there was none. */
  firstTextMs: number | null;
  /** From the first to the last token; `null` when there was none. */
  decodeMs: number | null;
  /** (prompt − cached tokens) ÷ `prefillMs`; `null` when there was no first token. */
  prefillTokensPerSecond: number | null;
  /** (n − 1) ÷ `decodeMs`; `null` below two tokens. */
  decodeTokensPerSecond: number | null;
  /** Gaps between tokens, in order. */
  itlMs: number[];
}

/** Position i of the three lists speaks of the prediction of token i + 1. */
export interface ScoreResult {
  ids: number[];
  /** The likeliest next token. */
  top1: number[];
  top1Logprob: number[];
  /** Log-probability of the token that really follows. */
  nextLogprob: number[];
}

export interface EmbedOptions {
  /**
   * What a vector is made from: the mean of all tokens' states, or the state of the last token.
   * Default: what the file names, else `mean`.
   */
  pooling?: 'mean' | 'last' | undefined;
}

/** A running answer. Nothing is computed before it is read. */
export interface TokenStream extends ReadableStream<Token> {
  /** Fulfils once, whatever happens: at the end, on cancel, on failure. */
  readonly stats: Promise<Stats>;
  /** The exact prompt, after template and special tokens. Rejects where there never was one. */
  readonly promptIds: Promise<number[]>;
  [Symbol.asyncIterator](options?: ReadableStreamIteratorOptions): TokenIterator;
  values(options?: ReadableStreamIteratorOptions): TokenIterator;
  [Symbol.dispose](): void;
  [Symbol.asyncDispose](): Promise<void>;
}

/** What `for await` walks; leaving the loop early cancels the stream. */
export type TokenIterator = ReadableStreamAsyncIterator<Token>;

/** A loaded model, alone in its worker. Calls queue in order. */
export interface Model {
  readonly info: ModelInfo;
  memory(): Promise<Memory>;
  /** `special`: text such as `<|im_end|>` becomes its control token. Default `false`. */
  tokenize(text: string, options?: { special?: boolean | undefined }): Promise<number[]>;
  detokenize(ids: ArrayLike<number>): Promise<string>;
  applyChatTemplate(messages: ChatMessage[], options?: TemplateOptions): Promise<string>;
  /** Runs the tokens through the model by force and tells how likely each was. */
  score(input: string | ArrayLike<number>): Promise<ScoreResult>;
  /**
   * One vector for each text, in their order: the states of its tokens after the last norm, as
   * long as the model's states are, pooled and scaled to length 1, so that the dot product of
   * two is the cosine of their angle. Texts are not cut: one longer than the context is refused
   * with `context-full`.
   */
  embed(texts: readonly string[], options?: EmbedOptions): Promise<Float32Array<ArrayBuffer>[]>;
  /** A string is a raw prompt; messages go through the model's chat template. */
  generate(input: string | ChatMessage[], options?: GenerateOptions): TokenStream;
  /**
   * Answers requests in the OpenAI dialect as a server would, whatever their origin: `POST
   * /v1/chat/completions` and `/v1/completions`, whole or streamed, `POST /v1/embeddings` and
   * `GET /v1/models`. Bound: it can be given to a client as it is. Refusals are responses with a status and a JSON error;
   * it rejects with the reason of `signal`, and with a TokenbrookError once the model is gone.
   */
  readonly fetch: (input: RequestInfo | URL, init?: RequestInit) => Promise<Response>;
  /** Ends the worker; whatever is pending settles with `disposed`. */
  dispose(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}
