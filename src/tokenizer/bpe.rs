//! The tokenizer: vocabulary, merges and the rules around them.
//!
//! `tokenizers` does the merging; special tokens, the byte alphabet and the bytes of each token
//! are ours, so that the caller decides where text may become a control token.

use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::Range;

use tokenizers::Model;
use tokenizers::models::bpe::{BPE, Merges, Vocab};

use super::byte_alphabet;
use super::error::TokenizerError;
use super::guard::Segment;
use super::pre_tokenizer::PreTokenizer;
use super::special::{Kind, SpecialTokens, TokenBytes};
use super::vocabulary::{Strings, Vocabulary};

const TOKENS: &str = "tokenizer.ggml.tokens";
const MERGES: &str = "tokenizer.ggml.merges";

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

/// Byte-level BPE for one vocabulary.
pub struct Tokenizer {
    bpe: BPE,
    pre: PreTokenizer,
    bytes: TokenBytes,
    kinds: Vec<Kind>,
    specials: SpecialTokens,
    bos: Option<u32>,
    eos: Option<u32>,
    adds_bos: bool,
    adds_eos: bool,
    end_ids: Vec<u32>,
    bpe_bytes: usize,
}

impl Tokenizer {
    /// Builds the tokenizer that a file's metadata describes.
    ///
    /// A merge is left out when it makes, or is made of, a token that plain text must not
    /// become (control, unused or byte tokens).
    ///
    /// # Errors
    /// Says which entry of the metadata does not fit, see [`TokenizerError`]: among others a
    /// model or splitting rule that is not built in, two ids for one text, an id outside the
    /// vocabulary, and a merge whose parts or result are not listed.
    pub fn new(
        vocabulary: &Vocabulary,
        tokens: &dyn Strings,
        merges: &dyn Strings,
    ) -> Result<Self, TokenizerError> {
        if vocabulary.model != "gpt2" {
            return Err(TokenizerError::UnsupportedModel {
                found: vocabulary.model.clone(),
            });
        }
        let pre = PreTokenizer::new(&vocabulary.pre)?;
        let kinds = kinds(vocabulary, tokens)?;
        let listed = Listed::read(tokens, &kinds)?;
        let mut end_ids: Vec<u32> = [vocabulary.eos, vocabulary.eot, vocabulary.eom]
            .into_iter()
            .flatten()
            .collect();
        let specials = SpecialTokens::new(listed.specials)?;
        let is_end = |bytes: &[u8]| END_TEXTS.iter().any(|text| text.as_bytes() == bytes);
        end_ids.extend(
            specials
                .iter()
                .filter(|(bytes, _)| is_end(bytes))
                .map(|(_, id)| id),
        );
        end_ids.sort_unstable();
        end_ids.dedup();

        let adds_bos = adds(vocabulary.add_bos, pre.adds_bos, vocabulary.bos, "bos")?;
        let adds_eos = adds(vocabulary.add_eos, false, vocabulary.eos, "eos")?;
        let merges = read_merges(merges, &listed.vocab, &listed.excluded)?;
        let bpe_bytes = bpe_heap_bytes(&listed.vocab, merges.len());
        let bpe = BPE::builder()
            .vocab_and_merges(listed.vocab, merges)
            .ignore_merges(pre.ignores_merges)
            // The library's cache outlives the tokenizer in a thread-local map.
            .cache_capacity(0)
            .build()
            .map_err(|error| TokenizerError::Bpe {
                reason: error.to_string(),
            })?;
        Ok(Self {
            bpe,
            pre,
            bytes: listed.bytes,
            kinds,
            specials,
            bos: vocabulary.bos,
            eos: vocabulary.eos,
            adds_bos,
            adds_eos,
            end_ids,
            bpe_bytes,
        })
    }

    /// The ids of `text`, nothing added.
    ///
    /// With `special`, the text of a control token becomes that token; without, never.
    /// User-defined tokens are found either way. A byte that the vocabulary has no letter for
    /// is left out, as Hugging Face and llama.cpp do.
    ///
    /// # Errors
    /// [`TokenizerError::TextTooComplex`] on a text that the splitting rule gives up on.
    pub fn encode(&self, text: &str, special: bool) -> Result<Vec<u32>, TokenizerError> {
        let whole = 0..text.len();
        self.encode_where(
            text,
            if special {
                std::slice::from_ref(&whole)
            } else {
                &[]
            },
        )
    }

    /// The ids of a raw prompt: [`Tokenizer::encode`] with control tokens, and the BOS and EOS
    /// tokens that the file asks for.
    ///
    /// # Errors
    /// As [`Tokenizer::encode`].
    pub fn encode_prompt(&self, text: &str) -> Result<Vec<u32>, TokenizerError> {
        let mut ids: Vec<u32> = self.bos.filter(|_| self.adds_bos).into_iter().collect();
        ids.append(&mut self.encode(text, true)?);
        ids.extend(self.eos.filter(|_| self.adds_eos));
        Ok(ids)
    }

