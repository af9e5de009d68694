//! Wrong use ends in typed errors, on both backends.

use pollster::block_on;
use tokenbrook::backend::cpu::{CpuBackend, Precision};
use tokenbrook::backend::ops::{
    Attention, Cache, Embed, HeadShape, NormQkv, NormSpan, QkRopeAppend,
};
use tokenbrook::backend::reference::ReferenceBackend;
use tokenbrook::backend::{
    Backend, BackendError, BlockId, MatrixId, MatrixSpec, ModelShape, Outputs, PartSpec, RopeId,
    RopeKind, RopeSpec, SampleParams, SequenceStep, Slot, Step, TokenSlot, TokenSource, VectorId,
};
use tokenbrook::gguf::GgmlType;

use crate::quantize::quantize;
use crate::tiny::{Loaded, Tiny};

macro_rules! on_both_backends {
    ($test:ident) => {
        $test(ReferenceBackend::new());
        $test(CpuBackend::new(Precision::Fast));
    };
}

fn usage_of<T: std::fmt::Debug>(result: Result<T, BackendError>) -> &'static str {
    match result {
        Err(BackendError::Usage { why, .. }) => why,
        other => panic!("no usage error: {other:?}"),
    }
}

fn shape_of<T: std::fmt::Debug>(result: Result<T, BackendError>) -> (&'static str, usize, usize) {
    match result {
        Err(BackendError::Shape {
            argument,
            expected,
            actual,
            ..
        }) => (argument, expected, actual),
        other => panic!("no shape error: {other:?}"),
    }
}

fn rows_of<T: std::fmt::Debug>(result: Result<T, BackendError>) -> (String, usize, usize, String) {
    match result {
        Err(BackendError::Rows {
            tensor,
            first_row,
            end_row,
            why,
        }) => (tensor, first_row, end_row, why),
        other => panic!("no rows error: {other:?}"),
    }
}

fn spec(cols: usize, rows: &[usize]) -> MatrixSpec {
    let part = |(i, &rows): (usize, &usize)| PartSpec {
        name: format!("part.{i}"),
        rows,
    };
    MatrixSpec {
        cols,
        parts: rows.iter().enumerate().map(part).collect(),
    }
}

#[test]
fn rejects_matrices_without_elements_or_beyond_memory() {
    fn check<B: Backend>(mut b: B) {
        usage_of(b.create_matrix(&spec(0, &[3])));
        usage_of(b.create_matrix(&spec(32, &[])));
        usage_of(b.create_matrix(&spec(32, &[3, 0])));
        usage_of(b.create_matrix(&spec(32, &[usize::MAX, 1])));
        usage_of(b.create_matrix(&spec(usize::MAX, &[3])));
        let empty = RopeSpec {
            kind: RopeKind::Halves,
            frequencies: vec![],
            magnitude: 1.0,
        };
        usage_of(b.create_rope(&empty));
    }
    on_both_backends!(check);
}

#[test]
fn rejects_rows_that_do_not_follow() {
    fn check<B: Backend>(mut b: B) {
        let ty = GgmlType::Q8_0;
        let m = b.create_matrix(&spec(64, &[4, 3])).unwrap();
        let bytes = quantize(ty, &[0.5; 64 * 4], 64);
        let row = bytes.len() / 4;
        usage_of(b.write_rows(MatrixId(1), 0, ty, 0, &bytes));
        usage_of(b.write_rows(m, 2, ty, 0, &bytes));
        let (tensor, first, end, why) = rows_of(b.write_rows(m, 1, ty, 0, &bytes));
        assert_eq!((tensor.as_str(), first, end), ("part.1", 0, 4));
        assert_eq!(why, "the tensor has 3 rows");
        assert_eq!(
            rows_of(b.write_rows(m, 0, ty, 1, &bytes[..row])).3,
            "row 0 is next"
        );
        let (.., why) = rows_of(b.write_rows(m, 0, ty, 0, &bytes[..row - 1]));
        assert_eq!(
            why,
            format!("{} bytes are not whole rows of {row} bytes (Q8_0)", row - 1)
        );
        rows_of(b.write_rows(m, 0, ty, 0, &[]));
        let (.., why) = rows_of(b.write_rows(m, 0, GgmlType::Q4_K, 0, &bytes));
        assert_eq!(why, "64 columns are no multiple of 256");
        b.write_rows(m, 0, ty, 0, &bytes[..2 * row]).unwrap();
        assert_eq!(
            rows_of(b.write_rows(m, 0, ty, 1, &bytes[..row])).3,
            "row 2 is next"
        );
        let other = quantize(GgmlType::Q4_0, &[0.5; 64], 64);
        let (.., why) = rows_of(b.write_rows(m, 0, GgmlType::Q4_0, 2, &other));
        assert_eq!(why, "Q4_0 differs from earlier rows");
        let (.., why) = rows_of(b.write_rows(m, 0, ty, usize::MAX, &bytes));
        assert_eq!(why, "row 2 is next");
        b.write_rows(m, 0, ty, 2, &bytes[..2 * row]).unwrap();
        let (tensor, first, end, why) = rows_of(b.prepare(&Tiny::default().shape()));
        assert_eq!((tensor.as_str(), first, end), ("part.1", 0, 3));
        assert_eq!(why, "never written");
    }
    on_both_backends!(check);
}

