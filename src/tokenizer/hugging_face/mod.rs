//! A tokenizer from a `tokenizer.json` of Hugging Face's `tokenizers`.
//!
//! ```text
//! added tokens, as written ─► normalizer ─► added tokens, normalized ─► pre-tokenizer ─► BPE
//! ```
//!
//! The steps run as that library runs them, with two differences: an added token marked special
//! is found only where the caller allows it and as it is written, and BPE never makes one. Models
//! other than BPE and steps that no model for text uses are refused by name.

mod ends;
mod file;
mod steps;
mod tokens;

use std::collections::BTreeMap;
use std::ops::Range;

use tokenizers::Model;
use tokenizers::models::bpe::BPE;

use super::error::TokenizerError;
use super::listed::Listed;
use super::special::{Kind, SpecialTokens};
use super::vocabulary::Vocabulary;
use ends::{Around, Reading};
use file::{AddedToken, File, step, unsupported};
use steps::{Cuts, Normalization};
use tokens::List;

/// The steps of a file.
pub(super) struct HuggingFace {
    /// Added tokens that are found in text as it is.
    raw: SpecialTokens,
    /// Added tokens that are found in normalized text; no control token is among them.
    normalized: SpecialTokens,
    /// Those that take the blanks before and after them as well.
    strips: BTreeMap<u32, (bool, bool)>,
    normalization: Normalization,
    cuts: Cuts,
    bpe: BPE,
    strips_space: bool,
    heap_bytes: usize,
}

/// What a file gives.
pub(super) struct Read {
    pub(super) model: HuggingFace,
    pub(super) listed: Listed,
    /// Tokens before and after a prompt.
    pub(super) before: Vec<u32>,
    pub(super) after: Vec<u32>,
}

/// Reads a file for a model with `rows` embeddings; `named` has the ids that the model names.
pub(super) fn read(json: &[u8], rows: usize, named: &Vocabulary) -> Result<Read, TokenizerError> {
    let file = File::parse(json)?;
    let mut bpe = file.bpe()?;
    let merges = std::mem::take(&mut bpe.merges);
    let normalization = step("normalizer", file.normalizer)?;
    let normalization = Normalization::read(normalization.as_ref())?;
    let cuts = step("pre_tokenizer", file.pre_tokenizer)?;
    let cuts = Cuts::read(cuts.as_ref())?;
    let decoder = step("decoder", file.decoder)?;
    let reading = Reading::read(decoder.as_ref(), cuts.byte_level)?;
    let around = step("post_processor", file.post_processor)?;
    let around = Around::read(around.as_ref())?;
    if reading.byte_fallback != bpe.byte_fallback {
        return Err(unsupported(
            "decoder",
            "one that reads bytes otherwise than the model",
        ));
    }
    let list = List::new(&bpe, &file.added_tokens, rows)?;
    let listed = list.read(&reading, named)?;
    for id in around.before.iter().chain(&around.after) {
        list.check_id("post_processor", *id)?;
    }
    let added = list.added(&file.added_tokens);
    let (raw, normalized) = searched(added.clone(), &normalization, &listed.kinds)?;
    let strips = added
        .filter(|token| token.lstrip || token.rstrip)
        .map(|token| (token.id, (token.lstrip, token.rstrip)))
        .collect();
    let (bpe, bpe_bytes) = list.model(&bpe, merges, &listed.kinds)?;
    Ok(Read {
        model: HuggingFace {
            heap_bytes: bpe_bytes + raw.heap_bytes() + normalized.heap_bytes(),
            raw,
            normalized,
            strips,
            normalization,
            cuts,
            bpe,
            strips_space: reading.strips_space,
        },
        listed,
        before: around.before,
        after: around.after,
    })
}

