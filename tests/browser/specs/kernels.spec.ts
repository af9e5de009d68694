// The CPU kernels of both engines, as this browser lowers them, against their plain twins.

import { expect, openPage, test } from '../support/app.js';

interface Kernels {
  default(options: { module_or_path: Response }): Promise<unknown>;
  differingKernels(): string[];
}

for (const name of ['engine', 'engine-relaxed']) {
  test(`the kernels of ${name} have the bits of their plain twins`, async ({ browser, server }) => {
    const page = await openPage(browser, server);
    const differing = await page.evaluate(async (name) => {
      const url = `/pkg/${name}.js`;
      const module = (await import(url)) as Kernels;
      await module.default({ module_or_path: await fetch(`/pkg/${name}_bg.wasm`) });
      return module.differingKernels();
    }, name);
    expect(differing).toEqual([]);
    await page.close();
  });
}
