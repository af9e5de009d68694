// Tool calls through other people's clients, on a tiny model whose template knows of tools. It
// says nothing by itself: calls are required, and held to the schema.

import type { Page } from '@playwright/test';

import { expect, openPage, test } from '../support/app.js';
import { bundleClients, importClients } from '../support/clients.js';
import { tinyModel } from '../support/tiny-model.js';

const TEMPLATE =
  "{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}<|im_start|>{{ m['role'] }}\n" +
  "{{ m['content'] or '' }}{% for c in m['tool_calls'] or [] %}<tool_call>{{ c['function'] | tojson }}" +
  "</tool_call>{% endfor %}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n" +
  '{% endif %}';
const PARAMETERS = {
  type: 'object',
  properties: { city: { type: 'string', enum: ['Oslo', 'Turin'] } },
  required: ['city'],
  additionalProperties: false,
};
const TOOL = { type: 'function' as const, function: { name: 'weather', parameters: PARAMETERS } };
const CITY = /^\{"city":"(Oslo|Turin)"\}$/;

let page: Page;

test.beforeAll(async ({ browser, server }) => {
  server.routes.set('/clients/', await bundleClients());
  const model = tinyModel({ metadata: { 'tokenizer.chat_template': { text: TEMPLATE } } });
  server.routes.set('/tools.gguf', model);
  page = await openPage(browser, server);
  await importClients(page);
  await page.evaluate(async () => {
    globalThis.model = await tokenbrook.load('/tools.gguf');
  });
});

test.afterAll(() => page.close());

test('a required call comes apart from the text, and ends the answer', async () => {
  const { tokens, reason } = await page.evaluate(async (tool) => {
    const options = { tools: [tool], toolChoice: 'required', seed: 1 } as const;
    const stream = model.generate([{ role: 'user', content: 'x' }], options);
    const tokens = [];
    for await (const token of stream) tokens.push(token);
    return { tokens, reason: (await stream.stats).finishReason };
  }, TOOL);
  expect(reason).toBe('tool-calls');
  expect(tokens.map(({ text }) => text).join('')).toBe('');
  const [first, ...rest] = tokens.flatMap(({ toolCalls = [] }) => toolCalls);
  const id = expect.stringMatching(/^\w{9}$/);
  expect(first).toEqual({ index: 0, id, name: 'weather', argumentsDelta: '{' });
  // The arguments come as they are made, a byte a token.
  expect(rest.length).toBeGreaterThan(5);
  for (const part of rest) {
    expect(part).toEqual({ index: 0, id: first?.id, argumentsDelta: expect.any(String) });
  }
  expect(`{${rest.map(({ argumentsDelta }) => argumentsDelta).join('')}`).toMatch(CITY);
});

test('npm openai gets a call, streamed and whole, and sends its result', async () => {
  const { streamed, whole, last } = await page.evaluate(async (tool) => {
    const openai = new clients.OpenAI({
      baseURL: 'http://local/v1',
      apiKey: 'none',
      fetch: model.fetch,
      dangerouslyAllowBrowser: true,
    });
    const question = { role: 'user' as const, content: 'weather?' };
    const body = {
      model: 'any',
      messages: [question],
      tools: [tool],
      tool_choice: { type: 'function' as const, function: { name: 'weather' } },
      seed: 3,
    };
    const create = openai.chat.completions;
    const streamed = await create.stream({ ...body, messages: [question] }).finalChatCompletion();
    const whole = await create.create({ ...body, messages: [question] });
    const answer = whole.choices[0]?.message;
    const id = answer?.tool_calls?.[0]?.id;
    if (answer === undefined || id === undefined) throw new Error('no call');
    const result = { role: 'tool' as const, tool_call_id: id, content: 'sunny' };
    const messages = [question, answer, result];
    const last = await create.create({ ...body, messages, tool_choice: 'auto', max_tokens: 5 });
    return { streamed: streamed.choices[0], whole: whole.choices[0], last };
  }, TOOL);
  const call = {
    id: expect.stringMatching(/^\w{9}$/),
    type: 'function',
    function: { name: 'weather', arguments: expect.stringMatching(CITY) },
  };
  expect(whole?.finish_reason).toBe('tool_calls');
  expect(whole?.message).toMatchObject({ content: null, tool_calls: [call] });
  expect(streamed?.finish_reason).toBe('tool_calls');
  expect(streamed?.message.tool_calls).toMatchObject([call]);
  expect(last.usage?.completion_tokens).toBeGreaterThan(0);
  expect(last.choices[0]?.message.tool_calls).toBeUndefined();
});

