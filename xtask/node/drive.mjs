// One generation or one scoring in headless Chromium, through the npm package.
// Usage: node drive.mjs CONFIG, a JSON object that `cargo xtask chat` and `score` write:
// { chromium, pkg, model: { file } | { url }, load, task, json, jsonFile }.
import { writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { chromium } from 'playwright-core';
import { GPU_FLAGS } from './chromium.mjs';
import { modelRoute } from './model-route.mjs';
import { ISOLATED, serve } from './serve.mjs';

const config = JSON.parse(process.argv[2]);

async function main() {
  const { url: source, routes } = modelRoute(config.model);
  const server = await serve({
    routes: {
      '/': fileURLToPath(new URL('drive.html', import.meta.url)),
      '/pkg/': config.pkg,
      ...routes,
    },
    // Threads have to be asked for: the pages of most sites are not isolated.
    headers: config.load.threads === undefined ? {} : ISOLATED,
  });
  // Playwright ends the browser on SIGINT, SIGTERM and SIGHUP.
  const browser = await chromium.launch({ executablePath: config.chromium, args: GPU_FLAGS });
  try {
    const page = await browser.newPage();
    page.on('console', (message) => console.error(`browser: ${message.text()}`));
    page.on('pageerror', (error) => console.error(`browser: ${error.message}`));
    await page.exposeFunction('emitText', (text) => void process.stdout.write(text));
    await page.goto(server.url);
    const { task, load } = config;
    const job = { source, load, task, quiet: config.json };
    const reply = await page.evaluate(task.kind === 'chat' ? chat : score, job);
    if (reply.error) throw new EngineError(reply.error);
    finish(reply.result);
  } finally {
    await browser.close();
    await server.close();
  }
}

function finish(result) {
  const text = `${JSON.stringify(result)}\n`;
  if (config.jsonFile) writeFileSync(config.jsonFile, text);
  if (config.json) process.stdout.write(text);
  else if (config.task.kind === 'chat') process.stdout.write('\n');
  else if (!config.jsonFile) process.stdout.write(scoreText(result));
  if (config.task.kind === 'chat') console.error(statsText(result.stats));
}

function statsText(stats) {
  const rate = (value) => (Number.isFinite(value) ? value.toFixed(1) : '–');
  return (
    `${stats.finishReason}: ${stats.promptTokens} prompt tokens at ` +
    `${rate(stats.prefillTokensPerSecond)}/s, ${stats.completionTokens} tokens at ` +
    `${rate(stats.decodeTokensPerSecond)}/s, first after ${rate(stats.ttftMs)} ms`
  );
}

/** Mean log-probability and perplexity of the text's own tokens. */
function scoreText({ ids, nextLogprob }) {
  const known = nextLogprob.filter((value) => typeof value === 'number');
  const mean = known.reduce((sum, value) => sum + value, 0) / known.length;
  const perplexity = Math.exp(-mean).toFixed(3);
  return `${ids.length} tokens, mean logprob ${mean.toFixed(4)}, perplexity ${perplexity}\n`;
}

class EngineError extends Error {
  constructor({ code, message }) {
    super(message);
    this.code = code;
  }
}

// The next two run in the page: they see nothing of this file.

async function chat({ source, load: loadOptions, task, quiet }) {
  try {
    const { load } = await import('/pkg/index.js');
    const model = await load(source, loadOptions);
    const stream = model.generate(task.input, task.options);
    const tokens = [];
    let text = '';
    let printed = Promise.resolve();
    for await (const token of stream) {
      tokens.push(token);
      text += token.text;
      // Not awaited: a trip to this process must not slow the reader down.
      if (!quiet) printed = window.emitText(token.text);
    }
    await printed;
    const [promptIds, stats] = [Array.from(await stream.promptIds), await stream.stats];
    const { info } = model;
    await model.dispose();
    return { result: { promptIds, tokens, text, info, stats } };
  } catch (error) {
    const code = typeof error.code === 'string' ? error.code : 'internal';
    return { error: { code, message: String(error.message) } };
  }
}

async function score({ source, load: loadOptions, task }) {
  try {
    const { load } = await import('/pkg/index.js');
    const model = await load(source, loadOptions);
    const start = performance.now();
    const scored = await model.score(task.input);
    const scoreMs = performance.now() - start;
    const list = (values) => Array.from(values);
    const { info } = model;
    const result = {
      ids: list(scored.ids),
      top1: list(scored.top1),
      top1Logprob: list(scored.top1Logprob),
      nextLogprob: list(scored.nextLogprob),
      info,
      stats: { promptTokens: scored.ids.length, prefillMs: scoreMs },
    };
    result.stats.prefillTokensPerSecond = (result.ids.length / scoreMs) * 1000;
    await model.dispose();
    return { result };
  } catch (error) {
    const code = typeof error.code === 'string' ? error.code : 'internal';
    return { error: { code, message: String(error.message) } };
  }
}

try {
  await main();
} catch (error) {
  const told = error instanceof EngineError ? `${error.code}: ${error.message}` : error.message;
  console.error(`error: ${told}`);
  process.exitCode = 1;
}
