//! From blocks to planes.

use bytemuck::Pod;

use crate::gguf::GgmlType;
use crate::quant::{
    self, BlockIQ4NL, BlockQ2K, BlockQ3K, BlockQ4_0, BlockQ4_1, BlockQ4K, BlockQ5_0, BlockQ5_1,
    BlockQ5K, BlockQ6K, BlockQ8_0, BlockQ8_1, QuantError,
};

/// Planes of some rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rows {
    /// Codes, scales, high bits: the rows one after another.
    pub planes: [Vec<u32>; 3],
}

impl Rows {
    /// Forgets the rows, not the memory.
    pub(super) fn clear(&mut self) {
        self.planes.iter_mut().for_each(Vec::clear);
    }
}

/// Appends the planes of one row of `cols` elements, given as blocks of `ty`.
///
/// # Errors
/// [`QuantError`] where `row` is not what `cols` elements of that type take.
pub fn repack(ty: GgmlType, row: &[u8], cols: usize, rows: &mut Rows) -> Result<(), QuantError> {
    let expected = row.len() as u64 / ty.block_bytes() * ty.block_elements();
    if !(row.len() as u64).is_multiple_of(ty.block_bytes()) {
        return Err(QuantError::PartialBlock {
            ty,
            bytes: row.len(),
            block_bytes: ty.block_bytes(),
        });
    }
    if expected != cols as u64 {
        return Err(QuantError::Length {
            ty,
            expected,
            found: cols,
        });
    }
    match ty {
        GgmlType::F32 | GgmlType::Q8_K => floats(ty, row, cols, rows)?,
        GgmlType::F16 => halves(bytemuck::cast_slice(row), cols, rows),
        GgmlType::BF16 => halves(bytemuck::cast_slice(row), cols, rows),
        GgmlType::MXFP4 => {
            let values = dequantized(ty, row, cols)?;
            // The high half of an f32 is a bf16, and the low half is zero here.
            let halves_of = values.iter().map(|value| {
                let [_, _, a, b] = value.to_le_bytes();
                [a, b]
            });
            halves(&halves_of.collect::<Vec<_>>(), cols, rows);
        }
        GgmlType::Q4_0 => blocks(row, rows, |b: &BlockQ4_0| (b.d, None, nibbles(b.qs))),
        GgmlType::Q4_1 => blocks(row, rows, |b: &BlockQ4_1| (b.d, Some(b.m), nibbles(b.qs))),
        GgmlType::Q5_0 => blocks_5(row, rows, |b: &BlockQ5_0| (b.d, None, fifths(b.qh, b.qs))),
        GgmlType::Q5_1 => blocks_5(row, rows, |b: &BlockQ5_1| {
            (b.d, Some(b.m), fifths(b.qh, b.qs))
        }),
        GgmlType::Q8_0 => blocks_8(row, rows, |b: &BlockQ8_0| (b.d, b.qs)),
        GgmlType::Q8_1 => blocks_8(row, rows, |b: &BlockQ8_1| (b.d, b.qs)),
        GgmlType::IQ4_NL => blocks_8(row, rows, |b: &BlockIQ4NL| {
            let values = quant::IQ4_NL_VALUES;
            (b.d, nibbles(b.qs).map(|code| values[usize::from(code)]))
        }),
        GgmlType::Q2_K => each(row, rows, q2_k),
        GgmlType::Q3_K => each(row, rows, q3_k),
        GgmlType::Q4_K => each(row, rows, q4_k),
        GgmlType::Q5_K => each(row, rows, q5_k),
        GgmlType::Q6_K => each(row, rows, q6_k),
    }
    Ok(())
}

fn dequantized(ty: GgmlType, row: &[u8], cols: usize) -> Result<Vec<f32>, QuantError> {
    let mut values = vec![0.0; cols];
    quant::dequantize(ty, row, &mut values)?;
    Ok(values)
}

fn floats(ty: GgmlType, row: &[u8], cols: usize, rows: &mut Rows) -> Result<(), QuantError> {
    let values = dequantized(ty, row, cols)?;
    let codes = &mut rows.planes[0];
    codes.extend(values.iter().map(|value| value.to_bits()));
    codes.resize(codes.len() + padding(cols), 0);
    Ok(())
}

