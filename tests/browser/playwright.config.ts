// Two projects: the face under node with a fake engine, then the packed package in Chromium.
//
// TOKENBROOK_PACKAGE   the unpacked tarball; by default `pkg/` is packed and unpacked first
// TOKENBROOK_MODEL     the default model; by default where `cargo xtask setup` keeps it
// TOKENBROOK_CHROMIUM  the browser's executable; default /usr/bin/chromium
// TOKENBROOK_SLOW     if set, streams of two minutes too
// TOKENBROOK_FIREFOX   the second browser's executable; default /usr/bin/firefox-esr

import { defineConfig } from '@playwright/test';

import { GPU_FLAGS } from '../../xtask/node/chromium.mjs';

export default defineConfig({
  globalSetup: './support/package.ts',
  // The engine computes on one core, and its timing is part of what is tested.
  workers: 1,
  fullyParallel: false,
  forbidOnly: true,
  retries: 0,
  timeout: 120_000,
  // A page waits for the first text as long as the prompt takes, which a busy machine stretches.
  expect: { timeout: 30_000 },
  outputDir: '../../test-results',
  reporter: [['list']],
  use: {
    browserName: 'chromium',
    headless: true,
    launchOptions: {
      executablePath: process.env['TOKENBROOK_CHROMIUM'] ?? '/usr/bin/chromium',
      args: GPU_FLAGS,
    },
  },
  projects: [
    { name: 'face', testDir: '../../js/test', testMatch: '*.test.ts', timeout: 10_000 },
    { name: 'browser', testDir: 'specs', testMatch: '*.spec.ts' },
  ],
});
