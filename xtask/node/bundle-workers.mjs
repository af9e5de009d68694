// Puts the package's workers into `PKG/served/`, each as one script without imports, for sites
// that serve them as they are. Usage: node bundle-workers.mjs PKG VERSION
import { join } from 'node:path';

import { rolldown } from 'rolldown';

/** They find each other, and the wasm modules, beside themselves. */
const WORKERS = ['worker.js', 'helper.js', 'mock-service-worker.js', 'store/hash-worker.js'];

const [pkg, version] = process.argv.slice(2);
for (const worker of WORKERS) {
  const bundle = await rolldown({ input: join(pkg, worker), platform: 'browser' });
  await bundle.write({
    dir: join(pkg, 'served'),
    format: 'esm',
    codeSplitting: false,
    banner: `// tokenbrook ${version}`,
  });
  await bundle.close();
}
