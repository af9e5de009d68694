//! Rings of blocks for layers with a window: what a pass refuses.

use tokenbrook::backend::cpu::{CpuBackend, Precision};
use tokenbrook::backend::ops::{Attention, Cache, HeadShape};
use tokenbrook::backend::reference::ReferenceBackend;
use tokenbrook::backend::{
    Backend, BackendError, BlockId, ModelShape, Outputs, SequenceStep, Slot, Step, TokenSource,
};

const HEADS: HeadShape = HeadShape {
    num_heads: 3,
    num_kv_heads: 1,
    head_dim: 2,
};

/// A backend with one layer of each cache and blocks of 4 positions.
fn prepared<B: Backend>(mut backend: B) -> B {
    let shape = ModelShape {
        num_layers: 1,
        window_layers: 1,
        hidden_size: 6,
        intermediate_size: 5,
        vocab_size: 9,
        heads: HEADS,
        max_rows: 8,
        block_tokens: 4,
    };
    backend.prepare(&shape).expect("the shape makes sense");
    backend
}

fn blocks<B: Backend, const N: usize>(backend: &mut B, cache: Cache) -> [BlockId; N] {
    [(); N].map(|()| backend.allocate_block(cache).expect("memory for a block"))
}

fn begin<B: Backend>(
    backend: &mut B,
    rows: usize,
    (full, ring): (&[BlockId], &[BlockId]),
) -> Result<(), BackendError> {
    let sequence = SequenceStep {
        rows,
        position: 0,
        blocks: full,
        window_blocks: ring,
    };
    let ids = [3, 1, 4, 1, 5, 2, 6, 5];
    let step = Step {
        tokens: TokenSource::Ids(&ids[..rows]),
        sequences: &[sequence],
        outputs: Outputs::Nothing,
    };
    backend.begin(&step).map(|_| ())
}

fn attend<B: Backend>(backend: &mut B, window: usize) -> Result<(), BackendError> {
    let op = Attention {
        cache: Cache::Window,
        layer: 0,
        heads: HEADS,
        scale: 1.0,
        window: Some(window),
        soft_cap: None,
    };
    backend.attention(Slot::Qkv, &op, Slot::Attended)
}

fn why(result: Result<(), BackendError>) -> &'static str {
    match result {
        Err(BackendError::Usage { why, .. }) => why,
        other => panic!("no usage error: {other:?}"),
    }
}

#[test]
fn rejects_a_ring_that_is_too_short_for_window_and_rows() {
    fn check<B: Backend>(backend: B) {
        let mut backend = prepared(backend);
        let full: [BlockId; 2] = blocks(&mut backend, Cache::Full);
        let ring: [BlockId; 1] = blocks(&mut backend, Cache::Window);
        // Four rows fill the ring; the fifth takes the first one's place.
        begin(&mut backend, 4, (&full, &ring)).expect("the step is valid");
        assert_eq!(attend(&mut backend, 9), Ok(()));
        begin(&mut backend, 5, (&full, &ring)).expect("the step is valid");
        let short = "the ring of blocks is too short for the window";
        assert_eq!(why(attend(&mut backend, 1)), short);
        begin(&mut backend, 4, (&full, &[])).expect("the step is valid");
        assert_eq!(why(attend(&mut backend, 2)), short);
    }
    check(ReferenceBackend::new());
    check(CpuBackend::new(Precision::Exact));
}

#[test]
fn rejects_blocks_of_the_other_cache() {
    fn check<B: Backend>(backend: B) {
        let mut backend = prepared(backend);
        let full: [BlockId; 1] = blocks(&mut backend, Cache::Full);
        let ring: [BlockId; 1] = blocks(&mut backend, Cache::Window);
        let other = "a block in the table belongs to the other cache";
        assert_eq!(why(begin(&mut backend, 3, (&ring, &full))), other);
        assert_eq!(why(begin(&mut backend, 3, (&full, &full))), other);
        assert_eq!(begin(&mut backend, 3, (&full, &ring)), Ok(()));
    }
    check(ReferenceBackend::new());
    check(CpuBackend::new(Precision::Exact));
}
