// An engine without a model: the tokens of generation n are 100 n, 100 n + 1, … with texts
// `t0 t1 …`. It records what it was asked, and fails where a test wants it to.

import type { EmbedStep, Engine, Exchange, LoaderOptions } from '../engine.js';
import type { ScoreStep, Sketch, StepResult } from '../engine.js';
import type { ChatMessage, EmbedOptions, Stats, Token } from '../types.js';

interface Run {
  made: number;
  prefilled: boolean;
  maxTokens: number;
}

export class FakeEngine {
  /** `step 1`, `end 1 cancelled`, `score 2`, … in order. */
  readonly log: string[] = [];
  /** Called before each step; what it throws is what the step throws. */
  beforeStep: ((step: number, id: number) => void) | undefined;
  /** A step waits for this, as one that runs on a GPU would. */
  stepMs = 0;
  readonly exchanges: FakeExchange[] = [];
  #runs = new Map<number, Run>();
  #next = 1;
  #steps = 0;

  info(): ReturnType<Engine['info']> {
    return {
      name: 'fake',
      architecture: 'fake',
      quantization: 'F32',
      parameters: 1,
      contextLength: 4096,
      backend: 'cpu',
      backendReason: 'it is the only one',
      precision: 'exact',
      threads: 1,
      adapter: null,
      gpu: null,
      wasmVariant: 'fake',
    };
  }

  memory(): ReturnType<Engine['memory']> {
    return { weightsBytes: 1, kvCacheBytes: 2, scratchBytes: 3, wasmHeapBytes: 4 };
  }

  tokenize(text: string, special: boolean): Uint32Array {
    return Uint32Array.from(special ? [text.length, 1] : [text.length]);
  }

  detokenize(ids: Uint32Array): string {
    return `<${Array.from(ids).join(' ')}>`;
  }

  applyChatTemplate(messages: ChatMessage[]): string {
    return messages.map((message) => message.content).join('|');
  }

  start(input: unknown, options: { maxTokens?: number | undefined }): number {
    if (input === 'too long') throw coded('context-full', 'The prompt does not fit.');
    const id = this.#next++;
    this.#runs.set(id, { made: 0, prefilled: false, maxTokens: options.maxTokens ?? 1000 });
    return id;
  }

  promptIds(_id: number): Uint32Array {
    return Uint32Array.from([7, 8, 9]);
  }