#[test]
fn reads_rows_from_bytes_at_any_address() {
    fn check<B: Backend>(mut b: B) {
        let m = b.create_matrix(&spec(256, &[1; 9])).unwrap();
        let bytes = quantize(GgmlType::Q8_K, &[0.5; 256], 256);
        for shift in 0..9 {
            let moved = [vec![0; shift], bytes.clone()].concat();
            b.write_rows(m, shift, GgmlType::Q8_K, 0, &moved[shift..])
                .unwrap();
        }
    }
    on_both_backends!(check);
}

#[test]
fn rejects_shapes_that_make_no_sense() {
    fn check<B: Backend>(mut b: B) {
        let good = Tiny::default().shape();
        let heads = |num_heads, num_kv_heads, head_dim| ModelShape {
            heads: HeadShape {
                num_heads,
                num_kv_heads,
                head_dim,
            },
            ..good
        };
        for shape in [
            ModelShape {
                num_layers: 0,
                window_layers: 0,
                ..good
            },
            ModelShape {
                max_rows: 0,
                ..good
            },
            ModelShape {
                block_tokens: 0,
                ..good
            },
            ModelShape {
                intermediate_size: usize::MAX,
                ..good
            },
            heads(3, 0, 8),
            heads(3, 2, 8),
            heads(usize::MAX, 1, 8),
        ] {
            usage_of(b.prepare(&shape));
        }
        usage_of(b.allocate_block(Cache::Full));
        let step = Step {
            tokens: TokenSource::Ids(&[]),
            sequences: &[],
            outputs: Outputs::Nothing,
        };
        usage_of(b.begin(&step));
        b.prepare(&good).unwrap();
        usage_of(b.prepare(&good));
        usage_of(b.create_matrix(&spec(32, &[3])));
        usage_of(b.create_vector(&[1.0]));
    }
    on_both_backends!(check);
}

#[test]
fn reports_memory_that_cannot_be_had() {
    fn check<B: Backend>(mut b: B) {
        let good = Tiny::default().shape();
        for max_rows in [usize::MAX, 1 << 50] {
            let error = b.prepare(&ModelShape { max_rows, ..good }).unwrap_err();
            assert!(matches!(error, BackendError::OutOfMemory { .. }), "{error}");
            assert_eq!(error.code(), "out-of-memory");
        }
        b.prepare(&ModelShape {
            block_tokens: 1 << 50,
            ..good
        })
        .unwrap();
        let error = b.allocate_block(Cache::Full).unwrap_err();
        let bytes = (1 << 50) * 2 * 2 * 32 * 4;
        assert_eq!(
            error,
            BackendError::OutOfMemory {
                what: "the KV cache",
                bytes
            }
        );
    }
    on_both_backends!(check);
}

