// The package as npm would publish it: packed, then unpacked.

import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, rmSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

/** Root of the checkout. */
export const ROOT = resolve(fileURLToPath(import.meta.url), '../../../..');

/** The folder with the unpacked tarball; `globalSetup` has made it. */
export const PACKAGE = process.env['TOKENBROOK_PACKAGE'] ?? join(ROOT, 'target/packed/package');

/** The default model's file. */
export const MODEL =
  process.env['TOKENBROOK_MODEL'] ??
  join(process.env['HOME'] ?? '', '.cache/tokenbrook/models/SmolLM2-135M-Instruct.Q4_1.gguf');

/** Gemma 3 270M's file: TOKENBROOK_GEMMA, else where `cargo xtask setup` keeps it. */
export const GEMMA =
  process.env['TOKENBROOK_GEMMA'] ??
  join(process.env['HOME'] ?? '', '.cache/tokenbrook/models/gemma-3-270m.Q4_K_M.gguf');

/** Packs `pkg/` and unpacks it, unless the caller of the tests has done so. */
export default function packPackage(): void {
  if (process.env['TOKENBROOK_PACKAGE'] !== undefined) return;
  const folder = resolve(PACKAGE, '..');
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  const pack = ['pack', './pkg', '--silent', '--pack-destination', folder];
  const name = execFileSync('npm', pack, { cwd: ROOT, encoding: 'utf8' }).trim();
  execFileSync('tar', ['-xzf', join(folder, name), '-C', folder]);
  if (!existsSync(join(PACKAGE, 'package.json'))) throw new Error(`${name} holds no package`);
}
