//! When what arrives.

use super::*;

fn near(value: f64, wanted: f64) {
    assert!((value - wanted).abs() < 1e-6, "{value} is not {wanted}");
}

#[test]
fn the_eighteen_words_take_594_ms_in_93_bytes_whole_or_276_streamed() {
    let whole = play("{}", get("/lab/wait"));
    near(whole.end_ms, 594.0);
    assert_eq!(whole.body().len(), 93);
    let text = "A model does not write the whole answer at once. \
                It makes it one piece at a time. ";
    assert_eq!(whole.text(), format!("{{\"text\":\"{text}\"}}"));
    let streamed = play("{}", get("/lab/stream"));
    near(streamed.end_ms, 594.0);
    near(streamed.times()[0], 33.0);
    assert_eq!(streamed.body().len(), 276);
    assert_eq!(
        (streamed.arrivals.len(), streamed.words().0),
        (19, text.to_owned())
    );
    let plain = play("{}", get("/lab/plain"));
    assert_eq!(
        (plain.text(), plain.end_ms),
        (text.to_owned(), streamed.end_ms)
    );
    assert_eq!(
        plain.header("content-type"),
        Some("text/plain; charset=utf-8")
    );
}

#[test]
fn streaming_moves_the_first_text_and_transit_adds_once() {
    let text = r#""text":{"kind":"seeded","tokens":120}"#;
    let plain = format!("{{{text}}}");
    near(play(&plain, get("/lab/stream")).times()[0], 33.0);
    near(play(&plain, get("/lab/wait")).end_ms, 3_960.0);
    let far = format!(
        r#"{{{text},"prefill":{{"queueMs":600}},"transit":{{"requestMs":50,"responseMs":50}}}}"#
    );
    let whole = play(&far, get("/lab/wait"));
    let streamed = play(&far, get("/lab/stream"));
    near(whole.times()[0], 4_660.0);
    near(streamed.times()[0], 733.0);
    near(whole.end_ms, 4_660.0);
    near(streamed.end_ms, 4_660.0);
    assert_eq!(
        whole.text(),
        format!("{{\"text\":\"{}\"}}", streamed.words().0)
    );
}

#[test]
fn three_hundred_tokens_end_when_the_formula_says() {
    for (tokens, queue_ms, ms, end_ms) in [(300, 470, 30, 9_470.0), (400, 675, 25, 10_675.0)] {
        let json = format!(
            r#"{{"text":{{"kind":"seeded","tokens":{tokens}}},"prefill":{{"queueMs":{queue_ms}}},
                "pace":{{"kind":"fixed","ms":{ms}}}}}"#
        );
        near(play(&json, get("/lab/stream")).end_ms, end_ms);
    }
}

#[test]
fn prefill_is_linear_and_quadratic_in_the_prompt_and_the_first_request_wakes_the_server() {
    let json = r#"{"prefill":{"queueMs":5,"msPerToken":2,"msPerSquaredToken":0.5,
        "coldStartMs":1000}}"#;
    let mut server = server(json);
    let first = server.request(0.0, chat(",\"stream\":true"));
    let second = server.request(400.0, get("/lab/stream?prompt=one two three four"));
    let seen = run(&mut server, &[first, second], 1e9);
    // Three words: 5 + 6 + 4.5; four: 5 + 8 + 8. Both wait for 1000.
    near(seen[0].times()[0], 1000.0 + 15.5 + 33.0);
    near(seen[1].times()[0], 1000.0 + 21.0 + 33.0);
    let later = server.request(5000.0, get("/lab/stream"));
    let seen = run(&mut server, &[later], 1e9);
    near(seen[0].times()[0], 5000.0 + 5.0 + 33.0);
    let fixed = r#"{"prefill":{"msPerToken":1,"promptTokens":200}}"#;
    near(play(fixed, get("/lab/stream")).times()[0], 233.0);
}

#[test]
fn headers_leave_before_the_first_token() {
    let json = r#"{"prefill":{"queueMs":900},"transit":{"requestMs":10,"responseMs":20}}"#;
    for request in [
        get("/lab/stream"),
        get("/lab/wait"),
        chat(""),
        chat(",\"stream\":true"),
    ] {
        let seen = play(json, request);
        near(seen.head_ms, 30.0);
        assert!(seen.times()[0] >= 963.0);
        assert_eq!(seen.header("cache-control"), Some("no-cache"));
    }
    let stream = play(json, get("/lab/stream"));
    assert_eq!(stream.header("x-accel-buffering"), Some("no"));
    assert_eq!(
        stream.header("content-type"),
        Some("text/event-stream; charset=utf-8")
    );
}

#[test]
fn headers_tell_the_number_of_the_reply_and_which_hops_are_there() {
    let json = r#"{"hops":[{"kind":"proxy"},{"kind":"proxy"},{"kind":"compression"},
        {"kind":"cdn"},{"kind":"framework"}]}"#;
    let mut server = server(json);
    let connections = [get("/lab/stream"), get("/lab/wait")].map(|at| server.request(0.0, at));
    for (number, seen) in run(&mut server, &connections, 1e9).iter().enumerate() {
        assert_eq!(seen.header("x-reply-number"), Some(&*number.to_string()));
        for (name, value) in [
            ("via", "1.1 proxy"),
            ("vary", "accept-encoding"),
            ("x-cache", "MISS"),
        ] {
            let of = seen.headers.iter().filter(|(key, _)| key == name);
            let values: Vec<_> = of.map(|(_, value)| &**value).collect();
            assert_eq!(values, [value]);
        }
    }
    let plain = play("{}", get("/lab/stream"));
    for name in ["via", "vary", "x-cache"] {
        assert_eq!(plain.header(name), None);
    }
}

