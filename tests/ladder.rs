//! The ladder and its meters against the mock server, on a virtual clock: each trouble of a
//! provider, and the meter that shows it.

use serde_json::{Value, json};
use tokenbrook::client::{
    Action, Alert, Backoff, BreakerLimits, Call, Failure, Heard, Ladder, Limits, Meters, Reply,
    Rung, Sample, retry_after_ms,
};
use tokenbrook::mock::{MockServer, Request, Scenario, Taken};
use tokenbrook::sse::{DEFAULT_MAX_BUFFER_BYTES, Item, Parser};

/// What every call begins with; a provider's cache has it after the first one.
const SYSTEM: &str = "You answer in one short sentence and you never guess. \
    You name the source of each number that you give and you say so where there is none. \
    You write for people who read on a phone while they are walking.";

/// In any currency, for a token: fresh, cached, written.
const PRICES: [f64; 3] = [2.0, 0.5, 8.0];

const CALLS: usize = 200;

/// A provider with four seats, which calls each 40 ms fill by two thirds.
fn provider(more: Value) -> Value {
    let mut scenario = json!({
        "text": { "kind": "words", "words": "Ten words come out of it one after the other." },
        "pace": { "kind": "fixed", "ms": 10 },
        "prefill": { "msPerToken": 0.2, "prefixCache": { "blockTokens": 8 } },
        "overload": { "pools": [{ "name": "shared", "seats": 4 }] },
    });
    for (name, value) in more.as_object().cloned().unwrap_or_default() {
        scenario[name] = value;
    }
    scenario
}

/// The shared pool loses three of its four seats for 600 ms.
fn squeezed(waiting: u64) -> Value {
    json!({ "overload": {
        "pools": [{ "name": "shared", "seats": 4 }],
        "waiting": { "limit": waiting },
        "incidents": [{ "atMs": 3000, "capacity": 0.25 }, { "atMs": 3600, "capacity": 1 }],
    } })
}

fn body(system: &str, nth: usize, model: &str) -> String {
    json!({
        "model": model,
        "stream": true,
        "stream_options": { "include_usage": true },
        "messages": [
            { "role": "system", "content": system },
            { "role": "user", "content": format!("What of {nth} is left?") },
        ],
    })
    .to_string()
}

/// Calls of the same kind, one each 40 ms.
fn usual() -> Vec<(f64, String)> {
    times()
        .map(|(at_ms, nth)| (at_ms, body(SYSTEM, nth, "m")))
        .collect()
}

fn times() -> impl Iterator<Item = (f64, usize)> {
    (0..CALLS).map(|nth| (nth as f64 * 40.0, nth))
}

enum State {
    WaitsUntil(f64),
    Reads { connection: u64, parser: Parser },
    Over,
}

struct Turn {
    call: Call,
    body: String,
    state: State,
    ends_ms: f64,
    reply: Reply,
    text: String,
    first_text_ms: Option<f64>,
    /// Rungs that were asked, in order.
    tried: Vec<usize>,
    answered_by: Option<usize>,
}

/// The client as its face runs it, without promises.
struct Client {
    ladder: Ladder,
    meters: Meters,
    servers: Vec<MockServer>,
}

impl Client {
    fn new(rungs: &[(Value, Option<f64>)]) -> Self {
        let limits = Limits {
            least: 20,
            error_share: Some(0.05),
            p95_ms: Some(100.0),
            eval_share: Some(0.8),
            cached_share: Some(0.5),
            spend: Some(150.0),
            fallback_share: Some(0.1),
        };
        let backoff = Backoff {
            attempts: 6,
            base_ms: 100.0,
            max_ms: 10_000.0,
        };
        let deadlines = rungs.iter().map(|(_, deadline_ms)| Rung {
            deadline_ms: *deadline_ms,
        });
        let servers = rungs.iter().map(|(scenario, _)| {
            let scenario = Scenario::from_json(&scenario.to_string()).expect("it can be played");
            MockServer::new(scenario, "r", 0.0)
        });
        let never = BreakerLimits {
            error_share: 1.1,
            ..BreakerLimits::default()
        };
        Self {
            ladder: Ladder::new(deadlines.collect(), backoff, never),
            meters: Meters::new(limits, CALLS * 2),
            servers: servers.collect(),
        }
    }

