//! Replies that go on without their reader.

use super::*;

const KEEPS: &str = r#""resume":{"graceMs":1000,"ttlMs":5000}"#;

/// Comes back as an `EventSource` does, until nothing is left; the text and the ids seen.
fn resumed(server: &mut MockServer, first: u64, path: &str) -> (String, Vec<String>) {
    let mut seen = run(server, &[first], 1e9).remove(0);
    let (mut text, mut ids) = seen.words();
    for _ in 0..10 {
        let mut again = get(path);
        if let Some(id) = ids.last() {
            again.headers.push(("last-event-id".to_owned(), id.clone()));
        }
        let connection = server.request(server.now_ms, again);
        seen = run(server, &[connection], 1e9).remove(0);
        if seen.status == 204 {
            return (text, ids);
        }
        let (more, new) = seen.words();
        text += &more;
        ids.extend(new);
    }
    panic!("it never ends: {seen:?}");
}

#[test]
fn cut_at_any_byte_and_resumed_the_text_is_that_of_the_uncut_reply_once_each() {
    let uncut = play(&format!("{{{KEEPS}}}"), get("/lab/stream?reply=x"));
    let (text, ids) = uncut.words();
    assert_eq!(ids.len(), 19);
    assert_eq!(ids[0], "x:0");
    for byte in 0..=uncut.body().len() + 1 {
        let json = format!(r#"{{{KEEPS},"faults":{{"cut":{{"byte":{byte},"reset":true}}}}}}"#);
        let mut server = server(&json);
        let first = server.request(0.0, get("/lab/stream?reply=x"));
        let seen = resumed(&mut server, first, "/lab/stream?reply=x");
        assert_eq!(seen, (text.clone(), ids.clone()), "cut at {byte}");
    }
}

#[test]
fn the_generator_outlives_its_reader_for_the_grace_time_and_not_longer() {
    let mut server = server(&format!("{{{KEEPS}}}"));
    let first = server.request(0.0, get("/lab/stream"));
    server.cancel(100.0, first);
    server.advance(300.0);
    assert_eq!(server.stats().produced, 9);
    let mut again = get("/lab/stream");
    again.headers.push(("last-event-id".into(), "r0:1".into()));
    let second = server.request(300.0, again.clone());
    let seen = run(&mut server, &[second], 1e9).remove(0);
    let (words, ids) = seen.words();
    assert!(words.starts_with("does not "), "{words}");
    assert_eq!((ids[0].as_str(), seen.end_ms), ("r0:2", 594.0));
    // Kept until its time is over, then 404.
    server.advance(5_593.0);
    assert_eq!(server.stats().kept, 1);
    server.advance(5_594.0);
    assert_eq!(server.stats().kept, 0);
    let late = server.request(server.now_ms, again);
    assert_eq!(run(&mut server, &[late], 1e9)[0].status, 404);
    // Nobody comes back: stopped after the grace time.
    let slow = r#""pace":{"kind":"fixed","ms":400}"#;
    let mut server = super::server(&format!("{{{KEEPS},{slow}}}"));
    let first = server.request(0.0, get("/lab/stream"));
    server.cancel(450.0, first);
    server.advance(1e6);
    let stats = server.stats();
    assert_eq!((stats.produced, stats.cancelled, stats.kept), (3, 1, 0));
    assert_eq!(server.next_ms(), None);
}

#[test]
fn several_readers_join_at_different_places() {
    let mut server = server(&format!("{{{KEEPS}}}"));
    let first = server.request(0.0, get("/lab/stream?reply=mine"));
    server.advance(200.0);
    let from = |server: &mut MockServer, now_ms, id: &str| {
        let mut request = get("/lab/stream");
        request.headers.push(("last-event-id".into(), id.into()));
        server.request(now_ms, request)
    };
    let second = from(&mut server, 200.0, "mine:2");
    let third = server.request(250.0, get("/lab/stream?reply=mine"));
    let seen = run(&mut server, &[first, second, third], 700.0);
    let words: Vec<_> = seen.iter().map(|seen| seen.words().0).collect();
    assert_eq!(words[0].split_whitespace().count(), 18);
    assert_eq!(
        (words[1].split_whitespace().count(), words[2] == words[0]),
        (15, true)
    );
    assert_eq!(server.stats().produced, 18);
    // Finished, and kept: all of it at once.
    let after = from(&mut server, 700.0, "mine:-");
    let whole = server.request(700.0, get("/lab/stream?reply=mine"));
    let seen = run(&mut server, &[after, whole], 800.0);
    assert_eq!((seen[0].status, seen[1].end_ms), (404, 700.0));
    assert_eq!(seen[1].words().0, words[0]);
    let done = from(&mut server, 800.0, "mine:18");
    assert_eq!(run(&mut server, &[done], 900.0)[0].status, 204);
}

#[test]
fn chats_are_resumed_too_and_whole_replies_are_not_kept() {
    let mut server = server(&format!("{{{KEEPS},\"model\":\"m\"}}"));
    let first = server.request(0.0, chat(",\"stream\":true"));
    server.advance(100.0);
    server.cancel(100.0, first);
    let mut again = get("/v1/chat/completions");
    again.query.push(("lastEventId".into(), "r0:0".into()));
    let second = server.request(150.0, again);
    let seen = run(&mut server, &[second], 1e9).remove(0);
    assert!(seen.text().ends_with("data: [DONE]\n\n"));
    assert!(
        seen.text().starts_with("id: r0:1\ndata: {"),
        "{}",
        seen.text()
    );
    server.advance(20_000.0);
    let whole = server.request(server.now_ms, chat(""));
    server.cancel(server.now_ms + 10.0, whole);
    assert_eq!(server.next_ms(), None);
}

#[test]
fn a_server_that_starts_again_continues_its_replies_event_by_event() {
    let json = format!(
        r#"{{"seed":9,"text":{{"kind":"seeded","tokens":40}},{KEEPS},
            "pace":{{"kind":"uniform","ms":33,"jitterMs":20}},"prefill":{{"queueMs":50}}}}"#
    );
    let mut old = server(&json);
    let other = old.request(0.0, get("/lab/stream"));
    let first = old.request(10.0, get("/lab/stream"));
    let whole = run(&mut old.clone(), &[other, first], 1e9).remove(1).body();
    let before = run(&mut old, &[first], 500.0).remove(0);
    let kept = old.kept();
    let json_of = serde_json::to_string(&kept).expect("it is plain");
    let kept: Vec<Kept> = serde_json::from_str(&json_of).expect("its own JSON");
    assert_eq!(kept.len(), 2);
    let mut new = MockServer::new(old.scenario().clone(), "s", 600.0);
    for record in kept.clone() {
        new.restore(600.0, record).expect("it can be made again");
    }
    new.restore(600.0, kept[1].clone())
        .expect("it is there already");
    let mut again = get("/lab/stream");
    let last = before.words().1.pop().expect("some came");
    again.headers.push(("last-event-id".into(), last));
    let second = new.request(700.0, again);
    let after = run(&mut new, &[second], 1e9).remove(0);
    assert_eq!([before.body(), after.body()].concat(), whole);
    // New replies have names of their own, and numbers after all requests so far.
    let fresh = new.request(new.now_ms, get("/lab/stream"));
    let seen = run(&mut new, &[fresh], 1e9).remove(0);
    assert_eq!(seen.words().1[0], "s3:0");
    // Nobody came back to the other one.
    assert_eq!(new.stats().cancelled + new.stats().finished, 3);
}

