//! Text to token ids and back, as the model's own file describes it.
//!
//! ```text
//! GGUF metadata ─► Vocabulary ─► Tokenizer ─► ids
//! tokenizer.json ───────────────┘
//! ids           ─► token_bytes ─► Detokenizer ─► text
//! chat template ─► ChatTemplate ─► Segments ─► Tokenizer::encode_segments
//! ```
//!
//! The ids are those of Hugging Face's `tokenizers` for the same vocabulary. Text that a user
//! wrote never becomes a control token: see [`ChatTemplate::render_segments`].

mod bpe;
mod byte_alphabet;
mod chat_template;
mod detokenizer;
mod error;
mod guard;
mod hugging_face;
mod json;
mod listed;
mod pre_tokenizer;
mod sentence_piece;
mod special;
mod split_rules;
mod strftime;
mod template_bounds;
mod tokens;
mod vocabulary;

pub use chat_template::{ChatMessage, ChatTemplate, TemplateOptions};
pub use detokenizer::Detokenizer;
pub use error::{TemplateError, TokenizerError};
pub use guard::Segment;
pub use pre_tokenizer::SUPPORTED_PRE_TOKENIZERS;
pub use strftime::Now;
pub use tokens::Tokenizer;
pub use vocabulary::{Strings, Vocabulary};
