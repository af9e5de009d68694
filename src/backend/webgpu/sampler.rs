//! Sampling on the device: the choice never visits the host.
//!
//! The semantics are those of [`sample`](crate::backend::sample). A row of logits is gone
//! through a few times; no pass sorts it:
//!
//! 1. *adjust* copies the row with mask, penalties and biases, where there are any;
//! 2. *scan* and *head* find the largest logit; a greedy step ends here;
//! 3. *hist* and *bound* count logits and weights `exp((z - max) / T)` by depth below the
//!    largest, which shows the bin where top-k or top-p ends, or the draw falls;
//! 4. *gather* and *choose* list the logits of that bin, or of all bins before it if they are
//!    few, and find the exact rank. If the draw falls into another bin than the cut, a second
//!    round lists that one.
//! 5. *tops* and *logprobs* sum the raw weights and find the likeliest.
//!
//! Weights are integers of 64 bits, so sums are exact and the order in which a device adds
//! them does not matter: the same logits give the same choice in every variant.

use super::kernels::sample::{self, HIST_WORDS, PICK_WORDS, Sample, Variant};
use super::recorder::Recorder;
use super::{Gpu, row_stride};
use crate::backend::{BackendError, Logprobs, SampleParams, Sampled, TokenBias, TokenLogprob};

/// Slots of the ring of tokens.
pub const RING_SLOTS: usize = 64;

/// Words of a slot: id, fault, log-probability of the chosen, number of likeliest, their ids,
/// their log-probabilities.
pub const SLOT_WORDS: usize = 64;

/// The most likeliest tokens that a slot has room for.
pub const MAX_TOP: usize = 20;

/// The most tokens that the host may not have seen.
pub const MAX_PENDING: usize = 8;

/// Words of the state before the lists; `kernels/common/sample.wgsl` names them.
const HEADER_WORDS: usize = 32;

/// Biases beyond one a token that there is room for.
const SPARE_BIASES: usize = 1024;

/// A log-probability that was not asked for.
const NO_LOGPROB: u32 = 0x7fc0_0000;

/// Which dispatches a step needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mode {
    /// Penalties, biases or a mask.
    pub adjusts: bool,
    /// A temperature above 0.
    pub draws: bool,
    /// Log-probabilities.
    pub logprobs: bool,
}

impl Mode {
    /// What these parameters need.
    #[must_use]
    pub fn of(params: &SampleParams<'_>, pending: &[u32]) -> Self {
        let adjust = &params.adjust;
        let lists = [adjust.used.len(), adjust.biases.len(), pending.len()];
        Self {
            adjusts: adjust.mask.is_some() || lists.iter().any(|&len| len > 0),
            draws: params.temperature != 0.0,
            logprobs: params.logprobs.is_some(),
        }
    }
}

/// What differs from step to step beside the parameters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SampleStep<'a> {
    /// Row of the logits.
    pub row: usize,
    /// Slot of the ring that the choice goes to.
    pub out_slot: u32,
    /// Slots with tokens that the penalties count as used in the answer, but that the host has
    /// not seen; at most [`MAX_PENDING`].
    pub pending: &'a [u32],
}

/// Buffers of the sampler, sized once for a vocabulary.
#[derive(Debug)]
pub struct Sampler {
    vocab: usize,
    variant: Variant,
    state: wgpu::Buffer,
    adjusted: wgpu::Buffer,
    found: wgpu::Buffer,
    hist: wgpu::Buffer,
    pick: wgpu::Buffer,
    list: wgpu::Buffer,
    count: wgpu::Buffer,
    sums: wgpu::Buffer,
    words: Vec<u32>,
    bytes: u64,
}

impl Sampler {
    /// Buffers for `vocab` logits a row.
    #[must_use]
    pub fn new(gpu: &Gpu, variant: Variant, vocab: usize) -> Self {
        let slices = u64::from(variant.slices(word(vocab)));
        let rows = vocab as u64;
        let mut bytes = 0;
        let mut make = |label, words: u64| {
            bytes += words * 4;
            gpu.storage(label, words * 4)
        };
        let lists = (HEADER_WORDS + vocab.div_ceil(32) + 4 * vocab + 2 * SPARE_BIASES) as u64;
        Self {
            state: make("sampler state", lists),
            adjusted: make("adjusted logits", rows),
            found: make("found", slices * 8),
            hist: make("histograms", slices * u64::from(HIST_WORDS)),
            pick: make("pick", u64::from(PICK_WORDS)),
            list: make("listed logits", rows * 4),
            count: make("number of listed logits", 4),
            sums: make("sums", slices * 2),
            vocab,
            variant,
            words: Vec::new(),
            bytes,
        }
    }

    /// Bytes that the buffers hold.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Records the dispatches of a mode on `logits [rows, V]`, [`row_stride`] apart.
    pub fn record(
        &self,
        recorder: &mut Recorder<'_>,
        mode: Mode,
        logits: &wgpu::Buffer,
        ring: &wgpu::Buffer,
    ) {
        let op = Sample {
            vocab: word(self.vocab),
            state: &self.state,
            logits,
            adjusted: &self.adjusted,
            found: &self.found,
            hist: &self.hist,
            pick: &self.pick,
            list: &self.list,
            count: &self.count,
            sums: &self.sums,
            ring,
        };
        if mode.adjusts {
            sample::adjust(recorder, self.variant, &op);
        }
        sample::greedy(recorder, self.variant, &op, mode.adjusts);
        if mode.draws {
            sample::draw(recorder, self.variant, &op, mode.adjusts);
        }
        if mode.logprobs {
            sample::logprobs(recorder, self.variant, &op);
        }
    }

