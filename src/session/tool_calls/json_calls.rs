//! Calls that are JSON objects, or a list of them.

use serde_json::Value;

use super::json_syntax::{Char, JsonSyntax};
use super::{Event, Status, knows};

/// `{"name": …, "arguments": {…}}`, which some wrap as `{"function": …}`, and lists of it.
///
/// Where the name comes first, the arguments pass as they come, and the call is complete with
/// them. Other orders, and arguments
/// within a string, wait for the call's end.
#[derive(Clone, Debug)]
pub(super) struct JsonCalls {
    syntax: JsonSyntax,
    has_lists: bool,
    /// The depth within a call: 2 in a list.
    base: usize,
    /// The same within `function`.
    level: usize,
    /// The text of the current call, up to where its arguments pass by themselves.
    raw: String,
    /// Where the string began that is being read at the call's own level.
    string: Option<usize>,
    key: String,
    name: Option<String>,
    arguments: Arguments,
    calls: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Arguments {
    Unseen,
    Passing,
    Passed,
}

impl JsonCalls {
    pub(super) fn new(has_lists: bool) -> Self {
        Self {
            syntax: JsonSyntax::new(),
            has_lists,
            base: 1,
            level: 1,
            raw: String::new(),
            string: None,
            key: String::new(),
            name: None,
            arguments: Arguments::Unseen,
            calls: 0,
        }
    }

    pub(super) fn push(&mut self, c: char, names: &[String], out: &mut Vec<Event>) -> Status {
        let before = self.syntax.depth();
        let Some(kind) = self.syntax.push(c) else {
            return Status::Broken;
        };
        let depth = self.syntax.depth();
        if before < self.base {
            return self.outside(c, depth);
        }
        let is_passing = self.arguments == Arguments::Passing;
        if is_passing && kind != Char::Blank {
            super::add_argument(out, c);
        }
        if is_passing && depth == self.level {
            self.arguments = Arguments::Passed;
            out.push(Event::End);
        }
        if self.arguments == Arguments::Unseen {
            let start = self.raw.len();
            self.raw.push(c);
            if !self.inside(c, kind, start, (before, depth), names, out) {
                return Status::Broken;
            }
        }
        if depth < self.base {
            return self.end_call(names, out);
        }
        Status::More
    }

    /// Takes what is not within a call.
    fn outside(&mut self, c: char, depth: usize) -> Status {
        match c {
            '{' => {
                self.raw.clear();
                self.raw.push(c);
                (self.name, self.string, self.level) = (None, None, self.base);
                self.arguments = Arguments::Unseen;
            }
            '[' if depth == 1 && self.has_lists => self.base = 2,
            ']' if self.calls > 0 => return Status::Done,
            ',' | ' ' | '\n' | '\r' | '\t' => {}
            _ => return Status::Broken,
        }
        Status::More
    }

    /// Follows names and the beginning of arguments; false for a tool that is not known.
    fn inside(
        &mut self,
        c: char,
        kind: Char,
        start: usize,
        (before, depth): (usize, usize),
        names: &[String],
        out: &mut Vec<Event>,
    ) -> bool {
        if before < self.level {
            // Behind a wrapper that held the call.
            return true;
        }
        if depth == self.level + 1 && c == '{' && before == self.level && self.string.is_none() {
            match (self.key.as_str(), &self.name) {
                ("function", None) => self.level += 1,
                ("arguments" | "parameters", Some(name)) => {
                    out.push(Event::Begin(name.clone()));
                    super::add_argument(out, c);
                    self.arguments = Arguments::Passing;
                }
                _ => {}
            }
            return true;
        }
        if depth != self.level {
            return true;
        }
        match (kind, self.string) {
            (Char::Part, None) if c == '"' => self.string = Some(start),
            (Char::KeyEnd | Char::StringEnd, Some(from)) => {
                self.string = None;
                let text = self.raw.get(from..).unwrap_or_default();
                // Surrogates that stand alone make no text.
                let Ok(text) = serde_json::from_str::<String>(text) else {
                    return false;
                };
                if kind == Char::KeyEnd {
                    self.key = text;
                } else if self.key == "name" {
                    let known = knows(names, &text);
                    self.name = Some(text);
                    return known;
                }
            }
            _ => {}
        }
        true
    }

    fn end_call(&mut self, names: &[String], out: &mut Vec<Event>) -> Status {
        if self.arguments == Arguments::Unseen {
            let call = serde_json::from_str(&self.raw).ok();
            let Some((name, arguments)) = call.and_then(|call| read_call(&call, names)) else {
                return Status::Broken;
            };
            out.extend([Event::Begin(name), Event::Arguments(arguments), Event::End]);
        }
        self.calls += 1;
        self.raw.clear();
        if self.base == 1 {
            Status::Done
        } else {
            Status::More
        }
    }
}

/// Name and arguments of a call that is complete.
fn read_call(call: &Value, names: &[String]) -> Option<(String, String)> {
    let function = call.get("function").filter(|f| f.is_object());
    let call = function.unwrap_or(call);
    let name = call.get("name")?.as_str()?;
    if !knows(names, name) {
        return None;
    }
    let arguments = call.get("arguments").or_else(|| call.get("parameters"));
    let arguments = match arguments {
        None | Some(Value::Null) => "{}".to_owned(),
        Some(Value::Object(object)) => serde_json::to_string(object).ok()?,
        // Some write the object as OpenAI does, as JSON within a string.
        Some(Value::String(text)) => {
            let object: serde_json::Map<String, Value> = serde_json::from_str(text).ok()?;
            serde_json::to_string(&object).ok()?
        }
        Some(_) => return None,
    };
    Some((name.to_owned(), arguments))
}
