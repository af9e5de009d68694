//! Calls that are a name and keywords in brackets.

use serde_json::Value;

use super::literal::{self, ESCAPE, Style};
use super::{Event, Status, knows};

/// Where calls stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// `name(key=value)`.
    Single,
    /// `[name(key=value), name()]`.
    List,
    /// One or more, to the end of a fenced block.
    Block,
    /// `call:name{key:value}`: FunctionGemma.
    Gemma,
}

/// Reads calls whose arguments have names; those without, as Python allows them, would need
/// the order that the tool has for them.
#[derive(Clone, Debug)]
pub(super) struct KeywordCalls {
    form: Form,
    state: State,
    /// The tool of a call that has no argument yet.
    pending: Option<String>,
    calls: usize,
}

#[derive(Clone, Debug)]
enum State {
    /// Before a name.
    Before,
    Name(String),
    /// In the brackets, before a key.
    Arguments {
        /// How many came already.
        count: usize,
    },
    Key {
        count: usize,
        key: String,
    },
    Value {
        count: usize,
        key: String,
        text: Text,
    },
    After,
}

/// A value's text so far.
#[derive(Clone, Debug, Default)]
struct Text {
    raw: String,
    depth: usize,
    /// What ends the string that is open; `<` for FunctionGemma's delimiter.
    quote: Option<char>,
    escaped: bool,
}

impl Text {
    /// Whether a character that comes next is the value's own, not what ends it.
    fn is_inner(&self, c: char, close: char) -> bool {
        self.depth > 0 || self.quote.is_some() || (c != ',' && c != close)
    }

    fn push(&mut self, c: char, style: Style) {
        self.raw.push(c);
        match self.quote {
            _ if self.escaped => self.escaped = false,
            Some('<') if c == '>' && self.raw.ends_with(ESCAPE) => self.quote = None,
            Some('<') => {}
            Some(_) if c == '\\' => self.escaped = true,
            Some(quote) if c == quote => self.quote = None,
            Some(_) => {}
            None => self.push_outside(c, style),
        }
    }

    fn push_outside(&mut self, c: char, style: Style) {
        match c {
            '"' | '\'' if style == Style::Python => self.quote = Some(c),
            '>' if style == Style::Gemma && self.raw.ends_with(ESCAPE) => self.quote = Some('<'),
            '(' | '[' | '{' => self.depth += 1,
            ')' | ']' | '}' => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
    }
}

impl KeywordCalls {
    pub(super) fn new(form: Form) -> Self {
        Self {
            form,
            state: State::Before,
            pending: None,
            calls: 0,
        }
    }

    /// Whether nothing is missing where the answer ends.
    pub(super) fn is_complete(&self) -> bool {
        self.form == Form::Block && matches!(self.state, State::After)
    }

    fn style(&self) -> Style {
        match self.form {
            Form::Gemma => Style::Gemma,
            _ => Style::Python,
        }
    }

    /// What opens and closes arguments, and what separates a key from its value.
    fn signs(&self) -> (char, char, char) {
        match self.form {
            Form::Gemma => ('{', '}', ':'),
            _ => ('(', ')', '='),
        }
    }

    pub(super) fn push(&mut self, c: char, names: &[String], out: &mut Vec<Event>) -> Status {
        let (open, close, sign) = self.signs();
        let style = self.style();
        match &mut self.state {
            State::Before | State::After if c.is_whitespace() => {}
            State::Before if c == '[' && self.form == Form::List && self.calls == 0 => {
                // A second bracket makes no name.
                self.state = State::Name(String::new());
            }
            State::Before => {
                self.state = State::Name(String::new());
                return self.push(c, names, out);
            }
            State::Name(name) if name.is_empty() && c.is_whitespace() => {}
            State::Name(name) if c == open => {
                let Some(name) = self.form.tool(name).filter(|name| knows(names, name)) else {
                    return Status::Broken;
                };
                self.pending = Some(name.to_owned());
                self.state = State::Arguments { count: 0 };
            }
            State::Name(name) => {
                name.push(c);
                if !self.form.may_be(name, names) {
                    return Status::Broken;
                }
            }
            State::Arguments { .. } if c.is_whitespace() => {}
            State::Arguments { .. } if c == close => return self.end_call(out),
            State::Arguments { count } => {
                if !is_of_key(c) {
                    return Status::Broken;
                }
                let (count, key) = (*count, String::from(c));
                self.state = State::Key { count, key };
            }
            State::Key { count, key } if c == sign => {
                if let Some(name) = self.pending.take() {
                    begin(name, out);
                }
                self.state = State::Value {
                    count: *count,
                    key: std::mem::take(key),
                    text: Text::default(),
                };
            }
            State::Key { key, .. } => {
                let is_blank = c.is_whitespace();
                if !is_blank && (!is_of_key(c) || key.ends_with(char::is_whitespace)) {
                    return Status::Broken;
                }
                key.push(c);
            }
            State::Value { text, .. } if text.is_inner(c, close) => text.push(c, style),
            State::Value { count, key, text } => {
                let Some(value) = literal::read(&text.raw, style) else {
                    return Status::Broken;
                };
                let comma = if *count > 0 { "," } else { "" };
                let key = Value::from(key.trim_end());
                super::add_arguments(out, &format!("{comma}{key}:{value}"));
                let count = *count + 1;
                self.state = State::Arguments { count };
                if c == close {
                    return self.end_call(out);
                }
            }
            State::After => return self.after(c, names, out),
        }
        Status::More
    }

    fn end_call(&mut self, out: &mut Vec<Event>) -> Status {
        if let Some(name) = self.pending.take() {
            begin(name, out);
        }
        super::add_argument(out, '}');
        out.push(Event::End);
        self.calls += 1;
        self.state = State::After;
        match self.form {
            Form::Single | Form::Gemma => Status::Done,
            Form::List | Form::Block => Status::More,
        }
    }

    fn after(&mut self, c: char, names: &[String], out: &mut Vec<Event>) -> Status {
        match (self.form, c) {
            (Form::List, ',') => {
                self.state = State::Name(String::new());
                Status::More
            }
            (Form::List, ']') => Status::Done,
            (Form::Block, '`') => Status::DoneBefore,
            (Form::Block, _) => {
                self.state = State::Before;
                self.push(c, names, out)
            }
            _ => Status::Broken,
        }
    }
}

impl Form {
    /// The tool that a complete name means.
    fn tool(self, name: &str) -> Option<&str> {
        let name = name.trim_end();
        match self {
            Self::Gemma => name.strip_prefix("call:"),
            _ => Some(name),
        }
    }

    /// Whether a known name begins so.
    fn may_be(self, name: &str, names: &[String]) -> bool {
        let name = match self {
            Self::Gemma if "call:".starts_with(name) => return true,
            _ => self.tool(name),
        };
        name.is_some_and(|name| names.iter().any(|known| known.starts_with(name)))
    }
}

fn begin(name: String, out: &mut Vec<Event>) {
    out.push(Event::Begin(name));
    super::add_argument(out, '{');
}

fn is_of_key(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '$')
}
