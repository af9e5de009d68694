//! Passes, block tables and the step state.

use std::sync::LazyLock;
use std::time::Instant;

use pollster::block_on;
use tokenbrook::backend::cpu::{CpuBackend, Precision};
use tokenbrook::backend::reference::ReferenceBackend;
use tokenbrook::backend::{
    Backend, BackendError, Outputs, SampleParams, SequenceStep, Slot, Step, TokenSource,
};
use tokenbrook::gguf::GgmlType;

use crate::tiny::{Loaded, Tiny, distance};

/// Runs a generic test on all three backends, with quantized weights.
macro_rules! on_all_backends {
    ($test:ident) => {
        let tiny = Tiny::of_type(GgmlType::Q4_0);
        $test(&mut Loaded::new(&tiny, ReferenceBackend::new()));
        $test(&mut Loaded::new(&tiny, CpuBackend::new(Precision::Exact)));
        $test(&mut Loaded::new(&tiny, CpuBackend::new(Precision::Fast)));
    };
}

fn greedy() -> SampleParams<'static> {
    SampleParams {
        uniform: 0.5,
        logprobs: Some(0),
        ..SampleParams::GREEDY
    }
}

#[test]
fn decode_equals_prefill_whatever_the_chunks() {
    fn check<B: Backend>(model: &mut Loaded<B>) {
        let ids = model.tiny.prompt(13);
        let whole = model.chunks(&ids, &[13]);
        assert!(whole.iter().all(|v| v.is_finite()));
        // Rows are independent in every operation, so the bits are equal too.
        assert_eq!(whole, model.chunks(&ids, &[1; 13]));
        assert_eq!(whole, model.chunks(&ids, &[4, 1, 7, 1]));
        assert_eq!(whole, model.chunks(&ids, &[5, 5, 3]));
    }
    on_all_backends!(check);
}

#[test]
fn threads_give_the_bits_of_one() {
    static BEGAN: LazyLock<Instant> = LazyLock::new(Instant::now);
    let now_ms = || BEGAN.elapsed().as_secs_f64() * 1e3;
    for ggml_type in [GgmlType::Q4_0, GgmlType::Q8_0, GgmlType::F32] {
        let tiny = Tiny::of_type(ggml_type);
        for precision in [Precision::Exact, Precision::Fast] {
            let ids = tiny.prompt(13);
            let mut alone = Loaded::new(&tiny, CpuBackend::new(precision));
            let want = alone.chunks(&ids, &[13]);
            for threads in [2, 3, 7] {
                let backend = CpuBackend::with_threads(precision, threads, now_ms);
                assert_eq!(backend.threads(), threads);
                let mut model = Loaded::new(&tiny, backend);
                for chunks in [&[13][..], &[1; 13], &[4, 1, 7, 1]] {
                    assert_eq!(want, model.chunks(&ids, chunks), "{threads} threads");
                }
            }
        }
    }
}

#[test]
fn two_sequences_in_one_pass_equal_two_passes() {
    fn check<B: Backend>(model: &mut Loaded<B>) {
        let vocab = model.tiny.vocab;
        let ids = model.tiny.prompt(14);
        let (a, b) = ids.split_at(8);
        let (alone_a, alone_b) = (model.chunks(a, &[8]), model.chunks(b, &[6]));

        let (table_a, table_b) = (model.table(8), model.table(6));
        let sequence = |rows, position, blocks| SequenceStep {
            rows,
            position,
            blocks,
            window_blocks: &[],
        };
        let first = [sequence(7, 0, &table_a[..]), sequence(2, 0, &table_b[..])];
        let rows = [&a[..7], &b[..2]].concat();
        let logits = model.pass(&rows, &first, Outputs::AllRows);
        assert_eq!(logits[..7 * vocab], alone_a[..7 * vocab]);
        assert_eq!(logits[7 * vocab..], alone_b[..2 * vocab]);
        // Different lengths from here, in the other order.
        let second = [sequence(4, 2, &table_b[..]), sequence(1, 7, &table_a[..])];
        let rows = [&b[2..], &a[7..]].concat();
        let logits = model.pass(&rows, &second, Outputs::AllRows);
        assert_eq!(logits[..4 * vocab], alone_b[2 * vocab..]);
        assert_eq!(logits[4 * vocab..], alone_a[7 * vocab..]);
    }
    on_all_backends!(check);
}

#[test]
fn last_row_equals_the_last_of_all_rows() {
    fn check<B: Backend>(model: &mut Loaded<B>) {
        let ids = model.tiny.prompt(6);
        let all = model.chunks(&ids, &[6]);
        let table = model.table(6);
        let sequence = |rows, position| SequenceStep {
            rows,
            position,
            blocks: &table,
            window_blocks: &[],
        };
        assert!(
            model
                .pass(&ids[..4], &[sequence(4, 0)], Outputs::Nothing)
                .is_empty()
        );
        let last = model.pass(&ids[4..], &[sequence(2, 4)], Outputs::LastRow);
        assert_eq!(last, all[5 * model.tiny.vocab..]);
    }
    on_all_backends!(check);
}

