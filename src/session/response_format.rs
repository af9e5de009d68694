//! What form an answer has to have, as the caller writes it.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::error::SessionError;
use super::options::{invalid, kind};

/// Text of a pattern or grammar: a thousand lines fit.
const MAX_TEXT_BYTES: usize = 128 * 1024;

/// Levels of a schema: each one is a stack frame of those that walk it.
const MAX_SCHEMA_DEPTH: usize = 64;

/// Levels that a schema's references can lead through, each a stack frame too: what refers to
/// what may be one long chain.
const MAX_REFERENCED_LEVELS: usize = 1024;

/// The same for the rules of a grammar.
const MAX_RULE_LEVELS: usize = 512;

const KINDS: &str = "an object whose type is \"text\", \"json_object\", \"json_schema\", \
    \"regex\" or \"lark\"";

/// A form that answers are held to.
#[derive(Clone, Debug, PartialEq)]
pub enum ResponseFormat {
    /// JSON that a schema describes.
    JsonSchema(Value),
    /// Text that a regular expression matches from its start to its end.
    Regex(String),
    /// Text that a grammar in llguidance's variant of Lark derives.
    Lark(String),
}

impl ResponseFormat {
    /// Reads `{ type, .. }`; `None` for the type `text`, which asks for nothing.
    ///
    /// # Errors
    /// [`SessionError::InvalidOption`].
    pub fn from_json(name: &str, value: &Value) -> Result<Option<Self>, SessionError> {
        let object = value
            .as_object()
            .ok_or_else(|| invalid(name, kind(value), KINDS))?;
        let (format, allowed): (_, &[&str]) = match object.get("type").and_then(Value::as_str) {
            Some("text") => (None, &[]),
            Some("json_object") => (Some(Self::JsonSchema(json!({ "type": "object" }))), &[]),
            Some("json_schema") => (
                Some(Self::JsonSchema(schema(name, object)?)),
                &["schema", "json_schema"],
            ),
            Some("regex") => (
                Some(Self::Regex(text(name, object, "pattern")?)),
                &["pattern"],
            ),
            Some("lark") => (Some(Self::Lark(grammar(name, object)?)), &["grammar"]),
            _ => {
                let given = object.get("type").unwrap_or(&Value::Null);
                return Err(invalid(&format!("{name}.type"), given, KINDS));
            }
        };
        let other = object
            .keys()
            .find(|key| *key != "type" && !allowed.contains(&key.as_str()));
        if let Some(key) = other {
            let place = format!("{name}.{key}");
            return Err(invalid(&place, "given", "left out for this type"));
        }
        Ok(format)
    }
}

/// `{ schema }`, or as OpenAI writes it `{ json_schema: { schema, name?, strict?, .. } }`.
fn schema(name: &str, object: &Map<String, Value>) -> Result<Value, SessionError> {
    let (place, schema) = match object.get("json_schema") {
        None => (format!("{name}.schema"), object.get("schema")),
        Some(wrapper) => (
            format!("{name}.json_schema.schema"),
            wrapper
                .get("schema")
                .filter(|_| object.get("schema").is_none()),
        ),
    };
    let schema = schema.unwrap_or(&Value::Null);
    if !schema.is_object() && !schema.is_boolean() {
        return Err(invalid(&place, kind(schema), "a JSON schema, an object"));
    }
    check_schema(&place, schema)?;
    Ok(schema.clone())
}

/// Refuses a schema that those who walk it would need too large a stack for.
pub(super) fn check_schema(place: &str, schema: &Value) -> Result<(), SessionError> {
    let levels = depth(schema, MAX_SCHEMA_DEPTH);
    if levels > MAX_SCHEMA_DEPTH {
        let limit = format!("nested at most {MAX_SCHEMA_DEPTH} levels deep; use $ref for more");
        return Err(invalid(place, "nested deeper", limit));
    }
    let mut targets = BTreeSet::new();
    references(schema, &mut targets);
    if targets.len() * levels > MAX_REFERENCED_LEVELS {
        let limit = format!(
            "at most {} definitions that are referred to, as deep as it nests",
            MAX_REFERENCED_LEVELS / levels
        );
        return Err(invalid(place, format!("{} of them", targets.len()), limit));
    }
    Ok(())
}

/// What a schema refers to.
fn references<'a>(value: &'a Value, targets: &mut BTreeSet<&'a str>) {
    match value {
        Value::Object(entries) => {
            targets.extend(entries.get("$ref").and_then(Value::as_str));
            entries
                .values()
                .for_each(|inner| references(inner, targets));
        }
        Value::Array(entries) => entries.iter().for_each(|inner| references(inner, targets)),
        _ => {}
    }
}

/// A grammar whose rules those who follow them have the stack for.
fn grammar(name: &str, object: &Map<String, Value>) -> Result<String, SessionError> {
    let text = text(name, object, "grammar")?;
    let (rules, levels) = extent(&text);
    if rules * levels > MAX_RULE_LEVELS {
        let limit = format!(
            "at most {} rules, as deep as their brackets nest",
            MAX_RULE_LEVELS / levels
        );
        return Err(invalid(
            &format!("{name}.grammar"),
            format!("{rules} of them"),
            limit,
        ));
    }
    Ok(text)
}

