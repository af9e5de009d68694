//! Byte-level BPE: text is cut into pieces, spelled in the byte alphabet, and merged by rank.
//!
//! `tokenizers` does the merging.

use std::collections::HashSet;

use tokenizers::Model;
use tokenizers::models::bpe::{BPE, Merges, Vocab};

use super::byte_alphabet;
use super::error::TokenizerError;
use super::listed::{Listed, text_at, token_text};
use super::pre_tokenizer::PreTokenizer;
use super::special::Kind;
use super::vocabulary::Strings;

const MERGES: &str = "tokenizer.ggml.merges";

/// Vocabulary, merges and splitting rules.
pub(super) struct Bpe {
    bpe: BPE,
    pre: PreTokenizer,
    heap_bytes: usize,
}

impl Bpe {
    /// A merge is left out when it makes, or is made of, a token that plain text must not become
    /// (control, unused or byte tokens).
    pub(super) fn new(
        pre: &str,
        listed: &Listed,
        tokens: &dyn Strings,
        merges: &dyn Strings,
    ) -> Result<Self, TokenizerError> {
        let pre = PreTokenizer::new(pre)?;
        let kinds = &listed.kinds;
        // The library looks up by itself what merges name; looking before it is for lists of
        // which it refuses some.
        let (vocab, _) = spellings(kinds, tokens)?;
        let longest = vocab.keys().map(String::len).max().unwrap_or(0);
        let built = plain_merges(merges, longest)?.map(|merges| build(vocab, merges, &pre));
        let (bpe, heap_bytes) = match built {
            Some(Ok(built)) => built,
            _ => {
                let (vocab, excluded) = spellings(kinds, tokens)?;
                let merges = checked_merges(merges, &vocab, &excluded)?;
                build(vocab, merges, &pre)?
            }
        };
        Ok(Self {
            bpe,
            pre,
            heap_bytes,
        })
    }

    /// Whether prompts start with BOS when the file does not say.
    pub(super) fn adds_bos(&self) -> bool {
        self.pre.adds_bos
    }

    /// Heap of the maps, reckoned from their published layout: `tokenizers` keeps the spelling
    /// of each token twice, in a map each way.
    pub(super) fn heap_bytes(&self) -> usize {
        self.heap_bytes
    }

    /// Appends the ids of text in which no special token is to be found.
    pub(super) fn encode(&self, text: &str, ids: &mut Vec<u32>) -> Result<(), TokenizerError> {
        let composed = self.pre.normalize(text)?;
        let text = composed.as_deref().unwrap_or(text);
        let mut letters = String::new();
        for piece in self.pre.split(text)? {
            letters.clear();
            byte_alphabet::spell(&text[piece], &mut letters);
            let tokens = self.bpe.tokenize(&letters).map_err(refused)?;
            ids.extend(tokens.into_iter().map(|token| token.id));
        }
        Ok(())
    }
}

/// The library's model, and what it takes on the heap.
fn build(vocab: Vocab, merges: Merges, pre: &PreTokenizer) -> Result<(BPE, usize), TokenizerError> {
    let heap_bytes = heap_bytes(&vocab, merges.len());
    let bpe = BPE::builder()
        .vocab_and_merges(vocab, merges)
        .ignore_merges(pre.ignores_merges)
        // The library's cache outlives the tokenizer in a thread-local map.
        .cache_capacity(0)
        .build()
        .map_err(refused)?;
    Ok((bpe, heap_bytes))
}

fn refused(error: tokenizers::Error) -> TokenizerError {
    TokenizerError::Bpe {
        reason: error.to_string(),
    }
}

/// The tokens that merges can make, and the texts that merges may name but must not make.
fn spellings<'a>(
    kinds: &[Kind],
    tokens: &'a dyn Strings,
) -> Result<(Vocab, HashSet<&'a str>), TokenizerError> {
    let mut vocab = Vocab::with_capacity(kinds.len());
    let mut excluded = HashSet::new();
    for ((index, kind), id) in kinds.iter().enumerate().zip(0_u32..) {
        let text = token_text(tokens, index)?;
        match kind {
            Kind::Normal => {
                if let Some(first) = vocab.insert(text.to_owned(), id) {
                    return Err(TokenizerError::DuplicateToken {
                        text: text.to_owned(),
                        first,
                        second: id,
                    });
                }
            }
            Kind::UserDefined => {}
            Kind::Control | Kind::Byte | Kind::Unused => {
                excluded.insert(text);
            }
        }
    }
    for ((index, kind), id) in kinds.iter().enumerate().zip(0_u32..) {
        // A user-defined token may be the fruit of merges as well.
        if *kind == Kind::UserDefined {
            let text = token_text(tokens, index)?.to_owned();
            vocab.entry(text).or_insert(id);
        }
    }
    Ok((vocab, excluded))
}

/// All merges as they are listed; `None` where one makes a text that is longer than any token, of
/// which the library must not hear.
fn plain_merges(merges: &dyn Strings, longest: usize) -> Result<Option<Merges>, TokenizerError> {
    let mut pairs = Merges::with_capacity(merges.len());
    for index in 0..merges.len() {
        let (left, right) = halves(merges, index)?;
        if left.len() + right.len() > longest {
            return Ok(None);
        }
        pairs.push((left.to_owned(), right.to_owned()));
    }
    Ok(Some(pairs))
}

/// The merges of tokens that merges can make.
fn checked_merges(
    merges: &dyn Strings,
    vocab: &Vocab,
    excluded: &HashSet<&str>,
) -> Result<Merges, TokenizerError> {
    let mut pairs = Merges::with_capacity(merges.len());
    let mut whole = String::new();
    for index in 0..merges.len() {
        let (left, right) = halves(merges, index)?;
        whole.clear();
        whole.push_str(left);
        whole.push_str(right);
        let missing = [left, right, whole.as_str()]
            .into_iter()
            .find(|t| !vocab.contains_key(*t));
        match missing {
            None => pairs.push((left.to_owned(), right.to_owned())),
            Some(token) if excluded.contains(token) => {}
            Some(token) => {
                return Err(TokenizerError::UnknownMergeToken {
                    index,
                    token: token.to_owned(),
                });
            }
        }
    }
    Ok(pairs)
}

/// What a merge joins.
fn halves(merges: &dyn Strings, index: usize) -> Result<(&str, &str), TokenizerError> {
    let text = text_at(merges, index, MERGES)?;
    text.split_once(' ')
        .filter(|(left, right)| !left.is_empty() && !right.is_empty() && !right.contains(' '))
        .ok_or_else(|| TokenizerError::InvalidMerge {
            index,
            text: text.to_owned(),
        })
}

/// Heap of the maps inside [`BPE`]: `String` to id, id to `String`, pair to rank and id.
pub(super) fn heap_bytes(vocab: &Vocab, merges: usize) -> usize {
    // An allocator's header and rounding.
    let string = |text: &String| (text.len() + 8).next_multiple_of(16);
    let spellings: usize = vocab.keys().map(string).sum();
    let entry = size_of::<(String, u32)>();
    2 * spellings
        + 2 * table_bytes(vocab.capacity(), entry)
        + table_bytes(merges, size_of::<[u32; 4]>())
}

/// A hash table keeps a power of two of slots, at most 7/8 of them full, and a byte for each.
fn table_bytes(capacity: usize, entry: usize) -> usize {
    let slots = (capacity.saturating_mul(8) / 7).next_power_of_two();
    slots.saturating_mul(entry + 1)
}
