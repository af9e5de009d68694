//! Choosing a token from logits, on the host: what the CPU backends run and what a GPU's
//! sampler is compared with.
//!
//! Order: [`Adjustments`] (penalties, biases, mask), then
//! `p_i = exp(z_i / T) / sum_j exp(z_j / T)`, then top-k, then top-p (the smallest set whose
//! probabilities reach `p`), then min-p, then the draw among what is left, in proportion to the
//! `p_i`. Equal logits are ordered by id, lowest first. Log-probabilities are of the logits as
//! the model gave them.

mod adjust;
mod draw;

pub use adjust::{Adjustments, TokenBias, TokenUse};

use super::{BackendError, TokenSlot};

/// How to choose. The draw's randomness comes in as one number, so that a step is a pure
/// function of its inputs; lists and mask are plain slices, so that they can be uploaded as
/// they stand.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SampleParams<'a> {
    /// What happens to the logits before anything else.
    pub adjust: Adjustments<'a>,
    /// `T`; 0 takes the largest logit.
    pub temperature: f32,
    /// Candidates kept by rank; 0 keeps all.
    pub top_k: usize,
    /// Probability mass kept, `(0, 1]`.
    pub top_p: f32,
    /// Candidates below this share of the largest probability are dropped, `[0, 1]`.
    pub min_p: f32,
    /// Uniform in `[0, 1)`.
    pub uniform: f64,
    /// Asks for log-probabilities: the chosen token's, and those of this many likeliest ones.
    pub logprobs: Option<usize>,
    /// Tokens of the answer that the host has yet to read: the backend counts them as used.
    pub pending: &'a [TokenSlot],
}

impl SampleParams<'_> {
    /// The largest logit, nothing adjusted, no log-probabilities.
    pub const GREEDY: Self = Self {
        adjust: Adjustments::NONE,
        temperature: 0.0,
        top_k: 0,
        top_p: 1.0,
        min_p: 0.0,
        uniform: 0.0,
        logprobs: None,
        pending: &[],
    };
}

/// A chosen token.
#[derive(Clone, Debug, PartialEq)]
pub struct Sampled {
    /// Token id.
    pub id: u32,
    /// What [`SampleParams::logprobs`] asked for.
    pub logprobs: Option<Logprobs>,
}

/// Natural logarithms of probabilities under the raw logits (temperature 1, nothing adjusted,
/// no cuts).
#[derive(Clone, Debug, PartialEq)]
pub struct Logprobs {
    /// Of the chosen token.
    pub chosen: f64,
    /// The likeliest tokens, likeliest first; impossible ones are left out.
    pub top: Vec<TokenLogprob>,
}

/// A token and the natural logarithm of its probability.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TokenLogprob {
    /// Token id.
    pub id: u32,
    /// Logarithm of its probability.
    pub logprob: f64,
}

/// Chooses from `logits [V]`; [`SampleParams::pending`] is the caller's to have resolved.
///
/// # Errors
/// [`BackendError::NotFinite`] when a logit is NaN or none is finite; [`BackendError::Usage`]
/// when the mask excludes every token.
pub fn sample(logits: &[f32], params: &SampleParams<'_>) -> Result<Sampled, BackendError> {
    let likeliest = arg_max(logits)?;
    let adjusted = params.adjust.apply(logits);
    let best = match &adjusted {
        None => likeliest,
        Some(adjusted) => arg_max(adjusted).map_err(|_| BackendError::Usage {
            op: "sample",
            why: "the mask excludes every token",
        })?,
    };
    let index = if params.temperature == 0.0 {
        best
    } else {
        draw::draw(adjusted.as_deref().unwrap_or(logits), best, params)
    };
    Ok(Sampled {
        id: u32::try_from(index).map_err(|_| BackendError::NotFinite)?,
        logprobs: params
            .logprobs
            .map(|count| logprobs(logits, likeliest, index, count)),
    })
}

/// `ln sum exp(z)`, with the largest logit given for range.
#[must_use]
pub fn log_sum_exp(logits: &[f32], max: f32) -> f64 {
    let max = f64::from(max);
    let sum: f64 = logits.iter().map(|&z| (f64::from(z) - max).exp()).sum();
    max + sum.ln()
}

/// Index of the largest logit, the lowest index among equals.
///
/// # Errors
/// [`BackendError::NotFinite`] when a logit is NaN or none is finite.
pub fn arg_max(logits: &[f32]) -> Result<usize, BackendError> {
    let mut best: Option<usize> = None;
    for (i, &z) in logits.iter().enumerate() {
        if z.is_nan() || z == f32::INFINITY {
            return Err(BackendError::NotFinite);
        }
        if best.is_none_or(|b| z > logits[b]) {
            best = Some(i);
        }
    }
    best.filter(|&b| logits[b].is_finite())
        .ok_or(BackendError::NotFinite)
}

/// Log-probabilities of `chosen` and of the `count` likeliest.
fn logprobs(logits: &[f32], likeliest: usize, chosen: usize, count: usize) -> Logprobs {
    let total = log_sum_exp(logits, logits[likeliest]);
    // A handful out of a vocabulary: nearly every logit is turned away by one comparison.
    let mut top: Vec<(f32, u32)> = Vec::with_capacity(count.min(logits.len()));
    for (&z, id) in logits.iter().zip(0_u32..) {
        let full = top.len() == count;
        if z == f32::NEG_INFINITY || (full && top.last().is_none_or(|&(least, _)| z <= least)) {
            continue;
        }
        if full {
            top.pop();
        }
        top.insert(top.partition_point(|&(other, _)| other >= z), (z, id));
    }
    let logprob = |z: f32| f64::from(z) - total;
    Logprobs {
        chosen: logprob(logits[chosen]),
        top: top
            .into_iter()
            .map(|(z, id)| TokenLogprob {
                id,
                logprob: logprob(z),
            })
            .collect(),
    }
}
