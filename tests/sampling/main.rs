//! Host sampling: against examples worked out by hand, against frequencies, against candle's.

mod adjust;
mod cuts;
mod distribution;

use tokenbrook::backend::{SampleParams, sample};

/// Temperature 1 without cuts.
const PLAIN: SampleParams<'static> = SampleParams {
    temperature: 1.0,
    ..SampleParams::GREEDY
};

fn id(logits: &[f32], params: SampleParams<'_>) -> u32 {
    sample(logits, &params).unwrap().id
}
