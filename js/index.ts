// The entry of the package `tokenbrook`. Importing it touches no global of the browser.

export { load } from './load.js';
export { TokenbrookError } from './errors.js';
export type { ErrorCode } from './errors.js';
export type {
  Backend,
  ChatMessage,
  Delivery,
  DeliveryVerdict,
  DeliveryWindow,
  EmbedOptions,
  FinishReason,
  GenerateOptions,
  JsonSchema,
  LoadOptions,
  Memory,
  Model,
  ModelInfo,
  Precision,
  Progress,
  ResponseFormat,
  ScoreResult,
  Source,
  SourceFile,
  Stats,
  TemplateOptions,
  Token,
  TokenIterator,
  TokenStream,
  Tool,
  ToolCall,
  ToolCallDelta,
  ToolChoice,
  TopLogprob,
} from './types.js';
