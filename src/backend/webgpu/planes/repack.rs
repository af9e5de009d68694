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
        GgmlType::Q8_0 => blocks_8(row, rows, |b: &BlockQ8_0| {
            (b.d, words(&b.qs.map(i8::cast_unsigned)))
        }),
        GgmlType::Q8_1 => blocks_8(row, rows, |b: &BlockQ8_1| {
            (b.d, words(&b.qs.map(i8::cast_unsigned)))
        }),
        GgmlType::IQ4_NL => blocks_8(row, rows, |b: &BlockIQ4NL| {
            let value = |code: u8| quant::IQ4_NL_VALUES[usize::from(code)].cast_unsigned();
            let quad = |codes: u32| u32::from_le_bytes(codes.to_le_bytes().map(value));
            (b.d, nibbles(b.qs).map(quad))
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

/// Codes of a block of 32, a byte each: four elements a word.
type Quads = [u32; 8];

/// Scale, minimum and codes of a block of 32.
type Parts = ([u8; 2], Option<[u8; 2]>, Quads);

fn blocks<B: Pod>(row: &[u8], rows: &mut Rows, parts: fn(&B) -> Parts) {
    let mut scales = Scales::default();
    each(row, rows, |block, rows| {
        let (d, m, codes) = parts(block);
        rows.planes[0].extend(pack_4(&codes));
        scales.push(d, m, rows);
    });
    scales.finish(rows);
}

fn blocks_5<B: Pod>(row: &[u8], rows: &mut Rows, parts: fn(&B) -> Parts) {
    let mut scales = Scales::default();
    each(row, rows, |block, rows| {
        let (d, m, codes) = parts(block);
        rows.planes[0].extend(pack_4(&codes));
        rows.planes[2].push(pack_1(&codes, 4));
        scales.push(d, m, rows);
    });
    scales.finish(rows);
}

fn blocks_8<B: Pod>(row: &[u8], rows: &mut Rows, parts: fn(&B) -> ([u8; 2], Quads)) {
    let mut scales = Scales::default();
    each(row, rows, |block, rows| {
        let (d, codes) = parts(block);
        // Signed bytes get a bias of 128.
        rows.planes[0].extend(codes.map(|codes| codes ^ 0x8080_8080));
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

const TWO_BITS: u32 = 0x0303_0303;
const ONE_BIT: u32 = 0x0101_0101;
const FOUR_BITS: u32 = 0x0f0f_0f0f;

fn words<const BYTES: usize, const WORDS: usize>(bytes: &[u8; BYTES]) -> [u32; WORDS] {
    const { assert!(BYTES == 4 * WORDS) };
    let (words, _) = bytes.as_chunks::<4>();
    std::array::from_fn(|i| u32::from_le_bytes(words[i]))
}

fn nibbles(qs: [u8; 16]) -> Quads {
    let words: [u32; 4] = words(&qs);
    std::array::from_fn(|j| words[j % 4] >> (j / 4 * 4) & FOUR_BITS)
}

fn fifths(qh: [u8; 4], qs: [u8; 16]) -> Quads {
    let (low, bits) = (nibbles(qs), u32::from_le_bytes(qh));
    // The product puts bit b of four at bit 0 of byte b.
    let spread = |j: usize| ((bits >> (4 * j) & 15) * 0x0020_4081) & ONE_BIT;
    std::array::from_fn(|j| low[j] | spread(j) << 4)
}

fn q2_k(block: &BlockQ2K, rows: &mut Rows) {
    let low: [u32; 16] = words(&block.qs);
    for s in 0..8 {
        let quads = std::array::from_fn(|j| low[s / 4 * 8 + j] >> (s % 4 * 2) & TWO_BITS);
        rows.planes[0].extend(pack_2(&quads, 0));
    }
    super_scales(block.d, block.dmin, block.scales, rows);
}

fn q3_k(block: &BlockQ3K, rows: &mut Rows) {
    let (low, high): ([u32; 16], [u32; 8]) = (words(&block.qs), words(&block.hmask));
    for s in 0..8 {
        let quads = std::array::from_fn(|j| {
            let two = low[s / 4 * 8 + j] >> (s % 4 * 2) & TWO_BITS;
            two | (high[j] >> s & ONE_BIT) << 2
        });
        rows.planes[0].extend(pack_2(&quads, 0));
        rows.planes[2].push(pack_1(&quads, 2));
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
    let low: [u32; 32] = words(&block.qs);
    for s in 0..8 {
        let quads = std::array::from_fn(|j| low[s / 2 * 8 + j] >> (s % 2 * 4) & FOUR_BITS);
        rows.planes[0].extend(pack_4(&quads));
    }
    super_scales(block.d, block.dmin, scales_and_mins(&block.scales), rows);
}

fn q5_k(block: &BlockQ5K, rows: &mut Rows) {
    let (low, high): ([u32; 32], [u32; 8]) = (words(&block.qs), words(&block.qh));
    for s in 0..8 {
        let quads = std::array::from_fn(|j| {
            let four = low[s / 2 * 8 + j] >> (s % 2 * 4) & FOUR_BITS;
            four | (high[j] >> s & ONE_BIT) << 4
        });
        rows.planes[0].extend(pack_4(&quads));
        rows.planes[2].push(pack_1(&quads, 4));
    }
    super_scales(block.d, block.dmin, scales_and_mins(&block.scales), rows);
}

fn q6_k(block: &BlockQ6K, rows: &mut Rows) {
    let (low, high): ([u32; 32], [u32; 16]) = (words(&block.ql), words(&block.qh));
    for s in 0..8 {
        let (half, quarter) = (s / 4, s % 4);
        let quads = std::array::from_fn(|j| {
            let four = low[half * 16 + quarter % 2 * 8 + j] >> (quarter / 2 * 4) & FOUR_BITS;
            four | (high[half * 8 + j] >> (quarter * 2) & TWO_BITS) << 4
        });
        rows.planes[0].extend(pack_4(&quads));
        rows.planes[2].extend(pack_2(&quads, 4));
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

fn pack_4(quads: &Quads) -> [u32; 4] {
    std::array::from_fn(|j| quads[j] & FOUR_BITS | (quads[j + 4] & FOUR_BITS) << 4)
}

fn pack_2(quads: &Quads, shift: u32) -> [u32; 2] {
    let word = |quads: &[u32]| {
        let bits = quads.iter().map(|quad| quad >> shift & TWO_BITS);
        bits.zip([0, 2, 4, 6])
            .fold(0, |word, (bits, at)| word | bits << at)
    };
    [word(&quads[..4]), word(&quads[4..])]
}

fn pack_1(quads: &Quads, shift: u32) -> u32 {
    let bits = quads.iter().map(|quad| quad >> shift & ONE_BIT);
    bits.zip(0..8).fold(0, |word, (bits, at)| word | bits << at)
}
