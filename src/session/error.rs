//! What a session can refuse.

use super::fit::Shortage;
use crate::backend::BackendError;
use crate::gguf::GgufError;
use crate::model::ModelError;
use crate::tokenizer::{TemplateError, TokenizerError};

/// Failure of loading, generating, scoring or embedding.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// An option outside its limits.
    #[error("option {name:?} is {value}; it must be {limit}")]
    InvalidOption {
        /// Option as the caller spells it.
        name: String,
        /// Its value.
        value: String,
        /// What is allowed.
        limit: String,
    },
    /// An option that does not exist.
    #[error("there is no option {name:?}; options: {known}")]
    UnknownOption {
        /// Option as the caller spells it.
        name: String,
        /// Options that exist.
        known: String,
    },
    /// A form of answers that cannot be used.
    #[error("option {place:?} cannot be used: {why}")]
    Grammar {
        /// Where in the options the fault lies.
        place: String,
        /// What is wrong with it.
        why: String,
    },
    /// A prompt longer than the context.
    #[error(
        "the prompt has {prompt_tokens} tokens, the context {context_length}; \
         shorten the prompt or load the model with a larger contextLength"
    )]
    ContextFull {
        /// Tokens of the prompt.
        prompt_tokens: usize,
        /// Positions of the KV cache.
        context_length: usize,
    },
    /// A model that there is no room for, as its header tells.
    #[error(
        "{} takes {} bytes, and there are {} at most: {}",
        shortage.what, shortage.need, shortage.have, advice(*longest_context)
    )]
    NoRoom {
        /// What there is too little of.
        shortage: Shortage,
        /// The longest context that there would be room for, tokens.
        longest_context: usize,
        /// It is the host's memory that is short.
        on_host: bool,
    },
    /// Nothing to continue.
    #[error("the prompt has no tokens; give at least one character")]
    EmptyPrompt,
    /// A token id outside the vocabulary.
    #[error("token id {id} is outside the vocabulary of {vocab_size}")]
    TokenId {
        /// The id.
        id: u32,
        /// Tokens of the vocabulary.
        vocab_size: usize,
    },
    /// Messages for a model that has no chat template.
    #[error("this model file has no chat template; pass the prompt as a string instead")]
    NoChatTemplate,
    /// A broken promise inside this library.
    #[error("{0}")]
    Internal(&'static str),
    /// The file.
    #[error(transparent)]
    Gguf(#[from] GgufError),
    /// The model's description or weights.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The backend.
    #[error(transparent)]
    Backend(#[from] BackendError),
    /// The tokenizer.
    #[error(transparent)]
    Tokenizer(#[from] TokenizerError),
    /// The `tokenizer.json` that the caller gave.
    #[error("option \"tokenizer\" cannot be used: {0}")]
    TokenizerOption(TokenizerError),
    /// The chat template.
    #[error(transparent)]
    Template(#[from] TemplateError),
}

impl SessionError {
    /// The kebab-case code of the public interface.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::ContextFull { .. } => "context-full",
            Self::InvalidOption { .. }
            | Self::UnknownOption { .. }
            | Self::Grammar { .. }
            | Self::TokenizerOption(_)
            | Self::EmptyPrompt
            | Self::TokenId { .. }
            | Self::NoChatTemplate => "invalid-option",
            Self::NoRoom { .. } => "out-of-memory",
            Self::Internal(_) => "internal",
            Self::Gguf(error) => error.code(),
            Self::Model(error) => error.code(),
            Self::Backend(error) => error.code(),
            Self::Tokenizer(error) => error.code(),
            Self::Template(error) => error.code(),
        }
    }
}

fn advice(longest_context: usize) -> String {
    match longest_context {
        0 => "use a smaller model".to_owned(),
        tokens => format!("use a contextLength of at most {tokens}, or a smaller model"),
    }
}
