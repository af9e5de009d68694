//! The times that follow from an exchange, under each published definition.
//!
//! Figures of one name and different meanings stand side by side. Times are in milliseconds;
//! rates are tokens a second.
//!
//! | figure                 | definition                                            | source     |
//! |------------------------|-------------------------------------------------------|------------|
//! | `headers`              | request to status and headers                         |            |
//! | `ttft.generator`       | request to the generator's stamp of its first token   | server     |
//! | `ttft.any_chunk`       | request to the first event with choices, text or not  | vLLM       |
//! | `ttft.first_response`  | request to the first event                            | genai-perf |
//! | `ttft.first_text`      | request to the first event with text                  | LLMPerf    |
//! | `ttft.first_paint`     | request to the first painted text                     |            |
//! | `ttst`                 | first to second event                                 | genai-perf |
//! | `itl.events`           | every gap between events with choices, of all calls   | vLLM       |
//! | `itl.mean_after_first` | (`e2e.last_response` - `ttft.first_response`) / (n-1) | genai-perf |
//! | `itl.with_first`       | `e2e.last_response` / events with text                | LLMPerf    |
//! | `tpot`                 | (`e2e.last_choices` - `ttft.any_chunk`) / (n-1)       | vLLM       |
//! | `e2e.last_choices`     | request to the last event with choices                | vLLM       |
//! | `e2e.last_response`    | request to the last event, a usage event included     | genai-perf |
//! | `e2e.closed`           | request to the end of the body                        | LLMPerf    |
//! | `e2e.last_text`        | request to the last event with text                   |            |
//! | `throughput.request`   | n / `e2e.closed`                                      | LLMPerf    |
//! | `throughput.user`      | 1 / `itl.mean_after_first`                            | genai-perf |
//!
//! n is the number of tokens. The marker is no event.

use super::timeline::{Outcome, TimedEvent, Timeline, gaps};

/// The figures of one complete exchange.
#[derive(Clone, Debug, PartialEq)]
pub struct Figures {
    /// Every figure but `itl.events` by its name, in the order of the table.
    pub single: Vec<(&'static str, Option<f64>)>,
    /// `itl.events`.
    pub itl_events: Vec<f64>,
}

/// Names and sources of the figures, in the order of the table.
pub const FIGURES: [(&str, &str); 17] = [
    ("headers", ""),
    ("ttft.generator", "server"),
    ("ttft.any_chunk", "vLLM"),
    ("ttft.first_response", "genai-perf"),
    ("ttft.first_text", "LLMPerf"),
    ("ttft.first_paint", ""),
    ("ttst", "genai-perf"),
    ("itl.events", "vLLM"),
    ("itl.mean_after_first", "genai-perf"),
    ("itl.with_first", "LLMPerf"),
    ("tpot", "vLLM"),
    ("e2e.last_choices", "vLLM"),
    ("e2e.last_response", "genai-perf"),
    ("e2e.closed", "LLMPerf"),
    ("e2e.last_text", ""),
    ("throughput.request", "LLMPerf"),
    ("throughput.user", "genai-perf"),
];

impl Figures {
    /// One figure; `None` where it did not happen.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<f64> {
        let found = self.single.iter().find(|(at, _)| *at == name);
        found.and_then(|(_, value)| *value)
    }
}

