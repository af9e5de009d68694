//! Options of a generation, checked one by one so that a refusal names the option.

use serde_json::{Map, Value};

use super::error::SessionError;
use super::response_format::ResponseFormat;
use super::tools::{Tool, ToolChoice, open_arguments};
use crate::backend::TokenBias;
use crate::tokenizer::{ChatMessage, Now, TemplateOptions};

const MAX_STOPS: usize = 64;
const MAX_STOP_BYTES: usize = 1024;
/// Alternatives whose log-probabilities one token may carry.
const MAX_LOGPROBS: u64 = 20;

/// What to continue.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// Text as it stands.
    Raw(String),
    /// Messages for the model's chat template.
    Chat(Vec<ChatMessage>),
}

impl Input {
    /// Reads a string or an array of `{ role, content }`.
    ///
    /// # Errors
    /// [`SessionError::InvalidOption`].
    pub fn from_json(value: &Value) -> Result<Self, SessionError> {
        match value {
            Value::String(text) => Ok(Self::Raw(text.clone())),
            Value::Array(messages) if !messages.is_empty() => {
                let read = |(index, message)| read_message(index, message);
                let messages = messages.iter().enumerate().map(read);
                Ok(Self::Chat(messages.collect::<Result<_, _>>()?))
            }
            _ => Err(invalid(
                "input",
                kind(value),
                "a string or a non-empty array of messages",
            )),
        }
    }
}

fn read_message(index: usize, message: &Value) -> Result<ChatMessage, SessionError> {
    let at = format!("messages[{index}]");
    let read = serde_json::from_value(message.clone());
    let mut read: ChatMessage =
        read.map_err(|why| invalid(&at, why, "an object { role: string, content: string }"))?;
    match &mut read.tool_calls {
        Some(calls @ Value::Array(_)) => open_arguments(calls),
        Some(other) => {
            let place = format!("{at}.tool_calls");
            return Err(invalid(&place, kind(other), "an array of calls"));
        }
        None if read.content.is_none() => {
            let place = format!("{at}.content");
            return Err(invalid(
                &place,
                "absent",
                "a string, unless there are tool_calls",
            ));
        }
        None => {}
    }
    Ok(read)
}

/// How to continue.
#[derive(Clone, Debug, PartialEq)]
pub struct GenerateOptions {
    /// The most tokens to make; `None`: up to the context's end.
    pub max_tokens: Option<usize>,
    /// 0 is greedy.
    pub temperature: f32,
    /// 0 keeps all.
    pub top_k: usize,
    /// Probability mass kept.
    pub top_p: f32,
    /// Share of the largest probability below which candidates drop out.
    pub min_p: f32,
    /// Makes tokens of prompt and answer less likely (above 1) or likelier (below); 1 does
    /// nothing. Its window is all of both.
    pub repetition_penalty: f32,
    /// Subtracted from a token's logit for each time that the answer has it.
    pub frequency_penalty: f32,
    /// Subtracted from the logit of every token that the answer has.
    pub presence_penalty: f32,
    /// Added to the logits of single tokens, each id once.
    pub logit_bias: Vec<TokenBias>,
    /// Asks for the log-probability of each token and of this many likeliest ones.
    pub logprobs: Option<usize>,
    /// Holds the answer to a form.
    pub response_format: Option<ResponseFormat>,
    /// What the answer may call.
    pub tools: Vec<Tool>,
    /// Whether it does.
    pub tool_choice: ToolChoice,
    /// Same seed, same tokens; `None`: the caller of the session supplies one.
    pub seed: Option<u64>,
    /// Texts that end the answer; none of them is shown.
    pub stop: Vec<String>,
    /// Goes on past end tokens.
    pub ignore_eos: bool,
    /// Extra variables of the chat template.
    pub template_options: Map<String, Value>,
}

impl Default for GenerateOptions {
    fn default() -> Self {
        Self {
            max_tokens: None,
            temperature: 0.8,
            top_k: 40,
            top_p: 0.95,
            min_p: 0.0,
            repetition_penalty: 1.0,
            frequency_penalty: 0.0,
            presence_penalty: 0.0,
            logit_bias: Vec::new(),
            logprobs: None,
            response_format: None,
            tools: Vec::new(),
            tool_choice: ToolChoice::Auto,
            seed: None,
            stop: Vec::new(),
            ignore_eos: false,
            template_options: Map::new(),
        }
    }
}

