//! What the benchmarks share: the least of several runs, and lines of a table.
//!
//! A plain harness rather than criterion's: results are rates (multiplications, tokens, bytes)
//! that are compared with each other and with a device's, and each is checked before it is timed.
#![allow(dead_code, reason = "each benchmark uses a part of it")]

use std::fmt::Display;
use std::io::Write;
use std::time::Instant;

/// Runs of each.
const RUNS: usize = 9;

/// Seconds of the shortest of several runs, since a busy machine only ever lengthens them. A run
/// before them, which is not counted, fetches code and data.
pub(crate) fn least_seconds(mut work: impl FnMut()) -> f64 {
    work();
    let runs = (0..RUNS).map(|_| {
        let start = Instant::now();
        work();
        start.elapsed().as_secs_f64()
    });
    runs.fold(f64::INFINITY, f64::min)
}

/// A line of words and rates on stdout.
pub(crate) fn line(name: &str, cells: &[&dyn Display]) {
    let mut text = format!("{name:<28}");
    for cell in cells {
        text += &format!(" {cell:>14}");
    }
    // A reader that has gone away wants no more lines.
    let _ = writeln!(std::io::stdout(), "{text}");
}

/// Two digits behind the point.
pub(crate) fn rate(value: f64) -> String {
    format!("{value:.2}")
}
