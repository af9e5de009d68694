//! Event streams, as a server writes them and a client reads them: megabytes and events a second,
//! whatever the pieces.
//!
//! What comes out is compared with what went in first.

mod common;

use common::{least_seconds, line, rate};
use tokenbrook::sse::{Event, Item, Parser, encode_event};

const EVENTS: usize = 20_000;

/// Longest of anything that a parser keeps.
const LIMIT: usize = 1 << 20;

/// Sizes of the pieces that a stream comes in, bytes.
const PIECES: [usize; 4] = [7, 64, 1400, 65_536];

/// Data of a chunk of an answer.
fn data(index: usize) -> String {
    format!(r#"{{"choices":[{{"index":0,"delta":{{"content":" token {index} é"}}}}]}}"#)
}

fn encoded() -> String {
    let mut text = String::new();
    for index in 0..EVENTS {
        let (data, id) = (data(index), index.to_string());
        let event = Event {
            id: Some(&id),
            data: Some(&data),
            ..Event::default()
        };
        encode_event(&event, &mut text).expect("it has no line break where none may be");
    }
    text
}

/// Calls back with the data of each message.
fn parse(stream: &[u8], piece: usize, mut message: impl FnMut(&str)) {
    let mut parser = Parser::new(LIMIT, false);
    for mut piece in stream.chunks(piece) {
        while !piece.is_empty() {
            let (read, item) = parser.read(piece).expect("no event is too large");
            piece = &piece[read..];
            if let Some(Item::Event(found)) = item {
                message(&found.data);
            }
        }
    }
}

fn main() {
    let text = encoded();
    let megabytes = text.len() as f64 / 1e6;
    let head: [&dyn std::fmt::Display; 2] = [&"MB/s", &"events/s"];
    line("event streams", &head);
    let rates = |seconds: f64| [megabytes / seconds, EVENTS as f64 / seconds].map(rate);
    for piece in PIECES {
        let mut index = 0;
        parse(text.as_bytes(), piece, |found| {
            assert_eq!(found, data(index), "event {index}");
            index += 1;
        });
        assert_eq!(index, EVENTS);
        let seconds = least_seconds(|| {
            let mut bytes = 0;
            parse(text.as_bytes(), piece, |data| bytes += data.len());
            assert!(bytes > 0);
        });
        let [bytes, events] = rates(seconds);
        line(&format!("parse, pieces of {piece}"), &[&bytes, &events]);
    }
    let seconds = least_seconds(|| assert_eq!(encoded().len(), text.len()));
    let [bytes, events] = rates(seconds);
    line("encode", &[&bytes, &events]);
}
