//! Tools that an answer may call: how a caller declares them, how a model is told of them, and
//! the form of an answer that has to call one.

use serde_json::{Map, Value, json};

use super::constraint::with_whitespace;
use super::error::SessionError;
use super::options::{invalid, kind};
use super::response_format::check_schema;
use super::tool_calls::ToolFormat;
use crate::tokenizer::{ChatMessage, Tokenizer};

const MAX_TOOLS: usize = 128;
const MAX_NAME_BYTES: usize = 64;

/// What a model is told whose template has no place for tools: the wording of
/// <https://ai.google.dev/gemma/docs/capabilities/function-calling>.
const INSTRUCTIONS: &str = "You have access to functions. If you decide to invoke any of the \
    function(s), you MUST put it in the format of\n\
    {\"name\": function name, \"parameters\": dictionary of argument name and its value}\n\n\
    You SHOULD NOT include any other text in the response if you call a function\n";

/// A function that an answer may call.
#[derive(Clone, Debug, PartialEq)]
pub struct Tool {
    /// Its name: letters, digits, `_`, `-` and `.`.
    pub name: String,
    /// `{ type: "function", function: { name, description?, parameters? } }` as given.
    pub declaration: Value,
}

/// Whether an answer calls tools.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ToolChoice {
    /// As the model likes.
    #[default]
    Auto,
    /// No; the model is not told of any.
    None,
    /// One of them, and nothing else.
    Required,
    /// This one, and nothing else.
    Function(String),
}

impl ToolChoice {
    /// Reads `auto`, `none`, `required` or `{ type: "function", function: { name } }`.
    ///
    /// # Errors
    /// [`SessionError::InvalidOption`].
    pub fn from_json(option: &str, value: &Value) -> Result<Self, SessionError> {
        match value {
            Value::String(word) if word == "auto" => return Ok(Self::Auto),
            Value::String(word) if word == "none" => return Ok(Self::None),
            Value::String(word) if word == "required" => return Ok(Self::Required),
            _ => {}
        }
        let is_function = value.get("type").and_then(Value::as_str) == Some("function");
        let name = value.pointer("/function/name").and_then(Value::as_str);
        match name.filter(|_| is_function) {
            Some(name) => Ok(Self::Function(name.to_owned())),
            None => Err(invalid(
                option,
                if value.is_object() {
                    "another object".to_owned()
                } else {
                    value.to_string()
                },
                "\"auto\", \"none\", \"required\" or { type: \"function\", function: { name } }",
            )),
        }
    }

    /// Whether the answer has to be a call.
    #[must_use]
    pub fn is_forced(&self) -> bool {
        matches!(self, Self::Required | Self::Function(_))
    }

    /// Whether the answer has to be a call of a tool, if of any.
    fn allows(&self, tool: &Tool) -> bool {
        match self {
            Self::Function(name) => tool.name == *name,
            _ => true,
        }
    }
}

impl Tool {
    /// Reads a list of declarations.
    ///
    /// # Errors
    /// [`SessionError::InvalidOption`].
    pub fn list_from_json(option: &str, value: &Value) -> Result<Vec<Self>, SessionError> {
        let limit = format!("an array of at most {MAX_TOOLS} tools");
        let list = value
            .as_array()
            .ok_or_else(|| invalid(option, kind(value), &*limit))?;
        if list.len() > MAX_TOOLS {
            return Err(invalid(option, format!("{} tools", list.len()), limit));
        }
        let mut tools: Vec<Self> = Vec::new();
        for (index, declaration) in list.iter().enumerate() {
            let at = format!("{option}[{index}]");
            let tool = Self::from_json(&at, declaration)?;
            if tools.iter().any(|other| other.name == tool.name) {
                let place = format!("{at}.function.name");
                return Err(invalid(&place, tool.name, "another for each tool"));
            }
            tools.push(tool);
        }
        Ok(tools)
    }

    fn from_json(at: &str, declaration: &Value) -> Result<Self, SessionError> {
        if declaration.get("type").and_then(Value::as_str) != Some("function") {
            let given = declaration.get("type").unwrap_or(&Value::Null);
            return Err(invalid(&format!("{at}.type"), given, "\"function\""));
        }
        let function = declaration.get("function").unwrap_or(&Value::Null);
        if !function.is_object() {
            let place = format!("{at}.function");
            return Err(invalid(
                &place,
                kind(function),
                "an object { name, parameters }",
            ));
        }
        let name = function
            .get("name")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        if !(1..=MAX_NAME_BYTES).contains(&name.len()) || !name.chars().all(fits) {
            let limit = format!("1 to {MAX_NAME_BYTES} letters, digits, _, - and .");
            let given = function.get("name").map_or("nothing", kind);
            return Err(invalid(&format!("{at}.function.name"), given, limit));
        }
        let place = || format!("{at}.function.parameters");
        let parameters = function.get("parameters").unwrap_or(&Value::Null);
        if !parameters.is_object() && !parameters.is_null() {
            return Err(invalid(
                &place(),
                kind(parameters),
                "a JSON schema, an object",
            ));
        }
        check_schema(&place(), parameters)?;
        Ok(Self {
            name: name.to_owned(),
            declaration: declaration.clone(),
        })
    }

