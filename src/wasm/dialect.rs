//! Requests in the OpenAI dialect, answered one generation at a time, or by embeddings.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use wasm_bindgen::prelude::wasm_bindgen;
use wasm_bindgen::{JsCast, JsValue};

use super::convert::{throw, to_js};
use super::engine::Engine;
use crate::Error;
use crate::openai::{
    CallDelta, CompletionRequest, CompletionWriter, DialectError, EmbeddingsRequest, Endpoint,
    Head, MAX_BODY_BYTES, Route, TokenScore, Usage, model_list,
};
use crate::session::{GenerateOptions, SessionError};

/// A request and its answer in the making.
///
/// While [`next`](Self::next) gives a generation, the caller runs it between
/// [`begin`](Self::begin) and [`finish`](Self::finish); what that adds to the body is taken
/// with [`take`](Self::take). While [`texts`](Self::texts) gives texts, the caller embeds them
/// and hands the vectors to [`embedded`](Self::embedded). Without either the body is there at
/// once.
#[wasm_bindgen]
pub struct Exchange {
    status: u16,
    allow: Option<&'static str>,
    body: Vec<u8>,
    completion: Option<Completion>,
    embeddings: Option<Embeddings>,
}

struct Embeddings {
    request: EmbeddingsRequest,
    model: String,
}

struct Completion {
    request: CompletionRequest,
    writer: CompletionWriter,
    /// Answers that are finished.
    finished: usize,
    begun: bool,
}

/// What the head of a response holds.
#[derive(Serialize)]
struct ResponseHead {
    status: u16,
    headers: Vec<(&'static str, &'static str)>,
}

/// A generation that an answer needs.
#[derive(Serialize)]
struct Start<'a> {
    input: &'a Value,
    options: Map<String, Value>,
}

/// The part of a token that the dialect shows.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Piece {
    text: String,
    #[serde(default)]
    tool_calls: Vec<CallPiece>,
    bytes: Option<Vec<u8>>,
    logprob: Option<f64>,
    #[serde(default)]
    top_logprobs: Vec<Alternative>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CallPiece {
    index: usize,
    id: String,
    name: Option<String>,
    arguments_delta: String,
}

#[derive(Deserialize)]
struct Alternative {
    text: String,
    bytes: Option<Vec<u8>>,
    logprob: f64,
}

/// The part of the statistics that the dialect shows.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Outcome {
    finish_reason: String,
    prompt_tokens: usize,
    cached_tokens: usize,
    completion_tokens: usize,
}

#[wasm_bindgen]
impl Engine {
    /// Reads a request: its method in capitals, the path of its address, its body. A request
    /// that is refused has an answer like any other.
    #[must_use]
    pub fn exchange(&self, method: &str, path: &str, body: &js_sys::Uint8Array) -> Exchange {
        match self.read_request(method, path, body) {
            Ok(exchange) => exchange,
            Err(error) => Exchange::refused(&error),
        }
    }

    fn read_request(
        &self,
        method: &str,
        path: &str,
        body: &js_sys::Uint8Array,
    ) -> Result<Exchange, DialectError> {
        match Route::read(method, path)? {
            Route::Models => Ok(Exchange::whole(self.model_json(None)?)),
            Route::Model(name) => Ok(Exchange::whole(self.model_json(Some(&name))?)),
            Route::Completion(endpoint) => self.completion(endpoint, &bytes_of(body)?),
            Route::Embeddings => Ok(Exchange {
                embeddings: Some(Embeddings {
                    request: EmbeddingsRequest::read(&bytes_of(body)?)?,
                    model: self.name().to_owned(),
                }),
                ..Exchange::whole(String::new())
            }),
        }
    }

    fn completion(&self, endpoint: Endpoint, body: &[u8]) -> Result<Exchange, DialectError> {
        let request = CompletionRequest::read(endpoint, body)?;
        GenerateOptions::from_json(&request.options(0)).map_err(|why| refusal(&request, why))?;
        let head = Head {
            id: new_id(endpoint),
            created: unix_seconds(),
            model: self.name().to_owned(),
        };
        Ok(Exchange {
            completion: Some(Completion {
                writer: CompletionWriter::new(head, &request),
                request,
                finished: 0,
                begun: false,
            }),
            ..Exchange::whole(String::new())
        })
    }

