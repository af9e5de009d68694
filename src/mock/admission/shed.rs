//! Refusing the free tier before waits grow.

use crate::mock::scenario::{self, Tier};

/// Watches arrivals and refuses the share of free ones that is above the target.
///
/// Refusals are spread evenly: each free arrival adds the share to be refused to a credit, and
/// the one that completes a unit is refused. No draw is needed, and no burst of refusals comes.
#[derive(Clone, Debug)]
pub(super) struct Shed {
    target_load: f64,
    service_ms: f64,
    window_ms: f64,
    /// Arrivals, each weighted by `exp(−age ÷ window)`.
    paid: f64,
    free: f64,
    seen_at_ms: f64,
    started_at_ms: Option<f64>,
    credit: f64,
}

impl Shed {
    pub(super) fn new(settings: &scenario::Shed) -> Self {
        Self {
            target_load: settings.target_load.get(),
            service_ms: settings.service_ms.get(),
            window_ms: settings.window_ms.get().max(1.0),
            paid: 0.0,
            free: 0.0,
            seen_at_ms: 0.0,
            started_at_ms: None,
            credit: 0.0,
        }
    }

    /// Counts an arrival and says whether it is refused. `seats` are those that work now.
    pub(super) fn refuses(&mut self, now_ms: f64, tier: Tier, seats: f64) -> bool {
        let decay = (-(now_ms - self.seen_at_ms).max(0.0) / self.window_ms).exp();
        self.paid *= decay;
        self.free *= decay;
        self.seen_at_ms = self.seen_at_ms.max(now_ms);
        match tier {
            Tier::Paid => self.paid += 1.0,
            Tier::Free => self.free += 1.0,
        }
        let started_at_ms = *self.started_at_ms.get_or_insert(now_ms);
        if tier == Tier::Paid {
            return false;
        }
        // Before a window has passed, the weights add up to less than the window itself.
        let age = (now_ms - started_at_ms) / self.window_ms;
        let span_ms = self.window_ms * (1.0 - (-age).exp());
        if span_ms <= 0.0 {
            return false;
        }
        let load = |arrivals: f64| arrivals / span_ms * self.service_ms / seats.max(1e-9);
        let excess = load(self.paid + self.free) - self.target_load;
        self.credit += (excess / load(self.free)).clamp(0.0, 1.0);
        if self.credit < 1.0 {
            return false;
        }
        self.credit -= 1.0;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Share of free arrivals refused, once the averages have settled.
    fn refused(paid_per_s: f64, free_per_s: f64) -> f64 {
        let settings = r#"{"targetLoad":0.8,"serviceMs":10,"windowMs":2000}"#;
        let mut shed = Shed::new(&serde_json::from_str(settings).expect("it is valid"));
        let (mut refused, mut arrived) = (0.0, 0.0);
        let (mut paid, mut free) = (0.0, 0.0);
        for ms in 0..60_000 {
            let now = f64::from(ms);
            paid += paid_per_s / 1000.0;
            free += free_per_s / 1000.0;
            while paid >= 1.0 {
                paid -= 1.0;
                assert!(!shed.refuses(now, Tier::Paid, 1.0), "paid is never shed");
            }
            while free >= 1.0 {
                free -= 1.0;
                let is_refused = shed.refuses(now, Tier::Free, 1.0);
                if now >= 20_000.0 {
                    arrived += 1.0;
                    refused += f64::from(u8::from(is_refused));
                }
            }
        }
        refused / arrived
    }

    #[test]
    fn the_free_tier_alone_gives_up_what_is_above_the_target() {
        // 80 a second are the target of one seat at 10 ms.
        assert!(refused(50.0, 20.0) < 0.001);
        assert!((refused(50.0, 50.0) - 0.4).abs() < 0.01);
        assert!((refused(120.0, 40.0) - 1.0).abs() < 0.01);
    }
}
