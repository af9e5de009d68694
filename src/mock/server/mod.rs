//! Requests to responses over time.
//!
//! Long because it is the whole face of a server and its queue of what happens when; what then
//! happens is in the modules below.

mod arrive;
mod connection;
mod generate;
mod job;
mod keep;
mod send;
mod step;
#[cfg(test)]
mod tests;

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use connection::{Connection, End};
use job::{Job, Phase};
pub use keep::Kept;

use super::admission::Admission;
use super::hop::Item;
use super::prefix::Prefixes;
use super::scenario::Scenario;
use super::trace::{Stats, Trace, TraceEvent, What};

/// A request as it was sent.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Request {
    /// In capitals.
    pub method: String,
    /// Path of the address, without query.
    pub path: String,
    /// Decoded pairs of the query.
    pub query: Vec<(String, String)>,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    /// The whole body.
    pub body: Vec<u8>,
}

impl Request {
    fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        headers.find_map(|(key, value)| (key == name).then_some(value.as_str()))
    }

    fn query(&self, name: &str) -> Option<&str> {
        let mut query = self.query.iter();
        query.find_map(|(key, value)| (key == name).then_some(value.as_str()))
    }
}

/// Status and headers of a response.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Head {
    /// HTTP status.
    pub status: u16,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
}

/// What a reader gets when it asks for the next part of a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Taken {
    /// Not yet.
    Nothing,
    /// One write, or a part of one.
    Bytes(Vec<u8>),
    /// The body is at its end; the connection is forgotten.
    End,
    /// The connection broke; it is forgotten.
    Reset,
}

/// What happens at a time.
#[derive(Clone, Debug, PartialEq)]
enum Action {
    Arrive(u64),
    PrefillDone {
        job: u64,
        turn: u64,
    },
    Token {
        job: u64,
        turn: u64,
    },
    /// The step of the busy server with this number ends.
    Step(u64),
    Window(u64),
    Pass {
        connection: u64,
        stage: usize,
        item: Item,
    },
    Idle {
        connection: u64,
        stage: usize,
    },
    KeepAlive(u64),
    Silence {
        connection: u64,
        epoch: u64,
    },
    Grace {
        job: u64,
        epoch: u64,
    },
    Forget(u64),
    Incident,
}

#[derive(Clone, Debug)]
struct Timed {
    at_ms: f64,
    /// Order of what happens at one moment: as it was planned.
    order: u64,
    action: Action,
}

impl PartialEq for Timed {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Timed {}

impl PartialOrd for Timed {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Timed {
    fn cmp(&self, other: &Self) -> Ordering {
        let times = self.at_ms.total_cmp(&other.at_ms);
        times.then(self.order.cmp(&other.order))
    }
}

/// A server that plays a scenario on the times it is given.
///
/// Every call that takes `now_ms` first lets happen all that is due until then; times never go
/// back. [`next_ms`](Self::next_ms) tells when something happens next.
#[derive(Clone, Debug)]
pub struct MockServer {
    scenario: Scenario,
    /// First part of the names of replies: other servers have others.
    instance: String,
    now_ms: f64,
    planned: BinaryHeap<Reverse<Timed>>,
    plans: u64,
    jobs: BTreeMap<u64, Job>,
    connections: BTreeMap<u64, Connection>,
    next_number: u64,
    next_connection: u64,
    admission: Admission,
    /// When the server is awake; `None` before the first request.
    awake_ms: Option<f64>,
    step: step::BusyStep,
    prefixes: Prefixes,
    changed: BTreeSet<u64>,
    trace: Trace,
    stats: Stats,
}

impl MockServer {
    /// A server that plays `scenario` from `now_ms` on, on a clock in Unix milliseconds where
    /// `created` of answers is to be right. `instance` begins the names of its replies, which
    /// tell it apart from servers that ran before under the same address.
    #[must_use]
    pub fn new(scenario: Scenario, instance: &str, now_ms: f64) -> Self {
        let mut server = Self {
            admission: Admission::new(&scenario, now_ms),
            prefixes: Prefixes::new(scenario.prefill.prefix_cache),
            scenario,
            instance: instance.to_owned(),
            now_ms,
            planned: BinaryHeap::new(),
            plans: 0,
            jobs: BTreeMap::new(),
            connections: BTreeMap::new(),
            next_number: 0,
            next_connection: 0,
            awake_ms: None,
            step: step::BusyStep::default(),
            changed: BTreeSet::new(),
            trace: Trace::default(),
            stats: Stats::default(),
        };
        server.plan_incident();
        server
    }

