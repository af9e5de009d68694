//! Loading models in tests, whole or bare.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::rc::Rc;
use std::time::Instant;

use tokenbrook::backend::ops::Cache;
use tokenbrook::backend::{Backend, BlockId, Outputs, Recording, SequenceStep, Step, TokenSource};
use tokenbrook::gguf::{Header, Reader, Sink, TensorInfo};
use tokenbrook::measure::Clock;
use tokenbrook::model::{Config, ModelError, WeightLoader, Weights, forward};
use tokenbrook::session::{
    GenerateOptions, Input, LoadOptions, Loader, Progress, Session, SessionError, Token,
    template_options,
};
use tokenbrook::tokenizer::Now;

/// Wall time.
pub(crate) struct SystemClock(Instant);

impl From<Instant> for SystemClock {
    fn from(start: Instant) -> Self {
        Self(start)
    }
}

impl Clock for SystemClock {
    fn now_ms(&self) -> f64 {
        self.0.elapsed().as_secs_f64() * 1000.0
    }
}

/// Loads a session from bytes in pieces of an odd size.
pub(crate) fn session_from_bytes<B: Backend>(
    backend: B,
    bytes: &[u8],
    context_length: Option<usize>,
) -> Result<Session<B>, SessionError> {
    let options = LoadOptions {
        context_length,
        file_bytes: vec![Some(bytes.len() as u64)],
    };
    let mut loader = Loader::new(backend, options, Rc::new(SystemClock(Instant::now())));
    for piece in bytes.chunks(65_537) {
        loader.push(piece)?;
    }
    loader.end_file()?;
    loader.finish()
}

/// Loads a session from a file, a mebibyte at a time.
pub(crate) fn session_from_file<B: Backend>(backend: B, path: &Path) -> Session<B> {
    let mut file = File::open(path).expect("the model file opens");
    let bytes = file.metadata().expect("the model file has a length").len();
    let options = LoadOptions {
        context_length: None,
        file_bytes: vec![Some(bytes)],
    };
    let mut loader = Loader::new(backend, options, Rc::new(SystemClock(Instant::now())));
    let mut buffer = vec![0; 1 << 20];
    loop {
        let read = file.read(&mut buffer).expect("the model file reads");
        if read == 0 {
            break;
        }
        loader.push(&buffer[..read]).expect("the model loads");
    }
    loader.end_file().expect("the model is whole");
    loader.finish().expect("the model is complete")
}

/// Ids of a prompt.
pub(crate) fn prompt<B: Backend>(session: &Session<B>, input: &Input) -> Vec<u32> {
    let now = Now {
        unix_seconds: 0.0,
        utc_offset_minutes: 0,
    };
    let options = template_options(&serde_json::Map::new(), now).expect("no options are fine");
    session
        .prompt_ids(input, &options)
        .expect("the prompt encodes")
}

/// Greedy options.
pub(crate) fn greedy(max_tokens: usize) -> GenerateOptions {
    GenerateOptions {
        max_tokens: Some(max_tokens),
        temperature: 0.0,
        ..GenerateOptions::default()
    }
}

/// Runs a generation to its end.
pub(crate) fn run<B: Backend>(
    session: &mut Session<B>,
    prompt: Vec<u32>,
    options: GenerateOptions,
) -> Vec<Token> {
    let mut generation = session
        .generation(prompt, options)
        .expect("the prompt fits");
    let mut tokens = Vec::new();
    loop {
        match pollster::block_on(session.advance(&mut generation)).expect("the step runs") {
            Progress::Prefilled { .. } => {}
            Progress::Token(token) => tokens.push(token),
            Progress::Finished => return tokens,
        }
    }
}

/// Ids of tokens.
pub(crate) fn ids(tokens: &[Token]) -> Vec<u32> {
    tokens.iter().map(|token| token.id).collect()
}

/// A model on a backend without a session around it: logits of any pass.
pub(crate) struct BareModel<B: Backend> {
    pub(crate) backend: B,
    pub(crate) config: Config,
    weights: Weights,
    /// Long enough for the window and a pass of `max_rows`; empty without windows.
    ring: Vec<BlockId>,
}

struct BareSink<B: Backend> {
    backend: B,
    parts: Option<(Config, WeightLoader)>,
}

impl<B: Backend> Sink for BareSink<B> {
    type Error = ModelError;

    fn header(&mut self, _shard: usize, header: &Header) -> Result<(), ModelError> {
        let config = Config::from_metadata(&header.metadata)?;
        let mut loader = WeightLoader::new(&config, &mut self.backend)?;
        loader.header(header, &mut self.backend)?;
        self.parts = Some((config, loader));
        Ok(())
    }

    fn rows(&mut self, tensor: &TensorInfo, row: u64, blocks: &[u8]) -> Result<(), ModelError> {
        let (_, loader) = self.parts.as_mut().expect("the header comes first");
        loader.rows(tensor, row, blocks, &mut self.backend)
    }
}

impl<B: Backend> BareModel<B> {
    /// Loads one file's bytes, for as many positions as the model was trained for.
    pub(crate) fn load(backend: B, bytes: &[u8], max_rows: usize, block_tokens: usize) -> Self {
        Self::load_for(backend, bytes, None, [max_rows, block_tokens])
    }

    /// Loads one file's bytes for a context of this length.
    pub(crate) fn load_for(
        backend: B,
        bytes: &[u8],
        context_length: Option<usize>,
        [max_rows, block_tokens]: [usize; 2],
    ) -> Self {
        let mut sink = BareSink {
            backend,
            parts: None,
        };
        let mut reader = Reader::new(&[Some(bytes.len() as u64)]);
        reader.push(bytes, &mut sink).expect("the file reads");
        reader.end_file(&mut sink).expect("the file is whole");
        let BareSink { mut backend, parts } = sink;
        let (config, loader) = parts.expect("the file has a header");
        let weights = loader
            .finish(
                context_length.unwrap_or(config.context_length),
                max_rows,
                block_tokens,
                &mut backend,
            )
            .expect("the model is complete");
        let seen = config.window().map_or(0, |window| window - 1 + max_rows);
        let ring = (0..seen.div_ceil(block_tokens))
            .map(|_| backend.allocate_block(Cache::Window))
            .collect::<Result<_, _>>()
            .expect("memory for a ring");
        Self {
            backend,
            config,
            weights,
            ring,
        }
    }

    /// Logits of the last of `ids`, which follow `position` cached ones.
    pub(crate) fn logits(&mut self, ids: &[u32], position: usize, blocks: &[BlockId]) -> Vec<f32> {
        self.pass(ids, position, blocks, Outputs::LastRow)
    }

    /// Logits of the rows that `outputs` names.
    pub(crate) fn pass(
        &mut self,
        ids: &[u32],
        position: usize,
        blocks: &[BlockId],
        outputs: Outputs,
    ) -> Vec<f32> {
        let sequence = SequenceStep {
            rows: ids.len(),
            position,
            blocks,
            window_blocks: &self.ring,
        };
        let step = Step {
            tokens: TokenSource::Ids(ids),
            sequences: &[sequence],
            outputs,
        };
        if self.backend.begin(&step).expect("the step is valid") == Recording::Needed {
            forward(&self.config, &self.weights, &mut self.backend, outputs)
                .expect("the pass runs");
        }
        pollster::block_on(self.backend.submit()).expect("the pass runs");
        pollster::block_on(self.backend.read_logits())
            .expect("logits are there")
            .to_vec()
    }
}
