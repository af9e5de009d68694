//! What a timeline says about the way that bytes took.

use serde::Serialize;

use super::spread::percentile;
use super::summary::BURST_GAP_MS;
use super::timeline::{Read, TimedEvent, Timeline, gaps};

/// Numbers that a diagnosis rests on; absent where there is nothing to measure.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Evidence {
    /// Events with text.
    pub text_events: usize,
    /// Reads in which such an event ended.
    pub text_reads: usize,
    /// Median and longest gap between events with text, in milliseconds.
    pub median_gap_ms: Option<f64>,
    /// The longest.
    pub largest_gap_ms: Option<f64>,
    /// Groups of reads that are less than 3 ms apart.
    pub bursts: usize,
    /// Median of their bytes, without the last of several.
    pub burst_bytes: Option<f64>,
    /// Whether these are of one size, within 2 %.
    pub equal_bursts: bool,
    /// Share of the bursts but the last behind which an event was unfinished.
    pub within_event_share: Option<f64>,
    /// From the request to the first text.
    pub silence_ms: Option<f64>,
    /// From the headers to the first byte of the body.
    pub headers_ahead_ms: Option<f64>,
    /// From the last read to the end.
    pub last_silence_ms: Option<f64>,
    /// The longest gap between reads.
    pub largest_read_gap_ms: Option<f64>,
    /// Bytes of the body.
    pub body_bytes: usize,
    /// A rate at which every read took as long as its bytes.
    pub constant_bytes_per_second: Option<f64>,
    /// Whether gaps between reads are alike, within 10 %.
    pub steady: bool,
    /// How long the generator took from its first to its last token, by its own stamps.
    pub generation_ms: Option<f64>,
    /// From its first token to the first text.
    pub first_lag_ms: Option<f64>,
    /// From its last token to the last text.
    pub last_lag_ms: Option<f64>,
}

impl Evidence {
    pub(super) fn of(seen: &Timeline) -> Self {
        let times: Vec<f64> = seen.texts().map(|event| event.at_ms).collect();
        let text_gaps = gaps(&times);
        let read_times: Vec<f64> = seen.reads.iter().map(|read| read.at_ms).collect();
        let read_gaps = gaps(&read_times);
        let bursts = bursts(&seen.reads);
        let full = bursts.get(..bursts.len().saturating_sub(1).max(1));
        let full = full.unwrap_or_default();
        let sizes: Vec<f64> = full.iter().map(|burst| burst.bytes).collect();
        let burst_bytes = percentile(&sizes, 0.5);
        let last_read = read_times.last();
        let lag = |made: Option<f64>, shown: Option<f64>| Some(shown? - made?);
        Self {
            text_events: times.len(),
            text_reads: distinct(seen.texts()),
            median_gap_ms: percentile(&text_gaps, 0.5),
            largest_gap_ms: percentile(&text_gaps, 1.0),
            bursts: bursts.len(),
            burst_bytes,
            equal_bursts: burst_bytes
                .is_some_and(|of| sizes.iter().all(|size| (size - of).abs() <= of * 0.02)),
            within_event_share: share(full, bursts.len()),
            silence_ms: lag(Some(seen.request_ms), seen.first_text_ms()),
            headers_ahead_ms: lag(seen.headers_ms, read_times.first().copied()),
            last_silence_ms: lag(last_read.copied(), seen.closed_ms),
            largest_read_gap_ms: percentile(&read_gaps, 1.0),
            body_bytes: seen.body_bytes(),
            constant_bytes_per_second: constant_rate(&seen.reads, &read_gaps),
            steady: read_gaps.len() >= MIN_READS && deviation(&read_gaps) <= 0.1,
            generation_ms: lag(seen.first_token_ms, seen.generation_end_ms),
            first_lag_ms: lag(seen.first_token_ms, seen.first_text_ms()),
            last_lag_ms: lag(seen.generation_end_ms, seen.last_text_ms()),
        }
    }

    /// How much later than the first the last text is, compared with the generator's stamps.
    pub(super) fn lag_growth_ms(&self) -> Option<f64> {
        Some(self.last_lag_ms? - self.first_lag_ms?)
    }

    /// Events with text in each read that has any.
    pub(super) fn packing(&self) -> f64 {
        ratio(self.text_events, self.text_reads)
    }
}

/// Fewer reads tell nothing of a rate.
const MIN_READS: usize = 8;

struct Burst {
    bytes: f64,
    within_event: bool,
}

fn bursts(reads: &[Read]) -> Vec<Burst> {
    let chunks = reads.chunk_by(|a, b| b.at_ms - a.at_ms < BURST_GAP_MS);
    let burst = |chunk: &[Read]| Burst {
        bytes: as_float(chunk.iter().map(|read| read.bytes).sum()),
        within_event: chunk.last().is_some_and(|read| read.within_event),
    };
    chunks.map(burst).collect()
}

fn share(full: &[Burst], bursts: usize) -> Option<f64> {
    let within = full.iter().filter(|burst| burst.within_event).count();
    (bursts > 1).then(|| ratio(within, full.len()))
}

/// Moments at which events came.
fn distinct<'a>(events: impl Iterator<Item = &'a TimedEvent>) -> usize {
    let mut last = f64::NAN;
    let is_new = |event: &&TimedEvent| {
        let is_new = event.at_ms != last;
        last = event.at_ms;
        is_new
    };
    events.filter(is_new).count()
}

/// The rate of a path that is never idle: each read comes as long after the one before as its
/// bytes take. Where all reads are of one size nothing can be told.
fn constant_rate(reads: &[Read], read_gaps: &[f64]) -> Option<f64> {
    let bytes: Vec<f64> = reads
        .iter()
        .skip(1)
        .map(|read| as_float(read.bytes))
        .collect();
    let (all_bytes, all_ms): (f64, f64) = (bytes.iter().sum(), read_gaps.iter().sum());
    if bytes.len() < MIN_READS || all_bytes <= 0.0 || all_ms <= 0.0 {
        return None;
    }
    let ms_per_byte = all_ms / all_bytes;
    let errors = bytes.iter().zip(read_gaps);
    let errors = errors.map(|(bytes, ms)| (ms - bytes * ms_per_byte).abs());
    let error = errors.sum::<f64>() / all_ms;
    let variety = deviation(&bytes);
    // Gaps of a generator's own know nothing of sizes: the error is then at least the variety.
    let fits = variety >= 0.05 && error <= 0.1 && error <= variety * 0.4;
    fits.then_some(1000.0 / ms_per_byte)
}

/// Mean distance from the mean, as a share of it.
fn deviation(values: &[f64]) -> f64 {
    let mean = values.iter().sum::<f64>() / as_float(values.len());
    let distances = values.iter().map(|value| (value - mean).abs());
    distances.sum::<f64>() / as_float(values.len()) / mean
}

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
fn as_float(count: usize) -> f64 {
    count as f64
}

fn ratio(part: usize, whole: usize) -> f64 {
    as_float(part) / as_float(whole.max(1))
}
