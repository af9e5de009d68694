// The clients under test, as an application would bundle them.
export { createOpenAICompatible } from '@ai-sdk/openai-compatible';
export {
  APICallError,
  Output,
  generateObject,
  generateText,
  jsonSchema,
  streamObject,
  streamText,
} from 'ai';
export { createParser } from 'eventsource-parser';
export { default as OpenAI } from 'openai';
export { zodResponseFormat } from 'openai/helpers/zod';
export { z } from 'zod';
