//! Many at once.

use super::*;

fn starts(seen: &[Seen]) -> Vec<f64> {
    seen.iter().map(|seen| seen.times()[0]).collect()
}

#[test]
fn a_busy_server_slows_down_with_every_reply_in_it() {
    // Weights alone 8 ms; 64 caches of 4,096 tokens, 25.2 ms.
    let json = r#"{"text":{"kind":"words","words":"a b c d"},
        "prefill":{"promptTokens":4096},
        "pace":{"kind":"busy","weightsBytes":16000000000,"bytesPerSecond":2e12},
        "capacity":{"memoryBytes":68719476736,"kvBytesPerToken":131072}}"#;
    let alone = play(json, get("/lab/stream"));
    assert!(
        (8.2..8.3).contains(&alone.times()[0]),
        "{:?}",
        alone.times()
    );
    let mut server = server(json);
    let all: Vec<_> = (0..64)
        .map(|_| server.request(0.0, get("/lab/stream")))
        .collect();
    let seen = run(&mut server, &all, 1e9);
    // The first is in a step of its own; the others join at its end.
    let gaps: Vec<_> = seen[5]
        .times()
        .windows(2)
        .map(|pair| pair[1] - pair[0])
        .collect();
    assert!(
        gaps[..2].iter().all(|gap| (25.0..25.5).contains(gap)),
        "{gaps:?}"
    );
    let floor = json.replace("\"bytesPerSecond\"", "\"floorMs\":40,\"bytesPerSecond\"");
    assert_eq!(play(&floor, get("/lab/stream")).times()[..2], [40.0, 80.0]);
}

#[test]
fn request_129_waits_for_memory() {
    let json = r#"{"text":{"kind":"words","words":"a b"},"pace":{"kind":"fixed","ms":10},
        "capacity":{"memoryBytes":68719476736,"kvBytesPerToken":131072,"contextTokens":4096}}"#;
    let mut server = server(json);
    let all: Vec<_> = (0..129)
        .map(|_| server.request(0.0, get("/lab/stream")))
        .collect();
    let stats = server.stats();
    assert_eq!(
        (stats.seats_used, stats.waiting, stats.kv_bytes),
        (128, 1, 68_719_476_736)
    );
    let seen = run(&mut server, &all, 1e9);
    // Its headers come at once all the same.
    assert_eq!(seen[128].head_ms, 0.0);
    assert!(starts(&seen[..128]).iter().all(|at| *at == 10.0));
    assert_eq!(seen[128].times()[0], 30.0);
    let waits = server.stats().queue_wait;
    assert_eq!((waits.count, waits.max_ms), (129, 20.0));
}

#[test]
fn overcommitted_memory_stops_the_newest_and_lets_it_finish_later() {
    // Room for 24 positions; two replies of 18 tokens each.
    let json = r#"{"capacity":{"memoryBytes":24,"kvBytesPerToken":1,"overcommit":true},
        "prefill":{"msPerToken":1},"pace":{"kind":"fixed","ms":10}}"#;
    let mut server = server(json);
    let first = server.request(0.0, get("/lab/stream"));
    let second = server.request(1.0, get("/lab/stream"));
    let seen = run(&mut server, &[first, second], 1e9);
    assert_eq!(seen[0].end_ms, 180.0);
    assert_eq!(seen[0].body(), seen[1].body());
    let gaps = seen[1]
        .times()
        .windows(2)
        .map(|pair| pair[1] - pair[0])
        .fold(0.0, f64::max);
    assert!(gaps > 50.0, "the stream stalls: {gaps}");
    let count = |what: &What| server.trace().filter(|event| event.what == *what).count();
    assert_eq!(count(&What::Preempted), 1);
    assert_eq!((server.stats().finished, server.stats().kv_bytes), (2, 0));
    // What it had is computed again.
    let again = server.trace().filter_map(|event| match event.what {
        What::Prefill { tokens, .. } if tokens > 0 => Some(tokens),
        _ => None,
    });
    assert_eq!(again.count(), 1);
}

#[test]
fn a_prompt_that_never_fits_is_refused() {
    let json = r#"{"capacity":{"memoryBytes":10,"kvBytesPerToken":1}}"#;
    let seen = play(json, chat(",\"max_tokens\":8"));
    assert_eq!(seen.status, 400);
    assert!(seen.text().contains("context_length_exceeded"));
    assert_eq!(play(json, chat(",\"max_tokens\":7")).status, 200);
}

#[test]
fn a_full_server_answers_429_and_free_waits_behind_paid() {
    let json = r#"{"pace":{"kind":"fixed","ms":10},"overload":{
        "pools":[{"name":"own","tier":"paid","seats":1},{"name":"all","seats":1}],
        "waiting":{"limit":2},"retryAfterMs":2500}}"#;
    let mut server = server(json);
    let mut ask = |tier: &str| {
        let mut request = get("/lab/stream");
        request.headers.push(("x-tier".into(), tier.into()));
        server.request(0.0, request)
    };
    let all = [
        ask("free"),
        ask("paid"),
        ask("free"),
        ask("paid"),
        ask("free"),
        ask("paid"),
    ];
    let seen = run(&mut server, &all, 1e9);
    let status: Vec<_> = seen.iter().map(|seen| seen.status).collect();
    assert_eq!(status, [200, 200, 200, 200, 429, 429]);
    assert_eq!(seen[4].header("retry-after"), Some("3"));
    assert!(seen[4].text().contains("\"type\":\"rate_limit_error\""));
    // The shared seat, free at 180, goes to the paid one; the own one to no free one.
    assert_eq!(starts(&seen[..4]), [10.0, 10.0, 370.0, 190.0]);
    let pools: Vec<_> = server
        .trace()
        .filter_map(|event| match &event.what {
            What::Seated { pool, .. } => Some((event.reply, pool.clone())),
            _ => None,
        })
        .collect();
    assert!(pools.contains(&(2, "all".to_owned())), "{pools:?}");
    let stats = server.stats();
    assert_eq!(
        (stats.rate_limited, stats.finished, stats.produced),
        (2, 4, 72)
    );
    assert_eq!((stats.seats, stats.seats_used), (Some(2), 0));
}

#[test]
fn the_bucket_gives_back_what_a_reply_did_not_use() {
    let json = r#"{"pace":{"kind":"fixed","ms":0},"overload":{
        "pools":[{"name":"all","seats":9}],
        "bucket":{"burstTokens":300,"tokensPerSecond":0.001}}}"#;
    let mut server = server(json);
    // Up to 200 tokens and a prompt of three are set aside; 21 are used.
    for _ in 0..13 {
        let connection = server.request(server.now_ms, chat(",\"max_tokens\":200"));
        let seen = run(&mut server, &[connection], 1e9).remove(0);
        if seen.status == 429 {
            break;
        }
    }
    let stats = server.stats();
    assert_eq!((stats.finished, stats.rate_limited), (5, 1));
}

#[test]
fn an_incident_takes_seats_and_gives_them_back() {
    let json = r#"{"pace":{"kind":"fixed","ms":10},"overload":{
        "pools":[{"name":"all","seats":4}],
        "incidents":[{"atMs":100,"capacity":0.25},{"atMs":500,"capacity":1}]}}"#;
    let mut server = server(json);
    server.advance(150.0);
    let all: Vec<_> = (0..4)
        .map(|_| server.request(150.0, get("/lab/stream")))
        .collect();
    assert_eq!(server.stats().seats, Some(1));
    let seen = run(&mut server, &all, 1e9);
    assert_eq!(starts(&seen), [160.0, 340.0, 510.0, 510.0]);
}
