// Other people's clients, bundled as an application would, for pages of the tests.

import { join } from 'node:path';

import type { Page } from '@playwright/test';
import { build } from 'vite';

import { ROOT } from './package.js';

declare global {
  var clients: typeof import('../clients/clients.js');
}

const OUT = join(ROOT, 'target/clients');

/** Bundles the clients and returns the folder to serve as `/clients/`. */
export async function bundleClients(): Promise<string> {
  await build({
    root: join(ROOT, 'tests/browser/clients'),
    configFile: false,
    logLevel: 'warn',
    define: { 'process.env.NODE_ENV': '"production"' },
    build: {
      outDir: OUT,
      emptyOutDir: true,
      minify: false,
      lib: { entry: 'clients.ts', formats: ['es'], fileName: () => 'clients.js' },
    },
  });
  return OUT;
}

/** Imports the bundle as `clients` of the page. */
export async function importClients(page: Page): Promise<void> {
  await page.evaluate(async () => {
    // Not an address that the type checker should resolve.
    const address = '/clients/clients.js';
    globalThis.clients = (await import(address)) as typeof clients;
  });
}
