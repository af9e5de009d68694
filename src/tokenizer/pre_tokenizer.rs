//! Cuts text into the pieces inside which BPE may merge.

use std::ops::Range;

use tokenizers::normalizers::NFC;
use tokenizers::tokenizer::pattern::Pattern;
use tokenizers::utils::SysRegex;
use tokenizers::{NormalizedString, Normalizer};

use super::error::TokenizerError;

/// The values of `tokenizer.ggml.pre` whose rules are built in.
pub const SUPPORTED_PRE_TOKENIZERS: [&str; 10] = [
    "smollm",
    "starcoder",
    "gpt-2",
    "phi-2",
    "qwen2",
    "deepseek-r1-qwen",
    "llama-bpe",
    "llama-v3",
    "llama3",
    "default",
];

/// GPT-2's rule: contractions, words, numbers and signs with their leading space, blanks.
const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
/// Each digit alone.
const DIGIT: &str = r"\p{N}";
/// Llama 3's rule: numbers in groups of up to three digits, line ends apart.
const LLAMA3: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}",
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
);
/// Qwen2's rule: Llama 3's with single digits.
const QWEN2: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}",
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
);

/// One cut; each stage cuts the pieces of the one before it.
struct Stage {
    regex: SysRegex,
    /// The rule matches every text, so a gap means that the regex engine gave up.
    is_total: bool,
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
        let stages: &[(&str, bool)] = match pre {
            "smollm" | "starcoder" => &[(DIGIT, false), (GPT2, true)],
            "gpt-2" | "phi-2" => &[(GPT2, true)],
            "qwen2" | "deepseek-r1-qwen" => &[(QWEN2, true)],
            "llama-bpe" | "llama-v3" | "llama3" => &[(LLAMA3, true)],
            "default" | "" => &[
                (r"[\p{P}\$\+<=>\^~\|]+", false),
                (GPT2, true),
                (r"\p{N}+", false),
                (r"[0-9][0-9][0-9]", false),
            ],
            other => {
                return Err(TokenizerError::UnsupportedPre {
                    found: other.to_owned(),
                });
            }
        };
        let stages = stages
            .iter()
            .map(|&(rule, is_total)| match SysRegex::new(rule) {
                Ok(regex) => Ok(Stage { regex, is_total }),
                Err(error) => Err(TokenizerError::Bpe {
                    reason: error.to_string(),
                }),
            })
            .collect::<Result<_, _>>()?;
        let is_llama3 = matches!(pre, "llama-bpe" | "llama-v3" | "llama3");
        Ok(Self {
            stages,
            normalizes: pre == "qwen2",
            ignores_merges: is_llama3,
            adds_bos: is_llama3,
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
                    if stage.is_total && !is_match {
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
