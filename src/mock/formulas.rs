//! The arithmetic behind a scenario, in closed form: what a run of it should come to.

/// Time from request to the end of a reply of `tokens` tokens, in ms: the first one at
/// `ttft_ms`, the rest one each `token_ms`.
///
/// `TTFT + (n − 1) × d`
#[must_use]
pub fn reply_ms(tokens: u64, ttft_ms: f64, token_ms: f64) -> f64 {
    if tokens == 0 {
        return 0.0;
    }
    ttft_ms + float(tokens - 1) * token_ms
}

/// What delivery in groups of `batch` tokens adds, in ms: to the first token of a group, and to
/// all of a full group on average.
///
/// `(k − 1) × d` and `d × (k − 1) ÷ 2`
#[must_use]
pub fn batch_delay_ms(batch: u64, token_ms: f64) -> (f64, f64) {
    let first = float(batch.saturating_sub(1)) * token_ms;
    (first, first / 2.0)
}

/// What holding back `window` tokens adds to each, in ms: `w × d`.
#[must_use]
pub fn hold_back_delay_ms(window: u64, token_ms: f64) -> f64 {
    float(window) * token_ms
}

/// Shape of a dense model's cache, unquantized, unshared, with the whole context kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheShape {
    /// Layers.
    pub layers: u64,
    /// Heads of keys and values.
    pub kv_heads: u64,
    /// Size of a head.
    pub head_dim: u64,
    /// Bytes of a number.
    pub number_bytes: u64,
}

impl CacheShape {
    /// Keys and values of `tokens` positions, in bytes; the largest number there is where that
    /// is not enough.
    ///
    /// `2 × layers × tokens × KV heads × head dim × bytes`
    #[must_use]
    pub fn bytes(self, tokens: u64) -> u64 {
        let factors = [
            self.layers,
            tokens,
            self.kv_heads,
            self.head_dim,
            self.number_bytes,
        ];
        factors
            .iter()
            .fold(2, |bytes: u64, factor| bytes.saturating_mul(*factor))
    }
}

/// Time of one step of a server, in ms: all weights and every active cache are read once.
///
/// `(weights + caches) ÷ bandwidth`
#[must_use]
pub fn step_ms(weights_bytes: u64, caches_bytes: u64, bytes_per_second: f64) -> f64 {
    (float(weights_bytes) + float(caches_bytes)) / bytes_per_second * 1000.0
}

/// Mean time before service begins, in ms, at load `load` below 1 of one seat that serves in
/// `service_ms` on average, arrivals and services both without memory. Infinite from 1 on.
///
/// `S × ρ ÷ (1 − ρ)`, Kleinrock, *Queueing Systems* I, 1975, section 3.2.
#[must_use]
pub fn queue_wait_ms(service_ms: f64, load: f64) -> f64 {
    if load >= 1.0 {
        return f64::INFINITY;
    }
    service_ms * load / (1.0 - load)
}

/// Share of arrivals that has to go for the load to come down to `target`: 0 where it is there.
#[must_use]
pub fn shed_share(load: f64, target: f64) -> f64 {
    if load <= target {
        return 0.0;
    }
    (load - target) / load
}

fn float(count: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "counts below 2^53 are exact")]
    let float = count as f64;
    float
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(value: f64, wanted: f64) {
        assert!(
            (value - wanted).abs() < 1e-6 * wanted.abs().max(1.0),
            "{value} {wanted}"
        );
    }

    #[test]
    fn replies_take_the_first_token_and_the_rest() {
        near(reply_ms(300, 500.0, 30.0), 9_470.0);
        near(reply_ms(400, 700.0, 25.0), 10_675.0);
        near(reply_ms(120, 33.0, 33.0), 3_960.0);
        near(reply_ms(0, 500.0, 30.0), 0.0);
        // By rate, as in 0.5 + 500 ÷ 24 s.
        near(reply_ms(501, 500.0, 1000.0 / 24.0) / 1000.0, 21.333_333);
    }

    #[test]
    fn groups_of_four_cost_99_ms_at_first_and_49_5_on_average() {
        assert_eq!(batch_delay_ms(4, 33.0), (99.0, 49.5));
        assert_eq!(batch_delay_ms(1, 33.0), (0.0, 0.0));
        near(hold_back_delay_ms(10, 33.0), 330.0);
    }

    #[test]
    fn a_cache_of_4096_tokens_is_512_mib_and_64_gib_hold_128_of_them() {
        let shape = CacheShape {
            layers: 32,
            kv_heads: 8,
            head_dim: 128,
            number_bytes: 2,
        };
        assert_eq!(shape.bytes(1), 128 << 10);
        assert_eq!(shape.bytes(4096), 536_870_912);
        assert_eq!(shape.bytes(2048), 268_435_456);
        assert_eq!((64 << 30) / shape.bytes(4096), 128);
        assert_eq!((32 << 30) / shape.bytes(2048), 128);
        assert_eq!(shape.bytes(u64::MAX), u64::MAX);
    }

    #[test]
    fn a_step_reads_all_weights_and_every_cache() {
        let caches = 64 * 536_870_912;
        near(step_ms(16_000_000_000, 0, 2e12), 8.0);
        let busy = step_ms(16_000_000_000, caches, 2e12);
        assert!((25.0..25.3).contains(&busy), "{busy}");
    }

    #[test]
    fn waits_grow_like_rho_over_one_minus_rho() {
        assert!((queue_wait_ms(49.7, 0.661) - 97.0).abs() < 0.2);
        let lost = queue_wait_ms(49.7, 0.661 / 0.7);
        assert!((835.0..855.0).contains(&lost), "{lost}");
        assert_eq!(queue_wait_ms(49.7, 1.0), f64::INFINITY);
        near(shed_share(0.9, 0.6), 1.0 / 3.0);
        near(shed_share(0.5, 0.6), 0.0);
    }
}
