//! A loaded model as the worker sees it.

use std::collections::BTreeMap;

use serde::Serialize;
use wasm_bindgen::prelude::wasm_bindgen;
use wasm_bindgen::{JsCast, JsValue};

use super::convert::{now, throw, throw_session, to_js, to_json, to_options};
use super::hardware::{self, Choices, Hardware, VARIANT};
use crate::Error;
use crate::backend::Profile;
use crate::measure::FinishReason;
use crate::session::{
    EmbedJob, EmbedOptions, EmbedProgress, Embeddings, GenerateOptions, Generation, Input,
    ModelDescription, Progress, ScoreJob, ScoreProgress, ScoreResult, Session, Token,
    template_options,
};
use crate::tokenizer::ChatMessage;

/// A model, its KV cache and the jobs on it.
#[wasm_bindgen]
pub struct Engine {
    session: Session<Hardware>,
    choices: Choices,
    generations: BTreeMap<u32, Generation>,
    scores: BTreeMap<u32, ScoreJob>,
    embeds: BTreeMap<u32, EmbedJob>,
    next_id: u32,
}

/// `model.info`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Info<'a> {
    #[serde(flatten)]
    description: &'a ModelDescription,
    backend: &'static str,
    backend_reason: &'a str,
    precision: &'static str,
    threads: usize,
    adapter: Option<String>,
    gpu: Option<Gpu<'a>>,
    wasm_variant: &'static str,
}

/// `model.info.gpu`.
#[derive(Serialize)]
struct Gpu<'a> {
    #[serde(flatten)]
    report: serde_json::Value,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    profile: &'a [Profile],
}

/// `model.memory()`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Memory {
    weights_bytes: u64,
    kv_cache_bytes: u64,
    scratch_bytes: u64,
    wasm_heap_bytes: u64,
}

/// What [`Engine::step`] led to.
#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
enum StepResult {
    Prefill { done: usize, total: usize },
    Token { token: Token },
    Finished,
}

/// What [`Engine::step_score`] led to.
#[derive(Serialize)]
#[serde(untagged)]
enum ScoreStep {
    Progress { done: usize, total: usize },
    Result(ScoreResult),
}

impl Engine {
    pub(super) fn new(session: Session<Hardware>, choices: Choices) -> Self {
        Self {
            session,
            choices,
            generations: BTreeMap::new(),
            scores: BTreeMap::new(),
            embeds: BTreeMap::new(),
            next_id: 0,
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.session.description().name
    }

    fn new_id(&mut self) -> u32 {
        self.next_id = self.next_id.wrapping_add(1);
        self.next_id
    }
}

#[wasm_bindgen]
impl Engine {
    /// `model.info`.
    ///
    /// # Errors
    /// None that a caller can provoke.
    pub fn info(&self) -> Result<JsValue, JsValue> {
        to_js(&Info {
            description: self.session.description(),
            backend: hardware::backend(self.session.backend()),
            backend_reason: &self.choices.backend_reason,
            precision: self.choices.precision,
            threads: hardware::threads(self.session.backend()),
            adapter: hardware::adapter(self.session.backend()),
            gpu: hardware::report(self.session.backend()).map(|report| Gpu {
                report,
                profile: &self.choices.profile,
            }),
            wasm_variant: VARIANT,
        })
    }

    /// `model.memory()`.
    ///
    /// # Errors
    /// None that a caller can provoke.
    pub fn memory(&self) -> Result<JsValue, JsValue> {
        let held = self.session.memory();
        let memory: js_sys::WebAssembly::Memory = wasm_bindgen::memory().unchecked_into();
        let heap: js_sys::ArrayBuffer = memory.buffer().unchecked_into();
        to_js(&Memory {
            weights_bytes: held.weights_bytes,
            kv_cache_bytes: held.kv_cache_bytes,
            scratch_bytes: held.scratch_bytes,
            wasm_heap_bytes: u64::from(heap.byte_length()),
        })
    }

    /// Ids of a text; `special` lets special tokens' texts become their ids.
    ///
    /// # Errors
    /// The tokenizer's.
    pub fn tokenize(&self, text: &str, special: bool) -> Result<Vec<u32>, JsValue> {
        let ids = self.session.tokenizer().encode(text, special);
        ids.map_err(|error| throw_session(error.into()))
    }

