//! Calls that are a name and a JSON object.

use super::json_syntax::{Char, JsonSyntax};
use super::{Event, Status, knows};

/// What may stand between the name and the arguments, each once and in this order. The id is
/// one of the model's own choice.
const CALL_ID: &str = "[CALL_ID]";
const ARGS: &str = "[ARGS]";

/// `name[ARGS]{…}`, `name[CALL_ID]id[ARGS]{…}` or `name{…}`: Mistral from its eleventh
/// tokenizer on.
#[derive(Clone, Debug)]
pub(super) struct NamedCall {
    /// All before the arguments.
    head: String,
    arguments: Option<JsonSyntax>,
}

impl NamedCall {
    pub(super) fn new() -> Self {
        Self {
            head: String::new(),
            arguments: None,
        }
    }

    pub(super) fn push(&mut self, c: char, names: &[String], out: &mut Vec<Event>) -> Status {
        let Some(syntax) = &mut self.arguments else {
            return self.in_head(c, names, out);
        };
        match syntax.push(c) {
            None => return Status::Broken,
            Some(Char::Blank) => {}
            Some(_) => super::add_argument(out, c),
        }
        if syntax.depth() > 0 {
            return Status::More;
        }
        out.push(Event::End);
        Status::Done
    }

    fn in_head(&mut self, c: char, names: &[String], out: &mut Vec<Event>) -> Status {
        if c != '{' {
            self.head.push(c);
            return if may_begin(&self.head, names) {
                Status::More
            } else {
                Status::Broken
            };
        }
        let head = self.head.trim_end();
        let head = head.strip_suffix(ARGS).unwrap_or(head);
        let name = head.split_once(CALL_ID).map_or(head, |(name, _)| name);
        let name = name.trim();
        if !knows(names, name) {
            return Status::Broken;
        }
        let mut syntax = JsonSyntax::new();
        syntax.push(c);
        self.arguments = Some(syntax);
        out.push(Event::Begin(name.to_owned()));
        super::add_argument(out, c);
        Status::More
    }
}

/// Whether a call can go on from here: else much text would be held back for nothing.
fn may_begin(head: &str, names: &[String]) -> bool {
    let head = head.trim_start();
    let Some(end) = head.find(|c: char| c == '[' || c.is_whitespace()) else {
        return names.iter().any(|name| name.starts_with(head));
    };
    let (name, rest) = head.split_at(end);
    let rest = rest.trim();
    let begins = |rest: &str, marker: &str| marker.starts_with(rest) || rest == marker;
    knows(names, name)
        && match rest.strip_prefix(CALL_ID) {
            None => begins(rest, ARGS) || CALL_ID.starts_with(rest),
            Some(id) => match id.find('[') {
                None => id.len() <= 64,
                Some(end) => begins(&id[end..], ARGS),
            },
        }
}
