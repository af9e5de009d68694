//! From a prompt to tokens: prefill, decode, finished with a reason.
//!
//! A [`Session`] owns a model on a backend and one KV cache; [`Generation`]s take turns on it.
//! A generation holds its own ids, so that one whose cache was lost to another prefills again
//! by itself. Each [`Session::advance`] is one bounded piece of work: a prefill chunk or a
//! decode step.

mod advance;
mod constraint;
mod embed;
mod error;
mod fit;
mod generation;
mod kv_cache;
mod load;
mod options;
mod pacer;
mod penalties;
mod random;
mod response_format;
mod run_ahead;
mod score;
mod stop;
mod tool_calls;
mod tools;

pub use crate::model::Pooling;
pub use embed::{EmbedInput, EmbedJob, EmbedOptions, EmbedProgress, Embeddings};
pub use error::SessionError;
pub use fit::{Fit, Need, Shortage};
pub use generation::{Generation, Progress, Token, TopLogprob};
pub use load::{LoadOptions, Loader, Sketch};
pub use options::{GenerateOptions, Input, template_options};
pub use response_format::ResponseFormat;
pub use score::{ScoreJob, ScoreProgress, ScoreResult};
pub use tool_calls::{Parsed, ToolCallDelta, ToolFormat, ToolParser};
pub use tools::{Tool, ToolChoice};

use std::cell::{Cell, OnceCell};
use std::rc::Rc;

use serde::Serialize;

use crate::backend::{Backend, BackendMemory, Outputs, Profile, SampleParams, Slot, TokenSource};
use crate::measure::Clock;
use crate::model::{ModelFacts, Plan};
use crate::tokenizer::{
    ChatMessage, ChatTemplate, Now, Segment, TemplateError, TemplateOptions, Tokenizer,
};
use constraint::{Constraint, Constraints};
use kv_cache::KvCache;
use pacer::Pacer;
use run_ahead::RunAhead;

/// Positions of one KV block: large enough that attention runs over long contiguous pieces,
/// small enough that a short chat takes little memory.
const BLOCK_TOKENS: usize = 256;

/// The most rows of one pass.
const MAX_ROWS: usize = 128;

/// Rows of a scoring pass: each row costs a whole vocabulary of logits.
const MAX_SCORED_ROWS: usize = 16;

/// What a loaded model says of itself.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelDescription {
    /// `general.name`.
    pub name: String,
    /// `general.architecture`.
    pub architecture: String,
    /// The quantization of most of the weights' bytes, as ggml spells it.
    pub quantization: String,
    /// Elements of all tensors.
    pub parameters: u64,
    /// Positions of the KV cache.
    pub context_length: usize,
}

/// A model that is ready to generate.
pub struct Session<B: Backend> {
    backend: B,
    facts: ModelFacts,
    plan: Plan,
    description: ModelDescription,
    tokenizer: Tokenizer,
    template: Option<Result<ChatTemplate, TemplateError>>,
    /// Built at the first call that holds its answer to a form.
    constraints: OnceCell<Constraints>,
    kv: KvCache,
    pacer: Pacer,
    run_ahead: RunAhead,
    /// Number of the next generation.
    next_generation: Cell<u64>,
    clock: Rc<dyn Clock>,
}

impl<B: Backend> Session<B> {
    /// What the model is.
    #[must_use]
    pub fn description(&self) -> &ModelDescription {
        &self.description
    }

    /// The tokenizer of the file.
    #[must_use]
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// Waits until the backend has taken all weights, and reports what failed meanwhile.
    ///
    /// # Errors
    /// The backend's.
    pub async fn ready(&mut self) -> Result<(), SessionError> {
        self.backend.ready().await?;
        self.pacer = Pacer::new(self.backend.chunks(), MAX_ROWS);
        Ok(())
    }

