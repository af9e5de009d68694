//! Tokens that are found in text as they are written, before any splitting or merging.

use super::error::TokenizerError;

/// What a token is, by `tokenizer.ggml.token_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    /// Spelled in the byte alphabet, made by merges.
    Normal,
    /// Literal text with a meaning to the model; found only where the caller allows it.
    Control,
    /// Literal text, found everywhere.
    UserDefined,
    /// One byte, written `<0xAB>`.
    Byte,
    /// A place in the list that nothing encodes to.
    Unused,
}

impl Kind {
    /// The kind that GGUF's number means. Type 2 (unknown) is a control token: a text that
    /// names it must not turn into it either.
    pub(super) fn from_gguf(id: u32, value: i32) -> Result<Self, TokenizerError> {
        match value {
            0 | 1 => Ok(Self::Normal),
            2 | 3 => Ok(Self::Control),
            4 => Ok(Self::UserDefined),
            5 => Ok(Self::Unused),
            6 => Ok(Self::Byte),
            _ => Err(TokenizerError::InvalidTokenType { id, value }),
        }
    }
}

/// The bytes that each token adds to a text, in one arena.
pub(super) struct TokenBytes {
    arena: Vec<u8>,
    ends: Vec<usize>,
}

impl TokenBytes {
    pub(super) fn with_capacity(tokens: usize) -> Self {
        Self {
            arena: Vec::new(),
            ends: Vec::with_capacity(tokens),
        }
    }

    /// Adds a token whose bytes `write` appends.
    pub(super) fn push(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.arena);
        self.ends.push(self.arena.len());
    }

    pub(super) fn get(&self, id: u32) -> Option<&[u8]> {
        let index = usize::try_from(id).ok()?;
        let end = *self.ends.get(index)?;
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        self.arena.get(start..end)
    }

    pub(super) fn shrink(&mut self) {
        self.arena.shrink_to_fit();
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.arena.capacity() + self.ends.capacity() * size_of::<usize>()
    }
}

/// Control and user-defined tokens, sorted by their bytes.
pub(super) struct SpecialTokens {
    sorted: Vec<(Box<[u8]>, u32)>,
    /// `sorted[first[b]..first[b + 1]]` start with the byte `b`.
    first: Vec<usize>,
}

impl SpecialTokens {
    /// A search costs up to this many steps at each position, so hostile lengths are refused.
    pub(super) const MAX_BYTES: usize = 512;

    /// Sorts the tokens; empty ones are left out, since they would match everywhere.
    pub(super) fn new(mut tokens: Vec<(Box<[u8]>, u32)>) -> Result<Self, TokenizerError> {
        tokens.retain(|(bytes, _)| !bytes.is_empty());
        tokens.sort_unstable();
        for (bytes, id) in &tokens {
            if bytes.len() > Self::MAX_BYTES {
                return Err(TokenizerError::SpecialTokenTooLong {
                    id: *id,
                    bytes: bytes.len(),
                    limit: Self::MAX_BYTES,
                });
            }
        }
        for pair in tokens.windows(2) {
            if pair[0].0 == pair[1].0 {
                return Err(TokenizerError::DuplicateToken {
                    text: String::from_utf8_lossy(&pair[0].0).into_owned(),
                    first: pair[0].1,
                    second: pair[1].1,
                });
            }
        }
        let first = (0..=256)
            .map(|byte| tokens.partition_point(|(bytes, _)| usize::from(bytes[0]) < byte))
            .collect();
        Ok(Self {
            sorted: tokens,
            first,
        })
    }

    /// The longest token that `text` starts with among those that `accepts(id, length)` takes.
    pub(super) fn longest(
        &self,
        text: &[u8],
        accepts: impl Fn(u32, usize) -> bool,
    ) -> Option<(u32, usize)> {
        let byte = usize::from(*text.first()?);
        let mut candidates = &self.sorted[self.first[byte]..self.first[byte + 1]];
        let mut best = None;
        let mut depth = 1;
        // All candidates share the first `depth` bytes with the text; the one that ends here,
        // if any, sorts first.
        while let Some(((bytes, id), others)) = candidates.split_first() {
            if bytes.len() == depth {
                if accepts(*id, depth) {
                    best = Some((*id, depth));
                }
                candidates = others;
                continue;
            }
            let Some(next) = text.get(depth) else { break };
            let from = candidates.partition_point(|(bytes, _)| bytes[depth] < *next);
            let to = candidates.partition_point(|(bytes, _)| bytes[depth] <= *next);
            candidates = &candidates[from..to];
            depth += 1;
        }
        best
    }

    /// All tokens with their ids, in byte order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&[u8], u32)> {
        self.sorted.iter().map(|(bytes, id)| (&**bytes, *id))
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.sorted.capacity() * size_of::<(Box<[u8]>, u32)>()
            + self
                .sorted
                .iter()
                .map(|(bytes, _)| bytes.len())
                .sum::<usize>()
            + self.first.capacity() * size_of::<usize>()
    }
}
