import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

import { expect, test } from '@playwright/test';

import { PACKAGE } from '../support/package.js';

const ENTRY = join(PACKAGE, 'index.js');

/** Everything that a browser adds to the language; node has some of it too. */
const GLOBALS = [
  'window self document navigator location performance crypto fetch Worker MessageChannel Blob',
  'ReadableStream WritableStream TransformStream AbortController AbortSignal Headers Request',
  'Response Event EventTarget DOMException WebAssembly TextDecoder TextEncoder structuredClone',
  'queueMicrotask setTimeout setInterval requestAnimationFrame indexedDB caches',
].flatMap((line) => line.split(' '));

test('importing the entry touches no global of the browser', () => {
  expect(existsSync(ENTRY)).toBe(true);
  const script = `
    for (const name of ${JSON.stringify(GLOBALS)}) {
      Object.defineProperty(globalThis, name, {
        get() { throw new Error('touched ' + name); },
        configurable: true,
      });
    }
    const before = Object.getOwnPropertyNames(globalThis).length;
    const names = Object.keys(await import(${JSON.stringify(pathToFileURL(ENTRY).href)}));
    if (Object.getOwnPropertyNames(globalThis).length !== before) throw new Error('new global');
    process.stdout.write(names.sort().join(' '));
  `;
  const run = execFileSync(process.execPath, ['--input-type=module', '-e', script]);
  expect(run.toString()).toBe('TokenbrookError load');
});

test('the manifest exports the one entry and depends on nothing', () => {
  const manifest = JSON.parse(readFileSync(join(PACKAGE, 'package.json'), 'utf8')) as {
    exports: Record<string, Record<string, string>>;
    dependencies?: unknown;
    type: string;
  };
  expect(manifest.type).toBe('module');
  expect(manifest.dependencies).toBeUndefined();
  expect(Object.keys(manifest.exports)).toEqual(['.']);
  for (const target of Object.values(manifest.exports['.'] ?? {})) {
    expect(existsSync(join(PACKAGE, target))).toBe(true);
  }
  for (const file of ['worker.js', 'engine.js', 'engine_bg.wasm']) {
    expect(existsSync(join(PACKAGE, file))).toBe(true);
  }
});
