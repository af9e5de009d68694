//! Attention.

use tokenbrook::backend::ops::Cache;
use tokenbrook::backend::webgpu::kernels::attention::{AttentionCase, Variant, case};
use tokenbrook::backend::webgpu::kv::{KvFormat, KvLayout};
use tokenbrook::backend::webgpu::{DeviceOptions, Gpu, Pipelines};

use crate::gpu::{ALL, check_with, open};

/// `[H, G, D]`, block size, rows and position of one sequence.
fn shape(
    [num_heads, num_kv_heads, head_dim]: [usize; 3],
    block_tokens: usize,
    sequence: [usize; 2],
) -> AttentionCase {
    AttentionCase {
        layout: KvLayout {
            format: KvFormat::F32,
            num_kv_heads,
            head_dim,
            block_tokens,
        },
        kind: Cache::Full,
        num_heads,
        window: None,
        soft_cap: None,
        sequences: vec![sequence],
    }
}

/// A device with its pipelines.
struct Checks {
    gpu: Gpu,
    pipelines: Pipelines,
}

impl Checks {
    fn open(options: DeviceOptions) -> Self {
        Self {
            gpu: open(options),
            pipelines: Pipelines::default(),
        }
    }

    /// Every variant.
    fn all(&mut self, shape: &AttentionCase) {
        for variant in Variant::available(self.gpu.capabilities(), &shape.layout) {
            self.one(variant, shape);
        }
    }

    fn one(&mut self, variant: Variant, shape: &AttentionCase) {
        let case = case(&self.gpu, variant, shape, 5);
        check_with(&self.gpu, &mut self.pipelines, &case);
    }
}

#[test]
fn attention_matches_its_twin_at_awkward_sizes() {
    // All features, and none: what attention uses of a device is subgroups.
    for options in [ALL[0], ALL[3]] {
        let mut checks = Checks::open(options);
        for heads in [
            [1, 1, 6],
            [3, 1, 10],
            [7, 1, 64],
            [3, 1, 80],
            [2, 2, 128],
            [2, 1, 256],
        ] {
            for sequence in [[1, 0], [1, 200], [3, 4], [8, 63]] {
                checks.all(&shape(heads, 5, sequence));
            }
        }
    }
}

#[test]
fn attention_matches_its_twin_over_many_rows() {
    let mut checks = Checks::open(ALL[0]);
    for heads in [[1, 1, 6], [3, 1, 64], [7, 1, 80], [2, 1, 256], [20, 2, 12]] {
        checks.all(&shape(heads, 16, [40, 0]));
        checks.all(&shape(heads, 16, [40, 61]));
    }
}

#[test]
fn attention_reads_every_cache_format() {
    let mut checks = Checks::open(ALL[0]);
    for format in KvFormat::ALL {
        for (heads, sequence) in [([6, 2, 80], [3, 70]), ([3, 3, 10], [1, 33])] {
            let mut shape = shape(heads, 32, sequence);
            shape.layout.format = format;
            checks.all(&shape);
        }
    }
}

#[test]
fn attention_sees_a_window_and_no_more() {
    let mut checks = Checks::open(ALL[0]);
    for kind in [Cache::Full, Cache::Window] {
        for window in [1, 7, 32, 33] {
            for sequence in [[1, 0], [1, window - 1], [1, window], [40, 11], [3, 1000]] {
                let mut shape = shape([4, 2, 64], 5, sequence);
                shape.kind = kind;
                shape.window = Some(window);
                checks.all(&shape);
            }
        }
    }
}

#[test]
fn attention_keeps_sequences_apart() {
    let mut checks = Checks::open(ALL[0]);
    let mut shape = shape([3, 1, 64], 16, [1, 0]);
    shape.sequences = vec![[2, 90], [1, 0], [9, 33], [1, 300], [5, 7]];
    shape.soft_cap = Some(2.5);
    checks.all(&shape);
    shape.kind = Cache::Window;
    shape.window = Some(19);
    checks.all(&shape);
}

#[test]
fn attention_matches_its_twin_in_long_contexts() {
    let mut checks = Checks::open(ALL[0]);
    let mut wide = shape([3, 1, 256], 256, [3, 8175]);
    wide.layout.format = KvFormat::F16;
    let shapes = [
        shape([6, 2, 64], 256, [1, 1023]),
        shape([6, 2, 64], 256, [1, 4095]),
        shape([7, 1, 128], 256, [1, 8191]),
        wide,
    ];
    for shape in shapes {
        for variant in Variant::available(checks.gpu.capabilities(), &shape.layout) {
            let variant = match variant {
                Variant::Serial { splits } => Variant::serial(&shape.layout, 8192, splits),
                other => other,
            };
            checks.one(variant, &shape);
        }
    }
}
