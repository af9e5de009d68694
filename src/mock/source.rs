//! The tokens of a reply and when they come.

use std::collections::VecDeque;

use super::random::{Lane, Purpose};
use super::scenario::{Pace, Scenario, Stall, Text};
use crate::openai::CallDelta;

/// Common words, for texts of any length.
const WORDS: [&str; 64] = [
    "the", "of", "and", "a", "to", "in", "is", "you", "that", "it", "he", "was", "for", "on",
    "are", "as", "with", "his", "they", "at", "be", "this", "have", "from", "or", "one", "had",
    "by", "word", "but", "not", "what", "all", "were", "we", "when", "your", "can", "said",
    "there", "use", "an", "each", "which", "she", "do", "how", "their", "if", "will", "up",
    "other", "about", "out", "many", "then", "them", "these", "so", "some", "her", "would", "make",
    "like",
];

/// A token, or a part of a tool call that came with it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) text: String,
    pub(super) call: Option<CallDelta>,
}

/// What a source has next.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Next {
    Token(Token),
    /// Nothing yet: tokens are handed in from outside.
    Later,
    End,
}

/// The text of one reply.
#[derive(Clone, Debug)]
pub(super) struct Source {
    text: Words,
    calls: VecDeque<CallDelta>,
    taken: u64,
    stalls: Vec<Stall>,
    pace: Lane,
}

#[derive(Clone, Debug)]
enum Words {
    Given(VecDeque<String>),
    Seeded {
        left: u64,
        lane: Lane,
    },
    Recorded(VecDeque<(String, f64)>),
    Outside {
        waiting: VecDeque<String>,
        ended: bool,
    },
}

impl Source {
    /// The text of request `number` whose prompt is `prompt`; `swapped`: the other model's.
    pub(super) fn new(scenario: &Scenario, number: u64, prompt: &str, swapped: bool) -> Self {
        let seed = scenario.seed.get();
        let other = scenario.swap.as_ref().filter(|_| swapped);
        let text = match other.map_or(&scenario.text, |swap| &swap.text) {
            Text::Words { words } => Words::Given(split(words)),
            Text::Echo {} => Words::Given(split(prompt)),
            // The same for every request: two replies can be compared word by word.
            Text::Seeded { tokens } => Words::Seeded {
                left: tokens.get(),
                lane: Lane::new(seed, Purpose::Text, 0),
            },
            Text::Trace { tokens } => {
                let tokens = tokens.iter();
                let tokens = tokens.map(|token| (token.text.clone(), token.after_ms.get()));
                Words::Recorded(tokens.collect())
            }
            Text::External {} => Words::Outside {
                waiting: VecDeque::new(),
                ended: false,
            },
        };
        Self {
            text,
            calls: calls(scenario, number),
            taken: 0,
            stalls: scenario.stalls.clone(),
            pace: Lane::new(seed, Purpose::Pace, number),
        }
    }

    /// Takes the next token.
    pub(super) fn next(&mut self) -> Next {
        let text = match &mut self.text {
            Words::Given(words) => words.pop_front(),
            Words::Recorded(tokens) => tokens.pop_front().map(|(text, _)| text),
            Words::Seeded { left: 0, .. } => None,
            Words::Seeded { left, lane } => {
                *left -= 1;
                Some(format!("{} ", WORDS[lane.below(self.taken, WORDS.len())]))
            }
            Words::Outside { waiting, ended } => match waiting.pop_front() {
                None if !*ended => return Next::Later,
                text => text,
            },
        };
        let token = match text {
            Some(text) => Some(Token { text, call: None }),
            None => self.calls.pop_front().map(|call| Token {
                text: String::new(),
                call: Some(call),
            }),
        };
        self.taken += u64::from(token.is_some());
        token.map_or(Next::End, Next::Token)
    }

    /// Whether the text is at its end. Unknown for tokens from outside, until they end.
    pub(super) fn is_empty(&self) -> bool {
        let no_text = match &self.text {
            Words::Given(words) => words.is_empty(),
            Words::Recorded(tokens) => tokens.is_empty(),
            Words::Seeded { left, .. } => *left == 0,
            Words::Outside { waiting, ended } => waiting.is_empty() && *ended,
        };
        no_text && self.calls.is_empty()
    }

