//! The steps before the model: normalizers change text, pre-tokenizers cut it.
//!
//! `tokenizers` does what takes tables. It is given each piece anew, since its own bookkeeping of
//! places in the original text fails on some sequences of steps. Ours are the matching by regular
//! expressions, so that one that gives up is an error and not an end of the text, and the bounds.

use fancy_regex::Regex;
use serde_json::Value;
use tokenizers::pattern::{Invert, Pattern};
use tokenizers::pre_tokenizers::metaspace::{Metaspace, PrependScheme};
use tokenizers::{
    NormalizedString, Normalizer, NormalizerWrapper, OffsetReferential, OffsetType, Offsets,
    PreTokenizedString, PreTokenizer, PreTokenizerWrapper, SplitDelimiterBehavior,
};

use super::file::{invalid, kind_of, unsupported};
use crate::tokenizer::byte_alphabet;
use crate::tokenizer::error::TokenizerError;
use crate::tokenizer::split_rules::GPT2;

/// Real files have up to six.
const MAX_STEPS: usize = 32;
const MAX_PATTERN_BYTES: usize = 8192;
/// Of a text that is put in; real ones are one character.
const MAX_INSERTED_BYTES: usize = 64;
/// NFKC and NFKD make at most 11 bytes of one, a replacement up to its own length.
const MAX_GROWTH: usize = 64;

/// What is looked for in a text.
enum Match {
    Text(String),
    Regex(Box<Regex>),
}

impl Match {
    fn read(part: &'static str, value: &Value) -> Result<Self, TokenizerError> {
        let pattern = value.get("pattern").unwrap_or(&Value::Null);
        let text = |key: &str| pattern.get(key).and_then(Value::as_str);
        let found = match (text("String"), text("Regex")) {
            (Some(text), None) if !text.is_empty() => Self::Text(text.to_owned()),
            (None, Some(regex)) if regex.len() <= MAX_PATTERN_BYTES => {
                let regex = Regex::new(regex).map_err(|error| {
                    unsupported(part, format!("{regex:?} as a regular expression ({error})"))
                })?;
                Self::Regex(Box::new(regex))
            }
            _ => {
                let expected = "{\"String\": …} or {\"Regex\": …} of a pattern";
                return Err(invalid(format_args!("its {part} lacks {expected}")));
            }
        };
        Ok(found)
    }
}

impl Pattern for &Match {
    fn find_matches(&self, inside: &str) -> tokenizers::Result<Vec<(Offsets, bool)>> {
        match self {
            Match::Text(text) => text.as_str().find_matches(inside),
            Match::Regex(regex) => (&**regex).find_matches(inside),
        }
    }
}

/// Changes to a text.
pub(super) struct Normalization(Vec<Change>);

enum Change {
    Simple(NormalizerWrapper),
    Replace { what: Match, with: String },
    Prepend(String),
    Strip { left: bool, right: bool },
}

impl Normalization {
    pub(super) fn read(value: Option<&Value>) -> Result<Self, TokenizerError> {
        let mut changes = Vec::new();
        for value in flattened("normalizer", "normalizers", value)? {
            changes.push(Change::read(value)?);
        }
        Ok(Self(changes))
    }

    pub(super) fn apply(&self, text: &str) -> tokenizers::Result<String> {
        let limit = text.len().saturating_mul(MAX_GROWTH).saturating_add(1024);
        let mut text = text.to_owned();
        for change in &self.0 {
            text = change.apply(text)?;
            if text.len() > limit {
                return Err("the normalizer makes the text too long".into());
            }
        }
        Ok(text)
    }
}

impl Change {
    fn read(value: &Value) -> Result<Self, TokenizerError> {
        const PART: &str = "normalizer";
        let inserted = |key: &str| match value.get(key).and_then(Value::as_str) {
            Some(text) if text.len() <= MAX_INSERTED_BYTES => Ok(text.to_owned()),
            _ => Err(unsupported(PART, "a step without a short text to put in")),
        };
        Ok(match kind_of(value) {
            "NFC" | "NFD" | "NFKC" | "NFKD" | "Lowercase" | "StripAccents" => {
                Self::Simple(serde_json::from_value(value.clone()).map_err(invalid)?)
            }
            "Prepend" => Self::Prepend(inserted("prepend")?),
            "Replace" => Self::Replace {
                what: Match::read(PART, value)?,
                with: inserted("content")?,
            },
            "Strip" => Self::Strip {
                left: flag(value, "strip_left", true)?,
                right: flag(value, "strip_right", true)?,
            },
            other => return Err(unsupported(PART, other)),
        })
    }

    fn apply(&self, text: String) -> tokenizers::Result<String> {
        Ok(match self {
            Self::Simple(normalizer) => {
                let mut changed = NormalizedString::from(text);
                normalizer.normalize(&mut changed)?;
                changed.get().to_owned()
            }
            Self::Replace { what, with } => {
                let mut changed = String::with_capacity(text.len());
                for ((start, end), is_match) in what.find_matches(&text)? {
                    changed.push_str(if is_match { with } else { &text[start..end] });
                }
                changed
            }
            Self::Prepend(prefix) if !text.is_empty() => format!("{prefix}{text}"),
            Self::Prepend(_) => text,
            Self::Strip { left, right } => {
                let kept = if *left { text.trim_start() } else { &*text };
                let kept = if *right { kept.trim_end() } else { kept };
                kept.to_owned()
            }
        })
    }
}

/// Cuts of a text.
pub(super) struct Cuts {
    steps: Vec<Cut>,
    /// Whether text is spelled with a letter for each byte.
    pub(super) byte_level: bool,
}

