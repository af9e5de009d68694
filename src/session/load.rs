//! From arriving bytes to a [`Session`]: the header gives the configuration, the tokenizer
//! and the template; rows go to the backend as they come.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::error::SessionError;
use super::fit::{Fit, Sizes};
use super::kv_cache::{KvCache, Ring};
use super::options::invalid;
use super::pacer::Pacer;
use super::run_ahead::RunAhead;
use super::{BLOCK_TOKENS, MAX_ROWS, ModelDescription, Session};
use crate::backend::memory::ask_for;
use crate::backend::{Backend, HeadType, Outline};
use crate::gguf::{GgmlType, Header, Metadata, Reader, Sink, StringArray, TensorInfo};
use crate::measure::Clock;
use crate::model::{Assembly, Limits, ModelError, ModelFacts, WeightLoader};
use crate::tokenizer::{
    ChatTemplate, Strings, TemplateError, Tokenizer, TokenizerError, Vocabulary,
};

/// Context length where the caller names none and the model allows it.
const DEFAULT_CONTEXT: usize = 4096;

/// Choices of a load.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LoadOptions {
    /// Positions of the KV cache; `None`: the model's, at most 4096.
    pub context_length: Option<usize>,
    /// Bytes of each file, in order, where they are known; one entry a file.
    pub file_bytes: Vec<Option<u64>>,
}

/// What headers say of a model before any of its weights are there.
#[derive(Clone, Debug, PartialEq)]
pub struct Sketch {
    /// `general.architecture`.
    pub architecture: String,
    /// `general.name`, or the architecture's.
    pub name: String,
    /// Elements of all tensors of the headers seen.
    pub parameters: u64,
    /// The longest context that the model knows.
    pub max_context: usize,
    /// The context that was asked for.
    pub context_length: usize,
    /// What it takes, and whether there is room for it.
    pub fit: Fit,
}

/// Where a file may carry the `tokenizer.json` that it was made from.
const TOKENIZER_JSON: &str = "tokenizer.huggingface.json";

/// Builds a session from the bytes of a GGUF file, or of its shards in order.
///
/// `M` says how: [`WeightLoader`] for the forward pass on a backend.
pub struct Loader<B: Backend, M: Assembly<B> = WeightLoader> {
    reader: Reader,
    sink: ModelSink<B, M>,
    clock: Rc<dyn Clock>,
}

impl<B: Backend> Loader<B> {
    /// Starts with an empty backend.
    #[must_use]
    pub fn new(backend: B, options: LoadOptions, clock: Rc<dyn Clock>) -> Self {
        Self::assembling(backend, options, clock)
    }
}

impl<B: Backend, M: Assembly<B>> Loader<B, M> {
    /// As [`new`](Loader::new), for any way of building the model.
    #[must_use]
    pub fn assembling(backend: B, options: LoadOptions, clock: Rc<dyn Clock>) -> Self {
        Self {
            reader: Reader::new(&options.file_bytes),
            sink: ModelSink {
                backend,
                options,
                tokenizer_json: None,
                host_bytes: None,
                headers: 0,
                parts: None,
                bytes_by_type: BTreeMap::new(),
                matrix_types: Vec::new(),
                head: None,
                held_bytes: 0,
                headroom: Headroom::default(),
            },
            clock,
        }
    }

    /// Takes text to ids by a `tokenizer.json` rather than by the vocabulary of the model's file,
    /// whose own word on the ids of special tokens, and on adding them, still counts.
    #[must_use]
    pub fn with_tokenizer(mut self, json: Vec<u8>) -> Self {
        self.sink.tokenizer_json = Some(json);
        self
    }

    /// Refuses a model that the backend has no room for, or a host that has so many bytes for
    /// weights and cache, as soon as a header tells: before memory is taken for any of it.
    #[must_use]
    pub fn with_room(mut self, host_bytes: u64) -> Self {
        self.sink.host_bytes = Some(host_bytes);
        self
    }

