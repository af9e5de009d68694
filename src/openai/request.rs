//! The body of a completion.

use serde_json::{Map, Value};

use super::error::DialectError;
use super::messages::{messages, prompts};
use super::parameters::{Options, invalid, kind, options};
use super::route::Endpoint;

/// The largest body that is read. A context of a million tokens is smaller.
pub const MAX_BODY_BYTES: usize = 8 << 20;

/// Most answers to one request.
const MAX_CHOICES: usize = 128;

/// Seeds stay integers that JavaScript can hold.
const SEEDS: u64 = 1 << 53;

/// What a completion asks for: one or more prompts, each answered `n` times.
#[derive(Clone, Debug, PartialEq)]
pub struct CompletionRequest {
    endpoint: Endpoint,
    inputs: Vec<Value>,
    options: Options,
    n: usize,
    stream: bool,
    include_usage: bool,
    model: Option<String>,
}

impl CompletionRequest {
    /// Reads and checks a body. The values of options are for the engine to judge.
    ///
    /// # Errors
    /// [`DialectError`] with the parameter that is refused.
    pub fn read(endpoint: Endpoint, body: &[u8]) -> Result<Self, DialectError> {
        let body = fields(body)?;
        let options = options(&body, endpoint)?;
        let get = |name: &str| body.get(name).filter(|value| !value.is_null());
        let input = match endpoint {
            Endpoint::Chat => "messages",
            Endpoint::Text => "prompt",
        };
        let value = get(input).ok_or(DialectError::Missing { param: input })?;
        let inputs = match endpoint {
            Endpoint::Chat => vec![messages(value)?],
            Endpoint::Text => prompts(value)?,
        };
        let n = choices(get("n"), inputs.len())?;
        let stream = switch("stream", get("stream"))?;
        let include_usage = include_usage(get("stream_options"), stream)?;
        Ok(Self {
            endpoint,
            inputs,
            options,
            n,
            stream,
            include_usage,
            model: get("model").and_then(Value::as_str).map(str::to_owned),
        })
    }

    /// Which of the two completions.
    #[must_use]
    pub fn endpoint(&self) -> Endpoint {
        self.endpoint
    }

    /// Whether the answer is a stream of events.
    #[must_use]
    pub fn stream(&self) -> bool {
        self.stream
    }

    /// Whether the stream ends with a chunk of counts.
    #[must_use]
    pub fn include_usage(&self) -> bool {
        self.include_usage
    }

    /// How many answers are asked for in all.
    #[must_use]
    pub fn choices(&self) -> usize {
        self.inputs.len() * self.n
    }

    /// Whether `choice` is the first answer to its prompt.
    #[must_use]
    pub fn is_first_of_prompt(&self, choice: usize) -> bool {
        choice.is_multiple_of(self.n)
    }

    /// The model that is asked for.
    #[must_use]
    pub fn model(&self) -> Option<&str> {
        self.model.as_deref()
    }

    /// What answer `choice` continues: a text, or messages.
    #[must_use]
    pub fn input(&self, choice: usize) -> Option<&Value> {
        self.inputs.get(choice / self.n)
    }

    /// Options of answer `choice` under the names of a generation. With a seed, each answer to
    /// a prompt has one of its own: they would else all be the same.
    #[must_use]
    pub fn options(&self, choice: usize) -> Map<String, Value> {
        let mut options = self.options.values.clone();
        if let Some(seed) = options.get_mut("seed")
            && let Some(first) = seed.as_u64()
        {
            let offset = u64::try_from(choice % self.n).unwrap_or(0);
            if offset > 0 {
                *seed = Value::from(first.saturating_add(offset) % SEEDS);
            }
        }
        options
    }

    /// The parameter that an option of the generation came from; a place within the option
    /// (`logitBias[7]`) is one within the parameter.
    #[must_use]
    pub fn parameter_of(&self, option: &str) -> Option<String> {
        let end = option.find(['.', '[']).unwrap_or(option.len());
        let (option, place) = option.split_at(end);
        let mut pairs = self.options.parameters.iter();
        let (_, parameter) = pairs.find(|(name, _)| *name == option)?;
        Some(format!("{parameter}{place}"))
    }

    /// The parameter that holds the prompt.
    #[must_use]
    pub fn input_parameter(&self) -> &'static str {
        match self.endpoint {
            Endpoint::Chat => "messages",
            Endpoint::Text => "prompt",
        }
    }
}

/// The fields of a body, whose `model` is a string if it is there.
pub(super) fn fields(body: &[u8]) -> Result<Map<String, Value>, DialectError> {
    if body.len() > MAX_BODY_BYTES {
        return Err(DialectError::TooLarge {
            bytes: body.len(),
            limit: MAX_BODY_BYTES,
        });
    }
    let fields: Map<String, Value> =
        serde_json::from_slice(body).map_err(|why| DialectError::NotJson {
            why: why.to_string(),
        })?;
    match fields.get("model") {
        None | Some(Value::Null | Value::String(_)) => Ok(fields),
        Some(other) => Err(invalid("model", kind(other), "a string")),
    }
}

fn choices(n: Option<&Value>, prompts: usize) -> Result<usize, DialectError> {
    let Some(value) = n else {
        return choices(Some(&Value::from(1)), prompts);
    };
    let limit = MAX_CHOICES / prompts.max(1);
    value
        .as_u64()
        .and_then(|n| usize::try_from(n).ok())
        .filter(|n| (1..=limit).contains(n))
        .ok_or_else(|| {
            invalid(
                "n",
                kind(value),
                format!("an integer such that n times the prompts is 1 to {MAX_CHOICES}"),
            )
        })
}