    /// Text of ids, special tokens' texts included.
    #[must_use]
    pub fn detokenize(&self, ids: &[u32]) -> String {
        self.session.tokenizer().decode(ids)
    }

    /// The prompt that messages become: `{ addGenerationPrompt?, … }`, the rest being
    /// variables of the template.
    ///
    /// # Errors
    /// `invalid-option` for messages or options of the wrong kind, or without a template.
    #[wasm_bindgen(js_name = applyChatTemplate)]
    pub fn apply_chat_template(
        &self,
        messages: JsValue,
        options: JsValue,
    ) -> Result<String, JsValue> {
        let messages = messages_from(messages)?;
        let options = to_options(options, "template options")?;
        let options = template_options(&options, now()).map_err(throw_session)?;
        let segments = self
            .session
            .apply_chat_template(&messages, &options)
            .map_err(throw_session)?;
        Ok(segments.into_iter().map(|segment| segment.text).collect())
    }

    /// Starts a generation and returns its number; no work is done before it is stepped.
    ///
    /// # Errors
    /// `invalid-option`, `context-full`.
    pub fn start(&mut self, input: JsValue, options: JsValue) -> Result<u32, JsValue> {
        let input = to_json(input, "input", "a string or an array of messages")?;
        let input = Input::from_json(&input).map_err(throw_session)?;
        let options = to_options(options, "generate options")?;
        let mut options = GenerateOptions::from_json(&options).map_err(throw_session)?;
        options.seed = options.seed.or_else(|| Some(random_seed()));
        let prompt = self
            .session
            .prompt_ids_with(&input, &options, now())
            .map_err(throw_session)?;
        let generation = self
            .session
            .generation(prompt, options)
            .map_err(throw_session)?;
        let id = self.new_id();
        self.generations.insert(id, generation);
        Ok(id)
    }

    /// Ids of a generation's prompt.
    ///
    /// # Errors
    /// `internal` for a number that is not in use.
    #[wasm_bindgen(js_name = promptIds)]
    pub fn prompt_ids(&self, id: u32) -> Result<Vec<u32>, JsValue> {
        let generation = self.generations.get(&id).ok_or_else(|| no_job(id))?;
        Ok(generation.prompt_ids().to_vec())
    }

    /// One prefill chunk or the next token, before whose reading as many as `lookahead` may be
    /// sampled, that one included.
    ///
    /// # Errors
    /// The backend's, or `internal` for a number that is not in use.
    pub async fn step(&mut self, id: u32, lookahead: u32) -> Result<JsValue, JsValue> {
        let generation = self.generations.get_mut(&id).ok_or_else(|| no_job(id))?;
        generation.set_lookahead(usize::try_from(lookahead).unwrap_or(usize::MAX));
        let progress = self
            .session
            .advance(generation)
            .await
            .map_err(throw_session)?;
        to_js(&match progress {
            Progress::Prefilled { done, total } => StepResult::Prefill { done, total },
            Progress::Token(token) => StepResult::Token { token },
            Progress::Finished => StepResult::Finished,
        })
    }

    /// Ends a generation and returns its statistics. The cache stays. `reason` is that of an
    /// unfinished answer: `"cancelled"` or `"error"`.
    ///
    /// # Errors
    /// `internal` for a number that is not in use.
    pub fn end(&mut self, id: u32, reason: Option<String>) -> Result<JsValue, JsValue> {
        let generation = self.generations.remove(&id).ok_or_else(|| no_job(id))?;
        let reason = match reason.as_deref() {
            Some("error") => FinishReason::Error,
            _ => FinishReason::Cancelled,
        };
        to_js(&generation.stats(reason))
    }

    /// Starts scoring a text or ids and returns the job's number.
    ///
    /// # Errors
    /// `invalid-option`, `context-full`.
    #[wasm_bindgen(js_name = startScore)]
    pub fn start_score(&mut self, input: JsValue) -> Result<u32, JsValue> {
        let ids = match input.dyn_ref::<js_sys::Uint32Array>() {
            Some(ids) => ids.to_vec(),
            None => {
                let text = input.as_string().ok_or_else(|| {
                    throw(&Error::Kind {
                        name: "input",
                        expected: "a string or an array of ids",
                    })
                })?;
                let encoded = self.session.tokenizer().encode_prompt(&text);
                encoded.map_err(|error| throw_session(error.into()))?
            }
        };
        let job = self.session.score_job(ids).map_err(throw_session)?;
        let id = self.new_id();
        self.scores.insert(id, job);
        Ok(id)
    }

