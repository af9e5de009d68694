//! Reads GGUF model files: header, metadata, tensor directory, and rows of tensors as they arrive.
//!
//! [`parse`] reads a header from a prefix of a file and says how many bytes it needs when the
//! prefix is too short. [`Reader`] drives it over arriving bytes, of one file or of shards in
//! order, and hands tensors on as slabs of whole rows, so that no tensor is ever held whole.
//!
//! Files come from strangers. Every length, count and offset is checked against the bytes at
//! hand, against the file's length where it is known, and against the limits below, before
//! anything is allocated for it. What a header occupies in memory is thereby at most about the
//! size of its bytes, plus a fixed cost for each key and tensor, whose numbers are limited.
//!
//! Versions 2 and 3, little endian, are read. Source of the format:
//! <https://github.com/ggml-org/ggml/blob/master/docs/gguf.md>.
#![deny(clippy::arithmetic_side_effects)]

mod cursor;
mod error;
mod ggml_type;
mod header;
mod metadata;
mod reader;
mod shards;
mod slab;
mod value;

pub use error::GgufError;
pub use ggml_type::GgmlType;
pub use header::{Header, Parsed, TensorInfo, parse};
pub use metadata::Metadata;
pub use reader::{Reader, Sink};
pub use value::{Array, StringArray, Value};

/// Longest header that is read, in bytes: the largest known vocabularies need about 12 MiB.
pub const MAX_HEADER_BYTES: u64 = 256 << 20;
/// Most metadata keys that a file may have; real ones have fewer than a hundred.
pub const MAX_METADATA_ENTRIES: u64 = 4096;
/// Most tensors that one file may have; real ones have fewer than three thousand.
pub const MAX_TENSORS: u64 = 16_384;
/// Longest metadata key, in bytes, as the format states it.
pub const MAX_KEY_BYTES: u64 = 65_535;
/// Longest tensor name, in bytes. The format says 64; some writers exceed it.
pub const MAX_TENSOR_NAME_BYTES: u64 = 1024;
/// Most dimensions of a tensor, as in ggml.
pub const MAX_DIMENSIONS: u32 = 4;
/// Largest `general.alignment`, in bytes; the smallest is 8.
pub const MAX_ALIGNMENT: u64 = 1 << 20;
