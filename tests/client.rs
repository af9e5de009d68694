//! Decisions of a client: waits, breakers, rungs, meters, and what a reply is.

use std::rc::Rc;

use tokenbrook::client::{
    Action, Alert, Backoff, Breaker, BreakerLimits, Call, Failure, Heard, Ladder, Limits, Meters,
    Reply, Rung, Sample, retry_after_ms,
};

const REFUSED: Failure = Failure::Refused {
    status: 429,
    retry_after_ms: None,
};

fn status(status: u16) -> Failure {
    Failure::Refused {
        status,
        retry_after_ms: None,
    }
}

#[test]
fn waits_double_up_to_the_longest_with_full_jitter() {
    let backoff = Backoff {
        attempts: 6,
        base_ms: 100.0,
        max_ms: 500.0,
    };
    let waits = |random| (1..=6).map(move |tried| backoff.wait_ms(tried, None, random));
    let expected = [100.0, 200.0, 400.0, 500.0, 500.0];
    assert!(waits(1.0).eq(expected.map(Some).into_iter().chain([None])));
    assert!(waits(0.25).take(2).eq([Some(25.0), Some(50.0)]));
    assert!(waits(0.0).take(5).all(|wait| wait == Some(0.0)));
}

#[test]
fn a_retry_after_is_waited_for_in_full_or_not_at_all() {
    let backoff = Backoff::default();
    assert_eq!(backoff.wait_ms(1, Some(2_000.0), 0.0), Some(2_000.0));
    let longest = backoff.wait_ms(2, Some(2_000.0), 1.0);
    assert_eq!(longest, Some(2_500.0), "jitter comes after it");
    assert_eq!(backoff.wait_ms(1, Some(8_001.0), 0.0), None);
}

#[test]
fn a_retry_after_is_seconds_or_a_date() {
    // 784,111,777 is the date that RFC 9110 uses throughout.
    let now_ms = 784_111_700_000.0;
    for (value, expected) in [
        ("120", Some(120_000.0)),
        (" 0 ", Some(0.0)),
        ("Sun, 06 Nov 1994 08:49:37 GMT", Some(77_000.0)),
        ("Sun, 06 Nov 1994 08:00:00 GMT", Some(0.0)),
        (
            "Thu, 29 Feb 2024 00:00:00 GMT",
            Some(1_709_164_800_000.0 - now_ms),
        ),
        (
            "Fri, 01 Mar 2024 00:00:00 GMT",
            Some(1_709_251_200_000.0 - now_ms),
        ),
        ("1.5", None),
        ("-1", None),
        ("", None),
        ("soon", None),
        ("Sun, 32 Nov 1994 08:49:37 GMT", None),
        ("Sun, 06 anF 1994 08:49:37 GMT", None),
        ("Sun, 06 Nov 1994 08:49 GMT", None),
    ] {
        assert_eq!(retry_after_ms(value, now_ms), expected, "{value:?}");
    }
}

fn breaker() -> Breaker {
    Breaker::new(BreakerLimits {
        window: 10,
        least: 4,
        error_share: 0.5,
        p95_ms: 1_000.0,
        rest_ms: 5_000.0,
    })
}

#[test]
fn a_breaker_opens_on_its_share_of_errors_and_not_before_enough_calls() {
    let mut breaker = breaker();
    for _ in 0..3 {
        assert!(breaker.admit(0.0));
        breaker.record(0.0, None);
    }
    assert!(!breaker.is_open(0.0), "three calls are too few");
    breaker.record(0.0, None);
    assert!(breaker.is_open(0.0));
    let mut healthy = self::breaker();
    for i in 0..40 {
        healthy.record(0.0, (i % 5 < 3).then_some(10.0));
    }
    assert!(!healthy.is_open(0.0), "two in five fail");
}

#[test]
fn a_breaker_opens_on_the_p95_that_the_median_hides() {
    let mut breaker = breaker();
    for _ in 0..9 {
        breaker.record(0.0, Some(100.0));
    }
    assert!(!breaker.is_open(0.0));
    breaker.record(0.0, Some(1_001.0));
    assert!(breaker.is_open(0.0));
}

