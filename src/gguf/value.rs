use std::fmt;

use super::cursor::{Cursor, Field, Stop};
use super::{GgufError, MAX_HEADER_BYTES};

/// Many strings in one allocation. They are bytes: tokens need not be valid UTF-8.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct StringArray {
    bytes: Box<[u8]>,
    /// Where each string ends in `bytes`.
    ends: Box<[u32]>,
}

impl StringArray {
    /// Number of strings.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Bytes of all strings.
    #[must_use]
    pub fn byte_len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether there is no string.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The bytes of string `i`, `None` past the end.
    #[must_use]
    pub fn get(&self, i: usize) -> Option<&[u8]> {
        let end = *self.ends.get(i)?;
        let start = i
            .checked_sub(1)
            .and_then(|before| self.ends.get(before))
            .copied();
        self.bytes.get(start.unwrap_or(0) as usize..end as usize)
    }

    /// String `i` as text, `None` past the end or where it is not valid UTF-8.
    #[must_use]
    pub fn get_str(&self, i: usize) -> Option<&str> {
        str::from_utf8(self.get(i)?).ok()
    }

    /// The bytes of each string, in file order.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.len()).filter_map(|i| self.get(i))
    }

    /// Bytes held on the heap.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        self.bytes.len().saturating_add(size_of_val(&*self.ends))
    }
}

impl fmt::Debug for StringArray {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "StringArray({} strings, {} bytes)",
            self.len(),
            self.bytes.len()
        )
    }
}

/// The elements of an array value, all of one type. Arrays of arrays are not read.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "named after their element type")]
pub enum Array {
    U8(Box<[u8]>),
    I8(Box<[i8]>),
    U16(Box<[u16]>),
    I16(Box<[i16]>),
    U32(Box<[u32]>),
    I32(Box<[i32]>),
    F32(Box<[f32]>),
    Bool(Box<[bool]>),
    String(StringArray),
    U64(Box<[u64]>),
    I64(Box<[i64]>),
    F64(Box<[f64]>),
}

impl Array {
    /// Number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::U8(v) => v.len(),
            Self::I8(v) => v.len(),
            Self::U16(v) => v.len(),
            Self::I16(v) => v.len(),
            Self::U32(v) => v.len(),
            Self::I32(v) => v.len(),
            Self::F32(v) => v.len(),
            Self::Bool(v) => v.len(),
            Self::String(v) => v.len(),
            Self::U64(v) => v.len(),
            Self::I64(v) => v.len(),
            Self::F64(v) => v.len(),
        }
    }

    /// Whether there is no element.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn type_name(&self) -> &'static str {
        match self {
            Self::U8(_) => "an array of u8",
            Self::I8(_) => "an array of i8",
            Self::U16(_) => "an array of u16",
            Self::I16(_) => "an array of i16",
            Self::U32(_) => "an array of u32",
            Self::I32(_) => "an array of i32",
            Self::F32(_) => "an array of f32",
            Self::Bool(_) => "an array of bool",
            Self::String(_) => "an array of strings",
            Self::U64(_) => "an array of u64",
            Self::I64(_) => "an array of i64",
            Self::F64(_) => "an array of f64",
        }
    }

    /// The elements as wide integers; `None` where they are no integers.
    pub(super) fn integers(&self) -> Option<Box<dyn Iterator<Item = i128> + '_>> {
        fn wide<T: Copy + Into<i128>>(values: &[T]) -> Box<dyn Iterator<Item = i128> + '_> {
            Box::new(values.iter().map(|&value| value.into()))
        }
        match self {
            Self::U8(v) => Some(wide(v)),
            Self::I8(v) => Some(wide(v)),
            Self::U16(v) => Some(wide(v)),
            Self::I16(v) => Some(wide(v)),
            Self::U32(v) => Some(wide(v)),
            Self::I32(v) => Some(wide(v)),
            Self::U64(v) => Some(wide(v)),
            Self::I64(v) => Some(wide(v)),
            Self::F32(_) | Self::F64(_) | Self::Bool(_) | Self::String(_) => None,
        }
    }
}

/// One metadata value.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "named after their type")]
pub enum Value {
    U8(u8),
    I8(i8),
    U16(u16),
    I16(i16),
    U32(u32),
    I32(i32),
    F32(f32),
    Bool(bool),
    String(String),
    Array(Array),
    U64(u64),
    I64(i64),
    F64(f64),
}

impl Value {
    /// Type and, of a number, the value; for errors.
    pub(super) fn describe(&self) -> String {
        match self {
            Self::U8(v) => format!("the u8 {v}"),
            Self::I8(v) => format!("the i8 {v}"),
            Self::U16(v) => format!("the u16 {v}"),
            Self::I16(v) => format!("the i16 {v}"),
            Self::U32(v) => format!("the u32 {v}"),
            Self::I32(v) => format!("the i32 {v}"),
            Self::F32(v) => format!("the f32 {v}"),
            Self::Bool(v) => format!("the bool {v}"),
            Self::String(_) => "a string".to_owned(),
            Self::Array(v) => v.type_name().to_owned(),
            Self::U64(v) => format!("the u64 {v}"),
            Self::I64(v) => format!("the i64 {v}"),
            Self::F64(v) => format!("the f64 {v}"),
        }
    }

    pub(super) fn integer(&self) -> Option<i128> {
        match *self {
            Self::U8(v) => Some(v.into()),
            Self::I8(v) => Some(v.into()),
            Self::U16(v) => Some(v.into()),
            Self::I16(v) => Some(v.into()),
            Self::U32(v) => Some(v.into()),
            Self::I32(v) => Some(v.into()),
            Self::U64(v) => Some(v.into()),
            Self::I64(v) => Some(v.into()),
            Self::F32(_) | Self::F64(_) | Self::Bool(_) | Self::String(_) | Self::Array(_) => None,
        }
    }
}