/// Rules and references of a grammar's text, and levels of its brackets; never too few.
fn extent(text: &str) -> (usize, usize) {
    let mut rules = text.matches("$ref").count();
    let (mut open, mut deepest) = (0_usize, 0);
    let mut last = ' ';
    let mut escaped = false;
    for c in text.chars() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '(' | '[' | '{' => {
                open += 1;
                deepest = deepest.max(open);
            }
            ')' | ']' | '}' => open = open.saturating_sub(1),
            ':' if last.is_alphanumeric() || matches!(last, '_' | ']' | '}') => rules += 1,
            _ => {}
        }
        if !c.is_whitespace() {
            last = c;
        }
    }
    (rules, deepest + 1)
}

/// Levels of a value, counted no further than `limit + 1`.
fn depth(value: &Value, limit: usize) -> usize {
    if limit == 0 {
        return 1;
    }
    let deepest = match value {
        Value::Object(entries) => entries.values().map(|v| depth(v, limit - 1)).max(),
        Value::Array(entries) => entries.iter().map(|v| depth(v, limit - 1)).max(),
        _ => None,
    };
    1 + deepest.unwrap_or(0)
}

fn text(name: &str, object: &Map<String, Value>, key: &str) -> Result<String, SessionError> {
    let value = object.get(key).unwrap_or(&Value::Null);
    let limit = || format!("a string of 1 to {MAX_TEXT_BYTES} bytes");
    let place = format!("{name}.{key}");
    let text = value
        .as_str()
        .ok_or_else(|| invalid(&place, kind(value), limit()))?;
    if (1..=MAX_TEXT_BYTES).contains(&text.len()) {
        return Ok(text.to_owned());
    }
    Err(invalid(&place, format!("{} bytes", text.len()), limit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(value: Value) -> Result<Option<ResponseFormat>, SessionError> {
        ResponseFormat::from_json("responseFormat", &value)
    }

    #[test]
    fn both_spellings_of_a_schema_are_read() {
        let schema = json!({ "type": "object", "properties": { "b": {}, "a": {} } });
        let want = Ok(Some(ResponseFormat::JsonSchema(schema.clone())));
        assert_eq!(
            read(json!({ "type": "json_schema", "schema": schema })),
            want
        );
        let wrapped = json!({ "name": "x", "strict": true, "schema": schema });
        assert_eq!(
            read(json!({ "type": "json_schema", "json_schema": wrapped })),
            want
        );
        // Properties keep their order: it is the order in which they are written.
        let Ok(Some(ResponseFormat::JsonSchema(read))) = want else {
            panic!("a schema");
        };
        let names: Vec<_> = read["properties"]
            .as_object()
            .expect("it is one")
            .keys()
            .collect();
        assert_eq!(names, ["b", "a"]);
    }

    #[test]
    fn the_other_types_are_read() {
        assert_eq!(read(json!({ "type": "text" })), Ok(None));
        let object = ResponseFormat::JsonSchema(json!({ "type": "object" }));
        assert_eq!(read(json!({ "type": "json_object" })), Ok(Some(object)));
        let regex = ResponseFormat::Regex("a+".to_owned());
        assert_eq!(
            read(json!({ "type": "regex", "pattern": "a+" })),
            Ok(Some(regex))
        );
        let lark = ResponseFormat::Lark("start: /a/".to_owned());
        assert_eq!(
            read(json!({ "type": "lark", "grammar": "start: /a/" })),
            Ok(Some(lark))
        );
    }

    #[test]
    fn refusals_name_the_place() {
        let mut deep = json!({});
        for _ in 0..64 {
            deep = json!({ "not": deep });
        }
        let chain = |links: usize| {
            let link = |at: usize| json!({ "$ref": format!("#/$defs/{at}") });
            let links: Map<_, _> = (0..links).map(|at| (at.to_string(), link(at))).collect();
            json!({ "type": "json_schema", "schema": { "$defs": links } })
        };
        let rules = |count: usize| {
            let rules: String = (0..count).map(|at| format!("r{at}: (\"a\")\n")).collect();
            json!({ "type": "lark", "grammar": rules })
        };
        assert!(read(chain(256)).is_ok() && read(rules(256)).is_ok());
        for (value, place) in [
            (json!("json"), "responseFormat"),
            (json!({}), "responseFormat.type"),
            (json!({ "type": "xml" }), "responseFormat.type"),
            (json!({ "type": "json_schema" }), "responseFormat.schema"),
            (
                json!({ "type": "json_schema", "schema": 3 }),
                "responseFormat.schema",
            ),
            (
                json!({ "type": "json_schema", "json_schema": { "name": "x" } }),
                "responseFormat.json_schema.schema",
            ),
            (
                json!({ "type": "json_schema", "schema": deep }),
                "responseFormat.schema",
            ),
            (chain(257), "responseFormat.schema"),
            (rules(257), "responseFormat.grammar"),
            (json!({ "type": "regex" }), "responseFormat.pattern"),
            (
                json!({ "type": "regex", "pattern": "" }),
                "responseFormat.pattern",
            ),
            (
                json!({ "type": "lark", "pattern": "a" }),
                "responseFormat.grammar",
            ),
            (
                json!({ "type": "json_object", "schema": {} }),
                "responseFormat.schema",
            ),
        ] {
            let error = read(value.clone()).expect_err("it makes no sense");
            assert!(
                matches!(&error, SessionError::InvalidOption { name, .. } if name == place),
                "{value}: {error}"
            );
        }
    }
}
