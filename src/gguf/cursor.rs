//! Reads fields from the prefix of a file, each checked against what is left of it.

use std::fmt;

use super::{GgufError, MAX_HEADER_BYTES};

/// Why reading stopped before the end of the header.
#[derive(Debug)]
pub(super) enum Stop {
    /// The prefix is too short: the file must be at hand up to this byte at least.
    NeedMore(u64),
    /// The file is not valid.
    Invalid(GgufError),
}

impl From<GgufError> for Stop {
    fn from(error: GgufError) -> Self {
        Self::Invalid(error)
    }
}

/// What is being read, for errors; formatted only when there is one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Field<'a> {
    what: &'static str,
    owner: Option<&'a str>,
}

impl<'a> Field<'a> {
    pub(super) fn new(what: &'static str) -> Self {
        Self { what, owner: None }
    }

    /// A field of the metadata key or tensor `owner`.
    pub(super) fn of(what: &'static str, owner: &'a str) -> Self {
        Self {
            what,
            owner: Some(owner),
        }
    }
}

impl fmt::Display for Field<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.owner {
            Some(owner) => write!(f, "{} of {owner:?}", self.what),
            None => f.write_str(self.what),
        }
    }
}

/// A position in the prefix of a file.
#[derive(Debug)]
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    position: usize,
    file_len: Option<u64>,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(bytes: &'a [u8], file_len: Option<u64>) -> Self {
        Self {
            bytes,
            position: 0,
            file_len,
        }
    }

    /// Bytes from the start of the file.
    pub(super) fn offset(&self) -> u64 {
        self.position as u64
    }

    /// The bytes from `start`, which was passed before, up to here.
    pub(super) fn taken_since(&self, start: u64) -> &'a [u8] {
        let start = usize::try_from(start).unwrap_or(usize::MAX);
        self.bytes.get(start..self.position).unwrap_or_default()
    }

    /// Checks that `count` more bytes are within the file, within the limit of a header, and at
    /// hand. Returns the position of their end.
    pub(super) fn need(&self, field: Field<'_>, count: u64) -> Result<usize, Stop> {
        let offset = self.offset();
        let end = offset.saturating_add(count);
        if let Some(file_len) = self.file_len
            && end > file_len
        {
            let left = file_len.saturating_sub(offset);
            let field = field.to_string();
            return Err(GgufError::Truncated {
                field,
                offset,
                need: count,
                left,
            }
            .into());
        }
        if end > MAX_HEADER_BYTES {
            let (field, limit) = (field.to_string(), MAX_HEADER_BYTES);
            return Err(GgufError::HeaderTooLarge {
                field,
                offset,
                end,
                limit,
            }
            .into());
        }
        match usize::try_from(end) {
            Ok(end) if end <= self.bytes.len() => Ok(end),
            _ => Err(Stop::NeedMore(end)),
        }
    }

    /// The next `count` bytes.
    pub(super) fn take(&mut self, field: Field<'_>, count: u64) -> Result<&'a [u8], Stop> {
        let end = self.need(field, count)?;
        let taken = self.bytes.get(self.position..end).unwrap_or_default();
        self.position = end;
        Ok(taken)
    }

    pub(super) fn array<const N: usize>(&mut self, field: Field<'_>) -> Result<[u8; N], Stop> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(field, N as u64)?);
        Ok(array)
    }

    pub(super) fn u32(&mut self, field: Field<'_>) -> Result<u32, Stop> {
        Ok(u32::from_le_bytes(self.array(field)?))
    }

    pub(super) fn u64(&mut self, field: Field<'_>) -> Result<u64, Stop> {
        Ok(u64::from_le_bytes(self.array(field)?))
    }

    /// A 64-bit length or count that must not exceed `limit`.
    pub(super) fn limited(&mut self, field: Field<'_>, limit: u64) -> Result<u64, Stop> {
        let offset = self.offset();
        let value = self.u64(field)?;
        if value > limit {
            let field = field.to_string();
            return Err(GgufError::Limit {
                field,
                offset,
                value,
                limit,
            }
            .into());
        }
        Ok(value)
    }

    /// A 64-bit length of at most `limit`, then as many bytes of UTF-8.
    pub(super) fn text(&mut self, field: Field<'_>, limit: u64) -> Result<&'a str, Stop> {
        let count = self.limited(field, limit)?;
        let offset = self.offset();
        let bytes = self.take(field, count)?;
        str::from_utf8(bytes).map_err(|error| {
            let offset = offset.saturating_add(error.valid_up_to() as u64);
            GgufError::Utf8 {
                field: field.to_string(),
                offset,
            }
            .into()
        })
    }
}
