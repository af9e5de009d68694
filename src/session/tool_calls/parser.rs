//! Separates text from calls.

use super::format::{Reader, ToolFormat};
use super::{Event, Status, ToolCallDelta};
use crate::session::random::uniform;

/// Openings that may turn out to be none before the rest of an answer is taken as text: each
/// costs another look at what follows it.
const MAX_FALSE_OPENINGS: usize = 64;

/// Characters of an id, as Mistral's templates want them.
const ID_LENGTH: u64 = 9;
const ID_ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// What a piece of text led to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parsed {
    /// What belongs to no call.
    pub text: String,
    /// Parts of calls, in their order.
    pub calls: Vec<ToolCallDelta>,
}

/// Separates text from calls, whatever pieces an answer comes in.
#[derive(Clone, Debug)]
pub struct ToolParser {
    format: ToolFormat,
    names: Vec<String>,
    /// Makes ids differ between answers.
    seed: u64,
    begun: usize,
    complete: usize,
    false_openings: usize,
    /// What is not decided yet: from the opening, or the last complete call behind it.
    held: String,
    state: State,
}

#[derive(Clone, Debug)]
enum State {
    Text {
        /// Only whitespace came since the answer's start or the last call.
        fresh: bool,
    },
    /// An opening, and what it may open.
    Opened {
        length: usize,
        close: Option<&'static str>,
        is_bare: bool,
    },
    Call(Call),
    /// The calls are complete; this may follow.
    Close(&'static str),
}

#[derive(Clone, Debug)]
struct Call {
    reader: Reader,
    close: Option<&'static str>,
    /// Bytes of the held text that are text again if no more calls follow.
    length: usize,
    /// How far the held text was read.
    at: usize,
}

impl ToolParser {
    /// Reads calls of the tools that have these names. `seed` makes ids.
    #[must_use]
    pub fn new(format: ToolFormat, names: Vec<String>, seed: u64) -> Self {
        Self {
            format,
            names,
            seed,
            begun: 0,
            complete: 0,
            false_openings: 0,
            held: String::new(),
            state: State::Text { fresh: true },
        }
    }

    /// Calls that are complete.
    #[must_use]
    pub fn complete(&self) -> usize {
        self.complete
    }

    pub(in crate::session) fn is_marker(&self, text: &[u8]) -> bool {
        self.format.is_marker(text)
    }

    pub(in crate::session) fn is_end(&self, text: &[u8]) -> bool {
        self.format.is_end(text)
    }

    /// Takes a piece of the answer.
    pub fn push(&mut self, piece: &str) -> Parsed {
        self.held.push_str(piece);
        self.run(false)
    }

    /// Gives what was held back, at the end of the answer.
    pub fn finish(&mut self) -> Parsed {
        self.run(true)
    }

    fn run(&mut self, is_last: bool) -> Parsed {
        let mut out = Parsed::default();
        while self.step(is_last, &mut out) {}
        out
    }

    /// Decides about some of the held text; false when more is needed.
    fn step(&mut self, is_last: bool, out: &mut Parsed) -> bool {
        if self.held.is_empty() {
            return false;
        }
        let state = std::mem::replace(&mut self.state, State::Text { fresh: false });
        match state {
            State::Text { .. } | State::Opened { .. }
                if self.false_openings > MAX_FALSE_OPENINGS =>
            {
                out.text.push_str(&std::mem::take(&mut self.held));
                false
            }
            State::Text { fresh } => self.text(fresh, is_last, out),
            State::Opened {
                length,
                close,
                is_bare,
            } => self.opened((length, close, is_bare), is_last, out),
            State::Call(call) => self.call(call, is_last, out),
            State::Close(close) => self.close(close, is_last),
        }
    }

    fn text(&mut self, fresh: bool, is_last: bool, out: &mut Parsed) -> bool {
        self.state = State::Text { fresh };
        let blank = if fresh { self.blank() } else { 0 };
        if blank == self.held.len() {
            if is_last {
                let held = std::mem::take(&mut self.held);
                out.text
                    .push_str(if self.complete == 0 { &held } else { "" });
            }
            return false;
        }
        if fresh && self.format.is_bare() && self.held[blank..].starts_with(['{', '[']) {
            self.open(blank, None, true);
            return true;
        }
        let markers = self.format.markers().iter();
        let first = markers
            .filter_map(|(open, close)| Some((self.held.find(open)?, open.len(), *close)))
            .min_by_key(|(at, ..)| *at);
        let Some((at, length, close)) = first else {
            let end = if is_last {
                self.held.len()
            } else {
                self.possible_marker()
            };
            // Blanks before what may become a marker wait with it.
            return if end <= blank {
                false
            } else {
                self.emit(end, out)
            };
        };
        let before = if at > blank { at } else { 0 };
        if before > 0 {
            self.emit(before, out);
        }
        self.open(at - before + length, close, false);
        true
    }

    fn open(&mut self, length: usize, close: Option<&'static str>, is_bare: bool) {
        self.state = State::Opened {
            length,
            close,
            is_bare,
        };
    }

    /// Bytes of whitespace, and of what Llama separates calls with, at the start.
    fn blank(&self) -> usize {
        let separates = |c: char| self.complete > 0 && self.format == ToolFormat::Llama && c == ';';
        let rest = self
            .held
            .trim_start_matches(|c: char| c.is_whitespace() || separates(c));
        self.held.len() - rest.len()
    }

