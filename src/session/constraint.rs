//! Answers held to a form: before each token, a grammar says which tokens may come next.
//!
//! The only place that knows llguidance. The trie of the vocabulary is built once per model,
//! at the first call that needs it; each answer has a matcher of its own, which follows the
//! tokens that were really chosen, so that an answer may be suspended and resumed.

use llguidance::api::TopLevelGrammar;
use llguidance::toktrie::{
    ApproximateTokEnv, INVALID_TOKEN, InferenceCapabilities, SimpleVob, TokEnv, TokRxInfo, TokTrie,
};
use llguidance::{Matcher, ParserFactory};
use serde_json::{Map, Value, json};
use std::sync::Arc;

use super::error::SessionError;
use super::response_format::ResponseFormat;
use crate::tokenizer::Tokenizer;

/// Subschemas that are tried one by one in search of a fault's place.
const MAX_TRIALS: usize = 200;

/// Whitespace between the parts of a JSON text: room for a line break and its indentation, but
/// an end to it, because small models fall into endless whitespace.
const JSON_WHITESPACE: &str = r"[\x20\x0A\x0D\x09]{1,24}";

/// What a vocabulary needs for any form.
pub(super) struct Constraints {
    factory: ParserFactory,
}

/// One answer's form and how far the answer has come.
pub(super) struct Constraint {
    matcher: Matcher,
    mask: SimpleVob,
}

impl std::fmt::Debug for Constraint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let reason = self.matcher.stop_reason();
        f.debug_struct("Constraint").field("stop", &reason).finish()
    }
}

impl Constraints {
    /// Builds the trie of a vocabulary.
    pub(super) fn new(tokenizer: &Tokenizer) -> Result<Self, SessionError> {
        let internal = |_| SessionError::Internal("the vocabulary makes no trie");
        let words = words(tokenizer);
        let vocab_size = u32::try_from(words.len())
            .map_err(|_| SessionError::Internal("a vocabulary of over 2^32 tokens"))?;
        let end_ids = tokenizer.end_ids();
        let first_end = end_ids.first().copied().unwrap_or(INVALID_TOKEN);
        let mut trie = TokTrie::from(&TokRxInfo::new(vocab_size, first_end), &words);
        if !end_ids.is_empty() {
            trie = trie.with_eos_tokens(end_ids);
        }
        let env: TokEnv = Arc::new(ApproximateTokEnv::new(trie));
        let slices = llguidance::earley::SlicedBiasComputer::general_slices();
        let mut factory = ParserFactory::new(&env, InferenceCapabilities::default(), &slices)
            .map_err(internal)?;
        factory.quiet();
        factory.limits_mut().verbose_errors = false;
        Ok(Self { factory })
    }

    /// Starts an answer of a form.
    ///
    /// # Errors
    /// [`SessionError::Grammar`] with the place of the fault.
    pub(super) fn start(&self, format: &ResponseFormat) -> Result<Constraint, SessionError> {
        let (grammar, key) = match format {
            ResponseFormat::JsonSchema(schema) => {
                let schema = with_whitespace(schema.clone());
                (TopLevelGrammar::from_json_schema(schema), "schema")
            }
            ResponseFormat::Regex(pattern) => (TopLevelGrammar::from_regex(pattern), "pattern"),
            ResponseFormat::Lark(grammar) => {
                (TopLevelGrammar::from_lark(grammar.clone()), "grammar")
            }
        };
        let matcher = self.compile(grammar).map_err(|why| {
            let (path, why) = match format {
                ResponseFormat::JsonSchema(schema) => self.locate(schema, why),
                _ => (String::new(), why),
            };
            SessionError::Grammar {
                place: format!("responseFormat.{key}{path}"),
                why,
            }
        })?;
        Ok(Constraint {
            matcher,
            mask: SimpleVob::new(),
        })
    }

    fn compile(&self, grammar: TopLevelGrammar) -> Result<Matcher, String> {
        let parser = self.factory.create_parser(grammar);
        let parser = parser.map_err(|error| first_words(&format!("{error:#}")))?;
        let mut matcher = Matcher::new(Ok(parser));
        match matcher.get_error() {
            Some(why) => Err(first_words(&why)),
            // A grammar too large for its limits shows at the first mask.
            None => matcher
                .compute_mask_or_eos()
                .map(|_| matcher)
                .map_err(|error| first_words(&format!("{error:#}"))),
        }
    }

    /// The path of the smallest subschema that fails by itself, and why it does.
    fn locate(&self, schema: &Value, why: String) -> (String, String) {
        let (mut path, mut why) = (String::new(), why);
        let mut at = schema;
        let mut trials = MAX_TRIALS;
        'deeper: loop {
            for (step, inner) in subschemas(at) {
                if trials == 0 {
                    break 'deeper;
                }
                trials -= 1;
                let grammar = TopLevelGrammar::from_json_schema(with_definitions(schema, inner));
                if let Err(fault) = self.compile(grammar) {
                    path.push_str(&step);
                    (why, at) = (fault, inner);
                    continue 'deeper;
                }
            }
            break;
        }
        (path, why)
    }
}

