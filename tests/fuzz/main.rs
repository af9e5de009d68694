//! Seeded random inputs for everything that reads what others wrote: no panic, an end within
//! bounds of time and memory, and what is refused is refused by a typed error.
//!
//! Each test does a fixed number of rounds. `TOKENBROOK_FUZZ_SECONDS=600 cargo test --test fuzz`
//! goes on with further rounds for that long, each test; a round that fails names itself, and
//! `TOKENBROOK_FUZZ_ROUND=123` begins with it.

#[path = "../common/mod.rs"]
mod common;
mod dialect;
mod forms;
mod pieces;
#[path = "../common/stopwatch.rs"]
mod stopwatch;
mod templates;
mod texts;
mod tool_calls;
mod vocabularies;

use std::cell::Cell;
use std::time::{Duration, Instant};

use common::Random;

thread_local! {
    /// Panics of this thread, also those that someone caught.
    static PANICS: Cell<u32> = const { Cell::new(0) };
}

/// What the process may hold, in KiB: the models at hand and what inputs justify.
const MAX_RESIDENT_KIB: u64 = 2 << 20;

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{variable} is a whole number")),
    )
}

/// Names the round that is under way where it fails.
struct Running {
    name: &'static str,
    round: u64,
}

impl Drop for Running {
    #[expect(clippy::print_stderr, reason = "how to repeat a failure")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!(
                "{}: TOKENBROOK_FUZZ_ROUND={} repeats this",
                self.name, self.round
            );
        }
    }
}

/// Runs `body` with the numbers of each round.
fn fuzz(name: &'static str, rounds: u64, mut body: impl FnMut(&mut Random)) {
    static HOOK: std::sync::Once = std::sync::Once::new();
    HOOK.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            PANICS.set(PANICS.get() + 1);
            usual(info);
        }));
    });
    let started = Instant::now();
    let longer = number("TOKENBROOK_FUZZ_SECONDS").map(Duration::from_secs);
    let first = number("TOKENBROOK_FUZZ_ROUND").unwrap_or(0);
    let mut round = first;
    let goes_on = |round: u64| match longer {
        Some(limit) => started.elapsed() < limit,
        None => round < first + rounds,
    };
    while goes_on(round) {
        let running = Running { name, round };
        body(&mut Random(round.wrapping_mul(0x2545_f491_4f6c_dd1d)));
        assert_eq!(PANICS.get(), 0, "something panicked and was caught");
        drop(running);
        round += 1;
    }
    if let Some(resident) = peak_resident_kib() {
        assert!(resident < MAX_RESIDENT_KIB, "{resident} KiB were in use");
    }
}

/// The most memory that the process had so far, where the system tells it.
fn peak_resident_kib() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

#[test]
fn a_panic_that_someone_caught_fails_its_round() {
    let run = std::thread::spawn(|| {
        fuzz("a caught panic", 3, |_| {
            std::panic::catch_unwind(|| panic!("on purpose")).ok();
        });
    });
    assert!(run.join().is_err());
}
