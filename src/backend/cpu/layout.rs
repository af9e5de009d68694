//! How the elements of each type are packed, and in how many bytes.

use super::kernels::{self, Method};
use super::packed::{COLS, ROWS, WIDE};
use crate::gguf::GgmlType;
use crate::quant::{IQ4_NL_VALUES, MXFP4_VALUES};

/// How the elements of a type are packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    /// Unsigned codes below 64: an element is `(code - zero) * scale + min`.
    Codes {
        /// Bits that lie together, 4 or 2.
        low: usize,
        /// Bits beyond these.
        high: usize,
        /// Scales of a block of 32 columns, 1 or 2.
        halves: usize,
        /// Whether there are minima, as many as scales.
        mins: bool,
        /// Whether scales and minima are small integers times factors of [`WIDE`] blocks.
        wide: bool,
        /// What is subtracted from each code.
        zero: u8,
    },
    /// Codes of 4 bits that stand for signed bytes: an element is `byte * scale`.
    Table(Table),
    /// Signed bytes: an element is `code * scale`.
    Signed,
    /// The elements themselves.
    Floats(Floats),
}

/// What codes of 4 bits stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Table {
    Iq4Nl,
    Mxfp4,
}

impl Table {
    pub(super) const fn values(self) -> &'static [i8; 16] {
        match self {
            Self::Iq4Nl => &IQ4_NL_VALUES,
            Self::Mxfp4 => &MXFP4_VALUES,
        }
    }
}

/// Kinds of floats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Floats {
    /// Of 32 bits.
    Single,
    /// Of 16 bits, 5 of them an exponent.
    Half,
    /// The first 16 bits of 32.
    Brain,
}

impl Layout {
    /// The layout of a type.
    pub(super) fn of(ggml_type: GgmlType) -> Self {
        let codes = |[low, high]: [usize; 2], halves, mins, wide, zero| Self::Codes {
            low,
            high,
            halves,
            mins,
            wide,
            zero,
        };
        match ggml_type {
            GgmlType::Q4_0 => codes([4, 0], 1, false, false, 8),
            GgmlType::Q4_1 => codes([4, 0], 1, true, false, 0),
            GgmlType::Q5_0 => codes([4, 1], 1, false, false, 16),
            GgmlType::Q5_1 => codes([4, 1], 1, true, false, 0),
            GgmlType::Q2_K => codes([2, 0], 2, true, true, 0),
            GgmlType::Q3_K => codes([2, 1], 2, false, true, 4),
            GgmlType::Q4_K => codes([4, 0], 1, true, true, 0),
            GgmlType::Q5_K => codes([4, 1], 1, true, true, 0),
            GgmlType::Q6_K => codes([4, 2], 2, false, true, 32),
            GgmlType::IQ4_NL => Self::Table(Table::Iq4Nl),
            GgmlType::MXFP4 => Self::Table(Table::Mxfp4),
            GgmlType::Q8_0 | GgmlType::Q8_1 | GgmlType::Q8_K => Self::Signed,
            GgmlType::F32 => Self::Floats(Floats::Single),
            GgmlType::F16 => Self::Floats(Floats::Half),
            GgmlType::BF16 => Self::Floats(Floats::Brain),
        }
    }

    /// Bytes of the codes of a block of four rows.
    pub(super) fn code_bytes(self) -> usize {
        match self {
            Self::Codes { low, high, .. } => 16 * (low + high),
            Self::Table(_) => 64,
            Self::Signed => 128,
            // Singles lie among the factors, whose alignment is theirs.
            Self::Floats(Floats::Single) => 0,
            Self::Floats(_) => 256,
        }
    }

    /// Whether sums of codes are kept: for signed ones this method shifts activations.
    pub(super) fn has_sums(self, method: Method) -> bool {
        method == Method::Quads && matches!(self, Self::Signed | Self::Table(_))
    }

    /// Blocks that share factors.
    pub(super) fn span(self) -> usize {
        match self {
            Self::Codes { wide: true, .. } => WIDE,
            _ => 1,
        }
    }

    /// Factors of four rows: scales, then minima.
    pub(super) fn factors(self) -> usize {
        match self {
            Self::Codes { mins, .. } => ROWS * (1 + usize::from(mins)),
            Self::Table(_) | Self::Signed => ROWS,
            Self::Floats(Floats::Single) => ROWS * COLS,
            Self::Floats(_) => 0,
        }
    }

    /// Small integers of a block of four rows: of the scales, then of the minima.
    pub(super) fn steps(self) -> usize {
        match self {
            Self::Codes {
                wide: true,
                halves,
                mins,
                ..
            } => ROWS * halves * (1 + usize::from(mins)),
            _ => 0,
        }
    }
}

/// Bytes that packing makes of `bytes` in GGUF blocks; rows of zeros that fill a last group aside.
pub(super) fn held_bytes(ggml_type: GgmlType, bytes: u64) -> u64 {
    let layout = Layout::of(ggml_type);
    if matches!(layout, Layout::Floats(_)) {
        return bytes;
    }
    let elements = bytes / ggml_type.block_bytes() * ggml_type.block_elements();
    let sums = if layout.has_sums(kernels::method()) {
        ROWS
    } else {
        0
    };
    let factors = 4 * layout.factors() / layout.span();
    let of_block = layout.code_bytes() + factors + layout.steps() + 2 * sums;
    elements / (COLS * ROWS) as u64 * of_block as u64
}
