//! The JSON of answers, field by field in the order that the dialect's own servers write.

use serde::Serialize;
use serde_json::{Map, Value};

use super::route::Endpoint;
use super::writer::Usage;

/// A chunk of a stream, or a whole answer: they differ in `object` and in the choices.
#[derive(Serialize)]
pub(super) struct Reply<'a, C> {
    pub(super) id: &'a str,
    pub(super) object: &'static str,
    pub(super) created: u64,
    pub(super) model: &'a str,
    pub(super) choices: &'a [C],
    /// Outer `None`: the field is absent; inner: it is null, as in all chunks but the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) usage: Option<Option<UsageBody>>,
}

/// Counts of a whole request.
#[derive(Serialize)]
pub(super) struct UsageBody {
    prompt_tokens: usize,
    completion_tokens: usize,
    total_tokens: usize,
    prompt_tokens_details: PromptDetails,
}

#[derive(Serialize)]
struct PromptDetails {
    cached_tokens: usize,
}

impl From<Usage> for UsageBody {
    fn from(usage: Usage) -> Self {
        Self {
            prompt_tokens: usage.prompt_tokens,
            completion_tokens: usage.completion_tokens,
            total_tokens: usage.prompt_tokens.saturating_add(usage.completion_tokens),
            prompt_tokens_details: PromptDetails {
                cached_tokens: usage.cached_tokens,
            },
        }
    }
}

/// What a chat's chunk adds.
#[derive(Serialize)]
pub(super) struct DeltaChoice<'a> {
    pub(super) index: usize,
    pub(super) delta: Delta<'a>,
    pub(super) logprobs: Option<Value>,
    pub(super) finish_reason: Option<&'a str>,
}

#[derive(Default, Serialize)]
pub(super) struct Delta<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) role: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) content: Option<&'a str>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub(super) tool_calls: &'a [CallChunk],
}

/// A part of a tool call: the first one has all fields.
#[derive(Serialize)]
pub(super) struct CallChunk {
    pub(super) index: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) r#type: Option<&'static str>,
    pub(super) function: FunctionChunk,
}

#[derive(Serialize)]
pub(super) struct FunctionChunk {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<String>,
    pub(super) arguments: String,
}

/// A whole tool call.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Call {
    pub(super) id: String,
    pub(super) r#type: &'static str,
    pub(super) function: Function,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct Function {
    pub(super) name: String,
    /// A JSON object within a string.
    pub(super) arguments: String,
}

/// A chat's whole answer.
#[derive(Serialize)]
pub(super) struct MessageChoice {
    pub(super) index: usize,
    pub(super) message: Message,
    pub(super) logprobs: Option<Value>,
    pub(super) finish_reason: String,
}

#[derive(Serialize)]
pub(super) struct Message {
    pub(super) role: &'static str,
    /// Null where there are calls alone.
    pub(super) content: Option<String>,
    /// Always null: a local model has no channel of its own for refusing.
    pub(super) refusal: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) tool_calls: Vec<Call>,
}

/// A text completion's chunk or whole answer.
#[derive(Serialize)]
pub(super) struct TextChoice<'a> {
    pub(super) index: usize,
    pub(super) text: &'a str,
    pub(super) logprobs: Option<Value>,
    pub(super) finish_reason: Option<&'a str>,
}

/// How likely a token was.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TokenScore {
    /// Natural logarithm of its probability.
    pub logprob: f64,
    /// What it is made of, for tokens that are text.
    pub bytes: Option<Vec<u8>>,
    /// The likeliest tokens in its place, with their texts.
    pub top: Vec<(String, TokenScore)>,
}

/// A token with how likely it was.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Scored {
    pub(super) text: String,
    /// Characters of the answer before it.
    pub(super) offset: usize,
    pub(super) score: TokenScore,
}

/// `logprobs` of a choice; null where no token has any.
pub(super) fn logprobs(endpoint: Endpoint, tokens: &[Scored]) -> Option<Value> {
    if tokens.is_empty() {
        return None;
    }
    Some(match endpoint {
        Endpoint::Chat => {
            let entry = |text: &str, score: &TokenScore| {
                let mut entry = Map::new();
                entry.insert("token".to_owned(), text.into());
                entry.insert("logprob".to_owned(), score.logprob.into());
                entry.insert("bytes".to_owned(), score.bytes.clone().into());
                entry
            };
            let content = tokens.iter().map(|token| {
                let top = token.score.top.iter();
                let top = top.map(|(text, score)| Value::Object(entry(text, score)));
                let mut whole = entry(&token.text, &token.score);
                whole.insert("top_logprobs".to_owned(), top.collect());
                Value::Object(whole)
            });
            let content: Value = content.collect();
            Value::Object(Map::from_iter([
                ("content".to_owned(), content),
                ("refusal".to_owned(), Value::Null),
            ]))
        }
        Endpoint::Text => {
            let top = |token: &Scored| -> Value {
                let pairs = token.score.top.iter();
                let pairs = pairs.map(|(text, score)| (text.clone(), score.logprob.into()));
                Value::Object(pairs.collect())
            };
            Value::Object(Map::from_iter([
                (
                    "tokens".to_owned(),
                    tokens.iter().map(|t| t.text.as_str()).collect(),
                ),
                (
                    "token_logprobs".to_owned(),
                    tokens.iter().map(|t| t.score.logprob).collect(),
                ),
                ("top_logprobs".to_owned(), tokens.iter().map(top).collect()),
                (
                    "text_offset".to_owned(),
                    tokens.iter().map(|t| t.offset).collect(),
                ),
            ]))
        }
    })
}

/// Plain fields as JSON.
pub(super) fn to_json<T: Serialize>(value: &T) -> String {
    // Only maps with keys that are not text and writers that fail make an error.
    serde_json::to_string(value).unwrap_or_default()
}
