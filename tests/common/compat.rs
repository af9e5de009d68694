//! Whole models in tests, with a session around them or bare.

use std::rc::Rc;
use std::time::Instant;

use tokenbrook::backend::{Backend, Outputs, Recording, SequenceStep, Step, TokenSource};
use tokenbrook::compat::{CompatBackend, CompatLoader};
use tokenbrook::gguf::{Header, Reader, Sink, TensorInfo};
use tokenbrook::model::{Assembly, Limits, ModelError, Plan};
use tokenbrook::session::{LoadOptions, Loader, Session, SessionError};

use super::model::SystemClock;

/// A session over 64 positions.
pub(crate) fn session(bytes: &[u8]) -> Result<Session<CompatBackend>, SessionError> {
    let options = LoadOptions {
        context_length: Some(64),
        file_bytes: vec![Some(bytes.len() as u64)],
    };
    let clock = Rc::new(SystemClock::from(Instant::now()));
    let mut loader = Loader::<_, CompatLoader>::assembling(CompatBackend::new(), options, clock);
    for piece in bytes.chunks(65_537) {
        loader.push(piece)?;
    }
    loader.end_file()?;
    loader.finish()
}

struct Bare {
    backend: CompatBackend,
    loader: Option<CompatLoader>,
}

impl Sink for Bare {
    type Error = ModelError;

    fn header(&mut self, _shard: usize, header: &Header) -> Result<(), ModelError> {
        let mut loader = CompatLoader::begin(header, &mut self.backend)?;
        loader.header(header, &mut self.backend)?;
        self.loader = Some(loader);
        Ok(())
    }

    fn rows(&mut self, tensor: &TensorInfo, row: u64, blocks: &[u8]) -> Result<(), ModelError> {
        let loader = self.loader.as_mut().expect("the header comes first");
        loader.rows(tensor, row, blocks, &mut self.backend)
    }
}

/// A model without a session.
pub(crate) fn bare(bytes: &[u8]) -> CompatBackend {
    try_bare(bytes).expect("the model loads")
}

pub(crate) fn try_bare(bytes: &[u8]) -> Result<CompatBackend, ModelError> {
    let mut sink = Bare {
        backend: CompatBackend::new(),
        loader: None,
    };
    let mut reader = Reader::new(&[Some(bytes.len() as u64)]);
    reader.push(bytes, &mut sink)?;
    let limits = Limits {
        context_length: 64,
        max_rows: 64,
        block_tokens: 256,
    };
    let loader = sink.loader.expect("the file has a header");
    let plan = loader.finish(&limits, &mut sink.backend)?;
    assert_eq!(plan, Plan::Whole);
    Ok(sink.backend)
}

/// Logits of all rows of a step, `[rows, V]`.
pub(crate) fn step(backend: &mut CompatBackend, ids: &[u32], position: usize) -> Vec<f32> {
    let sequence = SequenceStep {
        rows: ids.len(),
        position,
        blocks: &[],
        window_blocks: &[],
    };
    let step = Step {
        tokens: TokenSource::Ids(ids),
        sequences: &[sequence],
        outputs: Outputs::AllRows,
    };
    assert_eq!(backend.begin(&step).expect("it runs"), Recording::Replay);
    let logits = pollster::block_on(backend.read_logits());
    logits.expect("there are logits").to_vec()
}