#[test]
fn records_that_cannot_be_made_again_are_refused() {
    let mut keeps = server(&format!("{{{KEEPS}}}"));
    keeps.request(0.0, get("/lab/stream"));
    let good = keeps.kept().remove(0);
    let refused = |kept: Kept| {
        let mut new = server(&format!("{{{KEEPS}}}"));
        new.restore(100.0, kept).expect_err("it is refused")
    };
    refused(Kept {
        arrived_ms: 200.0,
        ..good.clone()
    });
    refused(Kept {
        request: get("/lab/wait"),
        ..good.clone()
    });
    refused(Kept {
        request: get("/lab/stats"),
        ..good.clone()
    });
    assert!(server("{}").restore(100.0, good.clone()).is_err());
    // Long over: it is forgotten at once.
    let mut new = server(&format!("{{{KEEPS}}}"));
    assert!(new.restore(100_000.0, good).is_err());
    assert_eq!(new.stats().kept, 0);
}

#[test]
fn without_a_store_an_old_id_starts_anew_and_retry_is_sent_where_wished() {
    let mut again = get("/lab/stream");
    again.headers.push(("last-event-id".into(), "r0:5".into()));
    assert_eq!(play("{}", again).words().0.split_whitespace().count(), 18);
    let json = r#"{"resume":{"retryMs":250}}"#;
    let seen = play(json, get("/lab/stream"));
    assert!(
        seen.text()
            .starts_with("retry: 250\n\nid: r0:0\ndata: \"A \"")
    );
}
