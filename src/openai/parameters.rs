//! Every parameter of the two completions, and what a generation calls it.

use serde_json::{Map, Value, json};

use super::error::DialectError;
use super::route::Endpoint;

/// What happens to a parameter.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Use {
    /// The value is that of an option of the generation.
    Option(&'static str),
    /// As [`Use::Option`], except that this value, as JSON, asks for nothing.
    Unless(&'static str, &'static str),
    /// A string or an array of strings for the option `stop`.
    Stop,
    /// A hint to a service, without a meaning for one model on one machine.
    Ignored,
    /// Only this value, as JSON, can be honoured.
    Only(&'static str),
    /// Read by the request itself.
    Request,
}

/// Where a parameter is known.
#[derive(Clone, Copy, Debug, PartialEq)]
enum At {
    Both,
    Chat,
    Text,
}

/// Parameter, where it is known, what it becomes. Options that an engine lacks are refused by
/// it, not here.
const PARAMETERS: &[(&str, At, Use)] = &[
    ("model", At::Both, Use::Request),
    ("messages", At::Chat, Use::Request),
    ("prompt", At::Text, Use::Request),
    ("stream", At::Both, Use::Request),
    ("stream_options", At::Both, Use::Request),
    ("n", At::Both, Use::Request),
    ("max_completion_tokens", At::Chat, Use::Option("maxTokens")),
    ("max_tokens", At::Both, Use::Option("maxTokens")),
    ("temperature", At::Both, Use::Option("temperature")),
    ("top_p", At::Both, Use::Option("topP")),
    ("top_k", At::Both, Use::Option("topK")),
    ("min_p", At::Both, Use::Option("minP")),
    ("seed", At::Both, Use::Option("seed")),
    ("stop", At::Both, Use::Stop),
    ("ignore_eos", At::Both, Use::Option("ignoreEos")),
    (
        "repetition_penalty",
        At::Both,
        Use::Unless("repetitionPenalty", "1"),
    ),
    (
        "frequency_penalty",
        At::Both,
        Use::Unless("frequencyPenalty", "0"),
    ),
    (
        "presence_penalty",
        At::Both,
        Use::Unless("presencePenalty", "0"),
    ),
    ("logit_bias", At::Both, Use::Unless("logitBias", "{}")),
    ("logprobs", At::Both, Use::Request),
    ("top_logprobs", At::Chat, Use::Request),
    (
        "response_format",
        At::Chat,
        Use::Unless("responseFormat", "{\"type\":\"text\"}"),
    ),
    ("tools", At::Chat, Use::Unless("tools", "[]")),
    (
        "tool_choice",
        At::Chat,
        Use::Unless("toolChoice", "\"auto\""),
    ),
    (
        "chat_template_kwargs",
        At::Chat,
        Use::Option("templateOptions"),
    ),
    ("best_of", At::Text, Use::Only("1")),
    ("echo", At::Text, Use::Only("false")),
    ("suffix", At::Text, Use::Only("\"\"")),
    ("modalities", At::Chat, Use::Only("[\"text\"]")),
    ("metadata", At::Chat, Use::Ignored),
    ("parallel_tool_calls", At::Chat, Use::Ignored),
    ("prediction", At::Chat, Use::Ignored),
    ("prompt_cache_key", At::Both, Use::Ignored),
    ("prompt_cache_retention", At::Both, Use::Ignored),
    ("safety_identifier", At::Both, Use::Ignored),
    ("service_tier", At::Both, Use::Ignored),
    ("store", At::Both, Use::Ignored),
    ("user", At::Both, Use::Ignored),
];

/// What a body asks for, and by which parameters.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Options {
    /// Under the names of the generation.
    pub(super) values: Map<String, Value>,
    /// Option and the parameter that it came from.
    pub(super) parameters: Vec<(&'static str, &'static str)>,
}

impl Options {
    fn set(&mut self, option: &'static str, parameter: &'static str, value: Value) {
        self.parameters.push((option, parameter));
        self.values.insert(option.to_owned(), value);
    }
}

