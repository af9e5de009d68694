// llama.cpp outside the browser, through llama-cpp-python, as one of the engines of the suite
// `peers`: what the same weights do on the same processor without a browser around them.
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { rates } from './bench-rates.mjs';

/**
 * @param {{ python: string, script: string }} programs
 * @param {{ file: string, threads: number, contextTokens: number }} options
 */
export async function openNative({ python, script }, { file, threads, contextTokens }) {
  const child = spawn(python, [script, file, String(threads), String(contextTokens)], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const failed = new Promise((_, reject) => {
    child.on('error', reject);
    child.on('exit', (code) => reject(new Error(`llama.cpp ended with ${code}`)));
  });
  // What fails is told to the one who waits, if any does.
  failed.catch(() => {});
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const next = async () => JSON.parse((await Promise.race([lines.next(), failed])).value);
  const { version, loadMs, pid } = await next();
  const run = (prompt, maxTokens) => {
    child.stdin.write(`${JSON.stringify({ prompt, maxTokens })}\n`);
    return next();
  };
  return {
    version,
    loadMs,
    pid,
    info: { backend: 'cpu', wasmVariant: null, precision: null, threads },
    run,
    sample: async (prompt, promptTokens, maxTokens) =>
      rates(await run(prompt, maxTokens), promptTokens, maxTokens),
    front: async () => {},
    close: async () => void child.kill(),
  };
}
