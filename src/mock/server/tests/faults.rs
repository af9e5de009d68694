//! What goes wrong, and what it looks like from the reader's side.

use serde_json::{Value, json};

use super::*;

const STREAM: &str = ",\"stream\":true";

fn chunks(seen: &Seen) -> Vec<Value> {
    let text = seen.text();
    let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
    data.filter(|data| *data != "[DONE]")
        .map(|data| serde_json::from_str(data).expect("it is JSON"))
        .collect()
}

#[test]
fn the_dialect_is_spoken_whole_and_streamed() {
    let whole = play("{}", chat(""));
    let answer: Value = serde_json::from_str(&whole.text()).expect("it is JSON");
    let content = answer["choices"][0]["message"]["content"]
        .as_str()
        .expect("text");
    assert_eq!(content.split_whitespace().count(), 18);
    assert_eq!(answer["choices"][0]["finish_reason"], "stop");
    assert_eq!(answer["usage"]["prompt_tokens"], 3);
    assert_eq!(answer["usage"]["completion_tokens"], 18);
    let usage = ",\"stream\":true,\"stream_options\":{\"include_usage\":true}";
    let seen = play("{}", chat(usage));
    let chunks = chunks(&seen);
    assert_eq!(chunks[0]["choices"][0]["delta"]["role"], "assistant");
    let text: String = chunks
        .iter()
        .filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str())
        .collect();
    assert_eq!(text, content);
    let last = chunks.last().expect("there are some");
    assert_eq!(
        (&last["choices"], &last["usage"]["total_tokens"]),
        (&json!([]), &json!(21))
    );
    assert!(seen.text().ends_with("data: [DONE]\n\n"));
}

