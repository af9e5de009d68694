//! The parts of a `tokenizer.json`, bounded.
//!
//! Lists grow with the bytes at hand; what would grow many times over when parsed freely (the
//! descriptions of the steps) is limited before it is.

use std::fmt;

use serde::de::{Error as _, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::tokenizer::error::TokenizerError;

/// Gemma 3's, of 262,144 tokens, has 33 MB.
pub(super) const MAX_BYTES: usize = 64 << 20;
/// Of the description of one step; real ones stay below 10 kB.
const MAX_STEP_BYTES: usize = 256 << 10;

/// A file, its steps not looked into.
#[derive(Deserialize)]
pub(super) struct File<'a> {
    #[serde(default)]
    pub(super) added_tokens: Vec<AddedToken>,
    #[serde(borrow, default)]
    pub(super) normalizer: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) pre_tokenizer: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) post_processor: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) decoder: Option<&'a RawValue>,
    #[serde(borrow)]
    model: &'a RawValue,
}

/// A token that is found in text before any splitting.
#[derive(Deserialize)]
pub(super) struct AddedToken {
    pub(super) id: u32,
    pub(super) content: String,
    #[serde(default)]
    pub(super) single_word: bool,
    #[serde(default)]
    pub(super) lstrip: bool,
    #[serde(default)]
    pub(super) rstrip: bool,
    #[serde(default)]
    pub(super) normalized: bool,
    #[serde(default)]
    pub(super) special: bool,
}

#[derive(Deserialize)]
struct Typed {
    #[serde(rename = "type")]
    kind: Option<String>,
}

/// A model of the type `BPE`.
#[derive(Deserialize)]
pub(super) struct BpeFile {
    pub(super) vocab: Entries,
    pub(super) merges: Vec<Merge>,
    #[serde(default)]
    pub(super) unk_token: Option<String>,
    #[serde(default)]
    pub(super) fuse_unk: bool,
    #[serde(default)]
    pub(super) byte_fallback: bool,
    #[serde(default)]
    pub(super) ignore_merges: bool,
    #[serde(default)]
    dropout: Option<f32>,
    #[serde(default)]
    continuing_subword_prefix: Option<String>,
    #[serde(default)]
    end_of_word_suffix: Option<String>,
}

/// Tokens with their ids, in the order of the file.
pub(super) struct Entries(pub(super) Vec<(String, u32)>);

/// Two tokens that become one: `"a b"`, or `["a", "b"]`.
pub(super) struct Merge(pub(super) String, pub(super) String);

pub(super) fn invalid(error: impl fmt::Display) -> TokenizerError {
    TokenizerError::InvalidJson {
        reason: error.to_string(),
    }
}

pub(super) fn unsupported(part: &'static str, found: impl Into<String>) -> TokenizerError {
    TokenizerError::UnsupportedJson {
        part,
        found: found.into(),
    }
}

impl<'a> File<'a> {
    pub(super) fn parse(json: &'a [u8]) -> Result<Self, TokenizerError> {
        if json.len() > MAX_BYTES {
            return Err(invalid(format_args!(
                "it has {} bytes, the limit is {MAX_BYTES}",
                json.len()
            )));
        }
        serde_json::from_slice(json).map_err(invalid)
    }

    /// The model, which has to be byte-level or byte-fallback BPE.
    pub(super) fn bpe(&self) -> Result<BpeFile, TokenizerError> {
        let typed: Typed = serde_json::from_str(self.model.get()).map_err(invalid)?;
        // Early files do not name the type.
        if let Some(kind) = typed.kind.filter(|kind| kind != "BPE") {
            return Err(unsupported("model", kind));
        }
        let bpe: BpeFile = serde_json::from_str(self.model.get()).map_err(invalid)?;
        let is_set = |text: &Option<String>| text.as_ref().is_some_and(|text| !text.is_empty());
        if bpe.dropout.is_some_and(|share| share != 0.0) {
            return Err(unsupported("model", "BPE with dropout"));
        }
        if is_set(&bpe.continuing_subword_prefix) || is_set(&bpe.end_of_word_suffix) {
            return Err(unsupported("model", "BPE with affixes of words"));
        }
        if bpe.ignore_merges && bpe.byte_fallback {
            // A text such as `<0x0A>` would become the token of a byte.
            let found = "BPE with both ignore_merges and byte_fallback";
            return Err(unsupported("model", found));
        }
        if bpe.ignore_merges && bpe.unk_token.is_some() {
            // Likewise the name of the unknown token.
            let found = "BPE with both ignore_merges and unk_token";
            return Err(unsupported("model", found));
        }
        Ok(bpe)
    }
}

/// The description of a step, parsed; `None` where the file has none.
pub(super) fn step(
    part: &'static str,
    raw: Option<&RawValue>,
) -> Result<Option<Value>, TokenizerError> {
    let Some(text) = raw.map(RawValue::get) else {
        return Ok(None);
    };
    if text.len() > MAX_STEP_BYTES {
        let bytes = text.len();
        return Err(unsupported(part, format!("a description of {bytes} bytes")));
    }
    let value: Value = serde_json::from_str(text).map_err(invalid)?;
    Ok(Some(value).filter(|value| !value.is_null()))
}

/// The `type` of a step.
pub(super) fn kind_of(value: &Value) -> &str {
    value
        .get("type")
        .and_then(Value::as_str)
        .unwrap_or("untyped")
}

impl<'de> Deserialize<'de> for Entries {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reads;
        impl<'de> Visitor<'de> for Reads {
            type Value = Entries;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of tokens with their ids")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry::<String, u32>()? {
                    entries.push(entry);
                }
                Ok(Entries(entries))
            }
        }
        deserializer.deserialize_map(Reads)
    }
}

impl<'de> Deserialize<'de> for Merge {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reads;
        impl<'de> Visitor<'de> for Reads {
            type Value = Merge;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("two tokens with one space between, or an array of two tokens")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Merge, E> {
                match text.split_once(' ') {
                    Some((left, right)) if !right.contains(' ') => {
                        Ok(Merge(left.to_owned(), right.to_owned()))
                    }
                    _ => Err(E::invalid_value(serde::de::Unexpected::Str(text), &self)),
                }
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<Merge, A::Error> {
                let two = (parts.next_element()?, parts.next_element()?);
                let more: Option<String> = parts.next_element()?;
                match (two, more) {
                    ((Some(left), Some(right)), None) => Ok(Merge(left, right)),
                    _ => Err(A::Error::custom("a merge is not of two tokens")),
                }
            }
        }
        deserializer.deserialize_any(Reads)
    }
}
