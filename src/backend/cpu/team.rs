//! Who does the work of an operation: callers split their output into disjoint parts, and a
//! team runs one piece of work on each.

/// Threads that share an operation. This one is the calling thread alone.
#[derive(Debug)]
pub(super) struct Team;

impl Team {
    /// Parts that an operation is best split into.
    #[expect(clippy::unused_self, reason = "a pool knows its size")]
    pub(super) fn size(&self) -> usize {
        1
    }

    /// Runs `work` on every part and returns when all are done. Parts are disjoint by their
    /// types, so that they may run at once.
    #[expect(
        clippy::unused_self,
        reason = "a pool has threads to hand the parts to"
    )]
    pub(super) fn run<P: Send>(&self, parts: &mut [P], work: impl Fn(&mut P) + Sync) {
        parts.iter_mut().for_each(work);
    }
}
