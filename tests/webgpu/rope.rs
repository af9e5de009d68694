//! Rotations, and norm, rotation and append.

use tokenbrook::backend::RopeKind;
use tokenbrook::backend::ops::Cache;
use tokenbrook::backend::webgpu::kernels::qk_rope_append::{AppendCase, Judged, Variant, case};
use tokenbrook::backend::webgpu::kernels::rope_table;
use tokenbrook::backend::webgpu::kv::{KvFormat, KvLayout};
use tokenbrook::backend::webgpu::{Gpu, Pipelines};

use crate::gpu::{ALL, check, check_with, open};

/// `[H, G, D]`, block size.
fn shape([num_heads, num_kv_heads, head_dim]: [usize; 3], block_tokens: usize) -> AppendCase {
    AppendCase {
        layout: KvLayout {
            format: KvFormat::F32,
            num_kv_heads,
            head_dim,
            block_tokens,
        },
        kind: Cache::Full,
        num_heads,
        window: None,
        rope: Some((RopeKind::Interleaved, head_dim / 2)),
        norms: [false, false],
        sequences: vec![[3, 4]],
    }
}

fn check_all(gpu: &Gpu, shape: &AppendCase) {
    check_judged(gpu, shape, &[Judged::Qkv, Judged::Cache]);
}

fn check_judged(gpu: &Gpu, shape: &AppendCase, judgements: &[Judged]) {
    let mut pipelines = Pipelines::default();
    for format in KvFormat::ALL {
        let mut shape = shape.clone();
        shape.layout.format = format;
        for variant in Variant::available(gpu.capabilities(), &shape.layout) {
            for &judged in judgements {
                let case = case(gpu, variant, (&shape, judged), 11);
                check_with(gpu, &mut pipelines, &case);
            }
        }
    }
}

#[test]
fn rotations_are_exact_at_all_positions() {
    let gpu = open(ALL[3]);
    for size in [
        [1, 0, 1],
        [3, 1, 5],
        [7, 8189, 32],
        [2, 131_072, 64],
        [1, 1_000_003, 3],
    ] {
        check(&gpu, &rope_table::case(&gpu, size));
    }
}

#[test]
fn heads_are_rotated_and_cached_at_awkward_sizes() {
    for options in ALL {
        let gpu = open(options);
        for heads in [
            [1, 1, 6],
            [3, 1, 10],
            [7, 1, 64],
            [9, 3, 80],
            [2, 2, 128],
            [4, 2, 256],
        ] {
            check_all(&gpu, &shape(heads, 5));
        }
    }
}

#[test]
fn heads_are_normed_and_rotated_in_halves_and_in_part() {
    let gpu = open(ALL[0]);
    for norms in [[true, false], [false, true], [true, true]] {
        let mut shape = shape([4, 2, 80], 16);
        shape.norms = norms;
        shape.rope = Some((RopeKind::Halves, 40));
        check_all(&gpu, &shape);
        shape.rope = Some((RopeKind::Halves, 7));
        check_all(&gpu, &shape);
        shape.rope = Some((RopeKind::Interleaved, 13));
        check_all(&gpu, &shape);
        shape.rope = None;
        check_all(&gpu, &shape);
    }
}

#[test]
fn several_sequences_are_cached_across_blocks_and_around_rings() {
    let gpu = open(ALL[0]);
    let mut shape = shape([2, 2, 64], 5);
    shape.sequences = vec![[8, 8190], [1, 0], [40, 3]];
    check_all(&gpu, &shape);
    shape.kind = Cache::Window;
    shape.window = Some(7);
    shape.rope = Some((RopeKind::Halves, 32));
    check_all(&gpu, &shape);
}

#[test]
fn appending_changes_no_other_position() {
    let gpu = open(ALL[0]);
    for head_dim in [6, 80] {
        let mut shape = shape([2, 2, head_dim], 5);
        shape.sequences = vec![[8, 8], [3, 22]];
        check_judged(&gpu, &shape, &[Judged::Earlier]);
        shape.kind = Cache::Window;
        shape.window = Some(9);
        shape.sequences = vec![[8, 1003], [3, 15]];
        check_judged(&gpu, &shape, &[Judged::Earlier]);
    }
}

#[test]
fn attention_finds_what_was_appended() {
    let gpu = open(ALL[0]);
    for heads in [[1, 1, 6], [3, 1, 10], [4, 2, 33], [3, 1, 64]] {
        let mut shape = shape(heads, 5);
        shape.sequences = vec![[8, 0], [1, 0], [13, 0]];
        shape.rope = Some((RopeKind::Halves, 3));
        shape.norms = [true, true];
        check_judged(&gpu, &shape, &[Judged::Attended]);
    }
}
