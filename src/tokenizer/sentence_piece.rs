//! SentencePiece-style BPE: the neighbours whose union has the best score merge first, and what
//! no token spells becomes bytes.
//!
//! As llama.cpp's `llm_tokenizer_spm` and SentencePiece's `bpe::Model`: text starts as single
//! characters; of all adjacent pairs that together are a token, the one with the highest score
//! merges, the leftmost among equals, until no pair is left. Tokens are kept with spaces in
//! place of U+2581, so that text needs no translation.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::hash::{BuildHasher, RandomState};

use super::error::TokenizerError;
use super::listed::Listed;
use super::special::{Kind, TokenBytes};
use super::vocabulary::Vocabulary;

const NONE: u32 = u32::MAX;

/// Scores, and an index of the tokens by their bytes.
pub(super) struct SentencePiece {
    scores: Vec<f32>,
    /// Ids by the hash of their bytes, open addressing; at most half of the slots are taken.
    slots: Vec<u32>,
    /// Keyed, so that a file cannot be made of collisions.
    hasher: RandomState,
    longest: usize,
    /// The byte tokens, [`NONE`] where there is none.
    bytes: Box<[u32; 256]>,
    unknown: Option<u32>,
    adds_prefix: bool,
}

/// A piece of the text, in a doubly linked list.
#[derive(Clone, Copy)]
struct Symbol {
    start: usize,
    /// 0 once it has become part of its left neighbour.
    len: usize,
    previous: usize,
    next: usize,
}

const END: usize = usize::MAX;

/// Two neighbours that together are a token.
struct Pair {
    score: f32,
    left: usize,
    right: usize,
    /// Length of the union: pairs of which a part has changed since are stale.
    len: usize,
}

impl Ord for Pair {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_score = self.score.total_cmp(&other.score);
        by_score.then_with(|| other.left.cmp(&self.left))
    }
}

impl PartialOrd for Pair {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Pair {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Pair {}

impl SentencePiece {
    /// Indexes the normal and user-defined tokens; of two with one text, the first counts when
    /// the other is user-defined.
    pub(super) fn new(vocabulary: &Vocabulary, listed: &Listed) -> Result<Self, TokenizerError> {
        let count = listed.kinds.len();
        if vocabulary.scores.len() != count {
            return Err(TokenizerError::ScoreCount {
                tokens: count,
                scores: vocabulary.scores.len(),
            });
        }
        let mut this = Self {
            scores: vocabulary.scores.clone(),
            slots: vec![NONE; count.saturating_mul(2).next_power_of_two()],
            hasher: RandomState::new(),
            longest: 0,
            bytes: Box::new([NONE; 256]),
            unknown: vocabulary.unknown,
            adds_prefix: vocabulary.add_space_prefix.unwrap_or(true),
        };
        for (kind, id) in listed.kinds.iter().zip(0_u32..) {
            let bytes = listed.bytes.get(id).unwrap_or_default();
            match (kind, bytes) {
                (Kind::Byte, [byte]) => this.bytes[usize::from(*byte)] = id,
                (Kind::Normal | Kind::UserDefined, [_, ..]) => this.insert(id, listed)?,
                _ => {}
            }
        }
        Ok(this)
    }

    /// Whether a space goes before each text between special tokens.
    pub(super) fn adds_prefix(&self) -> bool {
        self.adds_prefix
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.scores.capacity() * size_of::<f32>()
            + self.slots.capacity() * size_of::<u32>()
            + size_of_val(&*self.bytes)
    }

