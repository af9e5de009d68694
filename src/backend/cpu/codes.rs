//! The bits of packed blocks: codes and floats, written and read plainly.

use super::layout::Floats;
use super::packed::{COLS, Group, ROWS, Values};
use super::unpack::float;

/// Bit `4 q + c` to bit `q` of byte `c`.
pub(super) fn spread(bits: u32) -> u32 {
    (0..8).fold(0, |plane, quad| {
        // Each of four bits into a byte of its own.
        let four = (((bits >> (4 * quad)) & 15) * 0x0020_4081) & 0x0101_0101;
        plane | (four << quad)
    })
}

/// Codes of one row into a block of four, a quad at a time.
pub(super) fn put_codes([low, high]: [usize; 2], lane: usize, codes: &[u8; COLS], out: &mut [u8]) {
    let words = out.as_chunks_mut::<4>().0;
    let mut add = |part: usize, bits: u32| {
        let word = &mut words[part * ROWS + lane];
        *word = (u32::from_le_bytes(*word) | bits).to_le_bytes();
    };
    for (quad, codes) in codes.as_chunks::<4>().0.iter().enumerate() {
        let codes = u32::from_le_bytes(*codes);
        let beyond = codes >> low;
        match low {
            2 => add(quad / 4, (codes & 0x0303_0303) << (quad % 4 * 2)),
            _ => add(quad % 4, (codes & 0x0f0f_0f0f) << (quad / 4 * 4)),
        }
        match high {
            1 => add(low, (beyond & 0x0101_0101) << quad),
            2 => add(low + quad / 4, (beyond & 0x0303_0303) << (quad % 4 * 2)),
            _ => {}
        }
    }
}

/// Codes of a block, `[8 quads, 4 rows, 4 columns]`.
pub(super) fn widen_codes([low, high]: [usize; 2], codes: &[u8], out: &mut [i16; 128]) {
    let (parts, planes) = codes.split_at(16 * low);
    let quads = out.as_chunks_mut::<16>().0.iter_mut().enumerate();
    for (quad, out) in quads {
        let (part, bit, mask) = match low {
            2 => (quad / 4, quad % 4 * 2, 3),
            _ => (quad % 4, quad / 4 * 4, 15),
        };
        for (out, byte) in out.iter_mut().zip(&parts[16 * part..]) {
            *out = i16::from(byte >> bit & mask);
        }
        let (plane, bit, mask) = match high {
            0 => continue,
            1 => (0, quad, 1),
            _ => (quad / 4, quad % 4 * 2, 3),
        };
        for (out, byte) in out.iter_mut().zip(&planes[16 * plane..]) {
            *out |= i16::from(byte >> bit & mask) << low;
        }
    }
}

/// What codes of a block stand for, in the same order.
pub(super) fn widen_table(values: &[i8; 16], codes: &[u8], out: &mut [i16; 128]) {
    widen_codes([4, 0], codes, out);
    for out in out {
        *out = i16::from(values[usize::from(out.to_le_bytes()[0] & 15)]);
    }
}

/// Floats of a block.
pub(super) fn read_floats(kind: Floats, group: Group<'_>, b: usize, out: &mut Values) {
    let words = group.codes.as_chunks::<4>().0.as_chunks::<4>().0;
    let words = words.as_chunks::<2>().0.iter().skip(8 * b);
    match kind {
        Floats::Single => *out = bytemuck::cast_slice(group.factors)[b],
        Floats::Half => {
            for (pairs, out) in words.zip(out) {
                *out = halves(pairs, float);
            }
        }
        Floats::Brain => {
            for (pairs, out) in words.zip(out) {
                *out = halves(pairs, |[a, b]| f32::from_le_bytes([0, 0, a, b]));
            }
        }
    }
}

/// A quad of floats of 16 bits.
fn halves(pairs: &[[[u8; 4]; 4]; 2], value: impl Fn([u8; 2]) -> f32) -> [[f32; 4]; ROWS] {
    std::array::from_fn(|row| {
        let of = |[a, b, c, d]: [u8; 4]| if row % 2 == 0 { [a, b] } else { [c, d] };
        pairs[row / 2].map(|word| value(of(word)))
    })
}

/// Signed codes of a block.
pub(super) fn widen_signed(codes: &[u8], out: &mut [i16; 128]) {
    for (out, &code) in out.iter_mut().zip(codes) {
        *out = i16::from(code.cast_signed());
    }
}
