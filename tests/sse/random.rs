//! Random streams, cut at random, against the plain algorithm.
//!
//! `TOKENBROOK_FUZZ_SECONDS` sets how long it goes on, `TOKENBROOK_FUZZ_SEED` where it starts;
//! a failure names the seed of its stream.

use std::time::{Duration, Instant};

use tokenbrook::sse::{Event, Item, encode_event};

use crate::{Numbers, items, naive};

/// Parts that mean something to the format, and some that break it.
const PARTS: [&[u8]; 30] = [
    b"data",
    b"data:",
    b"data: ",
    b"event: ",
    b"event",
    b"id: ",
    b"id",
    b"retry: ",
    b"retry:",
    b":",
    b" ",
    b"\n",
    b"\n",
    b"\n\n",
    b"\r",
    b"\r\n",
    b"\r\n\r\n",
    b"\0",
    b"250",
    b"x",
    b"[DONE]",
    b"\xEF\xBB\xBF",
    b"\xEF\xBB",
    b"\xBF",
    "é".as_bytes(),
    "\u{1F600}".as_bytes(),
    b"\xF0\x9F",
    b"\x98\x80",
    "\u{2028}".as_bytes(),
    b"\xFF",
];

fn from_environment(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    Some(value.parse().expect("it is a whole number"))
}

fn random_stream(numbers: &mut Numbers) -> Vec<u8> {
    let parts = numbers.below(40);
    (0..parts)
        .flat_map(|_| PARTS[numbers.below(PARTS.len())])
        .copied()
        .collect()
}

fn random_pieces<'a>(mut rest: &'a [u8], numbers: &mut Numbers) -> Vec<&'a [u8]> {
    let longest = 1 + numbers.below(12);
    let mut pieces = Vec::new();
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(numbers.below(longest.min(rest.len()) + 1));
        pieces.push(piece);
        rest = after;
    }
    pieces
}

#[test]
fn random_streams_read_as_the_standard_says() {
    let seconds = from_environment("TOKENBROOK_FUZZ_SECONDS");
    let first = from_environment("TOKENBROOK_FUZZ_SEED").unwrap_or(0);
    let end = Instant::now() + Duration::from_secs(seconds.unwrap_or(20));
    // Without a time of its own a run is the same everywhere, on a slow machine a shorter one.
    let last = seconds.map_or(first + 30_000, |_| u64::MAX);
    for seed in first..last {
        if Instant::now() > end {
            break;
        }
        let mut numbers = Numbers(seed);
        let stream = random_stream(&mut numbers);
        let expected = naive::parse(&stream);
        for _ in 0..3 {
            let pieces = random_pieces(&stream, &mut numbers);
            let lengths: Vec<_> = pieces.iter().map(|piece| piece.len()).collect();
            assert_eq!(
                items(pieces),
                expected,
                "seed {seed}, pieces of {lengths:?}: {:?}",
                stream.escape_ascii().to_string()
            );
        }
    }
}

#[test]
fn what_the_encoder_writes_the_parser_reads() {
    const TEXTS: [&str; 9] = [
        "",
        "a",
        " b",
        "x: y",
        "é\u{2028}",
        ":",
        "\0c",
        "data: d",
        "\u{feff}",
    ];
    const LINES: [&str; 4] = ["\n", "e\nf", "\r\n", "g\rh\n"];
    let mut numbers = Numbers(9);
    for _ in 0..2_000 {
        let mut pick = |texts: &'static [&'static str]| texts.get(numbers.below(texts.len() + 1));
        let (event, id) = (pick(&TEXTS), pick(&TEXTS).filter(|id| !id.contains('\0')));
        let data = pick(&TEXTS).or(pick(&LINES));
        let written = Event {
            event: event.copied(),
            id: id.copied(),
            data: data.copied(),
            ..Event::default()
        };
        let mut stream = String::new();
        encode_event(&written, &mut stream).expect("it can be written");
        let read = items([stream.as_bytes()]);
        let Some(data) = data else {
            assert_eq!(read, [], "{stream:?}");
            continue;
        };
        let [Item::Event(message)] = &read[..] else {
            panic!("{stream:?} gave {read:?}");
        };
        let name = event.filter(|name| !name.is_empty()).unwrap_or(&"message");
        let lines = data.replace("\r\n", "\n").replace('\r', "\n");
        assert_eq!(message.event, *name, "{stream:?}");
        assert_eq!(message.data, lines, "{stream:?}");
        assert_eq!(&*message.id, *id.unwrap_or(&""), "{stream:?}");
    }
}
