// The clients under test, as an application would bundle them.
export { createOpenAICompatible } from '@ai-sdk/openai-compatible';
export { APICallError, generateText, jsonSchema, streamText } from 'ai';
export { createParser } from 'eventsource-parser';
export { default as OpenAI } from 'openai';