fn halves(values: &[[u8; 2]], cols: usize, rows: &mut Rows) {
    let mut values = values.to_vec();
    values.resize(cols + padding(cols), [0; 2]);
    let (pairs, _) = values.as_chunks::<2>();
    let codes = &mut rows.planes[0];
    codes.extend(pairs.iter().map(|&[low, high]| pair(low, high)));
}

/// Zeros that fill up a row.
fn padding(cols: usize) -> usize {
    cols.next_multiple_of(32) - cols
}

fn pair(low: [u8; 2], high: [u8; 2]) -> u32 {
    u32::from_le_bytes([low[0], low[1], high[0], high[1]])
}

fn each<B: Pod>(row: &[u8], rows: &mut Rows, mut one: impl FnMut(&B, &mut Rows)) {
    for block in bytemuck::cast_slice::<u8, B>(row) {
        one(block, rows);
    }
}

/// Scale, minimum and codes of a block of 32.
type Parts<T> = ([u8; 2], Option<[u8; 2]>, [T; 32]);

fn blocks<B: Pod>(row: &[u8], rows: &mut Rows, parts: fn(&B) -> Parts<u8>) {
    let mut scales = Scales::default();
    each(row, rows, |block, rows| {
        let (d, m, codes) = parts(block);
        rows.planes[0].extend(pack_4(&codes));
        scales.push(d, m, rows);
    });
    scales.finish(rows);
}

fn blocks_5<B: Pod>(row: &[u8], rows: &mut Rows, parts: fn(&B) -> Parts<u8>) {
    let mut scales = Scales::default();
    each(row, rows, |block, rows| {
        let (d, m, codes) = parts(block);
        rows.planes[0].extend(pack_4(&codes));
        rows.planes[2].push(pack_1(&codes, 4));
        scales.push(d, m, rows);
    });
    scales.finish(rows);
}

fn blocks_8<B: Pod>(row: &[u8], rows: &mut Rows, parts: fn(&B) -> ([u8; 2], [i8; 32])) {
    let mut scales = Scales::default();
    each(row, rows, |block, rows| {
        let (d, codes) = parts(block);
        rows.planes[0].extend(pack_8(&codes));
        scales.push(d, None, rows);
    });
    scales.finish(rows);
}

/// Scales of a row: two of them make a word.
#[derive(Default)]
struct Scales {
    odd: Option<[u8; 2]>,
}

impl Scales {
    fn push(&mut self, d: [u8; 2], m: Option<[u8; 2]>, rows: &mut Rows) {
        let word = match (m, self.odd.take()) {
            (Some(m), _) => pair(d, m),
            (None, Some(first)) => pair(first, d),
            (None, None) => {
                self.odd = Some(d);
                return;
            }
        };
        rows.planes[1].push(word);
    }

    fn finish(self, rows: &mut Rows) {
        if let Some(last) = self.odd {
            rows.planes[1].push(pair(last, [0; 2]));
        }
    }
}

/// Codes in the order of elements.
fn nibbles(qs: [u8; 16]) -> [u8; 32] {
    std::array::from_fn(|e| qs[e % 16] >> (e / 16 * 4) & 15)
}

fn fifths(qh: [u8; 4], qs: [u8; 16]) -> [u8; 32] {
    let low = nibbles(qs);
    std::array::from_fn(|e| low[e] | (qh[e / 8] >> (e % 8) & 1) << 4)
}

fn q2_k(block: &BlockQ2K, rows: &mut Rows) {
    let code = |e: usize| block.qs[e / 128 * 32 + e % 32] >> (e % 128 / 32 * 2) & 3;
    for s in 0..8 {
        rows.planes[0].extend(pack_2(&std::array::from_fn(|i| code(32 * s + i)), 0));
    }
    super_scales(block.d, block.dmin, block.scales, rows);
}

fn q3_k(block: &BlockQ3K, rows: &mut Rows) {
    let code = |e: usize| {
        let low = block.qs[e / 128 * 32 + e % 32] >> (e % 128 / 32 * 2) & 3;
        low | (block.hmask[e % 32] >> (e / 32) & 1) << 2
    };
    for s in 0..8 {
        let codes = std::array::from_fn(|i| code(32 * s + i));
        rows.planes[0].extend(pack_2(&codes, 0));
        rows.planes[2].push(pack_1(&codes, 2));
    }
    let scale = |group: usize| {
        // Four low bits of the 16 scales in 8 bytes, then four times two high bits a byte.
        let low = block.scales[group % 8] >> (group / 8 * 4) & 15;
        let high = block.scales[8 + group % 4] >> (group / 4 * 2) & 3;
        (low | high << 4).wrapping_sub(32)
    };
    super_scales(block.d, [0; 2], std::array::from_fn(scale), rows);
}

