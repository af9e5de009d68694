//! Deliveries on a clock that is a list of times; the rows of `data/delivery.json` are those of
//! the page too.

use serde::Deserialize;
use tokenbrook::stream::{Delivery, Options, Piece, Step, Verdict};

#[derive(Clone, Debug, PartialEq)]
struct Word {
    index: usize,
    text: String,
}

impl Piece for Word {
    fn text(&self) -> &str {
        &self.text
    }

    fn set_text(&mut self, text: String) {
        self.text = text;
    }
}

fn word(index: usize, text: &str) -> Word {
    Word {
        index,
        text: text.to_owned(),
    }
}

/// What a reader sees: when, and which tokens.
type Shown = (f64, Vec<Word>);

/// A run of one delivery.
struct Run<'a> {
    delivery: Delivery<Word>,
    check: &'a mut dyn FnMut(String, bool) -> Verdict,
    shown: Vec<Shown>,
    ends: Vec<bool>,
}

impl<'a> Run<'a> {
    fn new(options: Options, check: &'a mut dyn FnMut(String, bool) -> Verdict) -> Self {
        Self {
            delivery: Delivery::new(options),
            check,
            shown: Vec::new(),
            ends: Vec::new(),
        }
    }

    fn settle(&mut self, now_ms: f64) {
        while let Some(step) = self.delivery.step(now_ms) {
            match step {
                Step::Check => {
                    let window = self.delivery.window();
                    let verdict = (self.check)(window.text(), window.last);
                    self.delivery.decide(verdict);
                }
                Step::Chunk(tokens) => self.shown.push((now_ms, tokens)),
                Step::End { blocked } => self.ends.push(blocked),
            }
        }
    }

    /// Lets time pass up to this moment.
    fn pass(&mut self, now_ms: f64) {
        while let Some(due_ms) = self.delivery.due_ms().filter(|&due_ms| due_ms <= now_ms) {
            self.settle(due_ms);
        }
    }

    fn tokens(mut self, words: Vec<(f64, Word)>, end_ms: f64) -> (Vec<Shown>, Vec<bool>) {
        for (at_ms, word) in words {
            self.pass(at_ms);
            self.delivery.push(word);
            self.settle(at_ms);
        }
        self.pass(end_ms);
        self.delivery.finish();
        self.settle(end_ms);
        (self.shown, self.ends)
    }
}

/// Tokens every 10 ms with these texts, delivered with a check.
fn checked(
    hold_back_tokens: usize,
    texts: &[&str],
    check: &mut dyn FnMut(String, bool) -> Verdict,
) -> (Vec<Shown>, Vec<bool>) {
    let options = Options {
        hold_back_tokens,
        checked: true,
        ..Options::default()
    };
    let words = texts.iter().enumerate();
    let words: Vec<_> = words
        .map(|(i, text)| (i as f64 * 10.0, word(i, text)))
        .collect();
    let end_ms = words.last().map_or(0.0, |(at_ms, _)| *at_ms);
    Run::new(options, check).tokens(words, end_ms)
}

