//! Block layouts as they stand in a file: little endian, no padding, alignment 1.
//!
//! Scales are bytes here because blocks lie at any address; `d` and `m` are `f16` bit patterns
//! unless stated otherwise. Source: `ggml-common.h` of <https://github.com/ggml-org/ggml>.
#![expect(
    missing_docs,
    reason = "fields are named as ggml names them and explained per block"
)]

use bytemuck::{Pod, Zeroable};

use crate::gguf::GgmlType;

macro_rules! block {
    ($(#[$doc:meta])* $name:ident as $ty:ident { $($field:ident: $kind:ty),* $(,)? }) => {
        $(#[$doc])*
        #[repr(C)]
        #[derive(Clone, Copy, Debug, Pod, Zeroable)]
        pub struct $name {
            $(pub $field: $kind,)*
        }

        const _: () = assert!(align_of::<$name>() == 1);

        impl $name {
            /// The type in whose tensors these blocks are.
            pub const GGML_TYPE: GgmlType = GgmlType::$ty;
        }
    };
}

block! {
    /// 32 elements of 4 bits: `(q - 8) * d`. Byte `i` of `qs` holds elements `i` (low half) and
    /// `i + 16` (high half).
    BlockQ4_0 as Q4_0 { d: [u8; 2], qs: [u8; 16] }
}
block! {
    /// 32 elements of 4 bits: `q * d + m`; `qs` as in [`BlockQ4_0`].
    BlockQ4_1 as Q4_1 { d: [u8; 2], m: [u8; 2], qs: [u8; 16] }
}
block! {
    /// 32 elements of 5 bits: `(q - 16) * d`; low bits as in [`BlockQ4_0`], the fifth bit of
    /// element `i` is bit `i` of `qh`.
    BlockQ5_0 as Q5_0 { d: [u8; 2], qh: [u8; 4], qs: [u8; 16] }
}
block! {
    /// 32 elements of 5 bits: `q * d + m`; bits as in [`BlockQ5_0`].
    BlockQ5_1 as Q5_1 { d: [u8; 2], m: [u8; 2], qh: [u8; 4], qs: [u8; 16] }
}
block! {
    /// 32 elements of 8 bits: `q * d`.
    BlockQ8_0 as Q8_0 { d: [u8; 2], qs: [i8; 32] }
}
block! {
    /// 32 elements of 8 bits: `q * d`; `s` is `d` times the sum of `qs`.
    BlockQ8_1 as Q8_1 { d: [u8; 2], s: [u8; 2], qs: [i8; 32] }
}
block! {
    /// 256 elements of 2 bits in 16 groups of 16: `q * d * (scale & 15) - dmin * (scale >> 4)`.
    BlockQ2K as Q2_K { scales: [u8; 16], qs: [u8; 64], d: [u8; 2], dmin: [u8; 2] }
}
block! {
    /// 256 elements of 3 bits in 16 groups of 16: `(q - 4) * d * (scale - 32)`, 6-bit scales;
    /// the third bit of each element is in `hmask`.
    BlockQ3K as Q3_K { hmask: [u8; 32], qs: [u8; 64], scales: [u8; 12], d: [u8; 2] }
}
block! {
    /// 256 elements of 4 bits in 8 groups of 32: `q * d * scale - dmin * min`, 6 bits each.
    BlockQ4K as Q4_K { d: [u8; 2], dmin: [u8; 2], scales: [u8; 12], qs: [u8; 128] }
}
block! {
    /// 256 elements of 5 bits, scaled as in [`BlockQ4K`]; the fifth bits are in `qh`.
    BlockQ5K as Q5_K { d: [u8; 2], dmin: [u8; 2], scales: [u8; 12], qh: [u8; 32], qs: [u8; 128] }
}
block! {
    /// 256 elements of 6 bits in 16 groups of 16: `(q - 32) * d * scale`; four low bits in `ql`,
    /// two high bits in `qh`.
    BlockQ6K as Q6_K { ql: [u8; 128], qh: [u8; 64], scales: [i8; 16], d: [u8; 2] }
}
block! {
    /// 256 elements of 8 bits: `q * d`, where `d` is an `f32`; `bsums` are the sums (`i16`) of
    /// each 16 elements.
    BlockQ8K as Q8_K { d: [u8; 4], qs: [i8; 256], bsums: [[u8; 2]; 16] }
}
block! {
    /// 32 elements of 4 bits: `values[q] * d`, where the 16 values are not evenly spaced; `qs` as
    /// in [`BlockQ4_0`].
    BlockIQ4NL as IQ4_NL { d: [u8; 2], qs: [u8; 16] }
}
block! {
    /// 32 elements of 4 bits, each a float of 2 exponent bits and 1 mantissa bit (E2M1), times
    /// `2^(e - 127)` (E8M0); `qs` as in [`BlockQ4_0`].
    BlockMXFP4 as MXFP4 { e: u8, qs: [u8; 16] }
}

const _: () = {
    assert!(size_of::<BlockQ4_0>() == 18);
    assert!(size_of::<BlockQ4_1>() == 20);
    assert!(size_of::<BlockQ5_0>() == 22);
    assert!(size_of::<BlockQ5_1>() == 24);
    assert!(size_of::<BlockQ8_0>() == 34);
    assert!(size_of::<BlockQ8_1>() == 36);
    assert!(size_of::<BlockQ2K>() == 84);
    assert!(size_of::<BlockQ3K>() == 110);
    assert!(size_of::<BlockQ4K>() == 144);
    assert!(size_of::<BlockQ5K>() == 176);
    assert!(size_of::<BlockQ6K>() == 210);
    assert!(size_of::<BlockQ8K>() == 292);
    assert!(size_of::<BlockIQ4NL>() == 18);
    assert!(size_of::<BlockMXFP4>() == 17);
};
