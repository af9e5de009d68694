//! Counts tests from what the runners print.

/// Tests that passed and failed so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Counts {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
}

impl Counts {
    /// Takes in one line of a runner's output; lines that count nothing change nothing.
    pub(crate) fn read_line(&mut self, line: &str) {
        if let Some(rest) = line.strip_prefix("test result: ") {
            self.read_cargo(rest);
        } else if let Some(rest) = line.strip_prefix("ℹ ").or(line.strip_prefix("# ")) {
            self.read_node(rest);
        } else {
            self.read_playwright(line.trim());
        }
    }

    /// `ok. 12 passed; 0 failed; 1 ignored; …`
    fn read_cargo(&mut self, rest: &str) {
        for part in rest.split(['.', ';']) {
            let mut words = part.split_whitespace();
            let number = words.next().and_then(|word| word.parse::<u64>().ok());
            match (number, words.next()) {
                (Some(number), Some("passed")) => self.passed += number,
                (Some(number), Some("failed")) => self.failed += number,
                _ => {}
            }
        }
    }

    /// `pass 9`, `fail 0`, `cancelled 0`, after the mark of the spec or the TAP reporter.
    fn read_node(&mut self, rest: &str) {
        let Some((what, number)) = rest.split_once(' ') else {
            return;
        };
        let Ok(number) = number.parse::<u64>() else {
            return;
        };
        match what {
            "pass" => self.passed += number,
            "fail" | "cancelled" => self.failed += number,
            _ => {}
        }
    }

    /// `3 passed (4.2s)`, `1 failed`, `1 timed out`, `1 interrupted`, `2 did not run`;
    /// a flaky test passed in the end, but nothing here is allowed a second try.
    fn read_playwright(&mut self, line: &str) {
        let Some((number, what)) = line.split_once(' ') else {
            return;
        };
        let Ok(number) = number.parse::<u64>() else {
            return;
        };
        if what == "passed" || what.starts_with("passed (") {
            self.passed += number;
        } else if ["failed", "flaky", "interrupted", "did not run"].contains(&what) {
            self.failed += number;
        }
    }

    /// The line that ends a test run.
    pub(crate) fn line(self) -> String {
        format!("{} passed, {} failed\n", self.passed, self.failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(lines: &[&str]) -> Counts {
        let mut counts = Counts::default();
        lines.iter().for_each(|line| counts.read_line(line));
        counts
    }

    #[test]
    fn adds_the_results_of_all_cargo_test_programs() {
        let lines = [
            "running 3 tests",
            "test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; in 0.1s",
            "test result: FAILED. 4 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out",
        ];
        assert_eq!(
            counts(&lines),
            Counts {
                passed: 16,
                failed: 2
            }
        );
    }

    #[test]
    fn adds_playwrights_closing_lines() {
        let lines = [
            "  1 failed",
            "    [chromium] › a.spec.ts:3:1 › x",
            "  2 did not run",
        ];
        assert_eq!(
            counts(&lines),
            Counts {
                passed: 0,
                failed: 3
            }
        );
        assert_eq!(
            counts(&["  31 passed (1.2m)"]),
            Counts {
                passed: 31,
                failed: 0
            }
        );
    }

    #[test]
    fn adds_the_results_of_nodes_reporters() {
        let spec = [
            "ℹ tests 12",
            "ℹ suites 0",
            "ℹ pass 9",
            "ℹ fail 2",
            "ℹ cancelled 1",
        ];
        assert_eq!(
            counts(&spec),
            Counts {
                passed: 9,
                failed: 3
            }
        );
        assert_eq!(counts(&["# pass 4", "# fail 0"]).passed, 4);
    }

    #[test]
    fn ignores_lines_that_only_look_like_counts() {
        let lines = [
            "Running 31 tests using 1 worker",
            "  ✓  1 a.spec.ts › 3 passed (1s)",
            "3",
        ];
        assert_eq!(counts(&lines), Counts::default());
    }
}
