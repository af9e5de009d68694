// The engines of the suite `peers` behind one interface, in the page. Each is used as its own
// documentation shows it, decodes greedily, and is timed by the page's clock at its own stream.
//
//   open(name, { model, threads, contextTokens }) → { info, run, close }
//   run(prompt, maxTokens) → { text, ids | null, startedMs, atMs: number[], promptTokens | null }

import { candle } from '/bench-candle.mjs';
import { ortWeb } from '/bench-ort.mjs';
import { rates } from '/bench-rates.mjs';

/** Never reached: the run is over long before. */
const STORY = 4096;
/** Tokens of an answer of the exact tier that others are held to. */
const KNOWN_TOKENS = 24;

async function tokenbrook(own, { model, isKept, backend, threads, contextTokens }) {
  const { load } = await import('/pkg/index.js');
  const loaded = await load(model, {
    backend,
    threads,
    contextLength: contextTokens,
    cache: isKept ? 'opfs' : 'none',
    ...own,
  });
  const run = async (prompt, maxTokens) => {
    const startedMs = performance.now();
    const stream = loaded.generate(prompt, { maxTokens, temperature: 0, ignoreEos: true });
    const made = { text: '', ids: [], atMs: [], startedMs };
    for await (const token of stream) {
      made.atMs.push(performance.now());
      made.ids.push(token.id);
      made.text += token.text;
    }
    const { promptTokens, cachedTokens } = await stream.stats;
    // All prompts of a model may share the token that begins a text.
    if (cachedTokens > 1) throw new Error(`${cachedTokens} tokens came from the cache`);
    return { ...made, promptTokens };
  };
  return { info: loaded.info, run, close: () => loaded.dispose(), loaded };
}

async function wllama2({ model, isKept, threads, contextTokens }) {
  const { Wllama } = await import('/peers/wllama-2/esm/index.js');
  const folder = '/peers/wllama-2/esm';
  const wllama = new Wllama(
    {
      'single-thread/wllama.wasm': `${folder}/single-thread/wllama.wasm`,
      'multi-thread/wllama.wasm': `${folder}/multi-thread/wllama.wasm`,
    },
    { suppressNativeLog: true },
  );
  await take(wllama, { model, isKept }, { n_ctx: contextTokens, n_threads: threads });
  const run = async (prompt, maxTokens) => {
    const startedMs = performance.now();
    const options = { nPredict: maxTokens, useCache: false, sampling: { temp: 0 }, stream: true };
    const made = { text: '', ids: [], atMs: [], startedMs };
    for await (const chunk of await wllama.createCompletion(prompt, options)) {
      made.atMs.push(performance.now());
      made.ids.push(chunk.token);
      made.text = chunk.currentText;
    }
    return { ...made, promptTokens: null };
  };
  return { info: describe(wllama), run, close: () => wllama.exit() };
}

async function wllama3({ model, isKept, backend, threads, contextTokens }) {
  const { Wllama } = await import('/peers/wllama-3/esm/index.js');
  const wllama = new Wllama(
    { default: '/peers/wllama-3/esm/wasm/wllama.wasm' },
    { suppressNativeLog: true },
  );
  const n_gpu_layers = backend === 'webgpu' ? 999 : 0;
  const options = { n_ctx: contextTokens, n_threads: threads, n_gpu_layers, n_parallel: 1 };
  if (n_gpu_layers > 0 && !wllama.isSupportWebGPU()) throw new Error('it finds no WebGPU');
  await take(wllama, { model, isKept }, options);
  const run = async (prompt, maxTokens) => {
    const startedMs = performance.now();
    const made = { text: '', ids: null, atMs: [], startedMs };
    const stream = await wllama.createCompletion({
      prompt,
      max_tokens: maxTokens,
      temperature: 0,
      cache_prompt: false,
      stream: true,
    });
    let timings;
    for await (const chunk of stream) {
      timings = chunk.timings ?? timings;
      const { text = '' } = chunk.choices[0] ?? {};
      if (text === '') continue;
      made.atMs.push(performance.now());
      made.text += text;
    }
    return { ...made, promptTokens: timings?.prompt_n ?? null };
  };
  return { info: { ...describe(wllama), backend }, run, close: () => wllama.exit() };
}

/** Through its own cache, where that is asked for; else from the network. */
async function take(wllama, { model, isKept }, options) {
  if (isKept) return wllama.loadModelFromUrl(new URL(model, location.href).href, options);
  return wllama.loadModel([await (await fetch(model)).blob()], options);
}

function describe(wllama) {
  return { backend: 'cpu', wasmVariant: 'simd128', threads: wllama.getNumThreads() };
}

