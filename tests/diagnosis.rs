//! Streams of the mock server under the stopwatch, on a virtual clock: what is wrong with them,
//! and where.

use serde_json::{Value, json};
use tokenbrook::measure::{
    Diagnosis, Headers, Hop, Outcome, Timeline, Verdict, Watch, compare, diagnose, summarize,
};
use tokenbrook::mock::{MockServer, Request, Scenario, Taken, What};

/// Dialects, and what they differ in here: sizes of events that vary, and that hardly do.
const LAB: &str = "/lab/stream";
const CHAT: &str = "/v1/chat/completions";

/// One exchange whose reader takes everything at once; `stamps`: whether the generator's are
/// known.
fn run(scenario: &Value, path: &str, stamps: bool) -> Timeline {
    let scenario = Scenario::from_json(&scenario.to_string()).expect("it can be played");
    let mut server = MockServer::new(scenario, "r", 1000.0);
    let body =
        json!({ "model": "m", "stream": true, "messages": [{ "role": "user", "content": "x" }] });
    let is_chat = path == CHAT;
    let request = Request {
        method: if is_chat { "POST" } else { "GET" }.to_owned(),
        path: path.to_owned(),
        body: body.to_string().into_bytes(),
        ..Request::default()
    };
    let mut watch = Watch::new(1000.0);
    let connection = server.request(1000.0, request);
    let mut now_ms = 1000.0;
    let mut has_head = false;
    loop {
        if !has_head && let Some(head) = server.head(connection) {
            has_head = true;
            let (status, pairs) = (head.status, &*head.headers);
            let all = true;
            watch.headers(now_ms, Headers { status, pairs, all });
        }
        match server.take(now_ms, connection) {
            Taken::Bytes(bytes) => watch.read(now_ms, &bytes),
            Taken::End => break watch.close(now_ms, has_head),
            Taken::Reset => break watch.close(now_ms, false),
            Taken::Nothing => {
                now_ms = server.next_ms().expect("something happens until the end");
                server.advance(now_ms);
            }
        }
    }
    if stamps {
        let is_token = |what: &What| matches!(what, What::Token { .. });
        let tokens = server.trace().filter(|event| is_token(&event.what));
        let times: Vec<f64> = tokens.map(|event| event.at_ms).collect();
        watch.generator(times.first().copied(), times.last().copied());
    }
    watch.timeline().clone()
}

fn with(scenario: &Value, hops: Value) -> Value {
    let mut scenario = scenario.clone();
    scenario["hops"] = hops;
    scenario
}

fn words() -> Value {
    json!({})
}

fn seeded(tokens: u32) -> Value {
    json!({
        "seed": 42,
        "text": { "kind": "seeded", "tokens": tokens },
        "pace": { "kind": "uniform", "ms": 33, "jitterMs": 8 },
    })
}

fn fixed(tokens: u32, ms: f64) -> Value {
    let text = json!({ "kind": "seeded", "tokens": tokens });
    json!({ "text": text, "pace": { "kind": "fixed", "ms": ms } })
}

/// A generator that stops for two seconds in the middle.
fn stalled() -> Value {
    let mut scenario = seeded(120);
    scenario["stalls"] = json!([{ "atToken": 60, "ms": 2000 }]);
    scenario
}

