use super::cursor::{Cursor, Field, Stop};
use super::{GgmlType, GgufError, Metadata};
use super::{
    MAX_ALIGNMENT, MAX_DIMENSIONS, MAX_METADATA_ENTRIES, MAX_TENSOR_NAME_BYTES, MAX_TENSORS,
};

/// Alignment of files that do not state one, in bytes.
const DEFAULT_ALIGNMENT: u64 = 32;
/// `magic`, `version`, `tensor_count`, `metadata_kv_count`.
pub(super) const FIXED_BYTES: u64 = 4 + 4 + 8 + 8;
/// Smallest tensor description: the length of an empty name, one dimension, type, offset.
const MIN_TENSOR_INFO_BYTES: u64 = 8 + 4 + 8 + 4 + 8;

/// One entry of the tensor directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorInfo {
    /// Unique among the files of a model.
    pub name: String,
    /// Elements by dimension, in GGUF order: `shape[0]` is contiguous. One to four dimensions,
    /// none of them 0.
    pub shape: Vec<u64>,
    /// How the elements are stored.
    pub ggml_type: GgmlType,
    /// First byte, counted from the start of its file.
    pub offset: u64,
    /// Bytes that the tensor takes.
    pub byte_len: u64,
}

impl TensorInfo {
    /// Elements of a row: the contiguous dimension.
    #[must_use]
    pub fn cols(&self) -> u64 {
        self.shape.first().copied().unwrap_or(0)
    }

    /// Number of rows: the product of all other dimensions.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.shape
            .iter()
            .skip(1)
            .fold(1, |rows, &dimension| rows.saturating_mul(dimension))
    }

    /// Bytes of a row.
    #[must_use]
    pub fn row_bytes(&self) -> u64 {
        self.ggml_type.row_bytes(self.cols()).unwrap_or(0)
    }
}

/// Everything before the tensor data of one file.
#[derive(Clone, Debug, PartialEq)]
pub struct Header {
    /// Version of the format, 2 or 3.
    pub version: u32,
    /// Keys and values in file order.
    pub metadata: Metadata,
    /// The tensor directory, ordered by offset; no two tensors overlap.
    pub tensors: Vec<TensorInfo>,
    /// Tensors start at multiples of this many bytes from `data_offset`.
    pub alignment: u64,
    /// Where the tensor data starts, in bytes from the start of the file.
    pub data_offset: u64,
}

/// What came of parsing a prefix of a file.
#[derive(Clone, Debug, PartialEq)]
pub enum Parsed {
    /// The header is complete.
    Header(Header),
    /// The header goes on past the prefix.
    NeedMore {
        /// The file is needed up to this byte, at the least.
        total_bytes: u64,
    },
}

/// Parses the header at the start of a file, of which `bytes` is a prefix.
///
/// `file_len` is the length of the whole file where it is known; with it, a header or tensor
/// that does not fit is found at once.
///
/// # Errors
/// A [`GgufError`] that names field, offset, value and limit where the file is not valid.
pub fn parse(bytes: &[u8], file_len: Option<u64>) -> Result<Parsed, GgufError> {
    if file_len == Some(0) {
        return Err(GgufError::Empty);
    }
    let known = file_len
        .and_then(|len| usize::try_from(len).ok())
        .unwrap_or(usize::MAX);
    let bytes = bytes.get(..known).unwrap_or(bytes);
    check_magic(bytes)?;
    match read_header(&mut Cursor::new(bytes, file_len), file_len) {
        Ok(header) => Ok(Parsed::Header(header)),
        Err(Stop::NeedMore(total_bytes)) => Ok(Parsed::NeedMore { total_bytes }),
        Err(Stop::Invalid(error)) => Err(error),
    }
}

/// Refuses as soon as the first bytes show that this is no GGUF file.
fn check_magic(bytes: &[u8]) -> Result<(), GgufError> {
    if bytes
        .iter()
        .zip(b"GGUF")
        .all(|(found, expected)| found == expected)
    {
        return Ok(());
    }
    let without_mark = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let text = without_mark.trim_ascii_start();
    if text.first() == Some(&b'<') {
        let start = text.get(..24).unwrap_or(text);
        return Err(GgufError::WebPage {
            start: String::from_utf8_lossy(start).into_owned(),
        });
    }
    Err(GgufError::Magic {
        found: bytes.iter().copied().take(4).collect(),
    })
}

fn read_header(cursor: &mut Cursor<'_>, file_len: Option<u64>) -> Result<Header, Stop> {
    cursor.take(Field::new("`magic`"), 4)?;
    let version = cursor.u32(Field::new("`version`"))?;
    check_version(version)?;
    cursor.need(Field::new("`tensor_count` and `metadata_kv_count`"), 16)?;
    let tensor_count = cursor.limited(Field::new("`tensor_count`"), MAX_TENSORS)?;
    let entry_count = cursor.limited(Field::new("`metadata_kv_count`"), MAX_METADATA_ENTRIES)?;
    let least = entry_count
        .saturating_mul(Metadata::MIN_ENTRY_BYTES)
        .saturating_add(tensor_count.saturating_mul(MIN_TENSOR_INFO_BYTES));
    cursor.need(Field::new("metadata and tensor directory"), least)?;

    let metadata = Metadata::read(cursor, entry_count)?;
    let alignment = alignment(&metadata)?;
    let mut tensors = Vec::new();
    for _ in 0..tensor_count {
        tensors.push(read_tensor_info(cursor, alignment)?);
    }
    // Both terms are far below 2^63: the cursor stays within the header's limit.
    let data_offset = cursor.offset().next_multiple_of(alignment);
    check_unique(&tensors)?;
    place(&mut tensors, data_offset, file_len)?;
    Ok(Header {
        version,
        metadata,
        tensors,
        alignment,
        data_offset,
    })
}

