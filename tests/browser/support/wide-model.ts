// A Llama of 1.5 GiB that is nowhere: its header is written, its weights are zeros that are made
// as they are asked for.

import { F32, Q8_0, align, writeHeader } from './gguf.js';
import type { Made } from './server.js';
import { metadata } from './tiny-model.js';

const C = 4096; // hidden size
const F = 14_336; // intermediate size
const G = 1024; // of keys
const L = 7; // layers
const Q8_0_BYTES = 34 / 32;

type Sized = Parameters<typeof writeHeader>[1][number];

function tensors(vocabulary: number): Sized[] {
  const vector = (name: string): Sized => ({ name, shape: [C], type: F32, bytes: 4 * C });
  const matrix = (name: string, cols: number, rows: number): Sized => {
    return { name, shape: [cols, rows], type: Q8_0, bytes: cols * rows * Q8_0_BYTES };
  };
  const layers = Array.from({ length: L }, (_, n) => [
    vector(`blk.${n}.attn_norm.weight`),
    matrix(`blk.${n}.attn_q.weight`, C, C),
    matrix(`blk.${n}.attn_k.weight`, C, G),
    matrix(`blk.${n}.attn_v.weight`, C, G),
    matrix(`blk.${n}.attn_output.weight`, C, C),
    vector(`blk.${n}.ffn_norm.weight`),
    matrix(`blk.${n}.ffn_gate.weight`, C, F),
    matrix(`blk.${n}.ffn_up.weight`, C, F),
    matrix(`blk.${n}.ffn_down.weight`, F, C),
  ]).flat();
  const table = matrix('token_embd.weight', C, vocabulary);
  return [table, ...layers, vector('output_norm.weight')];
}

/** A file that a server makes while it sends it. */
export function wideModel(): Made {
  const values = metadata();
  const tokens = values['tokenizer.ggml.tokens'];
  const vocabulary = tokens !== undefined && 'texts' in tokens ? tokens.texts.length : 0;
  const list = tensors(vocabulary);
  const header = writeHeader(
    {
      ...values,
      'general.name': { text: 'Wide' },
      'llama.embedding_length': { u32: C },
      'llama.feed_forward_length': { u32: F },
      'llama.block_count': { u32: L },
      'llama.attention.head_count': { u32: 32 },
      'llama.attention.head_count_kv': { u32: 8 },
      'llama.rope.dimension_count': { u32: 128 },
    },
    list,
  );
  const data = list.reduce((sum, { bytes }) => align(sum + bytes), 0);
  return {
    bytes: header.byteLength + data,
    etag: 'wide',
    read: async (start, end) => {
      const piece = new Uint8Array(end - start);
      if (start < header.byteLength) piece.set(header.subarray(start, end));
      return piece;
    },
  };
}
