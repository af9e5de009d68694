//! What the metadata of a GGUF file says about its tokenizer.

/// A list of byte strings that someone else holds, such as an array of a GGUF header.
pub trait Strings {
    /// Number of entries.
    fn len(&self) -> usize;
    /// The bytes of an entry, `None` past the end.
    fn get(&self, index: usize) -> Option<&[u8]>;
    /// True when there are no entries.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<S: AsRef<[u8]>> Strings for [S] {
    fn len(&self) -> usize {
        <[S]>::len(self)
    }

    fn get(&self, index: usize) -> Option<&[u8]> {
        <[S]>::get(self, index).map(AsRef::as_ref)
    }
}

impl<S: AsRef<[u8]>> Strings for Vec<S> {
    fn len(&self) -> usize {
        Vec::len(self)
    }

    fn get(&self, index: usize) -> Option<&[u8]> {
        self.as_slice().get(index).map(AsRef::as_ref)
    }
}

/// The small fields of `tokenizer.ggml.*`; tokens and merges are handed over apart, because the
/// header already holds them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Vocabulary {
    /// `tokenizer.ggml.model`; `gpt2` is byte-level BPE, `llama` SentencePiece's.
    pub model: String,
    /// `tokenizer.ggml.pre`, the splitting rules; empty when absent, which means `default`.
    pub pre: String,
    /// `tokenizer.ggml.token_type`, one per token, or empty when absent.
    pub token_types: Vec<i32>,
    /// `tokenizer.ggml.scores`, one per token; only SentencePiece vocabularies need them.
    pub scores: Vec<f32>,
    /// `tokenizer.ggml.bos_token_id`.
    pub bos: Option<u32>,
    /// `tokenizer.ggml.eos_token_id`.
    pub eos: Option<u32>,
    /// `tokenizer.ggml.eot_token_id`.
    pub eot: Option<u32>,
    /// `tokenizer.ggml.eom_token_id`.
    pub eom: Option<u32>,
    /// `tokenizer.ggml.unknown_token_id`.
    pub unknown: Option<u32>,
    /// `tokenizer.ggml.padding_token_id`.
    pub padding: Option<u32>,
    /// `tokenizer.ggml.add_bos_token`.
    pub add_bos: Option<bool>,
    /// `tokenizer.ggml.add_eos_token`.
    pub add_eos: Option<bool>,
    /// `tokenizer.ggml.add_space_prefix`, true when absent; byte-level BPE never adds one.
    pub add_space_prefix: Option<bool>,
}

impl Vocabulary {
    /// The ids that the file names, each with its metadata key.
    pub(super) fn named_ids(&self) -> [(&'static str, Option<u32>); 6] {
        [
            ("tokenizer.ggml.bos_token_id", self.bos),
            ("tokenizer.ggml.eos_token_id", self.eos),
            ("tokenizer.ggml.eot_token_id", self.eot),
            ("tokenizer.ggml.eom_token_id", self.eom),
            ("tokenizer.ggml.unknown_token_id", self.unknown),
            ("tokenizer.ggml.padding_token_id", self.padding),
        ]
    }
}
