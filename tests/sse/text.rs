//! Encodings.

use tokenbrook::sse::Item;

use crate::{data, events, whole};

#[test]
fn one_byte_order_mark_at_the_start_is_skipped() {
    assert_eq!(data("\u{feff}data: a\n\n"), ["a"]);
    assert_eq!(data("\u{feff}\n\ndata: a\n\n"), ["a"]);
    // A second mark, or one that comes later, is part of a name that nobody knows.
    assert_eq!(data("\u{feff}\u{feff}data: a\ndata: b\n\n"), ["b"]);
    assert_eq!(
        data("data: a\n\n\u{feff}data: b\n\ndata: c\n\n"),
        ["a", "c"]
    );
    // Within a value it is text.
    assert_eq!(data("data: \u{feff}a\n\n"), ["\u{feff}a"]);
}

#[test]
fn the_start_of_a_byte_order_mark_alone_belongs_to_a_name() {
    assert_eq!(data(b"\xEF\xBBdata: a\ndata: b\n\n"), ["b"]);
    assert_eq!(data(b"\xEFdata: a\n\ndata: b\n\n"), ["b"]);
    assert_eq!(data(b"\xEF\xBB\n\ndata: b\n\n"), ["b"]);
    assert_eq!(data(b"\xEF\xBB\xBF"), [""; 0]);
}

#[test]
fn characters_of_any_length_survive_every_cut() {
    let text = "aé\u{0416}\u{4E2D}\u{0633}\u{0D05}\u{1F600}\u{1F468}\u{200D}\u{1F469}";
    let stream = format!(": {text}\nevent: {text}\nid: {text}\ndata: {text}\n\n");
    let found = whole(&stream);
    assert_eq!(found[0], Item::Comment(text.to_owned()));
    assert_eq!(events(&stream), [(text.into(), text.into(), text.into())]);
}

#[test]
fn broken_utf_8_becomes_u_fffd_and_the_stream_goes_on() {
    for (bytes, expected) in [
        (&b"\xFF"[..], "\u{fffd}"),
        (b"a\xC3", "a\u{fffd}"),
        (b"\xC3(", "\u{fffd}("),
        (b"\xE4\xB8", "\u{fffd}"),
        (b"\xF0\x9F\x98:", "\u{fffd}:"),
        (b"\x80\x80", "\u{fffd}\u{fffd}"),
        (b"\xC0\xAF", "\u{fffd}\u{fffd}"),
        // A surrogate, which UTF-8 does not have.
        (b"\xED\xA0\x80", "\u{fffd}\u{fffd}\u{fffd}"),
    ] {
        let stream = [b"data: ", bytes, b"\ndata: ok\n\ndata: next\n\n"].concat();
        assert_eq!(
            data(&stream),
            [format!("{expected}\nok"), "next".to_owned()]
        );
    }
}

#[test]
fn no_other_character_ends_a_line() {
    let text = "a\u{2028}b\u{2029}c\u{85}d\u{0B}e\u{0C}f\u{1C}g\u{1E}h\0i";
    assert_eq!(data(format!("data: {text}\n\n")), [text]);
}

#[test]
fn escaped_line_ends_in_json_separate_nothing() {
    let json = r#"{"text":"a\n\nb\r\n\r\nc"}"#;
    assert_eq!(data(format!("data: {json}\n\n")), [json]);
}