    /// Time from the token before the next one to the next one; `None` where the busy server's
    /// step decides, or the outside.
    pub(super) fn delay_ms(&self, pace: &Pace) -> Option<f64> {
        let stalls = self
            .stalls
            .iter()
            .filter(|s| s.at_token.get() == self.taken);
        let stalled_ms: f64 = stalls.map(|stall| stall.ms.get()).sum();
        let own_ms = match (&self.text, pace) {
            (Words::Recorded(tokens), _) => tokens.front().map_or(0.0, |(_, ms)| *ms),
            (Words::Outside { .. }, _) => 0.0,
            (_, Pace::Fixed { ms }) => ms.get(),
            (_, Pace::Uniform { ms, jitter_ms }) => {
                let draw = 2.0 * self.pace.uniform(self.taken) - 1.0;
                ms.get() + jitter_ms.get() * draw
            }
            (_, Pace::LogNormal { median_ms, sigma }) => {
                let z = self.pace.normal(self.taken);
                // A day: the tail of a wide distribution is still a time.
                (median_ms.get() * (sigma.get() * z).exp()).min(86_400_000.0)
            }
            (_, Pace::Trace { ms }) => {
                let at = usize::try_from(self.taken).unwrap_or(0) % ms.len().max(1);
                ms.get(at).map_or(0.0, |ms| ms.get())
            }
            (_, Pace::Busy { .. }) => return (stalled_ms > 0.0).then_some(stalled_ms),
        };
        Some(own_ms + stalled_ms)
    }

    /// Hands in a token from outside. False where none is wanted.
    pub(super) fn push(&mut self, text: &str) -> bool {
        match &mut self.text {
            Words::Outside { waiting, ended } if !*ended => {
                waiting.push_back(text.to_owned());
                true
            }
            _ => false,
        }
    }

    /// No more tokens come from outside.
    pub(super) fn end(&mut self) {
        if let Words::Outside { ended, .. } = &mut self.text {
            *ended = true;
        }
    }

    /// Whether a token from outside is waited for.
    pub(super) fn wants(&self) -> bool {
        matches!(&self.text, Words::Outside { waiting, ended } if waiting.is_empty() && !*ended)
    }
}

/// Words, each followed by one space.
fn split(text: &str) -> VecDeque<String> {
    let words = text.split_whitespace();
    words.map(|word| format!("{word} ")).collect()
}

/// How many words a text has: what a prompt counts as.
pub(super) fn count_words(text: &str) -> u64 {
    text.split_whitespace().count() as u64
}