    /// Takes the next bytes of the current file.
    ///
    /// # Errors
    /// What the file, the model or the backend refuses; the loader is of no use afterwards.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), SessionError> {
        self.reader.push(bytes, &mut self.sink)
    }

    /// The current file is over; the next bytes belong to the next shard.
    ///
    /// # Errors
    /// A truncated file.
    pub fn end_file(&mut self) -> Result<(), SessionError> {
        self.reader.end_file(&mut self.sink)
    }

    /// Whether the first header is complete, and accepted.
    #[must_use]
    pub fn has_header(&self) -> bool {
        self.sink.parts.is_some()
    }

    /// Types of the model's matrices; before all headers are here, any may be among them.
    #[must_use]
    pub fn matrix_types(&self) -> Vec<GgmlType> {
        let sink = &self.sink;
        if sink.headers < sink.options.file_bytes.len() {
            return GgmlType::ALL.to_vec();
        }
        sink.matrix_types.iter().map(|(ty, _)| *ty).collect()
    }

    /// What the headers so far say of the work to come; `None` before the first, and for models
    /// that no forward pass of ours runs.
    #[must_use]
    pub fn outline(&self) -> Option<Outline> {
        let parts = self.sink.parts.as_ref()?;
        let shape = parts.assembly.shape(&limits(parts.context_length))?;
        let types = self.sink.matrix_types.clone();
        let head = self.sink.head;
        Some(Outline { shape, types, head })
    }

    /// What the headers so far say of the model, where the host has so many bytes for weights and
    /// cache; `None` before the first, and for models that no forward pass of ours runs.
    #[must_use]
    pub fn sketch(&self, host_bytes: u64) -> Option<Sketch> {
        let parts = self.sink.parts.as_ref()?;
        Some(Sketch {
            architecture: parts.facts.architecture.to_owned(),
            name: parts.facts.name.clone(),
            parameters: parts.assembly.parameters(),
            max_context: parts.facts.context_length,
            context_length: parts.context_length,
            fit: self.sink.fit(host_bytes)?,
        })
    }

    /// The backend.
    pub fn backend_mut(&mut self) -> &mut B {
        &mut self.sink.backend
    }

    /// Bytes taken so far.
    #[must_use]
    pub fn received_bytes(&self) -> u64 {
        self.reader.received_bytes()
    }

    /// Completes the model.
    ///
    /// # Errors
    /// Missing files or tensors, or the backend's.
    pub fn finish(self) -> Result<Session<B>, SessionError> {
        self.reader.finish()?;
        let ModelSink {
            mut backend,
            parts,
            bytes_by_type,
            ..
        } = self.sink;
        let Parts {
            facts,
            context_length,
            assembly,
            tokenizer,
            template,
        } = parts.ok_or(SessionError::Internal(
            "the reader finished without a header",
        ))?;
        let description = ModelDescription {
            name: facts.name.clone(),
            architecture: facts.architecture.to_owned(),
            quantization: main_quantization(&bytes_by_type),
            parameters: assembly.parameters(),
            context_length,
        };
        let ring = facts.window.map(|window| Ring {
            window,
            max_rows: MAX_ROWS,
        });
        let plan = assembly.finish(&limits(context_length), &mut backend)?;
        let kv = KvCache::new(context_length, BLOCK_TOKENS, ring, facts.rewinds);
        let pacer = Pacer::new(backend.chunks(), MAX_ROWS);
        Ok(Session {
            backend,
            facts,
            plan,
            description,
            tokenizer,
            template,
            constraints: std::cell::OnceCell::new(),
            kv,
            pacer,
            run_ahead: RunAhead::default(),
            next_generation: std::cell::Cell::new(0),
            clock: self.clock,
        })
    }
}

fn limits(context_length: usize) -> Limits {
    Limits {
        context_length,
        max_rows: MAX_ROWS,
        block_tokens: BLOCK_TOKENS,
    }
}

/// What the first header gives.
struct Parts<M> {
    facts: ModelFacts,
    context_length: usize,
    assembly: M,
    tokenizer: Tokenizer,
    template: Option<Result<ChatTemplate, TemplateError>>,
}

/// Memory that weights will take, asked for in large steps: see [`ask_for`].
#[derive(Default)]
struct Headroom {
    /// Bytes that the last step has left.
    free: u64,
}

impl Headroom {
    /// Weights that arrive are followed by as many as this, if the file is what its header says.
    const STEP_BYTES: u64 = 32 << 20;

    /// A tokenizer is made of so many bytes of strings, which take about eight times as much in
    /// maps.
    fn for_strings(bytes: u64) {
        ask_for(bytes.saturating_mul(8).min(Self::STEP_BYTES));
    }

    /// Weights of so many bytes are about to be allocated, of those that are still to come.
    fn for_weights(&mut self, bytes: u64, to_come: u64) {
        if self.free < bytes {
            let step = Self::STEP_BYTES.max(bytes).min(to_come);
            self.free = if ask_for(step) { step } else { 0 };
        }
        self.free = self.free.saturating_sub(bytes);
    }
}

/// Where the reader's findings go.
struct ModelSink<B: Backend, M: Assembly<B>> {
    backend: B,
    options: LoadOptions,
    /// The caller's.
    tokenizer_json: Option<Vec<u8>>,
    /// What the host has for weights and cache; `None`: nothing is refused beforehand.
    host_bytes: Option<u64>,
    /// Headers seen.
    headers: usize,
    parts: Option<Parts<M>>,
    bytes_by_type: BTreeMap<&'static str, u64>,
    /// Types of the matrices, each once, with their bytes.
    matrix_types: Vec<(GgmlType, u64)>,
    /// What gives logits.
    head: Option<HeadType>,
    /// Bytes that the backend was given.
    held_bytes: u64,
    headroom: Headroom,
}

