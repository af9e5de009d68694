// The calculators: what goes in, what comes out, and what has to hold for it to be true.
import {
  amount, choice, count, text, type Fields, type Values,
} from '../shared/fields.js';
import {
  atClientMs, batchFirstMs, batchMeanMs, cacheBytes, cachedWork, contextsHeld, firstTokenMs,
  holdBackMs, queueWaitMs, readerDoneMs, recomputedWork, replyMs, stepMs, streamBytes,
  wholeBytes, wordsOf,
} from './formulas.js';
import { bytesExact, bytesShort, decimals, large, percent, span, whole } from '../shared/numbers.js';
import type { Drawing } from '../shared/plot.js';

export interface Output {
  label: string;
  /** As people read it. */
  shown: string;
  /** As files have it, with its unit. */
  value: number;
  unit: string;
}

export interface Calculator<F extends Fields = Fields> {
  id: string;
  title: string;
  formula: string;
  assumes: readonly string[];
  fields: F;
  compute(values: Values<F>): Output[];
  examples?: readonly { label: string; values: Partial<Values<F>> }[];
  drawing?(values: Values<F>): Drawing;
}

/** Keeps the types of fields and forgets them: a list holds calculators of all kinds. */
function calculator<const F extends Fields>(made: Calculator<F>): Calculator {
  return made as unknown as Calculator;
}

function time(label: string, value: number): Output {
  return { label, shown: span(value), value, unit: 'ms' };
}

function number(label: string, value: number, unit: string, shown = whole(value)): Output {
  return { label, shown, value, unit };
}

const TOKENS = [1, 1_000_000] as const;
const MS = [0, 600_000] as const;

const reply = calculator({
  id: 'reply',
  title: 'How long a reply takes',
  formula: 'TTFT = queue + prefill + d, end = TTFT + (n − 1) × d, transit added once',
  assumes: [
    'Every token takes the same time; the first costs one sample after the prefill.',
    'Transport overlaps generation: no hop buffers, path and client keep up with the generator.',
  ],
  fields: {
    n: count('Tokens, n', 120, TOKENS),
    d: amount('Time per token, d', 33, [0.01, 60_000], { unit: 'ms' }),
    wait: amount('Queue and prefill', 600, MS, { unit: 'ms' }),
    up: amount('Request transit', 50, MS, { unit: 'ms' }),
    down: amount('Response transit', 50, MS, { unit: 'ms' }),
  },
  examples: [
    { label: '120 at 33 ms, nothing else', values: { n: 120, d: 33, wait: 0, up: 0, down: 0 } },
    { label: '300 at 30 ms, TTFT 500 ms', values: { n: 300, d: 30, wait: 470, up: 0, down: 0 } },
    { label: '400 at 25 ms, TTFT 700 ms', values: { n: 400, d: 25, wait: 675, up: 0, down: 0 } },
  ],
  compute({ n, d, wait, up, down }) {
    const ttft = firstTokenMs(wait, 0, d);
    const first = atClientMs(ttft, up, down);
    const end = atClientMs(replyMs(n, ttft, d), up, down);
    return [
      time('Server TTFT', ttft),
      time('First text, streamed', first),
      time('First text, buffered', end),
      time('End of both', end),
      time('Streaming shows text sooner by', end - first),
    ];
  },
});

const batches = calculator({
  id: 'batches',
  title: 'What batches and checks cost',
  formula: 'first of a batch (k − 1) × d, mean d × (k − 1) ÷ 2, hold-back w × d',
  assumes: [
    'Batches are full. The last one and the last held tokens leave at the end, which stays put.',
  ],
  fields: {
    k: count('Tokens per event, k', 4, [1, 10_000]),
    w: count('Held back, w', 10, [0, 10_000]),
    d: amount('Time per token, d', 33, [0.01, 60_000], { unit: 'ms' }),
  },
  compute: ({ k, w, d }) => [
    time('The first of a batch waits', batchFirstMs(k, d)),
    time('A token waits on average', batchMeanMs(k, d)),
    time('Holding back adds to each', holdBackMs(w, d)),
  ],
});

