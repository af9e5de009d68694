//! Threads that take part in the work of one caller, and the one module with `unsafe` code.
//!
//! Scoped threads of the standard library would need none, but start anew for each operation,
//! and in a browser not at all. What takes a closure to threads that are there already, before
//! it and after it, has to promise by itself that they are done with it in time.
//!
//! Between two pieces of work a thread looks for the next one without sleeping, for
//! [`SPIN_MS`] at most: operations of a pass follow one another sooner than an operating system
//! wakes anybody. Then it sleeps until there is work.
#![expect(
    unsafe_code,
    reason = "a closure on the caller's stack is lent to threads that outlive it"
)]

use std::cell::UnsafeCell;
use std::hint::spin_loop;
use std::mem::transmute;
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};

/// Longest time without sleep, milliseconds.
const SPIN_MS: f64 = 0.05;

/// Looks between two looks at the clock, and in all, for clocks that hardly move.
const LOOKS: usize = 64;
const MOST_LOOKS: usize = 1 << 16;

/// Most members.
const MOST: usize = 255;

/// Milliseconds, on any thread. Only differences count.
pub(crate) type NowMs = fn() -> f64;

/// What a member of the crew does, by its number.
type Job<'a> = dyn Fn(usize) + Sync + 'a;

/// The threads of a team, the caller among them; a handle, whose clones are the same crew.
#[derive(Clone)]
pub(crate) struct Crew(Arc<Shared>);

struct Shared {
    now_ms: NowMs,
    /// Held by the caller while there is work, and by who changes the crew.
    turn: Mutex<()>,
    /// Members, the caller among them.
    size: AtomicUsize,
    /// How many orders there were, times 256, and how many members the last one is for: it is
    /// read at once, so that who is not meant never takes one order for the next.
    order: AtomicUsize,
    /// What the last order is. Written only by who holds `turn`, while `busy` is 0.
    job: UnsafeCell<Option<&'static Job<'static>>>,
    /// Helpers that have yet to finish it.
    busy: AtomicUsize,
    /// A helper has failed: what it worked on is not whole.
    failed: AtomicBool,
    /// A helper is gone for good.
    lost: AtomicBool,
    /// Held to fall asleep and to wake others, so that nobody sleeps through a call.
    sleep: Mutex<()>,
    sleepers: AtomicUsize,
    caller_sleeps: AtomicBool,
    work_is_there: Condvar,
    work_is_done: Condvar,
}

// SAFETY: all fields but `job` are `Sync` by themselves. `job` is written by the holder of
// `turn` while no helper works (`busy` is 0), before the order is given; the helpers that it is
// for read it after they have seen the order, and before they lower `busy`. What it holds is
// `Sync`.
unsafe impl Sync for Shared {}
// SAFETY: as above; a reference to what is `Sync` may go to another thread.
unsafe impl Send for Shared {}

impl Crew {
    /// A crew of its caller alone, whom others may join.
    pub(crate) fn new(now_ms: NowMs) -> Self {
        Self(Arc::new(Shared {
            now_ms,
            turn: Mutex::new(()),
            size: AtomicUsize::new(1),
            order: AtomicUsize::new(0),
            job: UnsafeCell::new(None),
            busy: AtomicUsize::new(0),
            failed: AtomicBool::new(false),
            lost: AtomicBool::new(false),
            sleep: Mutex::new(()),
            sleepers: AtomicUsize::new(0),
            caller_sleeps: AtomicBool::new(false),
            work_is_there: Condvar::new(),
            work_is_done: Condvar::new(),
        }))
    }

    /// Members, the caller among them.
    pub(crate) fn size(&self) -> usize {
        self.0.size.load(SeqCst)
    }

    /// Whether a helper has failed, so that results cannot be trusted any more.
    pub(crate) fn has_failed(&self) -> bool {
        self.0.failed.load(SeqCst)
    }

    /// Lets members go until `size` are left, the caller among them.
    pub(crate) fn shrink(&self, size: NonZeroUsize) {
        let shared = &*self.0;
        let _turn = locked(&shared.turn);
        let all = self.size();
        if size.get() < all && !shared.lost.load(SeqCst) {
            shared.size.store(size.get(), SeqCst);
            shared.give_order(all);
            shared.wait_for_all();
        }
    }

    /// Makes the calling thread a member, which has to call [`Helper::help`] then; `None` where
    /// there are too many.
    pub(crate) fn enlist(&self) -> Option<Helper> {
        let shared = &*self.0;
        let _turn = locked(&shared.turn);
        let member = self.size();
        if member == MOST {
            return None;
        }
        shared.size.store(member + 1, SeqCst);
        Some(Helper {
            crew: self.clone(),
            member,
            seen: shared.order.load(SeqCst),
        })
    }

    /// What a helper would have done at the end of its work, for a thread that was stopped in it.
    #[cfg(any(feature = "threads", test))]
    pub(crate) fn abandon(&self) {
        let shared = &*self.0;
        shared.lost.store(true, SeqCst);
        shared.failed.store(true, SeqCst);
        // Between two pieces of work there is none that anybody waits for.
        if shared.busy.load(SeqCst) > 0 {
            shared.finish_one();
        }
    }

    /// Runs `work` on every part, on all members.
    pub(crate) fn run<P: Send>(&self, parts: &mut [P], work: &(impl Fn(&mut P) + Sync)) {
        self.run_on(self.size(), parts, work);
    }

