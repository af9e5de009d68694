//! The limit, and what is never kept.

use tokenbrook::sse::{Item, Parser, TooLarge};

const LIMIT: usize = 64;

/// Items up to the end or the limit.
fn read(parser: &mut Parser, mut piece: &[u8]) -> (Vec<Item>, Option<TooLarge>) {
    let mut items = Vec::new();
    loop {
        match parser.read(piece) {
            Err(error) => return (items, Some(error)),
            Ok((_, None)) => return (items, None),
            Ok((read, Some(item))) => {
                piece = &piece[read..];
                items.push(item);
            }
        }
    }
}

#[test]
fn a_line_without_an_end_stops_at_the_limit() {
    for field in ["data", "event", "id", "retry", ""] {
        let mut parser = Parser::new(LIMIT, true);
        let line = format!("data: before\n\n{field}:{}", "x".repeat(LIMIT + 1));
        let (items, error) = read(&mut parser, line.as_bytes());
        assert_eq!(items.len(), 1, "what was complete is told");
        assert_eq!(error, Some(TooLarge { limit: LIMIT }), "{field}");
    }
}

#[test]
fn data_lines_without_an_empty_line_stop_at_the_limit() {
    let mut parser = Parser::new(LIMIT, false);
    let mut lines = 0;
    while read(&mut parser, b"data\n").1.is_none() {
        lines += 1;
        assert!(lines <= LIMIT, "it stops");
    }
    assert_eq!(lines, LIMIT, "an empty line of data is its LF");
}

#[test]
fn the_limit_is_of_one_event_not_of_the_stream() {
    let mut parser = Parser::new(LIMIT, true);
    // The LF at the end of the data counts too.
    let fits = format!("event: ab\ndata: {}\n\n", "x".repeat(LIMIT - 3));
    for _ in 0..100 {
        let (items, error) = read(&mut parser, fits.as_bytes());
        assert_eq!((items.len(), error), (1, None));
    }
    let over = fits.replace("ab", "abc");
    assert!(read(&mut parser, over.as_bytes()).1.is_some());
}

#[test]
fn nothing_is_read_past_the_limit_until_the_stream_ends() {
    let mut parser = Parser::new(LIMIT, true);
    read(&mut parser, b"d");
    read(
        &mut parser,
        format!("ata: {}", "x".repeat(LIMIT + 1)).as_bytes(),
    );
    for piece in ["\n\ndata: a\n\n", "", "data: b\n\n"] {
        let (items, error) = read(&mut parser, piece.as_bytes());
        assert_eq!((items.len(), error), (0, Some(TooLarge { limit: LIMIT })));
    }
    parser.end();
    let (items, error) = read(&mut parser, b"data: a\n\n");
    assert_eq!((items.len(), error), (1, None));
}

#[test]
fn lines_that_mean_nothing_are_not_kept() {
    let long = "x".repeat(10 * LIMIT);
    let mut parser = Parser::new(LIMIT, false);
    for start in [
        "unknown: ",
        "unknown",
        ":",
        ": comment ",
        "datadatadata",
        "dat a",
    ] {
        for end in ["\n", "\r", "\r\n"] {
            let mut found = 0;
            for piece in [start, &long, &long, &end[..1], &end[1..], "data: a\r\n\r\n"] {
                let (items, error) = read(&mut parser, piece.as_bytes());
                assert_eq!(error, None, "{start:?} {end:?}");
                found += items.len();
            }
            assert_eq!(
                found, 1,
                "{start:?} {end:?}: reading goes on at the right byte"
            );
        }
    }
}
