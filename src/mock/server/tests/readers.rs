//! Readers that are slow, or leave.

use super::*;

/// A thousand long words, one a millisecond.
const FAST: &str = r#""text":{"kind":"seeded","tokens":200000},"pace":{"kind":"fixed","ms":1}"#;

#[test]
fn leaving_stops_the_generator_in_every_mode() {
    for path in ["/lab/stream", "/lab/wait", "/lab/plain"] {
        let mut server = server(r#"{"capacity":{"seats":1}}"#);
        let left = server.request(0.0, get(path));
        server.advance(100.0);
        assert_eq!(server.stats().seats_used, 1);
        server.cancel(100.0, left);
        assert_eq!(server.next_ms(), None, "{path}");
        let stats = server.stats();
        assert_eq!(
            (stats.cancelled, stats.produced, stats.seats_used),
            (1, 3, 0)
        );
        // The seat is free for the next one, which is served as if nothing had been.
        let next = server.request(100.0, get(path));
        assert_eq!(run(&mut server, &[next], 1e9)[0].end_ms, 694.0);
    }
}

#[test]
fn leaving_before_the_first_byte_after_the_end_and_twice_is_harmless() {
    let mut server = server(r#"{"transit":{"requestMs":50},"prefill":{"queueMs":100}}"#);
    for at_ms in [10.0, 100.0, 900.0] {
        let start_ms = server.now_ms;
        let connection = server.request(start_ms, get("/lab/stream"));
        server.cancel(start_ms + at_ms, connection);
        server.cancel(start_ms + at_ms, connection);
        assert_eq!(server.next_ms(), None);
        assert_eq!(server.take(start_ms + at_ms, connection), Taken::End);
    }
    assert_eq!(server.stats().connections, 0);
}

#[test]
fn a_reader_of_one_event_a_second_holds_the_generator_at_the_high_water_mark() {
    let json = format!("{{{FAST},\"slowClient\":{{\"highWaterTokens\":8}}}}");
    let mut server = server(&json);
    let connection = server.request(0.0, get("/lab/stream"));
    for second in 1..=60_u32 {
        let consumed = u64::from(second) - 1;
        let now_ms = f64::from(second) * 1000.0;
        // Between two reads nothing is planned but the limit of silence.
        server.advance(now_ms - 1.0);
        let ahead = server.stats().produced - consumed;
        assert!(ahead <= 8, "{ahead} ahead after {second} s");
        assert!(matches!(server.take(now_ms, connection), Taken::Bytes(_)));
    }
    assert_eq!(server.stats().produced, 60 + 8);
    let paused = server.trace().filter(|event| event.what == What::Paused);
    assert_eq!(paused.count(), 60);
}

#[test]
fn a_batch_larger_than_the_mark_still_leaves() {
    let json = r#"{"delivery":{"batchTokens":12,"holdBackTokens":3},
        "slowClient":{"highWaterTokens":2}}"#;
    let seen = play(json, get("/lab/stream"));
    assert_eq!(seen.words().0.split_whitespace().count(), 18);
    let whole = play(
        r#"{"delivery":{"whole":true},"slowClient":{"highWaterTokens":1}}"#,
        get("/lab/stream"),
    );
    assert_eq!(whole.words().0.split_whitespace().count(), 18);
}

#[test]
fn a_hop_that_holds_bytes_has_taken_them_off_the_server() {
    let json = r#"{"hops":[{"kind":"cdn"}],"slowClient":{"highWaterTokens":2}}"#;
    let seen = play(json, get("/lab/stream"));
    assert_eq!(seen.end_ms, 594.0);
}

#[test]
fn a_reader_stopped_for_30_s_gets_an_error_event_and_the_generator_stops() {
    let mut server = server(&format!("{{{FAST}}}"));
    let connection = server.request(0.0, get("/lab/stream"));
    server.advance(5_000.0);
    for _ in 0..3 {
        assert!(matches!(server.take(5_000.0, connection), Taken::Bytes(_)));
    }
    server.advance(34_999.0);
    assert_eq!(server.stats().cancelled, 0);
    server.advance(35_000.0);
    let stats = server.stats();
    assert_eq!((stats.cancelled, stats.active), (1, 0));
    assert_eq!(server.next_ms(), None);
    let mut last = Vec::new();
    while let Taken::Bytes(bytes) = server.take(99_000.0, connection) {
        last = bytes;
    }
    let last = String::from_utf8(last).expect("it is text");
    assert!(
        last.starts_with("event: error\ndata: {\"error\":"),
        "{last}"
    );
    assert!(last.contains("slow_client"), "{last}");
    let why = What::Cancelled { why: "slow-client" };
    assert!(server.trace().any(|event| event.what == why));
}

#[test]
fn a_writer_that_ignores_backpressure_is_stopped_at_one_mebibyte() {
    // A thousand bytes a millisecond.
    let words = format!("{} ", "x".repeat(1000)).repeat(2000);
    let json = format!(
        r#"{{"text":{{"kind":"words","words":"{words}"}},"pace":{{"kind":"fixed","ms":1}},
            "slowClient":{{"ignoresBackpressure":true}}}}"#
    );
    let mut server = server(&json);
    server.request(0.0, get("/lab/stream"));
    let mut most = 0;
    while server.stats().cancelled == 0 {
        let at_ms = server.next_ms().expect("it goes on");
        assert!(at_ms < 2000.0, "it never stops");
        server.advance(at_ms);
        most = most.max(server.stats().queued_bytes);
    }
    assert!((1 << 20..(1 << 20) + 1200).contains(&most), "{most}");
    assert!(server.next_ms().is_none());
}

#[test]
fn a_whole_reply_that_nobody_fetches_breaks_nothing() {
    let mut server = server(r#"{"transit":{"responseMs":20}}"#);
    let connection = server.request(0.0, get("/lab/wait"));
    server.advance(100_000.0);
    assert_eq!((server.next_ms(), server.stats().cancelled), (None, 0));
    let Taken::Bytes(bytes) = server.take(100_000.0, connection) else {
        panic!("it is there");
    };
    assert_eq!(bytes.len(), 93);
    assert_eq!(server.take(100_000.0, connection), Taken::End);
}

#[test]
fn tokens_from_outside_keep_their_pace_and_are_wanted_only_when_read() {
    let json = r#"{"text":{"kind":"external"},"slowClient":{"highWaterTokens":2}}"#;
    let mut server = server(json);
    let connection = server.request(0.0, get("/lab/stream"));
    assert_eq!(server.wanting(), [0]);
    assert_eq!(server.reply_of(connection), Some(0));
    for (at_ms, text) in [(10.0, "a"), (20.0, "b")] {
        assert!(server.push(at_ms, 0, text));
    }
    assert!(server.wanting().is_empty(), "the reader is two behind");
    assert_eq!(
        server.take(30.0, connection),
        Taken::Bytes(b"data: \"a\"\n\n".to_vec())
    );
    assert_eq!(server.wanting(), [0]);
    server.end(40.0, 0, None);
    let seen = run(&mut server, &[connection], 1e9).remove(0);
    assert_eq!((seen.words().0.as_str(), seen.end_ms), ("b", 40.0));
    assert!(!server.push(50.0, 0, "late") && server.wanting().is_empty());
    let broken = server.request(60.0, get("/lab/stream"));
    server.end(70.0, 1, Some("The model is gone."));
    let seen = run(&mut server, &[broken], 1e9).remove(0);
    assert!(seen.text().contains("The model is gone."));
}