/// The options that a body asks for; `null` is as good as absent.
pub(super) fn options(
    body: &Map<String, Value>,
    endpoint: Endpoint,
) -> Result<Options, DialectError> {
    let mut options = Options::default();
    let newer_limit = body
        .get("max_completion_tokens")
        .is_some_and(|value| !value.is_null());
    for (name, value) in body {
        let (name, _, what) = PARAMETERS
            .iter()
            .find(|(known, at, _)| known == name && known_at(*at, endpoint))
            .ok_or_else(|| DialectError::Unsupported {
                param: name.clone(),
            })?;
        if value.is_null() || (*name == "max_tokens" && newer_limit) {
            continue;
        }
        match what {
            Use::Option(option) => options.set(option, name, value.clone()),
            Use::Unless(_, neutral) if is(value, neutral) => {}
            Use::Unless(option, _) => options.set(option, name, value.clone()),
            Use::Stop => options.set("stop", name, stop(value)?),
            Use::Only(allowed) if !is(value, allowed) => {
                return Err(invalid(*name, value.to_string(), *allowed));
            }
            Use::Only(_) | Use::Ignored | Use::Request => {}
        }
    }
    if let Some((parameter, count)) = logprobs(body, endpoint)? {
        options.set("logprobs", parameter, count);
    }
    Ok(options)
}

/// How many alternatives to tell with each token, and the parameter that says so. The chat has
/// a switch and a number, the older completion the number alone.
fn logprobs(
    body: &Map<String, Value>,
    endpoint: Endpoint,
) -> Result<Option<(&'static str, Value)>, DialectError> {
    let get = |name: &str| body.get(name).filter(|value| !value.is_null());
    match (endpoint, get("logprobs"), get("top_logprobs")) {
        (Endpoint::Text, count, _) => Ok(count.map(|count| ("logprobs", count.clone()))),
        (Endpoint::Chat, Some(Value::Bool(true)), None) => Ok(Some(("logprobs", json!(0)))),
        (Endpoint::Chat, Some(Value::Bool(true)), Some(top)) => {
            Ok(Some(("top_logprobs", top.clone())))
        }
        (Endpoint::Chat, None | Some(Value::Bool(false)), None) => Ok(None),
        (Endpoint::Chat, None | Some(Value::Bool(false)), Some(top)) => Err(invalid(
            "top_logprobs",
            top.to_string(),
            "absent unless logprobs is true",
        )),
        (Endpoint::Chat, Some(other), _) => Err(invalid("logprobs", kind(other), "true or false")),
    }
}

fn stop(value: &Value) -> Result<Value, DialectError> {
    match value {
        Value::String(_) => Ok(json!([value])),
        Value::Array(_) => Ok(value.clone()),
        _ => Err(invalid(
            "stop",
            kind(value),
            "a string or an array of strings",
        )),
    }
}

/// Whether `value` is what `json` says; 1 and 1.0 are the same number.
fn is(value: &Value, json: &str) -> bool {
    let Ok(other) = serde_json::from_str::<Value>(json) else {
        return false;
    };
    match (value.as_f64(), other.as_f64()) {
        (Some(a), Some(b)) => a == b,
        _ => *value == other,
    }
}

fn known_at(at: At, endpoint: Endpoint) -> bool {
    match at {
        At::Both => true,
        At::Chat => endpoint == Endpoint::Chat,
        At::Text => endpoint == Endpoint::Text,
    }
}

pub(super) fn invalid(
    param: impl Into<String>,
    value: impl Into<String>,
    limit: impl Into<String>,
) -> DialectError {
    DialectError::Invalid {
        param: param.into(),
        value: value.into(),
        limit: limit.into(),
    }
}

