//! Changes to the logits before they become probabilities: penalties, biases, a mask.

/// A token that a penalty looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct TokenUse {
    /// Token id.
    pub id: u32,
    /// How often it occurs in the answer; 0 when only the prompt has it.
    pub in_answer: u32,
}

/// A number added to a token's logit.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct TokenBias {
    /// Token id.
    pub id: u32,
    /// What is added.
    pub bias: f32,
}

/// What is done to the logits, in the order of the fields.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Adjustments<'a> {
    /// Divides the positive and multiplies the negative logits of all tokens of `used`; 1 does
    /// nothing. Source: Keskar et al. 2019, <https://arxiv.org/abs/1909.05858>, with the sign
    /// rule of Hugging Face and llama.cpp.
    pub repetition_penalty: f32,
    /// Subtracted once for each occurrence in the answer.
    pub frequency_penalty: f32,
    /// Subtracted from every token that occurs in the answer.
    pub presence_penalty: f32,
    /// Tokens that the penalties look at, each id once.
    pub used: &'a [TokenUse],
    /// Added after the penalties.
    pub biases: &'a [TokenBias],
    /// Bit `id % 32` of word `id / 32` is 1 for a token that may be chosen; tokens beyond its
    /// end may not.
    pub mask: Option<&'a [u32]>,
}

impl Adjustments<'_> {
    /// Leaves the logits as they are.
    pub const NONE: Self = Self {
        repetition_penalty: 1.0,
        frequency_penalty: 0.0,
        presence_penalty: 0.0,
        used: &[],
        biases: &[],
        mask: None,
    };

    /// The changed logits; `None` when nothing is to be done. A logit of minus infinity stays.
    pub(super) fn apply(&self, logits: &[f32]) -> Option<Vec<f32>> {
        if self.used.is_empty() && self.biases.is_empty() && self.mask.is_none() {
            return None;
        }
        let mut logits = logits.to_vec();
        for used in self.used {
            change(&mut logits, used.id, |z| self.penalized(z, used.in_answer));
        }
        for &TokenBias { id, bias } in self.biases {
            change(&mut logits, id, |z| z + bias);
        }
        if let Some(mask) = self.mask {
            apply_mask(&mut logits, mask);
        }
        Some(logits)
    }

    fn penalized(&self, z: f32, in_answer: u32) -> f32 {
        let z = if z > 0.0 {
            z / self.repetition_penalty
        } else {
            z * self.repetition_penalty
        };
        if in_answer == 0 {
            return z;
        }
        #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^24")]
        let count = in_answer as f32;
        z - count * self.frequency_penalty - self.presence_penalty
    }
}

/// Changes a finite logit to a finite one; ids outside the vocabulary are passed over.
fn change(logits: &mut [f32], id: u32, to: impl FnOnce(f32) -> f32) {
    let logit = usize::try_from(id).ok().and_then(|id| logits.get_mut(id));
    if let Some(logit) = logit.filter(|logit| logit.is_finite()) {
        *logit = to(*logit).clamp(f32::MIN, f32::MAX);
    }
}

fn apply_mask(logits: &mut [f32], mask: &[u32]) {
    let mut words = mask.iter();
    for logits in logits.chunks_mut(32) {
        match words.next().copied().unwrap_or(0) {
            u32::MAX => {}
            0 => logits.fill(f32::NEG_INFINITY),
            word => {
                for (bit, logit) in logits.iter_mut().enumerate() {
                    if word >> bit & 1 == 0 {
                        *logit = f32::NEG_INFINITY;
                    }
                }
            }
        }
    }
}
