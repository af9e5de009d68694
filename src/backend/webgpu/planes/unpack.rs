//! From planes to floats, plainly: what the parts in WGSL do, and the proof that repacking
//! loses nothing.

use half::f16;

use super::{PlaneFormat, Rows};

/// Element of row `row` at column `col`, computed in the order of the plain dequantizer.
///
/// # Panics
/// Where `rows` does not hold such an element.
#[must_use]
pub fn unpack(format: PlaneFormat, rows: &Rows, cols: usize, [row, col]: [usize; 2]) -> f32 {
    let blocks = cols.div_ceil(32);
    let words = format.row_words(blocks);
    let [codes, scales, high] =
        std::array::from_fn(|plane| &rows.planes[plane][row * words[plane]..][..words[plane]]);
    let (block, element) = (col / 32, col % 32);
    let code = code(format, codes, high, block, element);
    let whole = |code: u32| code as f32;
    match format {
        PlaneFormat::F32 => f32::from_bits(code),
        PlaneFormat::F16 => half(code),
        PlaneFormat::BF16 => f32::from_bits(code << 16),
        PlaneFormat::Q4_0 | PlaneFormat::Q5_0 | PlaneFormat::Q8_0 => {
            let d = half(scales[block / 2] >> (16 * (block % 2)));
            (whole(code) - format.zero()) * d
        }
        PlaneFormat::Q4_1 | PlaneFormat::Q5_1 => {
            whole(code) * half(scales[block]) + half(scales[block] >> 16)
        }
        _ => {
            let scales = &scales[block / 8 * 5..];
            let (d, dmin) = (half(scales[0]), half(scales[0] >> 16));
            let byte = |i: usize| scales[1 + i / 4] >> (8 * (i % 4)) & 255;
            let (first, group) = (block % 8 * 2, block % 8 * 2 + element / 16);
            match format {
                PlaneFormat::Q2_K => {
                    d * whole(byte(group) & 15) * whole(code) - dmin * whole(byte(group) >> 4)
                }
                PlaneFormat::Q4_K | PlaneFormat::Q5_K => {
                    d * whole(byte(first)) * whole(code) - dmin * whole(byte(first + 1))
                }
                _ => {
                    let signed = (byte(group) << 24).cast_signed() >> 24;
                    d * signed as f32 * (whole(code) - format.zero())
                }
            }
        }
    }
}

fn half(bits: u32) -> f32 {
    let [low, high, ..] = bits.to_le_bytes();
    f16::from_le_bytes([low, high]).to_f32()
}

fn code(format: PlaneFormat, codes: &[u32], high: &[u32], block: usize, element: usize) -> u32 {
    let (quad, byte) = (element / 4, 8 * (element % 4));
    let four = || codes[4 * block + quad % 4] >> (byte + quad / 4 * 4) & 15;
    let two = |words: &[u32]| words[2 * block + quad / 4] >> (byte + quad % 4 * 2) & 3;
    let one = || high[block] >> (byte + quad) & 1;
    match format {
        PlaneFormat::F32 => codes[32 * block + element],
        PlaneFormat::F16 | PlaneFormat::BF16 => {
            codes[16 * block + element / 2] >> (16 * (element % 2)) & 0xffff
        }
        PlaneFormat::Q8_0 => codes[8 * block + quad] >> byte & 255,
        PlaneFormat::Q4_0 | PlaneFormat::Q4_1 | PlaneFormat::Q4_K => four(),
        PlaneFormat::Q5_0 | PlaneFormat::Q5_1 | PlaneFormat::Q5_K => four() | one() << 4,
        PlaneFormat::Q6_K => four() | two(high) << 4,
        PlaneFormat::Q2_K => two(codes),
        PlaneFormat::Q3_K => two(codes) | one() << 2,
    }
}
