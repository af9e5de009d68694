// Builds the pages into one static folder that works under any sub-path.
import { createHash } from 'node:crypto';
import { readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { defineConfig, type Plugin } from 'vite';

const page = (path: string): string => fileURLToPath(new URL(path, import.meta.url));

const DIST = page('../dist');

/**
 * A service worker answers for what lies beside it: it goes beside the pages, under one name, so
 * that a new build is a new version of it.
 */
const workerPlace = ({ name }: { name: string }): string =>
  name === 'sw' ? '[name].js' : 'assets/[name]-[hash].js';

/** Tells the service worker which files there are; another content is another worker. */
const shell = (): Plugin => ({
  name: 'shell',
  apply: 'build',
  closeBundle() {
    const all = readdirSync(DIST, { recursive: true, encoding: 'utf8' })
      .map((path) => path.replaceAll('\\', '/'))
      .filter((path) => /\.(html|js|css|svg|wasm)$/.test(path) && path !== 'sw.js')
      .sort();
    const digest = createHash('sha256');
    for (const path of all) digest.update(path).update(readFileSync(join(DIST, path)));
    const isEngine = (path: string): boolean => /\/(engine|compat)[^/]*\.wasm$/.test(path);
    const told = {
      version: digest.digest('hex').slice(0, 16),
      // Pages are asked for by their folders.
      files: all.filter((path) => !isEngine(path)).map((path) => path.replace(/index\.html$/, '')),
      engines: all.filter(isEngine),
    };
    const file = join(DIST, 'sw.js');
    const script = readFileSync(file, 'utf8');
    writeFileSync(file, `self.tokenbrookShell=${JSON.stringify(told)};\n${script}`);
  },
});

export default defineConfig({
  root: fileURLToPath(new URL('.', import.meta.url)),
  base: './',
  publicDir: false,
  plugins: [shell()],
  worker: {
    format: 'es',
    rolldownOptions: { output: { entryFileNames: workerPlace } },
  },
  // The package's worker and wasm are found beside its own files, so it must not be pre-bundled.
  optimizeDeps: { exclude: ['tokenbrook'] },
  // `pkg/` lies beside `www/`; the development server serves both.
  server: { fs: { allow: ['..'] } },
  build: {
    outDir: '../dist',
    emptyOutDir: true,
    target: 'es2022',
    // The content security policy allows files of this origin, no `data:` addresses.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    rolldownOptions: {
      input: {
        chat: page('index.html'), lab: page('lab/index.html'), bench: page('bench/index.html'),
      },
    },
  },
});