fn switch(name: &str, value: Option<&Value>) -> Result<bool, DialectError> {
    match value {
        None => Ok(false),
        Some(Value::Bool(on)) => Ok(*on),
        Some(other) => Err(invalid(name, kind(other), "true or false")),
    }
}

fn include_usage(options: Option<&Value>, stream: bool) -> Result<bool, DialectError> {
    let Some(options) = options else {
        return Ok(false);
    };
    let fields = options
        .as_object()
        .ok_or_else(|| invalid("stream_options", kind(options), "an object"))?;
    if !stream {
        return Err(invalid(
            "stream_options",
            "an object",
            "absent unless stream is true",
        ));
    }
    let mut include = false;
    for (name, value) in fields {
        let at = format!("stream_options.{name}");
        let on = switch(&at, Some(value).filter(|value| !value.is_null()))?;
        match name.as_str() {
            "include_usage" => include = on,
            // Padding against eavesdroppers on a network; here there is none.
            "include_obfuscation" => {}
            _ => return Err(DialectError::Unsupported { param: at }),
        }
    }
    Ok(include)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(endpoint: Endpoint, body: &Value) -> Result<CompletionRequest, DialectError> {
        CompletionRequest::read(endpoint, body.to_string().as_bytes())
    }

    fn chat(more: Value) -> Result<CompletionRequest, DialectError> {
        let mut body = json!({ "model": "m", "messages": [{ "role": "user", "content": "Hi" }] });
        let fields = body.as_object_mut().expect("it is one");
        fields.extend(more.as_object().expect("tests pass objects").clone());
        read(Endpoint::Chat, &body)
    }

    #[test]
    fn the_smallest_request_is_one_whole_answer() {
        let request = chat(json!({})).expect("it is complete");
        assert_eq!((request.choices(), request.stream()), (1, false));
        assert!(!request.include_usage());
        assert_eq!(
            request.input(0),
            Some(&json!([{ "role": "user", "content": "Hi" }]))
        );
        assert!(request.options(0).is_empty());
    }

    #[test]
    fn answers_are_numbered_prompt_by_prompt_with_seeds_of_their_own() {
        let body = json!({ "prompt": ["a", "b"], "n": 2, "seed": 9_007_199_254_740_991_u64 });
        let request = read(Endpoint::Text, &body).expect("it is complete");
        assert_eq!(request.choices(), 4);
        let all: Vec<_> = (0..4)
            .map(|choice| {
                let seed = request.options(choice).get("seed").and_then(Value::as_u64);
                (request.input(choice).cloned(), seed)
            })
            .collect();
        let last = (1 << 53) - 1;
        assert_eq!(
            all,
            [
                (Some(json!("a")), Some(last)),
                (Some(json!("a")), Some(0)),
                (Some(json!("b")), Some(last)),
                (Some(json!("b")), Some(0)),
            ]
        );
        assert_eq!(request.input(4), None);
        let firsts: Vec<_> = (0..4).map(|n| request.is_first_of_prompt(n)).collect();
        assert_eq!(firsts, [true, false, true, false]);
    }

    #[test]
    fn usage_is_asked_for_by_streams_alone() {
        let options = json!({ "include_usage": true, "include_obfuscation": false });
        let request = chat(json!({ "stream": true, "stream_options": options }));
        assert!(request.expect("it is complete").include_usage());
        let error = chat(json!({ "stream_options": options })).expect_err("it is no stream");
        assert_eq!(error.status(), 400);
    }

    #[test]
    fn refusals_name_the_parameter() {
        for (more, param) in [
            (json!({ "messages": null }), "messages"),
            (json!({ "model": 7 }), "model"),
            (json!({ "n": 0 }), "n"),
            (json!({ "n": 129 }), "n"),
            (json!({ "n": 1.5 }), "n"),
            (json!({ "stream": "yes" }), "stream"),
            (
                json!({ "stream": true, "stream_options": 1 }),
                "stream_options",
            ),
            (
                json!({ "stream": true, "stream_options": { "include_usage": 1 } }),
                "stream_options.include_usage",
            ),
            (
                json!({ "stream": true, "stream_options": { "x": true } }),
                "stream_options.x",
            ),
        ] {
            let error = chat(more.clone()).expect_err("it is refused");
            assert_eq!(error.status(), 400, "{more}");
            let json = error.to_json();
            assert!(json.contains(&format!("\"param\":\"{param}\"")), "{json}");
        }
        let many = json!({ "prompt": vec!["x"; 65], "n": 2 });
        assert!(read(Endpoint::Text, &many).is_err());
    }

    #[test]
    fn bodies_that_are_no_objects_are_refused_before_anything_is_read() {
        for body in [&b""[..], b"{", b"[]", b"null", b"{}x", b"\xff"] {
            let error = CompletionRequest::read(Endpoint::Chat, body).expect_err("no object");
            assert_eq!(error.status(), 400);
            assert!(matches!(error, DialectError::NotJson { .. }), "{error}");
        }
        let huge = vec![b' '; MAX_BODY_BYTES + 1];
        let error = CompletionRequest::read(Endpoint::Chat, &huge).expect_err("too large");
        assert_eq!(error.status(), 413);
        let deep = vec![b'['; 100_000];
        let error = CompletionRequest::read(Endpoint::Chat, &deep).expect_err("too deep");
        assert_eq!(error.status(), 400);
    }

    #[test]
    fn options_know_where_they_came_from() {
        let request = chat(json!({ "max_tokens": 1, "top_k": 2 })).expect("it is complete");
        let parameter = |option: &str| request.parameter_of(option);
        assert_eq!(parameter("maxTokens").as_deref(), Some("max_tokens"));
        assert_eq!(parameter("topK[3].x").as_deref(), Some("top_k[3].x"));
        assert_eq!((parameter("topP"), parameter("top")), (None, None));
        assert_eq!(request.input_parameter(), "messages");
    }
}
