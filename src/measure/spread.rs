//! Percentiles of samples, and how far they can be trusted.

use serde::Serialize;

/// How samples lie.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Spread {
    /// How many.
    pub count: usize,
    /// Their sum over their count.
    pub mean: f64,
    /// The smallest.
    pub min: f64,
    /// The median.
    pub p50: f64,
    /// Nine in ten lie below.
    pub p90: f64,
    /// 19 in 20 lie below.
    pub p95: f64,
    /// 99 in 100 lie below.
    pub p99: f64,
    /// The largest.
    pub max: f64,
    /// 95 % confidence interval of the median; `None` where there are too few samples.
    pub p50_interval: Option<(f64, f64)>,
    /// The same of the 95th percentile.
    pub p95_interval: Option<(f64, f64)>,
}

impl Spread {
    /// Of samples in any order; `None` without any, or where one is no number.
    #[must_use]
    pub fn of(samples: &[f64]) -> Option<Self> {
        let sorted = sort(samples)?;
        #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
        let mean = sorted.iter().sum::<f64>() / sorted.len() as f64;
        Some(Self {
            count: sorted.len(),
            mean,
            min: *sorted.first()?,
            p50: at_share(&sorted, 0.5)?,
            p90: at_share(&sorted, 0.9)?,
            p95: at_share(&sorted, 0.95)?,
            p99: at_share(&sorted, 0.99)?,
            max: *sorted.last()?,
            p50_interval: interval(&sorted, 0.5),
            p95_interval: interval(&sorted, 0.95),
        })
    }
}

/// The value below which `share` (0 to 1) of the samples lie, interpolated between neighbours;
/// `None` without samples, for a sample that is no number, or a share outside 0 to 1.
#[must_use]
pub fn percentile(samples: &[f64], share: f64) -> Option<f64> {
    at_share(&sort(samples)?, share)
}

fn sort(samples: &[f64]) -> Option<Vec<f64>> {
    if samples.iter().any(|value| value.is_nan()) {
        return None;
    }
    let mut sorted = samples.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    Some(sorted)
}

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
fn at_share(sorted: &[f64], share: f64) -> Option<f64> {
    if !(0.0..=1.0).contains(&share) {
        return None;
    }
    let place = share * sorted.len().checked_sub(1)? as f64;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a place lies within the samples"
    )]
    let (below, above) = (place.floor() as usize, place.ceil() as usize);
    let (low, high) = (*sorted.get(below)?, *sorted.get(above)?);
    Some(low + (high - low) * place.fract())
}

/// Samples up to here have exact intervals.
const MOST_EXACT: usize = 500;

/// A 95 % confidence interval of the value at `share`, between two of the samples: how many
/// samples lie below that value has a binomial distribution, whatever theirs is. `None` where
/// the samples are too few to bound it on both sides.
fn interval(sorted: &[f64], share: f64) -> Option<(f64, f64)> {
    let (low, high) = if sorted.len() <= MOST_EXACT {
        exact_ranks(sorted.len(), share)?
    } else {
        normal_ranks(sorted.len(), share)
    };
    Some((*sorted.get(low)?, *sorted.get(high)?))
}

/// Places of the bounds: at most 2.5 % lies outside on either side.
#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
fn exact_ranks(count: usize, share: f64) -> Option<(usize, usize)> {
    let mut chance = (1.0 - share).powi(i32::try_from(count).ok()?);
    // The powers of a share near 1 are too small for the sum from below: it is turned around.
    if chance < 1e-280 {
        let (low, high) = exact_ranks(count, 1.0 - share)?;
        return Some((count - 1 - high, count - 1 - low));
    }
    let (mut below, mut low, mut high) = (0.0, None, None);
    for rank in 0..count {
        // `below`: the chance that fewer than `rank` samples lie below the value.
        if below <= 0.025 && below + chance > 0.025 {
            low = rank.checked_sub(1);
        }
        below += chance;
        if below >= 0.975 && high.is_none() {
            high = Some(rank);
        }
        chance *= (count - rank) as f64 / (rank + 1) as f64 * share / (1.0 - share);
    }
    Some((low?, high?))
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "ranks lie within the samples"
)]
fn normal_ranks(count: usize, share: f64) -> (usize, usize) {
    let (middle, width) = (
        count as f64 * share,
        1.96 * (count as f64 * share * (1.0 - share)).sqrt(),
    );
    let low = (middle - width).floor().max(0.0) as usize;
    let high = (middle + width).ceil() as usize;
    (low.saturating_sub(1), high.min(count - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_lie_between_neighbours() {
        let samples = [4.0, 1.0, 3.0, 2.0];
        assert_eq!(percentile(&samples, 0.5), Some(2.5));
        assert_eq!(percentile(&samples, 0.0), Some(1.0));
        assert_eq!(percentile(&samples, 1.0), Some(4.0));
        assert_eq!(percentile(&[], 0.5), None);
        assert_eq!(percentile(&[f64::NAN], 0.5), None);
        assert_eq!(percentile(&samples, 1.5), None);
    }

    #[test]
    fn a_spread_tells_what_its_samples_are() {
        let samples: Vec<f64> = (1..=101).rev().map(f64::from).collect();
        let spread = Spread::of(&samples).unwrap();
        assert_eq!((spread.count, spread.min, spread.max), (101, 1.0, 101.0));
        assert_eq!((spread.mean, spread.p50, spread.p90), (51.0, 51.0, 91.0));
        assert_eq!((spread.p95, spread.p99), (96.0, 100.0));
        assert_eq!(Spread::of(&[]), None);
    }

    /// Ranks from tables of the sign test: 20 samples, the 6th to the 15th; 10, the 2nd to the
    /// 9th; 6, the first to the last; fewer bound nothing.
    #[test]
    fn intervals_of_the_median_are_those_of_the_sign_test() {
        let ranks = |count: u32| {
            let samples: Vec<f64> = (1..=count).map(f64::from).collect();
            Spread::of(&samples).unwrap().p50_interval
        };
        assert_eq!(ranks(20), Some((6.0, 15.0)));
        assert_eq!(ranks(10), Some((2.0, 9.0)));
        assert_eq!(ranks(6), Some((1.0, 6.0)));
        assert_eq!(ranks(5), None);
    }

    #[test]
    fn intervals_hold_what_they_promise_and_no_more() {
        // Uniform samples by a fixed generator: the median is 0.5, the 95th percentile 0.95.
        let mut state = 7_u64;
        let mut next = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 11) as f64 / (1_u64 << 53) as f64
        };
        for count in [60, 137, 499, 700] {
            let (mut held_median, mut held_high) = (0, 0);
            for _ in 0..1000 {
                let samples: Vec<f64> = (0..count).map(|_| next()).collect();
                let spread = Spread::of(&samples).unwrap();
                let holds = |interval: Option<(f64, f64)>, value: f64| {
                    interval.is_none_or(|(low, high)| low <= value && value <= high)
                };
                held_median += usize::from(holds(spread.p50_interval, 0.5));
                held_high += usize::from(holds(spread.p95_interval, 0.95));
            }
            assert!((935..=990).contains(&held_median), "{count}: {held_median}");
            assert!((935..=1000).contains(&held_high), "{count}: {held_high}");
        }
    }
}
