//! The tokens of a `tokenizer.json`: which are listed, what they are, and what BPE may make.

use std::collections::{HashMap, HashSet};

use tokenizers::models::bpe::{BPE, Vocab};

use super::ends::Reading;
use super::failed;
use super::file::{AddedToken, BpeFile, Merge, invalid, unsupported};
use crate::tokenizer::bpe::heap_bytes;
use crate::tokenizer::byte_alphabet;
use crate::tokenizer::error::TokenizerError;
use crate::tokenizer::listed::{Listed, byte_token, end_ids, is_end};
use crate::tokenizer::special::{Kind, SpecialTokens, TokenBytes};
use crate::tokenizer::vocabulary::Vocabulary;

/// Rows without a token that are taken for padding, at least; else one in 16.
const PADDING: usize = 64;

/// Texts by id.
pub(super) struct List<'a> {
    texts: Vec<&'a str>,
    kinds: Vec<Kind>,
}

impl<'a> List<'a> {
    /// Checks that the tokens are those of a model with `rows` embeddings.
    ///
    /// Padding may leave rows without a token. Added tokens past the rows are left out: a model
    /// for text may be without those for pictures.
    pub(super) fn new(
        bpe: &'a BpeFile,
        added: &'a [AddedToken],
        rows: usize,
    ) -> Result<Self, TokenizerError> {
        let listed = &bpe.vocab.0;
        let tokens = listed.len().saturating_add(added.len());
        let mismatch = || TokenizerError::OtherVocabulary { tokens, rows };
        let past = |id: u32| usize::try_from(id).map_or(true, |id| id >= rows);
        // Before anything is made of that many rows.
        let beyond = added.iter().filter(|token| past(token.id)).count();
        let few = PADDING.max(rows / 16);
        if tokens.saturating_add(few) < rows || beyond > PADDING {
            return Err(mismatch());
        }
        if listed.iter().any(|(_, id)| past(*id)) {
            return Err(mismatch());
        }
        let mut list = Self {
            texts: vec![""; rows],
            kinds: vec![Kind::Unused; rows],
        };
        let ids: HashMap<&str, u32> = list
            .added(added)
            .map(|token| (token.content.as_str(), token.id))
            .collect();
        for (text, id) in listed {
            if let Some(other) = ids.get(text.as_str()).filter(|other| *other != id) {
                return Err(TokenizerError::DuplicateToken {
                    text: text.clone(),
                    first: *id,
                    second: *other,
                });
            }
            list.set(*id, text, Kind::Normal)?;
        }
        for token in list.added(added) {
            if token.single_word {
                let found = format!("the token {:?} as a single word", token.content);
                return Err(unsupported("list of added tokens", found));
            }
            let is_control = token.special || is_end(token.content.as_bytes());
            let kind = if is_control {
                Kind::Control
            } else {
                Kind::UserDefined
            };
            list.set(token.id, &token.content, kind)?;
        }
        let used = list.kinds.iter().filter(|kind| **kind != Kind::Unused);
        if used.count().saturating_add(few) < rows {
            return Err(mismatch());
        }
        Ok(list)
    }

