//! Messages and prompts as a generation takes them.

use serde_json::{Map, Value, json};

use super::error::DialectError;
use super::parameters::{invalid, kind};

/// Messages `{ role, content }` with their text parts joined.
pub(super) fn messages(value: &Value) -> Result<Value, DialectError> {
    let list = value
        .as_array()
        .filter(|list| !list.is_empty())
        .ok_or_else(|| invalid("messages", kind(value), "a non-empty array of messages"))?;
    list.iter()
        .enumerate()
        .map(|(index, message)| read_message(&format!("messages[{index}]"), message))
        .collect()
}

fn read_message(at: &str, message: &Value) -> Result<Value, DialectError> {
    let fields = message
        .as_object()
        .ok_or_else(|| invalid(at, kind(message), "an object { role, content }"))?;
    let role = field(fields, "role").as_str().ok_or_else(|| {
        invalid(
            format!("{at}.role"),
            kind(field(fields, "role")),
            "a string",
        )
    })?;
    for name in ["function_call", "audio"] {
        let value = field(fields, name);
        if !value.is_null() && value.as_array().is_none_or(|list| !list.is_empty()) {
            return Err(unprocessable(format!("{at}.{name}"), name));
        }
    }
    // The dialect's newer name for the same speaker; templates know the older one.
    let role = if role == "developer" { "system" } else { role };
    let mut read = Map::from_iter([("role".to_owned(), role.into())]);
    let calls = tool_calls(&format!("{at}.tool_calls"), field(fields, "tool_calls"))?;
    let given = field(fields, "content");
    if !(given.is_null() && calls.is_some()) {
        let content = content(&format!("{at}.content"), given)?;
        read.insert("content".to_owned(), content.into());
    }
    read.extend(calls.map(|calls| ("tool_calls".to_owned(), calls)));
    for name in ["tool_call_id", "name"] {
        match field(fields, name) {
            Value::Null => {}
            Value::String(text) => {
                read.insert(name.to_owned(), text.as_str().into());
            }
            other => return Err(invalid(format!("{at}.{name}"), kind(other), "a string")),
        }
    }
    Ok(Value::Object(read))
}

/// Calls that an earlier answer made; none of them is as good as none at all.
fn tool_calls(at: &str, value: &Value) -> Result<Option<Value>, DialectError> {
    let calls = match value {
        Value::Null => return Ok(None),
        Value::Array(calls) if calls.is_empty() => return Ok(None),
        Value::Array(calls) => calls,
        _ => return Err(invalid(at, kind(value), "an array of calls")),
    };
    let read = |(index, call): (usize, &Value)| {
        let text = |place: &str| {
            call.pointer(place).and_then(Value::as_str).ok_or_else(|| {
                let path = place.replace('/', ".");
                invalid(format!("{at}[{index}]{path}"), "no string", "a string")
            })
        };
        let (id, name) = (text("/id")?, text("/function/name")?);
        let arguments = text("/function/arguments")?;
        let function = json!({ "name": name, "arguments": arguments });
        Ok(json!({ "id": id, "type": "function", "function": function }))
    };
    calls
        .iter()
        .enumerate()
        .map(read)
        .collect::<Result<_, _>>()
        .map(Some)
}

fn content(at: &str, value: &Value) -> Result<String, DialectError> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Array(parts) => parts
            .iter()
            .enumerate()
            .map(|(index, part)| text_part(&format!("{at}[{index}]"), part))
            .collect(),
        _ => Err(invalid(
            at,
            kind(value),
            "a string or an array of text parts",
        )),
    }
}

fn text_part<'a>(at: &str, part: &'a Value) -> Result<&'a str, DialectError> {
    let kind_of_part = part
        .get("type")
        .and_then(Value::as_str)
        .ok_or_else(|| invalid(at, kind(part), "an object { type, text }"))?;
    if kind_of_part != "text" {
        return Err(unprocessable(at, kind_of_part));
    }
    part.get("text")
        .and_then(Value::as_str)
        .ok_or_else(|| invalid(format!("{at}.text"), "no string", "a string"))
}

