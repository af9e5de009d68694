// Storage in Firefox: a model that is kept is fetched once.

import { expect, test } from '../support/app.js';
import { launchFirefox, openFirefoxPage } from '../support/firefox.js';
import { tinyModel } from '../support/tiny-model.js';

test('Firefox keeps a model, checks its digest, and deletes it', async ({ server }) => {
  const bytes = tinyModel();
  const digest = await crypto.subtle.digest('SHA-256', Buffer.from(bytes));
  const sha256 = Buffer.from(digest).toString('hex');
  server.routes.set('/firefox.gguf', bytes);
  const browser = await launchFirefox();
  try {
    const page = await openFirefoxPage(browser, server);
    const seen = await page.evaluate(async (sha256) => {
      const workerUrl = '/pkg/worker.js?segmentBytes=16384';
      const caches: string[] = [];
      for (let load = 0; load < 2; load += 1) {
        const options = { workerUrl, sha256, backend: 'cpu' } as const;
        const model = await tokenbrook.load('/firefox.gguf', options);
        caches.push(model.info.cache);
        await model.dispose();
      }
      const { models } = tokenbrook;
      const listed = await models.list();
      await models.delete('/firefox.gguf');
      return { caches, listed, left: await models.list() };
    }, sha256);
    expect(seen.caches).toEqual(['opfs', 'opfs']);
    const whole = { bytes: bytes.byteLength, state: 'verified' };
    expect(seen.listed).toEqual([expect.objectContaining(whole)]);
    expect(seen.left).toEqual([]);
    expect(server.sent.get('/firefox.gguf')).toBe(bytes.byteLength);
  } finally {
    await browser.close();
  }
});
