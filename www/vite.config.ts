// Builds the pages into one static folder that works under any sub-path.
import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vite';

export default defineConfig({
  root: fileURLToPath(new URL('.', import.meta.url)),
  base: './',
  publicDir: false,
  worker: { format: 'es' },
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
  },
});
