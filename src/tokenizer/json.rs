//! The `tojson` filter of chat templates, which is Python's `json.dumps`: no HTML escapes, a
//! space after separators, non-ASCII text as it is.

use minijinja::value::{Kwargs, Value, ValueKind};
use minijinja::{Error, ErrorKind};

/// A value that repeats itself in levels would otherwise write without end.
const MAX_BYTES: usize = 4 << 20;
const MAX_DEPTH: usize = 64;

struct Writer {
    out: String,
    indent: Option<String>,
    item_separator: String,
    key_separator: String,
    ensure_ascii: bool,
    sort_keys: bool,
}

/// `value | tojson(ensure_ascii=false, indent=none, separators=none, sort_keys=false)`.
pub(super) fn tojson(value: &Value, kwargs: Kwargs) -> Result<Value, Error> {
    let indent = match kwargs.get::<Option<Value>>("indent")? {
        None => None,
        Some(value) if value.is_none() || value.is_undefined() => None,
        Some(value) => Some(match value.as_str() {
            Some(text) => text.to_owned(),
            None => " ".repeat(usize::try_from(value).unwrap_or(0).min(16)),
        }),
    };
    let item = if indent.is_some() { "," } else { ", " };
    let mut writer = Writer {
        out: String::new(),
        indent,
        item_separator: item.to_owned(),
        key_separator: ": ".to_owned(),
        ensure_ascii: kwargs.get::<Option<bool>>("ensure_ascii")?.unwrap_or(false),
        sort_keys: kwargs.get::<Option<bool>>("sort_keys")?.unwrap_or(false),
    };
    if let Some(Some([item, key])) = kwargs.get::<Option<Value>>("separators")?.map(pair) {
        (writer.item_separator, writer.key_separator) = (item, key);
    }
    kwargs.assert_all_used()?;
    writer.value(value, 0)?;
    Ok(Value::from(writer.out))
}

/// A JSON value as templates see it.
pub(super) fn to_value(json: &serde_json::Value) -> Value {
    use serde_json::Value as Json;
    match json {
        Json::Null => Value::from(()),
        Json::Bool(flag) => Value::from(*flag),
        Json::Number(number) => match (number.as_i64(), number.as_u64(), number.as_f64()) {
            (Some(number), _, _) => Value::from(number),
            (_, Some(number), _) => Value::from(number),
            (_, _, number) => Value::from(number.unwrap_or(f64::NAN)),
        },
        Json::String(text) => Value::from(&**text),
        Json::Array(items) => items.iter().map(to_value).collect(),
        Json::Object(map) => {
            Value::from_pairs(map.iter().map(|(key, item)| (&**key, to_value(item))))
        }
    }
}

fn pair(value: Value) -> Option<[String; 2]> {
    let texts: Vec<String> = value
        .try_iter()
        .ok()?
        .map(|item| item.to_string())
        .collect();
    texts.try_into().ok()
}

fn refuse(reason: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOperation, reason.into())
}

impl Writer {
    fn value(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        if depth > MAX_DEPTH {
            return Err(refuse(format!(
                "tojson goes no deeper than {MAX_DEPTH} levels"
            )));
        }
        match value.kind() {
            ValueKind::None => self.out.push_str("null"),
            ValueKind::Bool => self
                .out
                .push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number => self.out.push_str(&value.to_string()),
            ValueKind::String => self.string(value.as_str().unwrap_or_default())?,
            ValueKind::Seq | ValueKind::Iterable => self.list(value, depth)?,
            ValueKind::Map => self.map(value, depth)?,
            kind => {
                return Err(refuse(format!(
                    "tojson cannot write a value of type {kind}"
                )));
            }
        }
        if self.out.len() > MAX_BYTES {
            return Err(refuse(format!("tojson writes at most {MAX_BYTES} bytes")));
        }
        Ok(())
    }

    fn string(&mut self, text: &str) -> Result<(), Error> {
        let quoted = serde_json::to_string(text).map_err(|error| refuse(error.to_string()))?;
        if !self.ensure_ascii {
            self.out.push_str(&quoted);
            return Ok(());
        }
        let mut units = [0; 2];
        for letter in quoted.chars() {
            if letter.is_ascii() {
                self.out.push(letter);
                continue;
            }
            for unit in letter.encode_utf16(&mut units) {
                self.out.push_str(&format!("\\u{unit:04x}"));
            }
        }
        Ok(())
    }

    fn list(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        self.out.push('[');
        let mut is_empty = true;
        for item in value.try_iter()? {
            self.before_item(is_empty, depth + 1);
            is_empty = false;
            self.value(&item, depth + 1)?;
        }
        self.close(']', is_empty, depth);
        Ok(())
    }

    fn map(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        self.out.push('{');
        let mut keys: Vec<Value> = value.try_iter()?.collect();
        if self.sort_keys {
            keys.sort();
        }
        let is_empty = keys.is_empty();
        for (index, key) in keys.into_iter().enumerate() {
            self.before_item(index == 0, depth + 1);
            self.string(&key.to_string())?;
            self.out.push_str(&self.key_separator);
            self.value(&value.get_item(&key)?, depth + 1)?;
        }
        self.close('}', is_empty, depth);
        Ok(())
    }

    fn before_item(&mut self, is_first: bool, depth: usize) {
        if !is_first {
            self.out.push_str(&self.item_separator);
        }
        self.line(depth);
    }

    fn close(&mut self, bracket: char, is_empty: bool, depth: usize) {
        if !is_empty {
            self.line(depth);
        }
        self.out.push(bracket);
    }

    fn line(&mut self, depth: usize) {
        if let Some(indent) = &self.indent {
            self.out.push('\n');
            for _ in 0..depth {
                self.out.push_str(indent);
            }
        }
    }
}
