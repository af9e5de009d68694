import type { Page } from '@playwright/test';

import { expect, loadDefault, openPage, test } from '../support/app.js';
import { bundleClients, importClients } from '../support/clients.js';
import { caseNamed } from '../support/reference.js';

const MESSAGES = [{ role: 'user' as const, content: 'then what?' }];
const CHAT = 'http://local/v1/chat/completions';

let page: Page;
/** What the model says by itself. */
let alone: { text: string; promptTokens: number };

test.beforeAll(async ({ browser, server }) => {
  server.routes.set('/clients/', await bundleClients());
  page = await openPage(browser, server);
  await importClients(page);
  alone = await page.evaluate(async (messages) => {
    const steps: string[] = [];
    new BroadcastChannel('steps').onmessage = ({ data }) => steps.push(String(data));
    const ends: string[] = [];
    new BroadcastChannel('ends').onmessage = ({ data }) => ends.push(String(data));
    globalThis.model = await tokenbrook.load('/tiny.gguf', { workerUrl: '/workers/counting.js?wasm=simd128' });
    const { OpenAI, createOpenAICompatible } = clients;
    const baseURL = 'http://local/v1';
    const openai = new OpenAI({
      baseURL,
      apiKey: 'none',
      fetch: model.fetch,
      dangerouslyAllowBrowser: true,
    });
    const provider = createOpenAICompatible({
      name: 'local',
      baseURL,
      fetch: model.fetch,
      includeUsage: true,
    });
    Object.assign(globalThis, { steps, ends, openai, provider });
    const stream = model.generate(messages, { temperature: 0, maxTokens: 24 });
    let text = '';
    for await (const token of stream) text += token.text;
    return { text, promptTokens: (await stream.stats).promptTokens };
  }, MESSAGES);
  expect(alone.text.length).toBeGreaterThan(10);
});

test.afterAll(() => page.close());

/** A response of `model.fetch` in the page. */
function request(
  body: unknown,
  method = 'POST',
  address = CHAT,
): Promise<{ status: number; headers: Record<string, string>; text: string }> {
  return page.evaluate(
    async ([address, body, method]) => {
      const content = body === undefined ? {} : { body: JSON.stringify(body) };
      const response = await model.fetch(address, { method, ...content });
      const headers = Object.fromEntries(response.headers);
      return { status: response.status, headers, text: await response.text() };
    },
    [address, body, method] as const,
  );
}

/** How the generations of `work` ended in the engine, and the steps that it did afterwards. */
async function outcomeOf(work: () => Promise<unknown>): Promise<{ ends: string[]; steps: number }> {
  await page.evaluate(() => void ends.splice(0));
  await work();
  return page.evaluate(async () => {
    await new Promise((resume) => setTimeout(resume, 100));
    const before = steps.length;
    await new Promise((resume) => setTimeout(resume, 500));
    return { ends: [...ends], steps: steps.length - before };
  });
}

declare global {
  var steps: string[];
  var ends: string[];
  var openai: InstanceType<typeof clients.OpenAI>;
  var provider: ReturnType<typeof clients.createOpenAICompatible>;
}

