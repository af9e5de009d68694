// Several threads in Firefox, whose wasm compiler and workers share nothing with Chromium's.

import { expect, test } from '../support/app.js';
import { launchFirefox, openFirefoxPage } from '../support/firefox.js';
import { caseNamed } from '../support/reference.js';

test('two threads give the tokens of the reference in Firefox', async ({ server }) => {
  test.setTimeout(300_000);
  const browser = await launchFirefox();
  try {
    const page = await openFirefoxPage(browser, server, '/isolated/index.html');
    const { messages, raw = '', greedy_ids: ids = [] } = caseNamed('code');
    const { info, made } = await page.evaluate(
      async (input) => {
        const options = { backend: 'cpu', threads: 2, cache: 'none' } as const;
        const model = await tokenbrook.load('/model.gguf', options);
        const made = [];
        const greedy = { temperature: 0, maxTokens: 16, ignoreEos: true };
        for await (const { id } of model.generate(input, greedy)) made.push(id);
        await model.dispose();
        return { info: model.info, made };
      },
      messages ?? raw,
    );
    expect(info).toMatchObject({ wasmVariant: 'relaxed-simd-threads', threads: 2 });
    expect(made).toEqual(ids.slice(0, 16));
  } finally {
    await browser.close();
  }
});