/// The prompts of `/v1/completions`: one string, or an array of them.
pub(super) fn prompts(value: &Value) -> Result<Vec<Value>, DialectError> {
    let expected = "a string or a non-empty array of strings";
    match value {
        Value::String(_) => Ok(vec![value.clone()]),
        Value::Array(list) if !list.is_empty() => {
            let other = list.iter().find(|prompt| !prompt.is_string());
            match other {
                None => Ok(list.clone()),
                Some(other) => Err(invalid(
                    "prompt",
                    format!("an array with {}", kind(other)),
                    expected,
                )),
            }
        }
        _ => Err(invalid("prompt", kind(value), expected)),
    }
}

fn field<'a>(fields: &'a Map<String, Value>, name: &str) -> &'a Value {
    fields.get(name).unwrap_or(&Value::Null)
}

fn unprocessable(param: impl Into<String>, what: impl Into<String>) -> DialectError {
    DialectError::Unprocessable {
        param: param.into(),
        what: what.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_parts_are_joined_and_developer_is_the_system() {
        let read = messages(&json!([
            { "role": "developer", "content": "Be short.", "name": "x" },
            { "role": "user", "content": [
                { "type": "text", "text": "a" }, { "type": "text", "text": "b" } ] },
            { "role": "assistant", "content": "c", "tool_calls": [], "refusal": null },
        ]));
        assert_eq!(
            read,
            Ok(json!([
                { "role": "system", "content": "Be short.", "name": "x" },
                { "role": "user", "content": "ab" },
                { "role": "assistant", "content": "c" },
            ]))
        );
    }

    #[test]
    fn calls_and_their_results_pass() {
        let function = json!({ "name": "a", "arguments": "{}" });
        let call = json!({ "id": "x", "type": "function", "function": function });
        let list = json!([
            { "role": "assistant", "tool_calls": [call] },
            { "role": "tool", "content": "7", "tool_call_id": "x" },
        ]);
        assert_eq!(messages(&list), Ok(list.clone()));
        let mut with_null = list.clone();
        with_null[0]["content"] = Value::Null;
        assert_eq!(messages(&with_null), Ok(list));
    }

    #[test]
    fn refusals_name_the_message_and_the_part() {
        for (value, status, param) in [
            (json!("hi"), 400, "messages"),
            (json!([]), 400, "messages"),
            (json!([7]), 400, "messages[0]"),
            (json!([{ "content": "x" }]), 400, "messages[0].role"),
            (json!([{ "role": "user" }]), 400, "messages[0].content"),
            (
                json!([{ "role": "user", "content": ["x"] }]),
                400,
                "messages[0].content[0]",
            ),
            (
                json!([{ "role": "user", "content": [{ "type": "text" }] }]),
                400,
                "messages[0].content[0].text",
            ),
            (
                json!([{ "role": "user", "content": [{ "type": "image_url" }] }]),
                422,
                "messages[0].content[0]",
            ),
            (
                json!([{ "role": "assistant", "tool_calls": 1 }]),
                400,
                "messages[0].tool_calls",
            ),
            (
                json!([{ "role": "assistant", "tool_calls": [{}] }]),
                400,
                "messages[0].tool_calls[0].id",
            ),
            (
                json!([{ "role": "assistant", "tool_calls": [{ "id": "x" }] }]),
                400,
                "messages[0].tool_calls[0].function.name",
            ),
            (
                json!([{ "role": "assistant", "tool_calls": [] }]),
                400,
                "messages[0].content",
            ),
            (
                json!([{ "role": "tool", "content": "", "tool_call_id": 7 }]),
                400,
                "messages[0].tool_call_id",
            ),
            (
                json!([{ "role": "assistant", "content": "", "function_call": {} }]),
                422,
                "messages[0].function_call",
            ),
        ] {
            let error = messages(&value).expect_err("it is no list of messages");
            assert_eq!(error.status(), status, "{value}");
            let body = error.to_json();
            assert!(body.contains(&format!("\"param\":\"{param}\"")), "{body}");
        }
    }

    #[test]
    fn prompts_are_texts() {
        assert_eq!(prompts(&json!("a")), Ok(vec![json!("a")]));
        assert_eq!(
            prompts(&json!(["a", "b"])),
            Ok(vec![json!("a"), json!("b")])
        );
        for wrong in [
            json!([]),
            json!(null),
            json!([[1, 2]]),
            json!([1]),
            json!({}),
        ] {
            assert!(prompts(&wrong).is_err(), "{wrong}");
        }
    }
}
