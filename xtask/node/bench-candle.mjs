// candle-transformers as one of the engines of the suite `peers`: the module of `benches/candle`,
// used as candle's own examples for the browser use theirs, but in the page's own thread, where no
// message stands between its tokens and the clock. It is given token ids and gives token ids.

/** Of this engine only. */
const CACHE = 'candle';

export async function candle({ model, isKept }) {
  const { default: init, Model } = await import('/candle/candle.js');
  await init({ module_or_path: '/candle/candle_bg.wasm' });
  const loaded = new Model(await bytesOf(model, isKept));
  const run = async (promptIds, maxTokens) => {
    const startedMs = performance.now();
    const made = { ids: [], atMs: [], startedMs, promptTokens: promptIds.length };
    let id = loaded.prompt(Uint32Array.from(promptIds));
    for (;;) {
      made.atMs.push(performance.now());
      made.ids.push(id);
      if (made.ids.length >= maxTokens) break;
      id = loaded.next();
    }
    return { ...made, text: `tokens ${made.ids.join(' ')}` };
  };
  const info = { backend: 'cpu', threads: 1, wasmVariant: 'simd128' };
  return { info, run, close: () => loaded.free() };
}

/** As in candle's examples: from the Cache API, where it is asked to keep the file there. */
async function bytesOf(model, isKept) {
  const take = async (response) => new Uint8Array(await response.arrayBuffer());
  if (!isKept) return take(await fetch(model));
  const cache = await caches.open(CACHE);
  const kept = await cache.match(model);
  if (kept !== undefined) return take(kept);
  const response = await fetch(model);
  await cache.put(model, response.clone());
  return take(response);
}