const bytes = calculator({
  id: 'bytes',
  title: 'Bytes of a reply',
  formula: '{"text":"…"} whole; data: "…" and a blank line an event, 10 bytes; data: [DONE], 14',
  assumes: [
    'One word with the space after it is one token. Headers and the framing of HTTP are not in it.',
    'The OpenAI dialect repeats id, model and time in every event: some 200 bytes in place of 10.',
  ],
  fields: {
    text: text('Text', 'A model does not write the whole answer at once. ' +
      'It makes it one piece at a time.', { lines: 2 }),
    k: count('Words per event, k', 1, [1, 1000]),
  },
  compute({ text: written, k }) {
    const words = wordsOf(written);
    const streamed = streamBytes(words, k);
    const buffered = wholeBytes(words.join(''));
    return [
      number('Words', words.length, ''),
      number('Events, without the marker', Math.ceil(words.length / k), ''),
      number('Whole', buffered, 'bytes', bytesExact(buffered)),
      number('Streamed', streamed, 'bytes', bytesExact(streamed)),
      number('Streamed against whole', streamed / buffered, 'times',
        `${decimals(streamed / buffered, 2)} times`),
    ];
  },
});

const cache = calculator({
  id: 'cache',
  title: 'KV cache, and how many contexts fit',
  formula: '2 × layers × tokens × KV heads × head dim × bytes',
  assumes: [
    'A dense model, the full context, nothing quantized or shared, weights not included.',
    'A sliding window caps it, a quantized cache shrinks it.',
  ],
  fields: {
    layers: count('Layers', 32, [1, 1000]),
    heads: count('KV heads', 8, [1, 1000]),
    dim: count('Head dim', 128, [1, 10_000]),
    bytes: amount('Bytes a number', 2, [0.25, 8]),
    tokens: count('Tokens', 4096, [1, 100_000_000]),
    memory: amount('Memory for caches', 64, [0.001, 100_000], { unit: 'GiB' }),
  },
  examples: [
    { label: '4,096 tokens in 64 GiB', values: { tokens: 4096, memory: 64 } },
    { label: '2,048 tokens in 32 GiB', values: { tokens: 2048, memory: 32 } },
  ],
  compute({ layers, heads, dim, bytes: numberBytes, tokens, memory }) {
    const shape = { layers, kvHeads: heads, headDim: dim, numberBytes };
    const one = cacheBytes(shape, tokens);
    const held = contextsHeld(memory * 2 ** 30, one);
    return [
      number('A token', cacheBytes(shape, 1), 'bytes', bytesExact(cacheBytes(shape, 1))),
      number('The context', one, 'bytes', bytesExact(one)),
      number('Contexts that fit', held, ''),
      number('The request that queues, or preempts another', held + 1, '',
        `number ${whole(held + 1)}`),
    ];
  },
});

const step = calculator({
  id: 'step',
  title: 'A busy server\'s time per token',
  formula: '(weights + active × cache) ÷ bandwidth',
  assumes: [
    'Reading memory is the limit, and each step reads all weights and every active cache once.',
    'A mixture of experts reads only the routed ones.',
  ],
  fields: {
    weights: amount('Weights', 16, [0.001, 10_000], { unit: 'GB' }),
    active: count('Active requests', 64, [0, 100_000]),
    cache: amount('Cache of each', 512, [0, 1_000_000], { unit: 'MiB' }),
    bandwidth: amount('Bandwidth', 2, [0.001, 1000], { unit: 'TB/s' }),
  },
  compute({ weights, active, cache: each, bandwidth }) {
    const caches = active * each * 2 ** 20;
    const busy = stepMs(weights * 1e9, caches, bandwidth * 1e12);
    return [
      number('Caches', caches, 'bytes', bytesShort(caches)),
      time('A step, alone', stepMs(weights * 1e9, each * 2 ** 20, bandwidth * 1e12)),
      time('A step, this busy', busy),
      number('For each of them', 1000 / busy, 'tokens/s', `${decimals(1000 / busy)} tokens/s`),
      number('Together', (active * 1000) / busy, 'tokens/s',
        `${large((active * 1000) / busy)} tokens/s`),
    ];
  },
  drawing({ weights, active, cache: each, bandwidth }) {
    const most = Math.max(16, active * 2);
    const xs = Array.from({ length: 33 }, (_, at) => (most * at) / 32);
    const ys = xs.map((busy) => stepMs(weights * 1e9, busy * each * 2 ** 20, bandwidth * 1e12));
    return {
      x: { label: 'active requests', max: most },
      y: { label: 'ms a step' },
      lines: [{ colour: 'stream' }],
      marks: [{ from: active, to: active, label: `${whole(active)} active` }],
      data: [xs, ys],
      height: 220,
    };
  },
});

