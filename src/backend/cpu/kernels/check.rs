//! The comparison of every kernel with its plain twin, bit for bit, on sizes that leave rests.

use super::{Method, Product, dequantize, exact, form, method, run};
use crate::backend::BackendError;
use crate::backend::cpu::layout::Layout;
use crate::backend::cpu::packed::{NO_VALUES, Packed, ROWS};
use crate::backend::cpu::rounded::{Digits, Rounded};
use crate::backend::cpu::team::Team;
use crate::gguf::GgmlType;

/// Rows, columns, tokens.
type Size = (usize, usize, usize);

/// Two groups at a time and one, a tile and what is left over, factors of two blocks of blocks: as
/// little as has them all, since a browser has yet to optimize code when this runs.
const FEW: [Size; 3] = [(9, 256, 1), (5, 512, 6), (3, 256, 2)];

const MANY: [Size; 6] = [
    (1, 256, 1),
    (7, 256, 3),
    (9, 512, 7),
    (16, 768, 4),
    (16, 768, 10),
    (21, 256, 1),
];

/// Bytes of blocks and an activation that are the largest and the smallest integers everywhere, so
/// that what does not fit shows.
const EXTREMES: [(u8, f32); 4] = [(0xff, 1.0), (0xff, -1.0), (0x80, 1.0), (0x80, -1.0)];

/// Names of the types whose kernel differs from its twin.
///
/// # Errors
/// [`BackendError::OutOfMemory`].
pub(in crate::backend::cpu) fn differing() -> Result<Vec<&'static str>, BackendError> {
    differing_at(&GgmlType::ALL, &MANY)
}

/// The same of some types, at few sizes.
///
/// # Errors
/// [`BackendError::OutOfMemory`].
pub(in crate::backend::cpu) fn differing_of(
    types: &[GgmlType],
) -> Result<Vec<&'static str>, BackendError> {
    differing_at(types, &FEW)
}

fn differing_at(types: &[GgmlType], sizes: &[Size]) -> Result<Vec<&'static str>, BackendError> {
    let mut found = Vec::new();
    for &ggml_type in types {
        let mut agrees = true;
        for (seed, &size) in (1..).zip(sizes) {
            let mut random = Random(seed);
            let (rows, cols, tokens) = size;
            let bytes = blocks(&mut random, ggml_type, bytes_of(ggml_type, rows, cols));
            let x: Vec<f32> = (0..tokens * cols).map(|_| random.signed()).collect();
            agrees &= same(ggml_type, size, &bytes, &x)?;
        }
        for (byte, x) in EXTREMES {
            let size = (4, 256, 5);
            let mut bytes = vec![byte; bytes_of(ggml_type, 4, 256)];
            settle_floats(ggml_type, &mut bytes);
            agrees &= same(ggml_type, size, &bytes, &[x; 5 * 256])?;
        }
        if matches!(ggml_type, GgmlType::F16 | GgmlType::BF16) {
            agrees &= halves_agree(ggml_type)?;
        }
        if !agrees {
            found.push(ggml_type.name());
        }
    }
    Ok(found)
}

fn bytes_of(ggml_type: GgmlType, rows: usize, cols: usize) -> usize {
    let row = ggml_type.row_bytes(cols as u64).unwrap_or(0);
    rows * usize::try_from(row).unwrap_or(0)
}

/// The methods that this module was built with.
fn methods() -> &'static [Method] {
    match method() {
        Method::Words => &[Method::Words],
        Method::Pairs | Method::Quads => &[Method::Pairs, Method::Quads],
    }
}

/// Whether kernels and plain twins agree on these blocks and activations.
fn same(
    ggml_type: GgmlType,
    (rows, cols, tokens): (usize, usize, usize),
    bytes: &[u8],
    values: &[f32],
) -> Result<bool, BackendError> {
    let layout = Layout::of(ggml_type);
    let ranges = || [0..rows.div_ceil(ROWS), 0..tokens];
    let mut expected = vec![f32::NAN; rows * tokens];
    let mut found = expected.clone();
    let mut forms = [Digits::Few, Digits::Many].map(|digits| form(layout, digits));
    if forms[0] == forms[1] {
        forms[1] = None;
    }
    let mut agree = true;
    for (i, &method) in methods().iter().enumerate() {
        let weights = Packed::new((ggml_type, layout, method), [rows, cols], bytes)?;
        if i == 0 {
            // These know no methods.
            exact::run::<true>((&weights, values), ranges(), &mut expected, rows);
            exact::run::<false>((&weights, values), ranges(), &mut found, rows);
            agree &= same_bits(&expected, &found) && values_agree(&weights);
        }
        for form in forms.into_iter().flatten() {
            let mut x = Rounded::new(form, method);
            x.fill(values, cols, &Team::alone());
            let product = Product {
                weights: &weights,
                x: &x,
            };
            run::<true>(product, ranges(), &mut expected, rows);
            run::<false>(product, ranges(), &mut found, rows);
            agree &= same_bits(&expected, &found);
        }
    }
    Ok(agree)
}

