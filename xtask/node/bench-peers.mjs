// The suite `peers`, in one run of one browser: every engine is loaded, warmed and asked for
// tokens that are known, then all are measured in turn, sample by sample.
// Usage: node bench-peers.mjs CONFIG, a JSON object that `cargo xtask bench` writes. What was
// measured goes to stdout as JSON; how it goes is told on stderr.
import { readFileSync, readdirSync } from 'node:fs';
import { cpus, totalmem } from 'node:os';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { secondLoads } from './bench-loads.mjs';
import { brotliBytes } from './brotli.mjs';
import { launch } from './browsers.mjs';
import { grown, peakBytes, renderers } from './renderers.mjs';
import { ISOLATED, serve } from './serve.mjs';

/** By backend; each name is one of `bench-page.mjs`. */
const ENGINES = {
  cpu: [
    'tokenbrook relaxed-simd',
    'tokenbrook simd128',
    'wllama 2.4.0',
    'wllama 3.13.0',
    'ort-web 1.30.0 int8',
  ],
  webgpu: ['tokenbrook exact', 'tokenbrook fast', 'wllama 3.13.0', 'ort-web 1.30.0 int4'],
};
/** Greedy ids are compared up to the first whose lead is smaller, in nats: as int8 allows. */
const CLEAR_LEAD = 0.5;
/** Greedy tokens of weights that were rounded a second time. */
const ROUNDED_TOKENS = 4;
const LOADS = 3;

const config = JSON.parse(process.argv[2]);
/** Tokens of a decode: a GPU in software takes seconds for one of some peers. */
const DECODED = config.backend === 'webgpu' ? 12 : 64;
const notes = ['Transformers.js and candle-transformers in wasm are left out.'];
const say = (text) => console.error(`bench: ${text}`);