impl Timeline {
    /// The figures, or `None` for an exchange that is not complete or had no event: neither
    /// counts as a timing result.
    #[must_use]
    pub fn figures(&self) -> Option<Figures> {
        if self.outcome != Outcome::Complete || self.events.is_empty() {
            return None;
        }
        let since = |moment: f64| moment - self.request_ms;
        let at = |event: Option<&TimedEvent>| event.map(|event| since(event.at_ms));
        let chosen: Vec<f64> = self
            .events
            .iter()
            .filter(|event| event.has_choices)
            .map(|event| since(event.at_ms))
            .collect();
        let (any_chunk, last_choices) = (chosen.first().copied(), chosen.last().copied());
        let first_response = at(self.events.first());
        let second = self.events.get(1);
        let last_response = at(self.events.last());
        let closed = self.closed_ms.map(since);
        let tokens = self.tokens();
        let after_first = over(
            last_response
                .zip(first_response)
                .map(|(e2e, ttft)| e2e - ttft),
            tokens.saturating_sub(1),
        );
        let request_rate = closed
            .filter(|ms| *ms > 0.0)
            .map(|ms| per_second(tokens, ms));
        let user_rate = after_first
            .filter(|ms| *ms > 0.0)
            .map(|ms| per_second(1, ms));
        Some(Figures {
            single: vec![
                ("headers", self.headers_ms.map(since)),
                ("ttft.generator", self.first_token_ms.map(since)),
                ("ttft.any_chunk", any_chunk),
                ("ttft.first_response", first_response),
                ("ttft.first_text", self.first_text_ms().map(since)),
                ("ttft.first_paint", self.first_rendered_ms.map(since)),
                ("ttst", at(second).zip(first_response).map(|(b, a)| b - a)),
                ("itl.mean_after_first", after_first),
                ("itl.with_first", over(last_response, self.texts().count())),
                (
                    "tpot",
                    over(
                        last_choices.zip(any_chunk).map(|(e2e, ttft)| e2e - ttft),
                        tokens.saturating_sub(1),
                    ),
                ),
                ("e2e.last_choices", last_choices),
                ("e2e.last_response", last_response),
                ("e2e.closed", closed),
                ("e2e.last_text", self.last_text_ms().map(since)),
                ("throughput.request", request_rate),
                ("throughput.user", user_rate),
            ],
            itl_events: gaps(&chosen),
        })
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
fn over(ms: Option<f64>, count: usize) -> Option<f64> {
    ms.filter(|_| count > 0).map(|ms| ms / count as f64)
}

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
pub(super) fn per_second(count: usize, ms: f64) -> f64 {
    count as f64 * 1000.0 / ms
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(at_ms: f64) -> TimedEvent {
        TimedEvent {
            at_ms,
            bytes: 9,
            tokens: 1,
            text_bytes: 5,
            has_choices: true,
            ..TimedEvent::default()
        }
    }

    fn steady(tokens: usize, first_ms: f64, gap_ms: f64) -> Timeline {
        let events: Vec<_> = (0..tokens)
            .map(|n| token(7.0 + first_ms + n as f64 * gap_ms))
            .collect();
        Timeline {
            request_ms: 7.0,
            closed_ms: events.last().map(|event| event.at_ms + 1.0),
            events,
            outcome: Outcome::Complete,
            ..Timeline::default()
        }
    }

    fn is_near(value: Option<f64>, wanted: f64) {
        assert!((value.unwrap() - wanted).abs() < 1e-6, "{value:?} {wanted}");
    }

    #[test]
    fn a_reply_takes_its_first_token_and_the_other_intervals() {
        for (tokens, first, gap, total) in [
            (300, 500.0, 30.0, 9470.0),
            (400, 700.0, 25.0, 10_675.0),
            (120, 33.0, 33.0, 3960.0),
        ] {
            let figures = steady(tokens, first, gap).figures().unwrap();
            is_near(figures.get("e2e.last_choices"), total);
            is_near(figures.get("e2e.closed"), total + 1.0);
            assert_eq!(figures.get("ttft.first_text"), Some(first));
            is_near(figures.get("tpot"), gap);
            is_near(figures.get("throughput.user"), 1000.0 / gap);
            is_near(
                figures.get("throughput.request"),
                tokens as f64 / (total + 1.0) * 1000.0,
            );
            assert_eq!(figures.itl_events.len(), tokens - 1);
        }
    }

    #[test]
    fn a_role_and_a_usage_event_move_each_definition_as_it_says() {
        let mut timeline = steady(3, 100.0, 30.0);
        let role = TimedEvent {
            at_ms: 9.0,
            has_choices: true,
            ..TimedEvent::default()
        };
        let usage = TimedEvent {
            at_ms: 175.0,
            bytes: 40,
            ..TimedEvent::default()
        };
        timeline.events.insert(0, role);
        timeline.events.push(usage);
        let figures = timeline.figures().unwrap();
        let wanted = [
            ("ttft.any_chunk", 2.0),
            ("ttft.first_response", 2.0),
            ("ttft.first_text", 100.0),
            ("ttst", 98.0),
            ("tpot", (160.0 - 2.0) / 2.0),
            ("itl.mean_after_first", (168.0 - 2.0) / 2.0),
            ("itl.with_first", 168.0 / 3.0),
            ("e2e.last_choices", 160.0),
            ("e2e.last_response", 168.0),
            ("e2e.last_text", 160.0),
        ];
        for (name, value) in wanted {
            assert_eq!(figures.get(name), Some(value), "{name}");
        }
        assert_eq!(figures.itl_events, [98.0, 30.0, 30.0]);
        assert_eq!(figures.get("ttft.generator"), None);
        // The server's count takes the place of one for each event.
        timeline.output_tokens = Some(9);
        assert_eq!(timeline.figures().unwrap().get("tpot"), Some(158.0 / 8.0));
    }

    #[test]
    fn an_exchange_that_is_not_complete_has_no_figures() {
        for outcome in [Outcome::Incomplete, Outcome::Failed, Outcome::Open] {
            let timeline = Timeline {
                outcome,
                ..steady(5, 10.0, 10.0)
            };
            assert_eq!(timeline.figures(), None);
        }
        assert_eq!(steady(0, 0.0, 0.0).figures(), None);
    }

    #[test]
    fn the_list_of_figures_is_what_an_exchange_has() {
        let figures = steady(2, 1.0, 1.0).figures().unwrap();
        let mut names: Vec<_> = figures.single.iter().map(|(name, _)| *name).collect();
        names.insert(7, "itl.events");
        assert_eq!(names, FIGURES.map(|(name, _)| name));
    }
}
