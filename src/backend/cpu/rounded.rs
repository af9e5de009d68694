//! Activations rounded to integers, in blocks of 32 that share a scale.
//!
//! Eight bits cost the least and fourteen the most digits; see [`Digits`] for which where. The
//! relaxed dot product is defined alike everywhere only for a signed byte times a number below
//! 128. Where weights are unsigned codes, that holds for an activation of eight bits, and for the
//! halves of one of fourteen. Signed bytes of weights need activations that are below 128 instead:
//! shifted by 8192, both halves of fourteen bits are.

use super::packed::COLS;
use crate::backend::BackendError;

/// How much of an activation is kept, where there is a choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Digits {
    /// Eight bits.
    Few,
    /// Fourteen bits, at twice the integer products: around attention, whose softmax multiplies
    /// errors and whose matrices are the smallest of a layer.
    Many,
}

/// How activations are rounded and kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// -127 to 127.
    Eight,
    /// -8191 to 8191.
    Fourteen,
    /// The same for signed bytes of weights.
    Shifted,
}

impl Form {
    pub(super) const ALL: [Self; 3] = [Self::Eight, Self::Fourteen, Self::Shifted];

    const fn largest(self) -> f32 {
        match self {
            Self::Eight => 127.0,
            Self::Fourteen | Self::Shifted => 8191.0,
        }
    }

    /// Blocks of bytes for each block of activations.
    pub(super) const fn planes(self) -> usize {
        match self {
            Self::Eight => 1,
            Self::Fourteen | Self::Shifted => 2,
        }
    }
}

/// Whether kernels read bytes: those of relaxed SIMD do.
pub(super) const BYTES: bool = cfg!(all(target_arch = "wasm32", feature = "relaxed-simd"));

/// Rounded rows.
#[derive(Debug)]
pub(super) struct Rounded {
    form: Form,
    blocks: usize,
    wide: Vec<[i16; COLS]>,
    bytes: Vec<[u8; COLS]>,
    scales: Vec<f32>,
    sums: Vec<[i32; 2]>,
}

/// One row: `x[32 b + i]` is about `wide[b][i] * scales[b]`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row<'a> {
    /// The integers.
    pub(super) wide: &'a [[i16; COLS]],
    /// Where kernels read [`BYTES`]: of eight bits the same integers; of fourteen, a block of
    /// `x >> 7` and one of `x & 127`, where shifted by 8192 before.
    #[cfg_attr(
        not(all(target_arch = "wasm32", feature = "relaxed-simd")),
        expect(dead_code, reason = "relaxed SIMD alone reads bytes")
    )]
    pub(super) bytes: &'a [[u8; COLS]],
    pub(super) scales: &'a [f32],
    /// Sums of the halves of each block.
    pub(super) sums: &'a [[i32; 2]],
}

impl Rounded {
    pub(super) fn new(form: Form) -> Self {
        Self {
            form,
            blocks: 0,
            wide: Vec::new(),
            bytes: Vec::new(),
            scales: Vec::new(),
            sums: Vec::new(),
        }
    }

    pub(super) fn form(&self) -> Form {
        self.form
    }

    /// Makes room for `rows` rows of `cols` elements.
    pub(super) fn reserve(&mut self, rows: usize, cols: usize) -> Result<(), BackendError> {
        let blocks = rows.saturating_mul(cols.div_ceil(COLS));
        let bytes = if BYTES {
            blocks.saturating_mul(self.form.planes())
        } else {
            0
        };
        let reserved = self.wide.try_reserve_exact(blocks).is_ok()
            && self.bytes.try_reserve_exact(bytes).is_ok()
            && self.scales.try_reserve_exact(blocks).is_ok()
            && self.sums.try_reserve_exact(blocks).is_ok();
        if reserved {
            Ok(())
        } else {
            Err(BackendError::OutOfMemory {
                what: "activations",
                bytes: blocks as u64 * 140,
            })
        }
    }

