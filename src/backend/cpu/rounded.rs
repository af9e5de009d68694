//! Activations rounded to integers, in blocks of 32 that share a scale.
//!
//! Eight bits where weights are unsigned codes: a product of a signed byte and a code below 128
//! is exact in every lowering of the relaxed dot product. Fourteen bits where weights are signed
//! bytes: shifted by 8192 an activation is two unsigned numbers below 128, and two dot products
//! are exact, with more digits than eight bits would leave to the logits.

use super::packed::COLS;
use crate::backend::BackendError;

/// How many bits an activation keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bits {
    /// -127 to 127.
    Eight,
    /// -8191 to 8191.
    Fourteen,
}

impl Bits {
    const fn largest(self) -> f32 {
        match self {
            Self::Eight => 127.0,
            Self::Fourteen => 8191.0,
        }
    }
}

/// Whether kernels read bytes: those of relaxed SIMD do.
pub(super) const BYTES: bool = cfg!(all(target_arch = "wasm32", feature = "relaxed-simd"));

/// Rounded rows.
#[derive(Debug)]
pub(super) struct Rounded {
    bits: Bits,
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
    /// Where kernels read [`BYTES`]: of eight bits the same integers; of fourteen, shifted by
    /// 8192, a block of `x / 128` and one of `x % 128`.
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
    pub(super) fn new(bits: Bits) -> Self {
        Self {
            bits,
            blocks: 0,
            wide: Vec::new(),
            bytes: Vec::new(),
            scales: Vec::new(),
            sums: Vec::new(),
        }
    }

    pub(super) fn bits(&self) -> Bits {
        self.bits
    }

    /// Makes room for `rows` rows of `cols` elements.
    pub(super) fn reserve(&mut self, rows: usize, cols: usize) -> Result<(), BackendError> {
        let blocks = rows.saturating_mul(cols.div_ceil(COLS));
        let bytes = if BYTES {
            blocks.saturating_mul(self.planes())
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

    const fn planes(&self) -> usize {
        match self.bits {
            Bits::Eight => 1,
            Bits::Fourteen => 2,
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
            *scale = round(self.bits, x, wide);
            for (sum, half) in sums.iter_mut().zip(wide.as_chunks::<16>().0) {
                *sum = half.iter().map(|&x| i32::from(x)).sum();
            }
        }
        if BYTES {
            self.bytes.resize(blocks.len() * self.planes(), [0; COLS]);
            self.fill_bytes();
        }
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "the range of each is in its comment"
    )]
    fn fill_bytes(&mut self) {
        match self.bits {
            Bits::Eight => {
                for (bytes, wide) in self.bytes.iter_mut().zip(&self.wide) {
                    // -127 to 127 as a signed byte.
                    *bytes = wide.map(|x| x as u8);
                }
            }
            Bits::Fourteen => {
                let planes = self.bytes.as_chunks_mut::<2>().0;
                for ([high, low], wide) in planes.iter_mut().zip(&self.wide) {
                    // 1 to 16383, seven bits each.
                    *high = wide.map(|x| ((x + 8192) >> 7) as u8);
                    *low = wide.map(|x| (x & 127) as u8);
                }
            }
        }
    }

    #[inline]
    pub(super) fn row(&self, row: usize) -> Row<'_> {
        let range = row * self.blocks..(row + 1) * self.blocks;
        let bytes = if BYTES {
            range.start * self.planes()..range.end * self.planes()
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
fn round(bits: Bits, x: &[f32; COLS], out: &mut [i16; COLS]) -> f32 {
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
    let factor = bits.largest() / largest;
    for (out, x) in out.iter_mut().zip(x) {
        #[expect(clippy::cast_possible_truncation, reason = "at most 8191 in size")]
        let rounded = (x * factor + ROUND).to_bits() as i16;
        *out = rounded;
    }
    largest / bits.largest()
}
