//! The parser of event streams: every case by name, every split, and random bytes against a
//! plain reading of the standard.

mod fields;
mod limits;
mod lines;
mod naive;
mod random;
mod text;

use tokenbrook::sse::{DEFAULT_MAX_BUFFER_BYTES, Item, Message, Parser};

/// Everything that a parser with comments gives for these pieces.
fn items<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<Item> {
    let mut parser = Parser::new(DEFAULT_MAX_BUFFER_BYTES, true);
    let mut items = Vec::new();
    for piece in pieces {
        push(&mut parser, piece, &mut items);
    }
    parser.end();
    items
}

/// Reads a piece to its end.
fn push(parser: &mut Parser, mut piece: &[u8], items: &mut Vec<Item>) {
    loop {
        let (read, item) = parser.read(piece).expect("it fits the limit");
        piece = &piece[read..];
        match item {
            Some(item) => items.push(item),
            None => break,
        }
    }
    assert!(
        piece.is_empty(),
        "a piece without a further item is read whole"
    );
}

/// The same of a stream in one piece, after a check that no cut into pieces changes it: at
/// every byte, at every pair of bytes, and into single bytes.
fn whole(stream: impl AsRef<[u8]>) -> Vec<Item> {
    let stream = stream.as_ref();
    let whole = items([stream]);
    assert_eq!(items(stream.chunks(1)), whole, "byte by byte");
    // Pairs of cuts are as many as the square of the length.
    let pairs = stream.len() <= 120;
    for first in 0..=stream.len() {
        let (a, rest) = stream.split_at(first);
        assert_eq!(items([a, rest]), whole, "cut at {first}");
        for second in (first..=stream.len()).filter(|_| pairs) {
            let (b, c) = rest.split_at(second - first);
            assert_eq!(items([a, b, c]), whole, "cut at {first} and {second}");
        }
    }
    whole
}

/// Type, data and id of each event; comments and retries are left out.
fn events(stream: impl AsRef<[u8]>) -> Vec<(String, String, String)> {
    let only = whole(stream).into_iter().filter_map(|item| match item {
        Item::Event(Message { event, data, id }) => Some((event, data, id.to_string())),
        _ => None,
    });
    only.collect()
}

/// The data of each event.
fn data(stream: impl AsRef<[u8]>) -> Vec<String> {
    events(stream)
        .into_iter()
        .map(|(_, data, _)| data)
        .collect()
}

/// Numbers from a seed; the same everywhere.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        // splitmix64
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        usize::try_from((z ^ (z >> 31)) % end as u64).expect("it is below `end`")
    }
}
