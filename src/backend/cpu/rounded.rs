//! Activations rounded to integers, in blocks of 32 that share a scale.
//!
//! Eight bits cost the least and fourteen the most digits; see [`Digits`] for which where. The
//! relaxed dot product is defined alike everywhere only for a signed byte times a number below
//! 128. Where weights are unsigned codes, that holds for an activation of eight bits, and for the
//! halves of one of fourteen. Signed bytes of weights need activations that are below 128 instead:
//! shifted by 8192, both halves of fourteen bits are.

use super::kernels::Method;
use super::packed::COLS;
use super::team::Team;
use crate::backend::BackendError;

/// How much of an activation is kept, where there is a choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Digits {
    /// Eight bits.
    Few,
    /// Fourteen bits, at twice the integer products: for queries, keys and values, whose errors
    /// softmax multiplies.
    Many,
}

/// How activations are rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// -127 to 127.
    Eight,
    /// -8191 to 8191.
    Fourteen,
    /// The same for signed bytes of weights.
    ForSigned,
}

impl Form {
    pub(super) const ALL: [Self; 3] = [Self::Eight, Self::Fourteen, Self::ForSigned];

    const fn largest(self) -> f32 {
        match self {
            Self::Eight => 127.0,
            Self::Fourteen | Self::ForSigned => 8191.0,
        }
    }
}

/// The integers of a block as a kernel reads them.
pub(super) trait Integers: Copy {
    const ZERO: Self;

    fn of(rounded: &[i16; COLS]) -> Self;

    /// The integers that it was made of.
    fn wide(&self) -> [i16; COLS];
}

/// As they are.
pub(super) type Words = [i16; COLS];

/// Of eight bits.
pub(super) type Bytes = [i8; COLS];

/// Of fourteen: `x >> 7`, from -64 to 63, and `x & 127`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Halves(pub(super) [Bytes; 2]);

/// Of fourteen, shifted by 8192: both halves are from 0 to 127.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shifted(pub(super) [Bytes; 2]);

/// What [`Shifted`] adds.
const SHIFT: i16 = 8192;

impl Integers for Words {
    const ZERO: Self = [0; COLS];

    #[inline]
    fn of(rounded: &[i16; COLS]) -> Self {
        *rounded
    }

    #[inline]
    fn wide(&self) -> [i16; COLS] {
        *self
    }
}

#[expect(clippy::cast_possible_truncation, reason = "from -127 to 127")]
impl Integers for Bytes {
    const ZERO: Self = [0; COLS];

    #[inline]
    fn of(rounded: &[i16; COLS]) -> Self {
        rounded.map(|x| x as i8)
    }

    #[inline]
    fn wide(&self) -> [i16; COLS] {
        self.map(i16::from)
    }
}

#[expect(clippy::cast_possible_truncation, reason = "bits of a half")]
impl Integers for Halves {
    const ZERO: Self = Self([[0; COLS]; 2]);

    #[inline]
    fn of(rounded: &[i16; COLS]) -> Self {
        Self([
            rounded.map(|x| (x >> 7) as i8),
            rounded.map(|x| (x & 127) as i8),
        ])
    }

    #[inline]
    fn wide(&self) -> [i16; COLS] {
        let Self([high, low]) = self;
        std::array::from_fn(|i| (i16::from(high[i]) << 7) + i16::from(low[i]))
    }
}

impl Integers for Shifted {
    const ZERO: Self = Self([[0; COLS]; 2]);

    #[inline]
    fn of(rounded: &[i16; COLS]) -> Self {
        Self(Halves::of(&rounded.map(|x| x.wrapping_add(SHIFT))).0)
    }

    #[inline]
    fn wide(&self) -> [i16; COLS] {
        Halves(self.0).wide().map(|x| x.wrapping_sub(SHIFT))
    }
}

/// A block: `x[i]` is about `integers[i] * scale`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct Block<I> {
    pub(super) integers: I,
    /// Sums of the two halves.
    pub(super) halves: [i32; 2],
    /// Sum of the integers.
    pub(super) sum: i32,
    // Last, so that compilers find no room to load a vector where one number is wanted.
    pub(super) scale: f32,
    /// The sum times the scale.
    pub(super) scaled_sum: f32,
}

/// Rounded rows, `[row, block]`.
#[derive(Debug)]
pub(super) struct Rounded {
    form: Form,
    /// How their kernels multiply.
    method: Method,
    blocks: usize,
    pub(super) rows: Rows,
}

/// Rows as the kernels of this form read them.
#[derive(Debug)]
pub(super) enum Rows {
    Words(Vec<Block<Words>>),
    Bytes(Vec<Block<Bytes>>),
    Halves(Vec<Block<Halves>>),
    Shifted(Vec<Block<Shifted>>),
}

/// An expression with the vector of blocks of any kind.
macro_rules! with_rows {
    ($rows:expr, $blocks:ident => $run:expr) => {
        match $rows {
            Rows::Words($blocks) => $run,
            Rows::Bytes($blocks) => $run,
            Rows::Halves($blocks) => $run,
            Rows::Shifted($blocks) => $run,
        }
    };
}
pub(super) use with_rows;

