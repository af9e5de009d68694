// Builds the pages into one static folder that works under any sub-path.
import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vite';

const page = (path: string): string => fileURLToPath(new URL(path, import.meta.url));

/**
 * A service worker answers for what lies beside it: the lab's goes beside the lab's page, under
 * one name, so that a new build is a new version of it.
 */
const workerPlace = ({ name }: { name: string }): string =>
  name === 'mock-service-worker' ? 'lab/[name].js' : 'assets/[name]-[hash].js';

export default defineConfig({
  root: fileURLToPath(new URL('.', import.meta.url)),
  base: './',
  publicDir: false,
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