/// A value in a sentence: short ones as they are, the others by their kind.
pub(super) fn kind(value: &Value) -> String {
    match value {
        Value::Null => "nothing".to_owned(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::String(_) => "a string".to_owned(),
        Value::Array(list) if list.is_empty() => "an empty array".to_owned(),
        Value::Array(_) => "an array".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: Value, endpoint: Endpoint) -> Result<Options, DialectError> {
        options(body.as_object().expect("tests pass objects"), endpoint)
    }

    #[test]
    fn every_parameter_has_its_option() {
        let read = read(
            json!({
                "model": "x", "messages": [], "stream": true, "n": 2, "user": "me", "store": true,
                "max_tokens": 3, "max_completion_tokens": 5, "temperature": 0.5, "top_p": 0.9,
                "top_k": 7, "min_p": 0.1, "seed": 9, "stop": "END", "ignore_eos": true,
                "repetition_penalty": 1.1, "frequency_penalty": 0.2, "presence_penalty": -0.3,
                "logit_bias": { "5": -100 }, "logprobs": true, "top_logprobs": 4,
                "response_format": { "type": "json_object" }, "tools": [{}],
                "tool_choice": "required", "chat_template_kwargs": { "x": 1 },
            }),
            Endpoint::Chat,
        );
        let read = read.expect("all are known");
        assert_eq!(
            Value::Object(read.values),
            json!({
                "maxTokens": 5, "temperature": 0.5, "topP": 0.9, "topK": 7, "minP": 0.1,
                "seed": 9, "stop": ["END"], "ignoreEos": true, "repetitionPenalty": 1.1,
                "frequencyPenalty": 0.2, "presencePenalty": -0.3, "logitBias": { "5": -100 },
                "logprobs": 4, "responseFormat": { "type": "json_object" }, "tools": [{}],
                "toolChoice": "required", "templateOptions": { "x": 1 },
            })
        );
        for pair in [
            ("maxTokens", "max_completion_tokens"),
            ("topK", "top_k"),
            ("stop", "stop"),
            ("logprobs", "top_logprobs"),
        ] {
            assert!(read.parameters.contains(&pair), "{pair:?}");
        }
    }

    #[test]
    fn values_that_ask_for_nothing_give_no_option() {
        let neutral = json!({
            "temperature": null, "max_completion_tokens": null, "stop": null,
            "frequency_penalty": 0.0, "presence_penalty": 0, "repetition_penalty": 1,
            "logit_bias": {}, "logprobs": false, "response_format": { "type": "text" },
            "tools": [], "tool_choice": "auto", "modalities": ["text"], "top_logprobs": null,
        });
        assert_eq!(read(neutral, Endpoint::Chat), Ok(Options::default()));
        let neutral = json!({ "best_of": 1, "echo": false, "suffix": "", "logprobs": null });
        assert_eq!(read(neutral, Endpoint::Text), Ok(Options::default()));
    }

    #[test]
    fn the_older_limit_counts_where_the_newer_is_absent() {
        for body in [
            json!({ "max_tokens": 3 }),
            json!({ "max_tokens": 3, "max_completion_tokens": null }),
        ] {
            let read = read(body, Endpoint::Chat).expect("both are known");
            assert_eq!(read.values.get("maxTokens"), Some(&json!(3)));
            assert_eq!(read.parameters, [("maxTokens", "max_tokens")]);
        }
    }

    #[test]
    fn the_older_completion_counts_alternatives_in_logprobs() {
        let read = read(json!({ "logprobs": 3, "stop": ["a", "b"] }), Endpoint::Text);
        let values = read.expect("both are known").values;
        assert_eq!(
            Value::Object(values),
            json!({ "logprobs": 3, "stop": ["a", "b"] })
        );
    }

    #[test]
    fn refusals_name_the_parameter() {
        use Endpoint::{Chat, Text};
        for (body, endpoint, param) in [
            (json!({ "temprature": 1 }), Chat, "temprature"),
            (json!({ "messages": [] }), Text, "messages"),
            (
                json!({ "max_completion_tokens": 4 }),
                Text,
                "max_completion_tokens",
            ),
            (json!({ "echo": true }), Text, "echo"),
            (json!({ "best_of": 2 }), Text, "best_of"),
            (
                json!({ "modalities": ["text", "audio"] }),
                Chat,
                "modalities",
            ),
            (json!({ "stop": 7 }), Chat, "stop"),
            (json!({ "logprobs": 2 }), Chat, "logprobs"),
            (json!({ "top_logprobs": 2 }), Chat, "top_logprobs"),
        ] {
            let error = read(body.clone(), endpoint).expect_err("it is refused");
            assert_eq!(error.status(), 400, "{body}");
            let json = error.to_json();
            assert!(json.contains(&format!("\"param\":\"{param}\"")), "{json}");
        }
    }
}
