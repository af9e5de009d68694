use super::*;

fn admission(json: &str) -> Admission {
    Admission::new(&Scenario::from_json(json).expect("it is valid"), 0.0)
}

fn ask(key: u64, tier: Tier) -> Ask {
    Ask {
        key,
        tier,
        tokens: 10.0,
        prompt_bytes: 1,
        seat_bytes: 1,
    }
}

fn is_refused(verdict: Verdict, code: &str) -> bool {
    matches!(verdict, Verdict::Refused { why, .. } if why.code() == code)
}

#[test]
fn a_provisioned_pool_serves_its_tier_and_the_shared_one_paid_before_free() {
    let mut admission = admission(
        r#"{"overload":{"pools":[{"name":"own","tier":"paid","seats":1},
            {"name":"all","seats":1}]}}"#,
    );
    assert_eq!(admission.ask(0.0, ask(1, Tier::Free)), Verdict::Seated);
    assert_eq!(admission.pool_of(1), "all");
    assert_eq!(admission.ask(0.0, ask(2, Tier::Free)), Verdict::Waits);
    assert_eq!(admission.ask(0.0, ask(3, Tier::Paid)), Verdict::Seated);
    assert_eq!(admission.pool_of(3), "own");
    assert_eq!(admission.ask(0.0, ask(4, Tier::Paid)), Verdict::Waits);
    assert_eq!(admission.ask(0.0, ask(5, Tier::Paid)), Verdict::Waits);
    assert_eq!(admission.seat_waiting(), None);
    // The provisioned seat takes the first paid request from the shared queue.
    admission.leave(1.0, 3, 10.0);
    assert_eq!(admission.seat_waiting(), Some(4));
    assert_eq!(admission.pool_of(4), "own");
    // The shared seat: paid first, though a free one came before.
    admission.leave(2.0, 1, 10.0);
    assert_eq!(admission.seat_waiting(), Some(5));
    admission.leave(3.0, 5, 10.0);
    assert_eq!(admission.seat_waiting(), Some(2));
    // A free request never gets the provisioned seat.
    assert_eq!(admission.ask(4.0, ask(6, Tier::Free)), Verdict::Waits);
    admission.leave(4.0, 4, 10.0);
    assert_eq!(admission.seat_waiting(), None);
    assert_eq!(admission.usage().0, 1);
}

#[test]
fn a_refusal_takes_no_seat_no_place_and_no_tokens() {
    let mut admission = admission(
        r#"{"overload":{"pools":[{"name":"all","seats":1}],"waiting":{"limit":1},
            "bucket":{"burstTokens":30,"tokensPerSecond":10},"retryAfterMs":500}}"#,
    );
    assert_eq!(admission.ask(0.0, ask(1, Tier::Paid)), Verdict::Seated);
    assert_eq!(admission.ask(0.0, ask(2, Tier::Paid)), Verdict::Waits);
    for key in 3..50 {
        let verdict = admission.ask(0.0, ask(key, Tier::Paid));
        assert!(is_refused(verdict, "queue_full"), "{verdict:?}");
    }
    assert_eq!(admission.usage(), (1, 1, 1, 1));
    // Ten tokens are left: exactly one more is admitted once there is a place.
    admission.leave(0.0, 2, 10.0);
    assert_eq!(admission.ask(0.0, ask(50, Tier::Paid)), Verdict::Waits);
    admission.leave(0.0, 50, 10.0);
    let verdict = admission.ask(0.0, ask(51, Tier::Paid));
    let refused = Verdict::Refused {
        why: Refusal::Bucket,
        retry_after_ms: 1000.0,
    };
    assert_eq!(verdict, refused);
    assert_eq!(admission.usage(), (1, 1, 0, 1));
}