/// Names as the public interface spells them.
const KNOWN: &[&str] = &[
    "maxTokens",
    "temperature",
    "topK",
    "topP",
    "minP",
    "repetitionPenalty",
    "frequencyPenalty",
    "presencePenalty",
    "logitBias",
    "logprobs",
    "responseFormat",
    "tools",
    "toolChoice",
    "seed",
    "stop",
    "ignoreEos",
    "templateOptions",
];

impl GenerateOptions {
    /// Reads options by their public names; absent ones take their defaults.
    ///
    /// # Errors
    /// [`SessionError::UnknownOption`], [`SessionError::InvalidOption`].
    pub fn from_json(options: &Map<String, Value>) -> Result<Self, SessionError> {
        let mut read = Self::default();
        for (name, value) in options {
            match name.as_str() {
                "maxTokens" => read.max_tokens = Some(size(name, value, 1, 1 << 30)?),
                "temperature" => read.temperature = number(name, value, 0.0, 100.0)?,
                "topK" => read.top_k = size(name, value, 0, 1 << 30)?,
                "topP" => read.top_p = top_p(name, value)?,
                "minP" => read.min_p = number(name, value, 0.0, 1.0)?,
                "repetitionPenalty" => read.repetition_penalty = repetition_penalty(name, value)?,
                "frequencyPenalty" => read.frequency_penalty = number(name, value, -2.0, 2.0)?,
                "presencePenalty" => read.presence_penalty = number(name, value, -2.0, 2.0)?,
                "logitBias" => read.logit_bias = logit_bias(name, value)?,
                "logprobs" => read.logprobs = logprobs(name, value)?,
                "responseFormat" => {
                    read.response_format = ResponseFormat::from_json(name, value)?;
                }
                "tools" => read.tools = Tool::list_from_json(name, value)?,
                "toolChoice" => read.tool_choice = ToolChoice::from_json(name, value)?,
                "seed" => read.seed = Some(integer(name, value, 0, (1 << 53) - 1)?),
                "stop" => read.stop = stops(name, value)?,
                "ignoreEos" => {
                    read.ignore_eos = value
                        .as_bool()
                        .ok_or_else(|| invalid(name, value, "true or false"))?;
                }
                "templateOptions" => {
                    read.template_options = value
                        .as_object()
                        .ok_or_else(|| invalid(name, kind(value), "an object"))?
                        .clone();
                }
                _ => {
                    return Err(SessionError::UnknownOption {
                        name: name.clone(),
                        known: KNOWN.join(", "),
                    });
                }
            }
        }
        read.check_combinations()?;
        Ok(read)
    }

    /// Whether the choice of a token depends on those before it.
    pub(super) fn has_penalties(&self) -> bool {
        let none = Self::default();
        self.repetition_penalty != none.repetition_penalty
            || self.frequency_penalty != none.frequency_penalty
            || self.presence_penalty != none.presence_penalty
    }

    /// Tools that the answer may call.
    #[must_use]
    pub fn callable_tools(&self) -> &[Tool] {
        match self.tool_choice {
            ToolChoice::None => &[],
            _ => &self.tools,
        }
    }

    /// A form decides by itself where an answer may end: what ends it elsewhere, or goes on
    /// past its end, would break it.
    fn check_combinations(&self) -> Result<(), SessionError> {
        let is_forced = self.tool_choice.is_forced();
        if is_forced && self.tools.is_empty() {
            let limit = "\"auto\" or \"none\" where there are no tools";
            return Err(invalid("toolChoice", "a call", limit));
        }
        if let ToolChoice::Function(name) = &self.tool_choice
            && !self.tools.iter().any(|tool| tool.name == *name)
        {
            return Err(invalid("toolChoice", name, "the name of one of the tools"));
        }
        if self.response_format.is_some() && !self.callable_tools().is_empty() {
            let limit = "left out where the answer may call tools";
            return Err(invalid("responseFormat", "given", limit));
        }
        if self.response_format.is_none() && !is_forced {
            return Ok(());
        }
        let limit = "left out where responseFormat or toolChoice decides how the answer ends";
        if !self.stop.is_empty() {
            return Err(invalid("stop", "given", limit));
        }
        if self.ignore_eos {
            return Err(invalid("ignoreEos", "true", limit));
        }
        Ok(())
    }
}