    /// Where the longest tail begins that some marker starts with.
    fn possible_marker(&self) -> usize {
        let markers = self.format.markers();
        let longest = markers.iter().map(|(open, _)| open.len()).max();
        let from = self.held.len().saturating_sub(longest.unwrap_or(0));
        (from..self.held.len())
            .filter(|&at| self.held.is_char_boundary(at))
            .find(|&at| {
                let tail = &self.held[at..];
                markers.iter().any(|(open, _)| open.starts_with(tail))
            })
            .unwrap_or(self.held.len())
    }

    /// Shows the first `end` bytes.
    fn emit(&mut self, end: usize, out: &mut Parsed) -> bool {
        let rest = self.held.split_off(end);
        out.text.push_str(&std::mem::replace(&mut self.held, rest));
        self.state = State::Text { fresh: false };
        true
    }

    /// What opened is no call: shows the opening and looks on behind it.
    fn give_back(&mut self, length: usize, out: &mut Parsed) -> bool {
        self.false_openings += 1;
        self.emit(length, out)
    }

    /// Finds out what reads on behind an opening.
    fn opened(
        &mut self,
        (length, close, is_bare): (usize, Option<&'static str>, bool),
        is_last: bool,
        out: &mut Parsed,
    ) -> bool {
        let rest = self.held[length..].trim_start();
        // Something is shown in any case, that the search may go on.
        let shown = length + usize::from(is_bare);
        match self.format.reader(rest, is_bare) {
            Ok(reader) => {
                let at = self.held.len() - rest.len();
                self.state = State::Call(Call {
                    reader,
                    close,
                    length: shown,
                    at,
                });
                true
            }
            Err(true) if !is_last => {
                self.open(length, close, is_bare);
                false
            }
            Err(_) => self.give_back(shown, out),
        }
    }

    fn call(&mut self, mut call: Call, is_last: bool, out: &mut Parsed) -> bool {
        let mut events = Vec::new();
        let rest = self.held.split_off(call.at);
        let mut characters = rest.chars();
        let mut status = Status::More;
        // What is read comes back to the held text, up to where a call is complete.
        while status == Status::More {
            let before = characters.as_str();
            let Some(c) = characters.next() else {
                break;
            };
            status = call.reader.push(c, &self.names, &mut events);
            if status == Status::DoneBefore {
                characters = before.chars();
            } else {
                self.held.push(c);
            }
            if events.last() == Some(&Event::End) {
                self.tell(&mut events, out);
                self.held.clear();
                call.length = 0;
            }
        }
        self.tell(&mut events, out);
        call.at = self.held.len();
        self.held.push_str(characters.as_str());
        match status {
            Status::More if is_last && call.reader.is_complete() => self.done(&call),
            Status::More if !is_last => {
                self.state = State::Call(call);
                false
            }
            Status::Done | Status::DoneBefore => self.done(&call),
            Status::More | Status::Broken if call.length == 0 => {
                // All that was held were calls: what follows is looked at as after any call.
                self.false_openings += 1;
                self.state = State::Text { fresh: true };
                true
            }
            Status::More | Status::Broken => self.give_back(call.length, out),
        }
    }

    /// Drops the calls' text.
    fn done(&mut self, call: &Call) -> bool {
        self.held.drain(..call.at);
        self.state = match call.close {
            Some(close) => State::Close(close),
            None => State::Text { fresh: true },
        };
        true
    }

    /// Drops what closes the calls, if it follows. An answer may end before it, or within it.
    fn close(&mut self, close: &'static str, is_last: bool) -> bool {
        self.state = State::Text { fresh: true };
        let rest = self.held.trim_start();
        if rest.starts_with(close) {
            let end = self.held.len() - rest.len() + close.len();
            self.held.drain(..end);
        } else if close.starts_with(rest) {
            if is_last {
                self.held.clear();
            } else {
                self.state = State::Close(close);
                return false;
            }
        }
        true
    }

    /// Turns a reader's events into parts of calls.
    fn tell(&mut self, events: &mut Vec<Event>, out: &mut Parsed) {
        for event in events.drain(..) {
            match event {
                Event::Begin(name) => {
                    let index = self.begun;
                    self.begun += 1;
                    out.calls.push(ToolCallDelta {
                        index,
                        id: self.id(index),
                        name: Some(name),
                        arguments_delta: String::new(),
                    });
                }
                Event::Arguments(text) => {
                    let index = self.begun.saturating_sub(1);
                    match out.calls.last_mut() {
                        Some(part) if part.index == index => part.arguments_delta.push_str(&text),
                        _ => out.calls.push(ToolCallDelta {
                            index,
                            id: self.id(index),
                            name: None,
                            arguments_delta: text,
                        }),
                    }
                }
                Event::End => self.complete += 1,
            }
        }
    }

    pub(super) fn id(&self, call: usize) -> String {
        let first = ID_LENGTH.saturating_mul(call as u64);
        let digit = |at: u64| {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a number from 0 to below 62"
            )]
            let index = (uniform(self.seed, first + at) * ID_ALPHABET.len() as f64) as usize;
            char::from(*ID_ALPHABET.get(index).unwrap_or(&b'0'))
        };
        (0..ID_LENGTH).map(digit).collect()
    }
}
