// The entry of the package `tokenbrook`. Importing it touches no global of the browser.

export { diagnose } from './diagnose.js';
export { load } from './load.js';
export { TokenbrookError } from './errors.js';
export type { ErrorCode } from './errors.js';
export type {
  AdapterDiagnosis,
  Backend,
  ChatMessage,
  Delivery,
  DeliveryVerdict,
  DeliveryWindow,
  Diagnosis,
  EmbedOptions,
  FinishReason,
  GenerateOptions,
  GpuOptions,
  GpuReport,
  JsonSchema,
  KernelRole,
  KvCacheFormat,
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
  StorageDiagnosis,
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
