//! Prompts that were computed before, and models that change under their name.

use serde_json::{Value, json};

use super::*;

fn talk(messages: &[&str], model: &str) -> Request {
    let said = messages
        .iter()
        .map(|text| json!({ "role": "user", "content": text }));
    let body = json!({ "model": model, "messages": said.collect::<Vec<_>>() });
    Request {
        method: "POST".to_owned(),
        path: "/v1/chat/completions".to_owned(),
        body: body.to_string().into_bytes(),
        ..Request::default()
    }
}

fn answer(server: &mut MockServer, request: Request) -> (Seen, Value) {
    let connection = server.request(server.now_ms, request);
    let seen = run(server, &[connection], 1e9).remove(0);
    let answer = serde_json::from_str(&seen.text()).expect("it is JSON");
    (seen, answer)
}

#[test]
fn a_prompt_that_begins_like_an_earlier_one_computes_the_rest() {
    let mut server = server(
        r#"{"text":{"kind":"words","words":"x"},"pace":{"kind":"fixed","ms":0},
        "prefill":{"msPerToken":10,"msPerSquaredToken":1,"prefixCache":{"blockTokens":2}}}"#,
    );
    for (messages, tokens, cached) in [
        (&["a b c", "d e"][..], 5, 0),
        // All but the last token, in whole blocks.
        (&["a b c", "d e"], 5, 4),
        (&["a b c", "d e", "f g h"], 8, 4),
        (&["a x c", "d e"], 5, 0),
        (&["a b"], 2, 0),
        (&["a b c"], 3, 2),
    ] {
        let start_ms = server.now_ms;
        let (seen, answer) = answer(&mut server, talk(messages, "m"));
        let (n, c) = (f64::from(tokens), f64::from(cached));
        let took_ms = 10.0 * (n - c) + n * n - c * c;
        assert_eq!(seen.end_ms - start_ms, took_ms, "{messages:?}");
        let usage = &answer["usage"];
        assert_eq!(usage["prompt_tokens"], tokens, "{messages:?}");
        let details = &usage["prompt_tokens_details"]["cached_tokens"];
        assert_eq!(details, cached, "{messages:?}");
    }
}

#[test]
fn a_swap_keeps_the_name_and_a_pinned_one_keeps_the_model() {
    let mut server = server(
        r#"{"model":"m","text":{"kind":"words","words":"old"},
        "swap":{"afterRequests":2,"text":{"kind":"words","words":"new"},"pinned":"m-1"}}"#,
    );
    for (model, text, named) in [
        ("m", "old ", "m"),
        ("m-1", "old ", "m-1"),
        ("m", "new ", "m"),
        ("m-1", "old ", "m-1"),
        ("other", "new ", "m"),
    ] {
        let (_, answer) = answer(&mut server, talk(&["a"], model));
        assert_eq!(answer["choices"][0]["message"]["content"], text, "{model}");
        assert_eq!(answer["model"], named, "{model}");
    }
}

#[test]
fn a_reply_that_is_made_again_has_the_cache_that_it_had() {
    let json = r#"{"text":{"kind":"words","words":"a b c"},"resume":{},
        "prefill":{"msPerToken":10,"prefixCache":{"blockTokens":1}}}"#;
    let request = chat(",\"stream\":true,\"stream_options\":{\"include_usage\":true}");
    let mut first = server(json);
    let connection = first.request(0.0, request.clone());
    run(&mut first, &[connection], 1e9);
    let begin_ms = first.now_ms;
    let connection = first.request(begin_ms, request);
    let kept = first.kept().pop().expect("it is kept");
    let whole = run(&mut first, &[connection], 1e9).remove(0);
    assert!(
        whole.text().contains("\"cached_tokens\":2"),
        "{}",
        whole.text()
    );
    let mut second = MockServer::new(first.scenario().clone(), "s", begin_ms);
    let name = kept.reply.clone();
    second
        .restore(begin_ms + 5.0, kept)
        .expect("it can be made again");
    let connection = second.request(begin_ms + 5.0, get(&format!("/lab/stream?reply={name}")));
    let again = run(&mut second, &[connection], 1e9).remove(0);
    assert_eq!(again.text(), whole.text());
    assert_eq!(again.end_ms, whole.end_ms);
}
