//! Turns quantized blocks into floats, plainly: the meaning of each block type, one readable
//! loop each. Fast code elsewhere is compared with it.

mod block;
mod codes;
mod dequantize;

pub use block::{
    BlockIQ4NL, BlockMXFP4, BlockQ2K, BlockQ3K, BlockQ4_0, BlockQ4_1, BlockQ4K, BlockQ5_0,
    BlockQ5_1, BlockQ5K, BlockQ6K, BlockQ8_0, BlockQ8_1, BlockQ8K,
};
pub(crate) use codes::{SuperBlock, codes_q2_k, codes_q3_k, codes_q4_k, codes_q5_k, codes_q6_k};
pub(crate) use dequantize::{IQ4_NL_VALUES, MXFP4_VALUES, half_scale};
pub use dequantize::{QuantError, dequantize};
