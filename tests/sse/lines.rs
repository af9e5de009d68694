//! Line ends and pieces.

use std::rc::Rc;

use tokenbrook::sse::{DEFAULT_MAX_BUFFER_BYTES, Item, Parser};

use crate::{Numbers, data, events, items, push, whole};

#[test]
fn lines_end_with_lf_or_cr_or_both_even_in_one_stream() {
    for end in ["\n", "\r", "\r\n"] {
        let stream = format!("data: a{end}data: b{end}{end}event: x{end}data: c{end}{end}");
        let expected = [("message", "a\nb", ""), ("x", "c", "")];
        let expected = expected.map(|(event, data, id)| (event.into(), data.into(), id.into()));
        assert_eq!(events(stream), expected, "{end:?}");
    }
    let mixed = "data: a\rdata: b\r\ndata: c\n\ndata: d\r\rdata: e\r\n\r\ndata: f\n\r";
    assert_eq!(data(mixed), ["a\nb\nc", "d", "e", "f"]);
}

#[test]
fn a_cr_and_an_lf_in_two_pieces_are_one_line_end() {
    let pieces: [&[u8]; 4] = [b"data: a\r", b"\ndata: b\r", b"\n\r", b"\n"];
    assert_eq!(items(pieces), whole("data: a\r\ndata: b\r\n\r\n"));
    assert_eq!(data("data: a\r\ndata: b\r\n\r\n"), ["a\nb"]);
}

#[test]
fn an_empty_line_after_a_split_line_end_still_dispatches() {
    let pieces: [&[u8]; 3] = [b"data: a\r", b"\n", b"\ndata: b\n\n"];
    assert_eq!(items(pieces).len(), 2);
    // A lone CR: what follows is a line of its own.
    let pieces: [&[u8]; 2] = [b"data: a\r", b"data: b\r\r"];
    assert_eq!(items(pieces), whole("data: a\ndata: b\n\n"));
}

#[test]
fn a_blank_cr_line_at_the_end_of_a_piece_dispatches_once_and_at_once() {
    let mut parser = Parser::new(DEFAULT_MAX_BUFFER_BYTES, true);
    let mut found = Vec::new();
    push(&mut parser, b"data: a\r\n\r", &mut found);
    assert_eq!(found.len(), 1, "the CR is enough");
    push(&mut parser, b"\ndata: b\r\r", &mut found);
    assert_eq!(found.len(), 2, "the LF belongs to the CR before it");
    push(&mut parser, b"\n\n", &mut found);
    assert_eq!(found.len(), 2);
}

#[test]
fn every_pair_of_line_ends_separates_events() {
    for first in ["\n", "\r", "\r\n"] {
        for second in ["\n", "\r", "\r\n"] {
            // A CR before an LF would be one line end with it.
            if (first, second) == ("\r", "\n") {
                continue;
            }
            let separator = format!("{first}{second}");
            let stream = format!("data: a{separator}data: b{separator}");
            assert_eq!(data(stream), ["a", "b"], "{separator:?}");
        }
    }
    assert_eq!(data("data: a\r\ndata: b\n\r\n"), ["a\nb"]);
}

#[test]
fn any_cut_into_pieces_gives_the_same_events() {
    let stream = "\u{feff}: hi\r\nid: 1\r\ndata: {\"t\":\"é\u{1F600}\"}\r\n\r\nevent: end\r\
                  retry: 25\rdata\rdata: x\r\rid\n\ndata: [DONE]\n\n";
    let all = whole(stream);
    assert_eq!(all.len(), 5, "{all:?}");
    let mut numbers = Numbers(6);
    for _ in 0..500 {
        let mut rest = stream.as_bytes();
        let mut pieces = Vec::new();
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(numbers.below(rest.len().min(9)) + 1);
            pieces.push(piece);
            rest = after;
        }
        assert_eq!(items(pieces), all);
    }
}