    /// The scenario that is played.
    #[must_use]
    pub fn scenario(&self) -> &Scenario {
        &self.scenario
    }

    /// Takes a request; gives the number of its connection.
    pub fn request(&mut self, now_ms: f64, request: Request) -> u64 {
        self.advance(now_ms);
        let number = self.next_number;
        let connection = self.next_connection;
        self.next_number += 1;
        self.next_connection += 1;
        self.stats.requests += 1;
        let what = What::Request {
            method: request.method.clone(),
            path: request.path.clone(),
        };
        self.trace.add(self.now_ms, number, what);
        let opened = Connection::new(number, self.now_ms, request);
        self.connections.insert(connection, opened);
        let transit_ms = self.scenario.transit.request_ms.get();
        self.plan(self.now_ms + transit_ms, Action::Arrive(connection));
        self.advance(now_ms);
        connection
    }

    /// When something happens next by itself; `None` while nothing is under way.
    pub fn next_ms(&mut self) -> Option<f64> {
        loop {
            let Reverse(first) = self.planned.peek()?;
            if self.is_live(&first.action) {
                return Some(first.at_ms);
            }
            self.planned.pop();
        }
    }

    /// Lets happen all that is due until `now_ms`.
    pub fn advance(&mut self, now_ms: f64) {
        while let Some(at_ms) = self.next_ms()
            && at_ms <= now_ms
            && let Some(Reverse(first)) = self.planned.pop()
        {
            self.now_ms = self.now_ms.max(at_ms);
            self.happen(at_ms, first.action);
        }
        // A clock that jumps back, or is none, moves nothing.
        self.now_ms = self.now_ms.max(now_ms);
    }

    /// Status and headers, once they have arrived.
    #[must_use]
    pub fn head(&self, connection: u64) -> Option<&Head> {
        let connection = self.connections.get(&connection)?;
        connection.head_arrived.then_some(&connection.head)
    }

    /// Takes the next part of a body. A connection that is not known is at its end.
    pub fn take(&mut self, now_ms: f64, connection: u64) -> Taken {
        self.advance(now_ms);
        let Some(open) = self.connections.get_mut(&connection) else {
            return Taken::End;
        };
        let Some((bytes, tokens)) = open.outbox.pop_front() else {
            let Some(end) = open.end else {
                return Taken::Nothing;
            };
            self.connections.remove(&connection);
            self.changed.remove(&connection);
            return match end {
                End::Closed => Taken::End,
                End::Reset => Taken::Reset,
            };
        };
        open.queued_bytes = open.queued_bytes.saturating_sub(bytes.len() as u64);
        open.taken_tokens += tokens;
        open.last_take_ms = self.now_ms;
        if open.outbox.is_empty() {
            open.silence_epoch += 1;
        }
        let (number, job) = (open.number, open.job);
        self.stats.read_bytes += bytes.len() as u64;
        let what = What::Read { bytes: bytes.len() };
        self.trace.add(self.now_ms, number, what);
        if let Some(job) = job {
            self.go_on(job);
            self.advance(now_ms);
        }
        Taken::Bytes(bytes)
    }

    /// The reader left: its connection is forgotten, and what only it read is stopped.
    pub fn cancel(&mut self, now_ms: f64, connection: u64) {
        self.advance(now_ms);
        if let Some(open) = self.connections.remove(&connection) {
            self.changed.remove(&connection);
            self.trace.add(self.now_ms, open.number, What::Left);
            if let Some(job) = open.job {
                self.reader_gone(job, connection);
            }
        }
        self.advance(now_ms);
    }

    /// Connections for which something has arrived since the last call.
    pub fn changed(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.changed).into_iter().collect()
    }

    /// Replies that wait for a token from outside, as numbers for [`push`](Self::push).
    #[must_use]
    pub fn wanting(&self) -> Vec<u64> {
        let jobs = self.jobs.iter();
        jobs.filter(|(_, job)| job.phase == Phase::Awaiting && job.source.wants())
            .map(|(key, _)| *key)
            .collect()
    }

    /// Number of the reply that a connection reads from, if it is still being made.
    #[must_use]
    pub fn reply_of(&self, connection: u64) -> Option<u64> {
        self.connections.get(&connection)?.job
    }

    /// Whether a reply is still being made.
    #[must_use]
    pub fn is_active(&self, reply: u64) -> bool {
        self.is_writing(reply)
    }

    /// Hands in a token from outside. False where the reply wants none any more.
    pub fn push(&mut self, now_ms: f64, reply: u64, text: &str) -> bool {
        self.advance(now_ms);
        let Some(job) = self.jobs.get_mut(&reply) else {
            return false;
        };
        let wanted = job.source.push(text);
        self.fed(reply);
        self.advance(now_ms);
        wanted
    }

