//! Bytes to events.
//!
//! The parser reads bytes, not text: no line end, colon or space is part of a longer UTF-8
//! sequence, so lines are cut first and decoded when they are whole. Every byte is looked at
//! once and copied at most once; of a line that means nothing nothing is kept.
//!
//! ```text
//! line start ──name──► name ──:──► value of data     ► appended to the event's data
//!     │                  │                event, id, retry ► kept to the end of the line
//!     │                  │                comment    ► kept, if comments are wanted
//!     └──── CR, LF, CRLF ┴────────────────anything   ► skipped
//! ```

use std::mem;
use std::rc::Rc;

const BOM: [u8; 3] = [0xEF, 0xBB, 0xBF];

/// The longest field name that means something.
const LONGEST_NAME: usize = 5;

/// Bytes kept of one unfinished event when nothing else is asked for.
pub const DEFAULT_MAX_BUFFER_BYTES: usize = 64 << 20;

/// What a stream says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// An event, at its empty line.
    Event(Message),
    /// A comment line, without its colon and one space after that.
    Comment(String),
    /// How long to wait before a reconnection, in milliseconds; takes effect at once.
    Retry(u64),
}

/// A dispatched event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// `message` where the stream names none.
    pub event: String,
    /// The data lines, joined with LF.
    pub data: String,
    /// The last id of the stream so far, which may be an earlier event's; empty without one.
    pub id: Rc<str>,
}

/// An unfinished event beyond the limit; the parser reads nothing more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an event of the stream takes more than {limit} bytes")]
pub struct TooLarge {
    /// The most that is kept.
    pub limit: usize,
}

/// Reads an event stream as the HTML standard says, in pieces of any size.
#[derive(Clone, Debug)]
pub struct Parser {
    limit: usize,
    keeps_comments: bool,
    too_large: bool,
    /// Bytes of the byte order mark seen at the start; `None` once the start is over.
    bom: Option<usize>,
    /// The last line ended with CR: an LF that follows belongs to it.
    after_cr: bool,
    place: Place,
    name: Name,
    /// A value that takes effect at the end of its line.
    value: Vec<u8>,
    data: Vec<u8>,
    event: Vec<u8>,
    id: Rc<str>,
    last_event_id: Rc<str>,
}

/// Where in a line the parser is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Name,
    /// After the colon: one space is not part of the value.
    Space(Field),
    Value(Field),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Data,
    Event,
    Id,
    Retry,
    Comment,
    Ignored,
}

/// The start of a field name; one byte more than the longest tells that it is none.
#[derive(Clone, Copy, Debug, Default)]
struct Name {
    bytes: [u8; LONGEST_NAME + 1],
    length: usize,
}

impl Name {
    fn extend(&mut self, bytes: &[u8]) {
        for (place, byte) in self.bytes.iter_mut().skip(self.length).zip(bytes) {
            *place = *byte;
            self.length = self.length.saturating_add(1);
        }
    }

    fn field(&self) -> Field {
        match self.bytes.get(..self.length) {
            Some(b"data") => Field::Data,
            Some(b"event") => Field::Event,
            Some(b"id") => Field::Id,
            Some(b"retry") => Field::Retry,
            _ => Field::Ignored,
        }
    }
}

impl Parser {
    /// A parser at the start of a stream, which keeps at most `limit` bytes of an unfinished
    /// event, and gives comments only if `keeps_comments`.
    #[must_use]
    pub fn new(limit: usize, keeps_comments: bool) -> Self {
        let none: Rc<str> = Rc::from("");
        Self {
            limit,
            keeps_comments,
            too_large: false,
            bom: Some(0),
            after_cr: false,
            place: Place::Name,
            name: Name::default(),
            value: Vec::new(),
            data: Vec::new(),
            event: Vec::new(),
            id: Rc::clone(&none),
            last_event_id: none,
        }
    }

    /// The id that a reconnection sends; unlike [`Message::id`] it also tells of blocks that
    /// had an id and no data.
    #[must_use]
    pub fn last_event_id(&self) -> &Rc<str> {
        &self.last_event_id
    }

    /// Reads up to the next item, or all of `input` if none ends in it; gives how many bytes
    /// were read.
    ///
    /// # Errors
    /// [`TooLarge`], again at every later call.
    pub fn read(&mut self, input: &[u8]) -> Result<(usize, Option<Item>), TooLarge> {
        if self.too_large {
            return Err(TooLarge { limit: self.limit });
        }
        let mut rest = self.skip_bom(input);
        while let Some(&first) = rest.first() {
            if mem::take(&mut self.after_cr) && first == b'\n' {
                rest = rest.get(1..).unwrap_or_default();
                continue;
            }
            let (after, item) = self.read_part(rest)?;
            rest = after;
            if item.is_some() {
                return Ok((input.len().saturating_sub(rest.len()), item));
            }
        }
        Ok((input.len(), None))
    }