/// The added tokens as they are looked for: in text as it is, and in normalized text.
fn searched<'a>(
    added: impl Iterator<Item = &'a AddedToken>,
    normalization: &Normalization,
    kinds: &[Kind],
) -> Result<(SpecialTokens, SpecialTokens), TokenizerError> {
    let (mut raw, mut normalized) = (Vec::new(), Vec::new());
    for token in added {
        // What a token is to the model must not depend on how its name is changed.
        if token.normalized && kinds.get(token.id as usize) != Some(&Kind::Control) {
            let text = normalization.apply(&token.content).map_err(failed)?;
            normalized.push((text.into_bytes().into(), token.id));
        } else {
            raw.push((token.content.as_bytes().into(), token.id));
        }
    }
    Ok((SpecialTokens::new(raw)?, SpecialTokens::new(normalized)?))
}

/// An error that a step of `tokenizers` passed on.
fn failed(error: tokenizers::Error) -> TokenizerError {
    TokenizerError::Bpe {
        reason: error.to_string(),
    }
}

impl HuggingFace {
    /// Whether the first space of a text is left out when tokens are read.
    pub(super) fn strips_space(&self) -> bool {
        self.strips_space
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.heap_bytes
    }

    /// The ids of `text`; special tokens are found inside the `allowed` ranges, which ascend.
    pub(super) fn encode(
        &self,
        text: &str,
        allowed: &[Range<usize>],
        kinds: &[Kind],
    ) -> Result<Vec<u32>, TokenizerError> {
        let mut ids = Vec::new();
        self.encode_into(text, allowed, kinds, &mut ids)
            .map_err(|error| TokenizerError::StepFailed {
                reason: error.to_string(),
            })?;
        Ok(ids)
    }

    fn encode_into(
        &self,
        text: &str,
        allowed: &[Range<usize>],
        kinds: &[Kind],
        ids: &mut Vec<u32>,
    ) -> tokenizers::Result<()> {
        let accepts = |id: u32, at: Range<usize>| {
            let kind = usize::try_from(id).ok().and_then(|id| kinds.get(id));
            let region = allowed.partition_point(|region| region.end <= at.start);
            let region = allowed.get(region);
            kind != Some(&Kind::Control)
                || region.is_some_and(|region| region.start <= at.start && at.end <= region.end)
        };
        for part in self.parts(text, &self.raw, accepts) {
            let range = match part {
                Part::Token(id) => {
                    ids.push(id);
                    continue;
                }
                Part::Text(range) => range,
            };
            let starts = range.start == 0;
            let text = self.normalization.apply(&text[range])?;
            for part in self.parts(&text, &self.normalized, |_, _| true) {
                match part {
                    Part::Token(id) => ids.push(id),
                    Part::Text(range) => {
                        let starts = starts && range.start == 0;
                        for piece in self.cuts.apply(text[range].to_owned(), starts)? {
                            let tokens = self.bpe.tokenize(&piece)?;
                            ids.extend(tokens.into_iter().map(|token| token.id));
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Cuts `text` at the tokens in it.
    fn parts(
        &self,
        text: &str,
        tokens: &SpecialTokens,
        accepts: impl Fn(u32, Range<usize>) -> bool,
    ) -> Vec<Part> {
        let mut parts = Vec::new();
        let (mut plain, mut at) = (0, 0);
        while at < text.len() {
            let found = tokens.longest(&text.as_bytes()[at..], |id, length| {
                accepts(id, at..at + length)
            });
            let Some((id, length)) = found else {
                at += 1;
                continue;
            };
            let (before, after) = self.strips.get(&id).copied().unwrap_or_default();
            let (mut start, mut end) = (at, at + length);
            if before {
                start = plain + text[plain..start].trim_end().len();
            }
            if after {
                end = text.len() - text[end..].trim_start().len();
            }
            if plain < start {
                parts.push(Part::Text(plain..start));
            }
            parts.push(Part::Token(id));
            (plain, at) = (end, end);
        }
        if plain < text.len() {
            parts.push(Part::Text(plain..text.len()));
        }
        parts
    }
}

/// A part of a text.
enum Part {
    Text(Range<usize>),
    Token(u32),
}
