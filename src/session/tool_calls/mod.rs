//! Tool calls in the text of an answer, found while it streams.
//!
//! ```text
//! text ─► ToolParser ─► text outside of calls
//!             └─► a reader of the format ─► ToolCallDelta: id and name, then pieces of arguments
//! ```
//!
//! Text outside of calls passes at once, as far as it cannot begin a call. A call is held back
//! until it names a known tool; from there its arguments pass as they come. What turns out to
//! be no call, or ends too early, becomes text again, from its opening on: a call of which
//! parts were given already stays incomplete then.

mod format;
mod json_calls;
mod json_syntax;
mod keywords;
mod literal;
mod named;
mod parser;
#[cfg(test)]
mod tests;

pub use format::ToolFormat;
pub use parser::{Parsed, ToolParser};

use serde::Serialize;

/// A part of a tool call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolCallDelta {
    /// Which call of the answer, from 0.
    pub index: usize,
    /// What the tool's answer refers to.
    pub id: String,
    /// The tool, in the first part of a call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What this part adds to the arguments, a JSON object without whitespace between its parts.
    pub arguments_delta: String,
}

/// What a reader found.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Event {
    /// A call of a tool begins.
    Begin(String),
    /// More of its arguments.
    Arguments(String),
    /// It is complete.
    End,
}

/// How a reader goes on after a character.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    More,
    /// All calls of the opening are complete.
    Done,
    /// They were so before this character.
    DoneBefore,
    /// This is no call.
    Broken,
}

fn knows(names: &[String], name: &str) -> bool {
    names.iter().any(|known| known == name)
}

fn add_argument(out: &mut Vec<Event>, c: char) {
    add_arguments(out, c.encode_utf8(&mut [0; 4]));
}

fn add_arguments(out: &mut Vec<Event>, text: &str) {
    match out.last_mut() {
        Some(Event::Arguments(arguments)) => arguments.push_str(text),
        _ => out.push(Event::Arguments(text.to_owned())),
    }
}
