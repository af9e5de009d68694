// Every text of the kernels in the browser's own compiler, which is another than the native one.

import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';

import { expect, openPage, test } from '../support/app.js';
import { ROOT } from '../support/package.js';

/** The native tests write them there. */
const FOLDER = join(ROOT, 'target/tmp/wgsl');

interface Text {
  name: string;
  code: string;
}

/** What of WebGPU this test uses; TypeScript's own library does not have it. */
interface Device {
  createShaderModule(descriptor: { code: string }): {
    getCompilationInfo(): Promise<{ messages: { type: string; message: string }[] }>;
  };
}

interface Gpu {
  requestAdapter(): Promise<{
    features: Set<string>;
    requestDevice(descriptor: { requiredFeatures: string[] }): Promise<Device>;
  }>;
}

test('the browser compiles every text of the kernels', async ({ browser, server }) => {
  test.skip(!existsSync(FOLDER), 'the native tests have written no texts: run them first');
  const texts: Text[] = readdirSync(FOLDER).map((name) => {
    return { name, code: readFileSync(join(FOLDER, name), 'utf8') };
  });
  expect(texts.length).toBeGreaterThan(300);
  // A text that is wrong shows that the compiler is asked.
  texts.push({ name: 'wrong', code: 'fn main() { return 1; }' });
  const page = await openPage(browser, server);
  const refused = await page.evaluate(async (texts) => {
    const { gpu } = navigator as unknown as { gpu: Gpu };
    const adapter = await gpu.requestAdapter();
    const wanted = ['subgroups', 'shader-f16'].filter((name) => adapter.features.has(name));
    const device = await adapter.requestDevice({ requiredFeatures: wanted });
    const faults = texts.map(async ({ name, code }) => {
      const { messages } = await device.createShaderModule({ code }).getCompilationInfo();
      const errors = messages.filter(({ type }) => type === 'error');
      return errors.map(({ message }) => `${name}: ${message}`);
    });
    return (await Promise.all(faults)).flat();
  }, texts);
  await page.close();
  const ours = refused.filter((fault) => !fault.startsWith('wrong:'));
  expect(ours).toEqual([]);
  expect(refused.length).toBeGreaterThan(0);
});