#[test]
fn rejects_passes_that_do_not_fit() {
    fn check<B: Backend>(b: B) {
        let mut model = Loaded::new(&Tiny::default(), b);
        let table = model.table(20);
        let b = &mut model.backend;
        let mut begin = |ids: &[u32], sequences: &[(usize, usize, &[BlockId])]| {
            let sequences: Vec<_> = sequences
                .iter()
                .map(|&(rows, position, blocks)| SequenceStep {
                    rows,
                    position,
                    blocks,
                    window_blocks: &[],
                })
                .collect();
            let tokens = TokenSource::Ids(ids);
            b.begin(&Step {
                tokens,
                sequences: &sequences,
                outputs: Outputs::LastRow,
            })
        };
        usage_of(begin(&[], &[]));
        usage_of(begin(&[], &[(0, 0, &table)]));
        assert_eq!(
            shape_of(begin(&[1], &[(2, 0, &table)])),
            ("token ids", 2, 1)
        );
        assert_eq!(
            begin(&[1, 37], &[(2, 0, &table)]),
            Err(BackendError::TokenId {
                id: 37,
                vocab_size: 37
            })
        );
        assert_eq!(
            shape_of(begin(&[1; 17], &[(17, 0, &table)])),
            ("rows, at most", 16, 17)
        );
        let twice: &[_] = &[(9, 0, &table[..2]), (usize::MAX, 0, &table[2..])];
        assert_eq!(shape_of(begin(&[1; 9], twice)).1, 16);
        assert_eq!(
            shape_of(begin(&[1; 6], &[(6, 0, &table[..1])])),
            ("block table", 2, 1)
        );
        usage_of(begin(&[1], &[(1, usize::MAX, &table)]));
        usage_of(begin(&[1; 6], &[(6, 0, &[table[0], table[0]])]));
        usage_of(begin(&[1; 6], &[(6, 0, &[table[0], BlockId(99)])]));
        // Both would write the same block.
        usage_of(begin(&[1; 4], &[(2, 0, &table[..1]), (2, 0, &table[..1])]));
        // Nothing has been cached so far.
        let why = usage_of(begin(&[1], &[(1, 3, &table)]));
        assert_eq!(why, "the position lies past what the blocks hold");
        begin(&[1], &[(1, 0, &table)]).unwrap();
    }
    on_both_backends!(check);
}

#[test]
fn rejects_positions_that_no_submitted_pass_has_written() {
    fn check<B: Backend>(b: B) {
        let mut model = Loaded::new(&Tiny::default(), b);
        let table = model.table(20);
        let sequence = |rows, position| SequenceStep {
            rows,
            position,
            blocks: &table,
            window_blocks: &[],
        };
        model.pass(&[1; 7], &[sequence(7, 0)], Outputs::Nothing);
        // Rewound to 2, the cache ends at 3.
        model.pass(&[1], &[sequence(1, 2)], Outputs::Nothing);
        let tokens = TokenSource::Ids(&[1]);
        for (position, good) in [(4, false), (7, false), (3, true)] {
            let sequences = [sequence(1, position)];
            let step = Step {
                tokens,
                sequences: &sequences,
                outputs: Outputs::Nothing,
            };
            assert_eq!(model.backend.begin(&step).is_ok(), good, "{position}");
        }
        // Begun again at 1 and given up: what followed 1 may be half overwritten.
        for (position, good) in [(1, true), (3, false), (2, false), (1, true)] {
            let sequences = [sequence(1, position)];
            let step = Step {
                tokens,
                sequences: &sequences,
                outputs: Outputs::Nothing,
            };
            assert_eq!(model.backend.begin(&step).is_ok(), good, "{position}");
        }
        // A released block can no longer be used, nor does it keep its contents.
        model.backend.release_block(table[0]);
        model.backend.release_block(table[0]);
        let sequences = [sequence(1, 1)];
        let step = Step {
            tokens,
            sequences: &sequences,
            outputs: Outputs::Nothing,
        };
        assert_eq!(
            usage_of(model.backend.begin(&step)),
            "a block in the table is not allocated"
        );
        assert_eq!(model.backend.allocate_block(Cache::Full), Ok(table[0]));
        assert_ne!(model.backend.allocate_block(Cache::Full), Ok(table[0]));
        usage_of(model.backend.begin(&step));
    }
    on_both_backends!(check);
}