test.describe('npm openai', () => {
  test('streams a chat: role, text, reason, usage', async () => {
    const chunks = await page.evaluate(async (messages) => {
      const stream = await openai.chat.completions.create({
        model: 'any',
        messages,
        stream: true,
        stream_options: { include_usage: true },
        temperature: 0,
        max_tokens: 24,
      });
      const chunks = [];
      for await (const chunk of stream) chunks.push(chunk);
      return chunks;
    }, MESSAGES);
    expect(chunks[0]?.choices[0]?.delta).toEqual({ role: 'assistant', content: '' });
    expect(chunks.map(({ choices }) => choices[0]?.delta.content ?? '').join('')).toBe(alone.text);
    expect(chunks.at(-2)?.choices[0]?.finish_reason).toBe('length');
    expect(chunks.at(-1)).toMatchObject({
      choices: [],
      object: 'chat.completion.chunk',
      model: 'Tiny',
      usage: {
        prompt_tokens: alone.promptTokens,
        completion_tokens: 24,
        total_tokens: alone.promptTokens + 24,
      },
    });
    for (const { usage } of chunks.slice(0, -1)) expect(usage).toBeNull();
    // The parts come as they are made, not all at once at the end.
    expect(chunks.length).toBeGreaterThan(8);
  });

  test('answers a chat whole, with several choices', async () => {
    const reply = await page.evaluate((messages) => {
      const body = { model: 'any', messages, n: 3, seed: 5, max_completion_tokens: 12 };
      return openai.chat.completions.create(body);
    }, MESSAGES);
    expect(reply.object).toBe('chat.completion');
    expect(reply.choices.map(({ index }) => index)).toEqual([0, 1, 2]);
    const texts = await page.evaluate(async (messages) => {
      const texts: string[] = [];
      for (const seed of [5, 6, 7]) {
        let text = '';
        for await (const token of model.generate(messages, { seed, maxTokens: 12 })) {
          text += token.text;
        }
        texts.push(text);
      }
      return texts;
    }, MESSAGES);
    expect(reply.choices.map(({ message }) => message.content)).toEqual(texts);
    expect(reply.usage?.prompt_tokens).toBe(alone.promptTokens);
    expect(reply.usage?.completion_tokens).toBe(36);
  });

  test('streams several choices one after the other', async () => {
    const texts = await page.evaluate(async (messages) => {
      const stream = await openai.chat.completions.create({
        model: 'any',
        messages,
        stream: true,
        n: 2,
        temperature: 0,
        max_tokens: 24,
      });
      const texts = ['', ''];
      for await (const { choices } of stream) {
        for (const { index, delta } of choices) texts[index] += delta.content ?? '';
      }
      return texts;
    }, MESSAGES);
    expect(texts).toEqual([alone.text, alone.text]);
  });

  test('a stop string ends the text before it', async () => {
    const stop = alone.text.slice(5, 7);
    const choice = await page.evaluate(
      async ([messages, stop]) => {
        const body = { model: 'any', messages, stop, temperature: 0, max_tokens: 24 };
        return (await openai.chat.completions.create(body)).choices[0];
      },
      [MESSAGES, stop] as const,
    );
    const text = alone.text.slice(0, alone.text.indexOf(stop));
    expect(choice).toMatchObject({ finish_reason: 'stop', message: { content: text } });
  });

  test('log-probabilities have the bytes of their tokens', async () => {
    const entries = await page.evaluate(async (messages) => {
      const body = { model: 'any', messages, temperature: 0, max_tokens: 24 };
      const asked = { ...body, logprobs: true, top_logprobs: 2 };
      const reply = await openai.chat.completions.create(asked);
      return reply.choices[0]?.logprobs?.content ?? [];
    }, MESSAGES);
    expect(entries.length).toBe(24);
    const bytes = entries.flatMap((entry) => entry.bytes ?? []);
    // A reply that ends in the middle of a character ends before it.
    const text = new TextDecoder().decode(Uint8Array.from(bytes), { stream: true });
    expect(text).toBe(alone.text);
    for (const { bytes, top_logprobs } of entries) {
      expect(top_logprobs.length).toBe(2);
      expect(top_logprobs[0]?.bytes).toEqual(bytes);
    }
  });

  test('completes text, streamed and whole', async () => {
    const { whole, streamed, raw } = await page.evaluate(async () => {
      const body = { model: 'any', prompt: 'then', temperature: 0, max_tokens: 16 };
      const whole = await openai.completions.create(body);
      let streamed = '';
      for await (const { choices } of await openai.completions.create({ ...body, stream: true })) {
        streamed += choices[0]?.text ?? '';
      }
      let raw = '';
      for await (const { text } of model.generate('then', { temperature: 0, maxTokens: 16 })) {
        raw += text;
      }
      return { whole, streamed, raw };
    });
    expect(whole.object).toBe('text_completion');
    expect(whole.choices[0]?.text).toBe(raw);
    expect(streamed).toBe(raw);
  });

  test('lists and finds the model', async () => {
    const { ids, one, missing } = await page.evaluate(async () => {
      const ids = (await openai.models.list()).data.map(({ id }) => id);
      const one = (await openai.models.retrieve('Tiny')).id;
      const missing = await openai.models.retrieve('a/b').catch((error: unknown) => error);
      const isTyped = missing instanceof clients.OpenAI.NotFoundError;
      return { ids, one, missing: isTyped && missing.code };
    });
    expect({ ids, one, missing }).toEqual({
      ids: ['Tiny'],
      one: 'Tiny',
      missing: 'model_not_found',
    });
  });

  test('an abort of the stream stops the engine', async () => {
    const outcome = await outcomeOf(() =>
      page.evaluate(async (messages) => {
        const stream = await openai.chat.completions.create({
          model: 'any',
          messages,
          stream: true,
          temperature: 0,
        });
        let chunks = 0;
        for await (const _ of stream) {
          chunks += 1;
          if (chunks === 4) stream.controller.abort();
        }
      }, MESSAGES),
    );
    expect(outcome).toEqual({ ends: ['cancelled'], steps: 0 });
  });

  test('leaving the loop stops the engine', async () => {
    const outcome = await outcomeOf(() =>
      page.evaluate(async (messages) => {
        const body = { model: 'any', messages, stream: true as const, temperature: 0 };
        let chunks = 0;
        for await (const _ of await openai.chat.completions.create(body)) {
          chunks += 1;
          if (chunks === 4) break;
        }
      }, MESSAGES),
    );
    expect(outcome).toEqual({ ends: ['cancelled'], steps: 0 });
  });

  test('a signal aborts a whole answer with the typed error', async () => {
    let isTyped = false;
    const outcome = await outcomeOf(async () => {
      isTyped = await page.evaluate(async (messages) => {
        const controller = new AbortController();
        const { signal } = controller;
        const body = { model: 'any', messages, n: 100, temperature: 0 };
        const reply = openai.chat.completions.create(body, { signal });
        setTimeout(() => controller.abort(), 30);
        const error = await reply.catch((error: unknown) => error);
        return error instanceof clients.OpenAI.APIUserAbortError;
      }, MESSAGES);
    });
    expect(isTyped).toBe(true);
    expect(outcome.ends.at(-1)).toBe('cancelled');
    expect(outcome.ends.length).toBeLessThan(100);
    expect(outcome.steps).toBe(0);
  });

  test('refusals are typed errors with parameter and code', async () => {
    const long = 'x'.repeat(2000);
    const errors = await page.evaluate(
      async ([messages, long]) => {
        const { OpenAI } = clients;
        const create = async (more: object): Promise<unknown[]> => {
          const body = { model: 'any', messages, ...more };
          const error: unknown = await openai.chat.completions.create(body).catch((e) => e);
          if (!(error instanceof OpenAI.APIError)) return ['no error'];
          return [error.constructor.name, error.status, error.param, error.code];
        };
        const image = { type: 'image_url', image_url: { url: 'data:,' } };
        return [
          await create({ temperature: -1 }),
          await create({ stream: true, top_p: 2 }),
          await create({ stop: [''] }),
          await create({ frobnicate: 1 }),
          await create({ messages: [] }),
          await create({ messages: [{ role: 'user', content: long }] }),
          await create({ messages: [{ role: 'user', content: [image] }] }),
          await openai.embeddings
            .create({ model: 'any', input: ['x', long] })
            .catch((e) => [e.constructor.name, e.status, e.param, e.code]),
          await openai.embeddings
            .create({ model: 'any', input: ['x', ''] })
            .catch((e) => [e.constructor.name, e.status, e.param, e.code]),
          await openai.files
            .retrieve('x')
            .catch((e) => [e.constructor.name, e.status, e.param, e.code]),
        ];
      },
      [MESSAGES, long] as const,
    );
    expect(errors).toEqual([
      ['BadRequestError', 400, 'temperature', 'invalid_value'],
      ['BadRequestError', 400, 'top_p', 'invalid_value'],
      ['BadRequestError', 400, 'stop', 'invalid_value'],
      ['BadRequestError', 400, 'frobnicate', 'unsupported_parameter'],
      ['BadRequestError', 400, 'messages', 'invalid_value'],
      ['BadRequestError', 400, 'messages', 'context_length_exceeded'],
      ['UnprocessableEntityError', 422, 'messages[0].content[0]', 'unsupported_content'],
      ['BadRequestError', 400, 'input', 'context_length_exceeded'],
      ['BadRequestError', 400, 'input[1]', 'invalid_option'],
      ['NotFoundError', 404, null, 'unknown_url'],
    ]);
  });
});