    /// The stream is over: drops an unfinished event. The next byte starts a new stream.
    pub fn end(&mut self) {
        let last_event_id = Rc::clone(&self.last_event_id);
        *self = Self {
            last_event_id,
            ..Self::new(self.limit, self.keeps_comments)
        };
    }

    /// What follows a byte order mark at the start of the stream, however it is cut.
    fn skip_bom<'a>(&mut self, input: &'a [u8]) -> &'a [u8] {
        let Some(mut seen) = self.bom else {
            return input;
        };
        for (at, byte) in input.iter().enumerate() {
            if BOM.get(seen) != Some(byte) {
                self.bom = None;
                // Not a mark after all, but the start of a line's name.
                if seen < BOM.len() {
                    self.name.extend(BOM.get(..seen).unwrap_or_default());
                }
                return input.get(at..).unwrap_or_default();
            }
            seen = seen.saturating_add(1);
        }
        self.bom = Some(seen);
        &[]
    }

    /// Reads a name, a value, or as much of it as is there, and the line end that follows.
    fn read_part<'a>(&mut self, rest: &'a [u8]) -> Result<(&'a [u8], Option<Item>), TooLarge> {
        if let Place::Space(field) = self.place {
            self.place = Place::Value(field);
            if let Some(after) = rest.strip_prefix(b" ") {
                return Ok((after, None));
            }
        }
        let in_name = self.place == Place::Name;
        let end = rest
            .iter()
            .position(|&byte| byte == b'\n' || byte == b'\r' || (in_name && byte == b':'))
            .unwrap_or(rest.len());
        let (part, rest) = rest.split_at(end);
        match self.place {
            Place::Value(field) => self.keep(field, part)?,
            _ => self.name.extend(part),
        }
        let Some((&mark, after)) = rest.split_first() else {
            return Ok((rest, None));
        };
        if mark == b':' {
            self.place = Place::Space(self.field_before_colon());
            return Ok((after, None));
        }
        self.after_cr = mark == b'\r';
        Ok((after, self.end_line()?))
    }

    fn field_before_colon(&self) -> Field {
        match self.name.length {
            0 if self.keeps_comments => Field::Comment,
            0 => Field::Ignored,
            _ => self.name.field(),
        }
    }

    fn keep(&mut self, field: Field, part: &[u8]) -> Result<(), TooLarge> {
        if field == Field::Ignored {
            return Ok(());
        }
        let kept = self.data.len().saturating_add(self.event.len());
        let kept = kept.saturating_add(self.value.len());
        if kept.saturating_add(part.len()) > self.limit {
            self.too_large = true;
            (self.value, self.data, self.event) = Default::default();
            return Err(TooLarge { limit: self.limit });
        }
        if field == Field::Data {
            self.data.extend_from_slice(part);
        } else {
            self.value.extend_from_slice(part);
        }
        Ok(())
    }

    fn end_line(&mut self) -> Result<Option<Item>, TooLarge> {
        let name = mem::take(&mut self.name);
        let field = match mem::replace(&mut self.place, Place::Name) {
            Place::Name if name.length == 0 => return Ok(self.dispatch()),
            // A line without a colon is a name with an empty value.
            Place::Name => name.field(),
            Place::Space(field) | Place::Value(field) => field,
        };
        if field == Field::Data {
            self.keep(field, b"\n")?;
        }
        let value = mem::take(&mut self.value);
        match field {
            Field::Event => self.event = value,
            Field::Id if !value.contains(&0) => self.id = Rc::from(text(value)),
            Field::Retry => return Ok(milliseconds(&value).map(Item::Retry)),
            Field::Comment => return Ok(Some(Item::Comment(text(value)))),
            Field::Data | Field::Id | Field::Ignored => {}
        }
        Ok(None)
    }

    fn dispatch(&mut self) -> Option<Item> {
        self.last_event_id = Rc::clone(&self.id);
        let event = mem::take(&mut self.event);
        let mut data = mem::take(&mut self.data);
        // The last LF; without one there was no data line.
        data.pop()?;
        let event = match text(event) {
            name if name.is_empty() => "message".to_owned(),
            name => name,
        };
        Some(Item::Event(Message {
            event,
            data: text(data),
            id: Rc::clone(&self.last_event_id),
        }))
    }
}

/// Decodes as the Encoding standard does: each maximal broken part becomes U+FFFD.
fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

/// Digits and nothing else; beyond what a `u64` holds its largest value.
fn milliseconds(value: &[u8]) -> Option<u64> {
    if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(value.iter().fold(0u64, |ms, digit| {
        let digit = u64::from(digit.saturating_sub(b'0'));
        ms.saturating_mul(10).saturating_add(digit)
    }))
}