    /// Rounds rows of `cols` elements, a multiple of 32.
    pub(super) fn fill(&mut self, x: &[f32], cols: usize) {
        self.blocks = cols / COLS;
        let (blocks, _) = x.as_chunks::<COLS>();
        self.wide.resize(blocks.len(), [0; COLS]);
        self.scales.resize(blocks.len(), 0.0);
        self.sums.resize(blocks.len(), [0; 2]);
        let places = self
            .wide
            .iter_mut()
            .zip(&mut self.scales)
            .zip(&mut self.sums);
        for (((wide, scale), sums), x) in places.zip(blocks) {
            *scale = round(self.form, x, wide);
            for (sum, half) in sums.iter_mut().zip(wide.as_chunks::<16>().0) {
                *sum = half.iter().map(|&x| i32::from(x)).sum();
            }
        }
        if BYTES {
            self.bytes
                .resize(blocks.len() * self.form.planes(), [0; COLS]);
            self.fill_bytes();
        }
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "the range of each is in its comment"
    )]
    fn fill_bytes(&mut self) {
        if self.form == Form::Eight {
            for (bytes, wide) in self.bytes.iter_mut().zip(&self.wide) {
                // -127 to 127 as a signed byte.
                *bytes = wide.map(|x| x as u8);
            }
            return;
        }
        let shift = if self.form == Form::Shifted { 8192 } else { 0 };
        let planes = self.bytes.as_chunks_mut::<2>().0;
        for ([high, low], wide) in planes.iter_mut().zip(&self.wide) {
            // Without the shift -64 to 63 and 0 to 127, with it 0 to 127 both.
            *high = wide.map(|x| ((x + shift) >> 7) as u8);
            *low = wide.map(|x| (x & 127) as u8);
        }
    }

    #[inline]
    pub(super) fn row(&self, row: usize) -> Row<'_> {
        let range = row * self.blocks..(row + 1) * self.blocks;
        let bytes = if BYTES {
            range.start * self.form.planes()..range.end * self.form.planes()
        } else {
            0..0
        };
        Row {
            wide: &self.wide[range.clone()],
            bytes: &self.bytes[bytes],
            scales: &self.scales[range.clone()],
            sums: &self.sums[range],
        }
    }

    /// Bytes held.
    pub(super) fn bytes(&self) -> u64 {
        let blocks = self.wide.capacity() * (2 * COLS + 12) + self.bytes.capacity() * COLS;
        blocks as u64
    }
}

/// Rounds a block to the nearest integers; returns its scale, NaN where an element is not finite.
fn round(form: Form, x: &[f32; COLS], out: &mut [i16; COLS]) -> f32 {
    // Adding 1.5 * 2^23 rounds to an integer and leaves it in the low bits of the sum.
    const ROUND: f32 = 12_582_912.0;
    let mut lanes = [0.0_f32; 8];
    let mut zeros = [0.0_f32; 8];
    for x in x.as_chunks::<8>().0 {
        for lane in 0..8 {
            let size = x[lane].abs();
            lanes[lane] = if size > lanes[lane] {
                size
            } else {
                lanes[lane]
            };
            // NaN of what is not finite.
            zeros[lane] += x[lane] * 0.0;
        }
    }
    let zero: f32 = zeros.iter().sum();
    let largest = lanes
        .iter()
        .fold(0.0_f32, |a, &b| if b > a { b } else { a })
        + zero;
    if largest.is_nan() || largest < f32::MIN_POSITIVE * 16384.0 {
        out.fill(0);
        return largest * 0.0;
    }
    let factor = form.largest() / largest;
    for (out, x) in out.iter_mut().zip(x) {
        #[expect(clippy::cast_possible_truncation, reason = "at most 8191 in size")]
        let rounded = (x * factor + ROUND).to_bits() as i16;
        *out = rounded;
    }
    largest / form.largest()
}
