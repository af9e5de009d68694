// Speed of the engine in headless Chromium, through the npm package.
// Usage: node bench-engine.mjs CONFIG, a JSON object that `cargo xtask bench` writes:
// { chromium, pkg, model: { file } | { url }, load, samples }. What was measured goes to stdout as
// JSON, with a `table` for people.
import { fileURLToPath } from 'node:url';
import { chromium } from 'playwright-core';
import { GPU_FLAGS } from './chromium.mjs';
import { modelRoute } from './model-route.mjs';
import { serve } from './serve.mjs';
import { profileWorkers } from './worker-profiler.mjs';

const config = JSON.parse(process.argv[2]);

/** Parts of a pass on the processor, by the names of their functions. */
const PARTS = [
  ['products', /::cpu::kernels::|::cpu::unpack::/],
  ['attention', /::cpu::attention::|::math::dot_4|::math::total_rows/],
  ['sampling', /::sampling::/],
];

async function main() {
  const { url: source, routes } = modelRoute(config.model);
  const server = await serve({
    routes: {
      '/': fileURLToPath(new URL('drive.html', import.meta.url)),
      '/pkg/': config.pkg,
      ...routes,
    },
  });
  const browser = await chromium.launch({ executablePath: config.chromium, args: GPU_FLAGS });
  try {
    const page = await browser.newPage();
    page.on('console', (message) => console.error(`browser: ${message.text()}`));
    await page.goto(server.url);
    const profiler = await profileWorkers(page);
    await page.exposeFunction('startProfile', () => profiler.start());
    await page.exposeFunction('stopProfile', async () => shares(await profiler.stop()));
    const { load, samples } = config;
    const result = await page.evaluate(measure, { source, load, samples });
    const report = { command: 'bench', suite: 'engine', ...result, table: tables(result) };
    process.stdout.write(`${JSON.stringify(report)}\n`);
  } finally {
    await browser.close();
    await server.close();
  }
}

/** Shares of the parts in the time of all functions. */
function shares(times) {
  const all = Object.entries(times);
  const total = all.reduce((sum, [, ms]) => sum + ms, 0);
  const partOf = (name) => PARTS.find(([, pattern]) => pattern.test(name))?.[0] ?? 'all else';
  const found = {};
  for (const part of [...PARTS.map(([part]) => part), 'all else']) found[part] = 0;
  for (const [name, ms] of all) found[partOf(name)] += ms / total;
  return found;
}

const median = (values) => {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
};

function tables({ info, loads, rows, tokens, parts }) {
  const lines = [
    `${info.name} ${info.quantization}, ${info.backend} (${info.precision}), ` +
      `${info.adapter ?? info.wasmVariant}`,
    `tokens: ${tokens.agree ? 'those of the CPU, exact' : `differ from the CPU's at ${tokens.firstDifference}`}`,
    '',
    '| measured | median | samples |',
    '|---|---:|---|',
  ];
  const row = (name, values, digits, unit) => {
    const all = values.map((value) => value.toFixed(digits)).join(' ');
    lines.push(`| ${name} | ${median(values).toFixed(digits)} ${unit} | ${all} |`);
  };
  for (const { name, tokensPerSecond } of rows) row(name, tokensPerSecond, 2, 'tok/s');
  for (const { name, ttftMs } of rows) if (ttftMs) row(`first token, ${name}`, ttftMs, 0, 'ms');
  row('load, the first', [loads[0].loadedMs], 0, 'ms');
  row('load to first token, the first', [loads[0].firstTokenMs], 0, 'ms');
  const later = loads.slice(1);
  row('load to first token, a second time', later.map((it) => it.firstTokenMs), 0, 'ms');
  for (const pass of info.gpu?.profile ?? []) lines.push('', ...passLines(pass));
  if (parts.length > 0) lines.push('', ...partLines(parts));
  if (info.gpu) {
    const used = info.gpu.variants
      .map(({ role, format, variant }) => [role, format, variant].filter(Boolean).join(' '))
      .join(', ');
    lines.push('', `kernels: ${used}`);
  }
  return `${lines.join('\n')}\n`;
}

/** The share of the products is also how much is reached of what they alone would run at. */
function partLines(parts) {
  const percent = (share) => `${(100 * share).toFixed(1)} %`;
  const names = Object.keys(parts[0].shares);
  const lines = [`| share of time | ${names.join(' | ')} |`];
  lines.push(`|---|${'---:|'.repeat(names.length)}`);
  for (const { name, shares } of parts) {
    lines.push(`| ${name} | ${names.map((part) => percent(shares[part])).join(' | ')} |`);
  }
  return lines;
}

