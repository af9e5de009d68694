//! Choosing a token from logits, on the host: what the CPU backends run and what a GPU's
//! sampler is compared with.
//!
//! Order: `p_i = exp(z_i / T) / sum_j exp(z_j / T)`, then top-k, then top-p (the smallest set
//! whose probabilities reach `p`), then min-p, then the draw among what is left, in proportion
//! to the `p_i`. Equal logits are ordered by id, lowest first.

use super::BackendError;

/// How to choose. The draw's randomness comes in as one number, so that a step is a pure
/// function of its inputs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SampleParams {
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
}

/// A chosen token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampled {
    /// Token id.
    pub id: u32,
    /// Natural logarithm of its probability under the raw logits (temperature 1, no cuts).
    pub logprob: f64,
}

/// Chooses from `logits [V]`.
///
/// # Errors
/// [`BackendError::NotFinite`] when a logit is NaN or none is finite.
pub fn sample(logits: &[f32], params: &SampleParams) -> Result<Sampled, BackendError> {
    let best = arg_max(logits)?;
    let id = if params.temperature == 0.0 {
        best
    } else {
        draw(logits, best, params)
    };
    Ok(Sampled {
        id: u32::try_from(id).map_err(|_| BackendError::NotFinite)?,
        logprob: f64::from(logits[id]) - log_sum_exp(logits, logits[best]),
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

/// The cuts and the draw, for a temperature above 0.
fn draw(logits: &[f32], best: usize, params: &SampleParams) -> usize {
    let (max, temperature) = (logits[best], f64::from(params.temperature));
    let weight = |i: usize| ((f64::from(logits[i]) - f64::from(max)) / temperature).exp();
    let total: f64 = (0..logits.len()).map(weight).sum();

    let mut candidates: Vec<usize> = (0..logits.len()).collect();
    let by_rank = |a: &usize, b: &usize| logits[*b].total_cmp(&logits[*a]).then(a.cmp(b));
    if params.top_k > 0 && params.top_k < candidates.len() {
        // Partial selection first: sorting a whole vocabulary costs ten times as much.
        candidates.select_nth_unstable_by(params.top_k - 1, by_rank);
        candidates.truncate(params.top_k);
    }
    candidates.sort_unstable_by(by_rank);

    if params.top_p < 1.0 {
        let wanted = f64::from(params.top_p) * total;
        let mut mass = 0.0;
        let kept = candidates.iter().position(|&i| {
            mass += weight(i);
            mass >= wanted
        });
        candidates.truncate(kept.map_or(candidates.len(), |last| last + 1));
    }
    // The largest weight is exp(0) = 1, so the bound is min_p itself. Weights of 0 go too, lest
    // a rounding crumb chooses a token that a mask has excluded.
    let floor = f64::from(params.min_p);
    candidates.retain(|&i| weight(i) > 0.0 && weight(i) >= floor);

    let mass: f64 = candidates.iter().map(|&i| weight(i)).sum();
    let mut left = params.uniform * mass;
    for &i in &candidates {
        left -= weight(i);
        if left < 0.0 {
            return i;
        }
    }
    // Rounding can leave a crumb; it belongs to the last candidate.
    candidates.last().copied().unwrap_or(best)
}