test('npm openai gets the arguments in pieces, and the text of a call that is cut', async () => {
  const { pieces, accumulated, cut } = await page.evaluate(async (tool) => {
    const openai = new clients.OpenAI({
      baseURL: 'http://local/v1',
      apiKey: 'none',
      fetch: model.fetch,
      dangerouslyAllowBrowser: true,
    });
    const body = {
      model: 'any',
      messages: [{ role: 'user' as const, content: 'weather?' }],
      tools: [tool],
      tool_choice: 'required' as const,
      seed: 3,
    };
    const stream = openai.chat.completions.stream(body);
    const pieces: string[] = [];
    stream.on('tool_calls.function.arguments.delta', (delta) => {
      pieces.push(delta.arguments_delta);
    });
    const accumulated: string[] = [];
    stream.on('tool_calls.function.arguments.done', (call) => accumulated.push(call.arguments));
    await stream.done();
    const cut = await openai.chat.completions.create({ ...body, max_tokens: 52 });
    return { pieces, accumulated, cut: cut.choices[0] };
  }, TOOL);
  expect(pieces.length).toBeGreaterThan(5);
  expect(accumulated).toEqual([pieces.join('')]);
  expect(accumulated[0]).toMatch(CITY);
  expect(cut?.finish_reason).toBe('length');
  expect(cut?.message.tool_calls).toBeUndefined();
  expect(cut?.message.content).toMatch(/^<tool_call>\n\{"name": "weather", "arguments": \{/);
});

test("Vercel's ai runs the tool that the model calls", async () => {
  const { ran, reason } = await page.evaluate(async (parameters) => {
    const local = clients.createOpenAICompatible({
      name: 'local',
      baseURL: 'http://local/v1',
      fetch: model.fetch,
    });
    const ran: unknown[] = [];
    const result = clients.streamText({
      model: local('any'),
      prompt: 'weather?',
      seed: 5,
      toolChoice: 'required',
      tools: {
        weather: {
          inputSchema: clients.jsonSchema<{ city: string }>(parameters as object),
          execute: async (input: { city: string }) => {
            ran.push(input);
            return 'sunny';
          },
        },
      },
    });
    await result.consumeStream();
    return { ran, reason: await result.finishReason };
  }, PARAMETERS);
  expect(reason).toBe('tool-calls');
  expect(ran).toEqual([{ city: expect.stringMatching(/^(Oslo|Turin)$/) }]);
});

test('refusals name the parameter', async () => {
  const refused = await page.evaluate(async (tool) => {
    const ask = async (more: object): Promise<unknown> => {
      const messages = [{ role: 'user', content: 'x' }];
      const response = await model.fetch('http://local/v1/chat/completions', {
        method: 'POST',
        body: JSON.stringify({ messages, ...more }),
      });
      const { error } = (await response.json()) as { error: { param: string } };
      return [response.status, error.param];
    };
    return [
      await ask({ tools: [{ type: 'function' }] }),
      await ask({ tool_choice: 'required' }),
      await ask({ tools: [tool], tool_choice: 'any' }),
      await ask({ messages: [{ role: 'assistant', tool_calls: [{}] }] }),
    ];
  }, TOOL);
  expect(refused).toEqual([
    [400, 'tools[0].function'],
    [400, 'tool_choice'],
    [400, 'tool_choice'],
    [400, 'messages[0].tool_calls[0].id'],
  ]);
});