#[test]
fn many_events_in_one_piece_come_in_their_order() {
    let stream: String = (0..10_000).map(|n| format!("data: {n}\n\n")).collect();
    let all = items([stream.as_bytes()]);
    assert_eq!(all.len(), 10_000);
    let Some(Item::Event(last)) = all.last() else {
        panic!("{:?}", all.last());
    };
    assert_eq!(last.data, "9999");
}

#[test]
fn an_event_in_a_million_pieces_takes_linear_time() {
    // Copying what is there for each piece would move half a terabyte.
    const LENGTH: usize = 1 << 20;
    let mut parser = Parser::new(DEFAULT_MAX_BUFFER_BYTES, true);
    let mut found = Vec::new();
    push(&mut parser, b"data:", &mut found);
    for _ in 0..LENGTH {
        push(&mut parser, b"x", &mut found);
    }
    push(&mut parser, b"\n\n", &mut found);
    let Some(Item::Event(message)) = found.first() else {
        panic!("{found:?}");
    };
    assert_eq!((found.len(), message.data.len()), (1, LENGTH));
}

#[test]
fn a_long_id_is_not_copied_for_every_event_after_it() {
    let id = "i".repeat(1 << 20);
    let mut stream = format!("id: {id}\n");
    stream.extend((0..1_000).map(|_| "data\n\n"));
    let mut parser = Parser::new(DEFAULT_MAX_BUFFER_BYTES, true);
    let mut rest = stream.as_bytes();
    let mut ids: Vec<Rc<str>> = Vec::new();
    while let (read, Some(Item::Event(message))) = parser.read(rest).expect("it fits") {
        ids.push(message.id);
        rest = &rest[read..];
    }
    assert_eq!((ids.len(), &*ids[0]), (1_000, &*id));
    let are_shared = ids.iter().all(|other| Rc::ptr_eq(other, &ids[0]));
    assert!(are_shared, "the events share one string");
}

#[test]
fn a_value_of_millions_of_bytes_arrives_whole() {
    let value: String = (0..800_000)
        .map(|n| format!("{:06}", n % 999_983))
        .collect();
    assert_eq!(value.len(), 4_800_000);
    let stream = format!("data: {value}\n\n");
    for size in [stream.len(), 65_536, 1_021] {
        let all = items(stream.as_bytes().chunks(size));
        let Some(Item::Event(message)) = all.first() else {
            panic!("there is an event");
        };
        assert!(all.len() == 1 && message.data == value, "pieces of {size}");
    }
}

#[test]
fn an_unfinished_event_at_the_end_is_dropped() {
    for unfinished in [
        "data: lost",
        "data: lost\n",
        "data: lost\r\n",
        "id: 9\ndata: lost\r",
    ] {
        assert_eq!(
            data(format!("data: kept\n\n{unfinished}")),
            ["kept"],
            "{unfinished:?}"
        );
    }
}

#[test]
fn the_end_of_a_stream_leaves_nothing_for_the_next() {
    let mut parser = Parser::new(DEFAULT_MAX_BUFFER_BYTES, true);
    let mut found = Vec::new();
    push(
        &mut parser,
        b"id: 7\ndata: a\n\nid: 8\nevent: x\ndata: lo\rdat",
        &mut found,
    );
    parser.end();
    assert_eq!(
        &**parser.last_event_id(),
        "7",
        "the block of id 8 was not finished"
    );
    push(
        &mut parser,
        "\u{feff}a: b\n\ndata: c\n\n".as_bytes(),
        &mut found,
    );
    let last: Vec<_> = found.iter().skip(1).collect();
    let [Item::Event(message)] = last[..] else {
        panic!("{last:?}");
    };
    assert_eq!(
        (&*message.event, &*message.data, &*message.id),
        ("message", "c", "")
    );
}

#[test]
fn empty_pieces_change_nothing() {
    let pieces: [&[u8]; 7] = [b"", b"da", b"", b"ta: a\r", b"", b"\n\r\n", b""];
    assert_eq!(items(pieces), whole("data: a\n\n"));
    assert_eq!(whole(""), []);
}
