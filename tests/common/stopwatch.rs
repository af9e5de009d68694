//! How long work takes, whatever else the machine does.

use std::time::{Duration, Instant};

/// Processor time of the thread where the system tells it (Linux), else wall time.
pub(crate) struct Stopwatch {
    wall: Instant,
    cpu_ns: Option<u64>,
}

fn cpu_ns() -> Option<u64> {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    stat.split_whitespace().next()?.parse().ok()
}

impl Stopwatch {
    pub(crate) fn start() -> Self {
        Self {
            wall: Instant::now(),
            cpu_ns: cpu_ns(),
        }
    }

    pub(crate) fn elapsed(&self) -> Duration {
        match (self.cpu_ns, cpu_ns()) {
            (Some(start), Some(end)) => Duration::from_nanos(end.saturating_sub(start)),
            _ => self.wall.elapsed(),
        }
    }
}