function passLines(pass) {
  const percent = (share) => `${(100 * share).toFixed(1)} %`;
  const lines = [
    `${pass.rows} row${pass.rows === 1 ? '' : 's'} at ${pass.positions} positions: ` +
      `${(pass.micros / 1000).toFixed(1)} ms, ${pass.dispatches} dispatches, ` +
      `${(pass.bytes / 1e6).toFixed(1)} MB, ${(pass.flops / 1e9).toFixed(2)} GFLOP; ` +
      `encoding ${pass.encodeMs.toFixed(2)} ms, an idle read ${pass.readMs.toFixed(2)} ms; ` +
      `this device copies ${(pass.copyBytesPerSecond / 1e9).toFixed(1)} GB/s and multiplies ` +
      `${(pass.flopsPerSecond / 1e9).toFixed(1)} GFLOP/s`,
    '',
    '| kernel | dispatches | ms | share | of copy | of peak |',
    '|---|---:|---:|---:|---:|---:|',
  ];
  for (const kernel of pass.kernels) {
    lines.push(
      `| ${kernel.kernel} | ${kernel.dispatches} | ${(kernel.micros / 1000).toFixed(2)} ` +
        `| ${percent(kernel.share)} | ${percent(kernel.ofCopy)} | ${percent(kernel.ofPeak)} |`,
    );
  }
  return lines;
}

// The next runs in the page: it sees nothing of this file but `startProfile` and `stopProfile`.

async function measure({ source, load: loadOptions, samples }) {
  const { load } = await import('/pkg/index.js');
  const PROMPT = 'The capital of France is';
  const greedy = { temperature: 0, ignoreEos: true };

  async function run(model, prompt, options) {
    const stream = model.generate(prompt, { ...greedy, ...options });
    const ids = [];
    let firstAt;
    for await (const { id } of stream) {
      firstAt ??= performance.now();
      ids.push(id);
    }
    return { ids, firstAt, stats: await stream.stats };
  }

  /** Text of about so many tokens, with a beginning that no earlier prompt had. */
  function text(words, sample) {
    const list = 'river stone light paper garden winter music letter'.split(' ');
    const word = (i) => list[(i * 7 + sample * 3) % list.length];
    return `${sample} ${Array.from({ length: words }, (_, i) => word(i)).join(' ')}`;
  }

  async function timedLoad(options) {
    const start = performance.now();
    const model = await load(source, options);
    const loadedMs = performance.now() - start;
    const { firstAt, ids } = await run(model, PROMPT, { maxTokens: 8 });
    return { model, ids, loadedMs, firstTokenMs: firstAt - start };
  }

  const loads = [];
  const first = await timedLoad(loadOptions);
  loads.push({ loadedMs: first.loadedMs, firstTokenMs: first.firstTokenMs });
  await first.model.dispose();
  // Tokens first: a fast wrong answer is worth nothing.
  const exact = await timedLoad({ backend: 'cpu', precision: 'exact' });
  await exact.model.dispose();
  const firstDifference = exact.ids.findIndex((id, i) => first.ids[i] !== id);
  const tokens = { agree: firstDifference < 0, firstDifference, ids: first.ids };
  let model;
  for (let i = 0; i < Math.min(samples, 3); i += 1) {
    await model?.dispose();
    const again = await timedLoad(loadOptions);
    loads.push({ loadedMs: again.loadedMs, firstTokenMs: again.firstTokenMs });
    ({ model } = again);
  }
  const rows = [];
  for (const words of [60, 240]) {
    const row = { name: '', tokensPerSecond: [], ttftMs: [] };
    for (let sample = 0; sample < samples; sample += 1) {
      const { stats } = await run(model, text(words, sample), { maxTokens: 1 });
      row.name = `pp${stats.promptTokens}`;
      row.tokensPerSecond.push(stats.prefillTokensPerSecond);
      row.ttftMs.push(stats.ttftMs);
    }
    rows.push(row);
  }
  const decode = { name: 'tg32', tokensPerSecond: [] };
  for (let sample = 0; sample < samples; sample += 1) {
    const { stats } = await run(model, PROMPT, { maxTokens: 33 });
    decode.tokensPerSecond.push(stats.decodeTokensPerSecond);
  }
  rows.push(decode);
  let { info } = model;
  const parts = [];
  if (info.backend === 'cpu') {
    const profiled = async (name, prompt, maxTokens) => {
      await startProfile();
      for (let i = 0; i < samples; i += 1) await run(model, prompt(i), { maxTokens });
      parts.push({ name, shares: await stopProfile() });
    };
    const [, { name }] = rows;
    await profiled(name, (i) => text(240, samples + i), 1);
    await profiled('tg128', () => PROMPT, 129);
  }
  await model.dispose();
  if (info.gpu !== null) {
    const profiled = { ...loadOptions, gpu: { ...loadOptions.gpu, profile: true } };
    const again = await load(source, profiled);
    ({ info } = again);
    await again.dispose();
  }
  return { info, loads, rows, tokens, parts };
}

try {
  await main();
} catch (error) {
  console.error(`error: ${error.message}`);
  process.exitCode = 1;
}
