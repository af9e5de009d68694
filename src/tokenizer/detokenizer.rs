//! Bytes of tokens to text, without ever breaking a character.

/// Turns the bytes of successive tokens into text.
///
/// A character may be spread over several tokens, so an incomplete one at the end is held back
/// until it is whole (at most three bytes). Bytes that are no UTF-8 become U+FFFD as in
/// [`String::from_utf8_lossy`]: all output together equals that of all input together.
#[derive(Debug, Clone, Default)]
pub struct Detokenizer {
    /// The start of a character, at most three bytes between calls.
    held: Vec<u8>,
}

impl Detokenizer {
    /// A detokenizer that holds nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next bytes and gives the text that they complete.
    pub fn push(&mut self, bytes: &[u8]) -> String {
        let mut text = String::with_capacity(self.held.len() + bytes.len());
        if self.held.is_empty() {
            let rest = decode(bytes, &mut text);
            self.held.extend_from_slice(rest);
        } else {
            self.held.extend_from_slice(bytes);
            let rest = decode(&self.held, &mut text).len();
            let used = self.held.len() - rest;
            self.held.drain(..used);
            // A long token may have grown the buffer; only a tail is kept.
            self.held.shrink_to(4);
        }
        text
    }

    /// Ends the text: an incomplete character that is still held becomes one U+FFFD.
    pub fn finish(&mut self) -> String {
        let text = if self.held.is_empty() {
            String::new()
        } else {
            '\u{FFFD}'.to_string()
        };
        self.held.clear();
        text
    }

    /// True while the start of a character is held back.
    pub fn is_holding(&self) -> bool {
        !self.held.is_empty()
    }
}

/// Appends what `bytes` say to `text`; returns the incomplete character at the end.
fn decode<'a>(mut bytes: &'a [u8], text: &mut String) -> &'a [u8] {
    loop {
        let error = match std::str::from_utf8(bytes) {
            Ok(valid) => {
                text.push_str(valid);
                return &[];
            }
            Err(error) => error,
        };
        let (valid, rest) = bytes.split_at(error.valid_up_to());
        text.push_str(&String::from_utf8_lossy(valid));
        match error.error_len() {
            None => return rest,
            Some(length) => {
                text.push('\u{FFFD}');
                bytes = &rest[length..];
            }
        }
    }
}