#[test]
fn a_shared_prefix_is_read_by_both_sequences() {
    fn check<B: Backend>(model: &mut Loaded<B>) {
        let vocab = model.tiny.vocab;
        let ids = model.tiny.prompt(7);
        let other: Vec<u32> = ids[..5].iter().copied().chain([1, 2]).collect();
        let (want_a, want_b) = (model.chunks(&ids, &[7]), model.chunks(&other, &[7]));
        // One block holds exactly the five common tokens.
        let (table_a, own) = (model.table(7), model.table(2));
        let table_b = [table_a[0], own[0]];
        let prefix = SequenceStep {
            rows: 5,
            position: 0,
            blocks: &table_a,
            window_blocks: &[],
        };
        model.pass(&ids[..5], &[prefix], Outputs::Nothing);
        let tails = [
            SequenceStep {
                rows: 2,
                position: 5,
                blocks: &table_a,
                window_blocks: &[],
            },
            SequenceStep {
                rows: 2,
                position: 5,
                blocks: &table_b,
                window_blocks: &[],
            },
        ];
        let rows = [&ids[5..], &other[5..]].concat();
        let logits = model.pass(&rows, &tails, Outputs::AllRows);
        assert_eq!(logits[..2 * vocab], want_a[5 * vocab..]);
        assert_eq!(logits[2 * vocab..], want_b[5 * vocab..]);
    }
    on_all_backends!(check);
}

#[test]
fn a_rewound_sequence_forgets_what_followed() {
    fn check<B: Backend>(model: &mut Loaded<B>) {
        let vocab = model.tiny.vocab;
        let ids = model.tiny.prompt(9);
        let other: Vec<u32> = ids[..3].iter().copied().chain([5, 6, 7]).collect();
        let want = model.chunks(&other, &[6]);
        let table = model.table(9);
        let sequence = |rows, position| SequenceStep {
            rows,
            position,
            blocks: &table,
            window_blocks: &[],
        };
        model.pass(&ids, &[sequence(9, 0)], Outputs::Nothing);
        let got = model.pass(&other[3..], &[sequence(3, 3)], Outputs::AllRows);
        assert_eq!(got, want[3 * vocab..]);
    }
    on_all_backends!(check);
}

#[test]
fn a_sampled_token_feeds_the_next_pass() {
    fn check<B: Backend>(model: &mut Loaded<B>) {
        let ids = model.tiny.prompt(4);
        let table = model.table(6);
        let sequence = |rows, position| SequenceStep {
            rows,
            position,
            blocks: &table,
            window_blocks: &[],
        };
        let tokens = TokenSource::Ids(&ids);
        let sequences = [sequence(4, 0)];
        let step = Step {
            tokens,
            sequences: &sequences,
            outputs: Outputs::LastRow,
        };
        model.backend.begin(&step).unwrap();
        model.record().unwrap();
        let slot = model.backend.sample(Slot::Logits, &greedy()).unwrap();
        block_on(model.backend.submit()).unwrap();

        let tokens = TokenSource::Sampled(slot);
        let sequences = [sequence(1, 4)];
        let step = Step {
            tokens,
            sequences: &sequences,
            outputs: Outputs::LastRow,
        };
        model.backend.begin(&step).unwrap();
        model.record().unwrap();
        block_on(model.backend.submit()).unwrap();
        let got = block_on(model.backend.read_logits()).unwrap().to_vec();

        let sampled = block_on(model.backend.read_token(slot)).unwrap();
        assert!(sampled.logprobs.unwrap().chosen < 0.0);
        let all: Vec<u32> = ids.iter().copied().chain([sampled.id]).collect();
        let want = model.chunks(&all, &[5]);
        assert_eq!(got, want[4 * model.tiny.vocab..]);
    }
    on_all_backends!(check);
}

#[test]
fn a_pass_given_up_half_way_leaves_nothing_behind() {
    fn check<B: Backend>(model: &mut Loaded<B>) {
        let ids = model.tiny.prompt(5);
        let want = model.chunks(&ids, &[5]);
        let table = model.table(5);
        let sequence = |rows, position| SequenceStep {
            rows,
            position,
            blocks: &table,
            window_blocks: &[],
        };
        let sequences = [sequence(3, 0)];
        let wrong = TokenSource::Ids(&[9, 9, 9]);
        let step = Step {
            tokens: wrong,
            sequences: &sequences,
            outputs: Outputs::LastRow,
        };
        model.backend.begin(&step).unwrap();
        model.record().unwrap();
        let slot = model.backend.sample(Slot::Logits, &greedy()).unwrap();
        let got = model.pass(&ids, &[sequence(5, 0)], Outputs::AllRows);
        assert_eq!(got, want);
        assert!(block_on(model.backend.read_token(slot)).is_err());
    }
    on_all_backends!(check);
}

