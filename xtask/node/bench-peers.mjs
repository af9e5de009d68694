// The suite `peers`, in one run of one browser: every engine is loaded, warmed and asked for
// tokens that are known, then all are measured in turn, sample by sample.
// Usage: node bench-peers.mjs CONFIG, a JSON object that `cargo xtask bench` writes. What was
// measured goes to stdout as JSON; how it goes is told on stderr.
import { readFileSync } from 'node:fs';
import { cpus, totalmem } from 'node:os';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { secondLoads } from './bench-loads.mjs';
import { openNative } from './bench-native.mjs';
import { CLEAR_LEAD, adopt, checkGreedy, checkRounded, referenceOf } from './bench-reference.mjs';
import { brotliBytes } from './brotli.mjs';
import { launch } from './browsers.mjs';
import { grown, peakBytes, renderers } from './renderers.mjs';
import { ISOLATED, serve } from './serve.mjs';

/** Not in the browser. */
const NATIVE = 'llama.cpp, native';
/** Reads token ids, and is not of npm: `cargo xtask bench` makes it. */
const CANDLE = 'candle-transformers';
/** By backend; each is one of `bench-page.mjs`, peers by their package in `benches/peers`. */
const ENGINES = {
  cpu: [
    'tokenbrook relaxed-simd',
    'tokenbrook simd128',
    'wllama-2',
    'wllama-3',
    CANDLE,
    'onnxruntime-web int8',
    NATIVE,
  ],
  webgpu: ['tokenbrook exact', 'tokenbrook fast', 'wllama-3', 'onnxruntime-web int4'],
};
/** Peers whose versions a report names. */
const PACKAGES = [...new Set(Object.values(ENGINES).flat().map((name) => name.split(' ')[0]))]
  .filter((name) => /^(wllama|onnxruntime)/.test(name));
const LOADS = 3;

const config = JSON.parse(process.argv[2]);
/** Tokens of a decode: a GPU in software takes seconds for one of some peers. */
const DECODED = config.backend === 'webgpu' ? 12 : 64;
const notes = ['Transformers.js is left out: onnxruntime-web is what it runs on.'];
const say = (text) => console.error(`bench: ${text}`);

async function main() {
  checkNames();
  const here = (name) => fileURLToPath(new URL(name, import.meta.url));
  const routes = {
    '/': here('bench.html'),
    '/bench-page.mjs': here('bench-page.mjs'),
    '/bench-candle.mjs': here('bench-candle.mjs'),
    '/bench-ort.mjs': here('bench-ort.mjs'),
    '/bench-rates.mjs': here('bench-rates.mjs'),
    '/pkg/': config.pkg,
    '/peers/': join(config.peers, 'node_modules'),
  };
  if (config.candle) routes['/candle/'] = config.candle;
  if (config.onnx) routes['/onnx/'] = config.onnx;
  const models = config.models.map(({ file }) => {
    if (file === undefined) throw new Error('this suite takes models that are files');
    routes[`/model/${basename(file)}`] = file;
    return { file, url: encodeURI(`/model/${basename(file)}`), name: nameOf(file) };
  });
  const server = await serve({ routes, headers: ISOLATED });
  const browser = await launch({ ...config, gpu: config.backend === 'webgpu' });
  try {
    const run = { browser, url: server.url, rows: [], downloads: new Map(), versions: {} };
    for (const model of models) {
      for (const threads of config.threads) await measure(run, model, threads);
    }
    process.stdout.write(`${JSON.stringify(report(run))}\n`);
  } finally {
    await browser.close();
    await server.close();
  }
}

/** `name Q4_1` of `name.Q4_1.gguf`: it ends in the quantization's name. */
function nameOf(file) {
  const stem = basename(file).replace(/\.gguf$/i, '');
  return stem.replace(/[.-](?=I?Q\d[^.-]*$|B?F\d+$)/i, ' ');
}

