//! Replies that outlive their readers, and their server.

use serde::{Deserialize, Serialize};

use super::job::{Job, Phase};
use super::{Action, MockServer, Request};
use crate::mock::admission::Verdict;
use crate::mock::error::MockError;
use crate::mock::hop::Item;
use crate::mock::scenario::Tier;
use crate::mock::trace::What;

/// What it takes to make a reply again: as everything is seeded, the same request with the same
/// number at the same time has the same events.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Kept {
    /// Name in event ids.
    pub reply: String,
    /// Number of the reply.
    pub number: u64,
    /// When it came to the server, on that server's clock.
    pub arrived_ms: f64,
    /// Instance of the server that made it.
    pub instance: String,
    /// Who asked.
    pub tier: Tier,
    /// What was asked for.
    pub request: Request,
    /// Tokens of its prompt that the prefix cache had.
    #[serde(default)]
    pub cached_tokens: Option<u64>,
}

/// Longest name that a reader may give its reply.
const MAX_NAME: usize = 64;

impl MockServer {
    /// Continues a kept reply, if that is what `request` is for; false where it is not.
    pub(super) fn resume(&mut self, connection: u64, request: &Request) -> bool {
        if self.scenario.resume.is_none() {
            return false;
        }
        let path = &request.path;
        let is_stream = path.ends_with("/lab/stream") || path.ends_with("/chat/completions");
        if !is_stream {
            return false;
        }
        let header = request.header("last-event-id").filter(|id| !id.is_empty());
        let last = header.or_else(|| request.query("lastEventId"));
        if let Some(last) = last {
            let Some((reply, from)) = event_id(last) else {
                self.no_such_reply(connection);
                return true;
            };
            self.rejoin(connection, reply, from);
            return true;
        }
        // A name alone: the reply from its start, if it is there; otherwise it is new.
        match request.query("reply") {
            Some(name) if self.reply_named(name).is_some() => {
                self.rejoin(connection, name, 0);
                true
            }
            _ => false,
        }
    }

    fn rejoin(&mut self, connection: u64, reply: &str, from: u64) {
        let Some(key) = self.reply_named(reply) else {
            self.no_such_reply(connection);
            return;
        };
        let Some(job) = self.jobs.get(&key) else {
            return;
        };
        let seen = usize::try_from(from).unwrap_or(usize::MAX);
        let missed: Vec<_> = job.kept.iter().flatten().skip(seen).cloned().collect();
        let is_ended = job.phase == Phase::Ended;
        self.trace.add(self.now_ms, key, What::Joined { from });
        if is_ended && missed.is_empty() {
            self.nothing_left(connection);
            return;
        }
        self.join(connection, key, false);
        for (bytes, tokens) in missed {
            self.stats.sent += tokens;
            self.send(connection, Item::Bytes { bytes, tokens });
        }
        if is_ended {
            self.send(connection, Item::End);
        }
    }

    fn reply_named(&self, name: &str) -> Option<u64> {
        let mut jobs = self.jobs.iter();
        jobs.find(|(_, job)| job.kept.is_some() && job.reply == name)
            .map(|(key, _)| *key)
    }

    /// The name of a reply: what the reader wishes, if that is a plain word that is free.
    pub(super) fn reply_name(&self, request: &Request, number: u64) -> String {
        let is_plain = |name: &&str| {
            let is_word = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
            (1..=MAX_NAME).contains(&name.len()) && name.chars().all(is_word)
        };
        let wish = request.query("reply").filter(is_plain);
        let free = wish.filter(|name| self.reply_named(name).is_none());
        free.map_or_else(|| format!("{}{number}", self.instance), str::to_owned)
    }