const work = calculator({
  id: 'work',
  title: 'Cached against recomputed work',
  formula: 'with a cache P + n − 1 positions; without, step t computes all P + t again',
  assumes: [
    'Projections cost the same at every position, attention one unit for each pair of them.',
    'Recomputed projections grow with the square of the output, attention with its cube; ' +
      'with a cache, attention still sums to a square.',
  ],
  fields: {
    prompt: count('Prompt, P', 500, [1, 1_000_000], { unit: 'tokens' }),
    n: count('Output, n', 500, [1, 100_000], { unit: 'tokens' }),
    view: choice('Plot', 'positions', {
      positions: 'Projections (positions)', pairs: 'Attention (pairs)',
    }),
  },
  compute({ prompt, n }) {
    const [kept, again] = [cachedWork(prompt, n), recomputedWork(prompt, n)];
    const times = (a: number, b: number): string => `${decimals(a / b, 1)} times`;
    return [
      number('Positions, cached', kept.positions, 'positions'),
      number('Positions, recomputed', again.positions, 'positions', large(again.positions)),
      number('That is', again.positions / kept.positions, 'times',
        times(again.positions, kept.positions)),
      number('Attention, cached', kept.pairs, 'pairs', large(kept.pairs)),
      number('Attention, recomputed', again.pairs, 'pairs', large(again.pairs)),
      number('That is', again.pairs / kept.pairs, 'times', times(again.pairs, kept.pairs)),
    ];
  },
  drawing({ prompt, n, view }) {
    const key = view === 'pairs' ? 'pairs' : 'positions';
    const steps = Math.min(n, 64);
    const xs = Array.from({ length: steps }, (_, at) => Math.round(((at + 1) * n) / steps));
    return {
      x: { label: 'tokens written', max: n },
      y: { label: key, log: true, format: large },
      lines: [
        { colour: 'stream', label: 'with a cache' },
        { colour: 'wait', label: 'recomputed', dashed: true },
      ],
      data: [
        xs,
        xs.map((at) => cachedWork(prompt, at)[key]),
        xs.map((at) => recomputedWork(prompt, at)[key]),
      ],
      height: 220,
    };
  },
});

const queue = calculator({
  id: 'queue',
  title: 'Waiting for a seat',
  formula: 'S × ρ ÷ (1 − ρ), and a loss of capacity makes ρ ÷ what is left of it',
  assumes: [
    'Arrivals and services without memory, one queue a seat, nobody refused.',
  ],
  fields: {
    service: amount('Time on a seat, S', 49.7, [0.01, 600_000], { unit: 'ms' }),
    load: amount('Load, ρ', 0.661, [0, 0.999]),
    lost: amount('Capacity lost', 30, [0, 99], { unit: '%' }),
  },
  compute({ service, load, lost }) {
    const after = load / (1 - lost / 100);
    const [was, is] = [queueWaitMs(service, load), queueWaitMs(service, after)];
    const grown = is / was;
    return [
      time('Mean wait', was),
      number('Load after the loss', after, '', decimals(after, 3)),
      time('Mean wait then', is),
      number('That is', grown, 'times',
        Number.isFinite(grown) ? `${decimals(grown)} times` : 'a queue without end'),
    ];
  },
});

const reader = calculator({
  id: 'reader',
  title: 'A reader and the text',
  formula: 'each word is read when it is there and the one before is read',
  assumes: ['A token is a word. People read about 5 words a second.'],
  fields: {
    n: count('Words', 120, [1, 100_000]),
    ttft: amount('First word after', 633, MS, { unit: 'ms' }),
    d: amount('Time per word', 33, [0.01, 60_000], { unit: 'ms' }),
    speed: amount('Reading speed', 5, [0.1, 100], { unit: 'words/s' }),
  },
  compute({ n, ttft, d, speed }) {
    const arrivals = Array.from({ length: n }, (_, at) => ttft + at * d);
    const end = arrivals.at(-1) ?? 0;
    const streamed = readerDoneMs(arrivals, speed);
    const waited = readerDoneMs(arrivals.map(() => end), speed);
    return [
      time('The text is whole at', end),
      time('Read to the end, streamed', streamed),
      time('Read to the end, buffered', waited),
      number('Of the reading time, waited for text', 1 - (n * 1000) / speed / streamed, '',
        percent(1 - (n * 1000) / speed / streamed)),
    ];
  },
});

export const CALCULATORS: readonly Calculator[] = [
  reply, batches, bytes, reader, cache, step, work, queue,
];