    /// The schema of the arguments, which are an object in any case.
    pub(super) fn parameters(&self) -> Value {
        let parameters = self.declaration.pointer("/function/parameters");
        match parameters {
            Some(Value::Object(schema)) => {
                let mut schema = schema.clone();
                schema.entry("type").or_insert_with(|| "object".into());
                Value::Object(schema)
            }
            _ => json!({ "type": "object", "properties": {}, "additionalProperties": false }),
        }
    }
}

/// A grammar, in llguidance's variant of Lark, of answers that are one call.
pub(super) fn grammar(
    tools: &[Tool],
    choice: &ToolChoice,
    format: ToolFormat,
    tokenizer: &Tokenizer,
) -> String {
    let key = match format {
        ToolFormat::Hermes | ToolFormat::Mistral | ToolFormat::MistralNamed => "arguments",
        ToolFormat::Llama | ToolFormat::Fenced | ToolFormat::FunctionGemma => "parameters",
    };
    let marker = |text: &str| marker(text, tokenizer);
    let start = match format {
        ToolFormat::Hermes => "\"<tool_call>\\n\" call \"\\n</tool_call>\"".to_owned(),
        ToolFormat::Mistral => format!("{} \"[\" call \"]\"", marker("[TOOL_CALLS]")),
        ToolFormat::MistralNamed => format!("{} call", marker("[TOOL_CALLS]")),
        // Its own form of arguments has no grammar for schemas; the parser reads both.
        ToolFormat::FunctionGemma => {
            let (open, close) = ("<start_function_call>", "<end_function_call>");
            format!("{} call {}", marker(open), marker(close))
        }
        ToolFormat::Llama | ToolFormat::Fenced => "call".to_owned(),
    };
    let mut rules = format!("start: {start}\n");
    let mut calls = Vec::new();
    for (index, tool) in tools
        .iter()
        .enumerate()
        .filter(|(_, tool)| choice.allows(tool))
    {
        let (name, schema) = (&tool.name, with_whitespace(tool.parameters()));
        calls.push(format!("call_{index}"));
        let call = if format == ToolFormat::MistralNamed {
            format!("\"{name}\" {} arguments_{index}", marker("[ARGS]"))
        } else {
            format!("\"{{\\\"name\\\": \\\"{name}\\\", \\\"{key}\\\": \" arguments_{index} \"}}\"")
        };
        rules.push_str(&format!(
            "call_{index}: {call}\narguments_{index}: %json {schema}\n"
        ));
    }
    rules.push_str(&format!("call: {}\n", calls.join(" | ")));
    rules
}

/// A marker as the one control token that it is where the vocabulary has it.
fn marker(text: &str, tokenizer: &Tokenizer) -> String {
    match tokenizer.encode(text, true).as_deref() {
        Ok([id]) if tokenizer.is_control(*id) => format!("<[{id}]>"),
        _ => format!("\"{text}\""),
    }
}

/// Messages for a template that knows nothing of tools: what they are precedes the first
/// message of the user, calls are the text that they were, results are the user's.
pub(super) fn plain_messages(messages: &[ChatMessage], tools: &[Tool]) -> Vec<ChatMessage> {
    let mut out: Vec<ChatMessage> = Vec::new();
    let mut told = tools.is_empty();
    for message in messages {
        let mut plain = ChatMessage {
            role: message.role.clone(),
            content: message.content.clone(),
            ..ChatMessage::default()
        };
        if let Some(calls) = message.tool_calls.as_ref().and_then(Value::as_array) {
            let calls: Vec<_> = calls.iter().map(plain_call).collect();
            let text = plain.content.get_or_insert_default();
            *text = [text.as_str(), &calls.join("\n")].concat();
        }
        if message.role == "tool" {
            plain.role = "user".to_owned();
            let result = plain.content.unwrap_or_default();
            plain.content = Some(format!("```tool_output\n{result}\n```"));
        }
        if !told && plain.role == "user" {
            let declarations: Value = tools.iter().map(|t| t.declaration.clone()).collect();
            let content = plain.content.unwrap_or_default();
            plain.content = Some(format!("{INSTRUCTIONS}{declarations}\n\n{content}"));
            told = true;
        }
        match out.last_mut() {
            // Several results are one message: such templates want roles to alternate.
            Some(last) if message.role == "tool" && last.role == "user" => {
                let text = last.content.get_or_insert_default();
                text.push('\n');
                text.push_str(plain.content.as_deref().unwrap_or_default());
            }
            _ => out.push(plain),
        }
    }
    out
}