fn q4_k(block: &BlockQ4K, rows: &mut Rows) {
    let code = |e: usize| block.qs[e / 64 * 32 + e % 32] >> (e / 32 % 2 * 4) & 15;
    for s in 0..8 {
        rows.planes[0].extend(pack_4(&std::array::from_fn(|i| code(32 * s + i))));
    }
    super_scales(block.d, block.dmin, scales_and_mins(&block.scales), rows);
}

fn q5_k(block: &BlockQ5K, rows: &mut Rows) {
    let code = |e: usize| {
        let low = block.qs[e / 64 * 32 + e % 32] >> (e / 32 % 2 * 4) & 15;
        low | (block.qh[e % 32] >> (e / 32) & 1) << 4
    };
    for s in 0..8 {
        let codes = std::array::from_fn(|i| code(32 * s + i));
        rows.planes[0].extend(pack_4(&codes));
        rows.planes[2].push(pack_1(&codes, 4));
    }
    super_scales(block.d, block.dmin, scales_and_mins(&block.scales), rows);
}

fn q6_k(block: &BlockQ6K, rows: &mut Rows) {
    let code = |e: usize| {
        let (half, quarter, i) = (e / 128, e % 128 / 32, e % 32);
        let low = block.ql[half * 64 + quarter % 2 * 32 + i] >> (quarter / 2 * 4) & 15;
        low | (block.qh[half * 32 + i] >> (quarter * 2) & 3) << 4
    };
    for s in 0..8 {
        let codes = std::array::from_fn(|i| code(32 * s + i));
        rows.planes[0].extend(pack_4(&codes));
        rows.planes[2].extend(pack_2(&codes, 4));
    }
    super_scales(block.d, [0; 2], bytemuck::cast(block.scales), rows);
}

/// Five words of a superblock.
fn super_scales(d: [u8; 2], dmin: [u8; 2], scales: [u8; 16], rows: &mut Rows) {
    rows.planes[1].push(pair(d, dmin));
    let (words, _) = scales.as_chunks::<4>();
    rows.planes[1].extend(words.iter().map(|&word| u32::from_le_bytes(word)));
}

/// The 6-bit scales and minima of 8 blocks, each pair side by side: the first four have their
/// own bytes, the others share the top bits of those and the halves of the last four bytes.
fn scales_and_mins(scales: &[u8; 12]) -> [u8; 16] {
    std::array::from_fn(|i| match (i / 2, i % 2) {
        (block @ 0..4, 0) => scales[block] & 63,
        (block @ 0..4, _) => scales[block + 4] & 63,
        (block, 0) => scales[block + 4] & 15 | scales[block - 4] >> 6 << 4,
        (block, _) => scales[block + 4] >> 4 | scales[block] >> 6 << 4,
    })
}

/// The bytes of quad `j`, each through `bits`, in one word.
fn quad<T: Copy>(codes: &[T; 32], j: usize, bits: impl Fn(T) -> u8) -> u32 {
    u32::from_le_bytes(std::array::from_fn(|b| bits(codes[4 * j + b])))
}

fn pack_8(codes: &[i8; 32]) -> [u32; 8] {
    std::array::from_fn(|j| quad(codes, j, |code| code.cast_unsigned() ^ 0x80))
}

fn pack_4(codes: &[u8; 32]) -> [u32; 4] {
    let low = |code: u8| code & 15;
    std::array::from_fn(|j| quad(codes, j, low) | quad(codes, j + 4, low) << 4)
}

fn pack_2(codes: &[u8; 32], shift: u32) -> [u32; 2] {
    let word = |first: usize| {
        (0..4).fold(0, |word, j| {
            word | quad(codes, first + j, |code| code >> shift & 3) << (2 * j)
        })
    };
    [word(0), word(4)]
}

fn pack_1(codes: &[u8; 32], shift: u32) -> u32 {
    (0..8).fold(0, |word, j| {
        word | quad(codes, j, |code| code >> shift & 1) << j
    })
}