    /// Makes calls at their times and follows all to their ends.
    fn play(&mut self, calls: &[(f64, String)]) -> Vec<Turn> {
        let mut coming = calls.iter().peekable();
        let mut turns: Vec<Turn> = Vec::new();
        let mut now_ms = 0.0;
        loop {
            while let Some((_, body)) = coming.next_if(|(at_ms, _)| *at_ms <= now_ms) {
                turns.push(self.begin(now_ms, body));
            }
            for turn in &mut turns {
                while self.step(now_ms, turn) {}
            }
            let own = turns.iter().filter_map(|turn| match turn.state {
                State::WaitsUntil(at_ms) => Some(at_ms),
                State::Reads { .. } if turn.first_text_ms.is_none() => Some(turn.ends_ms),
                _ => None,
            });
            let servers = self.servers.iter_mut().filter_map(MockServer::next_ms);
            let next = coming.peek().map(|(at_ms, _)| *at_ms);
            let next_ms = own.chain(servers).chain(next).fold(f64::INFINITY, f64::min);
            let is_over = |turn: &Turn| matches!(turn.state, State::Over);
            if next.is_none() && turns.iter().all(is_over) {
                return turns;
            }
            assert!(next_ms.is_finite(), "a call is left without an end");
            now_ms = next_ms.max(now_ms);
            for server in &mut self.servers {
                server.advance(now_ms);
            }
        }
    }

    fn begin(&mut self, now_ms: f64, body: &str) -> Turn {
        let (call, first) = self.ladder.begin(now_ms, false);
        let mut turn = Turn {
            call,
            body: body.to_owned(),
            state: State::Over,
            ends_ms: f64::INFINITY,
            reply: Reply::default(),
            text: String::new(),
            first_text_ms: None,
            tried: Vec::new(),
            answered_by: None,
        };
        turn.follow(now_ms, first);
        turn
    }

    /// Does what can be done now; whether there may be more of it.
    fn step(&mut self, now_ms: f64, turn: &mut Turn) -> bool {
        let rung = turn.call.rung();
        match &mut turn.state {
            State::WaitsUntil(at_ms) if *at_ms <= now_ms => {
                turn.tried.push(rung);
                let request = Request {
                    method: "POST".to_owned(),
                    path: "/v1/chat/completions".to_owned(),
                    body: turn.body.clone().into_bytes(),
                    ..Request::default()
                };
                turn.reply = Reply::default();
                turn.state = State::Reads {
                    connection: self.servers[rung].request(now_ms, request),
                    parser: Parser::new(DEFAULT_MAX_BUFFER_BYTES, false),
                };
                true
            }
            State::Reads { connection, .. } => {
                let connection = *connection;
                if turn.first_text_ms.is_none() && turn.ends_ms <= now_ms {
                    self.servers[rung].cancel(now_ms, connection);
                    self.failed(now_ms, turn, Failure::Late);
                    return true;
                }
                self.read(now_ms, turn, connection)
            }
            _ => false,
        }
    }

    fn read(&mut self, now_ms: f64, turn: &mut Turn, connection: u64) -> bool {
        let server = &mut self.servers[turn.call.rung()];
        let Some(head) = server.head(connection) else {
            return false;
        };
        if head.status != 200 {
            let mut headers = head.headers.iter();
            let after = headers.find_map(|(name, value)| (name == "retry-after").then_some(value));
            let failure = Failure::Refused {
                status: head.status,
                retry_after_ms: after.and_then(|value| retry_after_ms(value, 0.0)),
            };
            server.cancel(now_ms, connection);
            self.failed(now_ms, turn, failure);
            return true;
        }
        match server.take(now_ms, connection) {
            Taken::Nothing => false,
            Taken::Bytes(bytes) => {
                self.hear(now_ms, turn, &bytes);
                true
            }
            Taken::End | Taken::Reset => {
                self.over(turn);
                false
            }
        }
    }