    /// Writes the state of the next step: one write, in the queue's order.
    ///
    /// # Errors
    /// [`BackendError::Usage`] where a list is longer than there is room for.
    pub fn write_state(
        &mut self,
        queue: &wgpu::Queue,
        params: &SampleParams<'_>,
        step: &SampleStep<'_>,
    ) -> Result<(), BackendError> {
        self.fill(params, step)?;
        queue.write_buffer(&self.state, 0, bytemuck::cast_slice(&self.words));
        Ok(())
    }

    fn fill(
        &mut self,
        params: &SampleParams<'_>,
        step: &SampleStep<'_>,
    ) -> Result<(), BackendError> {
        let adjust = &params.adjust;
        let top_count = params.logprobs.unwrap_or(0);
        if top_count > MAX_TOP || step.pending.len() > MAX_PENDING {
            return Err(usage(
                "more likeliest or pending tokens than a slot or the state holds",
            ));
        }
        let words = &mut self.words;
        words.clear();
        words.resize(HEADER_WORDS, 0);
        let (floor, floor_error) = floor(params);
        words[0] = step.out_slot;
        words[1] = word(step.row * row_stride(self.vocab));
        words[2] = match params.top_k {
            0 => u32::MAX,
            top_k => word(top_k),
        };
        words[3] = if params.top_p < 1.0 {
            share(f64::from(params.top_p)).max(1)
        } else {
            0
        };
        words[4] = share(params.uniform);
        words[5] = inverse(params.temperature).to_bits();
        words[6] = floor.to_bits();
        words[7] = floor_error.to_bits();
        words[8] = word(top_count);
        words[9] = adjust.repetition_penalty.to_bits();
        words[10] = adjust.frequency_penalty.to_bits();
        words[11] = adjust.presence_penalty.to_bits();
        words[13] = word(step.pending.len());
        words[16..16 + step.pending.len()].copy_from_slice(step.pending);
        if let Some(mask) = adjust.mask {
            let mask = &mask[..mask.len().min(self.vocab.div_ceil(32))];
            words[14] = word(words.len());
            words[15] = word(mask.len());
            words.extend_from_slice(mask);
        }
        words[24] = word(words.len());
        let inside = |id: u32| (id as usize) < self.vocab;
        let used = adjust.used.iter().filter(|used| inside(used.id));
        words.extend(used.flat_map(|used| [used.id, used.in_answer]));
        words[25] = (word(words.len()) - words[24]) / 2;
        words[26] = word(words.len());
        let mut biases: Vec<TokenBias> = adjust.biases.to_vec();
        biases.retain(|bias| inside(bias.id));
        // Stable: those of one token stay in order.
        biases.sort_by_key(|bias| bias.id);
        words.extend(
            biases
                .iter()
                .flat_map(|bias| [bias.id, bias.bias.to_bits()]),
        );
        words[27] = word(biases.len());
        let biases = biases.len().saturating_sub(SPARE_BIASES);
        if biases.max(words[25] as usize) > self.vocab {
            return Err(usage(
                "more used tokens or biases than the vocabulary has tokens",
            ));
        }
        Ok(())
    }
}

/// What a slot of the ring holds.
///
/// # Errors
/// [`BackendError::NotFinite`], [`BackendError::Usage`] as the host's sampler has them; the
/// latter for a slot of another length too.
pub fn read_slot(words: &[u32]) -> Result<Sampled, BackendError> {
    if words.len() != SLOT_WORDS {
        return Err(usage("a slot of the ring has another length"));
    }
    match words[1] {
        0 => {}
        2 => return Err(usage("the mask excludes every token")),
        _ => return Err(BackendError::NotFinite),
    }
    let logprob = |word: u32| f64::from(f32::from_bits(word));
    let count = (words[3] as usize).min(MAX_TOP);
    let top = words[4..4 + count].iter().zip(&words[24..]);
    let top = top.map(|(&id, &bits)| TokenLogprob {
        id,
        logprob: logprob(bits),
    });
    Ok(Sampled {
        id: words[0],
        logprobs: (words[2] != NO_LOGPROB).then(|| Logprobs {
            chosen: logprob(words[2]),
            top: top.collect(),
        }),
    })
}

/// `T ln(min_p)` as a number and its rounding error.
fn floor(params: &SampleParams<'_>) -> (f32, f32) {
    if params.min_p <= 0.0 || params.temperature == 0.0 {
        return (f32::NEG_INFINITY, 0.0);
    }
    let floor = f64::from(params.temperature) * f64::from(params.min_p).ln();
    #[expect(
        clippy::cast_possible_truncation,
        reason = "what the first number loses is in the second"
    )]
    let split = (floor as f32, (floor - f64::from(floor as f32)) as f32);
    split
}

/// A number of `[0, 1)` in units of 2^-32.
fn share(value: f64) -> u32 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "casts from floats saturate"
    )]
    let share = (value * 4_294_967_296.0) as u32;
    share
}

fn inverse(temperature: f32) -> f32 {
    if temperature == 0.0 {
        return 1.0;
    }
    temperature.recip().min(f32::MAX)
}

/// Sizes are bounded by the device's buffers long before a word is full.
fn word(value: usize) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

fn usage(why: &'static str) -> BackendError {
    BackendError::Usage { op: "sample", why }
}
