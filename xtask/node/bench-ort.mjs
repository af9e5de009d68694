// ONNX Runtime Web as one of the engines of the suite `peers`: decoder-only models with grouped
// queries, as `benches/peers/export_onnx.py` makes them. Greedy, with the KV cache left on the
// device that computes.
const TOKENIZERS = '/peers/@huggingface/tokenizers/dist/tokenizers.min.mjs';
const FOLDER = '/onnx';

export async function ortWeb({ backend, threads }) {
  const build = backend === 'webgpu' ? 'webgpu' : 'wasm';
  const { Tokenizer } = await import(TOKENIZERS);
  const ort = await import(`/peers/onnxruntime-web/dist/ort.${build}.min.mjs`);
  ort.env.wasm.wasmPaths = '/peers/onnxruntime-web/dist/';
  ort.env.wasm.numThreads = threads;
  const json = async (name) => (await fetch(`${FOLDER}/${name}`)).json();
  const [config, vocabulary, vocabularyConfig] = await Promise.all(
    ['config.json', 'tokenizer.json', 'tokenizer_config.json'].map(json),
  );
  const tokenizer = new Tokenizer(vocabulary, vocabularyConfig);
  const session = await ort.InferenceSession.create(
    `${FOLDER}/onnx/${backend === 'webgpu' ? 'model_q4' : 'model_quantized'}.onnx`,
    {
      executionProviders: [build],
      preferredOutputLocation: locations(config, build),
      externalData:
        backend === 'webgpu'
          ? [{ path: 'model.onnx.data', data: `${FOLDER}/onnx/model_q4.onnx.data` }]
          : [],
    },
  );
  const run = (prompt, maxTokens) => decode(ort, { session, config, tokenizer }, prompt, maxTokens);
  const info = { backend, threads, wasmVariant: 'simd128' };
  return { info, run, close: () => session.release() };
}

const layers = (config) => Array.from({ length: config.num_hidden_layers }, (_, i) => i);

function locations(config, build) {
  if (build === 'wasm') return 'cpu';
  const names = layers(config).flatMap((i) => [`present.${i}.key`, `present.${i}.value`]);
  return { logits: 'cpu', ...Object.fromEntries(names.map((name) => [name, 'gpu-buffer'])) };
}

async function decode(ort, { session, config, tokenizer }, prompt, maxTokens) {
  const startedMs = performance.now();
  const promptIds = tokenizer.encode(prompt).ids;
  const made = { ids: [], atMs: [], startedMs, promptTokens: promptIds.length };
  let past = emptyPast(ort, config);
  let fresh = promptIds;
  let seen = 0;
  while (made.ids.length < maxTokens) {
    seen += fresh.length;
    const outputs = await session.run({ ...inputs(ort, fresh, seen), ...past });
    for (const tensor of Object.values(past)) tensor.dispose();
    past = {};
    for (const [name, tensor] of Object.entries(outputs)) {
      if (name !== 'logits') past[name.replace('present', 'past_key_values')] = tensor;
    }
    fresh = [greatest(outputs.logits.data, config.vocab_size)];
    made.atMs.push(performance.now());
    made.ids.push(fresh[0]);
  }
  for (const tensor of Object.values(past)) tensor.dispose();
  return { ...made, text: tokenizer.decode(made.ids) };
}

function emptyPast(ort, config) {
  const width = config.head_dim ?? config.hidden_size / config.num_attention_heads;
  const dims = [1, config.num_key_value_heads, 0, width];
  const empty = () => new ort.Tensor('float32', new Float32Array(0), dims);
  const names = layers(config).flatMap((i) => [`${i}.key`, `${i}.value`]);
  return Object.fromEntries(names.map((name) => [`past_key_values.${name}`, empty()]));
}

function inputs(ort, ids, seen) {
  const whole = (values) => BigInt64Array.from(values, BigInt);
  return {
    input_ids: new ort.Tensor('int64', whole(ids), [1, ids.length]),
    attention_mask: new ort.Tensor('int64', whole(Array(seen).fill(1)), [1, seen]),
  };
}

/** The place of the greatest logit of the last row. */
function greatest(logits, width) {
  const row = logits.subarray(logits.length - width);
  let best = 0;
  for (let i = 1; i < row.length; i += 1) if (row[i] > row[best]) best = i;
  return best;
}
