import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { brotliCompressSync } from 'node:zlib';

import { expect, test } from '@playwright/test';

import { PACKAGE } from '../support/package.js';

/** What each entry exports, and the globals that every runtime has and it may touch. */
const ENTRIES: Record<string, { names: string; touches: string[] }> = {
  index: { names: 'TokenbrookError diagnose load models plan', touches: [] },
  client: {
    names: 'TokenbrookError createClient ready',
    touches: ['TextDecoder', 'TextEncoder'],
  },
  measure: {
    names:
      'TokenbrookError comparePaths diagnoseStream figureSources measure ready summarize ' +
      'summaryToCsv timelinesToCsv',
    touches: ['TextDecoder', 'TextEncoder'],
  },
  sse: {
    names: 'EventStreamParser TokenbrookError encodeEvent eventStream ready',
    // wasm-bindgen makes both when its module is evaluated.
    touches: ['TextDecoder', 'TextEncoder'],
  },
};

/** Everything that a browser adds to the language; node has some of it too. */
const GLOBALS = [
  'window self document navigator location performance crypto fetch Worker MessageChannel Blob',
  'ReadableStream WritableStream TransformStream AbortController AbortSignal Headers Request',
  'Response Event EventTarget DOMException WebAssembly TextDecoder TextEncoder structuredClone',
  'queueMicrotask setTimeout setInterval requestAnimationFrame indexedDB caches',
].flatMap((line) => line.split(' '));

for (const [entry, { names, touches }] of Object.entries(ENTRIES)) {
  test(`importing ${entry} touches no global of the browser`, () => {
    const file = join(PACKAGE, `${entry}.js`);
    expect(existsSync(file)).toBe(true);
    const script = `
      for (const name of ${JSON.stringify(GLOBALS.filter((name) => !touches.includes(name)))}) {
        Object.defineProperty(globalThis, name, {
          get() { throw new Error('touched ' + name); },
          configurable: true,
        });
      }
      const before = Object.getOwnPropertyNames(globalThis).length;
      const names = Object.keys(await import(${JSON.stringify(pathToFileURL(file).href)}));
      if (Object.getOwnPropertyNames(globalThis).length !== before) throw new Error('new global');
      process.stdout.write(names.sort().join(' '));
    `;
    const run = execFileSync(process.execPath, ['--input-type=module', '-e', script]);
    expect(run.toString()).toBe(names);
  });
}

test('the manifest exports the entries and depends on nothing', () => {
  const manifest = JSON.parse(readFileSync(join(PACKAGE, 'package.json'), 'utf8')) as {
    exports: Record<string, Record<string, string>>;
    dependencies?: unknown;
    type: string;
  };
  expect(manifest.type).toBe('module');
  expect(manifest.dependencies).toBeUndefined();
  expect(Object.keys(manifest.exports).sort()).toEqual([
    '.',
    './client',
    './measure',
    './mock',
    './mock-service-worker',
    './sse',
    './worker',
  ]);
  for (const target of Object.values(manifest.exports).flatMap((entry) => Object.values(entry))) {
    expect(existsSync(join(PACKAGE, target))).toBe(true);
  }
  const modules = ['engine', 'engine-relaxed', 'compat', 'streaming'];
  const files = modules.flatMap((name) => [`${name}.js`, `${name}_bg.wasm`]);
  for (const file of ['worker.js', ...files]) {
    expect(existsSync(join(PACKAGE, file))).toBe(true);
  }
});

test('the small module has at most 200 kB after brotli', () => {
  const module = readFileSync(join(PACKAGE, 'streaming_bg.wasm'));
  const bytes = brotliCompressSync(module).length;
  expect(bytes).toBeGreaterThan(10_000);
  expect(bytes).toBeLessThanOrEqual(200_000);
});
