// Prints raw, gzip and brotli sizes of the built files, and fails when a module is
// larger than it may be. Usage: node sizes.mjs [--quick] CACHE.json FOLDER...
//
// Brotli at its best level takes seconds, so results are kept by content hash, and `--quick` takes
// a lower one, but for modules that are too large by that.
import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { basename, dirname, join, relative } from 'node:path';
import { gzipSync } from 'node:zlib';

import { QUICK, brotliBytes } from './brotli.mjs';

/** The largest modules, in bytes after brotli. */
const LIMITS = {
  'engine_bg.wasm': 2_000_000,
  'engine-relaxed_bg.wasm': 2_000_000,
  'engine-threads_bg.wasm': 2_000_000,
  'streaming_bg.wasm': 200_000,
};
const COMPRESSED = /\.(wasm|js|css|html|svg)$/;

const isQuick = process.argv.includes('--quick');
const [cacheFile, ...folders] = process.argv.slice(2).filter((arg) => arg !== '--quick');
const known = readCache();
const used = {};
const rows = [['file', 'raw', 'gzip', 'brotli']];
let tooLarge = false;

for (const folder of folders) {
  for (const file of walk(folder)) {
    const size = measure(file, LIMITS[basename(file)]);
    rows.push([join(basename(folder), relative(folder, file)), ...size.map(grouped)]);
    const limit = LIMITS[basename(file)];
    if (size[2] > limit) {
      tooLarge = true;
      console.error(
        `${basename(file)} has ${grouped(size[2])} bytes after brotli, ` +
          `more than ${grouped(limit)}`,
      );
    }
  }
}
mkdirSync(dirname(cacheFile), { recursive: true });
writeFileSync(cacheFile, JSON.stringify(used));
console.log(table(rows));
process.exitCode = tooLarge ? 1 : 0;

function readCache() {
  try {
    return JSON.parse(readFileSync(cacheFile, 'utf8'));
  } catch {
    return {};
  }
}

function* walk(folder) {
  for (const name of readdirSync(folder).sort()) {
    const file = join(folder, name);
    if (statSync(file).isDirectory()) yield* walk(file);
    else if (COMPRESSED.test(name)) yield file;
  }
}

/** Raw, gzip and brotli bytes of a file, which may have so many after the last. */
function measure(file, limit = Number.POSITIVE_INFINITY) {
  const bytes = readFileSync(file);
  const key = createHash('sha256').update(bytes).digest('hex');
  return (used[key] ??= known[key] ?? [
    bytes.length,
    gzipSync(bytes, { level: 9 }).length,
    brotliWithin(bytes, limit),
  ]);
}

function brotliWithin(bytes, limit) {
  if (isQuick) {
    const length = brotliBytes(bytes, QUICK);
    if (length <= limit) return length;
  }
  return brotliBytes(bytes);
}

function grouped(number) {
  return number.toLocaleString('en-US');
}

function table(lines) {
  const widths = lines[0].map((_, column) => Math.max(...lines.map((line) => line[column].length)));
  return lines
    .map(([name, ...sizes]) =>
      [name.padEnd(widths[0]), ...sizes.map((s, i) => s.padStart(widths[i + 1]))].join('  '),
    )
    .join('\n');
}