  async step(id: number): Promise<StepResult> {
    this.#steps += 1;
    this.log.push(`step ${id}`);
    this.beforeStep?.(this.#steps, id);
    if (this.stepMs > 0) await new Promise((resume) => setTimeout(resume, this.stepMs));
    const run = this.#runs.get(id);
    if (run === undefined) throw new Error(`no generation ${id}`);
    if (!run.prefilled) {
      run.prefilled = true;
      return { kind: 'prefill', done: 3, total: 3 };
    }
    if (run.made >= run.maxTokens) return { kind: 'finished' };
    const index = run.made++;
    const token = { id: 100 * id + index, text: `t${index}`, index, atMs: performance.now() };
    return { kind: 'token', token };
  }

  end(id: number, reason: 'cancelled' | 'error' | null): Stats {
    this.log.push(`end ${id} ${reason}`);
    const run = this.#runs.get(id);
    this.#runs.delete(id);
    return {
      finishReason: reason ?? 'length',
      promptTokens: 3,
      cachedTokens: 0,
      completionTokens: run?.made ?? -1,
      decodeSteps: Math.max(0, (run?.made ?? 0) - 1),
      queueMs: 0,
      prefillMs: 1,
      ttftMs: 0,
      firstTextMs: 0,
      decodeMs: 1,
      prefillTokensPerSecond: 1,
      decodeTokensPerSecond: 1,
      itlMs: [],
    };
  }

  exchange(method: string, path: string, body: Uint8Array): Exchange {
    this.log.push(`exchange ${method} ${path}`);
    const exchange = new FakeExchange(new TextDecoder().decode(body));
    this.exchanges.push(exchange);
    return exchange as unknown as Exchange;
  }

  startScore(_input: unknown): number {
    return this.#next++;
  }

  async stepScore(id: number): Promise<ScoreStep> {
    this.log.push(`score ${id}`);
    return { ids: [1, 2], top1: [2], top1Logprob: [-0.5], nextLogprob: [-0.5] };
  }

  /** Vectors of a text's length and the pooling, a text a step. */
  #embeds = new Map<number, { vectors: Float32Array<ArrayBuffer>[]; total: number }>();

  startEmbed(texts: readonly (string | number[])[], { pooling }: EmbedOptions): number {
    if (texts[0] === 'too long') throw coded('context-full', 'The text does not fit.');
    const id = this.#next++;
    const vectors = texts.map(({ length }) => Float32Array.of(length, pooling === 'last' ? 1 : 0));
    this.#embeds.set(id, { vectors, total: texts.length });
    return id;
  }

  async stepEmbed(id: number): Promise<EmbedStep> {
    this.#steps += 1;
    this.log.push(`embed ${id}`);
    this.beforeStep?.(this.#steps, id);
    const job = this.#embeds.get(id);
    if (job === undefined) throw new Error(`no embedding ${id}`);
    const done = this.log.filter((line) => line === `embed ${id}`).length - 1;
    if (done < job.total) return { done, total: job.total };
    this.#embeds.delete(id);
    return { vectors: job.vectors, tokens: 5 };
  }

  endEmbed(id: number): void {
    this.log.push(`end-embed ${id}`);
    this.#embeds.delete(id);
  }

  free(): void {}

  /** Steps that the engine has run for a generation. */
  stepsOf(id: number): number {
    return this.log.filter((line) => line === `step ${id}`).length;
  }
}

/** What a FakeExchange reads from its body. */
export interface FakeRequest {
  input?: string;
  stream?: boolean;
  choices?: number;
  maxTokens?: number;
  /** Only tokens whose index this divides have text; default 2. */
  every?: number;
  texts?: string[];
}

/** A dialect of plain words: `begin`, the tokens' texts, `end`; some tokens have no text. */
export class FakeExchange {
  freed = 0;
  readonly #request: FakeRequest;
  #finished = 0;
  #text = '';
  #status = 200;

  constructor(body: string) {
    this.#request = body === '' ? { choices: 0 } : (JSON.parse(body) as FakeRequest);
    if (body === '') this.#text = 'nothing asked';
  }

  get streams(): boolean {
    return this.#request.stream === true && this.#status === 200;
  }

  head(): ReturnType<Exchange['head']> {
    return { status: this.#status, headers: [['content-type', 'text/plain']] };
  }

  next(): ReturnType<Exchange['next']> {
    const { input = 'hello', choices = 1, maxTokens } = this.#request;
    if (this.#finished >= choices) return undefined;
    return { input, options: maxTokens === undefined ? {} : { maxTokens } };
  }

  texts(): ReturnType<Exchange['texts']> {
    return this.#request.texts;
  }

  embedded(vectors: Float32Array[], tokens: number): void {
    this.#text += `${vectors.map((vector) => vector.join()).join(' ')} of ${tokens}`;
  }

  begin(): void {
    this.#text += `begin${this.#finished} `;
  }

  token({ index, text }: Token): void {
    if (index % (this.#request.every ?? 2) === 0) this.#text += `${text} `;
  }

  finish({ completionTokens }: Stats): void {
    this.#text += `end${completionTokens} `;
    this.#finished += 1;
  }

  fail(code: string): void {
    if (!this.streams || this.#text === '') this.#status = 400;
    this.#text += `failed ${code}`;
  }

  take(): Uint8Array<ArrayBuffer> {
    const bytes = new TextEncoder().encode(this.#text);
    this.#text = '';
    return bytes;
  }

  free(): void {
    this.freed += 1;
  }
}

export function coded(code: string, message: string): Error {
  return Object.assign(new Error(message), { code });
}

/** The module `engine.js` with one engine in it; what was loaded can be looked at after. */
export class FakeModule {
  readonly engine = new FakeEngine();
  readonly received: number[] = [];
  filesEnded = 0;
  options: LoaderOptions | undefined;
  tokenizer: Uint8Array | undefined;
  failPush: Error | undefined;
  /** The same, by what the loader was opened with. */
  failPushOf: ((options: LoaderOptions) => Error | undefined) | undefined;
  /** What a plan is made of. */
  sketch: Sketch | undefined;
  /** Bytes from which on the header is complete. */
  headerBytes = 1;
  /** Types that a loader of the CPU finds to be computed wrongly. */
  differing: string[] = [];
  /** What a loader of the GPU finds; the CPU's has nothing to find. */
  found: (() => Promise<string | undefined>) | undefined;

  readonly exports = {
    default: async (): Promise<unknown> => undefined,
    Loader: this.#loaderClass(),
  };

  #loaderClass() {
    const module = this;
    return class {
      static async open(options: LoaderOptions, tokenizer?: Uint8Array) {
        module.options = options;
        module.tokenizer = tokenizer;
        module.received.length = 0;
        return new this();
      }
      get receivedBytes(): number {
        return module.received.length;
      }
      get hasHeader(): boolean {
        return module.received.length >= module.headerBytes;
      }
      push(bytes: Uint8Array): void {
        const failure = module.failPush ?? module.failPushOf?.(module.options ?? { fileBytes: [] });
        if (failure !== undefined) throw failure;
        for (const byte of bytes) module.received.push(byte);
      }
      prepare(onPhase: (phase: 'compile' | 'check') => void): Promise<string | undefined> | undefined {
        if (module.options?.backend === 'cpu' || module.found === undefined) return undefined;
        onPhase('compile');
        return module.found();
      }
      differingKernels(): string[] {
        const isOnGpu = module.found !== undefined && module.options?.backend !== 'cpu';
        return isOnGpu ? [] : module.differing;
      }
      endFile(): void {
        module.filesEnded += 1;
      }
      async finish(): Promise<Engine> {
        return module.engine as unknown as Engine;
      }
      async sketch(): Promise<Sketch | undefined> {
        return module.sketch;
      }
      free(): void {}
    };
  }
}
