//! Who gets a seat, who waits, who is refused.
//!
//! A refusal costs nothing: it takes no seat, no place in the queue and no tokens of the
//! bucket. What is admitted is never refused later.

mod bucket;
mod pool;
mod shed;

use std::collections::BTreeMap;

use bucket::Bucket;
use pool::Pool;
use shed::Shed;

use super::random::{Lane, Purpose};
use super::scenario::{Capacity, Overload, Scenario, Tier};

/// What asks for a seat.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Ask {
    /// Unique.
    pub(super) key: u64,
    pub(super) tier: Tier,
    /// Tokens of prompt and answer at most.
    pub(super) tokens: f64,
    /// KV bytes of its prompt, while it waits.
    pub(super) prompt_bytes: u64,
    /// KV bytes to be reserved while it has a seat.
    pub(super) seat_bytes: u64,
}

/// What becomes of an [`Ask`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Verdict {
    /// It has a seat.
    Seated,
    /// It waits; [`Admission::seat_waiting`] tells when it has one.
    Waits,
    /// 429.
    Refused { why: Refusal, retry_after_ms: f64 },
}

/// Why a request was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The bucket is empty.
    Bucket,
    /// The free tier is shed.
    Shed,
    /// The queue is full.
    QueueFull,
}

impl Refusal {
    /// The code in the answer.
    pub(super) fn code(self) -> &'static str {
        match self {
            Self::Bucket => "rate_limit_exceeded",
            Self::Shed => "free_tier_shed",
            Self::QueueFull => "queue_full",
        }
    }
}

/// Who holds what.
#[derive(Clone, Copy, Debug)]
struct Seat {
    pool: usize,
    replica: usize,
    bytes: u64,
    ask: Ask,
}

/// Seats, queues, bucket and shedding of one server.
#[derive(Clone, Debug)]
pub(super) struct Admission {
    pools: Vec<Pool>,
    seated: BTreeMap<u64, Seat>,
    memory_bytes: u64,
    used_bytes: u64,
    waiting_limit: usize,
    waiting_limit_bytes: Option<u64>,
    waiting_bytes: u64,
    bucket: Option<(Bucket, Option<Tier>)>,
    shed: Option<Shed>,
    retry_after_ms: f64,
    /// Time and capacity, the next one last.
    incidents: Vec<(f64, f64)>,
    route: Lane,
    routed: u64,
}

impl Admission {
    /// The clock of the server begins at `start_ms`.
    pub(super) fn new(scenario: &Scenario, start_ms: f64) -> Self {
        let overload = scenario.overload.as_ref();
        let mut admission = Self {
            pools: vec![Pool::unnamed(seats(scenario.capacity.as_ref()))],
            seated: BTreeMap::new(),
            memory_bytes: memory(scenario.capacity.as_ref()),
            used_bytes: 0,
            waiting_limit: usize::MAX,
            waiting_limit_bytes: None,
            waiting_bytes: 0,
            bucket: None,
            shed: None,
            retry_after_ms: 0.0,
            incidents: Vec::new(),
            route: Lane::new(scenario.seed.get(), Purpose::Route, 0),
            routed: 0,
        };
        if let Some(overload) = overload {
            admission.apply(overload, start_ms);
        }
        admission
    }

    fn apply(&mut self, overload: &Overload, start_ms: f64) {
        self.pools = overload.pools.iter().map(Pool::new).collect();
        self.waiting_limit = overload.waiting.limit.len();
        let bytes = overload.waiting.memory_bytes;
        self.waiting_limit_bytes = bytes.map(super::scenario::Count::get);
        self.bucket = overload
            .bucket
            .as_ref()
            .map(|settings| (Bucket::new(settings), settings.tier));
        self.shed = overload.shed.as_ref().map(Shed::new);
        self.retry_after_ms = overload.retry_after_ms.get();
        let incidents = overload.incidents.iter();
        self.incidents = incidents
            .map(|incident| (start_ms + incident.at_ms.get(), incident.capacity.get()))
            .collect();
        self.incidents.sort_by(|a, b| b.0.total_cmp(&a.0));
    }

    /// When capacity changes next.
    pub(super) fn next_incident_ms(&self) -> Option<f64> {
        self.incidents.last().map(|(at_ms, _)| *at_ms)
    }