#[test]
fn after_its_rest_a_breaker_lets_one_call_find_out() {
    for (found, opens) in [(Some(10.0), false), (None, true), (Some(5_000.0), true)] {
        let mut breaker = breaker();
        (0..4).for_each(|_| breaker.record(1_000.0, None));
        assert!(!breaker.admit(5_999.0));
        assert!(breaker.admit(6_000.0));
        assert!(!breaker.admit(6_000.0), "one call is enough");
        breaker.record(6_100.0, found);
        assert_eq!(breaker.is_open(6_100.0), opens, "{found:?}");
        assert_eq!(breaker.is_open(11_099.0), opens);
        assert!(!breaker.is_open(11_100.0));
    }
    let mut left = breaker();
    (0..4).for_each(|_| left.record(0.0, None));
    assert!(left.admit(5_000.0));
    left.forget(5_010.0);
    assert!(left.admit(5_010.0), "a call that was left says nothing");
}

fn ladder(deadlines: &[Option<f64>]) -> Ladder {
    let rungs = deadlines.iter().map(|&deadline_ms| Rung { deadline_ms });
    let backoff = Backoff {
        attempts: 3,
        base_ms: 100.0,
        max_ms: 1_000.0,
    };
    Ladder::new(rungs.collect(), backoff, BreakerLimits::default())
}

/// Rungs that a call tries while it fails like this.
fn rungs(ladder: &mut Ladder, repeatable: bool, failure: Failure) -> (Vec<usize>, Action) {
    let (mut call, mut action) = ladder.begin(0.0, repeatable);
    let mut tried = Vec::new();
    while let Action::Try { rung, .. } = action {
        tried.push(rung);
        action = ladder.failed(&mut call, 0.0, failure, 1.0);
    }
    (tried, action)
}

#[test]
fn a_call_goes_down_the_rungs_in_their_order() {
    for (failure, once, again) in [
        // Nothing was done: the same may be asked again.
        (REFUSED, vec![0, 0, 0, 1, 1, 1], vec![0, 0, 0, 1, 1, 1]),
        (status(503), vec![0, 0, 0, 1, 1, 1], vec![0, 0, 0, 1, 1, 1]),
        // Something may have been done.
        (status(500), vec![0, 1], vec![0, 0, 0, 1, 1, 1]),
        (status(504), vec![0, 1], vec![0, 0, 0, 1, 1, 1]),
        (Failure::Unreachable, vec![0, 1], vec![0, 0, 0, 1, 1, 1]),
        (Failure::Broken, vec![0, 1], vec![0, 0, 0, 1, 1, 1]),
        // Asking again does not help.
        (status(401), vec![0, 1], vec![0, 1]),
        (status(404), vec![0, 1], vec![0, 1]),
        (Failure::Late, vec![0, 1], vec![0, 1]),
    ] {
        for (repeatable, expected) in [(false, &once), (true, &again)] {
            let (tried, end) = rungs(&mut ladder(&[None, None]), repeatable, failure);
            assert_eq!(&tried, expected, "{failure:?}, repeatable: {repeatable}");
            assert_eq!(end, Action::Fall);
        }
    }
}

#[test]
fn a_refusal_of_the_request_itself_is_the_answer() {
    for refused in [400, 402, 409, 413, 415, 422] {
        let (tried, end) = rungs(&mut ladder(&[None, None]), true, status(refused));
        assert_eq!((tried, end), (vec![0], Action::Answer), "{refused}");
    }
}

#[test]
fn a_wait_beyond_the_deadline_of_a_rung_goes_to_the_next() {
    let mut ladder = ladder(&[Some(250.0), None]);
    let (mut call, first) = ladder.begin(0.0, false);
    let tries = |rung, wait_ms, deadline_ms| Action::Try {
        rung,
        wait_ms,
        deadline_ms,
    };
    assert_eq!(first, tries(0, 0.0, Some(250.0)));
    let second = ladder.failed(&mut call, 10.0, REFUSED, 1.0);
    assert_eq!(second, tries(0, 100.0, Some(140.0)));
    // 200 ms more would end at 320.
    let third = ladder.failed(&mut call, 120.0, REFUSED, 1.0);
    assert_eq!(third, tries(1, 0.0, None));
}