    /// The ids of all segments' text in a row, as if it were one text, except that a control
    /// token is found only inside adjacent segments that allow it.
    ///
    /// # Errors
    /// As [`Tokenizer::encode`].
    pub fn encode_segments(&self, segments: &[Segment]) -> Result<Vec<u32>, TokenizerError> {
        let mut text = String::with_capacity(segments.iter().map(|s| s.text.len()).sum());
        let mut allowed: Vec<Range<usize>> = Vec::new();
        for segment in segments {
            let start = text.len();
            text.push_str(&segment.text);
            if !segment.special || segment.text.is_empty() {
                continue;
            }
            match allowed.last_mut() {
                Some(last) if last.end == start => last.end = text.len(),
                _ => allowed.push(start..text.len()),
            }
        }
        self.encode_where(&text, &allowed)
    }

    /// The text of `ids`, that of control tokens included; U+FFFD stands for invalid UTF-8, and
    /// ids outside the vocabulary add nothing.
    pub fn decode(&self, ids: &[u32]) -> String {
        let bytes: Vec<u8> = ids
            .iter()
            .filter_map(|id| self.token_bytes(*id))
            .flatten()
            .copied()
            .collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The bytes that a token adds to a text; of a control token, the text that names it.
    pub fn token_bytes(&self, id: u32) -> Option<&[u8]> {
        self.bytes.get(id)
    }

    /// True for tokens that mean something to the model rather than stand for text.
    pub fn is_control(&self, id: u32) -> bool {
        self.kind(id) == Some(Kind::Control)
    }

    /// The tokens that end a reply, ascending: the file's EOS, EOT and EOM, and control tokens
    /// known for it, such as `<|im_end|>`.
    pub fn end_ids(&self) -> &[u32] {
        &self.end_ids
    }

    /// Number of tokens; ids are below it.
    pub fn vocab_size(&self) -> usize {
        self.kinds.len()
    }

    /// Bytes of heap held, except for the compiled splitting rules (under half a megabyte).
    ///
    /// `tokenizers` keeps the spelling of each token twice, in a map each way; those maps are
    /// reckoned from their published layout.
    pub fn heap_bytes(&self) -> usize {
        self.bpe_bytes
            + self.bytes.heap_bytes()
            + self.kinds.capacity() * size_of::<Kind>()
            + self.specials.heap_bytes()
            + self.end_ids.capacity() * size_of::<u32>()
    }

    /// The token that starts a text.
    pub fn bos(&self) -> Option<u32> {
        self.bos
    }

    /// The token that ends a text.
    pub fn eos(&self) -> Option<u32> {
        self.eos
    }

    /// The text of the BOS token, empty when there is none.
    pub fn bos_text(&self) -> Cow<'_, str> {
        self.text_of(self.bos)
    }

    /// The text of the EOS token, empty when there is none.
    pub fn eos_text(&self) -> Cow<'_, str> {
        self.text_of(self.eos)
    }

    /// Whether [`Tokenizer::encode_prompt`] starts with BOS.
    pub fn adds_bos(&self) -> bool {
        self.adds_bos
    }

    /// The texts of all control tokens.
    pub(super) fn control_texts(&self) -> impl Iterator<Item = &str> {
        self.specials
            .iter()
            .filter(|(_, id)| self.is_control(*id))
            .filter_map(|(bytes, _)| std::str::from_utf8(bytes).ok())
    }

    fn text_of(&self, id: Option<u32>) -> Cow<'_, str> {
        let bytes = id.and_then(|id| self.token_bytes(id)).unwrap_or_default();
        String::from_utf8_lossy(bytes)
    }

    fn kind(&self, id: u32) -> Option<Kind> {
        self.kinds.get(usize::try_from(id).ok()?).copied()
    }

    /// Encodes `text`; control tokens are found inside the `allowed` ranges, which ascend.
    fn encode_where(
        &self,
        text: &str,
        allowed: &[Range<usize>],
    ) -> Result<Vec<u32>, TokenizerError> {
        let mut ids = Vec::new();
        let (mut plain, mut at) = (0, 0);
        while at < text.len() {
            let region = allowed.get(allowed.partition_point(|range| range.end <= at));
            let found = self.specials.longest(&text.as_bytes()[at..], |id, length| {
                let fits = region.is_some_and(|r| r.start <= at && at + length <= r.end);
                fits || !self.is_control(id)
            });
            let Some((id, length)) = found else {
                at += 1;
                continue;
            };
            self.encode_plain(&text[plain..at], &mut ids)?;
            ids.push(id);
            at += length;
            plain = at;
        }
        self.encode_plain(&text[plain..], &mut ids)?;
        Ok(ids)
    }

    /// Encodes text in which no special token is to be found.
    fn encode_plain(&self, text: &str, ids: &mut Vec<u32>) -> Result<(), TokenizerError> {
        if text.is_empty() {
            return Ok(());
        }
        let composed = self.pre.normalize(text)?;
        let text = composed.as_deref().unwrap_or(text);
        let mut letters = String::new();
        for piece in self.pre.split(text)? {
            letters.clear();
            byte_alphabet::spell(&text[piece], &mut letters);
            let tokens = self
                .bpe
                .tokenize(&letters)
                .map_err(|error| TokenizerError::Bpe {
                    reason: error.to_string(),
                })?;
            ids.extend(tokens.into_iter().map(|token| token.id));
        }
        Ok(())
    }
}