fn name(hop: Hop) -> String {
    serde_json::to_value(hop)
        .expect("it is plain")
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

fn judge(scenario: &Value, path: &str, stamps: bool) -> Diagnosis {
    diagnose(&run(scenario, path, stamps))
}

#[test]
fn streams_that_nothing_holds_back_are_healthy() {
    let scenarios = [
        words(),
        seeded(120),
        json!({ "pace": { "kind": "log-normal", "medianMs": 30, "sigma": 0.7 },
                "text": { "kind": "seeded", "tokens": 400 } }),
        fixed(900, 1.0),
        json!({ "prefill": { "queueMs": 600 }, "transit": { "requestMs": 50, "responseMs": 50 } }),
        json!({ "delivery": { "batchTokens": 4 }, "text": { "kind": "seeded", "tokens": 90 } }),
        json!({ "delivery": { "holdBackTokens": 10 }, "text": { "kind": "seeded", "tokens": 90 } }),
        json!({ "faults": { "roleChunk": "at-once" }, "keepAliveMs": 20 }),
        with(
            &words(),
            json!([{ "kind": "proxy", "honoursHeader": true }]),
        ),
        with(
            &seeded(120),
            json!([{ "kind": "narrow", "bytesPerSecond": 200_000 }]),
        ),
        with(&seeded(120), json!([{ "kind": "idle", "ms": 500 }])),
    ];
    for scenario in scenarios {
        for (path, stamps) in [(LAB, false), (LAB, true), (CHAT, false), (CHAT, true)] {
            let found = judge(&scenario, path, stamps);
            assert_eq!(
                found.verdict,
                Verdict::Healthy,
                "{scenario} {path} {stamps}: {found:?}"
            );
            assert!(found.hops.is_empty());
        }
    }
}

#[test]
fn no_chance_makes_a_healthy_stream_look_narrow() {
    for seed in 0..600 {
        for (tokens, pace) in [
            (9, json!({ "kind": "fixed", "ms": 33 })),
            (12, json!({ "kind": "uniform", "ms": 33, "jitterMs": 3 })),
            (18, json!({ "kind": "fixed", "ms": 33 })),
            (18, json!({ "kind": "uniform", "ms": 33, "jitterMs": 8 })),
            (
                40,
                json!({ "kind": "log-normal", "medianMs": 30, "sigma": 0.2 }),
            ),
        ] {
            let text = json!({ "kind": "seeded", "tokens": tokens });
            let scenario = json!({ "seed": seed, "text": text, "pace": pace });
            let found = judge(&scenario, LAB, false);
            assert_eq!(found.verdict, Verdict::Healthy, "{scenario}: {found:?}");
        }
    }
}

#[test]
fn each_hop_alone_is_named_where_nothing_else_looks_like_it() {
    let hop = |kind: &str| json!([{ "kind": kind }]);
    let narrow = json!([{ "kind": "narrow", "bytesPerSecond": 150 }]);
    // Short replies fit in one buffer, long ones in none.
    let cases: [(Value, Value, &[Hop]); 12] = [
        (words(), hop("proxy"), &[Hop::Client, Hop::Proxy]),
        (seeded(3000), hop("proxy"), &[Hop::Proxy]),
        (
            words(),
            hop("compression"),
            &[Hop::Client, Hop::Proxy, Hop::Compression],
        ),
        (
            seeded(3000),
            hop("compression"),
            &[Hop::Proxy, Hop::Compression],
        ),
        (words(), hop("cdn"), &[Hop::Cdn, Hop::Framework, Hop::Proxy]),
        (seeded(6000), hop("cdn"), &[Hop::Cdn, Hop::Framework]),
        (
            words(),
            hop("framework"),
            &[Hop::Cdn, Hop::Framework, Hop::Proxy],
        ),
        (seeded(6000), hop("framework"), &[Hop::Cdn, Hop::Framework]),
        (words(), hop("client"), &[Hop::Client, Hop::Proxy]),
        (seeded(6000), hop("client"), &[Hop::Client]),
        (words(), narrow.clone(), &[Hop::Narrow]),
        (seeded(120), narrow, &[Hop::Narrow]),
    ];
    for (scenario, hops, wanted) in cases {
        for stamps in [false, true] {
            let found = judge(&with(&scenario, hops.clone()), LAB, stamps);
            assert_eq!(
                found.verdict,
                Verdict::Buffered,
                "{hops} {stamps}: {found:?}"
            );
            assert_eq!(found.hops, wanted, "{hops}: {found:?}");
            assert_eq!(found.hop.is_some(), wanted.len() == 1);
        }
    }
    for reset in [false, true] {
        let idle = json!([{ "kind": "idle", "ms": 1000, "reset": reset }]);
        let found = judge(&with(&stalled(), idle), LAB, false);
        let verdict = if reset {
            Verdict::Cut
        } else {
            Verdict::Incomplete
        };
        assert_eq!(
            (found.verdict, found.hop),
            (verdict, Some(Hop::Idle)),
            "{found:?}"
        );
    }
}

#[test]
fn stalls_cuts_and_failures_are_told_apart() {
    let told = |scenario: &Value| {
        let found = judge(scenario, LAB, true);
        (found.verdict, found.hops)
    };
    assert_eq!(told(&stalled()), (Verdict::Stalled, vec![]));
    for (faults, verdict) in [
        (
            json!({ "cut": { "byte": 100, "reset": true } }),
            Verdict::Cut,
        ),
        (json!({ "cut": { "byte": 105 } }), Verdict::Cut),
        (json!({ "omit": "marker" }), Verdict::Incomplete),
        (json!({ "failAt": { "token": 5 } }), Verdict::Failed),
        (json!({ "failBefore": { "status": 503 } }), Verdict::Failed),
        (json!({ "contentType": "application/json" }), Verdict::Cut),
    ] {
        assert_eq!(
            told(&json!({ "faults": faults })),
            (verdict, vec![]),
            "{faults}"
        );
    }
    // A whole body has no gaps, a generator that makes all at once no rhythm.
    assert_eq!(judge(&words(), "/lab/wait", true).verdict, Verdict::Unclear);
    let instant = json!({ "pace": { "kind": "fixed", "ms": 0 }, "prefill": { "queueMs": 900 } });
    assert_eq!(
        judge(&with(&instant, json!([{ "kind": "client" }])), LAB, true).verdict,
        Verdict::Unclear
    );
}

/// Hops with what they are set to, each of which does something to every stream below.
fn all_hops() -> Vec<Value> {
    let mut hops = vec![
        json!({ "kind": "cdn" }),
        json!({ "kind": "framework" }),
        json!({ "kind": "client" }),
        json!({ "kind": "idle", "ms": 1000 }),
        json!({ "kind": "idle", "ms": 1000, "reset": true }),
    ];
    hops.extend(
        [64, 256, 1000, 4096].map(|bytes| json!({ "kind": "proxy", "bufferBytes": bytes })),
    );
    hops.extend([512, 8192].map(|bytes| json!({ "kind": "compression", "blockBytes": bytes })));
    hops.extend([100, 250].map(|rate| json!({ "kind": "narrow", "bytesPerSecond": rate })));
    hops
}

#[test]
fn of_any_two_hops_none_is_named_that_is_not_there() {
    let hops = all_hops();
    let mut named = 0;
    for first in &hops {
        for second in &hops {
            for (tokens, path, stamps) in [
                (18, LAB, false),
                (120, LAB, false),
                (120, LAB, true),
                (90, CHAT, true),
            ] {
                let has = |kind| [first, second].iter().any(|hop| hop["kind"] == kind);
                let has_idle = has("idle");
                // One behind the other they blur what each does.
                if first["kind"] == "narrow" && second["kind"] == "narrow" && !stamps {
                    continue;
                }
                let scenario = if has_idle { stalled() } else { seeded(tokens) };
                let pair = json!([first, second]);
                let timeline = run(&with(&scenario, pair.clone()), path, stamps);
                let found = diagnose(&timeline);
                let why = format!("{pair} {tokens} {path} {stamps}: {found:?}");
                if let Some(hop) = found.hop {
                    let there = [first, second].iter().any(|at| at["kind"] == name(hop));
                    assert!(there, "{why}");
                    named += 1;
                }
                // One of those that fit is there, and nothing that is held back is healthy.
                let fits = found
                    .hops
                    .iter()
                    .any(|hop| [first, second].iter().any(|at| at["kind"] == name(*hop)));
                // Buffers that a single event overflows hold next to nothing.
                let is_tiny = |hop: &Value| hop["bufferBytes"].as_u64().is_some_and(|at| at <= 256);
                let harmless = path == CHAT && is_tiny(first) && is_tiny(second);
                match found.verdict {
                    Verdict::Healthy if harmless => {}
                    // The generator did stop, and the connection was not closed for it.
                    Verdict::Stalled if has_idle => {}
                    Verdict::Healthy | Verdict::Failed | Verdict::Stalled => panic!("{why}"),
                    // A narrow path behind one that holds everything looks like none of them.
                    Verdict::Buffered => assert!(fits || has("narrow"), "{why}"),
                    Verdict::Cut | Verdict::Incomplete => {
                        assert_ne!(timeline.outcome, Outcome::Complete, "{why}");
                        assert!(has_idle, "{why}");
                    }
                    Verdict::Unclear => assert!(found.hop.is_none(), "{why}"),
                }
            }
        }
    }
    // And not because nothing is ever named.
    assert!(named > 100, "{named}");
}

#[test]
fn the_direct_path_shows_what_the_public_one_adds() {
    let direct = run(&words(), LAB, false);
    let added = |hops: Value| {
        let public = run(&with(&words(), hops), LAB, false);
        let found = compare(&direct, &public);
        (found.hop, found.hops)
    };
    let one = |hop| (Some(hop), vec![hop]);
    assert_eq!(added(json!([{ "kind": "proxy" }])), one(Hop::Proxy));
    assert_eq!(
        added(json!([{ "kind": "compression" }])),
        one(Hop::Compression)
    );
    assert_eq!(added(json!([{ "kind": "cdn" }])), one(Hop::Cdn));
    assert_eq!(
        added(json!([{ "kind": "narrow", "bytesPerSecond": 150 }])),
        one(Hop::Narrow)
    );
    let both = json!([{ "kind": "proxy" }, { "kind": "compression" }]);
    assert_eq!(added(both), (None, vec![Hop::Proxy, Hop::Compression]));
    assert_eq!(
        added(json!([{ "kind": "proxy", "honoursHeader": true }])),
        (None, vec![])
    );
}

#[test]
fn what_both_paths_do_is_no_difference() {
    for kind in ["framework", "client"] {
        let own = with(&seeded(6000), json!([{ "kind": kind }]));
        let direct = run(&own, LAB, false);
        let found = compare(&direct, &direct);
        assert_eq!((found.hop, found.hops), (None, vec![]), "{kind}");
        assert_eq!(found.shared.len(), 1, "{kind}: {:?}", found.shared);
        assert_eq!(name(found.shared[0]), kind);
        assert_eq!(found.added_first_text_ms, Some(0.0));
    }
    let direct = run(&words(), LAB, false);
    let slow = run(
        &json!({ "transit": { "requestMs": 40, "responseMs": 60 } }),
        LAB,
        false,
    );
    let found = compare(&direct, &slow);
    assert_eq!(found.hops, []);
    let near = |ms: Option<f64>| (ms.expect("both have text") - 100.0).abs() < 1e-6;
    assert!(near(found.added_first_text_ms) && near(found.added_last_text_ms));
}

#[test]
fn of_a_direct_path_beside_any_hop_none_is_named_that_is_not_there() {
    for hop in all_hops() {
        let scenario = if hop["kind"] == "idle" {
            stalled()
        } else {
            seeded(120)
        };
        let direct = run(&scenario, LAB, false);
        let public = run(&with(&scenario, json!([hop])), LAB, false);
        let found = compare(&direct, &public);
        if let Some(named) = found.hop {
            assert_eq!(hop["kind"], name(named), "{found:?}");
        }
        let is_there = |fits: &Hop| hop["kind"] == name(*fits);
        assert!(found.hops.iter().any(is_there), "{found:?}");
    }
}

/// The worked values: what streaming changes, and what it does not.
#[test]
fn streaming_moves_the_wait_and_not_the_end() {
    let near = |value: Option<f64>, wanted: f64| {
        let value = value.expect("it was measured");
        assert!((value - wanted).abs() < 1e-6, "{value} {wanted}");
    };
    let figures = |scenario: &Value, path: &str| {
        let timeline = run(scenario, path, true);
        timeline.figures().expect("it is complete")
    };
    let plain = fixed(120, 33.0);
    near(figures(&plain, LAB).get("ttft.first_text"), 33.0);
    near(figures(&plain, LAB).get("e2e.closed"), 3960.0);
    near(figures(&plain, "/lab/wait").get("ttft.first_text"), 3960.0);
    let mut far = plain.clone();
    far["prefill"] = json!({ "queueMs": 600 });
    far["transit"] = json!({ "requestMs": 50, "responseMs": 50 });
    near(figures(&far, LAB).get("ttft.first_text"), 733.0);
    near(figures(&far, LAB).get("ttft.generator"), 683.0);
    for path in [LAB, "/lab/wait"] {
        near(figures(&far, path).get("e2e.closed"), 4660.0);
    }
    for (tokens, first, gap, total) in [(300, 500.0, 30.0, 9470.0), (400, 700.0, 25.0, 10_675.0)] {
        let mut scenario = fixed(tokens, gap);
        scenario["prefill"] = json!({ "queueMs": first - gap });
        let seen = figures(&scenario, LAB);
        near(seen.get("ttft.first_text"), first);
        near(seen.get("e2e.last_text"), total);
        near(seen.get("tpot"), gap);
        near(seen.get("throughput.user"), 1000.0 / gap);
    }
    let mut batched = fixed(119, 33.0);
    batched["delivery"] = json!({ "batchTokens": 4 });
    near(figures(&batched, LAB).get("ttft.first_text"), 4.0 * 33.0);
    near(figures(&batched, LAB).get("e2e.closed"), 119.0 * 33.0);
    let mut held = fixed(120, 33.0);
    held["delivery"] = json!({ "holdBackTokens": 10 });
    near(figures(&held, LAB).get("ttft.first_text"), 33.0 + 330.0);
    near(figures(&held, LAB).get("e2e.closed"), 3960.0);
}

#[test]
fn the_eighteen_words_have_their_bytes() {
    let bytes = |scenario: Value, path: &str| {
        let seen = run(&scenario, path, false);
        (seen.body_bytes(), seen.events.len(), seen.firsts().text)
    };
    let text = "A model does not write the whole answer at once. It makes it one piece at a time. ";
    assert_eq!(bytes(words(), "/lab/wait"), (93, 1, text.to_owned()));
    assert_eq!(bytes(words(), LAB), (276, 18, text.to_owned()));
    let fours = json!({ "delivery": { "batchTokens": 4 } });
    assert_eq!(bytes(fours, LAB).1, 5);
}

#[test]
fn a_summary_of_calls_behind_a_buffer_shows_their_bursts() {
    let healthy = run(&seeded(120), LAB, true);
    let buffered = run(&with(&seeded(120), json!([{ "kind": "proxy" }])), LAB, true);
    let cut = run(&json!({ "faults": { "omit": "all" } }), LAB, true);
    let summary = summarize(&[healthy, buffered, cut]);
    assert_eq!(summary.burst_share, Some(0.5));
    assert_eq!((summary.complete, summary.incomplete), (2, 1));
    let of = |name| {
        summary
            .figures
            .iter()
            .find(|(at, _)| *at == name)
            .map(|(_, of)| *of)
    };
    assert_eq!(of("ttft.generator").map(|spread| spread.count), Some(2));
    let first = of("ttft.first_text").expect("it was measured");
    assert!(first.min < 50.0 && first.max > 3500.0);
}

/// What was seen until a time after the request.
fn until(scenario: &Value, end_ms: f64) -> Timeline {
    let mut seen = run(scenario, LAB, false);
    let (outcome, failure) = (Outcome::Open, None);
    seen = Timeline {
        outcome,
        failure,
        completion: None,
        closed_ms: None,
        ..seen
    };
    let end_ms = seen.request_ms + end_ms;
    seen.reads.retain(|read| read.at_ms <= end_ms);
    seen.events.retain(|event| event.at_ms <= end_ms);
    seen
}

#[test]
fn a_stream_under_way_is_judged_by_what_has_come() {
    let healthy = seeded(120);
    let found = diagnose(&until(&healthy, 60.0));
    assert_eq!(found.verdict, Verdict::Unclear, "two events are too few");
    assert_eq!(diagnose(&until(&healthy, 1000.0)).verdict, Verdict::Healthy);
    let late = diagnose(&until(&stalled(), 4500.0));
    assert_eq!(late.verdict, Verdict::Stalled);
    let buffered = with(&healthy, json!([{ "kind": "proxy", "bufferBytes": 256 }]));
    let one = diagnose(&until(&buffered, 900.0));
    assert_eq!(one.verdict, Verdict::Unclear, "{one:?}");
    let found = diagnose(&until(&buffered, 3000.0));
    assert_eq!(found.verdict, Verdict::Buffered);
    assert!(found.hops.contains(&Hop::Proxy), "{found:?}");
}