    /// Appends the ids of text in which no special token is to be found.
    pub(super) fn encode(&self, text: &str, tokens: &TokenBytes, ids: &mut Vec<u32>) {
        let prefix = if self.adds_prefix { " " } else { "" };
        let text = format!("{prefix}{}", text.replace('\u{2581}', " "));
        let mut symbols = symbols(&text);
        let mut pairs = BinaryHeap::new();
        for left in 0..symbols.len().saturating_sub(1) {
            pairs.extend(self.pair(&text, &symbols, tokens, left));
        }
        while let Some(pair) = pairs.pop() {
            let (left, right) = (symbols[pair.left], symbols[pair.right]);
            let is_stale = left.len == 0 || right.len == 0 || left.len + right.len != pair.len;
            if is_stale {
                continue;
            }
            symbols[pair.left].len = pair.len;
            symbols[pair.left].next = right.next;
            symbols[pair.right].len = 0;
            if right.next != END {
                symbols[right.next].previous = pair.left;
                pairs.extend(self.pair(&text, &symbols, tokens, pair.left));
            }
            if left.previous != END {
                pairs.extend(self.pair(&text, &symbols, tokens, left.previous));
            }
        }
        let mut at = if symbols.is_empty() { END } else { 0 };
        let mut after_unknown = false;
        while at != END {
            let symbol = symbols[at];
            let piece = &text.as_bytes()[symbol.start..symbol.start + symbol.len];
            after_unknown = self.emit(piece, tokens, after_unknown, ids);
            at = symbol.next;
        }
    }

    /// Appends a token, or the bytes of a character that is none, or the unknown token once for
    /// a row of them. Says whether it was the unknown token.
    fn emit(
        &self,
        piece: &[u8],
        tokens: &TokenBytes,
        after_unknown: bool,
        ids: &mut Vec<u32>,
    ) -> bool {
        if let Some(id) = self.find(piece, tokens) {
            ids.push(id);
            return false;
        }
        let bytes = piece.iter().map(|byte| self.bytes[usize::from(*byte)]);
        if bytes.clone().all(|id| id != NONE) {
            ids.extend(bytes);
            return false;
        }
        if !after_unknown {
            ids.extend(self.unknown);
        }
        true
    }

    fn pair(
        &self,
        text: &str,
        symbols: &[Symbol],
        tokens: &TokenBytes,
        left: usize,
    ) -> Option<Pair> {
        let first = symbols.get(left)?;
        let right = first.next;
        let len = first.len + symbols.get(right)?.len;
        let whole = text.as_bytes().get(first.start..first.start + len)?;
        let id = self.find(whole, tokens)?;
        let score = *self.scores.get(usize::try_from(id).ok()?)?;
        Some(Pair {
            score,
            left,
            right,
            len,
        })
    }

    fn find(&self, bytes: &[u8], tokens: &TokenBytes) -> Option<u32> {
        if bytes.len() > self.longest {
            return None;
        }
        let slot = self.slot(bytes, tokens);
        self.slots.get(slot).copied().filter(|id| *id != NONE)
    }

    /// The slot that holds `bytes`, or the free one where they belong.
    fn slot(&self, bytes: &[u8], tokens: &TokenBytes) -> usize {
        let mask = self.slots.len() - 1;
        let hash = self.hasher.hash_one(bytes);
        let mut slot = usize::try_from(hash & 0xffff_ffff).unwrap_or(0) & mask;
        while self.slots[slot] != NONE && tokens.get(self.slots[slot]) != Some(bytes) {
            slot = (slot + 1) & mask;
        }
        slot
    }

    fn insert(&mut self, id: u32, listed: &Listed) -> Result<(), TokenizerError> {
        let bytes = listed.bytes.get(id).unwrap_or_default();
        let slot = self.slot(bytes, &listed.bytes);
        let first = self.slots[slot];
        if first == NONE {
            self.slots[slot] = id;
            self.longest = self.longest.max(bytes.len());
            return Ok(());
        }
        let is_normal = |id: u32| listed.kinds.get(id as usize) == Some(&Kind::Normal);
        if is_normal(first) && is_normal(id) {
            return Err(TokenizerError::DuplicateToken {
                text: String::from_utf8_lossy(bytes).into_owned(),
                first,
                second: id,
            });
        }
        Ok(())
    }
}

fn symbols(text: &str) -> Vec<Symbol> {
    let mut symbols: Vec<Symbol> = Vec::with_capacity(text.len());
    for (index, (start, c)) in text.char_indices().enumerate() {
        symbols.push(Symbol {
            start,
            len: c.len_utf8(),
            previous: index.checked_sub(1).unwrap_or(END),
            next: index + 1,
        });
    }
    if let Some(last) = symbols.last_mut() {
        last.next = END;
    }
    symbols
}