fn plain_call(call: &Value) -> String {
    let function = call.get("function").unwrap_or(call);
    let entry = |name: &str| function.get(name).cloned().unwrap_or_default();
    json!({ "name": entry("name"), "parameters": entry("arguments") }).to_string()
}

/// Makes arguments that are JSON within a string, as OpenAI's clients write them, the objects
/// that templates expect.
pub(super) fn open_arguments(calls: &mut Value) {
    for call in calls.as_array_mut().into_iter().flatten() {
        let arguments = call.pointer_mut("/function/arguments");
        if let Some(arguments) = arguments
            && let Some(text) = arguments.as_str()
            && let Ok(object) = serde_json::from_str::<Map<String, Value>>(text)
        {
            *arguments = Value::Object(object);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weather() -> Value {
        json!({ "type": "function", "function": { "name": "weather", "parameters": {} } })
    }

    #[test]
    fn refusals_name_the_place() {
        let function = |function: Value| json!([{ "type": "function", "function": function }]);
        let mut deep = json!({});
        for _ in 0..64 {
            deep = json!({ "not": deep });
        }
        for (value, place) in [
            (json!({}), "tools"),
            (json!(vec![weather(); 129]), "tools"),
            (json!([3]), "tools[0].type"),
            (json!([{ "type": "custom" }]), "tools[0].type"),
            (json!([{ "type": "function" }]), "tools[0].function"),
            (function(json!({})), "tools[0].function.name"),
            (function(json!({ "name": "a b" })), "tools[0].function.name"),
            (
                function(json!({ "name": "x".repeat(65) })),
                "tools[0].function.name",
            ),
            (json!([weather(), weather()]), "tools[1].function.name"),
            (
                function(json!({ "name": "a", "parameters": [] })),
                "tools[0].function.parameters",
            ),
            (
                function(json!({ "name": "a", "parameters": deep })),
                "tools[0].function.parameters",
            ),
        ] {
            let error = Tool::list_from_json("tools", &value).expect_err("no list of tools");
            assert!(
                matches!(&error, SessionError::InvalidOption { name, .. } if name == place),
                "{place}: {error}"
            );
        }
        for wrong in [
            json!("any"),
            json!(null),
            json!({ "type": "function" }),
            json!({ "function": { "name": "a" } }),
        ] {
            assert!(
                ToolChoice::from_json("toolChoice", &wrong).is_err(),
                "{wrong}"
            );
        }
    }

    #[test]
    fn choices_are_words_or_a_function() {
        let read = |value| ToolChoice::from_json("toolChoice", &value);
        assert_eq!(read(json!("auto")), Ok(ToolChoice::Auto));
        assert_eq!(read(json!("none")), Ok(ToolChoice::None));
        assert_eq!(read(json!("required")), Ok(ToolChoice::Required));
        let named = json!({ "type": "function", "function": { "name": "a" } });
        assert_eq!(read(named), Ok(ToolChoice::Function("a".to_owned())));
    }

    #[test]
    fn a_template_without_tools_gets_them_in_the_users_words() {
        let say = |role: &str, content: &str| ChatMessage {
            role: role.to_owned(),
            content: Some(content.to_owned()),
            ..ChatMessage::default()
        };
        let call =
            json!([{ "id": "1", "function": { "name": "weather", "arguments": { "a": 1 } } }]);
        let caller = ChatMessage {
            role: "assistant".to_owned(),
            tool_calls: Some(call),
            ..ChatMessage::default()
        };
        let tools = Tool::list_from_json("tools", &json!([weather()])).expect("a tool");
        let messages = [
            say("system", "s"),
            say("user", "u"),
            caller,
            say("tool", "r"),
            say("tool", "t"),
        ];
        let plain = plain_messages(&messages, &tools);
        let roles: Vec<_> = plain.iter().map(|message| message.role.as_str()).collect();
        assert_eq!(roles, ["system", "user", "assistant", "user"]);
        let content = |at: usize| plain[at].content.as_deref().expect("some text");
        assert_eq!(
            content(1),
            format!("{INSTRUCTIONS}{}\n\nu", json!([weather()]))
        );
        assert_eq!(content(2), r#"{"name":"weather","parameters":{"a":1}}"#);
        assert_eq!(content(3), "```tool_output\nr\n```\n```tool_output\nt\n```");
    }

    #[test]
    fn arguments_in_a_string_become_the_object_that_they_are() {
        let mut calls = json!([
            { "function": { "arguments": "{\"a\":1}" } },
            { "function": { "arguments": "no" } },
            7,
        ]);
        open_arguments(&mut calls);
        assert_eq!(
            calls,
            json!([
                { "function": { "arguments": { "a": 1 } } },
                { "function": { "arguments": "no" } },
                7,
            ])
        );
    }
}
