// Joins the package's modules where it matters how many requests they are. In place: its entry
// and the scripts of the workers of a load, since a page without a bundler would wait for as many
// round trips as imports go deep. Into `PKG/served/`: each worker as one script without imports,
// for sites that serve them as they are. Usage: node bundle-workers.mjs PKG VERSION
import { existsSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';

import { rolldown } from 'rolldown';

/** They find each other, and the wasm modules, beside themselves. */
const WORKERS = ['worker.js', 'helper.js', 'mock-service-worker.js', 'hash-worker.js'];

/**
 * Entries with the modules that stay apart: engines are fetched one by one, and of errors, of
 * stamps and of what a page has started there is one for all entries.
 */
const JOINED = [
  { input: 'index.js', external: ['errors.js', 'ready.js', 'stamps.js'] },
  {
    input: 'worker.js',
    external: ['engine.js', 'engine-relaxed.js', 'engine-threads.js', 'compat.js'],
  },
  { input: 'store/hash-worker.js', external: [] },
];

const [pkg, version] = process.argv.slice(2);

async function bundle(input, external, dir) {
  const apart = new Set(external.map((name) => join(pkg, name)));
  const bundled = await rolldown({
    input: join(pkg, input),
    platform: 'browser',
    external: (id, importer) =>
      apart.has(id) || (importer !== undefined && apart.has(join(importer, '..', id))),
  });
  await bundled.write({
    dir,
    format: 'esm',
    codeSplitting: false,
    banner: `// tokenbrook ${version}`,
  });
  await bundled.close();
}

/** Scripts that a script names, as modules or as workers. */
function named(script) {
  const found = readFileSync(join(pkg, script), 'utf8').matchAll(/['"](\.\.?\/[\w./-]+\.js)['"]/g);
  const scripts = [...found].map(([, name]) => join(script, '..', name));
  return scripts.filter((name) => existsSync(join(pkg, name)));
}

/** Removes scripts that were joined and that nothing names any more. */
function sweep(entries) {
  const needed = new Set(entries);
  for (const script of needed) named(script).forEach((name) => needed.add(name));
  for (const folder of ['', 'store']) {
    for (const name of readdirSync(join(pkg, folder))) {
      const script = join(folder, name);
      if (name.endsWith('.js') && !needed.has(script)) rmSync(join(pkg, script));
    }
  }
}

for (const { input, external } of JOINED) await bundle(input, external, pkg);
for (const worker of WORKERS) await bundle(worker, [], join(pkg, 'served'));
const manifest = new URL('../../js/package.json', import.meta.url);
const { exports } = JSON.parse(readFileSync(manifest, 'utf8'));
sweep(Object.values(exports).map((entry) => join(entry.default)));
