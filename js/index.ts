// The entry of the package `tokenbrook`. Importing it touches no global of the browser.

export { diagnose } from './diagnose.js';
export { load, plan } from './load.js';
export { TokenbrookError } from './errors.js';
export { models } from './models.js';
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
  KernelProfile,
  KernelRole,
  KvCacheFormat,
  LoadOptions,
  LoadPlan,
  Memory,
  Model,
  ModelInfo,
  PassProfile,
  Precision,
  Progress,
  ResponseFormat,
  ScoreResult,
  Source,
  SourceFile,
  Stats,
  StorageDiagnosis,
  StoredModel,
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
