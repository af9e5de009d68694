//! Meters on the call itself: what is known of a provider without its help.
//!
//! | trouble             | what it looks like                      | its meter                |
//! |---------------------|-----------------------------------------|--------------------------|
//! | rate limits, outage | calls fail                              | `error_share`            |
//! | a squeeze           | some wait long, the median does not     | `p95_ms`                 |
//! | a silent model swap | a fixed set of questions fails          | `eval_share`             |
//! | an edited prompt    | the provider's prefix cache misses      | `cached_share`, `spend`  |
//! | a ladder in use     | lower rungs answer                      | `rung_shares`            |

use std::collections::VecDeque;

/// One try of a call that is over.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    /// The rung that answered or failed, from 0.
    pub rung: usize,
    /// From the try's begin to its first text, in milliseconds; nothing for a failure.
    pub first_text_ms: Option<f64>,
    /// Tokens of the prompt.
    pub prompt_tokens: f64,
    /// Those of them that the provider had in its cache.
    pub cached_tokens: f64,
    /// What it cost, in the caller's currency.
    pub spend: f64,
}

/// What is still right; an absent limit is not watched.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Limits {
    /// Samples that have to be there before a meter speaks.
    pub least: usize,
    /// The largest share of failures.
    pub error_share: Option<f64>,
    /// The largest 95th percentile of the time to first text, in milliseconds.
    pub p95_ms: Option<f64>,
    /// The smallest share of the evaluation set that passes.
    pub eval_share: Option<f64>,
    /// The smallest share of prompt tokens that come from the provider's cache.
    pub cached_share: Option<f64>,
    /// The largest mean spend of a call.
    pub spend: Option<f64>,
    /// The largest share of calls that a rung below the first answers.
    pub fallback_share: Option<f64>,
}

/// A meter beyond its limit, in triage order: who gets nothing comes before who waits, who waits
/// before who gets wrong answers, those before money, and money before what the ladder has
/// already caught.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "each is the meter of the same name")]
pub enum Alert {
    ErrorShare,
    P95,
    EvalShare,
    CachedShare,
    Spend,
    FallbackShare,
}

/// What the meters show; absent where there is nothing to show.
#[derive(Clone, Debug, Default, PartialEq)]
#[expect(missing_docs, reason = "the module's table names them")]
pub struct Summary {
    pub calls: usize,
    pub p50_ms: Option<f64>,
    pub p95_ms: Option<f64>,
    pub error_share: Option<f64>,
    pub cached_share: Option<f64>,
    /// Of all calls together.
    pub spend: f64,
    pub eval_share: Option<f64>,
    /// The share of answers that each rung gave.
    pub rung_shares: Vec<f64>,
}

/// The latest calls of one client.
#[derive(Clone, Debug)]
pub struct Meters {
    limits: Limits,
    window: usize,
    calls: VecDeque<Sample>,
    evals: VecDeque<bool>,
}

impl Meters {
    /// Meters over the latest `window` calls and as many evaluations.
    #[must_use]
    pub fn new(limits: Limits, window: usize) -> Self {
        Self {
            limits,
            window: window.max(1),
            calls: VecDeque::new(),
            evals: VecDeque::new(),
        }
    }

    /// A call is over.
    pub fn record(&mut self, sample: Sample) {
        self.calls.push_back(sample);
        if self.calls.len() > self.window {
            self.calls.pop_front();
        }
    }

    /// One question of the evaluation set was asked.
    pub fn record_eval(&mut self, passed: bool) {
        self.evals.push_back(passed);
        if self.evals.len() > self.window {
            self.evals.pop_front();
        }
    }

    /// The state of all meters.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a window holds few calls")]
    pub fn summary(&self) -> Summary {
        let total = self.calls.len() as f64;
        let answered: Vec<&Sample> = (self.calls.iter())
            .filter(|call| call.first_text_ms.is_some())
            .collect();
        let mut times: Vec<f64> = answered
            .iter()
            .filter_map(|call| call.first_text_ms)
            .collect();
        let rungs = answered.iter().map(|call| call.rung + 1).max().unwrap_or(0);
        let of_rung = |rung: usize| answered.iter().filter(|call| call.rung == rung).count();
        let prompt: f64 = answered.iter().map(|call| call.prompt_tokens).sum();
        let cached: f64 = answered.iter().map(|call| call.cached_tokens).sum();
        let passed = self.evals.iter().filter(|passed| **passed).count();
        let share = |part: f64, all: f64| (all > 0.0).then(|| part / all);
        Summary {
            calls: self.calls.len(),
            p50_ms: percentile(&mut times, 0.5),
            p95_ms: percentile(&mut times, 0.95),
            error_share: share(total - answered.len() as f64, total),
            cached_share: share(cached, prompt),
            spend: self.calls.iter().map(|call| call.spend).sum(),
            eval_share: share(passed as f64, self.evals.len() as f64),
            rung_shares: (0..rungs)
                .map(|rung| of_rung(rung) as f64 / answered.len() as f64)
                .collect(),
        }
    }

    /// The meters beyond their limits, in triage order.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a window holds few calls")]
    pub fn alerts(&self) -> Vec<Alert> {
        let now = self.summary();
        let limits = &self.limits;
        let above = |value: Option<f64>, limit: Option<f64>| value > limit && limit.is_some();
        let below = |value: Option<f64>, limit: Option<f64>| value.is_some() && value < limit;
        let enough = now.calls >= limits.least && now.calls > 0;
        let fallback = now.rung_shares.first().map(|first| 1.0 - first);
        let mean_spend = (now.calls > 0).then(|| now.spend / now.calls as f64);
        let all = [
            (
                Alert::ErrorShare,
                enough && above(now.error_share, limits.error_share),
            ),
            (Alert::P95, enough && above(now.p95_ms, limits.p95_ms)),
            (Alert::EvalShare, below(now.eval_share, limits.eval_share)),
            (
                Alert::CachedShare,
                enough && below(now.cached_share, limits.cached_share),
            ),
            (Alert::Spend, enough && above(mean_spend, limits.spend)),
            (
                Alert::FallbackShare,
                enough && above(fallback, limits.fallback_share),
            ),
        ];
        let tripped = all.into_iter().filter(|(_, is_tripped)| *is_tripped);
        tripped.map(|(alert, _)| alert).collect()
    }
}

/// The smallest value that at least this share of all values does not exceed.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a rank lies between 0 and the number of values"
)]
pub(super) fn percentile(values: &mut [f64], share: f64) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let rank = (values.len() as f64 * share).ceil() as usize;
    values.get(rank.saturating_sub(1)).copied()
}
