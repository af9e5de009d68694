//! Sampled tokens that wait to be read.

use super::{BackendError, Sampled, TokenSlot};

/// How many of the latest tokens stay readable: far more than a run-ahead takes.
pub(super) const KEPT: usize = 64;

/// A ring of sampled tokens; slots count up and never repeat.
#[derive(Debug)]
pub(super) struct Tokens {
    ring: [Option<Sampled>; KEPT],
    /// Slots given out.
    made: usize,
    /// Slots of submitted passes.
    ready: usize,
}

impl Tokens {
    pub(super) fn new() -> Self {
        Self {
            ring: std::array::from_fn(|_| None),
            made: 0,
            ready: 0,
        }
    }

    /// Keeps a token; none where a device has it and the host does not.
    pub(super) fn push(&mut self, sampled: Option<Sampled>) -> TokenSlot {
        let slot = TokenSlot(self.made);
        self.ring[self.made % KEPT] = sampled;
        self.made += 1;
        slot
    }

    /// Drops the tokens of a pass that was never submitted.
    pub(super) fn forget_unsubmitted(&mut self) {
        for slot in self.ready..self.made {
            self.ring[slot % KEPT] = None;
        }
        self.ready = self.made;
    }

    /// Makes all tokens so far readable.
    pub(super) fn submit(&mut self) {
        self.ready = self.made;
    }

    /// Whether a submitted pass sampled into the slot, not too long ago.
    pub(super) fn check(&self, op: &'static str, slot: TokenSlot) -> Result<(), BackendError> {
        if slot.0 < self.ready && self.made - slot.0 <= KEPT {
            return Ok(());
        }
        Err(BackendError::Usage {
            op,
            why: "no submitted pass sampled into this slot",
        })
    }

    /// A token of a submitted pass.
    pub(super) fn get(&self, op: &'static str, slot: TokenSlot) -> Result<Sampled, BackendError> {
        self.check(op, slot)?;
        let found = self.ring[slot.0 % KEPT].clone();
        found.ok_or(BackendError::Usage {
            op,
            why: "the token in this slot is not on the host",
        })
    }
}