/// Reads a value's type and the value, which belongs to `key`.
pub(super) fn read_value(cursor: &mut Cursor<'_>, key: &str) -> Result<Value, Stop> {
    let field = Field::of("the value type", key);
    let offset = cursor.offset();
    let type_id = cursor.u32(field)?;
    let value = Field::of("the value", key);
    Ok(match type_id {
        0 => Value::U8(u8::from_le_bytes(cursor.array(value)?)),
        1 => Value::I8(i8::from_le_bytes(cursor.array(value)?)),
        2 => Value::U16(u16::from_le_bytes(cursor.array(value)?)),
        3 => Value::I16(i16::from_le_bytes(cursor.array(value)?)),
        4 => Value::U32(cursor.u32(value)?),
        5 => Value::I32(i32::from_le_bytes(cursor.array(value)?)),
        6 => Value::F32(f32::from_le_bytes(cursor.array(value)?)),
        7 => {
            let offset = cursor.offset();
            let [byte] = cursor.array(value)?;
            Value::Bool(truth(key, offset, byte)?)
        }
        8 => Value::String(cursor.text(value, MAX_HEADER_BYTES)?.to_owned()),
        9 => Value::Array(read_array(cursor, key)?),
        10 => Value::U64(cursor.u64(value)?),
        11 => Value::I64(i64::from_le_bytes(cursor.array(value)?)),
        12 => Value::F64(f64::from_le_bytes(cursor.array(value)?)),
        _ => {
            let field = field.to_string();
            return Err(GgufError::ValueType {
                field,
                offset,
                value: type_id,
            }
            .into());
        }
    })
}

fn truth(key: &str, offset: u64, byte: u8) -> Result<bool, GgufError> {
    match byte {
        0 => Ok(false),
        1 => Ok(true),
        value => Err(GgufError::Bool {
            key: key.to_owned(),
            offset,
            value,
        }),
    }
}

fn read_array(cursor: &mut Cursor<'_>, key: &str) -> Result<Array, Stop> {
    let field = Field::of("the element type", key);
    let offset = cursor.offset();
    let type_id = cursor.u32(field)?;
    let count = cursor.limited(Field::of("the array length", key), MAX_HEADER_BYTES)?;
    Ok(match type_id {
        0 => Array::U8(numbers(cursor, key, count, u8::from_le_bytes)?),
        1 => Array::I8(numbers(cursor, key, count, i8::from_le_bytes)?),
        2 => Array::U16(numbers(cursor, key, count, u16::from_le_bytes)?),
        3 => Array::I16(numbers(cursor, key, count, i16::from_le_bytes)?),
        4 => Array::U32(numbers(cursor, key, count, u32::from_le_bytes)?),
        5 => Array::I32(numbers(cursor, key, count, i32::from_le_bytes)?),
        6 => Array::F32(numbers(cursor, key, count, f32::from_le_bytes)?),
        7 => Array::Bool(truths(cursor, key, count)?),
        8 => Array::String(strings(cursor, key, count)?),
        9 => {
            return Err(GgufError::NestedArray {
                key: key.to_owned(),
                offset,
            }
            .into());
        }
        10 => Array::U64(numbers(cursor, key, count, u64::from_le_bytes)?),
        11 => Array::I64(numbers(cursor, key, count, i64::from_le_bytes)?),
        12 => Array::F64(numbers(cursor, key, count, f64::from_le_bytes)?),
        _ => {
            let field = field.to_string();
            return Err(GgufError::ValueType {
                field,
                offset,
                value: type_id,
            }
            .into());
        }
    })
}

fn numbers<T, const N: usize>(
    cursor: &mut Cursor<'_>,
    key: &str,
    count: u64,
    convert: fn([u8; N]) -> T,
) -> Result<Box<[T]>, Stop> {
    let bytes = cursor.take(Field::of("the array", key), count.saturating_mul(N as u64))?;
    let (elements, _) = bytes.as_chunks::<N>();
    Ok(elements.iter().map(|&element| convert(element)).collect())
}

fn truths(cursor: &mut Cursor<'_>, key: &str, count: u64) -> Result<Box<[bool]>, Stop> {
    let start = cursor.offset();
    let bytes = cursor.take(Field::of("the array", key), count)?;
    let one = |(i, &byte): (usize, &u8)| truth(key, start.saturating_add(i as u64), byte);
    Ok(bytes
        .iter()
        .enumerate()
        .map(one)
        .collect::<Result<_, _>>()?)
}

/// Reads `count` strings: once over the lengths, so that all bytes are known to be at hand,
/// then once to copy them into allocations of exactly their size.
fn strings(cursor: &mut Cursor<'_>, key: &str, count: u64) -> Result<StringArray, Stop> {
    let field = Field::of("the array", key);
    let element = Field::of("a string", key);
    cursor.need(field, count.saturating_mul(8))?;
    let start = cursor.offset();
    for _ in 0..count {
        let length = cursor.u64(element)?;
        cursor.take(element, length)?;
    }
    let packed = cursor.taken_since(start);
    let lengths = size_of::<u64>().saturating_mul(usize::try_from(count).unwrap_or(usize::MAX));
    let mut bytes = Vec::with_capacity(packed.len().saturating_sub(lengths));
    let mut ends = Vec::with_capacity(usize::try_from(count).unwrap_or(0));
    let mut again = Cursor::new(packed, None);
    for _ in 0..count {
        let length = again.u64(element)?;
        bytes.extend_from_slice(again.take(element, length)?);
        // A header has at most 2^28 bytes, so each end fits.
        ends.push(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
    }
    Ok(StringArray {
        bytes: bytes.into(),
        ends: ends.into(),
    })
}
