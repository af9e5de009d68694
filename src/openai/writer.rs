//! Tokens to the bytes of an answer.

use serde::de::IgnoredAny;

use super::error::DialectError;
use super::reply::{
    Call, CallChunk, Delta, DeltaChoice, Function, FunctionChunk, Message, MessageChoice, Reply,
    Scored, TextChoice, TokenScore, UsageBody, logprobs, to_json,
};
use super::request::CompletionRequest;
use super::route::Endpoint;
use crate::sse::{Event, encode_event};

/// What every part of an answer repeats.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// Unique for the request.
    pub id: String,
    /// Unix time in seconds.
    pub created: u64,
    /// Name of the model.
    pub model: String,
}

/// Token counts of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Of all prompts, each counted once.
    pub prompt_tokens: usize,
    /// Those of `prompt_tokens` whose KV cache was reused.
    pub cached_tokens: usize,
    /// Of all answers.
    pub completion_tokens: usize,
}

/// A part of a tool call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallDelta {
    /// Which call of the answer, from 0 without gaps.
    pub index: usize,
    /// What the tool's answer refers to.
    pub id: String,
    /// The tool, in the first part of a call.
    pub name: Option<String>,
    /// What this part adds to the arguments.
    pub arguments: String,
}

/// One answer of several.
#[derive(Clone, Debug, Default)]
struct Choice {
    text: String,
    calls: Vec<Call>,
    characters: usize,
    scored: Vec<Scored>,
    finish_reason: String,
}

/// Writes the answers to one request, one after the other: [`begin`](Self::begin),
/// [`token`](Self::token)s, [`finish`](Self::finish), for each choice. What a call adds to the
/// body is taken with [`take`](Self::take).
#[derive(Clone, Debug)]
pub struct CompletionWriter {
    head: Head,
    endpoint: Endpoint,
    stream: bool,
    include_usage: bool,
    choices: usize,
    finished: Vec<Choice>,
    current: Choice,
    usage: Usage,
    out: String,
}

impl CompletionWriter {
    /// A writer for the answers to `request`.
    #[must_use]
    pub fn new(head: Head, request: &CompletionRequest) -> Self {
        Self {
            head,
            endpoint: request.endpoint(),
            stream: request.stream(),
            include_usage: request.include_usage(),
            choices: request.choices(),
            finished: Vec::new(),
            current: Choice::default(),
            usage: Usage::default(),
            out: String::new(),
        }
    }

    /// Starts the next answer. A chat's stream opens with a chunk that holds the role alone.
    pub fn begin(&mut self) {
        if self.stream && self.endpoint == Endpoint::Chat {
            let delta = Delta {
                role: Some("assistant"),
                content: Some(""),
                ..Delta::default()
            };
            self.delta(delta, None, None);
        }
    }

    /// Adds a token's text, with how likely it was where that is asked for.
    pub fn token(&mut self, text: &str, score: Option<TokenScore>) {
        if let Some(score) = score {
            self.current.scored.push(Scored {
                text: text.to_owned(),
                offset: self.current.characters,
                score,
            });
        }
        self.current.characters += text.chars().count();
        if !self.stream {
            self.current.text.push_str(text);
        } else if !text.is_empty() {
            self.piece(text, None);
        }
    }

    /// Adds parts of tool calls, which only chats have.
    pub fn tool_calls(&mut self, parts: Vec<CallDelta>) {
        if parts.is_empty() {
            return;
        }
        if self.stream {
            let tool_calls: Vec<_> = parts.into_iter().map(call_chunk).collect();
            let delta = Delta {
                tool_calls: &tool_calls,
                ..Delta::default()
            };
            self.delta(delta, None, None);
            return;
        }
        for part in parts {
            match self.current.calls.get_mut(part.index) {
                Some(call) => call.function.arguments.push_str(&part.arguments),
                None => self.current.calls.push(Call {
                    id: part.id,
                    r#type: "function",
                    function: Function {
                        name: part.name.unwrap_or_default(),
                        arguments: part.arguments,
                    },
                }),
            }
        }
    }