#[test]
fn a_rung_whose_breaker_is_open_is_passed_over() {
    let mut ladder = ladder(&[None, None]);
    (0..5).for_each(|_| {
        rungs(&mut ladder, false, status(500));
    });
    assert!(ladder.is_open(0, 0.0) && ladder.is_open(1, 0.0));
    let (_, action) = ladder.begin(29_999.0, false);
    assert_eq!(action, Action::Fall, "nobody is asked");
    let (call, action) = ladder.begin(30_000.0, false);
    assert!(matches!(action, Action::Try { rung: 0, .. }));
    let (_, other) = ladder.begin(30_000.0, false);
    assert!(
        matches!(other, Action::Try { rung: 1, .. }),
        "one call finds out"
    );
    assert_eq!(ladder.answered(&call, 30_040.0), 40.0);
    assert!(!ladder.is_open(0, 30_040.0));
}

#[test]
fn the_time_to_first_text_leaves_out_failed_tries_and_waits() {
    let mut ladder = ladder(&[None]);
    let (mut call, _): (Call, _) = ladder.begin(0.0, false);
    ladder.failed(&mut call, 50.0, REFUSED, 1.0);
    assert_eq!(ladder.answered(&call, 180.0), 30.0, "the try began at 150");
}

fn watched() -> Meters {
    let limits = Limits {
        least: 20,
        error_share: Some(0.05),
        p95_ms: Some(500.0),
        eval_share: Some(0.8),
        cached_share: Some(0.5),
        spend: Some(2.0),
        fallback_share: Some(0.2),
    };
    Meters::new(limits, 40)
}

fn usual() -> Sample {
    Sample {
        rung: 0,
        first_text_ms: Some(200.0),
        prompt_tokens: 1_000.0,
        cached_tokens: 900.0,
        spend: 1.0,
    }
}

/// Alerts when every `period`-th of 40 calls is another one.
fn alerts(period: usize, other: &Sample) -> Vec<Alert> {
    let mut meters = watched();
    for i in 0..40 {
        meters.record(if i % period == 0 {
            other.clone()
        } else {
            usual()
        });
        meters.record_eval(true);
    }
    meters.alerts()
}

#[test]
fn each_trouble_trips_its_own_meter_only() {
    assert_eq!(alerts(1, &usual()), []);
    let squeezed = Sample {
        first_text_ms: Some(4_000.0),
        ..usual()
    };
    assert_eq!(
        alerts(10, &squeezed),
        [Alert::P95],
        "the median is as before"
    );
    let refused = Sample::default();
    assert_eq!(alerts(10, &refused), [Alert::ErrorShare]);
    let uncached = Sample {
        cached_tokens: 0.0,
        ..usual()
    };
    assert_eq!(alerts(2, &uncached), [Alert::CachedShare]);
    let dear = Sample {
        spend: 4.0,
        ..usual()
    };
    assert_eq!(alerts(2, &dear), [Alert::Spend]);
    let fallen = Sample { rung: 1, ..usual() };
    assert_eq!(alerts(2, &fallen), [Alert::FallbackShare]);
    let mut swapped = watched();
    for i in 0..40 {
        swapped.record(usual());
        swapped.record_eval(i % 3 > 0);
    }
    assert_eq!(swapped.alerts(), [Alert::EvalShare]);
}

#[test]
fn alerts_come_in_triage_order() {
    let bad = Sample {
        rung: 2,
        first_text_ms: Some(9_000.0),
        prompt_tokens: 10.0,
        cached_tokens: 0.0,
        spend: 9.0,
    };
    let mut meters = watched();
    for i in 0..40 {
        meters.record(if i % 4 == 0 {
            Sample::default()
        } else {
            bad.clone()
        });
        meters.record_eval(false);
    }
    let alerts = meters.alerts();
    assert_eq!(alerts.len(), 6);
    assert!(alerts.is_sorted(), "{alerts:?}");
    assert_eq!(alerts[0], Alert::ErrorShare);
}

