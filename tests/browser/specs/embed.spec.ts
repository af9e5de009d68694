// Embeddings of a tiny model, called for directly and through npm `openai`.

import type { Page } from '@playwright/test';

import { expect, openPage, test } from '../support/app.js';
import { bundleClients, importClients } from '../support/clients.js';

const TEXTS = ['then what?', 'x', 'something else, and longer than the others '.repeat(9)];
const WIDTH = 32;

let page: Page;

test.beforeAll(async ({ browser, server }) => {
  server.routes.set('/clients/', await bundleClients());
  page = await openPage(browser, server);
  await importClients(page);
  await page.evaluate(async () => {
    globalThis.model = await tokenbrook.load('/tiny.gguf', { precision: 'exact' });
  });
});

test.afterAll(() => page.close());

function embed(texts: string[], pooling?: 'mean' | 'last'): Promise<number[][]> {
  return page.evaluate(
    async ([texts, pooling]) => {
      const vectors = await model.embed(texts, { pooling });
      if (!vectors.every((vector) => vector instanceof Float32Array)) throw new Error('no floats');
      return vectors.map((vector) => Array.from(vector));
    },
    [texts, pooling] as const,
  );
}

function expectClose(got: number[], want: number[]): void {
  expect(got).toHaveLength(want.length);
  for (const [i, value] of want.entries()) expect(got[i]).toBeCloseTo(value, 5);
}

test('gives a vector of length 1 for each text, by itself or among others', async () => {
  const vectors = await embed(TEXTS);
  expect(vectors.map((vector) => vector.length)).toEqual([WIDTH, WIDTH, WIDTH]);
  for (const [i, vector] of vectors.entries()) {
    expect(vector.reduce((sum, value) => sum + value * value, 0)).toBeCloseTo(1, 5);
    const [alone = []] = await embed([TEXTS[i] ?? '']);
    expectClose(alone, vector);
  }
  const means = await embed(TEXTS, 'mean');
  for (const [i, vector] of vectors.entries()) expectClose(means[i] ?? [], vector);
  const last = await embed(TEXTS, 'last');
  expect(last[0]).not.toEqual(vectors[0]);
  // Mean and last of one token are the same.
  expectClose(last[1] ?? [], vectors[1] ?? []);
});

test('leaves a generation that runs meanwhile as it would have been', async () => {
  const [alone, beside, vectors] = await page.evaluate(async (texts) => {
    const options = { temperature: 0, maxTokens: 30, ignoreEos: true };
    const read = async (): Promise<number[]> => {
      const ids = [];
      for await (const { id } of model.generate('then', options)) ids.push(id);
      return ids;
    };
    const alone = await read();
    const both = await Promise.all([read(), model.embed(texts)]);
    return [alone, both[0], both[1].map((vector) => Array.from(vector))] as const;
  }, TEXTS);
  expect(beside).toEqual(alone);
  const want = await embed(TEXTS);
  for (const [i, vector] of want.entries()) expectClose(vectors[i] ?? [], vector);
});

test('refuses no texts, empty ones and what is longer than the context', async () => {
  const codes = await page.evaluate(async () => {
    const codes = [];
    for (const texts of [[], [''], ['x', ''], 'x', [7], ['x '.repeat(400)]]) {
      const failure = await model.embed(texts as string[]).catch((error) => error.code);
      codes.push(failure);
    }
    const pooling = 'cls' as 'mean';
    codes.push(await model.embed(['x'], { pooling }).catch((error) => error.code));
    return codes;
  });
  const invalid = 'invalid-option';
  expect(codes).toEqual([invalid, invalid, invalid, invalid, invalid, 'context-full', invalid]);
});

test('npm openai gets the same vectors, as base64 and as numbers', async () => {
  const want = await embed(TEXTS);
  const replies = await page.evaluate(async (texts) => {
    const openai = new clients.OpenAI({
      baseURL: 'http://local/v1',
      apiKey: 'none',
      fetch: model.fetch,
      dangerouslyAllowBrowser: true,
    });
    const ids = [];
    for (const text of texts) ids.push(await model.tokenize(text));
    const create = (input: string | string[] | number[][], more: object): Promise<unknown> =>
      openai.embeddings.create({ model: 'any', input, ...more });
    const replies = [
      // The client asks for base64 by itself, and decodes it.
      await create(texts, {}),
      await create(texts, { encoding_format: 'float' }),
      await create(ids, {}),
      await create(texts[0] ?? '', {}),
    ];
    return { replies: replies as OpenAIReply[], tokens: ids.flat().length };
  }, TEXTS);
  const [base64, floats, fromIds, single] = replies.replies;
  for (const reply of [base64, floats, fromIds]) {
    expect(reply?.data.map(({ index }) => index)).toEqual([0, 1, 2]);
    for (const [i, vector] of want.entries()) expectClose(reply?.data[i]?.embedding ?? [], vector);
    const { tokens } = replies;
    expect(reply?.usage).toEqual({ prompt_tokens: tokens, total_tokens: tokens });
    expect(reply?.model).toBe('Tiny');
  }
  expect(single?.data).toHaveLength(1);
});

interface OpenAIReply {
  data: { index: number; embedding: number[] }[];
  model: string;
  usage: { prompt_tokens: number; total_tokens: number };
}
