//! The [`Backend`] trait: what a forward pass asks of the hardware.
//!
//! The trait is shaped for a plan that is recorded once and replayed, not for operations that
//! return tensors. Operations are fused steps that read and write named [`Slot`]s of an arena
//! that the backend owns. Positions, lengths, block tables and token ids live in the backend's
//! own step state, which [`Backend::begin`] fills; no operation takes a position by value. A
//! backend that replays answers [`Recording::Replay`] for a shape it has already recorded; one
//! that computes at once (the CPU) answers [`Recording::Needed`] every time and executes while
//! the forward pass records.
//!
//! Only [`Backend::ready`], [`Backend::submit`] and the reads are asynchronous, and nothing here
//! asks for `Send`: a GPU's objects in a browser are bound to their thread.
//!
//! Shape letters: `T` rows (tokens) in this pass, `S` positions in the KV cache, `C` hidden
//! size, `F` intermediate size, `H` query heads, `G` KV heads, `D` head size, `V` vocabulary,
//! `L` layers. `[T, H, D]` is row-major, its last letter contiguous.

#[cfg(feature = "webgpu")]
mod any;
mod blocks;
pub mod cpu;
mod error;
mod ledger;
pub(crate) mod memory;
pub mod ops;
mod pace;
mod parts;
mod profile;
pub mod random;
pub mod reference;
mod sampling;
mod slots;
mod step;
mod tokens;
#[cfg(feature = "webgpu")]
pub mod webgpu;

#[cfg(feature = "webgpu")]
pub use any::AnyBackend;
pub use error::BackendError;
pub use pace::{Pace, measure};
pub use profile::{KernelProfile, Profile};
pub use sampling::{
    Adjustments, Logprobs, SampleParams, Sampled, TokenBias, TokenLogprob, TokenUse, arg_max,
    log_sum_exp, sample,
};

use crate::gguf::GgmlType;
use ops::{
    Attention, Cache, DownResidual, Embed, LmHead, Norm, NormGateUpAct, NormQkv, OutResidual,
    QkRopeAppend,
};

/// A weight matrix `[N, K]` of the backend; rows may come from several tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MatrixId(pub usize);

/// A vector of f32 (norm gains, biases) of the backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct VectorId(pub usize);

/// A table of rotary frequencies of the backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RopeId(pub usize);

/// A block of the KV cache: [`ModelShape::block_tokens`] positions of every layer of one
/// [`Cache`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BlockId(pub usize);

/// Where a sampled token id waits to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TokenSlot(pub usize);

/// The named activations of one pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Slot {
    /// Residual stream, `[T, C]`.
    Residual,
    /// Projected queries, keys and values, `[T, (H + 2 G) D]`.
    Qkv,
    /// Attention's output before its projection, `[T, H D]`.
    Attended,
    /// Gated activations, `[T, F]`.
    Activated,
    /// Logits, `[1, V]` or `[T, V]` as [`Outputs`] says.
    Logits,
}

/// Sizes that a backend needs for its arena and its KV blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelShape {
    /// Layers whose cache holds all positions.
    pub num_layers: usize,
    /// Layers whose cache is a ring that holds the last positions.
    pub window_layers: usize,
    /// `C`.
    pub hidden_size: usize,
    /// `F`.
    pub intermediate_size: usize,
    /// `V`, rows of the output matrix.
    pub vocab_size: usize,
    /// Heads of every layer.
    pub heads: ops::HeadShape,
    /// The most rows of one pass, `T`.
    pub max_rows: usize,
    /// Positions of one KV block.
    pub block_tokens: usize,
}

/// A layer's cache, before any of it is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheBytes {
    /// Bytes that it takes.
    pub held: u64,
    /// Bytes that it may take at most.
    pub most: u64,
}

/// What a model's header says of the work to come.
#[derive(Clone, Debug, PartialEq)]
pub struct Outline {
    /// Its sizes.
    pub shape: ModelShape,
    /// Types of its matrices, each once, with their bytes in the file.
    pub types: Vec<(GgmlType, u64)>,
    /// The matrix that gives logits, as far as it is known.
    pub head: Option<HeadType>,
}

/// The matrix that gives logits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadType {
    /// Its type.
    pub ggml_type: GgmlType,
    /// It is the embedding too.
    pub is_tied: bool,
}

impl Outline {
    /// Weights in all, as the bytes and types tell.
    #[must_use]
    pub fn weights(&self) -> f64 {
        let of = |&(ty, bytes): &(GgmlType, u64)| {
            bytes as f64 * ty.block_elements() as f64 / ty.block_bytes() as f64
        };
        self.types.iter().map(of).sum()
    }
}

/// One tensor's rows inside a matrix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartSpec {
    /// GGUF tensor name.
    pub name: String,
    /// Rows that it contributes.
    pub rows: usize,
}

/// A matrix to be created: its parts are stacked by rows in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MatrixSpec {
    /// `K`, elements of a row.
    pub cols: usize,
    /// Row groups; each may have a quantization of its own.
    pub parts: Vec<PartSpec>,
}

