// Checks of what the caller passes, before anything starts. Values that only the engine can
// judge (a context too long, a temperature out of range) are checked there.

import { TokenbrookError, invalidOption } from './errors.js';
import type { EngineGenerateOptions, EngineSettings, WireFile } from './protocol.js';
import type { ChatMessage, Delivery, EmbedOptions, GenerateOptions } from './types.js';
import { expandShorthand, expandSplit } from './store/source.js';
import type { LoadOptions } from './types.js';
import type { Source, SourceFile, TemplateOptions } from './types.js';

/** Tokens made ahead of a reader. */
export const DEFAULT_LOOKAHEAD = 8;

/** More than any browser's worker limits and any small model's rows are good for. */
const MOST_THREADS = 64;

/** A file as the caller gives it, checked. */
export type GivenFile = WireFile | FileSystemFileHandle;

const LOAD_OPTIONS: readonly (keyof LoadOptions)[] = [
  'backend',
  'precision',
  'contextLength',
  'kvCache',
  'threads',
  'gpu',
  'tokenizer',
  'cache',
  'sha256',
  'headers',
  'onProgress',
  'signal',
  'workerUrl',
  'wasmUrl',
];

const GENERATE_OPTIONS: readonly (keyof GenerateOptions)[] = [
  'maxTokens',
  'temperature',
  'topK',
  'topP',
  'minP',
  'repetitionPenalty',
  'frequencyPenalty',
  'presencePenalty',
  'logitBias',
  'logprobs',
  'responseFormat',
  'tools',
  'toolChoice',
  'seed',
  'stop',
  'ignoreEos',
  'templateOptions',
  'lookahead',
  'delivery',
  'signal',
];

const DELIVERY_OPTIONS: readonly (keyof Delivery)[] = [
  'batchTokens',
  'batchMs',
  'holdBackTokens',
  'check',
  'whole',
];

const NUMBERS = [
  'maxTokens',
  'temperature',
  'topK',
  'topP',
  'minP',
  'repetitionPenalty',
  'frequencyPenalty',
  'presencePenalty',
  'seed',
] as const;

const SCHEMES: ReadonlySet<string> = new Set(['http:', 'https:', 'blob:', 'data:']);

/** The options of `load`, checked. */
export interface CheckedLoad {
  settings: EngineSettings;
  headers: [string, string][];
  cache: 'opfs' | 'none';
  onProgress: LoadOptions['onProgress'];
  signal: AbortSignal | undefined;
  workerUrl: string | URL | undefined;
  wasmUrl: string | URL | undefined;
}

export interface CheckedGenerate {
  engine: EngineGenerateOptions;
  lookahead: number;
  delivery: Delivery | undefined;
  signal: AbortSignal | undefined;
}

export function checkLoadOptions(options: LoadOptions): CheckedLoad {
  checkNames(options, LOAD_OPTIONS, 'load');
  const { backend, precision, contextLength, kvCache, threads, gpu } = options;
  const { onProgress, signal, workerUrl, wasmUrl } = options;
  checkOneOf('backend', backend, ['auto', 'cpu', 'webgpu']);
  checkOneOf('precision', precision, ['auto', 'exact', 'fast']);
  checkOneOf('kvCache', kvCache, ['auto', 'f32', 'f16', 'q8_0']);
  checkOneOf('cache', options.cache, ['opfs', 'none']);
  if (threads !== undefined && threads !== 'auto' && !isThreadCount(threads)) {
    throw invalidOption('threads', `'auto' or a whole number from 1 to ${MOST_THREADS}`);
  }
  if (gpu !== undefined && !isObject(gpu)) {
    throw invalidOption('gpu', 'an object, { defaultLimits?, subgroups?, f16?, profile?, plan?, variants? }');
  }
  if (contextLength !== undefined && !isPositiveInteger(contextLength)) {
    throw invalidOption('contextLength', 'a whole number of tokens above 0');
  }
  if (onProgress !== undefined && typeof onProgress !== 'function') {
    throw invalidOption('onProgress', 'a function');
  }
  checkUrl('workerUrl', workerUrl);
  checkUrl('wasmUrl', wasmUrl);
  return {
    settings: { backend, precision, contextLength, kvCache, threads, gpu },
    headers: checkHeaders(options.headers),
    cache: options.cache ?? 'opfs',
    onProgress,
    signal: checkSignal(signal),
    workerUrl,
    wasmUrl,
  };
}