    /// Ends the answer; after the last one, ends the body. `usage` counts this answer, its
    /// prompt only where no earlier answer did.
    pub fn finish(&mut self, reason: &str, usage: Usage) {
        let total = &mut self.usage;
        total.prompt_tokens += usage.prompt_tokens;
        total.cached_tokens += usage.cached_tokens;
        total.completion_tokens += usage.completion_tokens;
        self.current.finish_reason = reason.replace('-', "_");
        if self.stream {
            let reason = self.current.finish_reason.clone();
            self.piece("", Some(&reason));
        }
        self.finished.push(std::mem::take(&mut self.current));
        if self.finished.len() < self.choices {
            return;
        }
        if self.stream {
            if self.include_usage {
                self.last_chunk();
            }
            self.event(None, "[DONE]");
        } else {
            self.whole();
        }
    }

    /// Ends a stream that has begun with an error instead of its marker.
    pub fn fail(&mut self, error: &DialectError) {
        self.event(Some("error"), &error.to_json());
    }

    /// What was written since the last call.
    #[must_use]
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.out).into_bytes()
    }

    fn piece(&mut self, text: &str, finish_reason: Option<&str>) {
        let scored = std::mem::take(&mut self.current.scored);
        let logprobs = logprobs(self.endpoint, &scored);
        match self.endpoint {
            Endpoint::Chat => {
                let content = Some(text).filter(|text| !text.is_empty());
                let delta = Delta {
                    content,
                    ..Delta::default()
                };
                self.delta(delta, logprobs, finish_reason);
            }
            Endpoint::Text => {
                let choice = TextChoice {
                    index: self.finished.len(),
                    text,
                    logprobs,
                    finish_reason,
                };
                let json = to_json(&self.chunk(&[choice]));
                self.event(None, &json);
            }
        }
    }

    fn delta(
        &mut self,
        delta: Delta<'_>,
        logprobs: Option<serde_json::Value>,
        finish_reason: Option<&str>,
    ) {
        let choice = DeltaChoice {
            index: self.finished.len(),
            delta,
            logprobs,
            finish_reason,
        };
        let json = to_json(&self.chunk(&[choice]));
        self.event(None, &json);
    }

    fn last_chunk(&mut self) {
        let mut chunk = self.chunk::<DeltaChoice<'_>>(&[]);
        chunk.usage = Some(Some(UsageBody::from(self.usage)));
        let json = to_json(&chunk);
        self.event(None, &json);
    }

    fn whole(&mut self) {
        let usage = Some(Some(UsageBody::from(self.usage)));
        let finished = std::mem::take(&mut self.finished);
        let json = match self.endpoint {
            Endpoint::Chat => {
                let choices: Vec<_> = finished.into_iter().enumerate().map(message).collect();
                to_json(&self.reply("chat.completion", &choices, usage))
            }
            Endpoint::Text => {
                let choices: Vec<_> = finished.iter().enumerate().map(text).collect();
                to_json(&self.reply("text_completion", &choices, usage))
            }
        };
        self.out.push_str(&json);
    }

    fn chunk<'a, C>(&'a self, choices: &'a [C]) -> Reply<'a, C> {
        let object = match self.endpoint {
            Endpoint::Chat => "chat.completion.chunk",
            Endpoint::Text => "text_completion",
        };
        self.reply(object, choices, self.include_usage.then_some(None))
    }

    fn reply<'a, C>(
        &'a self,
        object: &'static str,
        choices: &'a [C],
        usage: Option<Option<UsageBody>>,
    ) -> Reply<'a, C> {
        Reply {
            id: &self.head.id,
            object,
            created: self.head.created,
            model: &self.head.model,
            choices,
            usage,
        }
    }

    fn event(&mut self, event: Option<&str>, data: &str) {
        let event = Event {
            event,
            data: Some(data),
            ..Event::default()
        };
        // The only names are constants of one line.
        let encoded = encode_event(&event, &mut self.out);
        debug_assert!(encoded.is_ok(), "{encoded:?}");
    }
}

