//! Events to bytes.

use std::fmt::Write;

/// One block of a stream, ended by an empty line. Absent fields are not written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Event<'a> {
    /// Notes that a reader skips; one comment line for each line.
    pub comment: Option<&'a str>,
    /// Type of the event; absent or empty means `message`.
    pub event: Option<&'a str>,
    /// What a reader sends as `Last-Event-ID` from now on; empty resets it.
    pub id: Option<&'a str>,
    /// How long a reader waits before it reconnects, in milliseconds.
    pub retry_ms: Option<u64>,
    /// The payload. Each kind of line end in it arrives as LF. Without it nothing is
    /// dispatched, though `id` and `retry_ms` take effect.
    pub data: Option<&'a str>,
}

/// A field that the format cannot carry.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// These fields are one line.
    #[error("the {field} of an event has a line end in it: {value:?}")]
    LineEnd {
        /// `event` or `id`.
        field: &'static str,
        /// Its value.
        value: String,
    },
    /// A reader ignores such an id.
    #[error("the id of an event has U+0000 in it: {value:?}")]
    NulInId {
        /// The id.
        value: String,
    },
}

/// Appends `event` to `out`.
///
/// # Errors
/// [`EncodeError`]; `out` is then as it was.
pub fn encode_event(event: &Event<'_>, out: &mut String) -> Result<(), EncodeError> {
    for (field, value) in [("event", event.event), ("id", event.id)] {
        if let Some(value) = value.filter(|value| value.contains(['\r', '\n'])) {
            return Err(EncodeError::LineEnd {
                field,
                value: value.to_owned(),
            });
        }
    }
    if let Some(value) = event.id.filter(|id| id.contains('\0')) {
        return Err(EncodeError::NulInId {
            value: value.to_owned(),
        });
    }
    lines("", event.comment, out);
    field("event", event.event, out);
    field("id", event.id, out);
    if let Some(retry_ms) = event.retry_ms {
        // Writing to a string cannot fail.
        let _ = writeln!(out, "retry: {retry_ms}");
    }
    lines("data", event.data, out);
    out.push('\n');
    Ok(())
}

/// One field line for each line of `value`; an empty one gives one line too.
fn lines(name: &str, value: Option<&str>, out: &mut String) {
    let Some(mut rest) = value else { return };
    loop {
        let end = rest.find(['\r', '\n']).unwrap_or(rest.len());
        let (line, tail) = rest.split_at(end);
        field(name, Some(line), out);
        let next = tail
            .strip_prefix("\r\n")
            .or_else(|| tail.strip_prefix(['\r', '\n']));
        let Some(next) = next else { return };
        rest = next;
    }
}

/// Readers strip one space after the colon, so that values may begin with spaces of their own.
fn field(name: &str, value: Option<&str>, out: &mut String) {
    if let Some(value) = value {
        for part in [name, ": ", value, "\n"] {
            out.push_str(part);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(event: &Event<'_>) -> String {
        let mut out = String::new();
        encode_event(event, &mut out).expect("the event can be written");
        out
    }

    fn data(text: &str) -> String {
        encoded(&Event {
            data: Some(text),
            ..Event::default()
        })
    }

    #[test]
    fn data_is_split_at_every_kind_of_line_end() {
        assert_eq!(data("one"), "data: one\n\n");
        assert_eq!(
            data("a\nb\rc\r\nd"),
            "data: a\ndata: b\ndata: c\ndata: d\n\n"
        );
        assert_eq!(data("a\n\r"), "data: a\ndata: \ndata: \n\n");
        assert_eq!(data("\r\n\r\n"), "data: \ndata: \ndata: \n\n");
    }

    #[test]
    fn empty_data_is_still_an_event_and_leading_spaces_survive() {
        assert_eq!(data(""), "data: \n\n");
        assert_eq!(data("  x: y"), "data:   x: y\n\n");
        // U+2028 is no line end of this format.
        assert_eq!(data("a\u{2028}b"), "data: a\u{2028}b\n\n");
    }

    #[test]
    fn fields_come_in_one_order_and_only_where_given() {
        let event = Event {
            comment: Some("still\nhere"),
            event: Some("error"),
            id: Some("7"),
            retry_ms: Some(1500),
            data: Some("{}"),
        };
        assert_eq!(
            encoded(&event),
            ": still\n: here\nevent: error\nid: 7\nretry: 1500\ndata: {}\n\n"
        );
        let reset = Event {
            id: Some(""),
            ..Event::default()
        };
        assert_eq!(encoded(&reset), "id: \n\n");
        assert_eq!(encoded(&Event::default()), "\n");
    }

    #[test]
    fn rejects_what_one_line_cannot_carry_and_writes_nothing() {
        let mut out = "before".to_owned();
        for (event, id, field) in [
            (Some("a\nb"), None, "event"),
            (Some("a\rb"), None, "event"),
            (None, Some("1\r\n2"), "id"),
        ] {
            let event = Event {
                event,
                id,
                data: Some("x"),
                ..Event::default()
            };
            let error = encode_event(&event, &mut out).expect_err("it has a line end");
            assert!(matches!(error, EncodeError::LineEnd { field: f, .. } if f == field));
        }
        let nul = Event {
            id: Some("a\0"),
            ..Event::default()
        };
        let error = encode_event(&nul, &mut out).expect_err("it has U+0000");
        assert_eq!(
            error,
            EncodeError::NulInId {
                value: "a\0".to_owned()
            }
        );
        assert_eq!(out, "before");
    }
}
