//! What can go wrong in this stage.

use super::pre_tokenizer::SUPPORTED_PRE_TOKENIZERS;

/// Why a vocabulary was refused or a text could not be encoded.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum TokenizerError {
    /// `tokenizer.ggml.model` names a kind of tokenizer that is not built in.
    #[error(
        "tokenizer.ggml.model is \"{found}\", but only \"gpt2\" (byte-level BPE) and \"llama\" \
         (SentencePiece) are supported; choose a model with such a tokenizer"
    )]
    UnsupportedModel {
        /// The value in the file.
        found: String,
    },
    /// `tokenizer.ggml.pre` names splitting rules that are not built in.
    #[error(
        "tokenizer.ggml.pre is \"{found}\", but only {} are supported; \
         another rule would silently give other ids",
        SUPPORTED_PRE_TOKENIZERS.join(", ")
    )]
    UnsupportedPre {
        /// The value in the file.
        found: String,
    },
    /// The file lists no tokens.
    #[error("tokenizer.ggml.tokens is empty; the file is no complete model, fetch it again")]
    EmptyVocabulary,
    /// More tokens than ids can count.
    #[error("tokenizer.ggml.tokens has {count} entries, but ids end at {limit}")]
    TooManyTokens {
        /// Entries in the file.
        count: usize,
        /// The largest count accepted.
        limit: usize,
    },
    /// The list of token types is neither absent nor as long as the list of tokens.
    #[error("tokenizer.ggml.token_type has {types} entries for {tokens} tokens; they must match")]
    TokenTypeCount {
        /// Entries of `tokenizer.ggml.tokens`.
        tokens: usize,
        /// Entries of `tokenizer.ggml.token_type`.
        types: usize,
    },
    /// A SentencePiece vocabulary whose scores are absent or not as many as its tokens.
    #[error("tokenizer.ggml.scores has {scores} entries for {tokens} tokens; they must match")]
    ScoreCount {
        /// Entries of `tokenizer.ggml.tokens`.
        tokens: usize,
        /// Entries of `tokenizer.ggml.scores`.
        scores: usize,
    },
    /// A token type outside 0 to 6.
    #[error("tokenizer.ggml.token_type[{id}] is {value}; GGUF defines 0 to 6")]
    InvalidTokenType {
        /// The token.
        id: u32,
        /// The value in the file.
        value: i32,
    },
    /// An entry that is absent or no UTF-8.
    #[error("{field}[{index}] is not valid UTF-8; the file is damaged, fetch it again")]
    InvalidUtf8 {
        /// The metadata key.
        field: &'static str,
        /// The entry.
        index: usize,
    },
    /// Two ids for one text, so that encoding would be a guess.
    #[error("tokens {first} and {second} are both \"{text}\"; each text may have one id only")]
    DuplicateToken {
        /// The text of both.
        text: String,
        /// The lower id.
        first: u32,
        /// The higher id.
        second: u32,
    },
    /// A special token's id points outside the vocabulary.
    #[error("{field} is {id}, but the vocabulary has {vocab_size} tokens")]
    IdOutOfRange {
        /// The metadata key.
        field: &'static str,
        /// The value in the file.
        id: u32,
        /// Number of tokens.
        vocab_size: usize,
    },
    /// The file asks for a token at each prompt's edge and does not say which.
    #[error("{flag} is true, but {field} is missing; the file does not say which token to add")]
    MissingSpecialToken {
        /// The flag that asks.
        flag: &'static str,
        /// The key that is absent.
        field: &'static str,
    },
    /// A merge that is not two parts with one space between.
    #[error("tokenizer.ggml.merges[{index}] is \"{text}\"; a merge is two tokens and one space")]
    InvalidMerge {
        /// The merge.
        index: usize,
        /// The entry.
        text: String,
    },
    /// A merge of, or into, a token that the vocabulary does not have.
    #[error("tokenizer.ggml.merges[{index}] needs the token \"{token}\", which is not listed")]
    UnknownMergeToken {
        /// The merge.
        index: usize,
        /// The missing token.
        token: String,
    },
    /// A control or user-defined token too long to search for.
    #[error("special token {id} is {bytes} bytes long; the limit is {limit}")]
    SpecialTokenTooLong {
        /// The token.
        id: u32,
        /// Its length.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// The splitting rule gave up, as it can on very long runs of blanks.
    #[error(
        "the text could not be split at byte {offset} within the limits of the splitting rule; \
         shorten the run of blanks there"
    )]
    TextTooComplex {
        /// Offset within the piece of text between special tokens.
        offset: usize,
    },
    /// A `tokenizer.json` that cannot be read.
    #[error("the tokenizer.json is not valid: {reason}")]
    InvalidJson {
        /// What is wrong, and where.
        reason: String,
    },
    /// A `tokenizer.json` with a step that is not built in.
    #[error("the {part} of the tokenizer.json is {found}, which is not supported")]
    UnsupportedJson {
        /// Which step.
        part: &'static str,
        /// What the file has there.
        found: String,
    },
    /// A `tokenizer.json` of another model.
    #[error(
        "the tokenizer.json lists {tokens} tokens, but the model has rows for {rows}; \
         take the one that belongs to the model"
    )]
    OtherVocabulary {
        /// Tokens in the file.
        tokens: usize,
        /// Rows of the model's embeddings.
        rows: usize,
    },
    /// A step of a `tokenizer.json` gave up on a text.
    #[error("the tokenizer.json gives up on this text: {reason}; shorten it")]
    StepFailed {
        /// What the step says.
        reason: String,
    },
    /// The BPE library refused; the checks above should have come first.
    #[error("the BPE model refused: {reason}")]
    Bpe {
        /// The library's sentence.
        reason: String,
    },
}

