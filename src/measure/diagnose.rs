//! What is wrong with a stream, and where on its way.
//!
//! A hop is named only where nothing else on the list would look the same. `hops` then has one
//! entry; otherwise it has all that fit. What several look like:
//!
//! | seen                                            | fits                                  |
//! |-------------------------------------------------|---------------------------------------|
//! | headers late, and everything at the end         | CDN, framework; if short also proxy   |
//! |                                                 | and compression                       |
//! | headers early, everything at the end            | client; if short also proxy and       |
//! |                                                 | compression                           |
//! | bursts of one size, or cut within events        | proxy, compression                    |
//! | every read takes as long as its bytes           | narrow path                           |
//! | no end, after a silence unlike any before       | idle timeout                          |
//!
//! Compression is left out where the headers show that there is none. Who else leaves nothing in
//! the headers may be there even so. A narrow path whose events are all of one size looks like a
//! slow generator, unless the generator's own stamps are there.

use serde::Serialize;

use super::evidence::Evidence;
use super::timeline::{Failure, Outcome, Timeline};

/// What became of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Text came as it was made.
    Healthy,
    /// Something held it back.
    Buffered,
    /// It stopped for long, and did not come in bursts.
    Stalled,
    /// The body broke, or ended within an event.
    Cut,
    /// A clean end without the marker.
    Incomplete,
    /// The server said that it failed.
    Failed,
    /// Nothing can be told.
    Unclear,
}

/// What turns a stream back into one reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Hop {
    /// A reverse proxy that buffers.
    Proxy,
    /// Compression that waits for enough bytes.
    Compression,
    /// A cache or load balancer that passes whole responses.
    Cdn,
    /// A server framework that holds the body until its handler returns.
    Framework,
    /// A program that reads the whole body before it looks at it.
    Client,
    /// A timeout of quiet connections.
    Idle,
    /// A path with fewer bytes a second than the generator makes.
    Narrow,
}

/// A judgement and what it rests on.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Diagnosis {
    /// What became of the stream.
    pub verdict: Verdict,
    /// The hop, where only one fits.
    pub hop: Option<Hop>,
    /// All that fit.
    pub hops: Vec<Hop>,
    /// The reason as a sentence.
    pub because: &'static str,
    /// The numbers behind it.
    pub evidence: Evidence,
}

/// A stream whose buffers are larger than this is passed on in several.
const MOST_BUFFERED_BYTES: usize = 64 << 10;

/// Fewer events are no stream.
const MIN_EVENTS: usize = 4;

/// A gap that people notice as a stop.
const STALL_MS: f64 = 500.0;

