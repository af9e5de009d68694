//! A token bucket that is put right after each grant.

use crate::mock::scenario;

/// Tokens of prompt and answer that may still be admitted.
#[derive(Clone, Debug)]
pub(super) struct Bucket {
    burst: f64,
    per_ms: f64,
    level: f64,
    filled_at_ms: f64,
}

impl Bucket {
    pub(super) fn new(settings: &scenario::Bucket) -> Self {
        let burst = settings.burst_tokens.float();
        Self {
            burst,
            per_ms: settings.tokens_per_second.get() * settings.share.get() / 1000.0,
            level: burst,
            filled_at_ms: 0.0,
        }
    }

    /// Takes what a request will cost at most. Taking and looking are one step: of requests at
    /// the same moment exactly those that fit are admitted.
    ///
    /// # Errors
    /// Milliseconds until it would fit; nothing is taken then. What never fits is asked to wait
    /// as long as a full bucket takes.
    pub(super) fn take(&mut self, now_ms: f64, cost: f64) -> Result<(), f64> {
        self.fill(now_ms);
        if cost <= self.level {
            self.level -= cost;
            return Ok(());
        }
        let missing = cost.min(self.burst) - self.level;
        // A bucket that lets nothing through refills in no time that means anything.
        Err(if self.per_ms > 0.0 {
            missing / self.per_ms
        } else {
            MAX_WAIT_MS
        })
    }

    /// A request took `cost` and used `used`: the difference is given back, or still owed.
    pub(super) fn reconcile(&mut self, now_ms: f64, cost: f64, used: f64) {
        self.fill(now_ms);
        self.level = (self.level + cost - used).min(self.burst);
    }

    fn fill(&mut self, now_ms: f64) {
        let elapsed_ms = (now_ms - self.filled_at_ms).max(0.0);
        self.level = (self.level + elapsed_ms * self.per_ms).min(self.burst);
        self.filled_at_ms = self.filled_at_ms.max(now_ms);
    }
}

/// An hour.
const MAX_WAIT_MS: f64 = 3_600_000.0;

#[cfg(test)]
mod tests {
    use super::*;

    fn bucket(json: &str) -> Bucket {
        Bucket::new(&serde_json::from_str(json).expect("it is valid"))
    }

    #[test]
    fn of_arrivals_at_one_moment_those_that_fit_are_admitted() {
        for (burst, arrivals) in [(7, 3), (7, 7), (7, 20), (0, 4)] {
            let json = format!(r#"{{"burstTokens":{burst},"tokensPerSecond":10}}"#);
            let mut bucket = bucket(&json);
            let admitted = (0..arrivals).filter(|_| bucket.take(0.0, 1.0).is_ok());
            assert_eq!(admitted.count(), burst.min(arrivals));
        }
    }

    #[test]
    fn a_refusal_says_when_it_would_fit_and_takes_nothing() {
        let mut bucket = bucket(r#"{"burstTokens":100,"tokensPerSecond":500,"share":0.5}"#);
        assert_eq!(bucket.take(0.0, 100.0), Ok(()));
        assert_eq!(bucket.take(0.0, 10.0), Err(40.0));
        assert_eq!(bucket.take(39.0, 10.0), Err(1.0));
        assert_eq!(bucket.take(40.0, 10.0), Ok(()));
        // More than it ever holds: as long as it takes to be full.
        assert_eq!(bucket.take(40.0, 500.0), Err(400.0));
    }

    #[test]
    fn what_was_not_used_is_given_back_and_what_was_used_beyond_is_owed() {
        let mut bucket = bucket(r#"{"burstTokens":100,"tokensPerSecond":1}"#);
        assert_eq!(bucket.take(0.0, 100.0), Ok(()));
        bucket.reconcile(0.0, 100.0, 30.0);
        assert_eq!(bucket.take(0.0, 70.0), Ok(()));
        bucket.reconcile(0.0, 70.0, 90.0);
        assert!(bucket.take(20_000.0, 1.0).is_err());
        assert_eq!(bucket.take(21_000.0, 1.0), Ok(()));
        // Never more than full.
        bucket.reconcile(1e9, 1000.0, 0.0);
        assert_eq!(bucket.take(1e9, 100.0), Ok(()));
        assert!(bucket.take(1e9, 1.0).is_err());
    }
}
