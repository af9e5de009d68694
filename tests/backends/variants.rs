//! Every feature of every operation: CPU against reference.

use tokenbrook::backend::RopeKind;
use tokenbrook::backend::cpu::{CpuBackend, Precision};
use tokenbrook::backend::ops::{Activation, HeadShape};
use tokenbrook::backend::reference::ReferenceBackend;
use tokenbrook::gguf::GgmlType;

use crate::tiny::{Loaded, Tiny, distance};

/// Relative to the largest logit: 50 roundings of f32, after two layers.
const EXACT: f32 = 3e-6;

/// Distances of the exact and the fast tier from the reference, for a prompt in two chunks.
fn distances(tiny: &Tiny, len: usize) -> [f32; 2] {
    let ids = tiny.prompt(len);
    let first = (len / 2).min(tiny.max_rows);
    let mut chunks = vec![first];
    while chunks.iter().sum::<usize>() < len {
        chunks.push((len - chunks.iter().sum::<usize>()).min(tiny.max_rows));
    }
    let want = Loaded::new(tiny, ReferenceBackend::new()).chunks(&ids, &chunks);
    [Precision::Exact, Precision::Fast].map(|precision| {
        let got = Loaded::new(tiny, CpuBackend::new(precision)).chunks(&ids, &chunks);
        distance(&want, &got)
    })
}

fn heads(num_heads: usize, num_kv_heads: usize, head_dim: usize) -> HeadShape {
    HeadShape {
        num_heads,
        num_kv_heads,
        head_dim,
    }
}

#[test]
fn every_feature_matches_the_reference() {
    let base = Tiny::default();
    let variants = [
        ("llama", base.clone()),
        (
            "no rope",
            Tiny {
                rope: None,
                ..base.clone()
            },
        ),
        (
            "rope by halves",
            Tiny {
                rope: Some((RopeKind::Halves, 16, 1.0)),
                ..base.clone()
            },
        ),
        ("partial interleaved rope", {
            Tiny {
                rope: Some((RopeKind::Interleaved, 5, 1.3)),
                ..base.clone()
            }
        }),
        ("partial rope by halves", {
            Tiny {
                rope: Some((RopeKind::Halves, 5, 0.7)),
                ..base.clone()
            }
        }),
        (
            "biases",
            Tiny {
                bias: true,
                ..base.clone()
            },
        ),
        (
            "query and key norms",
            Tiny {
                qk_norm: true,
                ..base.clone()
            },
        ),
        (
            "post norms",
            Tiny {
                post_norm: true,
                ..base.clone()
            },
        ),
        (
            "gelu",
            Tiny {
                activation: Activation::GeluTanh,
                ..base.clone()
            },
        ),
        (
            "window",
            Tiny {
                window: Some(3),
                ..base.clone()
            },
        ),
        (
            "window of one",
            Tiny {
                window: Some(1),
                ..base.clone()
            },
        ),
        (
            "attention cap",
            Tiny {
                attention_cap: Some(0.4),
                ..base.clone()
            },
        ),
        (
            "logit cap",
            Tiny {
                logit_cap: Some(1.5),
                ..base.clone()
            },
        ),
        (
            "embedding scale",
            Tiny {
                embed_scale: 3.7,
                post_norm: true,
                ..base.clone()
            },
        ),
        (
            "one head a group",
            Tiny {
                heads: heads(3, 3, 32),
                ..base.clone()
            },
        ),
        (
            "seven heads a group",
            Tiny {
                heads: heads(7, 1, 32),
                ..base.clone()
            },
        ),
        (
            "two groups of three",
            Tiny {
                heads: heads(6, 2, 26),
                ..odd()
            },
        ),
        ("odd sizes", odd()),
        (
            "one position a block",
            Tiny {
                block_tokens: 1,
                ..base.clone()
            },
        ),
        (
            "one block",
            Tiny {
                block_tokens: 64,
                ..base.clone()
            },
        ),
        (
            "one row",
            Tiny {
                max_rows: 1,
                ..base
            },
        ),
    ];
    for (name, tiny) in variants {
        let [exact, fast] = distances(&tiny, 13);
        assert!(exact < EXACT, "{name}: exact differs by {exact:e}");
        // No quantized weights, so both tiers compute in f32.
        assert!(fast < EXACT, "{name}: fast differs by {fast:e}");
    }
}