    fn hear(&mut self, now_ms: f64, turn: &mut Turn, bytes: &[u8]) {
        let State::Reads { parser, .. } = &mut turn.state else {
            return;
        };
        let mut rest = bytes;
        while !rest.is_empty() {
            let (read, item) = parser.read(rest).expect("no event is large");
            rest = &rest[read..];
            let Some(Item::Event(message)) = item else {
                continue;
            };
            let heard = turn.reply.hear(&message.event, &message.data, &message.id);
            if let Heard::News { text } = heard {
                turn.text.push_str(&text);
            }
        }
        if turn.first_text_ms.is_none() && turn.reply.has_text() {
            turn.first_text_ms = Some(self.ladder.answered(&turn.call, now_ms));
        }
    }

    fn over(&mut self, turn: &mut Turn) {
        turn.state = State::Over;
        assert!(turn.reply.is_complete());
        turn.answered_by = Some(turn.call.rung());
        let usage = turn.reply.usage();
        let [fresh, cached, written] = PRICES;
        self.meters.record(Sample {
            rung: turn.call.rung(),
            first_text_ms: turn.first_text_ms,
            prompt_tokens: usage.prompt_tokens,
            cached_tokens: usage.cached_tokens,
            spend: (usage.prompt_tokens - usage.cached_tokens) * fresh
                + usage.cached_tokens * cached
                + usage.completion_tokens * written,
        });
    }

    fn failed(&mut self, now_ms: f64, turn: &mut Turn, failure: Failure) {
        self.meters.record(Sample {
            rung: turn.call.rung(),
            ..Sample::default()
        });
        let next = self.ladder.failed(&mut turn.call, now_ms, failure, 0.5);
        turn.follow(now_ms, next);
    }
}

impl Turn {
    fn follow(&mut self, now_ms: f64, action: Action) {
        let Action::Try {
            wait_ms,
            deadline_ms,
            ..
        } = action
        else {
            self.state = State::Over;
            return;
        };
        self.state = State::WaitsUntil(now_ms + wait_ms);
        self.ends_ms = deadline_ms.map_or(f64::INFINITY, |ms| now_ms + wait_ms + ms);
    }
}

/// One provider and a smaller one below it.
fn client(more: Value) -> Client {
    Client::new(&[(provider(more), None), (provider(json!({})), None)])
}

#[test]
fn a_provider_that_is_well_trips_nothing() {
    let mut client = client(json!({}));
    let turns = client.play(&usual());
    assert!(turns.iter().all(|turn| turn.answered_by == Some(0)));
    assert_eq!(client.meters.alerts(), []);
    let now = client.meters.summary();
    assert_eq!((now.calls, now.error_share), (CALLS, Some(0.0)));
    assert!(now.cached_share > Some(0.8), "{now:?}");
    assert!(now.p95_ms < Some(30.0), "{now:?}");
}

#[test]
fn a_squeeze_of_the_shared_pool_trips_the_p95_alone_while_the_median_stays() {
    let mut well = client(json!({}));
    well.play(&usual());
    let mut client = client(squeezed(1000));
    client.play(&usual());
    assert_eq!(client.meters.alerts(), [Alert::P95]);
    let (before, now) = (well.meters.summary(), client.meters.summary());
    assert_eq!(now.p50_ms, before.p50_ms);
    assert!(now.p95_ms > Some(200.0), "{now:?}");
}