/// Reads `addGenerationPrompt` (default true); every other entry is a variable of the
/// template.
///
/// # Errors
/// [`SessionError::InvalidOption`] when `addGenerationPrompt` is no boolean.
pub fn template_options(
    options: &Map<String, Value>,
    now: Now,
) -> Result<TemplateOptions, SessionError> {
    let mut variables = options.clone();
    let name = "addGenerationPrompt";
    let add_generation_prompt = match variables.remove(name) {
        None => true,
        Some(Value::Bool(value)) => value,
        Some(value) => return Err(invalid(name, kind(&value), "true or false")),
    };
    Ok(TemplateOptions {
        add_generation_prompt,
        variables,
        now,
    })
}

pub(super) fn invalid(
    name: &str,
    value: impl std::fmt::Display,
    limit: impl Into<String>,
) -> SessionError {
    SessionError::InvalidOption {
        name: name.to_owned(),
        value: value.to_string(),
        limit: limit.into(),
    }
}

/// The kind of a value, where the value itself may be long.
pub(super) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null (or not a finite number)",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

fn number(name: &str, value: &Value, min: f64, max: f64) -> Result<f32, SessionError> {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "rounded to the precision in use"
    )]
    value
        .as_f64()
        .filter(|x| (min..=max).contains(x))
        .map(|x| x as f32)
        .ok_or_else(|| invalid(name, value, format!("a number from {min} to {max}")))
}

fn top_p(name: &str, value: &Value) -> Result<f32, SessionError> {
    let mass = number(name, value, 0.0, 1.0)?;
    if mass > 0.0 {
        return Ok(mass);
    }
    Err(invalid(
        name,
        value,
        "above 0 and at most 1; for the likeliest token alone use topK: 1",
    ))
}

fn repetition_penalty(name: &str, value: &Value) -> Result<f32, SessionError> {
    let penalty = number(name, value, 0.0, 10.0)?;
    if penalty > 0.0 {
        return Ok(penalty);
    }
    Err(invalid(
        name,
        value,
        "above 0 and at most 10; 1 does nothing",
    ))
}

/// Reads `{ "id": bias }`.
fn logit_bias(name: &str, value: &Value) -> Result<Vec<TokenBias>, SessionError> {
    let limit = "an object of token ids, each with a number from -100 to 100";
    let entries = value
        .as_object()
        .ok_or_else(|| invalid(name, kind(value), limit))?;
    let read = |(key, value): (&String, &Value)| {
        // One spelling per id, so that none occurs twice.
        let id = key.parse().ok().filter(|id: &u32| id.to_string() == *key);
        let id = id.ok_or_else(|| invalid(name, format!("for {key:?}"), limit))?;
        let bias = number(&format!("{name}[{id}]"), value, -100.0, 100.0)?;
        Ok(TokenBias { id, bias })
    };
    entries.iter().map(read).collect()
}

/// Reads a number of alternatives; `true` is none of them, `false` no log-probabilities.
fn logprobs(name: &str, value: &Value) -> Result<Option<usize>, SessionError> {
    match value {
        Value::Bool(wanted) => Ok(wanted.then_some(0)),
        Value::Number(_) => size(name, value, 0, MAX_LOGPROBS).map(Some),
        _ => {
            let limit = format!("true, or a number of alternatives from 0 to {MAX_LOGPROBS}");
            Err(invalid(name, kind(value), limit))
        }
    }
}