    /// Runs `work` on every part, member `m` of the first `size` taking the parts `m`,
    /// `m + size`, …; returns when all are done. Where this crew is at work already, or has
    /// failed, the caller does all.
    pub(crate) fn run_on<P: Send>(
        &self,
        size: usize,
        parts: &mut [P],
        work: &(impl Fn(&mut P) + Sync),
    ) {
        let shared = &*self.0;
        let turn = match shared.turn.try_lock() {
            Ok(turn) => Some(turn),
            Err(TryLockError::Poisoned(turn)) => Some(turn.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        };
        let size = size.min(self.size()).min(parts.len());
        if turn.is_none() || size < 2 || self.has_failed() {
            parts.iter_mut().for_each(work);
            return;
        }
        let all = Parts(parts.as_mut_ptr(), parts.len());
        let share = |member: usize| {
            for at in (member..all.len()).step_by(size) {
                // SAFETY: `at` is below the length of a slice that this function holds for
                // itself, and no two members have the same remainder by `size`.
                work(unsafe { &mut *all.at(at) });
            }
        };
        let job: &Job<'_> = &share;
        // SAFETY: the reference does not outlive `share`: `AllDone` waits, however this function
        // is left, until no helper works on it, and takes it away; only helpers of this order
        // read it.
        let job = unsafe { transmute::<&Job<'_>, &'static Job<'static>>(job) };
        // SAFETY: `turn` is held and no helper works, or the last caller would still wait.
        unsafe { *shared.job.get() = Some(job) };
        shared.give_order(size);
        let all_done = AllDone(shared);
        share(0);
        drop(all_done);
        drop(turn);
    }
}

/// A member that is not the caller, on the thread that made it.
#[derive(Debug)]
pub(crate) struct Helper {
    crew: Crew,
    member: usize,
    seen: usize,
}

impl Helper {
    /// Takes part in the work of the crew until this member has to leave.
    pub(crate) fn help(mut self) {
        let shared = &*self.crew.0;
        loop {
            self.seen = shared.next_order(self.seen);
            if self.member >= self.seen % (MOST + 1) {
                continue;
            }
            // SAFETY: this thread is one of those that the order is for, which `busy` counts:
            // nobody writes to `job` before it has finished.
            let job = unsafe { *shared.job.get() };
            // An order without work is for all, and some have to leave.
            let leaves = self.member >= shared.size.load(SeqCst);
            let member = self.member;
            if job.is_some_and(|job| catch_unwind(AssertUnwindSafe(|| job(member))).is_err()) {
                shared.failed.store(true, SeqCst);
            }
            shared.finish_one();
            if leaves {
                return;
            }
        }
    }
}

impl std::fmt::Debug for Crew {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Crew").field("size", &self.size()).finish()
    }
}

/// A slice that several threads take apart.
struct Parts<P>(*mut P, usize);

// SAFETY: threads take disjoint elements out of it, which may be sent.
unsafe impl<P: Send> Sync for Parts<P> {}

impl<P> Parts<P> {
    fn len(&self) -> usize {
        self.1
    }

    /// An element. The index is below the length.
    fn at(&self, index: usize) -> *mut P {
        self.0.wrapping_add(index)
    }
}

/// The caller's end of a piece of work, even if it panics: when all helpers are done.
struct AllDone<'a>(&'a Shared);

impl Drop for AllDone<'_> {
    fn drop(&mut self) {
        self.0.wait_for_all();
        // SAFETY: `turn` is held, and `busy` is 0.
        unsafe { *self.0.job.get() = None };
    }
}

impl Shared {
    /// Gives an order to the first `members`, the caller among them.
    fn give_order(&self, members: usize) {
        self.busy.store(members - 1, SeqCst);
        let count = self.order.load(SeqCst) / (MOST + 1);
        let order = count.wrapping_add(1).wrapping_mul(MOST + 1) | members;
        self.order.store(order, SeqCst);
        // Who falls asleep counts itself first and then looks at `order` once more.
        if self.sleepers.load(SeqCst) > 0 {
            drop(locked(&self.sleep));
            self.work_is_there.notify_all();
        }
    }

    /// Waits for another order than `seen`, and gives it.
    fn next_order(&self, seen: usize) -> usize {
        let is_new = || self.order.load(SeqCst) != seen;
        if !self.spin_until(is_new) {
            let mut sleep = locked(&self.sleep);
            self.sleepers.fetch_add(1, SeqCst);
            while !is_new() {
                sleep = waited(self.work_is_there.wait(sleep));
            }
            self.sleepers.fetch_sub(1, SeqCst);
        }
        self.order.load(SeqCst)
    }

    fn finish_one(&self) {
        if self.busy.fetch_sub(1, SeqCst) == 1 && self.caller_sleeps.load(SeqCst) {
            drop(locked(&self.sleep));
            self.work_is_done.notify_all();
        }
    }

    fn wait_for_all(&self) {
        let is_done = || self.busy.load(SeqCst) == 0;
        if !self.spin_until(is_done) {
            let mut sleep = locked(&self.sleep);
            self.caller_sleeps.store(true, SeqCst);
            while !is_done() {
                sleep = waited(self.work_is_done.wait(sleep));
            }
            self.caller_sleeps.store(false, SeqCst);
        }
    }

    /// Looks for at most [`SPIN_MS`]; whether it came true.
    fn spin_until(&self, is_so: impl Fn() -> bool) -> bool {
        let mut began = None;
        for look in 1..=MOST_LOOKS {
            if is_so() {
                return true;
            }
            spin_loop();
            if look % LOOKS == 0 {
                let now = (self.now_ms)();
                if now - *began.get_or_insert(now) >= SPIN_MS {
                    break;
                }
            }
        }
        is_so()
    }
}

/// A lock whose holders do nothing that could leave it halfway.
fn locked(mutex: &Mutex<()>) -> MutexGuard<'_, ()> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn waited<'a>(
    outcome: Result<MutexGuard<'a, ()>, PoisonError<MutexGuard<'a, ()>>>,
) -> MutexGuard<'a, ()> {
    outcome.unwrap_or_else(PoisonError::into_inner)
}