async function main() {
  const here = (name) => fileURLToPath(new URL(name, import.meta.url));
  const routes = {
    '/': here('bench.html'),
    '/bench-page.mjs': here('bench-page.mjs'),
    '/bench-ort.mjs': here('bench-ort.mjs'),
    '/pkg/': config.pkg,
    '/peers/': join(config.peers, 'node_modules'),
  };
  if (config.onnx) routes['/onnx/'] = config.onnx;
  const models = config.models.map(({ file }) => {
    if (file === undefined) throw new Error('this suite takes models that are files');
    routes[`/model/${basename(file)}`] = file;
    return { file, url: encodeURI(`/model/${basename(file)}`), name: nameOf(file) };
  });
  const server = await serve({ routes, headers: ISOLATED });
  const browser = await launch({ ...config, gpu: config.backend === 'webgpu' });
  try {
    const run = { browser, url: server.url, rows: [], downloads: new Map() };
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
  const lengths = [...config.prompts].sort((a, b) => a - b);
  const reference = referenceOf(model.file);
  const contextTokens = Math.max(256, lengths.at(-1) + DECODED + 8);
  const prompts = await inPage(run, (page) =>
    page.evaluate((args) => globalThis.cutPrompts(...args), [
      model.url,
      reference.text,
      lengths,
      config.samples + 1,
    ]),
  );
  const asked = (name) => config.engines.length === 0 || matches(name);
  const names = ENGINES[config.backend].filter((name) => asked(name) && isHere(name));
  const engines = [];
  for (const name of names) {
    const { backend } = config;
    const engine = await open(run, name, { model: model.url, backend, threads, contextTokens });
    if (engine === null) continue;
    engine.rows = lengths.map((promptTokens) => rowOf(engine, model, promptTokens));
    const failure = await check(engine, reference);
    if (failure !== null) {
      notes.push(`${name}, ${model.name}, ${threads} threads, is left out: ${failure}.`);
      await engine.context.close();
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
    await engine.context.close();
  }
}

/** Of those that keep a model themselves. */
async function noteSecondLoads(run, engines, options) {
  const names = engines.map(({ name }) => name).filter((name) => !name.startsWith('ort-web'));
  const { backend, samples } = config;
  const medians = await secondLoads(run, names, { ...options, backend }, samples, say);
  for (const { name, rows } of engines) {
    for (const row of rows) row.secondLoadMs = medians.get(name) ?? null;
  }
}

const matches = (name) => config.engines.some((part) => name.startsWith(part));

/** Whether an engine can be asked at all; a note where it cannot. */
function isHere(name) {
  const reason =
    name.startsWith('ort-web') && !config.onnx
      ? 'there is no ONNX of this model: `--onnx` names a folder'
      : name.startsWith('wllama') && config.backend === 'webgpu' && !config.firefox
        ? 'without f16 in shaders, as on SwiftShader, it computes on the CPU'
        : null;
  if (reason !== null) notes.push(`${name} is left out: ${reason}.`);
  return reason === null;
}

async function sampleAll(engine, lengths, prompts, round) {
  await engine.page.bringToFront();
  for (const [index, length] of lengths.entries()) {
    // Deep and shallow tell how decoding depends on depth; between them, one token is enough.
    const ends = index === 0 || index === lengths.length - 1;
    const args = [prompts[length][round], length, ends ? DECODED : 1];
    const sample = await engine.page.evaluate((args) => globalThis.sample(...args), args);
    if (round > 0) engine.rows[index].samples.push(sample);
  }
}

/** Loads an engine a few times, and keeps the last. Null where it cannot do what is asked. */
async function open(run, name, options) {
  const times = [];
  for (let load = 1; ; load += 1) {
    const engine = await start(run, name, options);
    times.push(engine.loadMs);
    if (engine.info.threads !== options.threads) {
      notes.push(`${name} has no build for ${options.threads} threads.`);
      await engine.context.close();
      return null;
    }
    if (load === Math.min(LOADS, config.samples)) {
      times.sort((a, b) => a - b);
      say(`${name}: loaded in ${times.map((ms) => ms.toFixed(0)).join(', ')} ms`);
      return { ...engine, loadMs: times[times.length >> 1] };
    }
    await engine.context.close();
  }
}

async function start(run, name, options) {
  const context = await run.browser.newContext();
  const page = await context.newPage();
  page.on('pageerror', (error) => say(`${name}: ${error.message}`));
  const files = new Set();
  context.on('request', (request) => files.add(new URL(request.url()).pathname));
  await page.goto(run.url);
  await page.waitForFunction(() => document.title === 'ready');
  const before = renderers();
  const opened = await page.evaluate((args) => globalThis.open(...args), [name, options]);
  noteDownloads(run, name, files);
  return { name, context, page, pid: grown(before, renderers()), ...opened };
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
    engine: engine.name.replace(/^tokenbrook .*/, 'tokenbrook'),
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

// Tokens that are known.

/** A prompt, the text that follows, and a longer text to cut prompts from. */
function referenceOf(file) {
  const wanted = basename(file).toLowerCase().replace(/[^a-z0-9]/g, '');
  const fold = (text) => text.toLowerCase().replace(/[^a-z0-9]/g, '');
  const all = readdirSync(config.references)
    .filter((name) => name.endsWith('.json') && name !== 'cases.json')
    .map((name) => JSON.parse(readFileSync(join(config.references, name), 'utf8')));
  const own = all.find(({ model }) => fold(model) === wanted);
  const family = own ?? all.find(({ model }) => fold(model).slice(0, 6) === wanted.slice(0, 6));
  if (family === undefined) throw new Error(`there is no reference for ${basename(file)}`);
  const clear = ({ greedy_margin: leads = [] }) => {
    const first = leads.findIndex((lead) => lead < CLEAR_LEAD);
    return first === -1 ? leads.length : first;
  };
  const cases = family.cases
    .filter(({ greedy_ids }) => greedy_ids !== undefined)
    .sort((a, b) => clear(b) - clear(a))
    .map((it) => ({ prompt: it.prompt_text, text: it.greedy_text, ids: it.greedy_ids }));
  const [best] = cases;
  const most = clear(family.cases.find(({ prompt_text }) => prompt_text === best.prompt));
  const long = family.cases.find(({ name }) => name === 'long-forced');
  // Another quantization of the same weights has leads of its own: half as many tokens.
  return { cases, text: long.prompt_text, clear: own === undefined ? most >> 1 : most };
}

/** Null where the engine writes what it should, else what is wrong. */
async function check(engine, { cases, clear }) {
  if (engine.name.startsWith('ort-web')) return checkRounded(engine, cases);
  if (clear < 2) return 'the reference has no clear tokens';
  const [best] = cases;
  const made = await continuation(engine, best, clear);
  const right =
    made.ids === null
      ? made.text.length > 0 && best.text.startsWith(made.text)
      : common(made.ids, best.ids) === clear;
  if (right) say(`${engine.name}: ${clear} greedy tokens are the reference's`);
  return right ? null : `it writes ${JSON.stringify(made.text)}`;
}

/**
 * Weights that are rounded a second time, to other formats, leave the reference where its leads
 * are small: one of the reference's answers has to begin as it should.
 */
async function checkRounded(engine, cases) {
  let furthest = 0;
  for (const it of cases) {
    const made = await continuation(engine, it, ROUNDED_TOKENS);
    furthest = Math.max(furthest, common(made.ids, it.ids));
    if (furthest === ROUNDED_TOKENS) {
      notes.push(
        `${engine.name} has the same weights rounded again: ${ROUNDED_TOKENS} greedy tokens of ` +
          'one answer of the reference are all that it is held to.',
      );
      return null;
    }
  }
  return `no answer begins with more than ${furthest} tokens of the reference`;
}

const continuation = (engine, { prompt }, tokens) =>
  engine.page.evaluate((args) => globalThis.engine.run(...args), [prompt, tokens]);

/** How many tokens two answers have in common. */
function common(made, wanted) {
  const first = made.findIndex((id, i) => id !== wanted[i]);
  return first === -1 ? made.length : first;
}

// Downloads beside the model.

function noteDownloads(run, name, paths) {
  if (run.downloads.has(name)) return;
  const roots = { '/pkg/': config.pkg, '/peers/': join(config.peers, 'node_modules') };
  const entry = { engine: name, files: 0, bytes: 0, brotliBytes: 0 };
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
  const version = (name) =>
    JSON.parse(readFileSync(join(config.peers, 'node_modules', name, 'package.json'))).version;
  const pkg = JSON.parse(readFileSync(join(config.pkg, 'package.json')));
  const [cpu] = cpus();
  return {
    date: new Date().toISOString().slice(0, 10),
    machine: { cpu: cpu?.model ?? 'unknown', cores: cpus().length, memoryBytes: totalmem() },
    browser: run.browser.name,
    versions: {
      tokenbrook: `${pkg.version} (${config.build} build)`,
      'wllama 2': version('wllama-2'),
      'wllama 3': version('wllama-3'),
      'onnxruntime-web': version('onnxruntime-web'),
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
