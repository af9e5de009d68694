//! Many exchanges at once.
//!
//! Exchanges that are not complete are counted and kept out of every time.

use serde::{Serialize, Serializer};

use super::figures::{FIGURES, per_second};
use super::spread::{Spread, percentile};
use super::timeline::{Outcome, Timeline};

/// A stream whose median gap is below this arrives in bursts, in milliseconds.
pub const BURST_GAP_MS: f64 = 3.0;

/// Counts, rates and spreads of exchanges.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// All of them.
    pub calls: usize,
    /// Whole ones.
    pub complete: usize,
    /// Clean ends without the marker.
    pub incomplete: usize,
    /// Errors.
    pub failed: usize,
    /// Those still under way.
    pub open: usize,
    /// Complete ones among those that have ended.
    pub completion_rate: Option<f64>,
    /// Share of the complete streams whose median gap between texts is below
    /// [`BURST_GAP_MS`].
    pub burst_share: Option<f64>,
    /// Tokens of the complete exchanges.
    pub tokens: usize,
    /// From the first request to the last end of the complete exchanges, in milliseconds.
    pub wall_ms: Option<f64>,
    /// Tokens a second over that time, of all complete exchanges together (vLLM, genai-perf).
    pub throughput: Option<f64>,
    /// Each of [`FIGURES`] that was measured.
    #[serde(serialize_with = "as_map")]
    pub figures: Vec<(&'static str, Spread)>,
}

fn as_map<S: Serializer>(
    figures: &[(&'static str, Spread)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(figures.iter().map(|(name, spread)| (name, spread)))
}

/// Sums up exchanges.
#[must_use]
pub fn summarize(timelines: &[Timeline]) -> Summary {
    let count = |outcome| {
        let of = timelines.iter().filter(|seen| seen.outcome == outcome);
        of.count()
    };
    let complete: Vec<&Timeline> = timelines
        .iter()
        .filter(|seen| seen.outcome == Outcome::Complete)
        .collect();
    let open = count(Outcome::Open);
    let tokens = complete.iter().map(|seen| seen.tokens());
    let tokens = tokens.fold(0, usize::saturating_add);
    let wall_ms = wall_ms(&complete);
    Summary {
        calls: timelines.len(),
        complete: complete.len(),
        incomplete: count(Outcome::Incomplete),
        failed: count(Outcome::Failed),
        open,
        completion_rate: share(complete.len(), timelines.len() - open),
        burst_share: burst_share(&complete),
        tokens,
        wall_ms,
        throughput: wall_ms
            .filter(|ms| *ms > 0.0)
            .map(|ms| per_second(tokens, ms)),
        figures: spreads(&complete),
    }
}

fn wall_ms(complete: &[&Timeline]) -> Option<f64> {
    let starts = complete.iter().map(|seen| seen.request_ms);
    let ends = complete.iter().filter_map(|seen| seen.closed_ms);
    Some(ends.reduce(f64::max)? - starts.reduce(f64::min)?)
}

fn burst_share(complete: &[&Timeline]) -> Option<f64> {
    let medians: Vec<f64> = complete
        .iter()
        .filter(|seen| seen.is_stream)
        .filter_map(|seen| percentile(&seen.text_gaps(), 0.5))
        .collect();
    let bursts = medians.iter().filter(|gap| **gap < BURST_GAP_MS).count();
    share(bursts, medians.len())
}

fn spreads(complete: &[&Timeline]) -> Vec<(&'static str, Spread)> {
    let figures: Vec<_> = complete.iter().filter_map(|seen| seen.figures()).collect();
    let samples = |name: &str| -> Vec<f64> {
        if name == "itl.events" {
            return figures
                .iter()
                .flat_map(|of| of.itl_events.clone())
                .collect();
        }
        figures.iter().filter_map(|of| of.get(name)).collect()
    };
    FIGURES
        .iter()
        .filter_map(|(name, _)| Some((*name, Spread::of(&samples(name))?)))
        .collect()
}

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
fn share(part: usize, whole: usize) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

#[cfg(test)]
mod tests {
    use super::super::timeline::TimedEvent;
    use super::*;

    fn call(start_ms: f64, first_ms: f64, gap_ms: f64, outcome: Outcome) -> Timeline {
        let events: Vec<_> = (0..10)
            .map(|n| TimedEvent {
                at_ms: start_ms + first_ms + f64::from(n) * gap_ms,
                tokens: 1,
                text_bytes: 4,
                has_choices: true,
                ..TimedEvent::default()
            })
            .collect();
        Timeline {
            request_ms: start_ms,
            is_stream: true,
            closed_ms: events.last().map(|event| event.at_ms),
            events,
            outcome,
            ..Timeline::default()
        }
    }

    #[test]
    fn incomplete_calls_are_counted_and_are_no_times() {
        let calls = [
            call(0.0, 100.0, 30.0, Outcome::Complete),
            call(50.0, 120.0, 1.0, Outcome::Complete),
            call(0.0, 1.0, 1.0, Outcome::Incomplete),
            call(0.0, 1.0, 1.0, Outcome::Failed),
            call(0.0, 1.0, 1.0, Outcome::Open),
        ];
        let summary = summarize(&calls);
        assert_eq!((summary.calls, summary.complete), (5, 2));
        assert_eq!(
            (summary.incomplete, summary.failed, summary.open),
            (1, 1, 1)
        );
        assert_eq!(summary.completion_rate, Some(0.5));
        assert_eq!(summary.burst_share, Some(0.5));
        let of = |name| summary.figures.iter().find(|(at, _)| *at == name);
        let first = of("ttft.first_text").unwrap().1;
        assert_eq!((first.count, first.min, first.max), (2, 100.0, 120.0));
        assert_eq!(of("itl.events").unwrap().1.count, 18);
        assert!(of("ttft.first_paint").is_none());
        // 20 tokens from 0 to 370.
        assert_eq!(summary.wall_ms, Some(370.0));
        assert_eq!(summary.throughput, Some(20.0 * 1000.0 / 370.0));
    }

    #[test]
    fn nothing_measured_gives_no_figure() {
        let summary = summarize(&[]);
        assert_eq!((summary.completion_rate, summary.throughput), (None, None));
        assert!(summary.figures.is_empty());
    }
}