#[test]
fn the_queue_ends_where_its_memory_ends() {
    let mut admission = admission(
        r#"{"overload":{"pools":[{"name":"all","seats":0}],"waiting":{"memoryBytes":5}}}"#,
    );
    let big = Ask {
        prompt_bytes: 3,
        ..ask(1, Tier::Paid)
    };
    assert_eq!(admission.ask(0.0, big), Verdict::Waits);
    let second = admission.ask(0.0, Ask { key: 2, ..big });
    assert!(is_refused(second, "queue_full"), "{second:?}");
    assert_eq!(admission.ask(0.0, ask(3, Tier::Paid)), Verdict::Waits);
    admission.leave(0.0, 1, 0.0);
    assert_eq!(admission.ask(0.0, Ask { key: 4, ..big }), Verdict::Waits);
}

#[test]
fn seats_end_where_kv_memory_ends_and_request_129_waits() {
    // 64 GiB, caches of 4,096 tokens at 128 KiB.
    let mut admission = admission(
        r#"{"capacity":{"memoryBytes":68719476736,"kvBytesPerToken":131072,
            "contextTokens":4096}}"#,
    );
    let full = |key| Ask {
        seat_bytes: 536_870_912,
        ..ask(key, Tier::Paid)
    };
    for key in 1..=128 {
        assert_eq!(admission.ask(0.0, full(key)), Verdict::Seated, "{key}");
    }
    assert_eq!(admission.ask(0.0, full(129)), Verdict::Waits);
    // A smaller one does not pass by the one that waits.
    admission.leave(0.0, 7, 0.0);
    assert_eq!(admission.ask(0.0, ask(130, Tier::Paid)), Verdict::Waits);
    assert_eq!(admission.seat_waiting(), Some(129));
    assert_eq!(admission.seat_waiting(), None);
}

#[test]
fn memory_grows_until_it_is_used_up_and_an_evicted_one_comes_first() {
    let mut admission = admission(r#"{"capacity":{"memoryBytes":10,"kvBytesPerToken":1}}"#);
    for key in 1..=2 {
        assert_eq!(admission.ask(0.0, ask(key, Tier::Paid)), Verdict::Seated);
    }
    assert!(admission.grow(1, 8));
    assert!(!admission.grow(2, 1));
    assert!(!admission.grow(77, 0), "it has no seat");
    let evicted = admission.evict(2).expect("it has a seat");
    assert_eq!(admission.ask(0.0, ask(3, Tier::Paid)), Verdict::Seated);
    let needs_more = Ask {
        seat_bytes: 2,
        ..evicted
    };
    admission.wait_first(needs_more);
    assert_eq!(admission.ask(0.0, ask(4, Tier::Paid)), Verdict::Waits);
    assert_eq!(admission.seat_waiting(), None);
    admission.leave(0.0, 1, 0.0);
    assert_eq!(admission.seat_waiting(), Some(2));
    assert_eq!(admission.seat_waiting(), Some(4));
}

#[test]
fn lost_capacity_takes_no_seat_away_and_sends_the_waiting_elsewhere() {
    let mut admission = admission(
        r#"{"overload":{"pools":[{"name":"all","seats":1,"replicas":10}],
            "incidents":[{"atMs":100,"capacity":0.7},{"atMs":200,"capacity":1}]}}"#,
    );
    for key in 0..200 {
        let verdict = admission.ask(0.0, ask(key, Tier::Paid));
        assert!(!matches!(verdict, Verdict::Refused { .. }));
    }
    assert_eq!(admission.usage().1, 10);
    assert_eq!(admission.next_incident_ms(), Some(100.0));
    let seated = admission.usage().0;
    admission.advance(100.0);
    let (used, seats, waiting, _) = admission.usage();
    assert_eq!((used, seats, waiting), (seated, 7, 200 - seated));
    // All come through: nobody waits at a replica that is gone.
    let mut left: Vec<u64> = (0..200)
        .filter(|key| !admission.pool_of(*key).is_empty())
        .collect();
    let mut done = 0;
    while let Some(key) = left.pop() {
        done += 1;
        admission.leave(100.0, key, 0.0);
        while let Some(next) = admission.seat_waiting() {
            left.push(next);
        }
    }
    assert_eq!((done, admission.usage().0), (200, 0));
    admission.advance(200.0);
    assert_eq!(admission.usage().1, 10);
    assert_eq!(admission.next_incident_ms(), None);
}
