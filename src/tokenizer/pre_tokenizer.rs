//! Cuts text into the pieces inside which BPE may merge.

use std::ops::Range;

use tokenizers::normalizers::NFC;
use tokenizers::tokenizer::pattern::Pattern;
use tokenizers::utils::SysRegex;
use tokenizers::{NormalizedString, Normalizer};

use super::error::TokenizerError;
use super::split_rules::{self, Covers, Rule};

/// The values of `tokenizer.ggml.pre` whose rules are built in.
pub const SUPPORTED_PRE_TOKENIZERS: [&str; 17] = [
    "smollm",
    "starcoder",
    "command-r",
    "gpt-2",
    "phi-2",
    "qwen2",
    "deepseek-r1-qwen",
    "deepseek-llm",
    "deepseek-v3",
    "llama-bpe",
    "llama-v3",
    "llama3",
    "llama4",
    "gpt-4o",
    "tekken",
    "falcon",
    "default",
];

/// One cut; each stage cuts the pieces of the one before it.
struct Stage {
    regex: SysRegex,
    /// Where it covers all, a gap means that the regex engine gave up.
    covers: Covers,
}

/// The rules that one value of `tokenizer.ggml.pre` stands for.
pub(super) struct PreTokenizer {
    stages: Vec<Stage>,
    normalizes: bool,
    /// A piece that is a token as a whole is taken without merging.
    pub(super) ignores_merges: bool,
    /// Whether prompts start with BOS when the file does not say.
    pub(super) adds_bos: bool,
}

impl PreTokenizer {
    /// The rules called `pre`; an empty name means `default`.
    pub(super) fn new(pre: &str) -> Result<Self, TokenizerError> {
        let rules = rules(pre).ok_or_else(|| TokenizerError::UnsupportedPre {
            found: pre.to_owned(),
        })?;
        let stages = rules
            .iter()
            .map(|&(rule, covers)| match SysRegex::new(rule) {
                Ok(regex) => Ok(Stage { regex, covers }),
                Err(error) => Err(TokenizerError::Bpe {
                    reason: error.to_string(),
                }),
            })
            .collect::<Result<_, _>>()?;
        let takes_whole = matches!(pre, "llama-bpe" | "llama-v3" | "llama3" | "tekken");
        Ok(Self {
            stages,
            normalizes: matches!(pre, "qwen2" | "command-r"),
            ignores_merges: takes_whole,
            adds_bos: takes_whole,
        })
    }

    /// The composed form of `text` (NFC) where the rules ask for it and it differs.
    pub(super) fn normalize(&self, text: &str) -> Result<Option<String>, TokenizerError> {
        if !self.normalizes || text.is_ascii() {
            return Ok(None);
        }
        let mut normalized = NormalizedString::from(text);
        NFC.normalize(&mut normalized)
            .map_err(|error| TokenizerError::Bpe {
                reason: error.to_string(),
            })?;
        Ok(Some(normalized.get().to_owned()))
    }

    /// The pieces of `text` in order, without gaps.
    pub(super) fn split(&self, text: &str) -> Result<Vec<Range<usize>>, TokenizerError> {
        let whole = 0..text.len();
        let mut pieces = vec![whole];
        for stage in &self.stages {
            let mut finer = Vec::with_capacity(pieces.len());
            for piece in pieces {
                let matches =
                    (&stage.regex)
                        .find_matches(&text[piece.clone()])
                        .map_err(|error| TokenizerError::Bpe {
                            reason: error.to_string(),
                        })?;
                for ((start, end), is_match) in matches {
                    if start == end {
                        continue;
                    }
                    let gap = text.get(piece.start + start..piece.start + end);
                    if !is_match && gap.is_some_and(|gap| stage.covers.forbids(gap)) {
                        return Err(TokenizerError::TextTooComplex {
                            offset: piece.start + start,
                        });
                    }
                    finer.push(piece.start + start..piece.start + end);
                }
            }
            pieces = finer;
        }
        Ok(pieces)
    }
}

/// The cuts that llama.cpp makes for `pre`, in order.
fn rules(pre: &str) -> Option<&'static [Rule]> {
    Some(match pre {
        "smollm" | "starcoder" | "command-r" => &split_rules::DIGITS_THEN_GPT2,
        "gpt-2" | "phi-2" => &split_rules::GPT2,
        "qwen2" | "deepseek-r1-qwen" => &split_rules::QWEN2,
        "deepseek-llm" => &split_rules::DEEPSEEK_LLM,
        "deepseek-v3" => &split_rules::DEEPSEEK_V3,
        "llama-bpe" | "llama-v3" | "llama3" => &split_rules::LLAMA3,
        "llama4" | "gpt-4o" => &split_rules::GPT4O,
        "tekken" => &split_rules::TEKKEN,
        "falcon" => &split_rules::FALCON,
        "default" | "" => &split_rules::DEFAULT,
        _ => return None,
    })
}