#[test]
fn a_surge_of_429_trips_the_error_share_alone() {
    // The same squeeze, and nobody may wait for a seat.
    let mut client = client(squeezed(0));
    let turns = client.play(&usual());
    assert_eq!(client.meters.alerts(), [Alert::ErrorShare]);
    let refused = turns.iter().filter(|turn| turn.tried.len() > 1);
    assert!(refused.count() >= 8);
    let first = |turn: &Turn| turn.answered_by == Some(0);
    assert!(turns.iter().all(first), "asked again, not elsewhere");
}

#[test]
fn an_edited_prompt_trips_the_cached_share_and_the_spend_alone() {
    let mut client = client(json!({}));
    // What changes with each call comes first: nothing behind it is found in the cache.
    let calls: Vec<_> = times()
        .map(|(at_ms, nth)| {
            let system = format!("{SYSTEM} It is {nth} o'clock.");
            let edited = format!("It is {nth} o'clock. {SYSTEM}");
            let system = if nth < CALLS / 4 { system } else { edited };
            (at_ms, body(&system, nth, "m"))
        })
        .collect();
    let turns = client.play(&calls);
    assert!(turns.iter().all(|turn| turn.answered_by == Some(0)));
    assert_eq!(client.meters.alerts(), [Alert::CachedShare, Alert::Spend]);
    assert_eq!(turns[CALLS / 4 - 1].reply.usage().cached_tokens, 40.0);
    assert_eq!(turns[CALLS / 4].reply.usage().cached_tokens, 0.0);
}

#[test]
fn a_silent_swap_of_the_model_trips_the_evaluation_set_alone_and_a_pinned_one_passes_again() {
    let swap = json!({ "swap": {
        "afterRequests": CALLS / 2,
        "text": { "kind": "words", "words": "Another model has its own way of saying it all." },
        "pinned": "m-1",
    } });
    let mut client = client(swap);
    // Every tenth call is a question whose answer is known.
    let known = "Ten words come out of it one after the other. ";
    let turns = client.play(&usual());
    for turn in turns.iter().step_by(10) {
        client.meters.record_eval(turn.text == known);
    }
    assert_eq!(client.meters.alerts(), [Alert::EvalShare]);
    assert_eq!(client.meters.summary().eval_share, Some(0.5));
    let pinned: Vec<_> = times()
        .take(40)
        .map(|(at_ms, nth)| (9_000.0 + at_ms, body(SYSTEM, nth, "m-1")))
        .collect();
    let again = client.play(&pinned);
    again
        .iter()
        .for_each(|turn| client.meters.record_eval(turn.text == known));
    assert_eq!(client.meters.alerts(), [], "rolled back");
}

#[test]
fn the_rungs_are_asked_in_their_order_and_each_tells_its_share() {
    let refuses = json!({ "faults": { "failBefore": { "status": 503 } } });
    let sleeps = json!({ "prefill": { "queueMs": 60_000 } });
    let rungs = [
        (provider(refuses.clone()), Some(900.0)),
        (provider(sleeps), Some(500.0)),
        (provider(json!({})), None),
        (provider(json!({})), None),
    ];
    let mut client = Client::new(&rungs);
    let turns = client.play(&usual()[..40]);
    for turn in &turns {
        // Waits of 50, 100, 200 and 400 ms; 800 more would end beyond the deadline.
        assert_eq!(turn.tried, [0, 0, 0, 0, 0, 1, 2]);
        assert_eq!(turn.answered_by, Some(2));
    }
    assert_eq!(client.meters.summary().rung_shares, [0.0, 0.0, 1.0]);
    let alerts = client.meters.alerts();
    assert!(alerts.contains(&Alert::FallbackShare), "{alerts:?}");
    assert_eq!(alerts.first(), Some(&Alert::ErrorShare));
    // Nobody answers: the cached reply is the face's to give.
    let mut nobody = Client::new(&[(provider(refuses.clone()), None), (provider(refuses), None)]);
    let turns = nobody.play(&usual()[..1]);
    assert_eq!(turns[0].tried, [[0; 6], [1; 6]].concat());
    assert_eq!(turns[0].answered_by, None);
}