test.describe("Vercel's ai with @ai-sdk/openai-compatible", () => {
  test('streams text with usage', async () => {
    const seen = await page.evaluate(async (messages) => {
      const result = clients.streamText({
        model: provider('any'),
        messages,
        temperature: 0,
        maxOutputTokens: 24,
      });
      let text = '';
      let pieces = 0;
      for await (const piece of result.textStream) {
        text += piece;
        pieces += 1;
      }
      const { inputTokens, outputTokens } = await result.usage;
      return { text, pieces, reason: await result.finishReason, inputTokens, outputTokens };
    }, MESSAGES);
    expect(seen).toMatchObject({
      text: alone.text,
      reason: 'length',
      inputTokens: alone.promptTokens,
      outputTokens: 24,
    });
    expect(seen.pieces).toBeGreaterThan(8);
  });

  test('generates text', async () => {
    const { text, finishReason } = await page.evaluate(async (messages) => {
      const { text, finishReason } = await clients.generateText({
        model: provider('any'),
        messages,
        temperature: 0,
        maxOutputTokens: 24,
      });
      return { text, finishReason };
    }, MESSAGES);
    expect({ text, finishReason }).toEqual({ text: alone.text, finishReason: 'length' });
  });

  test('an abort signal stops the engine', async () => {
    const outcome = await outcomeOf(() =>
      page.evaluate(async (messages) => {
        const controller = new AbortController();
        const { textStream } = clients.streamText({
          model: provider('any'),
          messages,
          temperature: 0,
          abortSignal: controller.signal,
        });
        let pieces = 0;
        for await (const _ of textStream) {
          pieces += 1;
          if (pieces === 3) controller.abort();
        }
      }, MESSAGES),
    );
    expect(outcome).toEqual({ ends: ['cancelled'], steps: 0 });
  });

  test('a refusal is an APICallError with the sentence', async () => {
    const error = await page.evaluate(async (messages) => {
      const call = clients.generateText({ model: provider('any'), messages, topP: 7 });
      const error: unknown = await call.catch((error: unknown) => error);
      if (!clients.APICallError.isInstance(error)) return undefined;
      return { status: error.statusCode, message: error.message };
    }, MESSAGES);
    expect(error?.status).toBe(400);
    expect(error?.message).toContain('"top_p"');
  });
});