    /// Applies the changes of capacity that are due.
    pub(super) fn advance(&mut self, now_ms: f64) {
        while let Some((_, capacity)) = self.incidents.pop_if(|(at_ms, _)| *at_ms <= now_ms) {
            for pool in &mut self.pools {
                pool.set_capacity(capacity);
            }
            self.route_again();
        }
    }

    /// Those who wait at a replica that is gone go to one that works.
    fn route_again(&mut self) {
        for at in 0..self.pools.len() {
            for ask in self.pools[at].take_stranded() {
                let replica = self.replica(at);
                self.pools[at].wait(replica, ask);
            }
        }
    }

    /// Decides about `ask`.
    pub(super) fn ask(&mut self, now_ms: f64, ask: Ask) -> Verdict {
        self.advance(now_ms);
        for pool in &mut self.pools {
            pool.forget();
        }
        let seats = self.seats();
        #[expect(clippy::cast_precision_loss, reason = "seats are far below 2^53")]
        let seats = seats as f64;
        let refused = |why, retry_after_ms| Verdict::Refused {
            why,
            retry_after_ms,
        };
        if let Some(shed) = &mut self.shed
            && shed.refuses(now_ms, ask.tier, seats)
        {
            return refused(Refusal::Shed, self.retry_after_ms);
        }
        let place = self.place(&ask);
        if place.is_none() && !self.may_wait(&ask) {
            return refused(Refusal::QueueFull, self.retry_after_ms);
        }
        // Last, so that no refusal takes from it.
        if let Some((bucket, tier)) = &mut self.bucket
            && tier.is_none_or(|tier| tier == ask.tier)
            && let Err(wait_ms) = bucket.take(now_ms, ask.tokens)
        {
            return refused(Refusal::Bucket, wait_ms.max(self.retry_after_ms));
        }
        match place {
            Some((pool, replica)) => {
                self.seat(pool, replica, ask);
                Verdict::Seated
            }
            None => {
                let pool = self.shared();
                let replica = self.replica(pool);
                self.waiting_bytes = self.waiting_bytes.saturating_add(ask.prompt_bytes);
                self.pools[pool].wait(replica, ask);
                Verdict::Waits
            }
        }
    }

    /// Puts a reply that lost its seat before all others that wait.
    pub(super) fn wait_first(&mut self, ask: Ask) {
        let pool = self.shared();
        let replica = self.replica(pool);
        self.waiting_bytes = self.waiting_bytes.saturating_add(ask.prompt_bytes);
        self.pools[pool].wait_first(replica, ask);
    }

    /// Frees what `key` holds, a seat or a place in a queue. `used` are the tokens it came to.
    pub(super) fn leave(&mut self, now_ms: f64, key: u64, used: f64) {
        let ask = if let Some(seat) = self.seated.remove(&key) {
            self.pools[seat.pool].free(seat.replica);
            self.used_bytes = self.used_bytes.saturating_sub(seat.bytes);
            Some(seat.ask)
        } else {
            let found = self.pools.iter_mut().find_map(|pool| pool.remove(key));
            if let Some(ask) = &found {
                self.waiting_bytes = self.waiting_bytes.saturating_sub(ask.prompt_bytes);
            }
            found
        };
        if let (Some(ask), Some((bucket, tier))) = (ask, &mut self.bucket)
            && tier.is_none_or(|tier| tier == ask.tier)
        {
            bucket.reconcile(now_ms, ask.tokens, used);
        }
    }

    /// Takes the seat of `key` away without ending it; gives what it asked for.
    pub(super) fn evict(&mut self, key: u64) -> Option<Ask> {
        let seat = self.seated.remove(&key)?;
        self.pools[seat.pool].free(seat.replica);
        self.used_bytes = self.used_bytes.saturating_sub(seat.bytes);
        Some(seat.ask)
    }

    /// Seats the next one that waits, if there is a seat for it.
    pub(super) fn seat_waiting(&mut self) -> Option<u64> {
        for pool in 0..self.pools.len() {
            for replica in 0..self.pools[pool].replicas() {
                if !self.pools[pool].has_free(replica) {
                    continue;
                }
                let Some(ask) = self.next_for(pool, replica) else {
                    continue;
                };
                self.waiting_bytes = self.waiting_bytes.saturating_sub(ask.prompt_bytes);
                self.seat(pool, replica, ask);
                return Some(ask.key);
            }
        }
        None
    }