    /// Records of all kept replies, for a store that outlives the server. Tokens from outside
    /// cannot be made again, so such replies have none.
    #[must_use]
    pub fn kept(&self) -> Vec<Kept> {
        if matches!(self.scenario.text, crate::mock::scenario::Text::External {}) {
            return Vec::new();
        }
        let jobs = self.jobs.values();
        jobs.filter_map(|job| {
            Some(Kept {
                reply: job.reply.clone(),
                number: job.number,
                arrived_ms: job.arrived_ms,
                instance: self.instance.clone(),
                tier: job.tier,
                request: job.origin.clone()?,
                cached_tokens: job.cached_tokens,
            })
        })
        .collect()
    }

    /// Makes a kept reply of an earlier server again, up to now, as if it had gone on.
    /// `arrived_ms` is when it came in, on this server's clock: below 0 where that was before
    /// the clock began. Somebody has the grace time, from now, to come back.
    ///
    /// # Errors
    /// [`MockError::Restore`] where the request starts no reply, the name is taken, or there is
    /// no seat.
    pub fn restore(&mut self, now_ms: f64, kept: Kept) -> Result<(), MockError> {
        self.advance(now_ms);
        let refuse = |why: &str| {
            Err(MockError::Restore {
                why: why.to_owned(),
            })
        };
        let Some(resume) = self.scenario.resume else {
            return refuse("the scenario keeps no replies");
        };
        if !kept.arrived_ms.is_finite() || kept.arrived_ms > now_ms {
            return refuse("it came in at no time before now");
        }
        if self.reply_named(&kept.reply).is_some() {
            return Ok(());
        }
        let (key, arrived_ms) = (kept.number, kept.arrived_ms);
        if self.jobs.contains_key(&key) {
            return refuse("another reply has its number");
        }
        let Some(job) = self.as_it_was(kept) else {
            return refuse("its request starts no reply that is kept");
        };
        self.next_number = self.next_number.max(key.saturating_add(1));
        let ask = self.ask(&job);
        let verdict = self.admission.ask(self.now_ms, ask);
        if verdict != Verdict::Seated {
            self.admission.leave(self.now_ms, key, 0.0);
            return refuse("there is no seat");
        }
        self.jobs.insert(key, job);
        self.replay(key, arrived_ms);
        let Some(job) = self.jobs.get_mut(&key) else {
            return refuse("its time is over");
        };
        job.readers_epoch += 1;
        let epoch = job.readers_epoch;
        let at_ms = self.now_ms + resume.grace_ms.get();
        self.plan(at_ms, Action::Grace { job: key, epoch });
        Ok(())
    }

    /// The generator as it was when its request came in, to the byte.
    fn as_it_was(&mut self, kept: Kept) -> Option<Job> {
        let now_ms = std::mem::replace(&mut self.now_ms, kept.arrived_ms);
        let instance = std::mem::replace(&mut self.instance, kept.instance);
        let wanted = self.wanted(&kept.request, kept.number);
        let job = wanted.map(|wanted| self.job(kept.number, kept.request, wanted, kept.tier));
        self.now_ms = now_ms;
        self.instance = instance;
        let job = job.map(|job| Job {
            cached_tokens: kept.cached_tokens,
            ..job
        });
        let job = job.filter(|job| job.kept.is_some());
        // The name that it has now: the one it wished for may have been taken then.
        job.filter(|job| job.reply == kept.reply)
    }

    /// Lets a reply happen from `arrived_ms` to now.
    fn replay(&mut self, key: u64, arrived_ms: f64) {
        let now_ms = self.now_ms;
        self.now_ms = arrived_ms;
        if let Some(job) = self.jobs.get_mut(&key) {
            job.arrived_ms = arrived_ms;
        }
        if self.scenario.faults.role_chunk == crate::mock::scenario::RoleChunk::AtOnce
            && let Some(job) = self.jobs.get_mut(&key)
        {
            job.begun = true;
            job.body.begin();
            self.flush(key, 0);
        }
        self.seated(key);
        self.advance(now_ms);
    }
}

/// `REPLY:NUMBER` to the name and the first event after it.
fn event_id(id: &str) -> Option<(&str, u64)> {
    let (reply, number) = id.rsplit_once(':')?;
    let number: u64 = number.parse().ok()?;
    Some((reply, number.checked_add(1)?))
}