impl Constraint {
    /// Tokens that may come next, a bit each.
    ///
    /// # Errors
    /// [`SessionError::Grammar`] where the grammar has grown beyond its limits, or leads to a
    /// text that the vocabulary cannot spell.
    pub(super) fn mask(&mut self) -> Result<&[u32], SessionError> {
        self.mask = self.matcher.compute_mask_or_eos().map_err(at_work)?;
        Ok(self.mask.as_slice())
    }

    /// Takes the chosen token; true when the answer is complete and nothing may follow.
    ///
    /// # Errors
    /// [`SessionError::Grammar`] as for [`mask`](Self::mask).
    pub(super) fn accept(&mut self, id: u32) -> Result<bool, SessionError> {
        self.matcher.consume_token(id).map_err(at_work)?;
        Ok(self.matcher.is_stopped())
    }
}

/// The bytes of all tokens as the trie wants them.
fn words(tokenizer: &Tokenizer) -> Vec<Vec<u8>> {
    let marker = TokTrie::SPECIAL_TOKEN_MARKER;
    let ids = (0..tokenizer.vocab_size()).map(|id| u32::try_from(id).unwrap_or(u32::MAX));
    ids.map(|id| {
        let bytes = tokenizer.token_bytes(id).unwrap_or_default();
        if tokenizer.is_control(id) || tokenizer.end_ids().contains(&id) {
            // Never text, whatever it is called.
            [&[marker], bytes].concat()
        } else if bytes.starts_with(&[marker]) {
            // No UTF-8 text has this byte; as it stands the trie would take it for a marker.
            Vec::new()
        } else {
            bytes.to_vec()
        }
    })
    .collect()
}

/// Subschemas of a schema with the step that leads to each; definitions come first, because
/// what refers to a faulty one fails too.
fn subschemas(schema: &Value) -> Vec<(String, &Value)> {
    let mut found = Vec::new();
    for key in ["$defs", "definitions", "properties", "patternProperties"] {
        if let Some(entries) = schema.get(key).and_then(Value::as_object) {
            found.extend(entries.iter().map(|(name, s)| (step(key, Some(name)), s)));
        }
    }
    for key in ["prefixItems", "anyOf", "allOf", "oneOf"] {
        if let Some(entries) = schema.get(key).and_then(Value::as_array) {
            let entries = entries.iter().enumerate();
            found.extend(entries.map(|(at, s)| (step(key, Some(&at.to_string())), s)));
        }
    }
    for key in ["items", "additionalProperties"] {
        found.extend(schema.get(key).map(|inner| (step(key, None), inner)));
    }
    found
}

/// A step of a path as JavaScript writes it, after the keyword that contains it.
fn step(key: &str, name: Option<&str>) -> String {
    let plain = |name: &str| {
        !name.starts_with(|c: char| c.is_ascii_digit())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    match name {
        None => format!(".{key}"),
        Some(name) if plain(name) && !name.is_empty() => format!(".{key}.{name}"),
        Some(name) if name.parse::<usize>().is_ok() => format!(".{key}[{name}]"),
        Some(name) => format!(".{key}[{name:?}]"),
    }
}

/// A subschema that can still refer to the definitions of the whole.
fn with_definitions(whole: &Value, inner: &Value) -> Value {
    let Value::Object(inner) = inner else {
        return inner.clone();
    };
    let mut schema = Map::new();
    for key in ["$schema", "$defs", "definitions"] {
        if let Some(value) = whole.get(key) {
            schema.insert(key.to_owned(), value.clone());
        }
    }
    schema.extend(
        inner
            .iter()
            .map(|(key, value)| (key.clone(), value.clone())),
    );
    Value::Object(schema)
}

/// A schema that bounds whitespace, unless it has options of its own for llguidance.
pub(super) fn with_whitespace(mut schema: Value) -> Value {
    if let Value::Object(entries) = &mut schema {
        entries
            .entry("x-guidance")
            .or_insert_with(|| json!({ "whitespace_pattern": JSON_WHITESPACE }));
    }
    schema
}

fn at_work(error: impl std::fmt::Display) -> SessionError {
    SessionError::Grammar {
        place: "responseFormat".to_owned(),
        why: first_words(&error.to_string()),
    }
}

/// What llguidance says, without what it appends for its own developers.
fn first_words(message: &str) -> String {
    let end = message.find("\n<").unwrap_or(message.len());
    message[..end].trim().to_owned()
}
