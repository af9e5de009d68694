//! Options of a generation, checked one by one so that a refusal names the option.

use serde_json::{Map, Value};

use super::error::SessionError;
use crate::tokenizer::{ChatMessage, Now, TemplateOptions};

const MAX_STOPS: usize = 64;
const MAX_STOP_BYTES: usize = 1024;

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
                let read = |(index, message): (usize, &Value)| {
                    serde_json::from_value(message.clone()).map_err(|why| {
                        invalid(
                            &format!("messages[{index}]"),
                            why,
                            "an object { role: string, content: string }",
                        )
                    })
                };
                Ok(Self::Chat(
                    messages
                        .iter()
                        .enumerate()
                        .map(read)
                        .collect::<Result<_, _>>()?,
                ))
            }
            _ => Err(invalid(
                "input",
                kind(value),
                "a string or a non-empty array of messages",
            )),
        }
    }
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
        Ok(read)
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
fn kind(value: &Value) -> &'static str {
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
    fn refusals_name_the_option() {
        for (options, name) in [
            (json!({ "temperature": -0.1 }), "temperature"),
            (json!({ "temperature": "hot" }), "temperature"),
            (json!({ "temperature": null }), "temperature"),
            (json!({ "topK": 1.5 }), "topK"),
            (json!({ "topP": 0 }), "topP"),
            (json!({ "topP": 1.01 }), "topP"),
            (json!({ "minP": 2 }), "minP"),
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