/// Which rotary pairs a head uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RopeKind {
    /// Elements `2 i` and `2 i + 1` form a pair (GGUF files of the Llama family).
    Interleaved,
    /// Elements `i` and `i + n / 2` form a pair (NeoX order).
    Halves,
}

/// Rotary position embedding of the first `2 * frequencies.len()` elements of each head.
#[derive(Clone, Debug, PartialEq)]
pub struct RopeSpec {
    /// How elements pair up.
    pub kind: RopeKind,
    /// Angle per position of each pair, radians; scaling is already in it.
    pub frequencies: Vec<f32>,
    /// Factor on both sine and cosine, 1 unless the scaling method asks for more.
    pub magnitude: f32,
}

/// The rows that one sequence adds in a pass.
#[derive(Clone, Copy, Debug)]
pub struct SequenceStep<'a> {
    /// Rows of this sequence, 1 in decode.
    pub rows: usize,
    /// Position of its first row: the tokens already cached.
    pub position: usize,
    /// Its block table, long enough for `position + rows`.
    pub blocks: &'a [BlockId],
    /// Its ring of blocks, where the model has layers with one: position `p` lies in block
    /// `p / block_tokens` modulo the ring's length. It must hold `rows` positions beside what
    /// a window reaches back, `window - 1`.
    pub window_blocks: &'a [BlockId],
}

/// Where a pass takes its token ids from.
#[derive(Clone, Copy, Debug)]
pub enum TokenSource<'a> {
    /// Ids that the host knows, one a row.
    Ids(&'a [u32]),
    /// The id that an earlier pass sampled into this slot: it need not visit the host.
    Sampled(TokenSlot),
}

/// What a pass is for: which rows get logits, or none but states.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outputs {
    /// None: a prefill chunk that is not the last.
    Nothing,
    /// The last row only.
    LastRow,
    /// Every row: scoring and verification.
    AllRows,
    /// No logits, but every row's state after the output norm: embeddings of texts.
    States,
}

/// One pass over the model.
#[derive(Clone, Copy, Debug)]
pub struct Step<'a> {
    /// Token ids of all rows.
    pub tokens: TokenSource<'a>,
    /// Sequences in row order.
    pub sequences: &'a [SequenceStep<'a>],
    /// What the pass is for.
    pub outputs: Outputs,
}

/// What [`Backend::begin`] wants next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recording {
    /// The forward pass has to issue its operations.
    Needed,
    /// This shape is recorded already; only `submit` is left to do.
    Replay,
}

/// What a chunk of a prompt is best like.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Chunks {
    /// Rows that take hardly longer than one: a chunk has at least as many.
    pub least_rows: usize,
    /// Rows that are multiplied together: of a chunk that has more, best a multiple.
    pub tile_rows: usize,
    /// How long a chunk is to take, milliseconds.
    pub target_ms: f64,
}

impl Default for Chunks {
    /// Chunks of any number of rows, after each of which a stop is heard: within 100 ms, noise
    /// included.
    fn default() -> Self {
        Self {
            least_rows: 1,
            tile_rows: 1,
            target_ms: 80.0,
        }
    }
}

/// Bytes that a backend holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BackendMemory {
    /// Weights as the backend keeps them.
    pub weights_bytes: u64,
    /// KV blocks allocated so far.
    pub kv_cache_bytes: u64,
    /// Arena and temporary buffers.
    pub scratch_bytes: u64,
}

/// Hardware that runs a decoder-only transformer.
///
/// Life: create matrices and vectors, write their rows as bytes arrive, [`prepare`] once, then
/// any number of passes `begin` → operations (if asked for) → `submit` → reads.
///
/// # Errors
/// Every method returns [`BackendError`]: a shape that does not fit names the operation and
/// both shapes; memory that cannot be had names its size; a lost device says so.
///
/// [`prepare`]: Backend::prepare
#[expect(
    async_fn_in_trait,
    reason = "callers run on the thread that owns the device; no Send bound is wanted"
)]
#[expect(
    clippy::missing_errors_doc,
    reason = "the trait's documentation covers all methods"
)]
pub trait Backend {
    /// Creates a matrix without contents.
    fn create_matrix(&mut self, spec: &MatrixSpec) -> Result<MatrixId, BackendError>;
    /// Writes whole rows `first_row ..` of one part from GGUF blocks, at most 16 MiB a call.
    /// All rows of a part have one type.
    fn write_rows(
        &mut self,
        matrix: MatrixId,
        part: usize,
        ggml_type: GgmlType,
        first_row: usize,
        blocks: &[u8],
    ) -> Result<(), BackendError>;
    /// Creates a vector.
    fn create_vector(&mut self, values: &[f32]) -> Result<VectorId, BackendError>;
    /// Creates a table of rotary frequencies.
    fn create_rope(&mut self, spec: &RopeSpec) -> Result<RopeId, BackendError>;
    /// Sizes the arena; called once, after all weights.
    fn prepare(&mut self, shape: &ModelShape) -> Result<(), BackendError>;
    /// Waits until what loading has begun is done, and reports what failed meanwhile.
    async fn ready(&mut self) -> Result<(), BackendError> {
        Ok(())
    }

