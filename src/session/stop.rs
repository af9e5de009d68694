//! Stop strings, also where they straddle tokens.

/// Finds stop strings in text that arrives in pieces.
#[derive(Clone, Debug)]
pub(super) struct StopMatcher {
    stops: Vec<String>,
    held: String,
}

/// What a piece of text led to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Matched {
    /// Text that can be shown now.
    pub(super) text: String,
    /// A stop string was reached; `text` ends before it.
    pub(super) stopped: bool,
}

impl StopMatcher {
    pub(super) fn new(stops: Vec<String>) -> Self {
        Self {
            stops,
            held: String::new(),
        }
    }

    /// Takes a piece; holds back only what may turn out to begin a stop string.
    pub(super) fn push(&mut self, piece: &str) -> Matched {
        self.held.push_str(piece);
        let first = self
            .stops
            .iter()
            .filter_map(|stop| self.held.find(stop.as_str()))
            .min();
        if let Some(at) = first {
            let text = self.held[..at].to_owned();
            self.held.clear();
            return Matched {
                text,
                stopped: true,
            };
        }
        let keep = self.possible_start();
        let rest = self.held.split_off(keep);
        let text = std::mem::replace(&mut self.held, rest);
        Matched {
            text,
            stopped: false,
        }
    }

    /// Gives what was held back, at the end of the text.
    pub(super) fn finish(&mut self) -> String {
        std::mem::take(&mut self.held)
    }

    /// Where the longest tail begins that some stop string starts with.
    fn possible_start(&self) -> usize {
        let longest = self.stops.iter().map(String::len).max().unwrap_or(0);
        let from = self.held.len().saturating_sub(longest.saturating_sub(1));
        (from..self.held.len())
            .filter(|&at| self.held.is_char_boundary(at))
            .find(|&at| {
                self.stops
                    .iter()
                    .any(|stop| stop.starts_with(&self.held[at..]))
            })
            .unwrap_or(self.held.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(stops: &[&str], pieces: &[&str]) -> (Vec<String>, bool) {
        let mut matcher = StopMatcher::new(stops.iter().map(|s| (*s).to_owned()).collect());
        let mut shown = Vec::new();
        for piece in pieces {
            let matched = matcher.push(piece);
            shown.push(matched.text);
            if matched.stopped {
                return (shown, true);
            }
        }
        shown.push(matcher.finish());
        (shown, false)
    }

    #[test]
    fn finds_a_stop_string_across_pieces_and_shows_nothing_of_it() {
        let (shown, stopped) = run(&["\n\nUser:"], &["Hi.\n", "\nUs", "er", ": more"]);
        assert_eq!((shown.concat().as_str(), stopped), ("Hi.", true));
        assert_eq!(shown, ["Hi.", "", "", ""]);
    }

    #[test]
    fn holds_back_only_a_possible_start() {
        let (shown, stopped) = run(&["END"], &["aE", "Nb", "E"]);
        assert_eq!(shown, ["a", "ENb", "", "E"]);
        assert!(!stopped);
    }

    #[test]
    fn the_earliest_of_several_stop_strings_wins() {
        let (shown, stopped) = run(&["cd", "bc"], &["abcd"]);
        assert_eq!((shown.concat().as_str(), stopped), ("a", true));
    }

    #[test]
    fn overlapping_starts_and_wide_characters_are_safe() {
        let (shown, stopped) = run(&["aab", "ü!"], &["aa", "aab", "x"]);
        assert_eq!((shown.concat().as_str(), stopped), ("aa", true));
        let (shown, stopped) = run(&["ü!"], &["xü", "?ü", "!"]);
        assert_eq!((shown.concat().as_str(), stopped), ("xü?", true));
    }
}
