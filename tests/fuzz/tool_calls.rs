//! Answers for the readers of tool calls.

use std::time::Duration;

use tokenbrook::session::{ToolCallDelta, ToolFormat, ToolParser};

use crate::common::Random;
use crate::fuzz;
use crate::pieces::{mutated, soup, text};
use crate::stopwatch::Stopwatch;

const PARTS: &[&str] = &[
    "<tool_call>",
    "</tool_call>",
    "<|python_tag|>",
    "[TOOL_CALLS]",
    "[ARGS]",
    "[CALL_ID]",
    "```tool_code\n",
    "```json\n",
    "```",
    "<start_function_call>",
    "<end_function_call>",
    "<escape>",
    "call:",
    "{\"name\":\"now\",",
    "\"arguments\":{",
    "\"parameters\":{\"a\":",
    "{",
    "}",
    "[",
    "]",
    "\"",
    "'",
    "\\",
    "\\u00",
    "now(",
    "now",
    "a=",
    ")",
    "1e9",
    "-",
    "null",
    "None",
    ",",
    ":",
    ";",
    " ",
    "\n",
    "é",
    "\0",
    "{{{{",
    "[[[[",
    "((((",
];

/// Whole text, and the arguments of each call.
fn read(format: ToolFormat, pieces: &[&str]) -> (String, Vec<String>, usize) {
    let mut parser = ToolParser::new(format, vec!["now".to_owned(), "f.g-h_1".to_owned()], 3);
    let (mut text, mut calls) = (String::new(), Vec::new());
    let mut take = |delta: ToolCallDelta| {
        if delta.name.is_some() {
            calls.push(String::new());
        }
        assert_eq!(delta.index + 1, calls.len());
        calls[delta.index].push_str(&delta.arguments_delta);
    };
    for piece in pieces {
        let parsed = parser.push(piece);
        text.push_str(&parsed.text);
        parsed.calls.into_iter().for_each(&mut take);
    }
    let parsed = parser.finish();
    text.push_str(&parsed.text);
    parsed.calls.into_iter().for_each(&mut take);
    (text, calls, parser.complete())
}

fn pieces<'a>(random: &mut Random, mut answer: &'a str) -> Vec<&'a str> {
    let mut pieces = Vec::new();
    while !answer.is_empty() {
        let count = 1 + random.below(7);
        let end = answer
            .char_indices()
            .nth(count)
            .map_or(answer.len(), |(at, _)| at);
        pieces.push(&answer[..end]);
        answer = &answer[end..];
    }
    pieces
}

#[test]
fn any_answer_is_read_the_same_in_any_pieces_and_soon() {
    let seeds = [
        "<tool_call>{\"name\":\"now\",\"arguments\":{\"a\":[1,\"é\"]}}</tool_call>",
        "[TOOL_CALLS][{\"name\":\"now\",\"arguments\":{}},{\"name\":\"f.g-h_1\"}]",
        "[TOOL_CALLS]now[ARGS]{\"a\":{\"b\":null}}",
        "```tool_code\nnow(a='x', b={'c': [1, 2.5]})\n```",
        "[now(a=True), f.g-h_1()]",
        "<start_function_call>call:now{a:<escape>x<escape>}<end_function_call>",
        "{\"name\":\"now\",\"parameters\":{\"a\":\"\\u00e9\"}}",
    ];
    fuzz("answers with calls", 20_000, |random| {
        let format = ToolFormat::ALL[random.below(ToolFormat::ALL.len())];
        let (seed, other) = (random.below(seeds.len()), random.below(seeds.len()));
        let more = text(random, PARTS, 9);
        let answer = match random.below(3) {
            0 => soup(random, PARTS, 30),
            1 => mutated(random, seeds[seed], seeds[other], PARTS),
            _ => mutated(random, seeds[seed], &more, PARTS),
        };
        let whole = read(format, &[&answer]);
        assert_eq!(
            read(format, &pieces(random, &answer)),
            whole,
            "{format:?} {answer:?}"
        );
        let (text, calls, complete) = whole;
        assert!(complete <= calls.len());
        if calls.is_empty() {
            assert_eq!(text, answer, "{format:?}: all that is no call is text");
        }
        for arguments in calls.iter().filter(|_| complete == calls.len()) {
            let object = serde_json::from_str::<serde_json::Map<_, _>>(arguments);
            assert!(
                object.is_ok() || arguments.contains("\\u"),
                "{answer:?} {arguments:?}"
            );
        }
    });
}

#[test]
fn long_answers_take_time_in_proportion() {
    fuzz("long answers with calls", 30, |random| {
        let format = ToolFormat::ALL[random.below(ToolFormat::ALL.len())];
        let unit = soup(random, PARTS, 6);
        let answer =
            "<tool_call>[TOOL_CALLS]".to_owned() + &unit.repeat(200_000 / unit.len().max(1));
        let watch = Stopwatch::start();
        let pieces: Vec<_> = pieces(random, &answer);
        read(format, &pieces);
        let took = watch.elapsed();
        assert!(
            took < Duration::from_secs(8),
            "{format:?} {took:?}: {unit:?}"
        );
    });
}