impl std::fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tokenizer")
            .field("vocab_size", &self.vocab_size())
            .field("end_ids", &self.end_ids)
            .finish_non_exhaustive()
    }
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
        let bytes = tokens.get(index).unwrap_or_default();
        if END_TEXTS.iter().any(|text| text.as_bytes() == bytes) {
            *kind = Kind::Control;
        }
    }
    Ok(kinds)
}

/// Whether a token is added at a prompt's edge.
fn adds(
    flag: Option<bool>,
    default: bool,
    id: Option<u32>,
    edge: &str,
) -> Result<bool, TokenizerError> {
    if flag == Some(true) && id.is_none() {
        let (flag, field) = match edge {
            "bos" => (
                "tokenizer.ggml.add_bos_token",
                "tokenizer.ggml.bos_token_id",
            ),
            _ => (
                "tokenizer.ggml.add_eos_token",
                "tokenizer.ggml.eos_token_id",
            ),
        };
        return Err(TokenizerError::MissingSpecialToken { flag, field });
    }
    Ok(flag.unwrap_or(default) && id.is_some())
}

/// The list of tokens, sorted by what becomes of them.
struct Listed<'a> {
    bytes: TokenBytes,
    vocab: Vocab,
    specials: Vec<(Box<[u8]>, u32)>,
    /// Texts that merges may name but must not make.
    excluded: HashSet<&'a str>,
}

impl<'a> Listed<'a> {
    fn read(tokens: &'a dyn Strings, kinds: &[Kind]) -> Result<Self, TokenizerError> {
        let mut listed = Self {
            bytes: TokenBytes::with_capacity(kinds.len()),
            vocab: Vocab::with_capacity(kinds.len()),
            specials: Vec::new(),
            excluded: HashSet::new(),
        };
        for ((index, kind), id) in kinds.iter().enumerate().zip(0_u32..) {
            let text = text_at(tokens, index, TOKENS)?;
            listed.add(text, *kind, id)?;
        }
        for (bytes, id) in &listed.specials {
            // A user-defined token may be the fruit of merges as well.
            if kinds.get(*id as usize) == Some(&Kind::UserDefined) {
                let text = String::from_utf8_lossy(bytes).into_owned();
                listed.vocab.entry(text).or_insert(*id);
            }
        }
        listed.bytes.shrink();
        Ok(listed)
    }

    fn add(&mut self, text: &'a str, kind: Kind, id: u32) -> Result<(), TokenizerError> {
        let byte = Some(text)
            .filter(|_| kind == Kind::Byte)
            .and_then(byte_token);
        self.bytes.push(|bytes| match (kind, byte) {
            (Kind::Normal, _) if byte_alphabet::unspell(text, bytes) => {}
            (_, Some(byte)) => bytes.push(byte),
            _ => bytes.extend_from_slice(text.as_bytes()),
        });
        match kind {
            Kind::Normal => {
                if let Some(first) = self.vocab.insert(text.to_owned(), id) {
                    let text = text.to_owned();
                    return Err(TokenizerError::DuplicateToken {
                        text,
                        first,
                        second: id,
                    });
                }
            }
            Kind::UserDefined => self.specials.push((text.as_bytes().into(), id)),
            Kind::Control => {
                self.specials.push((text.as_bytes().into(), id));
                self.excluded.insert(text);
            }
            Kind::Byte | Kind::Unused => {
                self.excluded.insert(text);
            }
        }
        Ok(())
    }
}

/// The byte that a byte token such as `<0x0A>` stands for.
fn byte_token(text: &str) -> Option<u8> {
    let digits = text.strip_prefix("<0x")?.strip_suffix('>')?;
    u8::from_str_radix(digits, 16).ok()
}

fn text_at<'a>(
    strings: &'a dyn Strings,
    index: usize,
    field: &'static str,
) -> Result<&'a str, TokenizerError> {
    strings
        .get(index)
        .and_then(|bytes| std::str::from_utf8(bytes).ok())
        .ok_or(TokenizerError::InvalidUtf8 { field, index })
}

fn read_merges(
    merges: &dyn Strings,
    vocab: &Vocab,
    excluded: &HashSet<&str>,
) -> Result<Merges, TokenizerError> {
    let mut pairs = Merges::with_capacity(merges.len());
    let mut whole = String::new();
    for index in 0..merges.len() {
        let text = text_at(merges, index, MERGES)?;
        let invalid = || TokenizerError::InvalidMerge {
            index,
            text: text.to_owned(),
        };
        let (left, right) = text.split_once(' ').ok_or_else(invalid)?;
        if left.is_empty() || right.is_empty() || right.contains(' ') {
            return Err(invalid());
        }
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

/// Heap of the maps inside [`BPE`]: `String` to id, id to `String`, pair to rank and id.
fn bpe_heap_bytes(vocab: &Vocab, merges: usize) -> usize {
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
