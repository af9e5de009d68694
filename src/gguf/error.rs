use thiserror::Error;

/// Why a file is no model that can be read. Offsets are bytes from the start of the file.
#[derive(Debug, Clone, PartialEq, Error)]
#[expect(missing_docs, reason = "each message names its fields")]
pub enum GgufError {
    /// The file has no bytes.
    #[error("the file is empty (0 bytes): check the URL, or choose another file")]
    Empty,
    /// Markup where a model was expected.
    #[error(
        "the server sent a web page instead of a model (it starts with {start:?}): check the URL, \
         it must lead to the .gguf file itself"
    )]
    WebPage { start: String },
    /// The first four bytes are not `GGUF`.
    #[error(
        "not a GGUF file: `magic` at byte 0 is \"{}\", expected \"GGUF\": check the URL, or \
         convert the model to GGUF",
        found.escape_ascii()
    )]
    Magic { found: Vec<u8> },
    /// Written for a big-endian machine.
    #[error(
        "`version` at byte 4 reads {version:#010x}: a big-endian GGUF file, only little-endian \
         ones are read; convert it with gguf_convert_endian.py"
    )]
    BigEndian { version: u32 },
    /// A version of the format that is not read.
    #[error(
        "`version` at byte 4 is {version}, supported are 2 and 3: convert the model again with a \
         current tool"
    )]
    Version { version: u32 },
    /// The file ends inside a field of the header, or inside a tensor.
    #[error(
        "the file is cut off: {field} at byte {offset} needs at least {need} bytes, {left} are \
         left in the file; download it again"
    )]
    Truncated {
        field: String,
        offset: u64,
        need: u64,
        left: u64,
    },
    /// A count or length above its limit.
    #[error(
        "{field} at byte {offset} is {value}, the limit is {limit}: the file is damaged or made \
         by a faulty tool; use another file"
    )]
    Limit {
        field: String,
        offset: u64,
        value: u64,
        limit: u64,
    },
    /// The header would extend past the limit.
    #[error(
        "the header extends to byte {end} at least, because of {field} at byte {offset}; the \
         limit is {limit} bytes: the file is damaged, download it again or use another"
    )]
    HeaderTooLarge {
        field: String,
        offset: u64,
        end: u64,
        limit: u64,
    },
    /// No such value type.
    #[error(
        "{field} at byte {offset} is {value}, known types are 0 to 12: the file is damaged, \
         download it again or use another"
    )]
    ValueType {
        field: String,
        offset: u64,
        value: u32,
    },
    /// An array whose elements are arrays.
    #[error(
        "the value of {key:?} at byte {offset} is an array of arrays, which no known key has: \
         use another file"
    )]
    NestedArray { key: String, offset: u64 },
    /// A truth value other than 0 and 1.
    #[error(
        "the value of {key:?} at byte {offset} is a bool of {value}, only 0 and 1 are valid: the \
         file is damaged, use another"
    )]
    Bool { key: String, offset: u64, value: u8 },
    /// Text that is not UTF-8.
    #[error("{field} at byte {offset} is not valid UTF-8: the file is damaged, use another")]
    Utf8 { field: String, offset: u64 },
    /// The same metadata key twice.
    #[error("the metadata key {key:?} is there twice: the file is ambiguous, use another")]
    DuplicateKey { key: String },
    /// The same tensor twice, in one file or in two shards.
    #[error(
        "the tensor {tensor:?} is there twice (again in file {shard}, counted from 0): use each \
         shard once, or another file"
    )]
    DuplicateTensor { tensor: String, shard: usize },
    /// A metadata value of another type, or outside the range that is asked for.
    #[error("the metadata value {key:?} must be {expected}, found {found}: use another file")]
    MetadataType {
        key: String,
        expected: &'static str,
        found: String,
    },
    /// `general.alignment` out of range.
    #[error(
        "`general.alignment` is {value}, it must be a power of two from 8 to {limit}: use another \
         file"
    )]
    Alignment { value: u64, limit: u64 },
    /// No dimensions, or too many.
    #[error(
        "`n_dimensions` of tensor {tensor:?} at byte {offset} is {value}, valid are 1 to {limit}: \
         use another file"
    )]
    Dimensions {
        tensor: String,
        offset: u64,
        value: u32,
        limit: u32,
    },
    /// A dimension of 0.
    #[error("tensor {tensor:?} has shape {shape:?}, no dimension may be 0: use another file")]
    ZeroDimension { tensor: String, shape: Vec<u64> },
    /// A size that does not fit 64 bits.
    #[error("tensor {tensor:?} of shape {shape:?} has more than 2^64 bytes: use another file")]
    TensorTooLarge { tensor: String, shape: Vec<u64> },
    /// Rows that are no whole number of blocks.
    #[error(
        "tensor {tensor:?} has rows of {cols} elements, {type_name} needs a multiple of {block}: \
         use another file or another quantization"
    )]
    PartialBlock {
        tensor: String,
        type_name: &'static str,
        cols: u64,
        block: u64,
    },
    /// A tensor type that is not supported.
    #[error(
        "tensor {tensor:?} (type at byte {offset}) has type {} (id {id}), which is not supported: \
         use a file with another quantization, such as Q4_0, Q4_K_M or Q8_0",
        name.unwrap_or("unknown")
    )]
    UnsupportedType {
        tensor: String,
        offset: u64,
        id: u32,
        name: Option<&'static str>,
    },
    /// A tensor that does not start at a multiple of the alignment.
    #[error(
        "tensor {tensor:?} starts at byte {offset} of the tensor data, which is no multiple of \
         the alignment {alignment}: use another file"
    )]
    Misaligned {
        tensor: String,
        offset: u64,
        alignment: u64,
    },
    /// Two tensors that share bytes.
    #[error(
        "tensor {tensor:?} starts at byte {offset}, before {previous:?} ends at byte {end}: use \
         another file"
    )]
    Overlap {
        tensor: String,
        offset: u64,
        previous: String,
        end: u64,
    },
    /// A tensor outside the file.
    #[error(
        "tensor {tensor:?} takes {byte_len} bytes from byte {offset}, the file has {file_len}: \
         the file is cut off or damaged, download it again"
    )]
    PastEnd {
        tensor: String,
        offset: u64,
        byte_len: u64,
        file_len: u64,
    },
    /// One row larger than a slab.
    #[error(
        "tensor {tensor:?} has rows of {row_bytes} bytes, the limit is {limit}: use another file"
    )]
    RowTooLong {
        tensor: String,
        row_bytes: u64,
        limit: u64,
    },
    /// More or fewer bytes than the source announced.
    #[error(
        "file {shard} (counted from 0) was announced with {announced} bytes, {received} arrived: \
         download it again"
    )]
    FileLength {
        shard: usize,
        announced: u64,
        received: u64,
    },
    /// A model in shards, given as another number of files.
    #[error(
        "`split.count` of file {shard} (counted from 0) says that the model has {count} files, \
         {given} are given: give all shards, in order"
    )]
    ShardCount {
        shard: usize,
        count: u32,
        given: usize,
    },
    /// A file among several that does not say which shard it is.
    #[error(
        "file {shard} (counted from 0) has no `{key}`, so it is no shard of a model: give one \
         file, or all shards of one model in order"
    )]
    NotAShard { shard: usize, key: &'static str },
    /// Shards in another order.
    #[error(
        "file {shard} (counted from 0) is shard {number} by its `split.no`: give the shards in \
         order"
    )]
    ShardOrder { shard: usize, number: u32 },
    /// The shards do not hold the announced number of tensors, or disagree on it.
    #[error(
        "`split.tensors.count` of file {shard} (counted from 0) is {expected}, found {found}: the \
         shards do not belong together, download them again"
    )]
    ShardTensors {
        shard: usize,
        expected: u32,
        found: u64,
    },
    /// Bytes past the last file, or files that never ended.
    #[error("{ended} of {given} files were read to their end: give all shards, in order")]
    ShardsRead { ended: usize, given: usize },
    /// Use of a reader after it failed.
    #[error("an earlier error ended the reading of this file: load it again")]
    Stopped,
}

impl GgufError {
    /// The public error code: `unsupported-quantization` for a tensor type that is not
    /// supported, `invalid-gguf` for all else.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::UnsupportedType { .. } => "unsupported-quantization",
            _ => "invalid-gguf",
        }
    }
}