fn call_chunk(part: CallDelta) -> CallChunk {
    let is_first = part.name.is_some();
    CallChunk {
        index: part.index,
        id: is_first.then_some(part.id),
        r#type: is_first.then_some("function"),
        function: FunctionChunk {
            name: part.name,
            arguments: part.arguments,
        },
    }
}

fn message((index, mut choice): (usize, Choice)) -> MessageChoice {
    // A call that was cut stands in the text.
    let is_whole =
        |call: &Call| serde_json::from_str::<IgnoredAny>(&call.function.arguments).is_ok();
    choice.calls.retain(is_whole);
    MessageChoice {
        index,
        message: Message {
            role: "assistant",
            content: Some(choice.text).filter(|text| choice.calls.is_empty() || !text.is_empty()),
            refusal: None,
            tool_calls: choice.calls,
        },
        logprobs: logprobs(Endpoint::Chat, &choice.scored),
        finish_reason: choice.finish_reason,
    }
}

fn text((index, choice): (usize, &Choice)) -> TextChoice<'_> {
    TextChoice {
        index,
        text: &choice.text,
        logprobs: logprobs(Endpoint::Text, &choice.scored),
        finish_reason: Some(&choice.finish_reason),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const CHAT: &str = r#""messages":[{"role":"user","content":"Hi"}]"#;
    const USAGE: Usage = Usage {
        prompt_tokens: 5,
        cached_tokens: 2,
        completion_tokens: 3,
    };

    fn writer(endpoint: Endpoint, body: &str) -> CompletionWriter {
        let request = CompletionRequest::read(endpoint, body.as_bytes()).expect("a request");
        let head = Head {
            id: "chatcmpl-1".to_owned(),
            created: 7,
            model: "Tiny".to_owned(),
        };
        CompletionWriter::new(head, &request)
    }

    fn taken(writer: &mut CompletionWriter) -> String {
        String::from_utf8(writer.take()).expect("it is text")
    }

    fn chunk(rest: &str) -> String {
        format!(
            "data: {{\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":7,\
             \"model\":\"Tiny\",{rest}}}\n\n"
        )
    }

    #[test]
    fn a_chat_streams_role_text_reason_usage_and_marker() {
        let body =
            format!("{{{CHAT},\"stream\":true,\"stream_options\":{{\"include_usage\":true}}}}");
        let mut writer = writer(Endpoint::Chat, &body);
        let choice = |delta: &str, reason: &str| {
            chunk(&format!(
                "\"choices\":[{{\"index\":0,\"delta\":{delta},\"logprobs\":null,\
                 \"finish_reason\":{reason}}}],\"usage\":null"
            ))
        };
        writer.begin();
        assert_eq!(
            taken(&mut writer),
            choice(r#"{"role":"assistant","content":""}"#, "null")
        );
        writer.token("a \"b\"\n", None);
        assert_eq!(
            taken(&mut writer),
            choice(r#"{"content":"a \"b\"\n"}"#, "null")
        );
        writer.token("", None);
        assert_eq!(taken(&mut writer), "");
        writer.finish("stop", USAGE);
        let usage = "\"choices\":[],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":3,\
             \"total_tokens\":8,\"prompt_tokens_details\":{\"cached_tokens\":2}}";
        assert_eq!(
            taken(&mut writer),
            choice("{}", "\"stop\"") + &chunk(usage) + "data: [DONE]\n\n"
        );
    }

    fn call_parts() -> [Vec<CallDelta>; 2] {
        let first = CallDelta {
            id: "x1".to_owned(),
            name: Some("weather".to_owned()),
            arguments: "{\"a\"".to_owned(),
            ..CallDelta::default()
        };
        let second = CallDelta {
            id: "x1".to_owned(),
            arguments: ":1}".to_owned(),
            ..CallDelta::default()
        };
        [vec![first], vec![second]]
    }

    #[test]
    fn a_chat_streams_parts_of_tool_calls() {
        let mut writer = writer(Endpoint::Chat, &format!("{{{CHAT},\"stream\":true}}"));
        call_parts()
            .into_iter()
            .for_each(|parts| writer.tool_calls(parts));
        writer.tool_calls(Vec::new());
        writer.finish("tool-calls", USAGE);
        let choice = |delta: &str, reason: &str| {
            chunk(&format!(
                "\"choices\":[{{\"index\":0,\"delta\":{delta},\"logprobs\":null,\
                 \"finish_reason\":{reason}}}]"
            ))
        };
        let first = "{\"tool_calls\":[{\"index\":0,\"id\":\"x1\",\"type\":\"function\",\
             \"function\":{\"name\":\"weather\",\"arguments\":\"{\\\"a\\\"\"}}]}";
        let second = "{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\":1}\"}}]}";
        assert_eq!(
            taken(&mut writer),
            choice(first, "null")
                + &choice(second, "null")
                + &choice("{}", "\"tool_calls\"")
                + "data: [DONE]\n\n"
        );
    }

    #[test]
    fn a_whole_chat_holds_its_tool_calls_in_place_of_text() {
        let mut writer = writer(Endpoint::Chat, &format!("{{{CHAT}}}"));
        writer.begin();
        call_parts()
            .into_iter()
            .for_each(|parts| writer.tool_calls(parts));
        writer.finish("tool-calls", USAGE);
        let whole: Value = serde_json::from_str(&taken(&mut writer)).expect("it is JSON");
        let function = json!({ "name": "weather", "arguments": "{\"a\":1}" });
        assert_eq!(
            whole["choices"][0]["message"],
            json!({
                "role": "assistant", "content": null, "refusal": null,
                "tool_calls": [{ "id": "x1", "type": "function", "function": function }],
            })
        );
        assert_eq!(whole["choices"][0]["finish_reason"], "tool_calls");
    }

    #[test]
    fn several_answers_are_numbered_and_ended_by_one_marker() {
        let body = format!("{{{CHAT},\"stream\":true,\"n\":2}}");
        let mut writer = writer(Endpoint::Chat, &body);
        for text in ["x", "y"] {
            writer.begin();
            writer.token(text, None);
            writer.finish("length", USAGE);
        }
        let all = taken(&mut writer);
        let indexes: Vec<_> = all
            .match_indices("\"index\":")
            .map(|(at, _)| &all[at + 8..at + 9])
            .collect();
        assert_eq!(indexes.concat(), "000111");
        assert_eq!(all.matches("[DONE]").count(), 1);
        assert!(
            all.ends_with("data: [DONE]\n\n") && !all.contains("usage"),
            "{all}"
        );
    }

    #[test]
    fn a_failure_ends_the_stream_without_its_marker() {
        let mut writer = writer(Endpoint::Chat, &format!("{{{CHAT},\"stream\":true}}"));
        writer.fail(&DialectError::Engine {
            code: "device-lost".to_owned(),
            message: "The GPU is\r\ngone.".to_owned(),
            param: None,
        });
        assert_eq!(
            taken(&mut writer),
            "event: error\ndata: {\"error\":{\"message\":\"The GPU is\\r\\ngone.\",\
             \"type\":\"server_error\",\"param\":null,\"code\":\"device_lost\"}}\n\n"
        );
    }

    #[test]
    fn a_whole_chat_counts_all_its_answers() {
        let mut writer = writer(Endpoint::Chat, &format!("{{{CHAT},\"n\":2}}"));
        writer.begin();
        writer.token("one", None);
        writer.token(" two", None);
        writer.finish("tool-calls", USAGE);
        assert_eq!(taken(&mut writer), "");
        writer.begin();
        let second = Usage {
            completion_tokens: 4,
            ..Usage::default()
        };
        writer.finish("length", second);
        let whole: Value = serde_json::from_str(&taken(&mut writer)).expect("it is JSON");
        let choice = |index: usize, content: &str, reason: &str| {
            json!({
                "index": index,
                "message": { "role": "assistant", "content": content, "refusal": null },
                "logprobs": null,
                "finish_reason": reason,
            })
        };
        assert_eq!(
            whole,
            json!({
                "id": "chatcmpl-1", "object": "chat.completion", "created": 7, "model": "Tiny",
                "choices": [choice(0, "one two", "tool_calls"), choice(1, "", "length")],
                "usage": {
                    "prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12,
                    "prompt_tokens_details": { "cached_tokens": 2 },
                },
            })
        );
    }

    #[test]
    fn a_text_completion_streams_and_answers_whole() {
        let mut stream = writer(Endpoint::Text, r#"{"prompt":"Hi","stream":true}"#);
        stream.begin();
        stream.token("x", None);
        stream.finish("length", USAGE);
        let event = |text: &str, reason: &str| {
            format!(
                "data: {{\"id\":\"chatcmpl-1\",\"object\":\"text_completion\",\"created\":7,\
                 \"model\":\"Tiny\",\"choices\":[{{\"index\":0,\"text\":\"{text}\",\
                 \"logprobs\":null,\"finish_reason\":{reason}}}]}}\n\n"
            )
        };
        assert_eq!(
            taken(&mut stream),
            event("x", "null") + &event("", "\"length\"") + "data: [DONE]\n\n"
        );
        let mut whole = writer(Endpoint::Text, r#"{"prompt":"Hi"}"#);
        whole.begin();
        whole.token("xy", None);
        whole.finish("stop", USAGE);
        let whole: Value = serde_json::from_str(&taken(&mut whole)).expect("it is JSON");
        assert_eq!(whole["object"], "text_completion");
        assert_eq!(
            whole["choices"],
            json!([{ "index": 0, "text": "xy", "logprobs": null, "finish_reason": "stop" }])
        );
    }

    #[test]
    fn log_probabilities_come_in_the_shape_of_each_endpoint() {
        let scored = |logprob: f64, bytes: Option<&[u8]>| {
            let other = TokenScore {
                logprob: -0.5,
                bytes: Some(vec![120]),
                top: Vec::new(),
            };
            Some(TokenScore {
                logprob,
                bytes: bytes.map(<[u8]>::to_vec),
                top: vec![("x".to_owned(), other)],
            })
        };
        let mut chat = writer(Endpoint::Chat, &format!("{{{CHAT}}}"));
        let mut text = writer(Endpoint::Text, r#"{"prompt":"Hi"}"#);
        for writer in [&mut chat, &mut text] {
            writer.begin();
            writer.token("é", scored(-0.25, Some(&[0xc3, 0xa9])));
            writer.token("z", scored(-2.0, None));
            writer.finish("stop", USAGE);
        }
        let chat: Value = serde_json::from_str(&taken(&mut chat)).expect("it is JSON");
        let entry = |text: &str, p: f64, bytes: Value| {
            let top = json!([{ "token": "x", "logprob": -0.5, "bytes": [120] }]);
            json!({ "token": text, "logprob": p, "bytes": bytes, "top_logprobs": top })
        };
        assert_eq!(
            chat["choices"][0]["logprobs"],
            json!({ "content": [entry("é", -0.25, json!([195, 169])), entry("z", -2.0, json!(null))], "refusal": null })
        );
        let text: Value = serde_json::from_str(&taken(&mut text)).expect("it is JSON");
        assert_eq!(
            text["choices"][0]["logprobs"],
            json!({
                "tokens": ["é", "z"], "token_logprobs": [-0.25, -2.0],
                "top_logprobs": [{ "x": -0.5 }, { "x": -0.5 }], "text_offset": [0, 1],
            })
        );
    }

    #[test]
    fn a_stream_tells_log_probabilities_of_held_back_text_with_the_next_piece() {
        let mut writer = writer(Endpoint::Chat, &format!("{{{CHAT},\"stream\":true}}"));
        let scored = |logprob| {
            Some(TokenScore {
                logprob,
                ..TokenScore::default()
            })
        };
        writer.token("", scored(-1.0));
        assert_eq!(taken(&mut writer), "");
        writer.token("é", scored(-2.0));
        let chunk = taken(&mut writer);
        let json = chunk.trim_start_matches("data: ");
        let chunk: Value = serde_json::from_str(json).expect("it is JSON");
        let content = &chunk["choices"][0]["logprobs"]["content"];
        assert_eq!(
            (&content[0]["logprob"], &content[1]["logprob"]),
            (&json!(-1.0), &json!(-2.0))
        );
    }
}