    fn model_json(&self, wanted: Option<&str>) -> Result<String, DialectError> {
        model_list(self.name(), unix_seconds(), wanted)
    }
}

#[wasm_bindgen]
impl Exchange {
    /// `{ status, headers }`; final once a generation has begun, or when none is left.
    ///
    /// # Errors
    /// None that a caller can provoke.
    pub fn head(&self) -> Result<JsValue, JsValue> {
        let mut headers = if self.streams() {
            vec![
                ("content-type", "text/event-stream; charset=utf-8"),
                ("cache-control", "no-cache"),
            ]
        } else {
            vec![("content-type", "application/json")]
        };
        headers.extend(self.allow.map(|method| ("allow", method)));
        to_js(&ResponseHead {
            status: self.status,
            headers,
        })
    }

    /// Whether the body is a stream of events.
    #[must_use]
    #[wasm_bindgen(getter)]
    pub fn streams(&self) -> bool {
        let completion = self.completion.as_ref();
        completion.is_some_and(|completion| completion.request.stream())
    }

    /// `{ input, options }` of the generation to run next; `undefined` when the body is
    /// complete.
    ///
    /// # Errors
    /// None that a caller can provoke.
    pub fn next(&self) -> Result<JsValue, JsValue> {
        let Some(completion) = &self.completion else {
            return Ok(JsValue::UNDEFINED);
        };
        let choice = completion.finished;
        match completion.request.input(choice) {
            Some(input) => to_js(&Start {
                input,
                options: completion.request.options(choice),
            }),
            None => Ok(JsValue::UNDEFINED),
        }
    }

    /// The texts to embed, strings or arrays of ids; `undefined` when none are asked for.
    ///
    /// # Errors
    /// None that a caller can provoke.
    pub fn texts(&self) -> Result<JsValue, JsValue> {
        match &self.embeddings {
            Some(embeddings) => to_js(embeddings.request.texts()),
            None => Ok(JsValue::UNDEFINED),
        }
    }

    /// The texts are embedded: takes their vectors and how many tokens they have.
    ///
    /// # Errors
    /// `invalid-option` for what are no vectors.
    pub fn embedded(&mut self, vectors: &js_sys::Array, tokens: usize) -> Result<(), JsValue> {
        let Some(embeddings) = self.embeddings.take() else {
            return Ok(());
        };
        let vectors = vectors.iter().map(|vector| {
            let vector = vector.dyn_into::<js_sys::Float32Array>();
            vector
                .map(|vector| vector.to_vec())
                .map_err(|_| strange("vectors"))
        });
        let vectors: Vec<_> = vectors.collect::<Result<_, _>>()?;
        let Embeddings { request, model } = embeddings;
        self.body = request.answer(&model, &vectors, tokens).into_bytes();
        Ok(())
    }

    /// The generation has started.
    pub fn begin(&mut self) {
        if let Some(completion) = &mut self.completion {
            completion.begun = true;
            completion.writer.begin();
        }
    }

    /// The generation made a token.
    ///
    /// # Errors
    /// `invalid-option` for what is no token.
    pub fn token(&mut self, token: JsValue) -> Result<(), JsValue> {
        let piece: Piece = read(token, "token")?;
        if let Some(completion) = &mut self.completion {
            let top = piece.top_logprobs.into_iter();
            let top = top.map(|other| {
                let score = TokenScore {
                    logprob: other.logprob,
                    bytes: other.bytes,
                    top: Vec::new(),
                };
                (other.text, score)
            });
            let top = top.collect();
            let score = piece.logprob.map(|logprob| TokenScore {
                logprob,
                bytes: piece.bytes,
                top,
            });
            completion.writer.token(&piece.text, score);
            let parts = piece.tool_calls.into_iter().map(|part| CallDelta {
                index: part.index,
                id: part.id,
                name: part.name,
                arguments: part.arguments_delta,
            });
            completion.writer.tool_calls(parts.collect());
        }
        Ok(())
    }

    /// The generation is complete; takes its statistics.
    ///
    /// # Errors
    /// `invalid-option` for what are no statistics.
    pub fn finish(&mut self, stats: JsValue) -> Result<(), JsValue> {
        let outcome: Outcome = read(stats, "stats")?;
        if let Some(completion) = &mut self.completion {
            let is_first = completion.request.is_first_of_prompt(completion.finished);
            let once = |tokens: usize| if is_first { tokens } else { 0 };
            let usage = Usage {
                prompt_tokens: once(outcome.prompt_tokens),
                cached_tokens: once(outcome.cached_tokens),
                completion_tokens: outcome.completion_tokens,
            };
            completion.finished += 1;
            completion.writer.finish(&outcome.finish_reason, usage);
        }
        Ok(())
    }

