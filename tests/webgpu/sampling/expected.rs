//! What the device may answer, in f64.

use tokenbrook::backend::{SampleParams, Sampled};

/// How near a boundary, as a share of the whole, a draw may be judged either way.
const NEAR: f64 = 1e-5;

/// Ids in the order of ranks, and the weight up to and including each.
pub(super) struct Expected {
    ids: Vec<u32>,
    passed: Vec<f64>,
    total: f64,
    above_floor: usize,
}

/// The adjustments, written out once more.
pub(super) fn adjusted(logits: &[f32], params: &SampleParams<'_>) -> Vec<f32> {
    let adjust = &params.adjust;
    let mut z = logits.to_vec();
    for used in adjust.used {
        let Some(z) = z.get_mut(used.id as usize).filter(|z| z.is_finite()) else {
            continue;
        };
        *z = if *z > 0.0 {
            *z / adjust.repetition_penalty
        } else {
            *z * adjust.repetition_penalty
        };
        if used.in_answer > 0 {
            *z -= used.in_answer as f32 * adjust.frequency_penalty;
            *z -= adjust.presence_penalty;
        }
        *z = z.clamp(f32::MIN, f32::MAX);
    }
    for bias in adjust.biases {
        if let Some(z) = z.get_mut(bias.id as usize).filter(|z| z.is_finite()) {
            *z = (*z + bias.bias).clamp(f32::MIN, f32::MAX);
        }
    }
    if let Some(mask) = adjust.mask {
        for (id, z) in z.iter_mut().enumerate() {
            let word = mask.get(id / 32).copied().unwrap_or(0);
            if word >> (id % 32) & 1 == 0 {
                *z = f32::NEG_INFINITY;
            }
        }
    }
    z
}

impl Expected {
    pub(super) fn new(logits: &[f32], params: &SampleParams<'_>) -> Self {
        let z = adjusted(logits, params);
        let mut ids: Vec<u32> = (0..).take(z.len()).collect();
        ids.retain(|&id| z[id as usize] > f32::NEG_INFINITY);
        let z = |id: &u32| z[*id as usize];
        ids.sort_by(|a, b| z(b).total_cmp(&z(a)).then(a.cmp(b)));
        let largest = f64::from(z(&ids[0]));
        let temperature = f64::from(params.temperature);
        let weight = |id: &u32| ((f64::from(z(id)) - largest) / temperature).exp();
        let mut sum = 0.0;
        let mut passed = Vec::with_capacity(ids.len());
        let mut above_floor = 0;
        for id in &ids {
            let weight = weight(id);
            sum += weight;
            passed.push(sum);
            above_floor += usize::from(weight >= f64::from(params.min_p).max(f64::MIN_POSITIVE));
        }
        Self {
            ids,
            passed,
            total: sum,
            above_floor,
        }
    }

    /// Numbers of kept ones: one, unless the mass that top-p asks for is reached within
    /// [`NEAR`] of a boundary.
    fn kept(&self, params: &SampleParams<'_>) -> std::ops::RangeInclusive<usize> {
        let most = match params.top_k {
            0 => self.above_floor,
            top_k => self.above_floor.min(top_k),
        };
        if params.top_p >= 1.0 {
            return most..=most;
        }
        let reaching = |share: f64| {
            let below = self.passed.partition_point(|&sum| sum < share * self.total);
            (below + 1).min(most)
        };
        let top_p = f64::from(params.top_p);
        reaching(top_p - NEAR)..=reaching(top_p + NEAR)
    }

    /// Whether a draw may give this id.
    pub(super) fn allows(&self, id: u32, params: &SampleParams<'_>) -> bool {
        let Some(rank) = self.ids.iter().position(|&other| other == id) else {
            return false;
        };
        self.kept(params).any(|kept| {
            let mass = self.passed[kept - 1];
            let before = rank.checked_sub(1).map_or(0.0, |at| self.passed[at]);
            rank < kept
                && params.uniform >= before / mass - NEAR
                && params.uniform <= self.passed[rank] / mass + NEAR
        })
    }

    /// Uniforms at which the draw goes from one rank to the next.
    pub(super) fn boundaries(&self, params: &SampleParams<'_>) -> Vec<f64> {
        let kept = *self.kept(params).start();
        let passed = &self.passed[..kept];
        passed.iter().map(|sum| sum / passed[kept - 1]).collect()
    }

    /// Probability of each of `len` ids.
    pub(super) fn probabilities(&self, params: &SampleParams<'_>, len: usize) -> Vec<f64> {
        let kept = *self.kept(params).start();
        let mass = self.passed[kept - 1];
        let mut probabilities = vec![0.0; len];
        let mut before = 0.0;
        for (&id, &sum) in self.ids.iter().zip(&self.passed).take(kept) {
            probabilities[id as usize] = (sum - before) / mass;
            before = sum;
        }
        probabilities
    }
}

/// Largest difference of log-probabilities: an f32's rounding at their size beside 1e-5.
fn is_near(got: f64, want: f64) -> bool {
    (got - want).abs() <= 1e-5_f64.max(want.abs() * 1.5e-7)
}

pub(super) fn assert_logprobs(logits: &[f32], got: &Sampled, want: &Sampled, what: &str) {
    let (Some(got_logprobs), Some(want_logprobs)) = (&got.logprobs, &want.logprobs) else {
        assert_eq!(got.logprobs.is_some(), want.logprobs.is_some(), "{what}");
        return;
    };
    if got.id == want.id {
        let (got, want) = (got_logprobs.chosen, want_logprobs.chosen);
        assert!(is_near(got, want), "{what}: {got} instead of {want}");
    }
    let (got, want) = (&got_logprobs.top, &want_logprobs.top);
    assert_eq!(got.len(), want.len(), "{what}");
    for (got, want) in got.iter().zip(want) {
        assert!(is_near(got.logprob, want.logprob), "{what}");
        let z = |id: u32| logits[id as usize];
        assert!(
            got.id == want.id || (z(got.id) - z(want.id)).abs() <= 1e-6,
            "{what}: {got:?} instead of {want:?}"
        );
    }
}