#[test]
fn limits_and_several_answers_are_honoured() {
    let seen = play("{}", chat(",\"max_tokens\":5,\"n\":2"));
    let answer: Value = serde_json::from_str(&seen.text()).expect("it is JSON");
    for choice in [0, 1] {
        let choice = &answer["choices"][choice];
        assert_eq!(choice["message"]["content"], "A model does not write ");
        assert_eq!(choice["finish_reason"], "length");
    }
    assert_eq!(answer["usage"]["completion_tokens"], 10);
    assert!((seen.end_ms - 330.0).abs() < 1e-6);
    let none = play(r#"{"text":{"kind":"words","words":""}}"#, chat(STREAM));
    assert_eq!(chunks(&none).len(), 2);
    let refused = play("{}", chat(",\"max_tokens\":0"));
    assert_eq!(refused.status, 400);
    assert!(refused.text().contains("max_tokens"));
}

#[test]
fn models_and_unknown_paths_are_answered_as_a_server_does() {
    let models = play(r#"{"model":"m 1"}"#, get("/v1/models"));
    assert!(models.text().contains("\"id\":\"m 1\""));
    assert_eq!(
        play(r#"{"model":"m 1"}"#, get("/v1/models/m%201")).status,
        200
    );
    assert_eq!(play("{}", get("/v1/models/other")).status, 404);
    assert_eq!(play("{}", get("/lab/else")).status, 404);
    assert_eq!(play("{}", get("/v1/embeddings")).status, 405);
    let wrong = Request {
        method: "DELETE".to_owned(),
        ..get("/lab/stream")
    };
    let seen = play("{}", wrong);
    assert_eq!(
        (seen.status, seen.header("allow")),
        (405, Some("GET, POST"))
    );
    let no_json = Request {
        method: "POST".to_owned(),
        body: b"{".to_vec(),
        ..get("/lab/wait")
    };
    assert_eq!(play("{}", no_json).status, 400);
    let stats = play("{}", get("/lab/stats"));
    assert!(stats.text().contains("\"requests\":1"));
    let mut server = server("{}");
    let first = server.request(0.0, get("/lab/wait"));
    run(&mut server, &[first], 1e9);
    let trace = server.request(1000.0, get("/lab/trace"));
    let seen = run(&mut server, &[trace], 1e9).remove(0);
    let events: Vec<Value> = serde_json::from_str(&seen.text()).expect("it is JSON");
    assert_eq!(
        events
            .iter()
            .filter(|event| event["event"] == "token")
            .count(),
        18
    );
}

#[test]
fn an_error_before_the_first_byte_is_a_status() {
    let json = r#"{"faults":{"failBefore":{"status":503,"retryAfterSeconds":7},
        "firstRequests":1}}"#;
    let mut server = server(json);
    let first = server.request(0.0, chat(STREAM));
    let second = server.request(0.0, chat(STREAM));
    let seen = run(&mut server, &[first, second], 1e9);
    assert_eq!((seen[0].status, seen[1].status), (503, 200));
    assert_eq!(seen[0].header("retry-after"), Some("7"));
    assert_eq!(seen[0].header("content-type"), Some("application/json"));
    let stats = server.stats();
    assert_eq!((stats.refused, stats.finished, stats.produced), (1, 1, 18));
}

#[test]
fn an_error_within_is_an_event_in_a_stream_a_status_in_a_whole_and_a_break_in_plain_text() {
    let json = r#"{"faults":{"failAt":{"token":3}}}"#;
    for request in [get("/lab/stream"), chat(STREAM)] {
        let seen = play(json, request);
        assert_eq!((seen.status, seen.is_reset), (200, false));
        let tail = seen.text();
        let tail = &tail[tail
            .find("event: error\ndata: {\"error\":{")
            .expect("the event")..];
        assert!(tail.contains("mock_failure") && !tail.contains("[DONE]"));
        assert!(seen.text().contains("does ") && !seen.text().contains("not "));
    }
    for request in [get("/lab/wait"), chat("")] {
        let seen = play(json, request);
        assert_eq!(seen.status, 500);
        assert!((seen.head_ms - 132.0).abs() < 1e-6);
        assert!(seen.text().contains("mock_failure"));
    }
    let plain = play(json, get("/lab/plain"));
    assert_eq!(
        (plain.text().as_str(), plain.is_reset),
        ("A model does ", true)
    );
    // A reply that ends before it would fail is whole, though its head had to wait.
    let late = play(r#"{"faults":{"failAt":{"token":99}}}"#, get("/lab/wait"));
    assert_eq!((late.status, late.body().len()), (200, 93));
}

#[test]
fn a_body_may_lack_its_marker_or_all_of_its_end() {
    let marker = play(r#"{"faults":{"omit":"marker"}}"#, chat(STREAM));
    assert!(!marker.text().contains("[DONE]") && !marker.is_reset);
    assert!(marker.text().contains("\"finish_reason\":\"stop\""));
    let all = play(r#"{"faults":{"omit":"all"}}"#, chat(STREAM));
    assert!(!all.text().contains("[DONE]") && !all.text().contains("\"stop\""));
    assert!(all.text().contains("time. "));
    let lab = play(r#"{"faults":{"omit":"marker"}}"#, get("/lab/stream"));
    assert_eq!(lab.body().len(), 276 - 14);
    for request in [get("/lab/wait"), chat("")] {
        let whole = play(r#"{"faults":{"omit":"all"}}"#, request);
        assert!(serde_json::from_str::<Value>(&whole.text()).is_err());
    }
}

#[test]
fn a_cut_stops_the_generator() {
    let json = r#"{"faults":{"cut":{"byte":40,"reset":true}}}"#;
    let mut server = server(json);
    let connection = server.request(0.0, get("/lab/stream"));
    let seen = run(&mut server, &[connection], 1e9).remove(0);
    assert_eq!((seen.body().len(), seen.is_reset), (40, true));
    let stats = server.stats();
    assert_eq!((stats.cancelled, stats.produced, stats.active), (1, 3, 0));
    let clean = play(r#"{"faults":{"cut":{"byte":40}}}"#, get("/lab/wait"));
    assert_eq!((clean.body().len(), clean.is_reset), (40, false));
}

#[test]
fn characters_come_in_halves_and_are_whole_together() {
    let json = r#"{"text":{"kind":"words","words":"é 😀"},"faults":{"splitUtf8Ms":10}}"#;
    let seen = play(json, get("/lab/stream"));
    assert!(
        seen.arrivals
            .iter()
            .any(|(_, bytes)| std::str::from_utf8(bytes).is_err())
    );
    assert_eq!(seen.words().0, "é 😀 ");
}

#[test]
fn the_content_type_may_be_wrong_and_the_role_early_or_missing() {
    let wrong = play(
        r#"{"faults":{"contentType":"text/html"}}"#,
        get("/lab/stream"),
    );
    assert_eq!(wrong.header("content-type"), Some("text/html"));
    let early = r#"{"prefill":{"queueMs":500},"faults":{"roleChunk":"at-once"}}"#;
    let seen = play(early, chat(STREAM));
    assert_eq!(seen.times()[..2], [0.0, 533.0]);
    assert_eq!(seen.text().matches("assistant").count(), 1);
    let never = play(r#"{"faults":{"roleChunk":"never"}}"#, chat(STREAM));
    assert!(!never.text().contains("assistant"));
    let usual = play(r#"{"prefill":{"queueMs":500}}"#, chat(STREAM));
    assert_eq!(usual.times()[..2], [533.0, 533.0]);
}

#[test]
fn tool_calls_come_as_deltas_and_whole() {
    let json = r#"{"text":{"kind":"words","words":""},
        "toolCalls":[{"name":"weather","arguments":"{\"city\":\"Köln\"}","parts":4}]}"#;
    let seen = play(json, chat(STREAM));
    let chunks = chunks(&seen);
    let parts: Vec<_> = chunks
        .iter()
        .filter_map(|chunk| chunk["choices"][0]["delta"]["tool_calls"][0].as_object())
        .collect();
    assert_eq!(parts.len(), 4);
    assert_eq!(parts[0]["function"]["name"], "weather");
    let arguments: String = parts
        .iter()
        .filter_map(|part| part["function"]["arguments"].as_str())
        .collect();
    assert_eq!(arguments, "{\"city\":\"Köln\"}");
    assert!(seen.text().contains("\"finish_reason\":\"tool_calls\""));
    let whole: Value = serde_json::from_str(&play(json, chat("")).text()).expect("it is JSON");
    let call = &whole["choices"][0]["message"]["tool_calls"][0]["function"];
    assert_eq!(call["arguments"], "{\"city\":\"Köln\"}");
}

#[test]
fn stalls_show_as_one_long_gap() {
    let json = r#"{"stalls":[{"atToken":5,"ms":2000}]}"#;
    let seen = play(json, get("/lab/stream"));
    let times = seen.times();
    assert!((times[5] - times[4] - 2033.0).abs() < 1e-6);
    assert!((seen.end_ms - 2594.0).abs() < 1e-6);
}