    /// The generation, or the embedding, was refused or failed, with the engine's code and
    /// sentence, and the option that is to blame. A stream that has begun ends with an error
    /// event; otherwise the whole answer is the error.
    pub fn fail(&mut self, code: String, mut message: String, option: Option<String>) {
        let option = option.as_deref();
        let Some(completion) = &mut self.completion else {
            if let Some(Embeddings { request, .. }) = &self.embeddings {
                let param = request.parameter_of(option.unwrap_or("texts"));
                if let (Some(option), Some(param)) = (option, &param) {
                    message = message.replace(&format!("{option:?}"), &format!("{param:?}"));
                }
                *self = Self::refused(&DialectError::Engine {
                    code,
                    message,
                    param,
                });
            }
            return;
        };
        let mut param = option.and_then(|name| completion.request.parameter_of(name));
        if let (Some(option), Some(param)) = (option, &param) {
            message = message.replace(&format!("{option:?}"), &format!("{param:?}"));
        } else if !completion.begun && matches!(&*code, "invalid-option" | "context-full") {
            param = Some(completion.request.input_parameter().to_owned());
        }
        let error = DialectError::Engine {
            code,
            message,
            param,
        };
        if completion.begun && completion.request.stream() {
            completion.writer.fail(&error);
        } else {
            *self = Self::refused(&error);
        }
    }

    /// What was added to the body since the last call.
    #[must_use]
    pub fn take(&mut self) -> Vec<u8> {
        let mut bytes = std::mem::take(&mut self.body);
        if let Some(completion) = &mut self.completion {
            bytes.append(&mut completion.writer.take());
        }
        bytes
    }
}

impl Exchange {
    fn whole(json: String) -> Self {
        Self {
            status: 200,
            allow: None,
            body: json.into_bytes(),
            completion: None,
            embeddings: None,
        }
    }

    fn refused(error: &DialectError) -> Self {
        Self {
            status: error.status(),
            allow: match error {
                DialectError::Method { allowed, .. } => Some(allowed),
                _ => None,
            },
            ..Self::whole(error.to_json())
        }
    }
}

/// An option that the engine refuses, under the name that the request has for it.
fn refusal(request: &CompletionRequest, why: SessionError) -> DialectError {
    let parameter = |option: String| request.parameter_of(&option).unwrap_or(option);
    match why {
        SessionError::InvalidOption { name, value, limit } => DialectError::Invalid {
            param: parameter(name),
            value,
            limit,
        },
        SessionError::UnknownOption { name, .. } => DialectError::Unsupported {
            param: parameter(name),
        },
        other => DialectError::Engine {
            code: other.code().to_owned(),
            message: other.to_string(),
            param: None,
        },
    }
}

fn read<T: for<'a> Deserialize<'a>>(value: JsValue, name: &'static str) -> Result<T, JsValue> {
    serde_wasm_bindgen::from_value(value).map_err(|_| strange(name))
}

fn strange(name: &'static str) -> JsValue {
    throw(&Error::Kind {
        name,
        expected: "what the engine gave",
    })
}

/// A body's bytes, measured before they are copied into the module's memory.
fn bytes_of(body: &js_sys::Uint8Array) -> Result<Vec<u8>, DialectError> {
    let bytes = usize::try_from(body.length()).unwrap_or(usize::MAX);
    if bytes > MAX_BODY_BYTES {
        return Err(DialectError::TooLarge {
            bytes,
            limit: MAX_BODY_BYTES,
        });
    }
    Ok(body.to_vec())
}

fn new_id(endpoint: Endpoint) -> String {
    let prefix = match endpoint {
        Endpoint::Chat => "chatcmpl",
        Endpoint::Text => "cmpl",
    };
    format!("{prefix}-{:014x}", super::engine::random_seed())
}

fn unix_seconds() -> u64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "saturating, which is the wanted end for a clock that is wrong"
    )]
    let seconds = (js_sys::Date::now() / 1000.0) as u64;
    seconds
}