impl Rounded {
    pub(super) fn new(form: Form, method: Method) -> Self {
        let rows = match (method, form) {
            (Method::Words, _) | (Method::Pairs, Form::ForSigned) => Rows::Words(Vec::new()),
            (_, Form::Eight) => Rows::Bytes(Vec::new()),
            (_, Form::Fourteen) => Rows::Halves(Vec::new()),
            (Method::Quads, Form::ForSigned) => Rows::Shifted(Vec::new()),
        };
        Self {
            form,
            method,
            blocks: 0,
            rows,
        }
    }

    pub(super) fn form(&self) -> Form {
        self.form
    }

    /// How kernels multiply these rows.
    #[cfg_attr(
        not(target_arch = "wasm32"),
        expect(dead_code, reason = "kernels with SIMD alone have a choice")
    )]
    pub(super) fn method(&self) -> Method {
        self.method
    }

    /// Makes room for `rows` rows of `cols` elements.
    pub(super) fn reserve(&mut self, rows: usize, cols: usize) -> Result<(), BackendError> {
        let len = rows.saturating_mul(cols.div_ceil(COLS));
        with_rows!(&mut self.rows, blocks => reserve(blocks, len))
    }

    /// Rounds rows of `cols` elements, a multiple of 32.
    pub(super) fn fill(&mut self, x: &[f32], cols: usize, team: &Team) {
        self.blocks = cols / COLS;
        with_rows!(&mut self.rows, blocks => fill(self.form, (x, cols), blocks, team));
    }

    /// Blocks of a row.
    pub(super) fn blocks(&self) -> usize {
        self.blocks
    }

    /// Bytes held.
    pub(super) fn bytes(&self) -> u64 {
        with_rows!(&self.rows, blocks => bytes_of(blocks))
    }
}

fn bytes_of<I>(blocks: &Vec<Block<I>>) -> u64 {
    (blocks.capacity() * size_of::<Block<I>>()) as u64
}

fn reserve<I>(blocks: &mut Vec<Block<I>>, len: usize) -> Result<(), BackendError> {
    let reserved = blocks.try_reserve_exact(len);
    reserved.map_err(|_| BackendError::OutOfMemory {
        what: "activations",
        bytes: (len as u64).saturating_mul(size_of::<Block<I>>() as u64),
    })
}

fn fill<I: Integers + Send>(
    form: Form,
    (x, cols): (&[f32], usize),
    out: &mut Vec<Block<I>>,
    team: &Team,
) {
    let none = Block {
        integers: I::ZERO,
        scale: 0.0,
        sum: 0,
        scaled_sum: 0.0,
        halves: [0; 2],
    };
    out.resize(x.len() / COLS, none);
    team.run_rows((x, cols), (out, cols / COLS), |x, out| {
        for (x, out) in x.as_chunks::<COLS>().0.iter().zip(out) {
            *out = block(form, x);
        }
    });
}

fn block<I: Integers>(form: Form, x: &[f32; COLS]) -> Block<I> {
    let (scale, rounded) = round(form, x);
    let halves = [0, 1].map(|half| {
        let mut lanes = [0; 4];
        for x in rounded.as_chunks::<4>().0.iter().skip(4 * half).take(4) {
            for lane in 0..4 {
                lanes[lane] += x[lane];
            }
        }
        lanes.iter().sum()
    });
    let sum = halves[0] + halves[1];
    #[expect(clippy::cast_possible_truncation, reason = "at most 8191 in size")]
    let integers = I::of(&rounded.map(|x| x as i16));
    Block {
        integers,
        scale,
        sum,
        scaled_sum: scale * sum as f32,
        halves,
    }
}

/// A block's scale and its elements rounded to the nearest integers; the scale is NaN where an
/// element is not finite.
#[inline]
fn round(form: Form, x: &[f32; COLS]) -> (f32, [i32; COLS]) {
    // Adding 1.5 * 2^23 rounds to an integer and leaves it in the low bits of the sum.
    const ROUND: f32 = 12_582_912.0;
    // Without their signs, floats are in the order of their bits, infinity and NaN at the end.
    let mut lanes = [0_i32; 4];
    for x in x.as_chunks::<4>().0 {
        for lane in 0..4 {
            lanes[lane] = lanes[lane].max(x[lane].abs().to_bits().cast_signed());
        }
    }
    let largest = lanes.into_iter().fold(0, i32::max);
    let largest = f32::from_bits(largest.cast_unsigned());
    if !largest.is_finite() || largest < f32::MIN_POSITIVE * 16384.0 {
        return (largest * 0.0, [0; COLS]);
    }
    let factor = form.largest() / largest;
    let integer = |x: f32| (x * factor + ROUND).to_bits().wrapping_sub(ROUND.to_bits());
    let scale = largest / form.largest();
    (scale, x.map(|x| integer(x).cast_signed()))
}
