//! How models write calls, and how that is told.

use super::json_calls::JsonCalls;
use super::keywords::{Form, KeywordCalls};
use super::named::NamedCall;
use super::{Event, Status};

/// How a model writes calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolFormat {
    /// `<tool_call>{"name": …, "arguments": {…}}</tool_call>`: Hermes, Qwen, SmolLM3.
    Hermes,
    /// `{"name": …, "parameters": {…}}` as the answer, or behind `<|python_tag|>`: Llama 3;
    /// `[name(key=value)]` as the answer: Llama 3.2.
    Llama,
    /// `[TOOL_CALLS] [{"name": …, "arguments": {…}}]`: Mistral up to its seventh tokenizer.
    Mistral,
    /// `[TOOL_CALLS]name[ARGS]{…}`, the same with `[CALL_ID]id` between: Mistral from its
    /// eleventh tokenizer on.
    MistralNamed,
    /// `{"name": …, "parameters": {…}}` or `[name(key=value)]` as the answer, either of them or
    /// `name(key=value)` in a fenced block: Gemma, and models that were not told of a form of
    /// their own.
    Fenced,
    /// `<start_function_call>call:name{key:<escape>value<escape>}<end_function_call>`:
    /// FunctionGemma.
    FunctionGemma,
}

/// What opens calls, with what closes each.
pub(super) type Marker = (&'static str, Option<&'static str>);

impl ToolFormat {
    /// All formats.
    pub const ALL: [Self; 6] = [
        Self::Hermes,
        Self::Llama,
        Self::Mistral,
        Self::MistralNamed,
        Self::Fenced,
        Self::FunctionGemma,
    ];

    /// The format that a chat template writes.
    #[must_use]
    pub fn of_template(source: &str) -> Self {
        if source.contains("<start_function_call>") {
            Self::FunctionGemma
        } else if source.contains("<tool_call>") {
            Self::Hermes
        } else if source.contains("[TOOL_CALLS]") {
            if source.contains("[ARGS]") {
                Self::MistralNamed
            } else {
                Self::Mistral
            }
        } else if source.contains("<|python_tag|>") || source.contains("<|start_header_id|>") {
            Self::Llama
        } else {
            Self::Fenced
        }
    }

    pub(super) fn markers(self) -> &'static [Marker] {
        match self {
            Self::Hermes => &[("<tool_call>", Some("</tool_call>"))],
            Self::Llama => &[("<|python_tag|>", None)],
            Self::Mistral | Self::MistralNamed => &[("[TOOL_CALLS]", None)],
            Self::Fenced => &[
                ("```tool_code", Some("```")),
                ("```tool_call", Some("```")),
                ("```json", Some("```")),
            ],
            Self::FunctionGemma => &[("<start_function_call>", Some("<end_function_call>"))],
        }
    }

    /// Whether an answer may be a call without a marker.
    pub(super) fn is_bare(self) -> bool {
        matches!(self, Self::Llama | Self::Fenced)
    }

    /// Whether a control token's text is part of the format.
    pub(in crate::session) fn is_marker(self, text: &[u8]) -> bool {
        let inner: &[&str] = match self {
            Self::Mistral | Self::MistralNamed => &["[ARGS]", "[CALL_ID]"],
            Self::FunctionGemma => &["<escape>"],
            _ => &[],
        };
        let markers = self.markers().iter();
        let ends = markers.flat_map(|(open, close)| [Some(*open), *close]);
        let mut all = ends.flatten().chain(inner.iter().copied());
        all.any(|marker| marker.as_bytes() == text)
    }

    /// Whether a control token's text ends an answer that calls tools: FunctionGemma goes on
    /// with a result of its own invention.
    pub(in crate::session) fn is_end(self, text: &[u8]) -> bool {
        self == Self::FunctionGemma && text == b"<start_function_response>"
    }

    /// What reads calls that begin with `rest`, which has no whitespace before it; `Err(true)`
    /// while that is open, `Err(false)` where no call begins so.
    pub(super) fn reader(self, rest: &str, is_bare: bool) -> Result<Reader, bool> {
        let keywords = |form| Ok(Reader::Keywords(KeywordCalls::new(form)));
        let has_lists = !matches!(self, Self::Hermes | Self::Llama);
        match (rest.chars().next(), self) {
            (None, _) => Err(true),
            (Some('{'), _) => Ok(Reader::Json(Box::new(JsonCalls::new(has_lists)))),
            (Some('['), Self::Fenced | Self::Llama | Self::Mistral | Self::MistralNamed) => {
                match rest[1..].trim_start().chars().next() {
                    None => Err(true),
                    Some('{') if has_lists => Ok(Reader::Json(Box::new(JsonCalls::new(true)))),
                    Some(c) if is_of_name(c) && matches!(self, Self::Fenced | Self::Llama) => {
                        keywords(Form::List)
                    }
                    Some(_) => Err(false),
                }
            }
            (Some(c), _) if is_bare || !is_of_name(c) => Err(false),
            (Some(_), Self::Mistral | Self::MistralNamed) => Ok(Reader::Named(NamedCall::new())),
            (Some(_), Self::Llama) => keywords(Form::Single),
            (Some(_), Self::Fenced) => keywords(Form::Block),
            (Some(_), Self::FunctionGemma) => keywords(Form::Gemma),
            (Some(_), Self::Hermes) => Err(false),
        }
    }
}

fn is_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.')
}

/// Reads what follows an opening.
#[derive(Clone, Debug)]
pub(super) enum Reader {
    Json(Box<JsonCalls>),
    Named(NamedCall),
    Keywords(KeywordCalls),
}

impl Reader {
    pub(super) fn push(&mut self, c: char, names: &[String], out: &mut Vec<Event>) -> Status {
        match self {
            Self::Json(reader) => reader.push(c, names, out),
            Self::Named(reader) => reader.push(c, names, out),
            Self::Keywords(reader) => reader.push(c, names, out),
        }
    }

    /// Whether nothing is missing where the answer ends.
    pub(super) fn is_complete(&self) -> bool {
        match self {
            Self::Keywords(reader) => reader.is_complete(),
            _ => false,
        }
    }
}