/// Why a chat template was refused or did not render.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum TemplateError {
    /// The template is longer than any real one.
    #[error("the chat template is {bytes} bytes long; the limit is {limit}")]
    TooLong {
        /// Length of the source.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// The template nests or chains more than the stack is sure to hold.
    #[error("the chat template has more than {limit} {what} at line {line}; pass a raw prompt")]
    TooDeep {
        /// 1-based line.
        line: usize,
        /// What there is too much of.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
    /// The template is not valid Jinja, or uses what is not supported.
    #[error("the chat template has an error in line {line}: {reason}; pass a raw prompt instead")]
    Syntax {
        /// 1-based line, 0 when unknown.
        line: usize,
        /// The engine's sentence.
        reason: String,
    },
    /// The template called `raise_exception`: these messages do not fit it.
    #[error("the chat template refuses these messages: {message}")]
    Raised {
        /// What the template says.
        message: String,
    },
    /// The template did more work than a prompt needs.
    #[error(
        "the chat template exceeded its budget of {fuel} steps (each also pays for 64 bytes); \
         it loops or grows without need, pass a raw prompt instead"
    )]
    OutOfFuel {
        /// The budget of this call.
        fuel: u64,
    },
    /// The prompt grew past its limit.
    #[error("the chat template wrote more than {limit} bytes; shorten the messages")]
    OutputTooLong {
        /// The limit of this call.
        limit: usize,
    },
    /// An operation failed while rendering.
    #[error("the chat template failed in line {line}: {reason}")]
    Render {
        /// 1-based line, 0 when unknown.
        line: usize,
        /// The engine's sentence.
        reason: String,
    },
    /// A role that could be mistaken for template text.
    #[error(
        "messages[{index}].role is \"{role}\"; a role has 1 to 64 ASCII letters, digits, \
         underscores or hyphens, such as user"
    )]
    InvalidRole {
        /// The message.
        index: usize,
        /// Its role.
        role: String,
    },
    /// A variable that is nested deeper than the stack is sure to hold.
    #[error("the template variable {name:?} nests lists and objects more than {limit} levels deep")]
    VariableTooDeep {
        /// The variable.
        name: String,
        /// The limit.
        limit: usize,
    },
    /// `strftime_now` was asked for a conversion that it does not have.
    #[error("strftime_now does not know %{conversion}; the template needs another date format")]
    UnknownTimeFormat {
        /// The letter after the percent sign.
        conversion: char,
    },
    /// The messages use more distinct characters than can be told apart.
    #[error("the messages use up the private-use characters that rendering needs; remove some")]
    NoFreeCharacters,
}

impl TokenizerError {
    /// The kebab-case code of the public interface.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::UnsupportedModel { .. }
            | Self::UnsupportedPre { .. }
            | Self::UnsupportedJson { .. } => "unsupported-architecture",
            Self::TextTooComplex { .. } | Self::StepFailed { .. } => "invalid-option",
            _ => "invalid-gguf",
        }
    }
}

impl TemplateError {
    /// The kebab-case code of the public interface: `invalid-option` where other messages
    /// would do, `invalid-gguf` where the template itself is at fault.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Raised { .. }
            | Self::OutOfFuel { .. }
            | Self::OutputTooLong { .. }
            | Self::InvalidRole { .. }
            | Self::VariableTooDeep { .. }
            | Self::NoFreeCharacters => "invalid-option",
            Self::TooLong { .. }
            | Self::TooDeep { .. }
            | Self::Syntax { .. }
            | Self::Render { .. }
            | Self::UnknownTimeFormat { .. } => "invalid-gguf",
        }
    }
}