export function checkGenerateOptions(options: GenerateOptions): CheckedGenerate {
  checkNames(options, GENERATE_OPTIONS, 'generate');
  const { lookahead = DEFAULT_LOOKAHEAD, delivery, signal, ...engine } = options;
  if (!Number.isSafeInteger(lookahead) || lookahead < 0) {
    throw invalidOption('lookahead', 'a whole number of tokens, 0 or more');
  }
  for (const name of NUMBERS) {
    const value: unknown = engine[name];
    if (value !== undefined && (typeof value !== 'number' || !Number.isFinite(value))) {
      throw invalidOption(name, 'a finite number');
    }
  }
  checkLogitBias(engine.logitBias);
  const { logprobs } = engine;
  if (logprobs !== undefined && typeof logprobs !== 'boolean' && typeof logprobs !== 'number') {
    throw invalidOption('logprobs', 'true, or a number of alternatives from 0 to 20');
  }
  if (engine.responseFormat !== undefined && !isObject(engine.responseFormat)) {
    throw invalidOption('responseFormat', "an object such as { type: 'json_object' }");
  }
  if (engine.tools !== undefined && !Array.isArray(engine.tools)) {
    throw invalidOption('tools', 'an array of { type, function }');
  }
  const { toolChoice } = engine;
  if (toolChoice !== undefined && typeof toolChoice !== 'string' && !isObject(toolChoice)) {
    throw invalidOption('toolChoice', "'auto', 'none', 'required' or { type, function: { name } }");
  }
  const { stop } = engine;
  if (stop !== undefined && !(Array.isArray(stop) && stop.every((s) => typeof s === 'string'))) {
    throw invalidOption('stop', 'an array of strings');
  }
  if (engine.ignoreEos !== undefined && typeof engine.ignoreEos !== 'boolean') {
    throw invalidOption('ignoreEos', 'true or false');
  }
  if (engine.templateOptions !== undefined) checkTemplateOptions(engine.templateOptions);
  return {
    engine: defined(engine),
    lookahead,
    delivery: checkDelivery(delivery),
    signal: checkSignal(signal),
  };
}

function checkDelivery(delivery: Delivery | undefined): Delivery | undefined {
  if (delivery === undefined) return undefined;
  checkNames(delivery, DELIVERY_OPTIONS, 'delivery');
  const { batchTokens, batchMs, holdBackTokens, check, whole } = delivery;
  if (batchTokens !== undefined && !isPositiveInteger(batchTokens)) {
    throw invalidOption('delivery.batchTokens', 'a whole number of tokens, 1 or more');
  }
  if (batchMs !== undefined && !(Number.isFinite(batchMs) && batchMs >= 0)) {
    throw invalidOption('delivery.batchMs', 'a number of milliseconds, 0 or more');
  }
  if (holdBackTokens !== undefined && holdBackTokens !== 0 && !isPositiveInteger(holdBackTokens)) {
    throw invalidOption('delivery.holdBackTokens', 'a whole number of tokens, 0 or more');
  }
  if (check !== undefined && typeof check !== 'function') {
    throw invalidOption('delivery.check', 'a function');
  }
  if (whole !== undefined && typeof whole !== 'boolean') {
    throw invalidOption('delivery.whole', 'true or false');
  }
  return defined(delivery);
}

export function checkTemplateOptions(options: TemplateOptions): TemplateOptions {
  if (typeof options !== 'object' || options === null || Array.isArray(options)) {
    throw invalidOption('templateOptions', 'an object');
  }
  const { addGenerationPrompt: add } = options;
  if (add !== undefined && typeof add !== 'boolean') {
    throw invalidOption('addGenerationPrompt', 'true or false');
  }
  return defined(options);
}

/** A raw prompt or messages. */
export function checkInput(input: unknown): void {
  if (typeof input !== 'string') checkMessages('input', input, 'a string, or ');
}

export function checkMessages(name: string, messages: unknown, or = ''): void {
  if (Array.isArray(messages) && messages.every(isMessage)) return;
  throw invalidOption(name, `${or}an array of messages { role, content }, both strings`);
}

export function checkTokenizeOptions(options: { special?: boolean | undefined }): boolean {
  checkNames(options, ['special'], 'tokenize');
  const { special = false } = options;
  if (typeof special !== 'boolean') throw invalidOption('special', 'true or false');
  return special;
}

export function checkEmbedOptions(options: EmbedOptions): EmbedOptions {
  checkNames(options, ['pooling'], 'embed');
  checkOneOf('pooling', options.pooling, ['mean', 'last']);
  return defined(options);
}

export function checkTexts(texts: unknown): string[] {
  if (Array.isArray(texts) && texts.length > 0 && texts.every((t) => typeof t === 'string')) {
    return texts as string[];
  }
  throw invalidOption('texts', 'an array of strings, with one at least');
}

export function checkText(name: string, value: unknown): void {
  if (typeof value !== 'string') throw invalidOption(name, 'a string');
}

/** Token ids as the engine takes them. */
export function checkIds(ids: unknown): Uint32Array {
  const isList = typeof ids === 'object' && ids !== null && 'length' in ids;
  const list = isList ? Array.from(ids as ArrayLike<unknown>) : undefined;
  if (list?.every(isId)) return Uint32Array.from(list);
  throw invalidOption('ids', 'an array of token ids');
}