/// Sizes that no lane count divides.
fn odd() -> Tiny {
    Tiny {
        hidden: 53,
        intermediate: 71,
        vocab: 19,
        heads: heads(3, 1, 22),
        rope: Some((RopeKind::Halves, 11, 1.0)),
        ..Tiny::default()
    }
}

#[test]
fn features_differ_from_each_other() {
    // Guards the comparison above: a feature that both backends ignored would pass it.
    let base = Tiny {
        rope: Some((RopeKind::Halves, 16, 1.0)),
        ..Tiny::default()
    };
    let ids = base.prompt(9);
    let run = |tiny: &Tiny| Loaded::new(tiny, ReferenceBackend::new()).chunks(&ids, &[9]);
    let plain = run(&base);
    for (name, tiny) in [
        (
            "no rope",
            Tiny {
                rope: None,
                ..base.clone()
            },
        ),
        (
            "kind",
            Tiny {
                rope: Some((RopeKind::Interleaved, 16, 1.0)),
                ..base.clone()
            },
        ),
        (
            "magnitude",
            Tiny {
                rope: Some((RopeKind::Halves, 16, 1.2)),
                ..base.clone()
            },
        ),
        (
            "activation",
            Tiny {
                activation: Activation::GeluTanh,
                ..base.clone()
            },
        ),
        (
            "window",
            Tiny {
                window: Some(2),
                ..base.clone()
            },
        ),
        (
            "attention cap",
            Tiny {
                attention_cap: Some(0.2),
                ..base.clone()
            },
        ),
        (
            "logit cap",
            Tiny {
                logit_cap: Some(1.5),
                ..base.clone()
            },
        ),
        (
            "scale",
            Tiny {
                embed_scale: 2.0,
                ..base.clone()
            },
        ),
    ] {
        let other = run(&tiny);
        assert!(distance(&plain, &other) > 1e-3, "{name} changes nothing");
    }
}

#[test]
fn attention_matches_over_many_tiles_and_blocks() {
    for (block_tokens, window) in [(64, None), (7, None), (512, Some(100)), (33, Some(40))] {
        let tiny = Tiny {
            layers: 1,
            block_tokens,
            window,
            max_rows: 40,
            ..odd()
        };
        let [exact, _] = distances(&tiny, 150);
        assert!(exact < EXACT, "{block_tokens} {window:?}: {exact:e}");
    }
}

#[test]
fn every_quantization_matches_the_reference() {
    for ggml_type in GgmlType::ALL {
        let [exact, fast] = distances(&Tiny::of_type(ggml_type), 11);
        assert!(
            exact < EXACT,
            "{}: exact differs by {exact:e}",
            ggml_type.name()
        );
        // int8 activations: one part in 254 of the largest of a block at every product; through
        // two layers and the head that comes to less than 4 % of the largest logit.
        assert!(
            fast < 4e-2,
            "{}: fast differs by {fast:e}",
            ggml_type.name()
        );
        let float = matches!(ggml_type, GgmlType::F32 | GgmlType::F16 | GgmlType::BF16);
        assert_eq!(fast < EXACT, float, "{}: {fast:e}", ggml_type.name());
    }
}

#[test]
fn an_odd_number_of_blocks_a_row_matches_the_reference() {
    for ggml_type in [
        GgmlType::Q4_0,
        GgmlType::Q4_1,
        GgmlType::Q5_0,
        GgmlType::Q5_1,
        GgmlType::IQ4_NL,
        GgmlType::MXFP4,
    ] {
        let tiny = Tiny {
            ggml_type,
            qkv_types: [ggml_type; 3],
            ..Tiny::default()
        };
        let [exact, fast] = distances(&tiny, 7);
        assert!(exact < EXACT, "{}: {exact:e}", ggml_type.name());
        assert!(fast < 4e-2, "{}: {fast:e}", ggml_type.name());
    }
}

#[test]
fn parts_of_different_types_stack_in_one_matrix() {
    let tiny = Tiny {
        qkv_types: [GgmlType::Q4_K, GgmlType::Q6_K, GgmlType::F16],
        ..Tiny::of_type(GgmlType::Q8_0)
    };
    let other = Tiny {
        qkv_types: [GgmlType::MXFP4, GgmlType::Q8_0, GgmlType::IQ4_NL],
        ..tiny.clone()
    };
    for tiny in [tiny, other] {
        let [exact, fast] = distances(&tiny, 7);
        assert!(exact < EXACT, "{exact:e}");
        assert!(fast < 4e-2, "{fast:e}");
    }
}