    /// Records the passes of a generation, and runs one, so that the first token waits for
    /// nothing that could have been made before. A backend that records nothing gains nothing.
    ///
    /// # Errors
    /// The backend's.
    pub async fn warm(&mut self) -> Result<(), SessionError> {
        const FEW_ROWS: usize = 2;
        if !self.backend.keep_recording() {
            return Ok(());
        }
        // Chunks of a prompt and its last one, which samples, of many tokens and of a few.
        let prompt = vec![0; MAX_ROWS.min(self.kv.capacity())];
        for (rows, outputs) in [
            (MAX_ROWS, Outputs::Nothing),
            (MAX_ROWS, Outputs::LastRow),
            (FEW_ROWS, Outputs::Nothing),
            (FEW_ROWS, Outputs::LastRow),
        ] {
            let ids = &prompt[..rows.min(prompt.len())];
            self.begin(TokenSource::Ids(ids), outputs)?;
            self.backend.keep_recording();
        }
        self.begin(TokenSource::Ids(&[0]), Outputs::LastRow)?;
        self.backend.sample(Slot::Logits, &SampleParams::GREEDY)?;
        self.backend.keep_recording();
        let drawn = SampleParams {
            temperature: 0.8,
            top_k: 40,
            top_p: 0.95,
            ..SampleParams::GREEDY
        };
        let slot = self
            .pass(TokenSource::Ids(&[0]), Outputs::LastRow, Some(&drawn))
            .await?;
        if let Some(slot) = slot {
            self.backend.read_token(slot).await?;
        }
        self.kv.truncate(0, &mut self.backend);
        Ok(())
    }

    /// Where the time of a step of decode goes, and of a chunk of a prompt, in an empty cache with
    /// that many positions before; nothing where the backend cannot tell.
    ///
    /// # Errors
    /// The backend's, and [`SessionError::ContextFull`] for a context that is too short.
    pub async fn profile(&mut self) -> Result<Vec<Profile>, SessionError> {
        const ROWS: usize = 64;
        let ids = vec![0; ROWS];
        self.kv.truncate(0, &mut self.backend);
        let mut profiles = Vec::new();
        let passes = [(&ids[..1], Outputs::LastRow), (&ids[..], Outputs::Nothing)];
        for (rows, outputs) in passes {
            self.pass(TokenSource::Ids(&ids), Outputs::Nothing, None)
                .await?;
            self.pass(TokenSource::Ids(rows), outputs, None).await?;
            profiles.extend(self.backend.profile().await?);
            self.kv.truncate(0, &mut self.backend);
        }
        Ok(profiles)
    }

    /// The backend.
    #[must_use]
    pub fn backend(&self) -> &B {
        &self.backend
    }

    /// Bytes that the backend holds.
    #[must_use]
    pub fn memory(&self) -> BackendMemory {
        self.backend.memory()
    }

    /// Renders messages through the file's chat template, ready for an answer.
    ///
    /// # Errors
    /// [`SessionError::NoChatTemplate`] where the file has none, or the template's own.
    pub fn apply_chat_template(
        &self,
        messages: &[ChatMessage],
        options: &TemplateOptions,
    ) -> Result<Vec<Segment>, SessionError> {
        let template = self.template.as_ref().ok_or(SessionError::NoChatTemplate)?;
        let template = template.as_ref().map_err(Clone::clone)?;
        Ok(template.render_segments(messages, options, &self.tokenizer)?)
    }

    /// Token ids of an input: raw text with the file's BOS and EOS rules, or messages through
    /// the chat template.
    ///
    /// # Errors
    /// As [`apply_chat_template`](Self::apply_chat_template), or the tokenizer's.
    pub fn prompt_ids(
        &self,
        input: &Input,
        options: &TemplateOptions,
    ) -> Result<Vec<u32>, SessionError> {
        match input {
            Input::Raw(text) => Ok(self.tokenizer.encode_prompt(text)?),
            Input::Chat(messages) => {
                let segments = self.apply_chat_template(messages, options)?;
                Ok(self.tokenizer.encode_segments(&segments)?)
            }
        }
    }

    /// As [`prompt_ids`](Self::prompt_ids) for an answer with `options`, which tells messages'
    /// model of its tools. A text has to do that itself.
    ///
    /// # Errors
    /// As [`prompt_ids`](Self::prompt_ids).
    pub fn prompt_ids_with(
        &self,
        input: &Input,
        options: &GenerateOptions,
        now: Now,
    ) -> Result<Vec<u32>, SessionError> {
        let mut template = template_options(&options.template_options, now)?;
        let tools = options.callable_tools();
        let Input::Chat(messages) = input else {
            return self.prompt_ids(input, &template);
        };
        let uses_tools = !tools.is_empty()
            || messages
                .iter()
                .any(|message| message.tool_calls.is_some() || message.role == "tool");
        if uses_tools && !self.template_source().contains("tools") {
            let messages = tools::plain_messages(messages, tools);
            return self.prompt_ids(&Input::Chat(messages), &template);
        }
        if !tools.is_empty() {
            let tools = tools.iter().map(|tool| tool.declaration.clone()).collect();
            template.variables.insert("tools".to_owned(), tools);
        }
        self.prompt_ids(input, &template)
    }