enum Cut {
    Split {
        what: Match,
        behavior: SplitDelimiterBehavior,
        inverted: bool,
    },
    Simple(PreTokenizerWrapper),
    Metaspace(Metaspace),
    /// A space before each piece that does not start with one.
    Space,
    /// A letter for each byte.
    Spell,
}

impl Cuts {
    pub(super) fn read(value: Option<&Value>) -> Result<Self, TokenizerError> {
        let mut cuts = Self {
            steps: Vec::new(),
            byte_level: false,
        };
        for value in flattened("pre_tokenizer", "pretokenizers", value)? {
            cuts.add(value)?;
        }
        Ok(cuts)
    }

    fn add(&mut self, value: &Value) -> Result<(), TokenizerError> {
        const PART: &str = "pre_tokenizer";
        match kind_of(value) {
            "Split" => {
                let behavior = value.get("behavior").cloned().unwrap_or_default();
                self.steps.push(Cut::Split {
                    what: Match::read(PART, value)?,
                    behavior: serde_json::from_value(behavior).map_err(invalid)?,
                    inverted: flag(value, "invert", false)?,
                });
            }
            "ByteLevel" => {
                self.byte_level = true;
                if flag(value, "add_prefix_space", true)? {
                    self.steps.push(Cut::Space);
                }
                if flag(value, "use_regex", true)? {
                    let [(rule, _)] = GPT2;
                    let regex = Regex::new(rule).map_err(invalid)?;
                    self.steps.push(Cut::Split {
                        what: Match::Regex(Box::new(regex)),
                        behavior: SplitDelimiterBehavior::Isolated,
                        inverted: false,
                    });
                }
                self.steps.push(Cut::Spell);
            }
            "Metaspace" => {
                let step = serde_json::from_value(value.clone()).map_err(invalid)?;
                self.steps.push(Cut::Metaspace(step));
            }
            "Digits" | "Punctuation" | "Whitespace" | "WhitespaceSplit" => {
                let step = serde_json::from_value(value.clone()).map_err(invalid)?;
                self.steps.push(Cut::Simple(step));
            }
            other => return Err(unsupported(PART, other)),
        }
        Ok(())
    }

    /// The pieces of `text`, which `starts` the whole or follows a token.
    pub(super) fn apply(&self, text: String, starts: bool) -> tokenizers::Result<Vec<String>> {
        let mut pieces = vec![text];
        for step in &self.steps {
            let mut finer = Vec::with_capacity(pieces.len());
            for (index, piece) in pieces.into_iter().enumerate() {
                step.apply(piece, starts && index == 0, &mut finer)?;
            }
            finer.retain(|piece| !piece.is_empty());
            pieces = finer;
        }
        Ok(pieces)
    }
}

impl Cut {
    fn apply(&self, piece: String, starts: bool, out: &mut Vec<String>) -> tokenizers::Result<()> {
        let own = |pieces: Vec<NormalizedString>| pieces.into_iter().map(|p| p.get().to_owned());
        match self {
            Self::Split {
                what,
                behavior,
                inverted,
            } => {
                let piece = NormalizedString::from(piece);
                out.extend(own(if *inverted {
                    piece.split(Invert(what), *behavior)?
                } else {
                    piece.split(what, *behavior)?
                }));
            }
            Self::Simple(step) => {
                let mut piece = PreTokenizedString::from(piece);
                step.pre_tokenize(&mut piece)?;
                let pieces = piece.get_splits(OffsetReferential::Normalized, OffsetType::None);
                out.extend(pieces.into_iter().map(|(piece, _, _)| piece.to_owned()));
            }
            Self::Metaspace(step) => {
                let mark = step.get_replacement();
                let mut piece = piece.replace(' ', mark.encode_utf8(&mut [0; 4]));
                let prefixes = match step.prepend_scheme {
                    PrependScheme::Always => true,
                    PrependScheme::First => starts,
                    PrependScheme::Never => false,
                };
                if prefixes && !piece.starts_with(mark) {
                    piece.insert(0, mark);
                }
                if step.split {
                    let piece = NormalizedString::from(piece);
                    out.extend(own(
                        piece.split(mark, SplitDelimiterBehavior::MergedWithNext)?
                    ));
                } else {
                    out.push(piece);
                }
            }
            Self::Space if !piece.starts_with(' ') => out.push(format!(" {piece}")),
            Self::Space => out.push(piece),
            Self::Spell => {
                let mut letters = String::with_capacity(piece.len());
                byte_alphabet::spell(&piece, &mut letters);
                out.push(letters);
            }
        }
        Ok(())
    }
}

fn flag(value: &Value, key: &str, default: bool) -> Result<bool, TokenizerError> {
    match value.get(key) {
        None => Ok(default),
        Some(Value::Bool(flag)) => Ok(*flag),
        Some(_) => Err(invalid(format_args!("{key:?} is neither true nor false"))),
    }
}

/// A step, or those of sequences, in order.
pub(super) fn flattened<'a>(
    part: &'static str,
    list: &str,
    value: Option<&'a Value>,
) -> Result<Vec<&'a Value>, TokenizerError> {
    let mut steps = Vec::new();
    let mut open: Vec<&Value> = value.into_iter().collect();
    while let Some(value) = open.pop() {
        if kind_of(value) != "Sequence" {
            steps.push(value);
            if steps.len() > MAX_STEPS {
                return Err(unsupported(part, format!("over {MAX_STEPS} steps")));
            }
            continue;
        }
        match value.get(list).and_then(Value::as_array) {
            Some(parts) => open.extend(parts.iter().rev()),
            None => return Err(invalid(format_args!("its {part} lacks {list:?}"))),
        }
    }
    Ok(steps)
}