/** The files of a source, with addresses made absolute against `base`. */
export function checkSource(source: Source, base: string | undefined): GivenFile[] {
  const files: readonly SourceFile[] = Array.isArray(source) ? source : [source as SourceFile];
  if (files.length === 0) throw invalidOption('source', 'at least one file');
  const expected = 'an address, a File or Blob, a file handle, or an array of those';
  const checked = files.map((file) => checkFile('source', file, base, expected));
  const [first] = checked;
  // An array lists them all.
  if (Array.isArray(source) || typeof first !== 'string') return checked;
  return expandSplit(first);
}

/** The digests of that many files, in hex, where they are given. */
export function checkSha256(given: unknown, count: number): (string | undefined)[] {
  if (given === undefined) return Array.from({ length: count }, () => undefined);
  const list: unknown[] = Array.isArray(given) ? given : [given];
  if (list.length !== count || !list.every(isDigest)) {
    throw invalidOption('sha256', `64 hexadecimal digits, for each of ${count} file(s)`);
  }
  return list.map((digest) => String(digest).toLowerCase());
}

function isDigest(value: unknown): boolean {
  return typeof value === 'string' && /^[0-9a-f]{64}$/i.test(value);
}

/** The file of the option `tokenizer`. */
export function checkTokenizer(file: unknown, base: string | undefined): GivenFile | undefined {
  if (file === undefined) return undefined;
  return checkFile('tokenizer', file, base, 'an address, or a File or Blob');
}

function checkFile(
  name: string,
  file: unknown,
  base: string | undefined,
  expected: string,
): GivenFile {
  if (typeof Blob !== 'undefined' && file instanceof Blob) return file;
  if (isFileHandle(file)) return file;
  if (typeof file === 'string' || file instanceof URL) return absoluteUrl(name, file, base);
  throw invalidOption(name, expected);
}

function isFileHandle(value: unknown): value is FileSystemFileHandle {
  return isObject(value) && 'getFile' in value && typeof value.getFile === 'function';
}

function absoluteUrl(name: string, address: string | URL, base: string | undefined): string {
  let url: URL;
  try {
    url = new URL(expandShorthand(String(address)), base);
  } catch (cause) {
    const message = `Option \`${name}\`: the address is not a URL.`;
    throw new TokenbrookError('invalid-option', message, { cause });
  }
  if (!SCHEMES.has(url.protocol)) {
    throw invalidOption(name, `an http, https, blob or data address, not ${url.protocol}`);
  }
  return url.href;
}

function checkLogitBias(biases: unknown): void {
  if (biases === undefined) return;
  if (isObject(biases) && Object.values(biases).every((bias) => typeof bias === 'number')) return;
  throw invalidOption('logitBias', 'an object of token ids, each with a number');
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function isMessage(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false;
  const { role, content, tool_calls } = value as Partial<Record<keyof ChatMessage, unknown>>;
  const isSaid =
    typeof content === 'string' || (Array.isArray(tool_calls) && (content ?? null) === null);
  return typeof role === 'string' && isSaid;
}

function isId(value: unknown): value is number {
  return Number.isInteger(value) && (value as number) >= 0 && (value as number) <= 0xffff_ffff;
}

function isThreadCount(value: unknown): boolean {
  return isPositiveInteger(value) && (value as number) <= MOST_THREADS;
}

function isPositiveInteger(value: unknown): boolean {
  return Number.isSafeInteger(value) && (value as number) > 0;
}

function checkNames(options: object, known: readonly string[], of: string): void {
  if (typeof options !== 'object' || options === null) {
    throw invalidOption(of, 'an object of options');
  }
  const unknown = Object.keys(options).find((name) => !known.includes(name));
  if (unknown === undefined) return;
  const message = `Option \`${unknown}\` is not known to ${of}, which takes ${known.join(', ')}.`;
  throw new TokenbrookError('invalid-option', message);
}

function checkOneOf(name: string, value: unknown, allowed: readonly string[]): void {
  if (value === undefined || allowed.some((other) => other === value)) return;
  throw invalidOption(name, `one of ${allowed.map((other) => `'${other}'`).join(', ')}`);
}

function checkUrl(name: string, value: unknown): void {
  if (value === undefined || typeof value === 'string' || value instanceof URL) return;
  throw invalidOption(name, 'an address');
}

function checkSignal(signal: unknown): AbortSignal | undefined {
  if (signal === undefined) return undefined;
  if (signal instanceof AbortSignal) return signal;
  throw invalidOption('signal', 'an AbortSignal');
}

function checkHeaders(headers: HeadersInit | undefined): [string, string][] {
  if (headers === undefined) return [];
  const pairs: [string, string][] = [];
  try {
    new Headers(headers).forEach((value, name) => pairs.push([name, value]));
  } catch {
    // The cause may quote a value, and values are secrets.
    throw invalidOption('headers', 'what `new Headers()` takes');
  }
  return pairs;
}

/** Without the keys that are present but `undefined`. */
function defined<T extends object>(options: T): T {
  return Object.fromEntries(Object.entries(options).filter(([, v]) => v !== undefined)) as T;
}
