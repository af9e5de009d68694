//! Bodies of requests in the OpenAI dialect.

use std::time::Duration;

use serde_json::{Map, Value, json};
use tokenbrook::openai::{
    CompletionRequest, CompletionWriter, EmbeddingsRequest, Endpoint, Head, Route, TokenScore,
    Usage,
};
use tokenbrook::session::{GenerateOptions, Input};

use crate::common::Random;
use crate::fuzz;
use crate::pieces::{mutated, one, text};
use crate::stopwatch::Stopwatch;

const KEYS: &[&str] = &[
    "model",
    "messages",
    "prompt",
    "stream",
    "stream_options",
    "n",
    "max_completion_tokens",
    "max_tokens",
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "seed",
    "stop",
    "ignore_eos",
    "repetition_penalty",
    "frequency_penalty",
    "presence_penalty",
    "logit_bias",
    "logprobs",
    "top_logprobs",
    "response_format",
    "tools",
    "tool_choice",
    "chat_template_kwargs",
    "best_of",
    "echo",
    "suffix",
    "modalities",
    "user",
    "input",
    "encoding_format",
    "dimensions",
    "other",
];

fn value(random: &mut Random, levels: usize) -> Value {
    match random.below(if levels == 0 { 7 } else { 10 }) {
        0 => Value::Null,
        1 => json!(random.below(2) == 0),
        2 => json!(random.below(5)),
        3 => json!([-1.5, 1e300, 0.0, 2e9][random.below(4)]),
        4 => json!(random.next()),
        5 => json!(text(
            random,
            &["auto", "required", "json_schema", "user"],
            4
        )),
        6 => json!(one(
            random,
            &["user", "tool", "text", "function", "float", "lark"]
        )),
        7 => (0..random.below(4))
            .map(|_| value(random, levels - 1))
            .collect(),
        _ => {
            let names = [
                "role",
                "content",
                "type",
                "text",
                "function",
                "name",
                "arguments",
                "parameters",
                "tool_calls",
                "id",
                "schema",
                "json_schema",
                "include_usage",
                "5",
                "grammar",
            ];
            let mut entries = Map::new();
            for _ in 0..random.below(5) {
                entries.insert(one(random, &names).to_owned(), value(random, levels - 1));
            }
            Value::Object(entries)
        }
    }
}

/// A body that is valid, then changed in some of its fields.
fn body(random: &mut Random, input: &str) -> String {
    let tool = json!({ "type": "function", "function": { "name": "f", "parameters": {} } });
    let call = json!({ "id": "1", "type": "function",
        "function": { "name": "f", "arguments": "{}" } });
    let mut body = json!({
        "model": "m", "prompt": ["a", "b"], "input": ["a", [1, 2]], "stream": true, "n": 2,
        "messages": [
            { "role": "user", "content": [{ "type": "text", "text": "Hi" }] },
            { "role": "assistant", "tool_calls": [call] },
            { "role": "tool", "tool_call_id": "1", "content": "x" },
        ],
        "tools": [tool], "tool_choice": "auto", "logprobs": true, "top_logprobs": 2,
        "response_format": { "type": "json_schema", "json_schema": { "schema": {} } },
        "stream_options": { "include_usage": true }, "logit_bias": { "5": 1 },
    });
    let fields = body.as_object_mut().expect("it is one");
    let kept = random.below(3);
    fields.retain(|key, _| match key.as_str() {
        "messages" | "prompt" | "input" => kept > 0 && key == input,
        "tools" | "tool_choice" | "response_format" | "top_logprobs" if input != "messages" => {
            false
        }
        _ => kept > 0 && random.below(2) == 0,
    });
    for _ in 0..random.below(3) {
        fields.insert(one(random, KEYS).to_owned(), value(random, 4));
    }
    let text = body.to_string();
    if random.below(3) == 0 {
        let parts = [
            "{", "}", "[", "]", ",", ":", "\"", "null", "1e999", "\\u0000", "\\ud800",
        ];
        return mutated(random, &text, &text, &parts);
    }
    text
}

fn write(request: &CompletionRequest, random: &mut Random) {
    let head = Head {
        id: "1".to_owned(),
        created: 0,
        model: "m\r\n".to_owned(),
    };
    let mut writer = CompletionWriter::new(head, request);
    for _ in 0..request.choices().min(4) {
        writer.begin();
        for _ in 0..random.below(4) {
            let score = (random.below(2) == 0).then(|| TokenScore {
                logprob: f64::from(random.float()),
                bytes: Some(random.bytes(3)),
                top: vec![(text(random, &[], 3), TokenScore::default())],
            });
            writer.token(&text(random, &["\n\n", "data: "], 4), score);
        }
        writer.finish("stop", Usage::default());
    }
    let bytes = String::from_utf8(writer.take()).expect("it is text");
    if request.stream() {
        assert!(
            bytes.split("\n\n").all(|event| !event.contains('\n')),
            "{bytes}"
        );
    } else if request.choices() <= 4 {
        assert!(serde_json::from_str::<Value>(&bytes).is_ok(), "{bytes}");
    }
}

#[test]
fn bodies_are_read_or_refused_in_the_dialect() {
    let (mut read, mut refused) = (0, 0);
    fuzz("bodies", 6000, |random| {
        let input = one(random, &["messages", "messages", "prompt", "input"]);
        let body = match random.below(12) {
            0 => random.bytes(40),
            _ => body(random, input).into_bytes(),
        };
        let watch = Stopwatch::start();
        let is_text = input == "prompt";
        let endpoint = if is_text {
            Endpoint::Text
        } else {
            Endpoint::Chat
        };
        let errors = [
            CompletionRequest::read(endpoint, &body).map_or_else(Some, |request| {
                read += 1;
                for choice in 0..request.choices().min(4) {
                    request.input(choice).map(Input::from_json);
                    GenerateOptions::from_json(&request.options(choice)).ok();
                }
                write(&request, random);
                None
            }),
            EmbeddingsRequest::read(&body).err(),
        ];
        for error in errors.into_iter().flatten() {
            refused += 1;
            assert!((400..500).contains(&error.status()), "{error:?}");
            let json: Value = serde_json::from_str(&error.to_json()).expect("JSON");
            assert!(
                json["error"]["message"]
                    .as_str()
                    .is_some_and(|text| !text.is_empty())
            );
        }
        assert!(watch.elapsed() < Duration::from_secs(2));
    });
    assert!(read > 300 && refused > 1000, "{read} {refused}");
}

#[test]
fn addresses_are_routes_or_refused() {
    fuzz("addresses", 3000, |random| {
        let parts = [
            "/v1",
            "/models",
            "/",
            "/chat/completions",
            "%2F",
            "%",
            "..",
            "é",
            "?",
            "#",
        ];
        let path = text(random, &parts, 6);
        let method = one(random, &["GET", "POST", "", "get", "OPTIONS"]);
        if let Err(error) = Route::read(method, &path) {
            assert!((400..500).contains(&error.status()), "{error:?}");
        }
    });
}