test('a streamed body is exactly events, ended by the marker', async () => {
  const { status, headers, text } = await request({
    messages: MESSAGES,
    stream: true,
    temperature: 0,
    max_tokens: 3,
  });
  expect(status).toBe(200);
  expect(headers['content-type']).toBe('text/event-stream; charset=utf-8');
  const events = text.split('\n\n');
  expect(events.slice(-2)).toEqual(['data: [DONE]', '']);
  const chunks = events.slice(0, -2).map((event) => {
    expect(event.startsWith('data: {')).toBe(true);
    return JSON.parse(event.slice(6)) as { id: string; created: number; choices: unknown[] };
  });
  expect(new Set(chunks.map(({ id }) => id)).size).toBe(1);
  expect(chunks[0]?.id).toMatch(/^chatcmpl-[0-9a-f]{14}$/);
  expect(Math.abs(Date.now() / 1000 - (chunks[0]?.created ?? 0))).toBeLessThan(600);
  expect(chunks.at(-1)?.choices).toEqual([
    { index: 0, delta: {}, logprobs: null, finish_reason: 'length' },
  ]);
});

test('wrong paths, methods and bodies have their statuses', async () => {
  const error = (text: string): unknown => (JSON.parse(text) as { error: unknown }).error;
  const missing = await request({}, 'POST', 'http://local/v2/chat');
  expect(missing.status).toBe(404);
  expect(missing.headers['content-type']).toBe('application/json');
  expect(error(missing.text)).toEqual({
    message: 'Invalid URL (POST /v2/chat).',
    type: 'invalid_request_error',
    param: null,
    code: 'unknown_url',
  });
  const method = await request(undefined, 'GET');
  expect([method.status, method.headers['allow']]).toEqual([405, 'POST']);
  const large = await request('x'.repeat(9 * 1024 * 1024));
  expect(large.status).toBe(413);
  expect(error(large.text)).toMatchObject({ code: 'request_too_large' });
  const statuses = await page.evaluate(async (address) => {
    const statuses: number[] = [];
    for (const body of ['', '{', '[]', '\u0000']) {
      statuses.push((await model.fetch(address, { method: 'POST', body })).status);
    }
    return statuses;
  }, CHAT);
  expect(statuses).toEqual([400, 400, 400, 400]);
});

test('a Request and a relative address are taken too', async () => {
  const texts = await page.evaluate(async () => {
    const { fetch } = model;
    const whole = await fetch(new Request(new URL('http://local/a/v1/models')));
    const relative = await fetch('/v1/models');
    return [await whole.text(), await relative.text()].map((text) => JSON.parse(text).data[0].id);
  });
  expect(texts).toEqual(['Tiny', 'Tiny']);
});