fn check_version(version: u32) -> Result<(), GgufError> {
    match version {
        2 | 3 => Ok(()),
        _ if version & 0xffff == 0 && version != 0 => Err(GgufError::BigEndian { version }),
        _ => Err(GgufError::Version { version }),
    }
}

fn alignment(metadata: &Metadata) -> Result<u64, GgufError> {
    let value = metadata
        .u32("general.alignment")?
        .map_or(DEFAULT_ALIGNMENT, u64::from);
    if value.is_power_of_two() && (8..=MAX_ALIGNMENT).contains(&value) {
        Ok(value)
    } else {
        Err(GgufError::Alignment {
            value,
            limit: MAX_ALIGNMENT,
        })
    }
}

/// Reads one entry of the directory; its offset is still counted from the tensor data.
fn read_tensor_info(cursor: &mut Cursor<'_>, alignment: u64) -> Result<TensorInfo, Stop> {
    let tensor = cursor.text(Field::new("a tensor name"), MAX_TENSOR_NAME_BYTES)?;
    let name = || tensor.to_owned();
    let at = cursor.offset();
    let value = cursor.u32(Field::of("`n_dimensions`", tensor))?;
    if !(1..=MAX_DIMENSIONS).contains(&value) {
        let limit = MAX_DIMENSIONS;
        return Err(GgufError::Dimensions {
            tensor: name(),
            offset: at,
            value,
            limit,
        }
        .into());
    }
    // The rest of the entry at once: dimensions, type, offset.
    let rest = u64::from(value).saturating_mul(8).saturating_add(12);
    cursor.need(Field::of("the shape", tensor), rest)?;
    let mut shape = Vec::with_capacity(4);
    for _ in 0..value {
        shape.push(cursor.u64(Field::of("a dimension", tensor))?);
    }
    let at = cursor.offset();
    let id = cursor.u32(Field::of("the type", tensor))?;
    let offset = cursor.u64(Field::of("the offset", tensor))?;
    let Some(ggml_type) = GgmlType::from_id(id) else {
        let type_name = GgmlType::name_of_id(id);
        let error = GgufError::UnsupportedType {
            tensor: name(),
            offset: at,
            id,
            name: type_name,
        };
        return Err(error.into());
    };
    if !offset.is_multiple_of(alignment) {
        return Err(GgufError::Misaligned {
            tensor: name(),
            offset,
            alignment,
        }
        .into());
    }
    let byte_len = tensor_bytes(tensor, &shape, ggml_type)?;
    Ok(TensorInfo {
        name: name(),
        shape,
        ggml_type,
        offset,
        byte_len,
    })
}

fn tensor_bytes(tensor: &str, shape: &[u64], ggml_type: GgmlType) -> Result<u64, GgufError> {
    let name = || tensor.to_owned();
    if shape.contains(&0) {
        return Err(GgufError::ZeroDimension {
            tensor: name(),
            shape: shape.to_vec(),
        });
    }
    let cols = shape.first().copied().unwrap_or(0);
    let block = ggml_type.block_elements();
    if !cols.is_multiple_of(block) {
        let type_name = ggml_type.name();
        return Err(GgufError::PartialBlock {
            tensor: name(),
            type_name,
            cols,
            block,
        });
    }
    let elements = shape
        .iter()
        .try_fold(1_u64, |product, &n| product.checked_mul(n));
    let bytes = shape
        .iter()
        .skip(1)
        .try_fold(ggml_type.row_bytes(cols), |bytes, &n| {
            Some(bytes?.checked_mul(n))
        })
        .flatten();
    match (elements, bytes) {
        (Some(_), Some(bytes)) => Ok(bytes),
        _ => Err(GgufError::TensorTooLarge {
            tensor: name(),
            shape: shape.to_vec(),
        }),
    }
}

fn check_unique(tensors: &[TensorInfo]) -> Result<(), GgufError> {
    let mut names: Vec<&str> = tensors.iter().map(|tensor| tensor.name.as_str()).collect();
    names.sort_unstable();
    let twice = names.windows(2).find_map(|pair| match *pair {
        [a, b] if a == b => Some(a),
        _ => None,
    });
    match twice {
        Some(name) => Err(GgufError::DuplicateTensor {
            tensor: name.to_owned(),
            shard: 0,
        }),
        None => Ok(()),
    }
}

/// Makes the offsets absolute, orders the tensors by them, and checks that each is within the
/// file and that none overlaps the one before.
fn place(
    tensors: &mut [TensorInfo],
    data_offset: u64,
    file_len: Option<u64>,
) -> Result<(), GgufError> {
    for tensor in &mut *tensors {
        let start = tensor.offset.checked_add(data_offset);
        let end = start.and_then(|start| start.checked_add(tensor.byte_len));
        let file_len = file_len.unwrap_or(u64::MAX);
        match (start, end) {
            (Some(start), Some(end)) if end <= file_len => tensor.offset = start,
            _ => {
                return Err(GgufError::PastEnd {
                    tensor: tensor.name.clone(),
                    offset: tensor.offset.saturating_add(data_offset),
                    byte_len: tensor.byte_len,
                    file_len,
                });
            }
        }
    }
    tensors.sort_by_key(|tensor| tensor.offset);
    for pair in tensors.windows(2) {
        let [previous, tensor] = pair else { continue };
        let end = previous.offset.saturating_add(previous.byte_len);
        if tensor.offset < end {
            return Err(GgufError::Overlap {
                tensor: tensor.name.clone(),
                offset: tensor.offset,
                previous: previous.name.clone(),
                end,
            });
        }
    }
    Ok(())
}