#[test]
fn rejects_operations_out_of_order() {
    fn check<B: Backend>(b: B) {
        let mut model = Loaded::new(&Tiny::default(), b);
        let greedy = SampleParams::GREEDY;
        assert_eq!(usage_of(model.record()), "no pass has begun");
        usage_of(block_on(model.backend.submit()));
        usage_of(model.backend.sample(Slot::Logits, &greedy));
        usage_of(block_on(model.backend.read_token(TokenSlot(0))));
        usage_of(block_on(model.backend.read_logits()).map(<[f32]>::to_vec));

        let table = model.table(3);
        let sequences = [SequenceStep {
            rows: 1,
            position: 0,
            blocks: &table,
            window_blocks: &[],
        }];
        let mut step = Step {
            tokens: TokenSource::Ids(&[1]),
            sequences: &sequences,
            outputs: Outputs::Nothing,
        };
        model.backend.begin(&step).unwrap();
        model.record().unwrap();
        usage_of(model.backend.sample(Slot::Logits, &greedy));
        block_on(model.backend.submit()).unwrap();
        usage_of(block_on(model.backend.read_logits()).map(<[f32]>::to_vec));

        step.outputs = Outputs::LastRow;
        model.backend.begin(&step).unwrap();
        usage_of(model.backend.sample(Slot::Logits, &greedy));
        model.record().unwrap();
        usage_of(block_on(model.backend.read_logits()).map(<[f32]>::to_vec));
        usage_of(model.backend.sample(Slot::Residual, &greedy));
        let slot = model.backend.sample(Slot::Logits, &greedy).unwrap();
        usage_of(block_on(model.backend.read_token(slot)));
        block_on(model.backend.submit()).unwrap();
        block_on(model.backend.read_token(slot)).unwrap();

        step.tokens = TokenSource::Sampled(TokenSlot(slot.0 + 1));
        usage_of(model.backend.begin(&step));
        step.tokens = TokenSource::Sampled(slot);
        let sequences = [SequenceStep {
            rows: 2,
            position: 0,
            blocks: &table,
            window_blocks: &[],
        }];
        step.sequences = &sequences;
        assert_eq!(
            shape_of(model.backend.begin(&step)),
            ("sampled token ids", 2, 1)
        );
    }
    on_both_backends!(check);
}

#[test]
fn rejects_arguments_that_do_not_fit_an_operation() {
    fn check<B: Backend>(mut b: B) {
        let tiny = Tiny::default();
        let heads = tiny.heads;
        let narrow = b.create_matrix(&spec(32, &[37])).unwrap();
        let bytes = quantize(GgmlType::F32, &[0.5; 32 * 37], 32);
        b.write_rows(narrow, 0, GgmlType::F32, 0, &bytes).unwrap();
        let long = RopeSpec {
            kind: RopeKind::Halves,
            frequencies: vec![1.0; 17],
            magnitude: 1.0,
        };
        let long = b.create_rope(&long).unwrap();
        let short = b.create_vector(&[1.0; 5]).unwrap();
        let mut model = Loaded::new(&tiny, b);
        let table = model.table(3);
        let sequences = [SequenceStep {
            rows: 1,
            position: 0,
            blocks: &table,
            window_blocks: &[],
        }];
        let tokens = TokenSource::Ids(&[1]);
        let step = Step {
            tokens,
            sequences: &sequences,
            outputs: Outputs::LastRow,
        };
        model.backend.begin(&step).unwrap();
        let good = model.lm_head();
        let b = &mut model.backend;

        let embed = Embed {
            table: narrow,
            scale: 1.0,
        };
        assert_eq!(shape_of(b.embed(&embed, Slot::Residual)), ("table", 96, 32));
        usage_of(b.embed(
            &Embed {
                table: MatrixId(99),
                scale: 1.0,
            },
            Slot::Residual,
        ));
        let embed = Embed {
            table: good.head,
            scale: 1.0,
        };
        assert_eq!(shape_of(b.embed(&embed, Slot::Activated)), ("out", 96, 160));
        usage_of(b.embed(&embed, Slot::Logits));
        b.embed(&embed, Slot::Residual).unwrap();

        let mut norm = good.norm;
        norm.weight = short;
        let qkv = NormQkv {
            norm: Some(norm),
            qkv: good.head,
            bias: None,
        };
        let got = shape_of(b.norm_qkv(Slot::Residual, &qkv, Slot::Qkv));
        assert_eq!(got, ("norm", 96, 5));
        norm.weight = VectorId(99);
        let qkv = NormQkv {
            norm: Some(norm),
            qkv: good.head,
            bias: None,
        };
        usage_of(b.norm_qkv(Slot::Residual, &qkv, Slot::Qkv));
        let qkv = NormQkv {
            norm: Some(good.norm),
            qkv: good.head,
            bias: None,
        };
        let got = shape_of(b.norm_qkv(Slot::Residual, &qkv, Slot::Qkv));
        assert_eq!(got, ("qkv", 160, 37));

        let append = |layer, heads, rope| QkRopeAppend {
            cache: Cache::Full,
            layer,
            heads,
            rope,
            q_norm: None,
            k_norm: None,
            norm_span: NormSpan::Head,
        };
        let got = shape_of(b.qk_rope_append(Slot::Qkv, &append(0, heads, Some(long))));
        assert_eq!(got, ("pairs of the rope, at most", 16, 17));
        usage_of(b.qk_rope_append(Slot::Qkv, &append(0, heads, Some(RopeId(99)))));
        usage_of(b.qk_rope_append(Slot::Qkv, &append(2, heads, None)));
        let other = HeadShape {
            num_heads: 1,
            ..heads
        };
        usage_of(b.qk_rope_append(Slot::Qkv, &append(0, other, None)));

        let attention = |window| Attention {
            cache: Cache::Full,
            layer: 0,
            heads,
            scale: 1.0,
            window,
            soft_cap: None,
        };
        usage_of(b.attention(Slot::Qkv, &attention(Some(0)), Slot::Attended));
        let got = shape_of(b.attention(Slot::Qkv, &attention(None), Slot::Activated));
        assert_eq!(got, ("out", 96, 160));
        usage_of(b.lm_head(Slot::Residual, &good, Slot::Activated));
    }
    on_both_backends!(check);
}