#[test]
fn meters_tell_the_latest_calls_and_nothing_before_there_are_enough() {
    let mut meters = watched();
    (0..19).for_each(|_| meters.record(Sample::default()));
    assert_eq!(meters.alerts(), []);
    meters.record(Sample::default());
    assert_eq!(meters.alerts(), [Alert::ErrorShare]);
    (0..40).for_each(|_| meters.record(usual()));
    assert_eq!(meters.alerts(), [], "what was before has left the window");
    let now = meters.summary();
    assert_eq!(
        (now.calls, now.error_share, now.spend),
        (40, Some(0.0), 40.0)
    );
    assert_eq!((now.p50_ms, now.cached_share), (Some(200.0), Some(0.9)));
    assert_eq!(now.rung_shares, [1.0]);
}

/// A chunk of the dialect with this text.
fn chunk(text: &str) -> String {
    format!("{{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{text}\"}}}}]}}")
}

struct Server(Vec<(Option<Rc<str>>, String)>);

impl Server {
    /// A reply of six words; every event has an id but those at `bare`.
    fn new(bare: &[usize]) -> Self {
        let event = |i: usize| {
            let id = (!bare.contains(&i)).then(|| Rc::from(format!("r:{i}")));
            (id, chunk(&format!("w{i} ")))
        };
        let mut events: Vec<_> = (0..6).map(event).collect();
        events.push((Some(Rc::from("r:6")), "[DONE]".to_owned()));
        Self(events)
    }

    /// The events after an id.
    fn after(&self, last: Option<&str>) -> impl Iterator<Item = &(Option<Rc<str>>, String)> {
        let at = last.and_then(|last| {
            self.0
                .iter()
                .position(|(id, _)| id.as_deref() == Some(last))
        });
        self.0.iter().skip(at.map_or(0, |at| at + 1))
    }
}

/// Reads up to `count` events of a connection into `text`.
fn connection<'a>(
    reply: &mut Reply,
    events: impl Iterator<Item = &'a (Option<Rc<str>>, String)>,
    count: usize,
    text: &mut String,
) {
    for (id, data) in events.take(count) {
        let id = id
            .as_ref()
            .map_or_else(|| reply.last_id(), |id| Rc::from(&**id));
        if let Heard::News { text: new } = reply.hear("message", data, &id) {
            text.push_str(&new);
        }
    }
}

#[test]
fn cut_anywhere_and_resumed_each_event_is_heard_once() {
    for bare in [&[][..], &[2], &[3, 4]] {
        let server = Server::new(bare);
        for first in 1..=7 {
            for second in 0..=7 {
                let (mut reply, mut text) = (Reply::default(), String::new());
                connection(&mut reply, server.after(None), first, &mut text);
                let cuts = [second, 9];
                for count in cuts {
                    let Some(last) = reply.reconnect() else { break };
                    connection(&mut reply, server.after(Some(&last)), count, &mut text);
                }
                assert_eq!(text, "w0 w1 w2 w3 w4 w5 ", "{bare:?}, {first}, {second}");
                assert!(reply.is_complete() && reply.reconnect().is_none());
            }
        }
    }
}

#[test]
fn a_server_that_starts_over_is_heard_once_too() {
    for bare in [&[][..], &[2], &[3, 4]] {
        let server = Server::new(bare);
        for first in 1..=6 {
            let (mut reply, mut text) = (Reply::default(), String::new());
            connection(&mut reply, server.after(None), first, &mut text);
            assert!(reply.reconnect().is_some());
            connection(&mut reply, server.after(None), 9, &mut text);
            assert_eq!(text, "w0 w1 w2 w3 w4 w5 ", "{bare:?}, {first}");
        }
    }
}

