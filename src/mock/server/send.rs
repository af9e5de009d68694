//! Bytes from a generator to its readers.

use super::connection::End;
use super::job::Phase;
use super::{Action, MockServer};
use crate::mock::hop::Item;
use crate::mock::scenario::Omission;
use crate::mock::trace::What;
use crate::mock::wire;

impl MockServer {
    /// Writes what the body has, one event a write; `tokens` end with it.
    pub(super) fn flush(&mut self, key: u64, tokens: u64) {
        let Some(job) = self.jobs.get_mut(&key) else {
            return;
        };
        let bytes = job.body.take();
        job.unwritten += tokens;
        if bytes.is_empty() || !job.body.streams() {
            return;
        }
        let tokens = std::mem::take(&mut job.unwritten);
        self.write_events(key, &bytes, tokens);
    }

    /// As [`flush`](Self::flush), for the last part of a body.
    pub(super) fn flush_end(&mut self, key: u64, omit: Option<Omission>) {
        let Some(job) = self.jobs.get_mut(&key) else {
            return;
        };
        let mut bytes = job.body.take();
        if omit == Some(Omission::Marker) {
            let marker = b"data: [DONE]\n\n";
            let length = bytes.strip_suffix(marker).map(<[u8]>::len);
            bytes.truncate(length.unwrap_or(bytes.len()));
        }
        let tokens = std::mem::take(&mut job.unwritten);
        if !bytes.is_empty() {
            self.write_events(key, &bytes, tokens);
        }
    }

    fn write_events(&mut self, key: u64, bytes: &[u8], tokens: u64) {
        let has_events = self.jobs.get(&key).is_some_and(|job| job.body.has_events());
        if !has_events {
            self.write(key, bytes.to_vec(), tokens);
            return;
        }
        // The tokens end with the first event that is not the role's: with the last one of a
        // group, as the role comes before it.
        let events = wire::events(bytes);
        let last = events.len().saturating_sub(1);
        for (at, event) in events.into_iter().enumerate() {
            self.write(key, event, if at == last { tokens } else { 0 });
        }
    }

    /// One write to all readers of a reply; kept, if the reply is.
    pub(super) fn write(&mut self, key: u64, mut bytes: Vec<u8>, tokens: u64) {
        let Some(job) = self.jobs.get_mut(&key) else {
            return;
        };
        if let Some(kept) = &mut job.kept {
            let id = format!("id: {}:{}\n", job.reply, kept.len());
            bytes.splice(0..0, id.into_bytes());
            kept.push((bytes.clone(), tokens));
        }
        let what = What::Wrote {
            bytes: bytes.len(),
            tokens,
        };
        self.trace.add(self.now_ms, key, what);
        for connection in job.readers.clone() {
            self.stats.sent += tokens;
            let bytes = bytes.clone();
            self.send(connection, Item::Bytes { bytes, tokens });
        }
    }

    /// Puts an item on the way to a reader.
    pub(super) fn send(&mut self, connection: u64, item: Item) {
        let Some(open) = self.connections.get_mut(&connection) else {
            return;
        };
        open.last_write_ms = self.now_ms;
        if matches!(item, Item::End | Item::Reset) {
            // The server is done with it; what is on the way still arrives.
            open.job = None;
        }
        let stage = 0;
        let pass = Action::Pass {
            connection,
            stage,
            item,
        };
        self.plan(self.now_ms, pass);
    }

    /// An item comes to a stage, or, behind the last one, to the reader.
    pub(super) fn pass(&mut self, at_ms: f64, connection: u64, stage: usize, item: Item) {
        let Some(open) = self.connections.get_mut(&connection) else {
            return;
        };
        let Some(place) = open.stages.get_mut(stage) else {
            self.arrived(connection, item);
            return;
        };
        let was_closed = place.is_closed();
        let mut out = Vec::new();
        place.accept(at_ms, item, &mut out);
        let is_cut = place.is_closed() && !was_closed;
        self.pass_on(connection, stage, out);
        if is_cut {
            self.broke(connection, "cut");
        } else if let Some(job) = self.connections.get(&connection).and_then(|open| open.job) {
            // What a hop took counts as read.
            self.go_on(job);
        }
    }

    fn pass_on(&mut self, connection: u64, stage: usize, out: Vec<(f64, Item)>) {
        for (at_ms, item) in out {
            let pass = Action::Pass {
                connection,
                stage: stage + 1,
                item,
            };
            self.plan(at_ms, pass);
        }
    }