#[test]
fn rejects_reading_and_writing_one_slot() {
    use tokenbrook::backend::ops::OutResidual;
    fn check<B: Backend>(mut b: B) {
        let tiny = Tiny::default();
        let square = b.create_matrix(&spec(96, &[96])).unwrap();
        let bytes = quantize(GgmlType::F32, &[0.5; 96 * 96], 96);
        b.write_rows(square, 0, GgmlType::F32, 0, &bytes).unwrap();
        let mut model = Loaded::new(&tiny, b);
        let table = model.table(3);
        let sequences = [SequenceStep {
            rows: 1,
            position: 0,
            blocks: &table,
            window_blocks: &[],
        }];
        let tokens = TokenSource::Ids(&[1]);
        let step = Step {
            tokens,
            sequences: &sequences,
            outputs: Outputs::LastRow,
        };
        model.backend.begin(&step).unwrap();
        let op = OutResidual {
            out: square,
            bias: None,
            post_norm: None,
            scale: 1.0,
        };
        let result = model
            .backend
            .out_residual(Slot::Residual, &op, Slot::Residual);
        assert_eq!(usage_of(result), "reads and writes the same slot");
    }
    on_both_backends!(check);
}

#[test]
fn damaged_weights_end_in_not_finite() {
    fn check<B: Backend>(mut b: B) {
        let nan = b.create_vector(&[f32::NAN; 96]).unwrap();
        let mut model = Loaded::new(&Tiny::default(), b);
        let table = model.table(3);
        let sequences = [SequenceStep {
            rows: 1,
            position: 0,
            blocks: &table,
            window_blocks: &[],
        }];
        let tokens = TokenSource::Ids(&[1]);
        let step = Step {
            tokens,
            sequences: &sequences,
            outputs: Outputs::LastRow,
        };
        model.backend.begin(&step).unwrap();
        model.record().unwrap();
        let mut head = model.lm_head();
        head.norm.weight = nan;
        model
            .backend
            .lm_head(Slot::Residual, &head, Slot::Logits)
            .unwrap();
        for temperature in [0.0, 1.0] {
            let params = SampleParams {
                temperature,
                top_k: 3,
                top_p: 0.9,
                min_p: 0.1,
                uniform: 0.5,
                ..SampleParams::GREEDY
            };
            let error = model.backend.sample(Slot::Logits, &params).unwrap_err();
            assert_eq!(error, BackendError::NotFinite);
        }
    }
    on_both_backends!(check);
}

#[test]
fn every_error_has_a_public_code() {
    let tensor = String::new;
    for (error, code) in [
        (
            BackendError::OutOfMemory {
                what: "w",
                bytes: 1,
            },
            "out-of-memory",
        ),
        (
            BackendError::UnsupportedType {
                tensor: tensor(),
                ggml_type: GgmlType::Q8_K,
            },
            "unsupported-quantization",
        ),
        (
            BackendError::Rows {
                tensor: tensor(),
                first_row: 0,
                end_row: 1,
                why: tensor(),
            },
            "invalid-gguf",
        ),
        (BackendError::NotFinite, "invalid-gguf"),
        (
            BackendError::TokenId {
                id: 1,
                vocab_size: 1,
            },
            "invalid-option",
        ),
        (BackendError::Usage { op: "o", why: "w" }, "internal"),
        (
            BackendError::Shape {
                op: "o",
                argument: "a",
                expected: 1,
                actual: 2,
            },
            "internal",
        ),
    ] {
        assert_eq!(error.code(), code);
        assert!(!error.to_string().is_empty());
    }
}
