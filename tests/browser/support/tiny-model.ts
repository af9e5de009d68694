// A Llama of a few thousand seeded random weights: it says nothing, but loads at once and runs
// through every part of the engine.

import { F32, writeGguf } from './gguf.js';
import type { Tensor, Value } from './gguf.js';

const C = 32; // hidden size
const F = 96; // intermediate size
const H = 4; // query heads
const G = 2; // KV heads
const L = 2; // layers
const CONTEXT = 512;

const CONTROL = ['<|endoftext|>', '<|im_start|>', '<|im_end|>'];
const TEMPLATE =
  "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n" +
  '{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}';

function vocabulary(): string[] {
  return [...CONTROL, ...byteCharacters(), 'th'];
}

/** The character that stands for each byte in a byte-level vocabulary, as GPT-2 defines it. */
function byteCharacters(): string[] {
  const printable = (byte: number): boolean =>
    (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
  let next = 256;
  return Array.from({ length: 256 }, (_, byte) =>
    String.fromCharCode(printable(byte) ? byte : next++),
  );
}

/** All that a Llama's header says, for this one's sizes. */
export function metadata(tokens = vocabulary()): Record<string, Value> {
  return {
    'general.architecture': { text: 'llama' },
    'general.name': { text: 'Tiny' },
    'general.alignment': { u32: 32 },
    'llama.context_length': { u32: CONTEXT },
    'llama.embedding_length': { u32: C },
    'llama.feed_forward_length': { u32: F },
    'llama.block_count': { u32: L },
    'llama.attention.head_count': { u32: H },
    'llama.attention.head_count_kv': { u32: G },
    'llama.attention.layer_norm_rms_epsilon': { f32: 1e-5 },
    'llama.rope.freq_base': { f32: 10_000 },
    'llama.rope.dimension_count': { u32: C / H },
    'llama.vocab_size': { u32: tokens.length },
    'tokenizer.ggml.model': { text: 'gpt2' },
    'tokenizer.ggml.pre': { text: 'smollm' },
    'tokenizer.ggml.tokens': { texts: tokens },
    'tokenizer.ggml.token_type': { i32s: tokens.map((_, id) => (id < CONTROL.length ? 3 : 1)) },
    // One merge of two byte tokens: "t" + "h".
    'tokenizer.ggml.merges': { texts: ['t h'] },
    'tokenizer.ggml.bos_token_id': { u32: 1 },
    'tokenizer.ggml.eos_token_id': { u32: 2 },
    'tokenizer.ggml.add_bos_token': { bool: false },
    'tokenizer.chat_template': { text: TEMPLATE },
  };
}

function tensors(vocabulary: number): Tensor[] {
  const random = generator(7);
  const make = (name: string, shape: number[]): Tensor => {
    const count = shape.reduce((product, size) => product * size, 1);
    const gain = shape.length === 1;
    const values = Float32Array.from({ length: count }, () => (gain ? 1 : 0.5 * random()));
    return { name, shape, type: F32, data: new Uint8Array(values.buffer) };
  };
  const layers = Array.from({ length: L }, (_, n) => [
    make(`blk.${n}.attn_norm.weight`, [C]),
    make(`blk.${n}.attn_q.weight`, [C, C]),
    make(`blk.${n}.attn_k.weight`, [C, (C / H) * G]),
    make(`blk.${n}.attn_v.weight`, [C, (C / H) * G]),
    make(`blk.${n}.attn_output.weight`, [C, C]),
    make(`blk.${n}.ffn_norm.weight`, [C]),
    make(`blk.${n}.ffn_gate.weight`, [C, F]),
    make(`blk.${n}.ffn_up.weight`, [C, F]),
    make(`blk.${n}.ffn_down.weight`, [F, C]),
  ]).flat();
  return [
    make('token_embd.weight', [C, vocabulary]),
    ...layers,
    make('output_norm.weight', [C]),
    make('output.weight', [C, vocabulary]),
  ];
}

/** Numbers in [-1, 1): mulberry32. */
function generator(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 31 - 1;
  };
}

export interface TinyOptions {
  metadata?: Record<string, Value>;
  /** Changes the tensors in place. */
  edit?: (tensors: Tensor[]) => void;
}

export function tinyModel(options: TinyOptions = {}): Uint8Array {
  const { values, list } = parts(options);
  return writeGguf(values, list);
}

/** A `tokenizer.json` for it, in which "a" and "b" have changed places. */
export function tinyTokenizer(): Uint8Array {
  const swapped: Record<string, string> = { a: 'b', b: 'a' };
  const tokens = [...CONTROL, ...byteCharacters(), 'th'].map((text) => swapped[text] ?? text);
  const level = { type: 'ByteLevel', add_prefix_space: false, use_regex: true };
  const file = {
    added_tokens: CONTROL.map((content, id) => ({ id, content, special: true })),
    pre_tokenizer: level,
    decoder: level,
    model: {
      type: 'BPE',
      vocab: Object.fromEntries(tokens.map((text, id) => [text, id])),
      merges: [['t', 'h']],
    },
  };
  return new Uint8Array(Buffer.from(JSON.stringify(file)));
}

/** The same model as two files, split as `llama-gguf-split` does it. */
export function tinyShards(): [Uint8Array, Uint8Array] {
  const { values, list } = parts({});
  const half = list.length >> 1;
  const split = (no: number): Record<string, Value> => ({
    'split.no': { u32: no },
    'split.count': { u32: 2 },
    'split.tensors.count': { u32: list.length },
  });
  return [
    writeGguf({ ...values, ...split(0) }, list.slice(0, half)),
    writeGguf(split(1), list.slice(half)),
  ];
}

function parts(options: TinyOptions): { values: Record<string, Value>; list: Tensor[] } {
  const tokens = vocabulary();
  const list = tensors(tokens.length);
  options.edit?.(list);
  return { values: { ...metadata(tokens), ...options.metadata }, list };
}
