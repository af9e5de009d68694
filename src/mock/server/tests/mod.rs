//! The server on a clock that moves only when told.

mod faults;
mod keeping;
mod load;
mod models;
mod readers;
mod timing;

use super::*;

/// A request for the eighteen words, or whatever the scenario has.
pub(super) fn get(path: &str) -> Request {
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    let pair = |pair: &str| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (name.to_owned(), value.to_owned())
    };
    Request {
        method: "GET".to_owned(),
        path: path.to_owned(),
        query: pairs.map(pair).collect(),
        ..Request::default()
    }
}

pub(super) fn chat(more: &str) -> Request {
    let body = format!(r#"{{"messages":[{{"role":"user","content":"a b c"}}]{more}}}"#);
    Request {
        method: "POST".to_owned(),
        path: "/v1/chat/completions".to_owned(),
        body: body.into_bytes(),
        ..Request::default()
    }
}

pub(super) fn server(json: &str) -> MockServer {
    MockServer::new(Scenario::from_json(json).expect("it is valid"), "r", 0.0)
}

/// What a reader that takes everything at once saw.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Seen {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    pub(super) head_ms: f64,
    pub(super) arrivals: Vec<(f64, Vec<u8>)>,
    pub(super) end_ms: f64,
    pub(super) is_reset: bool,
    pub(super) is_open: bool,
}

impl Seen {
    pub(super) fn body(&self) -> Vec<u8> {
        self.arrivals
            .iter()
            .flat_map(|(_, bytes)| bytes.clone())
            .collect()
    }

    pub(super) fn text(&self) -> String {
        String::from_utf8(self.body()).expect("the body is text")
    }

    pub(super) fn times(&self) -> Vec<f64> {
        self.arrivals.iter().map(|(at_ms, _)| *at_ms).collect()
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        headers.find_map(|(key, value)| (key == name).then_some(value.as_str()))
    }

    /// The words of `/lab/stream` and the ids, without what is no complete event.
    pub(super) fn words(&self) -> (String, Vec<String>) {
        let body = self.body();
        let text = String::from_utf8_lossy(&body);
        let (mut words, mut ids) = (String::new(), Vec::new());
        let complete = text.rfind("\n\n").map_or("", |end| &text[..end + 2]);
        for event in complete.split_terminator("\n\n") {
            for line in event.lines() {
                if let Some(id) = line.strip_prefix("id: ") {
                    ids.push(id.to_owned());
                }
                if let Some(data) = line.strip_prefix("data: ").filter(|data| *data != "[DONE]") {
                    words += &serde_json::from_str::<String>(data).unwrap_or_default();
                }
            }
        }
        (words, ids)
    }
}

/// Runs the server until all bodies are at their end, or `until_ms`; all readers take at once.
pub(super) fn run(server: &mut MockServer, connections: &[u64], until_ms: f64) -> Vec<Seen> {
    let mut seen: Vec<Seen> = connections
        .iter()
        .map(|_| Seen {
            is_open: true,
            ..Seen::default()
        })
        .collect();
    let mut now_ms = server.now_ms;
    loop {
        for (connection, seen) in connections.iter().zip(&mut seen).filter(|(_, s)| s.is_open) {
            read(server, *connection, now_ms, seen);
        }
        if seen.iter().all(|seen| !seen.is_open) {
            return seen;
        }
        match server.next_ms() {
            Some(at_ms) if at_ms <= until_ms => now_ms = now_ms.max(at_ms),
            _ => return seen,
        }
        server.advance(now_ms);
    }
}

fn read(server: &mut MockServer, connection: u64, now_ms: f64, seen: &mut Seen) {
    let Some(head) = server.head(connection).cloned() else {
        // Broken before its head came.
        if server
            .connections
            .get(&connection)
            .is_some_and(|open| open.end.is_none())
        {
            return;
        }
        let taken = server.take(now_ms, connection);
        (seen.is_open, seen.is_reset, seen.end_ms) = (false, taken == Taken::Reset, now_ms);
        return;
    };
    if seen.status == 0 {
        (seen.status, seen.headers, seen.head_ms) = (head.status, head.headers, now_ms);
    }
    loop {
        match server.take(now_ms, connection) {
            Taken::Nothing => return,
            Taken::Bytes(bytes) => seen.arrivals.push((now_ms, bytes)),
            end => {
                (seen.is_open, seen.is_reset, seen.end_ms) = (false, end == Taken::Reset, now_ms);
                return;
            }
        }
    }
}

/// One request on a fresh server.
pub(super) fn play(json: &str, request: Request) -> Seen {
    let mut server = server(json);
    let connection = server.request(0.0, request);
    let seen = run(&mut server, &[connection], 1e9).remove(0);
    server.advance(1e9);
    assert_eq!(server.next_ms(), None, "nothing is left to happen");
    assert!(server.jobs.is_empty() || server.scenario.resume.is_some());
    seen
}

#[test]
fn the_same_scenario_and_requests_have_the_same_trace() {
    let json = r#"{"seed":5,"text":{"kind":"seeded","tokens":30},
        "pace":{"kind":"log-normal","medianMs":20,"sigma":0.7},
        "prefill":{"queueMs":5,"msPerToken":1},"transit":{"requestMs":3,"responseMs":4},
        "hops":[{"kind":"proxy","bufferBytes":64},{"kind":"narrow","bytesPerSecond":900}],
        "capacity":{"seats":2},"delivery":{"batchMs":50}}"#;
    let once = |json: &str| {
        let mut server = server(json);
        let mut connections = Vec::new();
        for at in 0..6 {
            let path = if at % 2 == 0 {
                "/lab/stream"
            } else {
                "/lab/wait"
            };
            connections.push(server.request(f64::from(at) * 7.0, get(path)));
        }
        server.cancel(60.0, connections[2]);
        run(&mut server, &connections, 1e9);
        (server.trace().cloned().collect::<Vec<_>>(), server.stats())
    };
    let first = once(json);
    assert!(first.0.len() > 200);
    assert_eq!(once(json), first);
    assert_ne!(once(&json.replace("\"seed\":5", "\"seed\":6")), first);
}

#[test]
fn ten_thousand_replies_leave_nothing_planned() {
    let mut server = server(
        r#"{"text":{"kind":"words","words":"a"},"keepAliveMs":1000,
            "hops":[{"kind":"idle","ms":5000}]}"#,
    );
    for n in 0..10_000 {
        let path = if n % 2 == 0 {
            "/lab/stream"
        } else {
            "/lab/wait"
        };
        let connection = server.request(server.now_ms, get(path));
        if n % 3 == 0 {
            server.cancel(server.now_ms + 1.0, connection);
        } else {
            run(&mut server, &[connection], 1e12);
        }
    }
    assert_eq!(server.next_ms(), None);
    assert!(server.planned.is_empty() && server.connections.is_empty());
    assert!(server.jobs.is_empty() && server.changed().is_empty());
    let stats = server.stats();
    assert_eq!(
        (stats.active, stats.connections, stats.seats_used),
        (0, 0, 0)
    );
}
