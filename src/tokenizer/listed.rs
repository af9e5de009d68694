//! The list of tokens in a file: the kind of each and the bytes that it stands for.

use super::byte_alphabet;
use super::error::TokenizerError;
use super::special::{Kind, SpecialTokens, TokenBytes};
use super::vocabulary::{Strings, Vocabulary};

const TOKENS: &str = "tokenizer.ggml.tokens";

/// Tokens that end a reply wherever they occur in a vocabulary: files made before the metadata
/// had a field for them mark only one, or forget that they are control tokens.
const END_TEXTS: [&str; 9] = [
    "<|im_end|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|end|>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<end_of_turn>",
    "<EOT>",
    "<｜end▁of▁sentence｜>",
];

/// How a vocabulary writes text that is not a control token.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Spelling {
    /// A letter for each byte.
    ByteAlphabet,
    /// As it is, with U+2581 for a space.
    SentencePiece,
}

/// What became of the list.
pub(super) struct Listed {
    pub(super) kinds: Vec<Kind>,
    pub(super) bytes: TokenBytes,
    /// Control and user-defined tokens.
    pub(super) specials: SpecialTokens,
    /// Tokens that end a reply, ascending.
    pub(super) end_ids: Vec<u32>,
}

impl Listed {
    /// Reads the list, with the ids that the file names.
    pub(super) fn read(
        vocabulary: &Vocabulary,
        tokens: &dyn Strings,
        spelling: Spelling,
    ) -> Result<Self, TokenizerError> {
        let kinds = kinds(vocabulary, tokens)?;
        let mut bytes = TokenBytes::with_capacity(kinds.len());
        let mut specials: Vec<(Box<[u8]>, u32)> = Vec::new();
        for ((index, kind), id) in kinds.iter().enumerate().zip(0_u32..) {
            let text = text_at(tokens, index, TOKENS)?;
            bytes.push(|out| write(text, *kind, spelling, out));
            if matches!(kind, Kind::Control | Kind::UserDefined) {
                specials.push((bytes.get(id).unwrap_or_default().into(), id));
            }
        }
        bytes.shrink();
        let specials = SpecialTokens::new(specials)?;
        let end_ids = end_ids(vocabulary, &specials);
        Ok(Self {
            kinds,
            bytes,
            specials,
            end_ids,
        })
    }
}

/// Appends the bytes that a token stands for.
fn write(text: &str, kind: Kind, spelling: Spelling, out: &mut Vec<u8>) {
    match (kind, spelling) {
        (Kind::Normal, Spelling::ByteAlphabet) if byte_alphabet::unspell(text, out) => {}
        (Kind::Normal | Kind::UserDefined, Spelling::SentencePiece) => {
            out.extend_from_slice(text.replace('\u{2581}', " ").as_bytes());
        }
        (Kind::Byte, _) => match byte_token(text) {
            Some(byte) => out.push(byte),
            None => out.extend_from_slice(text.as_bytes()),
        },
        _ => out.extend_from_slice(text.as_bytes()),
    }
}

/// The byte that a byte token such as `<0x0A>` stands for.
pub(super) fn byte_token(text: &str) -> Option<u8> {
    let digits = text.strip_prefix("<0x")?.strip_suffix('>')?;
    u8::from_str_radix(digits, 16).ok()
}

pub(super) fn text_at<'a>(
    strings: &'a dyn Strings,
    index: usize,
    field: &'static str,
) -> Result<&'a str, TokenizerError> {
    strings
        .get(index)
        .and_then(|bytes| std::str::from_utf8(bytes).ok())
        .ok_or(TokenizerError::InvalidUtf8 { field, index })
}

/// The text of a token, which [`Listed::read`] has found valid.
pub(super) fn token_text(tokens: &dyn Strings, index: usize) -> Result<&str, TokenizerError> {
    text_at(tokens, index, TOKENS)
}

pub(super) fn end_ids(vocabulary: &Vocabulary, specials: &SpecialTokens) -> Vec<u32> {
    let mut ids: Vec<u32> = [vocabulary.eos, vocabulary.eot, vocabulary.eom]
        .into_iter()
        .flatten()
        .collect();
    ids.extend(
        specials
            .iter()
            .filter(|(bytes, _)| is_end(bytes))
            .map(|(_, id)| id),
    );
    ids.sort_unstable();
    ids.dedup();
    ids
}

pub(super) fn is_end(bytes: &[u8]) -> bool {
    END_TEXTS.iter().any(|text| text.as_bytes() == bytes)
}

/// The kind of each token; checks sizes and the ids that the file names.
fn kinds(vocabulary: &Vocabulary, tokens: &dyn Strings) -> Result<Vec<Kind>, TokenizerError> {
    let count = tokens.len();
    let limit = usize::try_from(i32::MAX).unwrap_or(usize::MAX);
    if count == 0 {
        return Err(TokenizerError::EmptyVocabulary);
    }
    if count > limit {
        return Err(TokenizerError::TooManyTokens { count, limit });
    }
    let types = &vocabulary.token_types;
    if !types.is_empty() && types.len() != count {
        return Err(TokenizerError::TokenTypeCount {
            tokens: count,
            types: types.len(),
        });
    }
    let mut kinds = vec![Kind::Normal; count];
    for ((kind, value), id) in kinds.iter_mut().zip(types).zip(0..) {
        *kind = Kind::from_gguf(id, *value)?;
    }
    for (field, id) in vocabulary.named_ids() {
        let Some(id) = id else { continue };
        let kind = usize::try_from(id)
            .ok()
            .and_then(|index| kinds.get_mut(index));
        let kind = kind.ok_or(TokenizerError::IdOutOfRange {
            field,
            id,
            vocab_size: count,
        })?;
        if types.is_empty() {
            *kind = Kind::Control;
        }
    }
    for (index, kind) in kinds.iter_mut().enumerate() {
        if is_end(tokens.get(index).unwrap_or_default()) {
            *kind = Kind::Control;
        }
    }
    Ok(kinds)
}