    /// The added tokens that the model has a row for.
    pub(super) fn added<'b>(
        &self,
        added: &'b [AddedToken],
    ) -> impl Iterator<Item = &'b AddedToken> + Clone + use<'b> {
        let rows = self.kinds.len();
        let has_row = move |id: u32| usize::try_from(id).is_ok_and(|id| id < rows);
        added
            .iter()
            .filter(move |token| has_row(token.id) && !token.content.is_empty())
    }

    fn set(&mut self, id: u32, text: &'a str, kind: Kind) -> Result<(), TokenizerError> {
        let index = usize::try_from(id).unwrap_or(usize::MAX);
        let (Some(old), Some(slot)) = (self.texts.get_mut(index), self.kinds.get_mut(index)) else {
            return Err(self.no_row("added_tokens", id));
        };
        if *slot != Kind::Unused && (*old != text || kind == Kind::Normal) {
            return Err(invalid(format_args!(
                "token {id} is both {old:?} and {text:?}"
            )));
        }
        (*old, *slot) = (text, kind);
        Ok(())
    }

    fn no_row(&self, field: &'static str, id: u32) -> TokenizerError {
        let vocab_size = self.kinds.len();
        TokenizerError::IdOutOfRange {
            field,
            id,
            vocab_size,
        }
    }

    pub(super) fn check_id(&self, field: &'static str, id: u32) -> Result<(), TokenizerError> {
        match usize::try_from(id).ok().and_then(|id| self.kinds.get(id)) {
            Some(kind) if *kind != Kind::Unused => Ok(()),
            _ => Err(self.no_row(field, id)),
        }
    }

    /// What the tokens stand for, and which of them end a reply.
    pub(super) fn read(
        &self,
        reading: &Reading,
        named: &Vocabulary,
    ) -> Result<Listed, TokenizerError> {
        for (field, id) in named.named_ids() {
            if let Some(id) = id.filter(|id| *id as usize >= self.kinds.len()) {
                return Err(self.no_row(field, id));
            }
        }
        let mut kinds = self.kinds.clone();
        let mut bytes = TokenBytes::with_capacity(kinds.len());
        let mut specials = Vec::new();
        for ((text, kind), id) in self.texts.iter().zip(&mut kinds).zip(0_u32..) {
            let byte = byte_token(text).filter(|_| reading.byte_fallback);
            if *kind == Kind::Normal && byte.is_some() {
                *kind = Kind::Byte;
            }
            bytes.push(|out| match (*kind, byte) {
                (Kind::Byte, Some(byte)) => out.push(byte),
                (Kind::Normal, _) if reading.byte_level => {
                    if !byte_alphabet::unspell(text, out) {
                        out.extend_from_slice(text.as_bytes());
                    }
                }
                (Kind::Normal | Kind::UserDefined, _) => {
                    out.extend_from_slice(reading.text(text).as_bytes());
                }
                _ => out.extend_from_slice(text.as_bytes()),
            });
            if matches!(kind, Kind::Control | Kind::UserDefined) {
                specials.push((text.as_bytes().into(), id));
            }
        }
        bytes.shrink();
        let specials = SpecialTokens::new(specials)?;
        let end_ids = end_ids(named, &specials);
        Ok(Listed {
            kinds,
            bytes,
            specials,
            end_ids,
        })
    }

    /// The model, without control tokens, and without merges that would make them or the token
    /// of a byte; and its heap.
    pub(super) fn model(
        &self,
        file: &BpeFile,
        listed: Vec<Merge>,
        kinds: &[Kind],
    ) -> Result<(BPE, usize), TokenizerError> {
        let mut vocab = Vocab::with_capacity(file.vocab.0.len());
        let mut excluded = HashSet::new();
        for (text, id) in &file.vocab.0 {
            let kind = usize::try_from(*id).ok().and_then(|id| kinds.get(id));
            let is_unknown = file.unk_token.as_ref() == Some(text);
            if matches!(kind, Some(Kind::Control | Kind::Byte)) || is_unknown {
                excluded.insert(text.as_str());
            }
            // Unknown text and bytes are looked up by their names.
            if (kind != Some(&Kind::Control) || is_unknown)
                && let Some(first) = vocab.insert(text.clone(), *id)
            {
                return Err(TokenizerError::DuplicateToken {
                    text: text.clone(),
                    first,
                    second: *id,
                });
            }
        }
        if let Some(unknown) = file.unk_token.as_ref().filter(|t| !vocab.contains_key(*t)) {
            return Err(invalid(format_args!(
                "its unk_token {unknown:?} is not listed"
            )));
        }
        let mut merges = Vec::with_capacity(listed.len());
        for Merge(left, right) in listed {
            let whole = [&*left, &*right].concat();
            let parts = [&*left, &*right, &*whole];
            if parts.iter().any(|part| excluded.contains(part)) {
                continue;
            }
            if let Some(part) = parts.iter().find(|part| !vocab.contains_key(**part)) {
                return Err(invalid(format_args!(
                    "a merge needs {part:?}, which is not listed"
                )));
            }
            merges.push((left, right));
        }
        let heap_bytes = heap_bytes(&vocab, merges.len());
        let mut builder = BPE::builder()
            .vocab_and_merges(vocab, merges)
            .fuse_unk(file.fuse_unk)
            .byte_fallback(file.byte_fallback)
            .ignore_merges(file.ignore_merges)
            // The library's cache outlives the tokenizer in a thread-local map.
            .cache_capacity(0);
        if let Some(unknown) = &file.unk_token {
            builder = builder.unk_token(unknown.clone());
        }
        Ok((builder.build().map_err(failed)?, heap_bytes))
    }
}