/// Whether numbers are finite and the same.
fn same_bits(expected: &[f32], found: &[f32]) -> bool {
    let same = |(a, b): (&f32, &f32)| a.to_bits() == b.to_bits() && a.is_finite();
    expected.iter().zip(found).all(same)
}

/// Whether weights in f32 have the same bits, or are NaN in both.
fn values_agree(weights: &Packed) -> bool {
    (0..weights.groups()).all(|group| {
        let mut expected = vec![NO_VALUES; weights.blocks];
        let mut found = expected.clone();
        let group = weights.group(group);
        weights.dequantize(group, &mut expected);
        dequantize(weights, group, &mut found);
        let flat = |values| bytemuck::cast_slice::<_, f32>(values).iter();
        let same = |(a, b): (&f32, &f32)| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan();
        flat(&expected).zip(flat(&found)).all(same)
    })
}

/// Whether all floats of 16 bits are read alike: those that are finite by themselves, and all.
fn halves_agree(ggml_type: GgmlType) -> Result<bool, BackendError> {
    let mut agree = true;
    let layout = Layout::of(ggml_type);
    for last in [0x7c00, 0x8000] {
        let positive = (0_u16..last).flat_map(u16::to_le_bytes);
        let negative = (0..last).flat_map(|bits| (bits | 0x8000).to_le_bytes());
        let bytes: Vec<u8> = positive.chain(negative).collect();
        let shape = [8, bytes.len() / 16];
        agree &= values_agree(&Packed::new((ggml_type, layout, method()), shape, &bytes)?);
    }
    Ok(agree)
}

/// Random blocks whose floats are finite: bytes of random bits, but exponents kept small where
/// the floats lie.
pub(in crate::backend::cpu) fn blocks(
    random: &mut Random,
    ggml_type: GgmlType,
    len: usize,
) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..len).map(|_| random.next().to_le_bytes()[0]).collect();
    settle_floats(ggml_type, &mut bytes);
    bytes
}

/// Makes the floats of blocks finite and small.
fn settle_floats(ggml_type: GgmlType, bytes: &mut [u8]) {
    let block_bytes = usize::try_from(ggml_type.block_bytes()).unwrap_or(1);
    // The last bytes of floats; what is kept of them and what is added.
    let (floats, kept, added): (&[usize], u8, u8) = match ggml_type {
        // Between 2^-5 and 2^-3, of either sign.
        GgmlType::F32 | GgmlType::Q8_K => (&[3], 0x80, 0x3d),
        GgmlType::BF16 => (&[1], 0x80, 0x3d),
        // Exponents between -7 and 0.
        GgmlType::MXFP4 => (&[0], 0x07, 0x78),
        // Halves of a size between 2^-11 and 2^-7, of either sign.
        GgmlType::Q2_K => (&[81, 83], 0x8f, 0x10),
        GgmlType::Q3_K => (&[109], 0x8f, 0x10),
        GgmlType::Q6_K => (&[209], 0x8f, 0x10),
        GgmlType::Q4_1 | GgmlType::Q5_1 | GgmlType::Q4_K | GgmlType::Q5_K => (&[1, 3], 0x8f, 0x10),
        _ => (&[1], 0x8f, 0x10),
    };
    for block in bytes.chunks_exact_mut(block_bytes) {
        for &at in floats {
            block[at] = block[at] & kept | added;
        }
    }
}

/// Numbers for the comparisons (Steele, Lea & Flood 2014, SplitMix64).
#[derive(Debug)]
pub(in crate::backend::cpu) struct Random(pub(in crate::backend::cpu) u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// Between -1 and 1.
    pub(in crate::backend::cpu) fn signed(&mut self) -> f32 {
        (self.next() >> 40) as f32 / 8_388_608.0 - 1.0
    }
}
