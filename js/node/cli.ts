#!/usr/bin/env node
// `npx tokenbrook init FOLDER`: the worker files into a folder that is served as it is.

import { copyFileSync, existsSync, mkdirSync, readFileSync, readdirSync } from 'node:fs';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';

const USAGE = `tokenbrook init FOLDER

Copies the workers, each a file that needs no other script, and the WebAssembly modules
into FOLDER, which the site serves as it is (\`public/\` of most frameworks):

  load(source, { workerUrl: '/worker.js', wasmUrl: '/engine_bg.wasm' })
  register('/mock-service-worker.js')

Files of an earlier version are replaced.
`;

const PACKAGE = fileURLToPath(new URL('..', import.meta.url));
/** Each file in there begins with a line that says whose it is. */
const BUNDLES = join(PACKAGE, 'served');
const MARK = /^\/\/ tokenbrook \S+\n/;

/** What is copied: from where, and the name that it gets. */
function files(): { from: string; name: string }[] {
  const scripts = readdirSync(BUNDLES).map((name) => ({ from: join(BUNDLES, name), name }));
  const modules = readdirSync(PACKAGE)
    .filter((name) => name.endsWith('_bg.wasm'))
    .map((name) => ({ from: join(PACKAGE, name), name }));
  return [...scripts, ...modules];
}

/** A script of that name which is not ours: it is not replaced. */
function isForeign(path: string): boolean {
  return path.endsWith('.js') && existsSync(path) && !MARK.test(readFileSync(path, 'utf8'));
}

function init(folder: string): void {
  const copies = files().map(({ from, name }) => ({ from, to: join(folder, name) }));
  const foreign = copies.find(({ to }) => isForeign(to));
  if (foreign !== undefined) {
    throw new Error(`${foreign.to} is no file of tokenbrook: move it, or name another folder.`);
  }
  mkdirSync(folder, { recursive: true });
  for (const { from, to } of copies) {
    copyFileSync(from, to);
    process.stdout.write(`${relative('', to)}\n`);
  }
}

function main([command, folder, ...rest]: string[]): number {
  if (command === 'help' || command === '--help') {
    process.stdout.write(USAGE);
    return 0;
  }
  if (command !== 'init' || folder === undefined || rest.length > 0) {
    process.stderr.write(USAGE);
    return 1;
  }
  try {
    init(folder);
    return 0;
  } catch (error) {
    process.stderr.write(`tokenbrook: ${error instanceof Error ? error.message : String(error)}\n`);
    return 1;
  }
}

process.exitCode = main(process.argv.slice(2));
