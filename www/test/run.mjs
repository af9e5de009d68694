// Runs the unit tests of the pages: strips the types into a temporary folder, then `node --test`.
// Types are checked apart, by `tsc -p www`; here only behaviour counts.
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';

const www = fileURLToPath(new URL('..', import.meta.url));
const out = mkdtempSync(join(tmpdir(), 'tokenbrook-www-test-'));

function compile(folder) {
  mkdirSync(join(out, folder));
  const files = readdirSync(join(www, folder)).filter((name) => /(?<!\.d)\.ts$/.test(name));
  return files.map((name) => {
    const source = readFileSync(join(www, folder, name), 'utf8');
    const { outputText } = ts.transpileModule(source, {
      fileName: name,
      compilerOptions: {
        target: ts.ScriptTarget.ES2022,
        module: ts.ModuleKind.ESNext,
        verbatimModuleSyntax: true,
      },
    });
    const target = join(out, folder, `${basename(name, '.ts')}.js`);
    writeFileSync(target, outputText);
    return target;
  });
}

let status = 1;
try {
  writeFileSync(join(out, 'package.json'), '{ "type": "module" }');
  for (const folder of ['shared', 'chat', 'lab', 'bench']) compile(folder);
  const tests = compile('test');
  if (tests.length === 0) throw new Error('there are no tests');
  const args = ['--test', '--test-reporter', 'spec', ...tests];
  const run = spawnSync(process.execPath, args, { encoding: 'utf8' });
  process.stdout.write(run.stdout);
  process.stderr.write(run.stderr);
  const count = (word) => Number(new RegExp(`^ℹ ${word} (\\d+)$`, 'm').exec(run.stdout)?.[1]);
  const [passed, failed] = [count('pass'), count('fail')];
  // A runner that ran nothing has not passed.
  status = run.status === 0 && passed > 0 ? 0 : 1;
  process.stdout.write(`${failed} failed\n${passed} passed\n`);
} finally {
  rmSync(out, { recursive: true, force: true });
}
process.exitCode = status;