    /// Scores a chunk: `{ done, total }`, in the end `{ ids, top1, top1Logprob, nextLogprob }`.
    ///
    /// # Errors
    /// The backend's, or `internal` for a number that is not in use.
    #[wasm_bindgen(js_name = stepScore)]
    pub async fn step_score(&mut self, id: u32) -> Result<JsValue, JsValue> {
        let job = self.scores.get_mut(&id).ok_or_else(|| no_job(id))?;
        match self.session.score(job).await.map_err(throw_session)? {
            ScoreProgress::Scored { done, total } => to_js(&ScoreStep::Progress { done, total }),
            ScoreProgress::Finished(result) => {
                self.scores.remove(&id);
                to_js(&ScoreStep::Result(result))
            }
        }
    }

    /// Drops an unfinished scoring job.
    #[wasm_bindgen(js_name = endScore)]
    pub fn end_score(&mut self, id: u32) {
        self.scores.remove(&id);
    }

    /// Starts embedding texts, an array of strings or arrays of ids, with `{ pooling? }`, and
    /// returns the job's number.
    ///
    /// # Errors
    /// `invalid-option`, `context-full`.
    #[wasm_bindgen(js_name = startEmbed)]
    pub fn start_embed(&mut self, texts: JsValue, options: JsValue) -> Result<u32, JsValue> {
        let texts = to_json(texts, "texts", "an array of strings")?;
        let options = to_options(options, "embed options")?;
        let options = EmbedOptions::from_json(&texts, &options).map_err(throw_session)?;
        let job = self.session.embed_job(options).map_err(throw_session)?;
        let id = self.new_id();
        self.embeds.insert(id, job);
        Ok(id)
    }

    /// Embeds a chunk: `{ done, total }`, in the end `{ vectors, tokens }`.
    ///
    /// # Errors
    /// The backend's, or `internal` for a number that is not in use.
    #[wasm_bindgen(js_name = stepEmbed)]
    pub async fn step_embed(&mut self, id: u32) -> Result<JsValue, JsValue> {
        let job = self.embeds.get_mut(&id).ok_or_else(|| no_job(id))?;
        match self.session.embed(job).await.map_err(throw_session)? {
            EmbedProgress::Embedded { done, total } => to_js(&ScoreStep::Progress { done, total }),
            EmbedProgress::Finished(embeddings) => {
                self.embeds.remove(&id);
                vectors(&embeddings)
            }
        }
    }

    /// Drops an unfinished embedding job.
    #[wasm_bindgen(js_name = endEmbed)]
    pub fn end_embed(&mut self, id: u32) {
        self.embeds.remove(&id);
    }
}

/// `{ vectors: Float32Array[], tokens }`.
fn vectors(embeddings: &Embeddings) -> Result<JsValue, JsValue> {
    let vectors: js_sys::Array = embeddings
        .vectors
        .iter()
        .map(|vector| js_sys::Float32Array::from(vector.as_slice()))
        .collect();
    let result = js_sys::Object::new();
    js_sys::Reflect::set(&result, &"vectors".into(), &vectors)?;
    js_sys::Reflect::set(&result, &"tokens".into(), &to_js(&embeddings.tokens)?)?;
    Ok(result.into())
}

fn no_job(id: u32) -> JsValue {
    throw(&Error::NoSuchJob { id })
}

fn messages_from(messages: JsValue) -> Result<Vec<ChatMessage>, JsValue> {
    let expected = "an array of messages";
    let messages = to_json(messages, "messages", expected)?;
    match Input::from_json(&messages).map_err(throw_session)? {
        Input::Chat(messages) => Ok(messages),
        Input::Raw(_) => Err(throw(&Error::Kind {
            name: "messages",
            expected,
        })),
    }
}

/// A seed for a call that names none.
pub(super) fn random_seed() -> u64 {
    // 53 bits: what a caller could have passed, so that a run can be repeated.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a non-negative integer below 2^53"
    )]
    let seed = (js_sys::Math::random() * (1_u64 << 53) as f64) as u64;
    seed
}
