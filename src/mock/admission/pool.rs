//! Seats of one kind and the queues before them.

use std::collections::VecDeque;

use super::Ask;
use crate::mock::scenario::{self, Tier};

#[derive(Clone, Debug, Default)]
struct Replica {
    seats: usize,
    used: usize,
    /// Those that lost a seat and come first.
    first: VecDeque<Ask>,
    paid: VecDeque<Ask>,
    free: VecDeque<Ask>,
}

impl Replica {
    fn queues(&mut self) -> [&mut VecDeque<Ask>; 3] {
        [&mut self.first, &mut self.paid, &mut self.free]
    }

    fn waiting(&self) -> usize {
        self.first.len() + self.paid.len() + self.free.len()
    }
}

/// Replicas that share a purpose.
#[derive(Clone, Debug)]
pub(super) struct Pool {
    name: String,
    tier: Option<Tier>,
    replicas: Vec<Replica>,
    /// Seats of a replica with nothing lost.
    full: usize,
    /// How many replicas work: the first ones.
    working: usize,
    /// Where the request that is looked at now was sent.
    drawn: Option<usize>,
}

/// Most replicas that a pool is made of.
const MAX_REPLICAS: usize = 4096;

impl Pool {
    pub(super) fn new(settings: &scenario::Pool) -> Self {
        let replicas = settings.replicas.len().clamp(1, MAX_REPLICAS);
        Self {
            name: settings.name.clone(),
            tier: settings.tier,
            ..Self::of(replicas, settings.seats.len())
        }
    }

    /// One replica for everyone.
    pub(super) fn unnamed(seats: usize) -> Self {
        Self::of(1, seats)
    }

    fn of(replicas: usize, seats: usize) -> Self {
        let replica = Replica {
            seats,
            ..Replica::default()
        };
        Self {
            name: "server".to_owned(),
            tier: None,
            replicas: vec![replica; replicas],
            full: seats,
            working: replicas,
            drawn: None,
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn tier(&self) -> Option<Tier> {
        self.tier
    }

    pub(super) fn replicas(&self) -> usize {
        self.replicas.len()
    }

    pub(super) fn working(&self) -> usize {
        self.working
    }

    /// Seats that work, used or not.
    pub(super) fn seats(&self) -> usize {
        let seats = self.replicas.iter().take(self.working).map(|r| r.seats);
        seats.fold(0, usize::saturating_add)
    }

    pub(super) fn waiting(&self) -> usize {
        self.replicas.iter().map(Replica::waiting).sum()
    }

    /// Leaves `share` of the replicas, or of the seats where there is one replica. Who has a
    /// seat keeps it to the end.
    pub(super) fn set_capacity(&mut self, share: f64) {
        let of = |whole: usize| {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                clippy::cast_precision_loss,
                reason = "a share of a count, saturating"
            )]
            let part = (whole as f64 * share).round() as usize;
            part
        };
        if let [only] = &mut *self.replicas {
            only.seats = of(self.full);
        } else {
            self.working = of(self.replicas.len());
            for (at, replica) in self.replicas.iter_mut().enumerate() {
                replica.seats = if at < self.working { self.full } else { 0 };
            }
        }
    }

    /// Those who wait at replicas that no longer work, unless none does.
    pub(super) fn take_stranded(&mut self) -> Vec<Ask> {
        if self.working == 0 {
            return Vec::new();
        }
        let gone = self.replicas.iter_mut().skip(self.working);
        gone.flat_map(|replica| replica.queues().map(std::mem::take))
            .flatten()
            .collect()
    }

    pub(super) fn has_free(&self, replica: usize) -> bool {
        let replica = &self.replicas[replica];
        replica.used < replica.seats
    }

    /// Whether a newcomer of `tier` would pass by no one.
    pub(super) fn is_next(&self, replica: usize, tier: Tier) -> bool {
        let replica = &self.replicas[replica];
        replica.first.is_empty()
            && replica.paid.is_empty()
            && (tier == Tier::Paid || replica.free.is_empty())
    }

    pub(super) fn occupy(&mut self, replica: usize) {
        self.replicas[replica].used += 1;
    }

    pub(super) fn free(&mut self, replica: usize) {
        let used = &mut self.replicas[replica].used;
        *used = used.saturating_sub(1);
    }

    pub(super) fn wait(&mut self, replica: usize, ask: Ask) {
        let replica = &mut self.replicas[replica];
        match ask.tier {
            Tier::Paid => replica.paid.push_back(ask),
            Tier::Free => replica.free.push_back(ask),
        }
    }

    pub(super) fn wait_first(&mut self, replica: usize, ask: Ask) {
        self.replicas[replica].first.push_front(ask);
    }

    /// The first in line, if it is of `tier` and fits into `room`: one that does not fit is
    /// not passed by, or it would wait for ever.
    pub(super) fn take(&mut self, replica: usize, tier: Option<Tier>, room: u64) -> Option<Ask> {
        let queues = self.replicas[replica].queues();
        let queue = queues.into_iter().find(|queue| {
            let first = queue.front();
            first.is_some_and(|ask| tier.is_none_or(|tier| tier == ask.tier))
        })?;
        queue.pop_front_if(|ask| ask.seat_bytes <= room)
    }

    pub(super) fn remove(&mut self, key: u64) -> Option<Ask> {
        self.replicas.iter_mut().find_map(|replica| {
            replica.queues().into_iter().find_map(|queue| {
                let at = queue.iter().position(|ask| ask.key == key)?;
                queue.remove(at)
            })
        })
    }

    pub(super) fn remember(&mut self, replica: usize) {
        self.drawn = Some(replica);
    }

    pub(super) fn forget(&mut self) -> Option<usize> {
        let drawn = self.drawn.take();
        drawn.filter(|drawn| *drawn < self.working.max(1))
    }
}