async function measure(run, model, threads) {
  const wanted = [...config.prompts].sort((a, b) => a - b);
  const reference = referenceOf(config.references, model.file);
  const contextTokens = Math.max(256, wanted.at(-1) + DECODED + 8);
  const { lengths, prompts } = await inPage(run, (page) =>
    page.evaluate((args) => globalThis.cutPrompts(...args), [
      model.url,
      reference.text,
      wanted,
      config.samples + 1,
    ]),
  );
  if (!reference.isOwn) {
    const args = [model.url, reference.cases.map(({ prompt }) => prompt), CLEAR_LEAD];
    const known = (page) => page.evaluate((args) => globalThis.known(...args), args);
    adopt(reference, await inPage(run, known));
    notes.push(`${model.name} has no reference: its tokens are those of tokenbrook's exact tier.`);
  }
  const asked = (name) => config.engines.length === 0 || matches(name);
  const names = ENGINES[config.backend].filter((name) => asked(title(name)) && isHere(name));
  if (names.includes(CANDLE)) {
    const known = reference.cases.map(({ prompt }) => prompt);
    await noteIds(run, model, [...Object.values(prompts).flat(), ...known]);
  }
  const engines = [];
  for (const name of names) {
    const { backend } = config;
    const options = { model: model.url, file: model.file, backend, threads, contextTokens };
    const engine = await open(run, name, options);
    if (engine === null) continue;
    engine.rows = lengths.map((promptTokens) => rowOf(engine, model, promptTokens));
    const failure = await check(engine, reference);
    if (failure !== null) {
      notes.push(`${title(name)}, ${model.name}, ${threads} threads, is left out: ${failure}.`);
      await engine.close();
      continue;
    }
    engines.push(engine);
  }
  await noteSecondLoads(run, engines, { model: model.url, threads, contextTokens });
  // The first round warms all of them and is not kept.
  for (let round = 0; round <= config.samples; round += 1) {
    say(`${model.name}, ${threads} threads, round ${round} of ${config.samples}`);
    for (const engine of engines) await sampleAll(engine, lengths, prompts, round);
  }
  for (const engine of engines) {
    for (const row of engine.rows) row.peakBytes = peakBytes(engine.pid);
    run.rows.push(...engine.rows);
    await engine.close();
  }
}

/** Keeps the ids of these texts in this model, for an engine without a tokenizer of its own. */
async function noteIds(run, model, texts) {
  const args = [model.url, texts];
  const read = (page) => page.evaluate((args) => globalThis.idsOf(...args), args);
  const ids = await inPage(run, read);
  run.ids = new Map(texts.map((text, index) => [text, ids[index]]));
}

/** Of those that keep a model themselves. */
async function noteSecondLoads(run, engines, options) {
  const keeps = (name) => name !== NATIVE && !name.startsWith('onnxruntime');
  const names = engines.map(({ name }) => name).filter(keeps);
  const { backend, samples } = config;
  const medians = await secondLoads(run, names, { ...options, backend }, samples, say);
  for (const { name, rows } of engines) {
    for (const row of rows) row.secondLoadMs = medians.get(name) ?? null;
  }
}

const matches = (name) => config.engines.some((part) => name.startsWith(part));

/** Version of an installed package, or of candle. */
function versionOf(name) {
  const folder = name === CANDLE ? config.candle : join(config.peers, 'node_modules', name);
  return JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')).version;
}

/** An engine with its version: `wllama 3.13.0`, `ort-web 1.30.0 int8`. */
function title(name) {
  if (name === CANDLE && config.candle) return `${name} ${versionOf(name)}`;
  const [, brand, rest] = /^(wllama|onnxruntime-web)(?:-\d+)?(.*)$/.exec(name) ?? [];
  if (brand === undefined) return name;
  return `${brand.replace('onnxruntime', 'ort')} ${versionOf(name.split(' ')[0])}${rest}`;
}

/** Refuses names that no engine here has: their rows would be missing without a word. */
function checkNames() {
  const titles = ENGINES[config.backend].map(title);
  const unknown = config.engines.find((part) => !titles.some((it) => it.startsWith(part)));
  if (unknown === undefined) return;
  throw new Error(`no engine is called \`${unknown}\`; there are ${titles.join(', ')}`);
}

/** Whether an engine can be asked at all; a note where it cannot. */
function isHere(name) {
  const reason =
    name.startsWith('onnxruntime') && !config.onnx
      ? 'there is no ONNX of this model: `--onnx` names a folder'
      : name.startsWith('wllama') && config.backend === 'webgpu' && !config.firefox
        ? 'without f16 in shaders, as on SwiftShader, it computes on the CPU'
        : name === CANDLE && !config.candle
          ? '`cargo xtask bench` makes it, where its row is asked for'
          : name === NATIVE && !config.nativePython
            ? '`--native-python` names a Python that has llama-cpp-python'
            : null;
  if (reason !== null) notes.push(`${title(name)} is left out: ${reason}.`);
  return reason === null;
}

async function sampleAll(engine, lengths, prompts, round) {
  await engine.front();
  for (const [index, length] of lengths.entries()) {
    // Deep and shallow tell how decoding depends on depth; between them, one token is enough.
    const ends = index === 0 || index === lengths.length - 1;
    const sample = await engine.sample(prompts[length][round], length, ends ? DECODED : 1);
    if (round > 0) engine.rows[index].samples.push(sample);
  }
}

/** Loads an engine a few times, keeps the last. Null where a peer cannot do what is asked. */
async function open(run, name, options) {
  const times = [];
  for (let load = 1; ; load += 1) {
    const engine = await startOrNote(run, name, options);
    if (engine === null) return null;
    times.push(engine.loadMs);
    if (engine.info.threads !== options.threads) {
      notes.push(`${title(name)} has no build for ${options.threads} threads.`);
      await engine.close();
      return null;
    }
    if (load === Math.min(LOADS, config.samples)) {
      times.sort((a, b) => a - b);
      say(`${name}: loaded in ${times.map((ms) => ms.toFixed(0)).join(', ')} ms`);
      return { ...engine, loadMs: times[times.length >> 1] };
    }
    await engine.close();
  }
}