const PLAIN = { workerUrl: '/pkg/worker.js?wasm=simd128' };
/** Peers by the name of their package. */
const OPENERS = {
  'tokenbrook relaxed-simd': (options) => tokenbrook({}, options),
  'tokenbrook simd128': (options) => tokenbrook(PLAIN, options),
  'tokenbrook exact': (options) => tokenbrook({ precision: 'exact' }, options),
  'tokenbrook fast': (options) => tokenbrook({ precision: 'fast' }, options),
  'wllama-2': wllama2,
  'wllama-3': wllama3,
  'candle-transformers': candle,
  'onnxruntime-web int8': ortWeb,
  'onnxruntime-web int4': ortWeb,
};

globalThis.open = async (name, options) => {
  const startedMs = performance.now();
  globalThis.engine = await OPENERS[name](options);
  return { info: engine.info, loadMs: performance.now() - startedMs };
};

/** One run, as rates. */
globalThis.sample = async (prompt, promptTokens, maxTokens) => {
  const made = await engine.run(prompt, maxTokens);
  if (document.hidden) throw new Error('the page was hidden');
  return rates(made, promptTokens, maxTokens);
};

/**
 * What the exact tier answers, `{ prompt, text, ids, leads }`, and by how much each token was the
 * likeliest. A prompt is lengthened by what comes before the most tokens in a row whose lead is
 * clear.
 */
globalThis.known = async (model, prompts, clearLead) => {
  const own = { ...PLAIN, precision: 'exact' };
  const { loaded, close } = await tokenbrook(own, { model, backend: 'cpu', contextTokens: 512 });
  const answers = [];
  for (const prompt of prompts) {
    const first = await answerTo(loaded, prompt);
    const longer = prompt + first.texts.slice(0, clearest(first.leads, clearLead)).join('');
    const { texts, ...answer } = await answerTo(loaded, longer);
    answers.push({ ...answer, prompt: longer, text: texts.join('') });
  }
  await close();
  return answers;
};

async function answerTo(loaded, prompt) {
  const options = { maxTokens: KNOWN_TOKENS, temperature: 0, ignoreEos: true, logprobs: 2 };
  const answer = { texts: [], ids: [], leads: [] };
  for await (const token of loaded.generate(prompt, options)) {
    const [first, second] = token.topLogprobs;
    answer.ids.push(token.id);
    answer.texts.push(token.text);
    answer.leads.push(first.logprob - second.logprob);
  }
  return answer;
}

/** Where the longest run of leads of at least `least` begins. */
function clearest(leads, least) {
  let [best, length, start] = [0, 0, 0];
  for (const [i, lead] of leads.entries()) {
    if (lead < least) start = i + 1;
    else if (i + 1 - start > length) [best, length] = [start, i + 1 - start];
  }
  return best;
}

/** A model for its tokenizer, and the ids that it puts before each text. */
async function openTokenizer(model) {
  const options = { model, backend: 'cpu', threads: 1, contextTokens: 64 };
  const opened = await tokenbrook(PLAIN, options);
  const first = opened.loaded.generate('x', { maxTokens: 1 });
  for await (const _ of first);
  const ids = await first.promptIds;
  const begins = ids.slice(0, ids.length - (await opened.loaded.tokenize('x')).length);
  return { ...opened, begins };
}

/**
 * Texts of exactly so many tokens, each with a beginning of its own, so that no engine finds it
 * in a cache: `samples` for each length, from any text of some length. A length of no more tokens
 * than the model adds itself becomes the next that there can be.
 */
globalThis.cutPrompts = async (model, text, lengths, samples) => {
  const { loaded, close, begins } = await openTokenizer(model);
  const added = begins.length;
  const ids = Array.from(await loaded.tokenize(text));
  const ring = [];
  while (ring.length < STORY) ring.push(...ids);
  let start = 0;
  const begun = new Set();
  const cut = async (length) => {
    for (let tries = 0; tries < ids.length; tries += 1) {
      start = (start + 1) % ids.length;
      if (begun.has(ids[start])) continue;
      const part = await loaded.detokenize(ring.slice(start, start + Math.max(length - added, 1)));
      // What was cut has to be read as the same tokens again.
      if ((await loaded.tokenize(part)).length + added !== length) continue;
      begun.add(ids[start]);
      return part;
    }
    throw new Error('the text has too few different beginnings');
  };
  const prompts = {};
  const cuts = [...new Set(lengths.map((length) => Math.max(length, added + 1)))];
  for (const length of cuts) {
    prompts[length] = [];
    for (let i = 0; i < samples; i += 1) prompts[length].push(await cut(length));
  }
  await close();
  return { lengths: cuts, prompts };
};

/** Token ids of prompts, with what the model adds to each: for an engine that reads no text. */
globalThis.idsOf = async (model, texts) => {
  const { loaded, close, begins } = await openTokenizer(model);
  const all = [];
  for (const text of texts) {
    all.push([...begins, ...(await loaded.tokenize(text, { special: true }))]);
  }
  await close();
  return all;
};

document.title = 'ready';
