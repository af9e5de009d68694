// Objects of a JSON schema through other people's clients, on the tiny model: it says nothing
// by itself, so that only the form makes objects of it. The clients check them.

import type { Page } from '@playwright/test';

import { expect, openPage, test } from '../support/app.js';
import { bundleClients, importClients } from '../support/clients.js';

const MESSAGES = [{ role: 'user' as const, content: 'who?' }];
const KINDS = ['cat', 'dog', 'a "b"'] as const;

/** What every object has to be, checked here apart from the clients. */
function isPet(value: unknown): boolean {
  const { name, kind, age, tags, ...rest } = value as Record<string, unknown>;
  return (
    Object.keys(value as object).join() === 'name,kind,age,tags' &&
    Object.keys(rest).length === 0 &&
    typeof name === 'string' &&
    name.length <= 12 &&
    (KINDS as readonly unknown[]).includes(kind) &&
    Number.isInteger(age) &&
    Math.abs((age as number) - 15) <= 15 &&
    Array.isArray(tags) &&
    tags.length <= 2 &&
    tags.every((tag) => typeof tag === 'boolean')
  );
}

let page: Page;

test.beforeAll(async ({ browser, server }) => {
  server.routes.set('/clients/', await bundleClients());
  page = await openPage(browser, server);
  await importClients(page);
  await page.evaluate(async (kinds) => {
    globalThis.model = await tokenbrook.load('/tiny.gguf');
    const { OpenAI, createOpenAICompatible, z } = clients;
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
      supportsStructuredOutputs: true,
    });
    const pet = z.object({
      name: z.string().max(6),
      kind: z.enum(kinds),
      age: z.number().int().min(0).max(30),
      tags: z.array(z.boolean()).max(2),
    });
    Object.assign(globalThis, { openai, provider, pet });
  }, KINDS);
});

test.afterAll(() => page.close());

declare global {
  // One schema for all clients.
  var pet: ReturnType<typeof clients.z.object>;
}

test('npm openai parses an object of a schema', async () => {
  const choices = await page.evaluate(async (messages) => {
    const body = {
      model: 'any',
      messages,
      n: 3,
      seed: 2,
      temperature: 1.5,
      response_format: clients.zodResponseFormat(pet, 'pet'),
    };
    const { choices } = await openai.chat.completions.parse(body);
    return choices.map(({ finish_reason, message }) => ({
      reason: finish_reason,
      parsed: message.parsed as unknown,
      content: message.content,
    }));
  }, MESSAGES);
  expect(choices.map(({ reason }) => reason)).toEqual(['stop', 'stop', 'stop']);
  for (const { parsed, content } of choices) {
    expect(isPet(parsed), JSON.stringify(parsed)).toBe(true);
    expect(JSON.parse(content ?? '')).toEqual(parsed);
  }
  expect(new Set(choices.map(({ content }) => content)).size).toBeGreaterThan(1);
});

test('npm openai streams an object of a schema', async () => {
  const { pieces, parsed, snapshots } = await page.evaluate(async (messages) => {
    const stream = openai.chat.completions.stream({
      model: 'any',
      messages,
      seed: 4,
      response_format: clients.zodResponseFormat(pet, 'pet'),
    });
    let pieces = 0;
    let snapshots = 0;
    stream.on('content.delta', ({ parsed }) => {
      pieces += 1;
      if (parsed !== null && parsed !== undefined) snapshots += 1;
    });
    const completion = await stream.finalChatCompletion();
    return { pieces, snapshots, parsed: completion.choices[0]?.message.parsed as unknown };
  }, MESSAGES);
  expect(isPet(parsed), JSON.stringify(parsed)).toBe(true);
  // Parts come as they are made, and make partial objects.
  expect(pieces).toBeGreaterThan(20);
  expect(snapshots).toBeGreaterThan(10);
});

test('npm openai gets any object in JSON mode', async () => {
  const content = await page.evaluate(async (messages) => {
    for (let seed = 0; seed < 20; seed += 1) {
      const { choices } = await openai.chat.completions.create({
        model: 'any',
        messages,
        seed,
        max_tokens: 400,
        response_format: { type: 'json_object' },
      });
      if (choices[0]?.finish_reason === 'stop') return choices[0].message.content;
    }
    return null;
  }, MESSAGES);
  expect(typeof JSON.parse(content ?? '')).toBe('object');
});

test("Vercel's ai generates and streams an object of a schema", async () => {
  const seen = await page.evaluate(async (messages) => {
    const { generateObject, streamObject } = clients;
    const call = { model: provider('any'), messages, schema: pet };
    const { object, warnings } = await generateObject({ ...call, seed: 6 });
    const result = streamObject({ ...call, seed: 7 });
    let partial = 0;
    for await (const _ of result.partialObjectStream) partial += 1;
    return { object: object as unknown, warnings, partial, streamed: await result.object };
  }, MESSAGES);
  expect(isPet(seen.object), JSON.stringify(seen.object)).toBe(true);
  expect(isPet(seen.streamed), JSON.stringify(seen.streamed)).toBe(true);
  expect(seen.warnings ?? []).toEqual([]);
  expect(seen.partial).toBeGreaterThan(2);
});

test("Vercel's ai generates and streams text with an object as its output", async () => {
  const seen = await page.evaluate(async (messages) => {
    const { Output, generateText, streamText } = clients;
    const call = { model: provider('any'), messages, output: Output.object({ schema: pet }) };
    const { output } = await generateText({ ...call, seed: 8 });
    const result = streamText({ ...call, seed: 9 });
    let partial = 0;
    for await (const _ of result.partialOutputStream) partial += 1;
    return { output: output as unknown, partial, streamed: (await result.output) as unknown };
  }, MESSAGES);
  expect(isPet(seen.output), JSON.stringify(seen.output)).toBe(true);
  expect(isPet(seen.streamed), JSON.stringify(seen.streamed)).toBe(true);
  expect(seen.partial).toBeGreaterThan(2);
});

test('a schema that cannot be is refused with its place', async () => {
  const error = await page.evaluate(async (messages) => {
    const call = openai.chat.completions.create({
      model: 'any',
      messages,
      response_format: {
        type: 'json_schema',
        json_schema: { name: 'x', schema: { properties: { a: { type: 'strnig' } } } },
      },
    });
    const error: unknown = await call.catch((error: unknown) => error);
    if (!(error instanceof clients.OpenAI.APIError)) return undefined;
    return { status: error.status, message: error.message };
  }, MESSAGES);
  expect(error?.status).toBe(400);
  expect(error?.message).toContain('properties.a');
});