fn text(shown: &[Shown]) -> String {
    let words = shown.iter().flat_map(|(_, words)| words);
    words.map(|word| &*word.text).collect()
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    what: String,
    options: RowOptions,
    made_ms: Vec<f64>,
    end_ms: f64,
    waits_ms: Vec<f64>,
    chunks: usize,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
struct RowOptions {
    batch_tokens: Option<usize>,
    batch_ms: Option<f64>,
    hold_back_tokens: usize,
    whole: bool,
}

fn rows() -> Vec<Row> {
    serde_json::from_str(include_str!("data/delivery.json")).expect("the rows are JSON")
}

fn run(row: &Row) -> Vec<Shown> {
    let options = Options {
        batch_tokens: row.options.batch_tokens,
        batch_ms: row.options.batch_ms,
        hold_back_tokens: row.options.hold_back_tokens,
        whole: row.options.whole,
        checked: false,
    };
    let words = row.made_ms.iter().enumerate();
    let words = words.map(|(i, &at_ms)| (at_ms, word(i, "x"))).collect();
    let mut check = |_, _| unreachable!("there is no check");
    let (shown, ends) = Run::new(options, &mut check).tokens(words, row.end_ms);
    assert_eq!(ends, [false], "{}: it ends once", row.what);
    shown
}

/// How long each token waited.
fn waits(row: &Row) -> Vec<f64> {
    let shown = run(row);
    let all = shown.iter().flat_map(|(at_ms, words)| {
        let wait = |word: &Word| at_ms - row.made_ms[word.index];
        words.iter().map(wait).collect::<Vec<_>>()
    });
    all.collect()
}

#[test]
fn each_delivery_delays_tokens_by_what_it_says() {
    for row in rows() {
        let shown = run(&row);
        let order: Vec<_> = shown.iter().flat_map(|(_, words)| words).collect();
        let in_order = order.iter().enumerate().all(|(i, word)| word.index == i);
        assert!(in_order && order.len() == row.made_ms.len(), "{}", row.what);
        assert_eq!(waits(&row), row.waits_ms, "{}", row.what);
        assert_eq!(shown.len(), row.chunks, "{}", row.what);
    }
}

#[test]
fn batches_of_four_at_33_ms_wait_99_at_first_and_49_and_a_half_on_average() {
    let row = Row {
        what: "120 tokens by fours".to_owned(),
        options: RowOptions {
            batch_tokens: Some(4),
            ..RowOptions::default()
        },
        made_ms: (1..=120).map(|n| f64::from(n) * 33.0).collect(),
        end_ms: 3_960.0,
        waits_ms: Vec::new(),
        chunks: 30,
    };
    let waits = waits(&row);
    assert_eq!(waits[0], 99.0);
    assert_eq!(waits.iter().sum::<f64>() / waits.len() as f64, 49.5);
    let shown = run(&row);
    assert_eq!(shown.len(), row.chunks);
    assert_eq!(shown.last().map(|(at_ms, _)| *at_ms), Some(row.end_ms));
}

#[test]
fn a_check_sees_the_next_token_with_those_held_behind_it() {
    let mut seen = Vec::new();
    let mut check = |window, last| {
        seen.push((window, last));
        Verdict::Release
    };
    let (shown, ends) = checked(2, &["a", "b", "c", "d"], &mut check);
    let expected = [("abc", false), ("bcd", false), ("cd", true)];
    assert_eq!(
        seen,
        expected.map(|(window, last)| (window.to_owned(), last))
    );
    assert_eq!((text(&shown), ends), ("abcd".to_owned(), vec![false]));
    let times: Vec<_> = shown.iter().map(|(at_ms, _)| *at_ms).collect();
    assert_eq!(times, [20.0, 30.0, 30.0, 30.0]);
}

#[test]
fn a_replacement_takes_the_place_of_the_window_and_keeps_the_count() {
    let mut check = |window: String, _| match window.contains("sk-1") {
        true => Verdict::Replace(window.replace("sk-1", "[key]")),
        false => Verdict::Release,
    };
    let (shown, _) = checked(3, &["my ", "s", "k", "-", "1", " is", "."], &mut check);
    assert_eq!(text(&shown), "my [key] is.");
    let count: usize = shown.iter().map(|(_, words)| words.len()).sum();
    assert_eq!(count, 7);
    // One token sooner the start of the key would have been shown.
    let (shown, _) = checked(2, &["my ", "s", "k", "-", "1", " is", "."], &mut check);
    assert_eq!(text(&shown), "my sk-1 is.");
}

#[test]
fn a_replacement_changes_only_the_tokens_that_differ() {
    for (replacement, expected) in [
        ("abcd", ["a", "b", "c", "d"]),
        ("aXd", ["a", "X", "", "d"]),
        ("Xd", ["X", "", "", "d"]),
        ("abX", ["a", "b", "X", ""]),
        ("", ["", "", "", ""]),
        ("abcdX", ["a", "b", "c", "dX"]),
        ("abXcd", ["a", "bX", "c", "d"]),
        ("Xabcd", ["Xa", "b", "c", "d"]),
        ("X", ["X", "", "", ""]),
    ] {
        let mut check = |_, _| Verdict::Replace(replacement.to_owned());
        let (shown, _) = checked(9, &["a", "b", "c", "d"], &mut check);
        let texts = shown.iter().flat_map(|(_, words)| words);
        let texts: Vec<_> = texts.map(|word| &*word.text).collect();
        assert_eq!(texts, expected, "{replacement:?}");
    }
}

#[test]
fn a_block_ends_the_stream_and_shows_nothing_of_the_window() {
    let mut check = |window: String, _| match window.contains("bad") {
        true => Verdict::Block,
        false => Verdict::Release,
    };
    let (shown, ends) = checked(1, &["a", "b", "bad", "c", "d", "e"], &mut check);
    assert_eq!((text(&shown), ends), ("a".to_owned(), vec![true]));
    // In the last window too.
    let (shown, ends) = checked(9, &["a", "b", "bad"], &mut check);
    assert_eq!((text(&shown), ends), (String::new(), vec![true]));
}

#[test]
fn a_block_ends_the_stream_at_once() {
    let options = Options {
        batch_tokens: Some(5),
        checked: true,
        ..Options::default()
    };
    let mut check = |window: String, _| match &*window {
        "bad" => Verdict::Block,
        _ => Verdict::Release,
    };
    let mut run = Run::new(options, &mut check);
    for (i, text) in ["a", "bad", "b"].iter().enumerate() {
        run.delivery.push(word(i, text));
        run.settle(i as f64);
    }
    assert_eq!((text(&run.shown), run.ends), ("a".to_owned(), vec![true]));
}

#[test]
fn a_token_that_comes_after_a_look_is_looked_at_before_it_is_shown() {
    let mut delivery = Delivery::new(Options {
        hold_back_tokens: 1,
        checked: true,
        ..Options::default()
    });
    ["a", "b"]
        .iter()
        .enumerate()
        .for_each(|(i, text)| delivery.push(word(i, text)));
    assert_eq!(delivery.step(0.0), Some(Step::Check));
    delivery.decide(Verdict::Release);
    delivery.push(word(2, "c"));
    delivery.finish();
    assert_eq!(
        delivery.step(0.0),
        Some(Step::Check),
        "nobody has seen the last one"
    );
    assert_eq!(delivery.window().text(), "abc");
}

#[test]
fn a_whole_reply_is_checked_once_and_shown_or_not() {
    for (blocks, expected) in [(false, "abc"), (true, "")] {
        let mut seen = Vec::new();
        let mut check = |window, last| {
            seen.push((window, last));
            if blocks {
                Verdict::Block
            } else {
                Verdict::Release
            }
        };
        let options = Options {
            whole: true,
            checked: true,
            ..Options::default()
        };
        let words = ["a", "b", "c"].iter().enumerate();
        let words = words.map(|(i, text)| (i as f64, word(i, text))).collect();
        let (shown, ends) = Run::new(options, &mut check).tokens(words, 2.0);
        assert_eq!((text(&shown), ends), (expected.to_owned(), vec![blocks]));
        assert_eq!(seen, [("abc".to_owned(), true)]);
    }
}

#[test]
fn a_block_still_shows_the_batch_that_was_let_through() {
    let options = Options {
        batch_tokens: Some(3),
        checked: true,
        ..Options::default()
    };
    let mut check = |window: String, _| match &*window {
        "c" => Verdict::Block,
        _ => Verdict::Release,
    };
    let words = ["a", "b", "c", "d"].iter().enumerate();
    let words = words.map(|(i, text)| (i as f64, word(i, text))).collect();
    let (shown, ends) = Run::new(options, &mut check).tokens(words, 3.0);
    assert_eq!((text(&shown), ends), ("ab".to_owned(), vec![true]));
}