/// Tool calls in parts: the name with the first part of the arguments.
fn calls(scenario: &Scenario, number: u64) -> VecDeque<CallDelta> {
    let calls = scenario.tool_calls.iter().enumerate();
    calls
        .flat_map(|(index, call)| {
            let characters: Vec<char> = call.arguments.chars().collect();
            let size = characters.len().div_ceil(call.parts.len().max(1)).max(1);
            let mut parts: Vec<String> = characters
                .chunks(size)
                .map(|part| part.iter().collect())
                .collect();
            if parts.is_empty() {
                parts.push(String::new());
            }
            let delta = move |(at, arguments)| CallDelta {
                index,
                id: format!("call_{number}_{index}"),
                name: (at == 0).then(|| call.name.clone()),
                arguments,
            };
            parts.into_iter().enumerate().map(delta)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(json: &str) -> (Source, Scenario) {
        let scenario = Scenario::from_json(json).expect("it is valid");
        (
            Source::new(&scenario, 1, " say  hello\tto me ", false),
            scenario,
        )
    }

    fn all(source: &mut Source) -> Vec<String> {
        std::iter::from_fn(|| match source.next() {
            Next::Token(token) => Some(token.text),
            _ => None,
        })
        .collect()
    }

    fn delays(json: &str, count: usize) -> Vec<f64> {
        let (mut source, scenario) = source(json);
        (0..count)
            .map(|_| {
                let delay = source.delay_ms(&scenario.pace).expect("it has a pace");
                source.next();
                delay
            })
            .collect()
    }

    #[test]
    fn texts_come_from_words_the_prompt_a_recording_or_a_seed() {
        let (mut words, _) = source("{}");
        assert_eq!(all(&mut words).len(), 18);
        let (mut echo, _) = source(r#"{"text":{"kind":"echo"}}"#);
        assert_eq!(all(&mut echo), ["say ", "hello ", "to ", "me "]);
        let json = r#"{"text":{"kind":"trace","tokens":[{"text":"é","afterMs":3}]}}"#;
        let (mut trace, scenario) = source(json);
        assert_eq!(trace.delay_ms(&scenario.pace), Some(3.0));
        assert_eq!(all(&mut trace), ["é"]);
        let json = r#"{"text":{"kind":"seeded","tokens":120},"seed":42}"#;
        let (mut a, scenario) = source(json);
        let mut b = Source::new(&scenario, 99, "", false);
        let text = all(&mut a);
        assert_eq!(text.len(), 120);
        assert_eq!(all(&mut b), text);
        let (mut other, _) = source(&json.replace("42", "43"));
        assert_ne!(all(&mut other), text);
    }

    #[test]
    fn delays_follow_their_pace() {
        assert_eq!(
            delays(r#"{"pace":{"kind":"trace","ms":[1,2]}}"#, 3),
            [1.0, 2.0, 1.0]
        );
        let words = r#""text":{"kind":"seeded","tokens":20000}"#;
        let uniform = format!(r#"{{{words},"pace":{{"kind":"uniform","ms":33,"jitterMs":8}}}}"#);
        let drawn = delays(&uniform, 20_000);
        assert!(drawn.iter().all(|ms| (25.0..=41.0).contains(ms)));
        let mean = drawn.iter().sum::<f64>() / 20_000.0;
        assert!((mean - 33.0).abs() < 0.1, "{mean}");
        assert!(drawn.iter().any(|ms| *ms < 25.1) && drawn.iter().any(|ms| *ms > 40.9));
        let log =
            format!(r#"{{{words},"pace":{{"kind":"log-normal","medianMs":20,"sigma":0.5}}}}"#);
        let mut drawn = delays(&log, 20_000);
        drawn.sort_by(f64::total_cmp);
        assert!((drawn[10_000] - 20.0).abs() < 0.4, "{}", drawn[10_000]);
        // One standard deviation above: 20 × e^0.5.
        assert!((drawn[16_827] - 32.97).abs() < 1.0, "{}", drawn[16_827]);
        let stalled = r#"{"stalls":[{"atToken":1,"ms":500}]}"#;
        assert_eq!(delays(stalled, 3), [33.0, 533.0, 33.0]);
    }

    #[test]
    fn tokens_from_outside_are_waited_for_until_they_end() {
        let (mut source, _) = source(r#"{"text":{"kind":"external"}}"#);
        assert_eq!(source.next(), Next::Later);
        assert!(source.wants() && source.push("a"));
        assert!(!source.wants());
        assert_eq!(all(&mut source), ["a"]);
        source.end();
        assert!(source.is_empty() && !source.wants() && !source.push("b"));
        assert_eq!(source.next(), Next::End);
    }

    #[test]
    fn tool_calls_come_in_parts_after_the_text() {
        let json = r#"{"text":{"kind":"words","words":"x"},"toolCalls":[
            {"name":"f","arguments":"{\"a\":1}","parts":3},{"name":"g","arguments":""}]}"#;
        let (mut source, _) = source(json);
        assert_eq!(
            source.next(),
            Next::Token(Token {
                text: "x ".into(),
                call: None
            })
        );
        let parts: Vec<_> = std::iter::from_fn(|| match source.next() {
            Next::Token(token) => token.call,
            _ => None,
        })
        .collect();
        let seen: Vec<_> = parts
            .iter()
            .map(|part| (part.index, part.name.as_deref(), part.arguments.as_str()))
            .collect();
        assert_eq!(
            seen,
            [
                (0, Some("f"), "{\"a"),
                (0, None, "\":1"),
                (0, None, "}"),
                (1, Some("g"), "")
            ]
        );
        assert!(source.is_empty());
    }
}