    /// Reserves more for one that has a seat; false where there is no memory.
    pub(super) fn grow(&mut self, key: u64, bytes: u64) -> bool {
        let Some(seat) = self.seated.get_mut(&key) else {
            return false;
        };
        let after = self.used_bytes.saturating_add(bytes);
        if after > self.memory_bytes {
            return false;
        }
        self.used_bytes = after;
        seat.bytes = seat.bytes.saturating_add(bytes);
        true
    }

    /// Seats in use and in all, the length of the queue, and KV bytes reserved.
    pub(super) fn usage(&self) -> (usize, usize, usize, u64) {
        (
            self.seated.len(),
            self.seats(),
            self.waiting(),
            self.used_bytes,
        )
    }

    /// Name of the pool in which `key` has its seat.
    pub(super) fn pool_of(&self, key: u64) -> &str {
        let seat = self.seated.get(&key);
        seat.map_or("", |seat| self.pools[seat.pool].name())
    }

    /// The one that waits and may have a seat now: of the replica's own queue, or, where the
    /// pool is provisioned for a tier, of that tier in the shared queues.
    fn next_for(&mut self, pool: usize, replica: usize) -> Option<Ask> {
        let room = self.memory_bytes.saturating_sub(self.used_bytes);
        if let Some(ask) = self.pools[pool].take(replica, None, room) {
            return Some(ask);
        }
        let tier = self.pools[pool].tier()?;
        (0..self.pools.len()).find_map(|other| {
            let mut replicas = 0..self.pools[other].replicas();
            replicas.find_map(|replica| {
                let queue = &mut self.pools[other];
                queue.take(replica, Some(tier), room)
            })
        })
    }

    /// A free seat for `ask`, in the first pool that has one. No one who waits is passed by.
    fn place(&mut self, ask: &Ask) -> Option<(usize, usize)> {
        let after = self.used_bytes.saturating_add(ask.seat_bytes);
        if after > self.memory_bytes {
            return None;
        }
        for pool in 0..self.pools.len() {
            if self.pools[pool].tier().is_some_and(|tier| tier != ask.tier) {
                continue;
            }
            let replica = self.replica(pool);
            if self.pools[pool].has_free(replica) && self.pools[pool].is_next(replica, ask.tier) {
                return Some((pool, replica));
            }
            // The draw counts for the queue too: one request is at one replica.
            self.pools[pool].remember(replica);
        }
        None
    }

    fn seat(&mut self, pool: usize, replica: usize, ask: Ask) {
        self.pools[pool].occupy(replica);
        self.used_bytes = self.used_bytes.saturating_add(ask.seat_bytes);
        let seat = Seat {
            pool,
            replica,
            bytes: ask.seat_bytes,
            ask,
        };
        self.seated.insert(ask.key, seat);
    }

    fn may_wait(&self, ask: &Ask) -> bool {
        let bytes = self.waiting_bytes.saturating_add(ask.prompt_bytes);
        self.waiting() < self.waiting_limit
            && self.waiting_limit_bytes.is_none_or(|limit| bytes <= limit)
    }

    fn seats(&self) -> usize {
        let seats = self.pools.iter().map(Pool::seats);
        seats.fold(0, usize::saturating_add)
    }

    fn waiting(&self) -> usize {
        self.pools.iter().map(Pool::waiting).sum()
    }

    /// The first pool that serves everyone: there is one, as scenarios are checked.
    fn shared(&self) -> usize {
        let mut pools = self.pools.iter();
        pools.position(|pool| pool.tier().is_none()).unwrap_or(0)
    }

    /// The replica that the next request goes to.
    fn replica(&mut self, pool: usize) -> usize {
        if let Some(replica) = self.pools[pool].forget() {
            return replica;
        }
        let working = self.pools[pool].working();
        if working <= 1 {
            return 0;
        }
        self.routed += 1;
        self.route.below(self.routed, working)
    }
}

fn seats(capacity: Option<&Capacity>) -> usize {
    let seats = capacity.and_then(|capacity| capacity.seats);
    seats.map_or(usize::MAX, super::scenario::Count::len)
}

fn memory(capacity: Option<&Capacity>) -> u64 {
    capacity.map_or(u64::MAX, |capacity| capacity.memory_bytes.get())
}

#[cfg(test)]
mod tests;