impl<B: Backend, M: Assembly<B>> ModelSink<B, M> {
    /// What the backend will hold of all tensors of the headers seen, and of the files behind
    /// them, as far as their lengths are known.
    fn weights_bytes(&self) -> u64 {
        let all = self.bytes_by_type.values();
        let all = all.fold(0, |sum: u64, bytes| sum.saturating_add(*bytes));
        let held = self.matrix_types.iter().fold(all, |sum, &(ty, bytes)| {
            let held = self.backend.held_bytes(ty, bytes);
            (sum - bytes.min(sum)).saturating_add(held)
        });
        let rest = self.options.file_bytes.iter().skip(self.headers);
        let rest = rest
            .flatten()
            .fold(0, |sum: u64, it| sum.saturating_add(*it));
        held.saturating_add(rest)
    }

    /// An output of its own, or the embedding where there is none.
    fn note_head(&mut self, name: &str, ggml_type: GgmlType) {
        let is_tied = match name {
            "output.weight" => false,
            "token_embd.weight" if self.head.is_none() => true,
            _ => return,
        };
        self.head = Some(HeadType { ggml_type, is_tied });
    }

    /// What the model takes; `None` for models that no forward pass of ours runs.
    fn fit(&self, host_bytes: u64) -> Option<Fit> {
        let parts = self.parts.as_ref()?;
        let window = parts.facts.window;
        let sizes = Sizes {
            weights_bytes: self.weights_bytes(),
            shape: parts.assembly.shape(&limits(parts.context_length))?,
            window_positions: window.map_or(0, |it| it.saturating_add(MAX_ROWS)),
            context_length: parts.context_length,
            max_context: parts.facts.context_length,
            host_bytes,
        };
        Some(sizes.fit(&self.backend))
    }

    /// Fails where there is known to be no room.
    fn check_room(&self) -> Result<(), SessionError> {
        let Some(fit) = self.host_bytes.and_then(|bytes| self.fit(bytes)) else {
            return Ok(());
        };
        fit.shortage.map_or(Ok(()), |shortage| {
            Err(SessionError::NoRoom {
                shortage,
                longest_context: fit.longest_context,
                on_host: self.backend.is_on_host(),
            })
        })
    }
}

impl<B: Backend, M: Assembly<B>> Sink for ModelSink<B, M> {
    type Error = SessionError;

    fn header(&mut self, _shard: usize, header: &Header) -> Result<(), SessionError> {
        if self.parts.is_none() {
            self.parts = Some(self.first_header(header)?);
        }
        let Some(parts) = &mut self.parts else {
            return Ok(());
        };
        parts.assembly.header(header, &mut self.backend)?;
        for tensor in &header.tensors {
            let bytes = self
                .bytes_by_type
                .entry(tensor.ggml_type.name())
                .or_default();
            *bytes = bytes.saturating_add(tensor.byte_len);
            if tensor.shape.len() < 2 {
                continue;
            }
            let ty = tensor.ggml_type;
            self.note_head(&tensor.name, ty);
            match self.matrix_types.iter_mut().find(|(it, _)| *it == ty) {
                Some((_, bytes)) => *bytes = bytes.saturating_add(tensor.byte_len),
                None => self.matrix_types.push((ty, tensor.byte_len)),
            }
        }
        self.headers += 1;
        self.check_room()
    }

    fn rows(
        &mut self,
        tensor: &TensorInfo,
        first_row: u64,
        blocks: &[u8],
    ) -> Result<(), SessionError> {
        if self.backend.is_on_host() {
            let held = self
                .backend
                .held_bytes(tensor.ggml_type, blocks.len() as u64);
            let to_come = self.weights_bytes().saturating_sub(self.held_bytes);
            self.headroom.for_weights(held, to_come);
            self.held_bytes = self.held_bytes.saturating_add(held);
        }
        let Some(parts) = &mut self.parts else {
            return Err(SessionError::Internal("rows came before a header"));
        };
        Ok(parts
            .assembly
            .rows(tensor, first_row, blocks, &mut self.backend)?)
    }
}

impl<B: Backend, M: Assembly<B>> ModelSink<B, M> {
    fn first_header(&mut self, header: &Header) -> Result<Parts<M>, SessionError> {
        let metadata = &header.metadata;
        let assembly = M::begin(header, &mut self.backend)?;
        let facts = assembly.facts();
        let context_length = context_length(facts.context_length, self.options.context_length)?;
        // Of no use after this.
        let json = self.tokenizer_json.take();
        Headroom::for_strings(strings_bytes(metadata)?);
        let tokenizer = tokenizer(metadata, facts.vocab_size, json.as_deref())?;
        let template = chat_template(metadata, &tokenizer)?;
        Ok(Parts {
            facts,
            context_length,
            assembly,
            tokenizer,
            template,
        })
    }
}