async function startOrNote(run, name, options) {
  try {
    return await start(run, name, options);
  } catch (error) {
    if (name.startsWith('tokenbrook')) throw error;
    const reason = /^(?:page\.evaluate: )?(?:\w*Error: )?(.*)/.exec(error.message)[1];
    notes.push(`${title(name)}, ${nameOf(options.file)}, is left out: ${reason}.`);
    return null;
  }
}

async function start(run, name, options) {
  if (name === NATIVE) return startNative(run, options);
  const context = await run.browser.newContext();
  const page = await context.newPage();
  page.on('pageerror', (error) => say(`${name}: ${error.message}`));
  const files = new Set();
  context.on('request', (request) => files.add(new URL(request.url()).pathname));
  await page.goto(run.url);
  await page.waitForFunction(() => document.title === 'ready');
  const before = renderers();
  const opening = page.evaluate((args) => globalThis.open(...args), [name, options]);
  const opened = await opening.catch(async (error) => {
    await context.close();
    throw error;
  });
  noteDownloads(run, name, files);
  const given = (prompt) => (name === CANDLE ? run.ids.get(prompt) : prompt);
  return {
    name,
    pid: grown(before, renderers()),
    ...opened,
    run: (prompt, ...rest) =>
      page.evaluate((args) => globalThis.engine.run(...args), [given(prompt), ...rest]),
    sample: (prompt, ...rest) =>
      page.evaluate((args) => globalThis.sample(...args), [given(prompt), ...rest]),
    front: () => page.bringToFront(),
    close: () => context.close(),
  };
}

async function startNative(run, options) {
  const script = join(config.peers, 'native_llama.py');
  const engine = await openNative({ python: config.nativePython, script }, options);
  run.versions['llama-cpp-python'] = engine.version;
  return { name: NATIVE, ...engine };
}

async function inPage(run, work) {
  const context = await run.browser.newContext();
  const page = await context.newPage();
  await page.goto(run.url);
  await page.waitForFunction(() => document.title === 'ready');
  const value = await work(page);
  await context.close();
  return value;
}

function rowOf(engine, model, promptTokens) {
  const { backend, threads, wasmVariant, precision = null } = engine.info;
  return {
    engine: title(engine.name).replace(/^tokenbrook .*/, 'tokenbrook'),
    model: model.name,
    backend,
    precision,
    threads,
    wasmVariant,
    promptTokens,
    loadMs: engine.loadMs,
    secondLoadMs: null,
    peakBytes: null,
    samples: [],
  };
}

/** Null where the engine writes what it should, else what is wrong. */
async function check(engine, reference) {
  const { failure, words, isRounded } = engine.name.startsWith('onnxruntime')
    ? await checkRounded(engine, reference)
    : await checkGreedy(engine, reference);
  if (isRounded && failure === null) notes.push(`${title(engine.name)} ${words}.`);
  else if (failure === null) say(`${engine.name}: ${words}`);
  return failure;
}

// Downloads beside the model.

function noteDownloads(run, name, paths) {
  if (run.downloads.has(name)) return;
  const roots = {
    '/pkg/': config.pkg,
    '/peers/': join(config.peers, 'node_modules'),
    '/candle/': config.candle,
  };
  const entry = { engine: title(name), files: 0, bytes: 0, brotliBytes: 0 };
  for (const path of paths) {
    const root = Object.keys(roots).find((prefix) => path.startsWith(prefix));
    if (root === undefined) continue;
    const bytes = readFileSync(join(roots[root], path.slice(root.length)));
    entry.files += 1;
    entry.bytes += bytes.length;
    entry.brotliBytes += brotliBytes(bytes);
  }
  run.downloads.set(name, entry);
}

function report(run) {
  const pkg = JSON.parse(readFileSync(join(config.pkg, 'package.json')));
  const [cpu] = cpus();
  return {
    date: new Date().toISOString().slice(0, 10),
    machine: { cpu: cpu?.model ?? 'unknown', cores: cpus().length, memoryBytes: totalmem() },
    browser: run.browser.name,
    versions: {
      tokenbrook: `${pkg.version} (${config.build ?? 'unknown'} build)`,
      ...(config.candle && config.backend === 'cpu' ? { [CANDLE]: versionOf(CANDLE) } : {}),
      ...Object.fromEntries(PACKAGES.map((name) => [name, versionOf(name)])),
      ...run.versions,
    },
    notes: [...new Set(notes)],
    downloads: [...run.downloads.values()],
    rows: run.rows,
  };
}

try {
  await main();
} catch (error) {
  console.error(`error: ${error.message}`);
  process.exitCode = 1;
}