#[test]
fn batches_and_held_tokens_wait_as_computed_and_the_end_waits_for_nothing() {
    let fours = play(r#"{"delivery":{"batchTokens":4}}"#, get("/lab/stream"));
    assert_eq!(fours.arrivals.len(), 5 + 1);
    near(fours.times()[0], 33.0 + 99.0);
    near(fours.end_ms, 594.0);
    let held = play(r#"{"delivery":{"holdBackTokens":10}}"#, get("/lab/stream"));
    near(held.times()[0], 33.0 + 330.0);
    near(held.end_ms, 594.0);
    assert_eq!(held.words().0, fours.words().0);
    let window = play(r#"{"delivery":{"batchMs":50}}"#, get("/lab/stream"));
    near(window.times()[0], 83.0);
    near(window.end_ms, 594.0);
    let whole = play(r#"{"delivery":{"whole":true}}"#, get("/lab/stream"));
    near(whole.times()[0], 594.0);
}

#[test]
fn every_hop_and_every_pair_of_hops_keeps_the_text_and_only_moves_it() {
    let hops = [
        r#"{"kind":"proxy","bufferBytes":64}"#,
        r#"{"kind":"compression","blockBytes":100}"#,
        r#"{"kind":"cdn"}"#,
        r#"{"kind":"framework"}"#,
        r#"{"kind":"client"}"#,
        r#"{"kind":"narrow","bytesPerSecond":400}"#,
        r#"{"kind":"idle","ms":5000}"#,
    ];
    let direct = play("{}", get("/lab/stream"));
    for a in hops {
        for b in hops {
            let seen = play(&format!(r#"{{"hops":[{a},{b}]}}"#), get("/lab/stream"));
            assert_eq!(seen.body(), direct.body(), "{a} {b}");
            assert!(seen.end_ms >= 594.0, "{a} {b}");
            let first = seen.times()[0];
            let holds_all = ["cdn", "framework", "client"];
            if holds_all
                .iter()
                .any(|kind| a.contains(kind) || b.contains(kind))
            {
                assert!(first >= 594.0, "{a} {b}: {first}");
            } else if a.contains("idle") && b.contains("idle") {
                near(first, 33.0);
            } else {
                assert!(first > 33.0, "{a} {b}: {first}");
            }
        }
    }
    // 276 bytes at 400 a second, after the first token; the path is idle after short words.
    let narrow = play(&format!(r#"{{"hops":[{}]}}"#, hops[5]), get("/lab/stream"));
    let busy_ms = narrow.end_ms - 33.0;
    assert!((690.0..710.0).contains(&busy_ms), "{busy_ms}");
}

#[test]
fn keep_alives_save_a_connection_from_an_idle_timeout() {
    let quiet = r#"{"prefill":{"queueMs":3000},"hops":[{"kind":"idle","ms":1000}]}"#;
    let seen = play(quiet, get("/lab/stream"));
    assert_eq!((seen.body().len(), seen.is_reset), (0, false));
    near(seen.end_ms, 1000.0);
    let reset = quiet.replace("1000}", "1000,\"reset\":true}");
    assert!(play(&reset, get("/lab/stream")).is_reset);
    let kept = quiet.replace("\"hops\"", "\"keepAliveMs\":900,\"hops\"");
    let seen = play(&kept, get("/lab/stream"));
    near(seen.end_ms, 3594.0);
    assert_eq!(seen.text().matches(": keep-alive\n\n").count(), 3);
    assert_eq!(seen.words().0.split_whitespace().count(), 18);
    // In a whole reply there is no place for comments.
    assert_eq!(play(&kept, get("/lab/wait")).body().len(), 0);
}

#[test]
fn forty_calls_at_once_differ_in_their_first_text_alone() {
    let json = r#"{"seed":42,"text":{"kind":"seeded","tokens":120},
        "pace":{"kind":"uniform","ms":33,"jitterMs":8}}"#;
    let mut server = server(json);
    let path = |n| if n < 20 { "/lab/wait" } else { "/lab/stream" };
    let connections: Vec<_> = (0..40).map(|n| server.request(0.0, get(path(n)))).collect();
    let seen = run(&mut server, &connections, 1e9);
    let median = |mut values: Vec<f64>| {
        values.sort_by(f64::total_cmp);
        (values[9] + values[10]) / 2.0
    };
    let first = |seen: &[Seen]| median(seen.iter().map(|seen| seen.times()[0]).collect());
    let total = |seen: &[Seen]| median(seen.iter().map(|seen| seen.end_ms).collect());
    let (wait, stream) = seen.split_at(20);
    assert!((25.0..=41.0).contains(&first(stream)), "{}", first(stream));
    assert!(first(wait) > 3_800.0);
    assert!((total(wait) / total(stream) - 1.0).abs() < 0.05);
    // All the same text.
    let text = stream[0].words().0;
    assert_eq!(text.split_whitespace().count(), 120);
    assert!(stream.iter().all(|seen| seen.words().0 == text));
    assert!(
        wait.iter()
            .all(|seen| seen.text() == format!("{{\"text\":\"{text}\"}}"))
    );
}