    /// Where the time of the pass submitted last goes, for a backend that can tell. It is run many
    /// times over: what it wrote to the cache has to be dropped.
    async fn profile(&self) -> Result<Option<Profile>, BackendError> {
        Ok(None)
    }

    /// Keeps what was recorded since [`begin`](Self::begin) for later passes of the shape, without
    /// running it; false for a backend that records nothing.
    fn keep_recording(&mut self) -> bool {
        false
    }

    /// Takes a KV block of a cache; its contents are undefined.
    fn allocate_block(&mut self, cache: Cache) -> Result<BlockId, BackendError>;
    /// Gives a KV block back.
    fn release_block(&mut self, block: BlockId);

    /// Fills the step state and says whether operations have to be issued.
    fn begin(&mut self, step: &Step<'_>) -> Result<Recording, BackendError>;
    /// Gathers embedding rows of the step's token ids: → `out [T, C]`.
    fn embed(&mut self, op: &Embed, out: Slot) -> Result<(), BackendError>;
    /// Normalizes and projects: `x [T, C]` → `out [T, (H + 2 G) D]`.
    fn norm_qkv(&mut self, x: Slot, op: &NormQkv, out: Slot) -> Result<(), BackendError>;
    /// Rotates queries in place, rotates keys and appends keys and values to the KV cache:
    /// `qkv [T, (H + 2 G) D]`.
    fn qk_rope_append(&mut self, qkv: Slot, op: &QkRopeAppend) -> Result<(), BackendError>;
    /// Causal attention over the sequence's cache: queries of `qkv` → `out [T, H D]`.
    fn attention(&mut self, qkv: Slot, op: &Attention, out: Slot) -> Result<(), BackendError>;
    /// Projects and adds: `x [T, H D]`, `residual [T, C]`.
    fn out_residual(
        &mut self,
        x: Slot,
        op: &OutResidual,
        residual: Slot,
    ) -> Result<(), BackendError>;
    /// Normalizes, projects to gate and up, activates: `x [T, C]` → `out [T, F]`.
    fn norm_gate_up_act(
        &mut self,
        x: Slot,
        op: &NormGateUpAct,
        out: Slot,
    ) -> Result<(), BackendError>;
    /// Projects and adds: `x [T, F]`, `residual [T, C]`.
    fn down_residual(
        &mut self,
        x: Slot,
        op: &DownResidual,
        residual: Slot,
    ) -> Result<(), BackendError>;
    /// Normalizes and projects the rows that [`Step::outputs`] names to logits.
    fn lm_head(&mut self, x: Slot, op: &LmHead, out: Slot) -> Result<(), BackendError>;
    /// Normalizes all rows in place, where [`Step::outputs`] asks for states: `x [T, C]`. They
    /// are what [`read_states`](Self::read_states) gives.
    fn output_norm(&mut self, x: Slot, norm: &Norm) -> Result<(), BackendError>;
    /// Chooses the next token from the last row of `logits`.
    fn sample(
        &mut self,
        logits: Slot,
        params: &SampleParams<'_>,
    ) -> Result<TokenSlot, BackendError>;

    /// Runs what was recorded.
    async fn submit(&mut self) -> Result<(), BackendError>;
    /// What a chunk of a prompt is best like.
    fn chunks(&self) -> Chunks {
        Chunks::default()
    }
    /// How much longer reading a token takes than the work that led to it, milliseconds: what
    /// steps in flight may hide. 0 where nothing is gained by submitting ahead.
    fn read_ms(&self) -> f64 {
        0.0
    }
    /// Reads a sampled token.
    async fn read_token(&mut self, slot: TokenSlot) -> Result<Sampled, BackendError>;
    /// Reads the logits of the last pass, `[rows, V]`.
    async fn read_logits(&mut self) -> Result<&[f32], BackendError>;
    /// Reads the states of the last pass, `[T, C]`.
    async fn read_states(&mut self) -> Result<&[f32], BackendError>;

    /// Bytes held now.
    fn memory(&self) -> BackendMemory;

    /// Bytes that it will hold of a matrix whose blocks of this type have `bytes` in the file.
    fn held_bytes(&self, _ggml_type: GgmlType, bytes: u64) -> u64 {
        bytes
    }

    /// Bytes of one layer's cache once so many blocks of it are taken.
    fn cache_bytes(&self, shape: &ModelShape, blocks: u64) -> CacheBytes {
        let heads = &shape.heads;
        let position = (heads.num_kv_heads as u64).saturating_mul(heads.head_dim as u64);
        let block = position.saturating_mul(8 * shape.block_tokens as u64);
        CacheBytes {
            held: block.saturating_mul(blocks),
            most: u64::MAX,
        }
    }

    /// Whether weights and cache are in the memory of the host.
    fn is_on_host(&self) -> bool {
        true
    }
}
