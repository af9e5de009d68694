//! Seeded numbers and weights, for checks and measurements.

use crate::gguf::GgmlType;

/// Reproducible numbers in (-1, 1).
#[derive(Clone, Debug)]
pub struct Seeded(u64);

impl Seeded {
    /// Starts at a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// 64 random bits (`SplitMix64`, Steele et al. 2014).
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number in (-1, 1).
    pub fn value(&mut self) -> f32 {
        // 24 bits fit an f32 exactly.
        let unit = (self.bits() >> 40) as f32 / (1_u32 << 24) as f32;
        2.0 * unit - 1.0
    }

    /// `len` numbers in (-1, 1).
    pub fn values(&mut self, len: usize) -> Vec<f32> {
        (0..len).map(|_| self.value()).collect()
    }
}

/// Blocks of any bits, but with scales of a usual size.
#[must_use]
pub fn random_blocks(ty: GgmlType, elements: usize, seeded: &mut Seeded) -> Vec<u8> {
    let half = |seeded: &mut Seeded| half::f16::from_f32(0.02 * seeded.value()).to_le_bytes();
    let [block, bytes] =
        [ty.block_elements(), ty.block_bytes()].map(|size| usize::try_from(size).unwrap_or(1));
    let mut blocks = Vec::with_capacity(elements / block * bytes);
    for _ in 0..elements / block {
        let start = blocks.len();
        while blocks.len() - start < bytes {
            blocks.extend(seeded.bits().to_le_bytes());
        }
        blocks.truncate(start + bytes);
        let out = &mut blocks[start..];
        // Where the 16-bit scales of a block are.
        let scales: &[usize] = match ty {
            GgmlType::Q2_K => &[80, 82],
            GgmlType::Q3_K => &[108],
            GgmlType::Q6_K => &[208],
            GgmlType::Q4_1 | GgmlType::Q5_1 | GgmlType::Q4_K | GgmlType::Q5_K => &[0, 2],
            _ => &[0],
        };
        match ty {
            GgmlType::F32 => out.copy_from_slice(&seeded.value().to_le_bytes()),
            GgmlType::Q8_K => out[..4].copy_from_slice(&(0.01 * seeded.value()).to_le_bytes()),
            GgmlType::BF16 => {
                out.copy_from_slice(&half::bf16::from_f32(seeded.value()).to_le_bytes());
            }
            GgmlType::MXFP4 => out[0] = 120 + out[0] % 8,
            _ => scales
                .iter()
                .for_each(|&at| out[at..at + 2].copy_from_slice(&half(seeded))),
        }
    }
    blocks
}