    /// No more tokens come from outside; with `failure`, because of it.
    pub fn end(&mut self, now_ms: f64, reply: u64, failure: Option<&str>) {
        self.advance(now_ms);
        if let Some(message) = failure {
            self.fail(reply, "source_failed", message);
        } else if let Some(job) = self.jobs.get_mut(&reply) {
            job.source.end();
            self.fed(reply);
        }
        self.advance(now_ms);
    }

    /// What happened, oldest first.
    pub fn trace(&self) -> impl Iterator<Item = &TraceEvent> {
        self.trace.events()
    }

    /// Counts, as they are now.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let (seats_used, seats, waiting, kv_bytes) = self.admission.usage();
        let open = self.connections.values();
        let ended = |job: &&Job| job.phase == Phase::Ended;
        let ended = self.jobs.values().filter(ended).count();
        Stats {
            queued_bytes: open.map(|connection| connection.queued_bytes).sum(),
            active: self.jobs.len() - ended,
            connections: self.connections.len(),
            kept: self.jobs.values().filter(|job| job.kept.is_some()).count(),
            seats_used,
            seats: (seats < usize::MAX).then_some(seats),
            waiting,
            kv_bytes,
            trace_dropped: self.trace.dropped(),
            ..self.stats
        }
    }

    fn plan(&mut self, at_ms: f64, action: Action) {
        self.plans += 1;
        self.planned.push(Reverse(Timed {
            at_ms,
            order: self.plans,
            action,
        }));
    }

    /// Whether an action still means something. What it was for may be gone.
    fn is_live(&self, action: &Action) -> bool {
        let job = |key: &u64| self.jobs.get(key);
        let open = |key: &u64| self.connections.get(key);
        match action {
            Action::Arrive(connection) | Action::Pass { connection, .. } => {
                open(connection).is_some()
            }
            Action::PrefillDone { job: key, turn } => {
                job(key).is_some_and(|job| job.phase == Phase::Prefill && job.turn == *turn)
            }
            Action::Token { job: key, turn } => {
                job(key).is_some_and(|job| job.phase == Phase::Decoding && job.turn == *turn)
            }
            Action::Window(key) => job(key).is_some_and(|job| job.phase != Phase::Ended),
            Action::Step(number) => self.step.is_running(*number),
            Action::Idle { connection, stage } => open(connection)
                .and_then(|open| open.stages.get(*stage))
                .is_some_and(|stage| stage.idle().is_some()),
            Action::KeepAlive(connection) => open(connection)
                .is_some_and(|open| open.job.is_some_and(|key| self.is_writing(key))),
            Action::Silence { connection, epoch } => open(connection)
                .is_some_and(|open| open.silence_epoch == *epoch && open.end.is_none()),
            Action::Grace { job: key, epoch } => {
                job(key).is_some_and(|job| job.readers_epoch == *epoch)
            }
            Action::Forget(key) => job(key).is_some(),
            // Alone it is no reason to wake up: requests look at capacity themselves.
            Action::Incident => self.admission.usage().2 > 0,
        }
    }

    fn is_writing(&self, key: u64) -> bool {
        let job = self.jobs.get(&key);
        job.is_some_and(|job| job.phase != Phase::Ended)
    }

    fn happen(&mut self, at_ms: f64, action: Action) {
        match action {
            Action::Arrive(connection) => self.arrive(connection),
            Action::PrefillDone { job, .. } => self.prefilled(job),
            Action::Token { job, .. } => self.token_due(job),
            Action::Step(_) => self.step_done(),
            Action::Window(key) => self.window_due(key),
            Action::Pass {
                connection,
                stage,
                item,
            } => self.pass(at_ms, connection, stage, item),
            Action::Idle { connection, stage } => self.check_idle(at_ms, connection, stage),
            Action::KeepAlive(connection) => self.keep_alive(connection),
            Action::Silence { connection, .. } => self.check_silence(connection),
            Action::Grace { job, .. } => self.stop(job, "nobody-came-back"),
            Action::Forget(key) => self.forget(key),
            Action::Incident => self.incident(),
        }
    }

    fn plan_incident(&mut self) {
        if let Some(at_ms) = self.admission.next_incident_ms() {
            self.plan(at_ms, Action::Incident);
        }
    }

    fn incident(&mut self) {
        self.admission.advance(self.now_ms);
        self.plan_incident();
        self.seat_waiting();
    }
}