    fn arrived(&mut self, connection: u64, item: Item) {
        let limits = self.scenario.slow_client;
        let Some(open) = self.connections.get_mut(&connection) else {
            return;
        };
        if open.end.is_some() {
            // It was given up while this was on its way.
            return;
        }
        self.changed.insert(connection);
        match item {
            Item::Head => open.head_arrived = true,
            Item::End => open.end = Some(End::Closed),
            Item::Reset => open.end = Some(End::Reset),
            Item::Bytes { bytes, tokens } => {
                let what = What::Arrived { bytes: bytes.len() };
                self.trace.add(self.now_ms, open.number, what);
                if open.outbox.is_empty() {
                    open.last_take_ms = self.now_ms;
                    let epoch = open.silence_epoch;
                    let silence = Action::Silence { connection, epoch };
                    let at_ms = self.now_ms + limits.silence_ms.get();
                    open.queued_bytes += bytes.len() as u64;
                    open.outbox.push_back((bytes, tokens));
                    self.plan(at_ms, silence);
                } else {
                    open.queued_bytes += bytes.len() as u64;
                    open.outbox.push_back((bytes, tokens));
                }
                let queued = self
                    .connections
                    .get(&connection)
                    .map(|open| open.queued_bytes);
                if queued.is_some_and(|queued| queued > limits.queued_bytes.get()) {
                    self.too_slow(connection, "More bytes wait than are kept for a reader.");
                }
            }
        }
    }

    /// Something waits to be read: for too long?
    pub(super) fn check_silence(&mut self, connection: u64) {
        let limit_ms = self.scenario.slow_client.silence_ms.get();
        let Some(open) = self.connections.get(&connection) else {
            return;
        };
        let end_ms = open.last_take_ms + limit_ms;
        if self.now_ms < end_ms {
            let epoch = open.silence_epoch;
            self.plan(end_ms, Action::Silence { connection, epoch });
        } else {
            self.too_slow(connection, "Nothing was read for too long.");
        }
    }

    /// Ends a connection whose reader is too slow: with an error event where it has events.
    fn too_slow(&mut self, connection: u64, message: &str) {
        let Some(open) = self.connections.get_mut(&connection) else {
            return;
        };
        if open.end.is_some() {
            // All of it is there, and nobody is waiting: it may be read as slowly as one likes.
            return;
        }
        if open.has_events {
            let event = wire::error_event("slow_client", message);
            open.queued_bytes += event.len() as u64;
            open.outbox.push_back((event, 0));
            open.end = Some(End::Closed);
        } else {
            open.end = Some(End::Reset);
        }
        // Nothing more comes in.
        open.stages = vec![crate::mock::hop::Stage::closed()];
        self.changed.insert(connection);
        self.lose(connection, "slow-client");
    }

    /// A hop ended the connection: for the server the reader has left.
    fn broke(&mut self, connection: u64, kind: &'static str) {
        let Some(open) = self.connections.get(&connection) else {
            return;
        };
        self.trace
            .add(self.now_ms, open.number, What::Fault { kind });
        self.lose(connection, "connection-lost");
    }

    fn lose(&mut self, connection: u64, why: &'static str) {
        let Some(open) = self.connections.get_mut(&connection) else {
            return;
        };
        if let Some(job) = open.job.take() {
            self.reader_lost(job, connection, why);
        }
    }

    /// The reader of a reply left by itself.
    pub(super) fn reader_gone(&mut self, key: u64, connection: u64) {
        self.reader_lost(key, connection, "reader-left");
    }

    /// A reply has one reader less. Without any it is stopped, unless somebody may come back.
    fn reader_lost(&mut self, key: u64, connection: u64, why: &'static str) {
        let Some(job) = self.jobs.get_mut(&key) else {
            return;
        };
        job.readers.retain(|reader| *reader != connection);
        if !job.readers.is_empty() || job.phase == Phase::Ended {
            return;
        }
        match self.scenario.resume {
            Some(resume) if job.kept.is_some() => {
                job.readers_epoch += 1;
                let epoch = job.readers_epoch;
                let at_ms = self.now_ms + resume.grace_ms.get();
                self.plan(at_ms, Action::Grace { job: key, epoch });
            }
            _ => self.stop(key, why),
        }
    }

    pub(super) fn check_idle(&mut self, at_ms: f64, connection: u64, stage: usize) {
        let Some(open) = self.connections.get_mut(&connection) else {
            return;
        };
        let Some(place) = open.stages.get_mut(stage) else {
            return;
        };
        let Some((since_ms, limit_ms)) = place.idle() else {
            return;
        };
        if at_ms < since_ms + limit_ms {
            self.plan(since_ms + limit_ms, Action::Idle { connection, stage });
            return;
        }
        let mut out = Vec::new();
        place.close_idle(at_ms, &mut out);
        self.pass_on(connection, stage, out);
        self.broke(connection, "idle");
    }

    pub(super) fn keep_alive(&mut self, connection: u64) {
        let (Some(open), Some(ms)) = (
            self.connections.get(&connection),
            self.scenario.keep_alive_ms,
        ) else {
            return;
        };
        let due_ms = open.last_write_ms + ms.get().max(1.0);
        if self.now_ms < due_ms {
            self.plan(due_ms, Action::KeepAlive(connection));
            return;
        }
        self.trace.add(self.now_ms, open.number, What::KeptAlive);
        let bytes = b": keep-alive\n\n".to_vec();
        self.send(connection, Item::Bytes { bytes, tokens: 0 });
        self.plan(
            self.now_ms + ms.get().max(1.0),
            Action::KeepAlive(connection),
        );
    }
}