fn context_length(most: usize, asked: Option<usize>) -> Result<usize, SessionError> {
    match asked {
        None => Ok(most.min(DEFAULT_CONTEXT)),
        Some(asked) if (1..=most).contains(&asked) => Ok(asked),
        Some(asked) => Err(invalid(
            "contextLength",
            asked,
            format!("from 1 to the model's {most}"),
        )),
    }
}

impl Strings for StringArray {
    fn len(&self) -> usize {
        self.len()
    }

    fn get(&self, index: usize) -> Option<&[u8]> {
        self.get(index)
    }
}

/// Builds the tokenizer: from `given` if there is one, else as `tokenizer.ggml.*` describes it;
/// where that is absent or asks for what is not built in, from the `tokenizer.json` in the file.
fn tokenizer(
    metadata: &Metadata,
    rows: usize,
    given: Option<&[u8]>,
) -> Result<Tokenizer, SessionError> {
    let vocabulary = vocabulary(metadata)?;
    if let Some(json) = given {
        return Tokenizer::from_json(json, rows, &vocabulary)
            .map_err(SessionError::TokenizerOption);
    }
    let empty = StringArray::default();
    let strings = |key: &str| -> Result<&StringArray, ModelError> {
        Ok(metadata.strings(key)?.unwrap_or(&empty))
    };
    let tokens = strings("tokenizer.ggml.tokens")?;
    let merges = strings("tokenizer.ggml.merges")?;
    let built = Tokenizer::new(&vocabulary, tokens, merges);
    let is_unknown = matches!(
        built,
        Err(TokenizerError::UnsupportedModel { .. }
            | TokenizerError::UnsupportedPre { .. }
            | TokenizerError::EmptyVocabulary)
    );
    match metadata.str(TOKENIZER_JSON)? {
        Some(json) if is_unknown => Ok(Tokenizer::from_json(json.as_bytes(), rows, &vocabulary)?),
        _ => Ok(built?),
    }
}

/// Bytes of tokens and merges.
fn strings_bytes(metadata: &Metadata) -> Result<u64, ModelError> {
    let mut bytes = 0;
    for key in ["tokenizer.ggml.tokens", "tokenizer.ggml.merges"] {
        bytes += metadata.strings(key)?.map_or(0, |it| it.byte_len() as u64);
    }
    Ok(bytes)
}

/// The small fields of `tokenizer.ggml.*`.
fn vocabulary(metadata: &Metadata) -> Result<Vocabulary, ModelError> {
    let key = |name: &str| format!("tokenizer.ggml.{name}");
    let text = |name: &str| -> Result<String, ModelError> {
        Ok(metadata.str(&key(name))?.unwrap_or_default().to_owned())
    };
    let id = |name: &str| metadata.u32(&key(name)).map_err(ModelError::from);
    let flag = |name: &str| metadata.bool(&key(name)).map_err(ModelError::from);
    Ok(Vocabulary {
        model: text("model")?,
        pre: text("pre")?,
        token_types: metadata.i32s(&key("token_type"))?.unwrap_or_default(),
        scores: metadata.f32s(&key("scores"))?.unwrap_or_default(),
        bos: id("bos_token_id")?,
        eos: id("eos_token_id")?,
        eot: id("eot_token_id")?,
        eom: id("eom_token_id")?,
        unknown: id("unknown_token_id")?,
        padding: id("padding_token_id")?,
        add_bos: flag("add_bos_token")?,
        add_eos: flag("add_eos_token")?,
        add_space_prefix: flag("add_space_prefix")?,
    })
}

/// The file's template. One that cannot be read is reported when it is used: raw prompts do
/// not need it.
fn chat_template(
    metadata: &Metadata,
    tokenizer: &Tokenizer,
) -> Result<Option<Result<ChatTemplate, TemplateError>>, SessionError> {
    let Some(source) = metadata.str("tokenizer.chat_template")? else {
        return Ok(None);
    };
    let text = |id: Option<u32>| id.map(|id| tokenizer.decode(&[id])).unwrap_or_default();
    let (bos, eos) = (text(tokenizer.bos()), text(tokenizer.eos()));
    Ok(Some(ChatTemplate::new(source, &bos, &eos)))
}

/// The type that holds most bytes , which the matrices decide.
fn main_quantization(bytes_by_type: &BTreeMap<&'static str, u64>) -> String {
    let most = bytes_by_type.iter().max_by_key(|(_, bytes)| **bytes);
    most.map(|(name, _)| (*name).to_owned()).unwrap_or_default()
}
