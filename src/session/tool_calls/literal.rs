//! Values as Python and FunctionGemma write them, made JSON.

use serde_json::{Map, Number, Value};

/// Levels that are read: each one is a stack frame.
const MAX_DEPTH: usize = 64;

/// What delimits FunctionGemma's strings.
pub(super) const ESCAPE: &str = "<escape>";

/// How strings and keys are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    /// `'a'`, `"a"`, `{'key': 1}`.
    Python,
    /// `<escape>a<escape>`, `{key:1}`.
    Gemma,
}

/// The value that all of `text` is.
pub(super) fn read(text: &str, style: Style) -> Option<Value> {
    let mut reader = Reader { rest: text, style };
    let value = reader.value(MAX_DEPTH)?;
    reader.blanks();
    reader.rest.is_empty().then_some(value)
}

struct Reader<'a> {
    rest: &'a str,
    style: Style,
}

impl<'a> Reader<'a> {
    fn blanks(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn take(&mut self, text: &str) -> bool {
        self.blanks();
        match self.rest.strip_prefix(text) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    /// The longest beginning whose characters fit.
    fn run(&mut self, fits: impl Fn(char) -> bool) -> &'a str {
        self.blanks();
        let end = self.rest.find(|c| !fits(c)).unwrap_or(self.rest.len());
        let (run, rest) = self.rest.split_at(end);
        self.rest = rest;
        run
    }

    fn value(&mut self, levels: usize) -> Option<Value> {
        let levels = levels.checked_sub(1)?;
        self.blanks();
        match self.rest.chars().next()? {
            '[' => self.list("[", "]", levels),
            '(' if self.style == Style::Python => self.list("(", ")", levels),
            '{' => self.object(levels),
            c if c.is_ascii_alphabetic() => match self.run(|c| c.is_ascii_alphanumeric()) {
                "True" | "true" => Some(Value::Bool(true)),
                "False" | "false" => Some(Value::Bool(false)),
                "None" | "none" | "null" => Some(Value::Null),
                _ => None,
            },
            '-' | '+' | '.' | '0'..='9' => {
                number(self.run(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '+' | '.')))
            }
            _ => self.string().map(Value::String),
        }
    }

    fn list(&mut self, open: &str, close: &str, levels: usize) -> Option<Value> {
        let mut values = Vec::new();
        self.take(open);
        loop {
            if self.take(close) {
                return Some(Value::Array(values));
            }
            values.push(self.value(levels)?);
            if !self.take(",") {
                return self.take(close).then_some(Value::Array(values));
            }
        }
    }

    fn object(&mut self, levels: usize) -> Option<Value> {
        let mut entries = Map::new();
        self.take("{");
        loop {
            if self.take("}") {
                return Some(Value::Object(entries));
            }
            self.blanks();
            let key = if self.style == Style::Gemma && !self.rest.starts_with('<') {
                let key = self.run(|c| !matches!(c, ':' | ',' | '{' | '}' | '<'));
                Some(key.trim_end().to_owned()).filter(|key| !key.is_empty())
            } else {
                self.string()
            };
            let key = key?;
            if !self.take(":") {
                return None;
            }
            entries.insert(key, self.value(levels)?);
            if !self.take(",") {
                return self.take("}").then_some(Value::Object(entries));
            }
        }
    }

    fn string(&mut self) -> Option<String> {
        if self.style == Style::Gemma {
            let (text, rest) = self.rest.strip_prefix(ESCAPE)?.split_once(ESCAPE)?;
            self.rest = rest;
            return Some(text.to_owned());
        }
        let quote = self
            .rest
            .chars()
            .next()
            .filter(|c| matches!(c, '"' | '\''))?;
        let mut text = String::new();
        let mut characters = self.rest.get(1..)?.chars();
        loop {
            match characters.next()? {
                c if c == quote => break,
                '\\' => escaped(&mut characters, &mut text)?,
                '\n' => return None,
                c => text.push(c),
            }
        }
        self.rest = characters.as_str();
        Some(text)
    }
}

/// What follows a backslash in a string of Python's.
fn escaped(characters: &mut std::str::Chars<'_>, text: &mut String) -> Option<()> {
    let digits = match characters.next()? {
        'n' => return put(text, '\n'),
        't' => return put(text, '\t'),
        'r' => return put(text, '\r'),
        'b' => return put(text, '\u{8}'),
        'f' => return put(text, '\u{c}'),
        '0' => return put(text, '\0'),
        c @ ('\\' | '\'' | '"') => return put(text, c),
        '\n' => return Some(()),
        'x' => 2,
        'u' => 4,
        'U' => 8,
        c => {
            text.push('\\');
            return put(text, c);
        }
    };
    let rest = characters.as_str();
    let code = u32::from_str_radix(rest.get(..digits)?, 16).ok()?;
    *characters = rest.get(digits..)?.chars();
    put(text, char::from_u32(code)?)
}

fn put(text: &mut String, c: char) -> Option<()> {
    text.push(c);
    Some(())
}

fn number(text: &str) -> Option<Value> {
    if let Ok(Value::Number(number)) = serde_json::from_str(text) {
        return Some(Value::Number(number));
    }
    if !text.contains(|c: char| c.is_ascii_digit()) {
        // Rust reads infinities.
        return None;
    }
    text.parse()
        .ok()
        .and_then(Number::from_f64)
        .map(Value::Number)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pythons_literals_become_json() {
        for (text, want) in [
            ("'it\\'s'", json!("it's")),
            (r#" "a\n\x41\u00e9\U0001f600\d" "#, json!("a\nAé😀\\d")),
            ("-7", json!(-7)),
            ("1.50", json!(1.5)),
            ("+.5", json!(0.5)),
            ("2.", json!(2.0)),
            ("1e3", json!(1000.0)),
            ("[True, False, None,]", json!([true, false, null])),
            ("(1, [2], ())", json!([1, [2], []])),
            ("{'a': {\"b\": []}, }", json!({ "a": { "b": [] } })),
        ] {
            assert_eq!(read(text, Style::Python), Some(want), "{text}");
        }
    }

    #[test]
    fn functiongemmas_values_become_json() {
        for (text, want) in [
            ("<escape>a \"b\", {c}<escape>", json!("a \"b\", {c}")),
            ("{a:1, b:<escape><escape>}", json!({ "a": 1, "b": "" })),
            ("{<escape>a b<escape>:[true]}", json!({ "a b": [true] })),
        ] {
            assert_eq!(read(text, Style::Gemma), Some(want), "{text}");
        }
    }

    #[test]
    fn what_is_no_value_is_none() {
        let deep = "[".repeat(100_000);
        for text in [
            "",
            " ",
            "name",
            "f(1)",
            "'a",
            "'a' 'b'",
            "1 2",
            "inf",
            "nan",
            "1e999",
            "[1",
            "{1: 2}",
            "{'a'}",
            "[,]",
            "'\\ud800'",
            "'\\x4'",
            "'\\xé'",
            "'a\nb'",
            "--1",
            &deep,
        ] {
            assert_eq!(read(text, Style::Python), None, "{text:.9}");
        }
        for text in ["<escape>a", "'a'", "{:1}", "(1)"] {
            assert_eq!(read(text, Style::Gemma), None, "{text}");
        }
    }
}