    /// How the model writes calls of tools.
    #[must_use]
    pub fn tool_format(&self) -> ToolFormat {
        ToolFormat::of_template(self.template_source())
    }

    fn template_source(&self) -> &str {
        match &self.template {
            Some(Ok(template)) => template.source(),
            _ => "",
        }
    }

    /// Starts a generation; no work is done before it is advanced.
    ///
    /// # Errors
    /// [`SessionError::EmptyPrompt`], [`SessionError::ContextFull`], [`SessionError::TokenId`],
    /// and [`SessionError::Grammar`] for a form that cannot be used.
    pub fn generation(
        &self,
        prompt: Vec<u32>,
        options: GenerateOptions,
    ) -> Result<Generation, SessionError> {
        self.check_ids(&prompt)?;
        for bias in &options.logit_bias {
            self.check_id(bias.id)?;
        }
        let constraint = match &options.response_format {
            _ if options.tool_choice.is_forced() => Some(self.call_constraint(&options)?),
            Some(format) => Some(self.constraint(format)?),
            None => None,
        };
        let tools = options.callable_tools();
        let tools = (!tools.is_empty()).then(|| {
            let names = tools.iter().map(|tool| tool.name.clone()).collect();
            // Another turn with the same seed has another prompt.
            let seed = options.seed.unwrap_or(0).rotate_left(20) ^ prompt.len() as u64;
            ToolParser::new(self.tool_format(), names, seed)
        });
        let number = self.next_generation.get();
        self.next_generation.set(number + 1);
        Ok(Generation::new(
            number,
            prompt,
            options,
            constraint,
            tools,
            self.kv.capacity(),
            self.clock.now_ms(),
        ))
    }

    fn constraint(&self, format: &ResponseFormat) -> Result<Constraint, SessionError> {
        let constraints = match self.constraints.get() {
            Some(constraints) => constraints,
            None => {
                let built = Constraints::new(&self.tokenizer)?;
                self.constraints.get_or_init(|| built)
            }
        };
        constraints.start(format)
    }

    /// The form of an answer that has to call a tool.
    fn call_constraint(&self, options: &GenerateOptions) -> Result<Constraint, SessionError> {
        let (tools, choice) = (&options.tools, &options.tool_choice);
        let grammar = tools::grammar(tools, choice, self.tool_format(), &self.tokenizer);
        let refused = match self.constraint(&ResponseFormat::Lark(grammar)) {
            Ok(constraint) => return Ok(constraint),
            Err(error) => error,
        };
        // Each schema by itself tells where the fault is.
        for (index, tool) in tools.iter().enumerate() {
            let format = ResponseFormat::JsonSchema(tool.parameters());
            if let Err(SessionError::Grammar { place, why }) = self.constraint(&format) {
                let inner = place.trim_start_matches("responseFormat.schema");
                let place = format!("tools[{index}].function.parameters{inner}");
                return Err(SessionError::Grammar { place, why });
            }
        }
        Err(refused)
    }

    fn check_ids(&self, ids: &[u32]) -> Result<(), SessionError> {
        if ids.is_empty() {
            return Err(SessionError::EmptyPrompt);
        }
        ids.iter().try_for_each(|&id| self.check_id(id))?;
        if ids.len() > self.kv.capacity() {
            return Err(SessionError::ContextFull {
                prompt_tokens: ids.len(),
                context_length: self.kv.capacity(),
            });
        }
        Ok(())
    }

    fn check_id(&self, id: u32) -> Result<(), SessionError> {
        let vocab_size = self.facts.vocab_size;
        if (id as usize) < vocab_size {
            return Ok(());
        }
        Err(SessionError::TokenId { id, vocab_size })
    }
}