fn heard(events: &[(&str, &str)]) -> (Reply, Vec<Heard>) {
    let mut reply = Reply::default();
    let none: Rc<str> = Rc::from("");
    let all = events
        .iter()
        .map(|(event, data)| reply.hear(event, data, &none))
        .collect();
    (reply, all)
}

#[test]
fn without_ids_there_is_nothing_to_resume() {
    let (mut reply, _) = heard(&[("message", &chunk("a"))]);
    assert!(reply.has_text() && !reply.is_complete());
    assert_eq!(reply.reconnect(), None);
}

#[test]
fn only_the_marker_or_a_finish_reason_completes_a_reply() {
    let finish = r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#;
    for (last, done, complete) in [
        ("[DONE]", true, true),
        ("[DONE] ", true, true),
        (finish, false, true),
        (&*chunk("b"), false, false),
    ] {
        let (reply, _) = heard(&[("message", &chunk("a")), ("message", last)]);
        assert_eq!(
            (reply.is_done(), reply.is_complete()),
            (done, complete),
            "{last}"
        );
    }
}

#[test]
fn chunks_of_every_shape_are_read() {
    for (data, text) in [
        (r#"{"choices":[{"delta":{"role":"assistant"}}]}"#, ""),
        (
            r#"{"choices":[{"delta":{"role":"assistant","content":""}}]}"#,
            "",
        ),
        (r#"{"choices":[{"delta":{"content":null}}]}"#, ""),
        (r#"{"choices":[{"delta":{"reasoning_content":"hm"}}]}"#, ""),
        (
            r#"{"choices":[{"index":1,"delta":{"content":"other"}}]}"#,
            "",
        ),
        (r#"{"choices":[{"content_filter_results":{}}]}"#, ""),
        (r#"{"choices":[]}"#, ""),
        (r#"{"choices":null,"usage":null,"error":null}"#, ""),
        (r#"{"choices":[{"index":0,"text":"t"}]}"#, "t"),
        (
            r#"{"__proto__":{"x":1},"choices":[{"delta":{"__proto__":1,"content":"p"}}]}"#,
            "p",
        ),
        (r#""word ""#, "word "),
    ] {
        let (_, all) = heard(&[("message", data)]);
        let text = text.to_owned();
        assert_eq!(all, [Heard::News { text }], "{data}");
    }
    let usage = r#"{"model":"m-2","choices":[],"usage":{"prompt_tokens":9,"completion_tokens":3,
        "prompt_tokens_details":{"cached_tokens":4}}}"#;
    let (reply, _) = heard(&[("message", usage)]);
    let usage = reply.usage();
    assert_eq!((usage.prompt_tokens, usage.cached_tokens), (9.0, 4.0));
    assert_eq!(usage.completion_tokens, 3.0);
    let call =
        r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{"}}]}}]}"#;
    assert!(heard(&[("message", call)]).0.has_text());
}

#[test]
fn failures_within_a_stream_are_told_without_their_payload() {
    for (event, data, expected) in [
        ("error", r#"{"error":{"message":"busy"}}"#, "busy"),
        ("error", r#"{"message":"busy"}"#, "busy"),
        ("message", r#"{"error":{"message":"busy"}}"#, "busy"),
        ("message", r#"{"error":"busy"}"#, "busy"),
        (
            "message",
            r#"{"error":{"code":5}}"#,
            "the server failed and gave no reason",
        ),
        (
            "message",
            "my secret {",
            "the server sent a chunk that is no JSON",
        ),
    ] {
        let (mut reply, all) = heard(&[("message", &chunk("a")), (event, data)]);
        let message = expected.to_owned();
        assert_eq!(all[1], Heard::Failed { message }, "{data}");
        assert!(!reply.is_complete() && reply.reconnect().is_none());
        // With ids too: its server has ended it.
        let (mut reply, id) = (Reply::default(), Rc::from("r:1"));
        reply.hear("message", &chunk("a"), &id);
        reply.hear(event, data, &id);
        assert_eq!(reply.reconnect(), None);
    }
}
