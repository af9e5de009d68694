//! What each field does.

use tokenbrook::sse::{DEFAULT_MAX_BUFFER_BYTES, Item, Parser};

use crate::{data, events, push, whole};

fn event(event: &str, data: &str, id: &str) -> (String, String, String) {
    (event.to_owned(), data.to_owned(), id.to_owned())
}

fn retries(stream: &str) -> Vec<u64> {
    let only = whole(stream).into_iter().filter_map(|item| match item {
        Item::Retry(ms) => Some(ms),
        _ => None,
    });
    only.collect()
}

fn comments(stream: &str) -> Vec<String> {
    let only = whole(stream).into_iter().filter_map(|item| match item {
        Item::Comment(text) => Some(text),
        _ => None,
    });
    only.collect()
}

#[test]
fn data_without_a_colon_is_an_empty_line_and_one_space_is_dropped() {
    for (stream, expected) in [
        ("data\n\n", vec![""]),
        ("data:\n\n", vec![""]),
        ("data: \n\n", vec![""]),
        ("data\ndata\n\n", vec!["\n"]),
        ("data:test\n\n", vec!["test"]),
        ("data: test\n\n", vec!["test"]),
        ("data:  x\n\n", vec![" x"]),
        ("data:\tx\n\n", vec!["\tx"]),
        ("data: x \n\n", vec!["x "]),
        ("\n\n\n", vec![]),
    ] {
        assert_eq!(data(stream), expected, "{stream:?}");
    }
}

#[test]
fn data_lines_join_with_lf_and_empty_ones_stay() {
    assert_eq!(data("data: a\ndata:\ndata: b\n\n"), ["a\n\nb"]);
    assert_eq!(data("data:\ndata: b\ndata\n\n"), ["\nb\n"]);
}

#[test]
fn a_block_without_data_is_no_event_but_its_id_counts() {
    let stream = "event: x\nid: 4\n\ndata: a\n\n";
    assert_eq!(events(stream), [event("message", "a", "4")]);
    let mut parser = Parser::new(DEFAULT_MAX_BUFFER_BYTES, false);
    let mut found = Vec::new();
    push(&mut parser, b"id: 5\n", &mut found);
    assert_eq!(&**parser.last_event_id(), "", "the block is not finished");
    push(&mut parser, b"\n", &mut found);
    assert_eq!((&**parser.last_event_id(), found.len()), ("5", 0));
}

#[test]
fn the_type_lasts_for_one_event_and_an_empty_one_is_message() {
    let stream = "event: x\ndata: a\n\ndata: b\n\nevent: y\nevent:\ndata: c\n\n\
                  event: y\nevent\ndata: d\n\nevent: y\nevent: z\ndata: e\n\n";
    let types: Vec<_> = events(stream)
        .into_iter()
        .map(|(event, ..)| event)
        .collect();
    assert_eq!(types, ["x", "message", "message", "message", "z"]);
}

#[test]
fn an_id_with_a_nul_is_ignored_and_the_one_before_it_survives() {
    assert_eq!(
        events("id: 1\nid: 2\0\ndata: a\n\nid: \0\ndata: b\n\n"),
        [event("message", "a", "1"), event("message", "b", "1")]
    );
}

#[test]
fn ids_last_until_the_next_and_an_empty_one_clears() {
    let stream = "id: 1\ndata: a\n\ndata: b\n\nid: 2\nid: 3\ndata: c\n\nid:\ndata: d\n\n\
                  id: 4\ndata: e\n\nid\ndata: f\n\n";
    let ids: Vec<_> = events(stream).into_iter().map(|(.., id)| id).collect();
    assert_eq!(ids, ["1", "1", "3", "", "4", ""]);
}

#[test]
fn retry_takes_digits_and_nothing_else() {
    assert_eq!(
        retries("retry: 2000\n\nretry:7\nretry: 007\n"),
        [2000, 7, 7]
    );
    for value in [
        "2000x", "50x", "", "-1", "+1", "1.5", " 10", "1e3", "0x10", "\u{0661}", "1 ",
    ] {
        assert_eq!(retries(&format!("retry: {value}\n\n")), [0; 0], "{value:?}");
    }
    assert_eq!(retries("retry\n\n"), [0; 0]);
    assert_eq!(retries("retry: 99999999999999999999999\n"), [u64::MAX]);
}

#[test]
fn comments_dispatch_nothing() {
    let stream = ":\n::::\n:\0\n:data:fail\n: data: fail\n:data\n\n: only\n\n";
    assert_eq!(
        comments(stream),
        ["", ":::", "\0", "data:fail", "data: fail", "data", "only"]
    );
    assert_eq!(
        data(format!("{stream}data: a\n: between\ndata: b\n\n")),
        ["a\nb"]
    );
}

#[test]
fn a_long_comment_in_pieces_is_one_comment() {
    let long = "data: no\u{1F600} ".repeat(150);
    let stream = format!(":{long}\ndata: a\n\n");
    for size in [1, 7, 100, 2_048] {
        let all = crate::items(stream.as_bytes().chunks(size));
        assert_eq!(all[0], Item::Comment(long.clone()), "pieces of {size}");
        assert_eq!(all.len(), 2);
    }
}

#[test]
fn names_are_exact_and_the_rest_is_ignored() {
    let stream = "Data: a\n data: b\ndata : c\ndatax: d\ndat: e\nda\nfoo\nlongername: data: f\n\
                  \0data: g\ndata: kept: it: all\n\n";
    assert_eq!(data(stream), ["kept: it: all"]);
    assert_eq!(
        events("EVENT: x\nID: 1\ndata: a\n\n"),
        [event("message", "a", "")]
    );
}
