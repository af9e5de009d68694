//! Keeps text that users wrote from becoming control tokens on its way through a template.
//!
//! A template may trim, split or upper-case what it is given, so positions of content in the
//! rendered prompt cannot be foretold. Instead, each character of the content that could be the
//! first or last of a control token (mostly `<` and `>`) goes in as a private-use stand-in and
//! is put back afterwards. Where a stand-in came out, text is content: no control token may
//! cover that place. Since a control token must start and end in template text, the name of one
//! in a message stays plain text, whatever the template did to the message.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::error::TemplateError;

/// Supplementary Private Use Area-B: no assigned character is there, none has case or width.
const STAND_INS: std::ops::RangeInclusive<char> = '\u{100000}'..='\u{10FFFD}';
/// Only literals that short and that many are looked for in content.
const MAX_LITERAL_BYTES: usize = 64;
const MAX_LITERALS: usize = 256;
/// A real template has some hundred quotes.
const MAX_QUOTES: usize = 8192;

/// A part of a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// The text.
    pub text: String,
    /// Whether the text of a control token in it stands for that token.
    pub special: bool,
}

/// Stand-ins for the characters at the edges of control tokens.
pub(super) struct Guard {
    stand_ins: BTreeMap<char, char>,
    originals: BTreeMap<char, char>,
    controls: Vec<String>,
}

/// The first and last characters of all `controls`.
pub(super) fn edges<'a>(controls: impl Iterator<Item = &'a str>) -> BTreeSet<char> {
    controls
        .flat_map(|text| text.chars().next().into_iter().chain(text.chars().last()))
        .collect()
}

impl Guard {
    /// Chooses stand-ins for `edges` that occur in none of `texts`.
    pub(super) fn new<'a>(
        edges: &BTreeSet<char>,
        controls: impl Iterator<Item = &'a str>,
        texts: &[&str],
    ) -> Result<Self, TemplateError> {
        let used: BTreeSet<char> = texts
            .iter()
            .flat_map(|t| t.chars())
            .filter(|c| STAND_INS.contains(c))
            .collect();
        let mut free = STAND_INS.filter(|c| !used.contains(c));
        let mut stand_ins = BTreeMap::new();
        for edge in edges {
            stand_ins.insert(*edge, free.next().ok_or(TemplateError::NoFreeCharacters)?);
        }
        let originals = stand_ins
            .iter()
            .map(|(edge, stand_in)| (*stand_in, *edge))
            .collect();
        Ok(Self {
            stand_ins,
            originals,
            controls: controls.map(str::to_owned).collect(),
        })
    }

    /// `text` with every edge character replaced.
    pub(super) fn replace_all(&self, text: &str) -> String {
        text.chars()
            .map(|c| self.stand_ins.get(&c).copied().unwrap_or(c))
            .collect()
    }

    /// As [`Guard::replace_all`], except where the text holds one of `literals`: a template that
    /// looks for `</think>` still finds it. The names of control tokens are always replaced.
    pub(super) fn replace_outside(&self, text: &str, literals: &[&str]) -> String {
        let mut keeps = vec![false; text.len()];
        let mut mark = |pattern: &str, haystack: &str, value: bool| {
            let mut from = 0;
            while let Some(at) = haystack.get(from..).and_then(|rest| rest.find(pattern)) {
                keeps[from + at..from + at + pattern.len()].fill(value);
                // The next may overlap this one.
                from += at
                    + haystack[from + at..]
                        .chars()
                        .next()
                        .map_or(1, char::len_utf8);
            }
        };
        for literal in literals {
            mark(literal, text, true);
        }
        // A template may change case, which for ASCII keeps every position.
        let lower = text.to_ascii_lowercase();
        for control in &self.controls {
            mark(&control.to_ascii_lowercase(), &lower, false);
        }
        text.char_indices()
            .map(|(at, c)| {
                if keeps[at] {
                    c
                } else {
                    self.stand_ins.get(&c).copied().unwrap_or(c)
                }
            })
            .collect()
    }

    /// String literals of a template that hold an edge character and no part of a control token.
    pub(super) fn literals<'a>(&self, source: &'a str) -> Vec<&'a str> {
        let mut literals = BTreeSet::new();
        for quote in ['\'', '"'] {
            // Which side of a quote is inside cannot be told without parsing: take both.
            for part in source.split(quote).take(MAX_QUOTES) {
                let fits = part.len() <= MAX_LITERAL_BYTES
                    && part.chars().any(|c| self.stand_ins.contains_key(&c))
                    && !self
                        .controls
                        .iter()
                        .any(|c| c.contains(part) || part.contains(&**c));
                if fits && literals.len() < MAX_LITERALS {
                    literals.insert(part);
                }
            }
        }
        literals.into_iter().collect()
    }

    /// `rendered` with the original characters back.
    pub(super) fn restore(&self, rendered: &str) -> String {
        rendered
            .chars()
            .map(|c| self.originals.get(&c).copied().unwrap_or(c))
            .collect()
    }

    /// Cuts `rendered` at stand-ins, with the original characters back.
    pub(super) fn segments(&self, rendered: &str) -> Vec<Segment> {
        let mut segments: Vec<Segment> = Vec::new();
        for c in rendered.chars() {
            let original = self.originals.get(&c).copied();
            let special = original.is_none();
            let c = original.unwrap_or(c);
            match segments.last_mut() {
                Some(last) if last.special == special => last.text.push(c),
                _ => segments.push(Segment {
                    text: c.into(),
                    special,
                }),
            }
        }
        segments
    }
}

/// Calls `change` on every string value inside `value`; keys stay.
pub(super) fn map_strings(value: &Value, change: &dyn Fn(&str) -> String) -> Value {
    match value {
        Value::String(text) => Value::String(change(text)),
        Value::Array(items) => items.iter().map(|item| map_strings(item, change)).collect(),
        Value::Object(map) => Value::Object(
            map.iter()
                .map(|(key, item)| (key.clone(), map_strings(item, change)))
                .collect(),
        ),
        other => other.clone(),
    }
}

/// Appends all string values inside `value` to `out`.
pub(super) fn strings<'a>(value: &'a Value, out: &mut Vec<&'a str>) {
    match value {
        Value::String(text) => out.push(text),
        Value::Array(items) => items.iter().for_each(|item| strings(item, out)),
        Value::Object(map) => map.values().for_each(|item| strings(item, out)),
        _ => {}
    }
}

/// Whether lists and objects inside `value` have more levels than `levels`.
pub(super) fn nests_deeper(value: &Value, levels: usize) -> bool {
    let Some(below) = levels.checked_sub(1) else {
        return matches!(value, Value::Array(_) | Value::Object(_));
    };
    match value {
        Value::Array(items) => items.iter().any(|item| nests_deeper(item, below)),
        Value::Object(map) => map.values().any(|item| nests_deeper(item, below)),
        _ => false,
    }
}