fn integer(name: &str, value: &Value, min: u64, max: u64) -> Result<u64, SessionError> {
    // JavaScript has one kind of number: 8 may arrive as 8.0.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "checked to be a non-negative integer below 2^53"
    )]
    let whole = value.as_u64().or_else(|| {
        value
            .as_f64()
            .filter(|x| x.fract() == 0.0 && (0.0..9.0e15).contains(x))
            .map(|x| x as u64)
    });
    whole
        .filter(|x| (min..=max).contains(x))
        .ok_or_else(|| invalid(name, value, format!("an integer from {min} to {max}")))
}

pub(super) fn size(name: &str, value: &Value, min: u64, max: u64) -> Result<usize, SessionError> {
    let whole = integer(name, value, min, max)?;
    usize::try_from(whole).map_err(|_| invalid(name, value, "smaller"))
}

fn stops(name: &str, value: &Value) -> Result<Vec<String>, SessionError> {
    let limit = || format!("an array of 1 to {MAX_STOPS} strings of 1 to {MAX_STOP_BYTES} bytes");
    let list = value
        .as_array()
        .ok_or_else(|| invalid(name, kind(value), limit()))?;
    if list.len() > MAX_STOPS {
        return Err(invalid(name, format!("{} strings", list.len()), limit()));
    }
    list.iter()
        .map(|stop| {
            stop.as_str()
                .filter(|s| (1..=MAX_STOP_BYTES).contains(&s.len()))
                .map(str::to_owned)
                .ok_or_else(|| invalid(name, kind(stop), limit()))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(options: Value) -> Result<GenerateOptions, SessionError> {
        GenerateOptions::from_json(options.as_object().expect("tests pass objects"))
    }

    fn tools() -> Value {
        json!([named("a")])
    }

    fn named(name: &str) -> Value {
        json!({ "type": "function", "function": { "name": name } })
    }

    #[test]
    fn tools_that_may_not_be_called_go_with_a_form() {
        let form = json!({ "type": "json_object" });
        let options = json!({ "tools": tools(), "toolChoice": "none", "responseFormat": form });
        let options = read(options).expect("they do not meet");
        assert!(options.callable_tools().is_empty() && options.tools.len() == 1);
        let options = read(json!({ "tools": tools() })).expect("a tool");
        assert_eq!(options.callable_tools().len(), 1);
    }

    #[test]
    fn messages_may_hold_calls_in_place_of_text() {
        let call = json!({ "id": "x", "function": { "name": "a", "arguments": "{\"b\":1}" } });
        let messages = json!([
            { "role": "assistant", "content": null, "tool_calls": [call] },
            { "role": "tool", "content": "7", "tool_call_id": "x", "name": "a" },
        ]);
        let Ok(Input::Chat(read)) = Input::from_json(&messages) else {
            panic!("messages");
        };
        assert_eq!(read[0].content, None);
        let calls = read[0].tool_calls.as_ref().expect("a call");
        assert_eq!(calls[0]["function"]["arguments"], json!({ "b": 1 }));
        assert_eq!(read[1].tool_call_id.as_deref(), Some("x"));
        for (message, place) in [
            (json!({ "role": "user" }), "messages[0].content"),
            (
                json!({ "role": "user", "content": null }),
                "messages[0].content",
            ),
            (
                json!({ "role": "user", "tool_calls": 1 }),
                "messages[0].tool_calls",
            ),
        ] {
            let error = Input::from_json(&json!([message])).expect_err("no message");
            assert!(
                matches!(&error, SessionError::InvalidOption { name, .. } if name == place),
                "{error}"
            );
        }
    }

    #[test]
    fn absent_options_take_the_documented_defaults() {
        let options = read(json!({})).expect("no options are fine");
        assert_eq!((options.temperature, options.top_k), (0.8, 40));
        assert_eq!(
            (options.top_p, options.min_p, options.max_tokens),
            (0.95, 0.0, None)
        );
    }

    #[test]
    fn whole_numbers_may_arrive_as_floats() {
        let options = read(json!({ "maxTokens": 8.0, "seed": 9_007_199_254_740_991_u64 }));
        let options = options.expect("both are whole");
        assert_eq!(
            (options.max_tokens, options.seed),
            (Some(8), Some((1 << 53) - 1))
        );
    }

    #[test]
    fn biases_and_logprobs_are_read_in_all_their_forms() {
        let options = read(json!({ "logitBias": { "7": -100, "31": 0.5 }, "logprobs": 3 }));
        let options = options.expect("all are in range");
        let biases: Vec<_> = options.logit_bias.iter().map(|b| (b.id, b.bias)).collect();
        assert_eq!(biases, [(7, -100.0), (31, 0.5)]);
        assert_eq!(options.logprobs, Some(3));
        let asked = |value: bool| {
            read(json!({ "logprobs": value }))
                .expect("a choice")
                .logprobs
        };
        assert_eq!((asked(true), asked(false)), (Some(0), None));
    }

    #[test]
    fn refusals_name_the_option() {
        for (options, name) in [
            (json!({ "temperature": -0.1 }), "temperature"),
            (json!({ "temperature": "hot" }), "temperature"),
            (json!({ "temperature": null }), "temperature"),
            (json!({ "topK": 1.5 }), "topK"),
            (json!({ "topP": 0 }), "topP"),
            (json!({ "topP": 1.01 }), "topP"),
            (json!({ "minP": 2 }), "minP"),
            (json!({ "repetitionPenalty": 0 }), "repetitionPenalty"),
            (json!({ "repetitionPenalty": 10.5 }), "repetitionPenalty"),
            (json!({ "frequencyPenalty": 2.1 }), "frequencyPenalty"),
            (json!({ "presencePenalty": -2.1 }), "presencePenalty"),
            (json!({ "logitBias": [1] }), "logitBias"),
            (json!({ "logitBias": { "x": 1 } }), "logitBias"),
            (json!({ "logitBias": { "07": 1 } }), "logitBias"),
            (json!({ "logitBias": { "7": 101 } }), "logitBias[7]"),
            (json!({ "logprobs": 21 }), "logprobs"),
            (json!({ "logprobs": "all" }), "logprobs"),
            (
                json!({ "responseFormat": { "type": "json" } }),
                "responseFormat.type",
            ),
            (
                json!({ "responseFormat": { "type": "json_object" }, "stop": ["x"] }),
                "stop",
            ),
            (
                json!({ "ignoreEos": true, "responseFormat": { "type": "json_object" } }),
                "ignoreEos",
            ),
            (json!({ "tools": 1 }), "tools"),
            (json!({ "toolChoice": "any" }), "toolChoice"),
            (json!({ "toolChoice": "required" }), "toolChoice"),
            (
                json!({ "tools": tools(), "toolChoice": named("b") }),
                "toolChoice",
            ),
            (
                json!({ "tools": tools(), "toolChoice": named("a"), "stop": ["x"] }),
                "stop",
            ),
            (
                json!({ "tools": tools(), "responseFormat": { "type": "json_object" } }),
                "responseFormat",
            ),
            (json!({ "maxTokens": 0 }), "maxTokens"),
            (json!({ "seed": -1 }), "seed"),
            (json!({ "stop": "x" }), "stop"),
            (json!({ "stop": [""] }), "stop"),
            (json!({ "ignoreEos": 1 }), "ignoreEos"),
            (json!({ "templateOptions": [] }), "templateOptions"),
        ] {
            let error = read(options.clone()).expect_err("out of limits");
            assert!(
                matches!(&error, SessionError::InvalidOption { name: n, .. } if n == name),
                "{options}: {error}"
            );
            assert_eq!(error.code(), "invalid-option");
        }
        let error = read(json!({ "max_tokens": 8 })).expect_err("not an option");
        assert!(matches!(error, SessionError::UnknownOption { .. }));
    }

    #[test]
    fn input_is_text_or_messages() {
        let messages = json!([{ "role": "user", "content": "Hi" }]);
        assert!(matches!(Input::from_json(&messages), Ok(Input::Chat(m)) if m.len() == 1));
        assert_eq!(
            Input::from_json(&json!("Hi")),
            Ok(Input::Raw("Hi".to_owned()))
        );
        for wrong in [json!([]), json!(3), json!([{ "role": "user" }]), json!([3])] {
            assert!(Input::from_json(&wrong).is_err(), "{wrong}");
        }
    }
}