test('a body that is not read has at most lookahead + 1 tokens made', async () => {
  const made = await page.evaluate(
    async ([address, messages]) => {
      const tokens = (): number => steps.filter((kind) => kind === 'token').length;
      const before = tokens();
      const body = JSON.stringify({ messages, stream: true, temperature: 0 });
      const response = await model.fetch(address, { method: 'POST', body });
      await new Promise((resume) => setTimeout(resume, 300));
      const unread = tokens() - before;
      const reader = response.body?.getReader();
      await reader?.read();
      await new Promise((resume) => setTimeout(resume, 500));
      const read = tokens() - before;
      await reader?.cancel();
      await new Promise((resume) => setTimeout(resume, 300));
      return { unread, read, afterwards: tokens() - before };
    },
    [CHAT, MESSAGES] as const,
  );
  expect(made).toEqual({ unread: 0, read: 9, afterwards: 9 });
});

test('a failure after the first byte reaches clients as their errors', async ({
  browser,
  server,
}) => {
  const page = await openPage(browser, server);
  await importClients(page);
  const seen = await page.evaluate(async ([address, messages]) => {
    const model = await tokenbrook.load('/tiny.gguf', { workerUrl: '/workers/failing.js?wasm=simd128' });
    const baseURL = 'http://local/v1';
    const openai = new clients.OpenAI({
      baseURL,
      apiKey: 'none',
      fetch: model.fetch,
      dangerouslyAllowBrowser: true,
      maxRetries: 0,
    });
    const body = { model: 'any', messages, temperature: 0 };
    let text = '';
    let error: unknown;
    try {
      const stream = await openai.chat.completions.create({ ...body, stream: true });
      for await (const { choices } of stream) text += choices[0]?.delta.content ?? '';
    } catch (thrown) {
      error = thrown;
    }
    const whole: unknown = await openai.chat.completions.create(body).catch((e: unknown) => e);
    const provider = clients.createOpenAICompatible({ name: 'local', baseURL, fetch: model.fetch });
    const failures: string[] = [];
    const { textStream } = clients.streamText({
      model: provider('any'),
      messages,
      temperature: 0,
      onError: ({ error }) => void failures.push(String(error)),
    });
    let aiText = '';
    for await (const piece of textStream) aiText += piece;
    const raw = await model.fetch(address, {
      method: 'POST',
      body: JSON.stringify({ ...body, stream: true }),
    });
    const { OpenAI } = clients;
    return {
      text,
      aiText,
      failures,
      error: error instanceof OpenAI.APIError && [error.code, error.type, error.message],
      whole: whole instanceof OpenAI.InternalServerError && [whole.status, whole.code],
      raw: await raw.text(),
    };
  }, [CHAT, MESSAGES] as const);
  expect(seen.text.length).toBeGreaterThan(0);
  expect(alone.text.startsWith(seen.text)).toBe(true);
  expect(seen.error).toEqual(['out_of_memory', 'server_error', 'There is no memory left.']);
  expect(seen.whole).toEqual([500, 'out_of_memory']);
  expect(seen.aiText).toBe(seen.text);
  expect(seen.failures.join()).toContain('There is no memory left.');
  const tail = seen.raw.slice(seen.raw.indexOf('event: error'));
  expect(tail).toBe(
    'event: error\ndata: {"error":{"message":"There is no memory left.",' +
      '"type":"server_error","param":null,"code":"out_of_memory"}}\n\n',
  );
  await page.close();
});

test('the default model answers through a client as it does alone', async ({ browser, server }) => {
  const page = await openPage(browser, server);
  await importClients(page);
  await loadDefault(page, { precision: 'exact' });
  const { messages = [] } = caseNamed('capital');
  const { streamed, text } = await page.evaluate(async (messages) => {
    const openai = new clients.OpenAI({
      baseURL: 'http://local/v1',
      apiKey: 'none',
      fetch: model.fetch,
      dangerouslyAllowBrowser: true,
    });
    const stream = await openai.chat.completions.create({
      model: 'any',
      messages: messages as { role: 'user'; content: string }[],
      stream: true,
      temperature: 0,
      max_tokens: 12,
    });
    let streamed = '';
    for await (const { choices } of stream) streamed += choices[0]?.delta.content ?? '';
    let text = '';
    for await (const token of model.generate(messages, { temperature: 0, maxTokens: 12 })) {
      text += token.text;
    }
    return { streamed, text };
  }, messages);
  expect(streamed).toContain('Paris');
  expect(streamed).toBe(text);
  await page.close();
});
