//! The tokenizer of a file: special tokens here, plain text through its model.
//!
//! Special tokens and the bytes of each token are ours, so that the caller decides where text
//! may become a control token.

use std::borrow::Cow;
use std::ops::Range;

use super::bpe::Bpe;
use super::error::TokenizerError;
use super::guard::Segment;
use super::hugging_face::{self, HuggingFace};
use super::listed::{Listed, Spelling};
use super::sentence_piece::SentencePiece;
use super::special::{Kind, SpecialTokens, TokenBytes};
use super::vocabulary::{Strings, Vocabulary};

/// What turns plain text into ids.
enum Model {
    Bpe(Box<Bpe>),
    SentencePiece(SentencePiece),
    HuggingFace(Box<HuggingFace>),
}

/// Text to ids and back for one vocabulary.
pub struct Tokenizer {
    model: Model,
    bytes: TokenBytes,
    kinds: Vec<Kind>,
    specials: SpecialTokens,
    bos: Option<u32>,
    eos: Option<u32>,
    /// What goes before and after a prompt.
    before: Vec<u32>,
    after: Vec<u32>,
    end_ids: Vec<u32>,
}

impl Tokenizer {
    /// Builds the tokenizer that a file's metadata describes.
    ///
    /// Plain text never becomes a control, unused or byte token by merging.
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
        let spelling = match &*vocabulary.model {
            "gpt2" => Spelling::ByteAlphabet,
            "llama" => Spelling::SentencePiece,
            other => {
                return Err(TokenizerError::UnsupportedModel {
                    found: other.to_owned(),
                });
            }
        };
        let listed = Listed::read(vocabulary, tokens, spelling)?;
        let (model, bos_by_default) = match spelling {
            Spelling::ByteAlphabet => {
                let bpe = Bpe::new(&vocabulary.pre, &listed, tokens, merges)?;
                let adds_bos = bpe.adds_bos();
                (Model::Bpe(Box::new(bpe)), adds_bos)
            }
            Spelling::SentencePiece => {
                let model = SentencePiece::new(vocabulary, &listed)?;
                (Model::SentencePiece(model), true)
            }
        };
        let adds_bos = adds(vocabulary.add_bos, bos_by_default, vocabulary.bos, "bos")?;
        let adds_eos = adds(vocabulary.add_eos, false, vocabulary.eos, "eos")?;
        Ok(Self {
            model,
            bytes: listed.bytes,
            kinds: listed.kinds,
            specials: listed.specials,
            bos: vocabulary.bos,
            eos: vocabulary.eos,
            before: vocabulary.bos.filter(|_| adds_bos).into_iter().collect(),
            after: vocabulary.eos.filter(|_| adds_eos).into_iter().collect(),
            end_ids: listed.end_ids,
        })
    }

    /// Builds the tokenizer that a `tokenizer.json` of Hugging Face's `tokenizers` describes, for
    /// a model with `rows` embeddings.
    ///
    /// Of `named`, the ids count and whether to add tokens at a prompt's edges; where it does not
    /// say, the file's own template does. As elsewhere, the text of a token that is marked
    /// special becomes that token only where the caller allows it.
    ///
    /// # Errors
    /// [`TokenizerError::InvalidJson`] where the file is damaged or contradicts itself,
    /// [`TokenizerError::UnsupportedJson`] for a model other than BPE or a step that is not built
    /// in, [`TokenizerError::OtherVocabulary`] where its tokens are not those of the model, and
    /// the errors of [`Tokenizer::new`] about ids.
    pub fn from_json(json: &[u8], rows: usize, named: &Vocabulary) -> Result<Self, TokenizerError> {
        let read = hugging_face::read(json, rows, named)?;
        let bos = named.bos.or_else(|| read.before.first().copied());
        let eos = named.eos.or_else(|| read.after.last().copied());
        let before = match adds(named.add_bos, false, bos, "bos")? {
            true => bos.into_iter().collect(),
            false if named.add_bos.is_some() => Vec::new(),
            false => read.before,
        };
        let after = match adds(named.add_eos, false, eos, "eos")? {
            true => eos.into_iter().collect(),
            false if named.add_eos.is_some() => Vec::new(),
            false => read.after,
        };
        Ok(Self {
            model: Model::HuggingFace(Box::new(read.model)),
            bytes: read.listed.bytes,
            kinds: read.listed.kinds,
            specials: read.listed.specials,
            bos,
            eos,
            before,
            after,
            end_ids: read.listed.end_ids,
        })
    }

    /// The ids of `text`, nothing added.
    ///
    /// With `special`, the text of a control token becomes that token; without, never.
    /// User-defined tokens are found either way. What the vocabulary cannot spell becomes its
    /// unknown token, or is left out where byte-level BPE has no letter, as Hugging Face and
    /// llama.cpp do.
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
        let mut ids = self.before.clone();
        ids.append(&mut self.encode(text, true)?);
        ids.extend(&self.after);
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
    /// ids outside the vocabulary add nothing. Where encoding puts a space before a text, the
    /// first one is left out; [`Tokenizer::token_bytes`] has it.
    pub fn decode(&self, ids: &[u32]) -> String {
        let bytes: Vec<u8> = ids
            .iter()
            .filter_map(|id| self.token_bytes(*id))
            .flatten()
            .copied()
            .collect();
        let adds_prefix = match &self.model {
            Model::Bpe(_) => false,
            Model::SentencePiece(model) => model.adds_prefix(),
            Model::HuggingFace(model) => model.strips_space(),
        };
        let starts_with_control = ids.first().is_some_and(|id| self.is_control(*id));
        let text = match bytes.as_slice() {
            [b' ', rest @ ..] if adds_prefix && !starts_with_control => rest,
            all => all,
        };
        String::from_utf8_lossy(text).into_owned()
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
    /// The maps inside `tokenizers` are reckoned from their published layout.
    pub fn heap_bytes(&self) -> usize {
        let model = match &self.model {
            Model::Bpe(bpe) => bpe.heap_bytes(),
            Model::SentencePiece(model) => model.heap_bytes(),
            Model::HuggingFace(model) => model.heap_bytes(),
        };
        model
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
        self.bos.is_some() && self.before.first().copied() == self.bos
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
        if let Model::HuggingFace(model) = &self.model {
            return model.encode(text, allowed, &self.kinds);
        }
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
        match &self.model {
            Model::Bpe(bpe) => bpe.encode(text, ids),
            Model::SentencePiece(model) => {
                model.encode(text, &self.bytes, ids);
                Ok(())
            }
            // It finds special tokens by itself.
            Model::HuggingFace(model) => {
                ids.append(&mut model.encode(text, &[], &self.kinds)?);
                Ok(())
            }
        }
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