type Finding = (Verdict, Vec<Hop>, &'static str);

/// Judges one exchange.
#[must_use]
pub fn diagnose(seen: &Timeline) -> Diagnosis {
    let evidence = Evidence::of(seen);
    let (verdict, hops, because) = match (seen.outcome, seen.failure) {
        (Outcome::Open, _) => so_far(seen, &evidence),
        (Outcome::Failed, Some(Failure::Status | Failure::Event)) => {
            (Verdict::Failed, Vec::new(), "The server said so.")
        }
        (Outcome::Failed, Some(Failure::Aborted)) => aborted(&evidence),
        (Outcome::Failed, _) => {
            let (hops, because) = unfinished(&evidence);
            (Verdict::Cut, hops, because)
        }
        (Outcome::Incomplete, _) => {
            let (hops, because) = unfinished(&evidence);
            (Verdict::Incomplete, hops, because)
        }
        (Outcome::Complete, _) if !seen.is_stream => {
            unclear("One whole body: there is no stream to judge.")
        }
        (Outcome::Complete, _) => complete(seen, &evidence),
    };
    Diagnosis {
        verdict,
        hop: single(&hops),
        hops,
        because,
        evidence,
    }
}

pub(super) fn single(hops: &[Hop]) -> Option<Hop> {
    match hops {
        [hop] => Some(*hop),
        _ => None,
    }
}

fn unclear(because: &'static str) -> Finding {
    (Verdict::Unclear, Vec::new(), because)
}

/// Whether the end came after a silence that is unlike the gaps before it.
fn ends_in_silence(evidence: &Evidence, least_ms: f64) -> bool {
    let gap_ms = evidence.largest_read_gap_ms.unwrap_or(f64::INFINITY);
    let last_ms = evidence.last_silence_ms.unwrap_or_default();
    evidence.text_events >= MIN_EVENTS && last_ms > 3.0 * gap_ms && last_ms >= least_ms
}

fn unfinished(evidence: &Evidence) -> (Vec<Hop>, &'static str) {
    if ends_in_silence(evidence, 50.0) {
        let because = "The connection was closed after a silence that is unlike any before.";
        return (vec![Hop::Idle], because);
    }
    (Vec::new(), "It ended before the terminal marker came.")
}

fn aborted(evidence: &Evidence) -> Finding {
    if ends_in_silence(evidence, STALL_MS) {
        let because = "Nothing had come for long when the caller gave up.";
        return (Verdict::Stalled, Vec::new(), because);
    }
    unclear("The caller stopped it.")
}

/// A stream that goes on, by what has come of it. What one burst was, only its end tells.
fn so_far(seen: &Timeline, evidence: &Evidence) -> Finding {
    if !seen.is_stream || evidence.text_events < MIN_EVENTS || evidence.bursts < 2 {
        return unclear("It is still under way.");
    }
    complete(seen, evidence)
}

fn complete(seen: &Timeline, evidence: &Evidence) -> Finding {
    if evidence.text_events < MIN_EVENTS {
        return unclear("There are too few events to judge.");
    }
    let packing = evidence.packing();
    let breaks_events = evidence
        .within_event_share
        .is_some_and(|share| share >= 0.5);
    if packing >= 4.0 || (packing >= 2.0 && breaks_events) {
        return if evidence.bursts == 1 {
            at_once(seen, evidence)
        } else {
            in_bursts(seen, evidence, breaks_events)
        };
    }
    if packing >= 2.0 {
        return unclear("Events come in small groups, which many things can do.");
    }
    flows(evidence)
}

/// Whether compression can be the reason.
fn may_compress(seen: &Timeline) -> bool {
    seen.marks.is_none_or(|marks| marks.compression)
}

/// Everything came together.
fn at_once(seen: &Timeline, evidence: &Evidence) -> Finding {
    let events = evidence.text_events;
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
    let fast_ms = (events as f64 * super::BURST_GAP_MS).max(100.0);
    if let (Some(made_ms), Some(lag_ms)) = (evidence.generation_ms, evidence.first_lag_ms) {
        if made_ms < fast_ms {
            return unclear("The generator made it all at once.");
        }
        if lag_ms < made_ms * 0.8 {
            return unclear("Text came at once, yet before the generator's end.");
        }
        if lag_ms >= made_ms + (made_ms * 0.5).max(STALL_MS) {
            return unclear("Text came at once, long after the generator's end.");
        }
    }
    let silence_ms = evidence.silence_ms.unwrap_or_default();
    if silence_ms < fast_ms {
        return unclear("Text came at once, and too early to call that a wait.");
    }
    let ahead_ms = evidence.headers_ahead_ms.unwrap_or_default();
    // Headers that come promptly were held by nobody.
    let late = ahead_ms <= silence_ms * 0.9;
    let early = ahead_ms >= (silence_ms * 0.05).max(5.0);
    let mut hops = Vec::new();
    if late {
        hops.extend([Hop::Cdn, Hop::Framework]);
    }
    if early {
        hops.push(Hop::Client);
    }
    if evidence.body_bytes <= MOST_BUFFERED_BYTES {
        hops.push(Hop::Proxy);
        hops.extend(may_compress(seen).then_some(Hop::Compression));
    }
    let because = if early {
        "A silence behind the headers, then all text at once."
    } else {
        "A silence, then headers and all text at once."
    };
    (Verdict::Buffered, hops, because)
}

/// Several groups of many events.
fn in_bursts(seen: &Timeline, evidence: &Evidence, breaks_events: bool) -> Finding {
    let fills_buffers = breaks_events || (evidence.equal_bursts && evidence.bursts > 2);
    if !fills_buffers {
        let because = "Whole events come in groups of different sizes, as busy programs read them.";
        return unclear(because);
    }
    let mut hops = vec![Hop::Proxy];
    hops.extend(may_compress(seen).then_some(Hop::Compression));
    let because = "Silences, then bursts that fill buffers.";
    (Verdict::Buffered, hops, because)
}

/// Events come one by one.
fn flows(evidence: &Evidence) -> Finding {
    let growth_ms = evidence.lag_growth_ms();
    let made_ms = evidence.generation_ms.unwrap_or_default();
    let grows = growth_ms.map(|ms| ms >= 50.0 && ms >= made_ms * 0.2);
    let fits = evidence.constant_bytes_per_second.is_some();
    let narrow = "Each read takes as long as its bytes, longer than the generator.";
    match (grows, fits) {
        (Some(true), fits) if fits || evidence.steady => {
            return (Verdict::Buffered, vec![Hop::Narrow], narrow);
        }
        (Some(true), _) => {
            let because = "Text falls behind the generator more and more.";
            return (Verdict::Unclear, vec![Hop::Narrow, Hop::Client], because);
        }
        (None, true) => {
            let narrow = "Each read takes as long as its bytes.";
            return (Verdict::Buffered, vec![Hop::Narrow], narrow);
        }
        _ => {}
    }
    let largest_ms = evidence.largest_gap_ms.unwrap_or_default();
    let median_ms = evidence.median_gap_ms.unwrap_or_default();
    if largest_ms >= STALL_MS && largest_ms >= 8.0 * median_ms {
        let because = "A long gap, after which events come one by one again.";
        return (Verdict::Stalled, Vec::new(), because);
    }
    (Verdict::Healthy, Vec::new(), "Events come one by one.")
}