#[test]
fn memory_counts_weights_blocks_and_buffers() {
    let tiny = Tiny::of_type(GgmlType::Q4_1);
    let mut model = Loaded::new(&tiny, CpuBackend::new(Precision::Fast));
    let memory = model.backend.memory();
    // Packed by groups of four, of which five rows take two, and the rest of a matrix its own.
    let packed = |rows: u64| 8 + (rows - 5).next_multiple_of(4);
    let rows = 2 * (5 * packed(256) + 2 * packed(128)) + 2 * packed(37);
    let vectors = 5 * 256 * 4 + 16 * 4;
    // 32 codes of half a byte, a scale and a minimum of four bytes.
    assert_eq!(memory.weights_bytes, rows * (256 / 32 * 24) + vectors);
    let foretold = model
        .backend
        .held_bytes(GgmlType::Q4_1, rows * (256 / 32 * 20));
    assert_eq!(memory.weights_bytes, foretold + vectors);
    assert_eq!(memory.kv_cache_bytes, 0);
    assert!(memory.scratch_bytes > 16 * (256 + 512 + 256 + 256 + 256 + 512) * 4);

    let table = model.table(11);
    let block = 5 * 2 * 2 * 128 * 4;
    assert_eq!(model.backend.memory().kv_cache_bytes, 3 * block);
    table
        .into_iter()
        .for_each(|block| model.backend.release_block(block));
    model.table(15);
    assert_eq!(
        model.backend.memory().kv_cache_bytes,
        3 * block,
        "blocks are reused"
    );

    let before = model.backend.memory().scratch_bytes;
    let ids = tiny.prompt(9);
    for _ in 0..3 {
        model.chunks(&ids, &[9]);
    }
    let grown = model.backend.memory().scratch_bytes - before;
    assert_eq!(
        grown,
        8 * 37 * 4,
        "logits of all rows, and nothing else, grow on demand"
    );
}

#[test]
fn states_are_the_normed_rows_without_logits() {
    fn states<B: Backend>(backend: B, ids: &[u32], chunks: [usize; 3]) -> Vec<f32> {
        let mut model = Loaded::new(&Tiny::default(), backend);
        let table = model.table(ids.len());
        let mut all = Vec::new();
        let mut position = 0;
        for rows in chunks.into_iter().filter(|&rows| rows > 0) {
            let sequence = SequenceStep {
                rows,
                position,
                blocks: &table,
                window_blocks: &[],
            };
            let step = Step {
                tokens: TokenSource::Ids(&ids[position..position + rows]),
                sequences: &[sequence],
                outputs: Outputs::States,
            };
            model.backend.begin(&step).unwrap();
            model.record().unwrap();
            let norm = model.lm_head().norm;
            model.backend.output_norm(Slot::Residual, &norm).unwrap();
            // Once: a second norm would change them.
            let again = model.backend.output_norm(Slot::Residual, &norm);
            assert!(matches!(again, Err(BackendError::Usage { .. })));
            assert!(block_on(model.backend.read_states()).is_err());
            block_on(model.backend.submit()).unwrap();
            assert!(block_on(model.backend.read_logits()).is_err());
            all.extend_from_slice(block_on(model.backend.read_states()).unwrap());
            position += rows;
        }
        all
    }
    let ids = Tiny::default().prompt(13);
    let whole = states(ReferenceBackend::new(), &ids, [13, 0, 0]);
    assert_eq!(whole.len(), 13 * Tiny::default().hidden);
    let reference = states(ReferenceBackend::new(), &ids, [3, 7, 3]);
    assert_eq!(distance(&whole, &reference), 0.0);
    let cpu = CpuBackend::new(Precision::Exact);
    assert!(distance(&whole, &states(cpu, &ids, [1, 5, 7])) < 1e-5);
}

#[test]
fn a_pass_for_logits_has_no_states() {
    let mut model = Loaded::new(&Tiny::default(), ReferenceBackend::new());
    let blocks = model.table(2);
    let sequence = SequenceStep {
        rows: 2,
        position: 0,
        blocks: &blocks,
        window_blocks: &[],
    };
    model.pass(&[1, 2], &[sequence], Outputs::LastRow);
    assert!(block_on(model.backend.read_states()).is_err());
    let norm = model.lm_head().norm;
    let step = Step {
        tokens: TokenSource::Ids(&[1, 2]),
        sequences: &[sequence],
        outputs: Outputs::LastRow,
    };
    model.backend.begin(&step).unwrap();
    let refused = model.backend.output_norm(Slot::Residual, &norm);
    assert!(matches!(refused, Err(BackendError::Usage { .. })));
}
