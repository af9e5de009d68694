//! Threads that take part in the work of one caller, and the one module with `unsafe` code.
//!
//! Scoped threads of the standard library would need none, but start anew for each operation,
//! and in a browser not at all. What takes a closure to threads that are there already, before
//! it and after it, has to promise by itself that they are done with it in time.
//!
//! Members take part after part from a common count, so that one that the system has stopped, or
//! has yet to wake, is left behind with what it has begun: the caller waits for those alone that
//! are inside. Between two pieces of work a thread looks for the next one without sleeping, for
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

/// Takes parts until there are none left.
type Job<'a> = dyn Fn() + Sync + 'a;

/// The threads of a team, the caller among them; a handle, whose clones are the same crew.
#[derive(Clone)]
pub(crate) struct Crew(Arc<Shared>);

struct Shared {
    now_ms: NowMs,
    /// Held by the caller while there is work, and by who joins.
    turn: Mutex<()>,
    /// Members, the caller among them.
    size: AtomicUsize,
    gate: Gate,
    /// What there is to do. Written only by who holds `turn`, while the gate is closed and nobody
    /// is inside.
    job: UnsafeCell<Option<&'static Job<'static>>>,
    /// A helper has failed: what it worked on is not whole.
    failed: AtomicBool,
    /// Held to fall asleep and to wake others, so that nobody sleeps through a call.
    sleep: Mutex<()>,
    sleepers: AtomicUsize,
    caller_sleeps: AtomicBool,
    work_is_there: Condvar,
    work_is_done: Condvar,
}

// SAFETY: all fields but `job` are `Sync` by themselves. `job` is written by the holder of
// `turn` while the gate is closed and nobody is inside, and read by who has entered, before it
// leaves. What it holds is `Sync`.
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
            gate: Gate(AtomicUsize::new(0)),
            job: UnsafeCell::new(None),
            failed: AtomicBool::new(false),
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
        self.0.size.fetch_min(size.get(), SeqCst);
        self.0.wake_helpers();
    }

    /// Makes the calling thread a member, which has to call [`Helper::help`] then; `None` where
    /// there are too many.
    pub(crate) fn enlist(&self) -> Option<Helper> {
        let _turn = locked(&self.0.turn);
        let member = self.size();
        if member == MOST {
            return None;
        }
        self.0.size.store(member + 1, SeqCst);
        let crew = self.clone();
        Some(Helper { crew, member })
    }

    /// Takes a helper as gone whose thread was stopped, in its work for all that is known.
    #[cfg(any(feature = "threads", test))]
    pub(crate) fn abandon(&self) {
        self.0.failed.store(true, SeqCst);
        if self.0.gate.inside() > 0 {
            self.0.leave();
        }
    }

    /// Runs `work` on every part, on all members.
    pub(crate) fn run<P: Send>(&self, parts: &mut [P], work: &(impl Fn(&mut P) + Sync)) {
        self.run_on(self.size(), parts, work);
    }

    /// Runs `work` on every part, on the first `size` members; returns when all are done. Where
    /// this crew is at work already, or has failed, the caller does all.
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
        let size = size.min(self.size());
        if turn.is_none() || size < 2 || parts.len() < 2 || self.has_failed() {
            parts.iter_mut().for_each(work);
            return;
        }
        let next = AtomicUsize::new(0);
        let all = Parts(parts.as_mut_ptr(), parts.len());
        let take = || {
            while let Some(part) = all.at(next.fetch_add(1, SeqCst)) {
                // SAFETY: the pointer is to an element of a slice that this function holds for
                // itself, and the count gives each index once.
                work(unsafe { &mut *part });
            }
        };
        let job: &Job<'_> = &take;
        // SAFETY: the reference does not outlive `take`: `Closing` waits, however this function
        // is left, until nobody is inside, and takes it away.
        let job = unsafe { transmute::<&Job<'_>, &'static Job<'static>>(job) };
        // SAFETY: `turn` is held, and the last caller has closed the gate and waited.
        unsafe { *shared.job.get() = Some(job) };
        shared.gate.open(size);
        shared.wake_helpers();
        let closing = Closing(shared);
        take();
        drop(closing);
        drop(turn);
    }
}

impl std::fmt::Debug for Crew {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Crew").field("size", &self.size()).finish()
    }
}

/// A member that is not the caller, on the thread that made it.
#[derive(Debug)]
pub(crate) struct Helper {
    crew: Crew,
    member: usize,
}

impl Helper {
    /// Takes part in the work of the crew until this member has to leave.
    pub(crate) fn help(self) {
        let shared = &*self.crew.0;
        let mut last = None;
        while let Some(entered) = shared.next_work(self.member, last) {
            last = Some(entered);
            // SAFETY: this thread is inside: nobody writes to `job` before it has left.
            let job = unsafe { *shared.job.get() };
            if job.is_some_and(|job| catch_unwind(AssertUnwindSafe(job)).is_err()) {
                shared.failed.store(true, SeqCst);
            }
            shared.leave();
        }
    }
}

/// Who may work: in one word, so that it changes at once. From below: how many helpers are inside;
/// the number of the first member that may not enter, 0 where nobody may; how many pieces of work
/// there were.
struct Gate(AtomicUsize);

const LIMIT: usize = MOST + 1;
const COUNT: usize = LIMIT * LIMIT;

impl Gate {
    /// Lets helpers in to a new piece of work, that of the first `size` members.
    fn open(&self, size: usize) {
        let count = self.count().wrapping_add(1);
        let word = count.wrapping_mul(COUNT) | (size * LIMIT);
        self.0.store(word, SeqCst);
    }

    /// Lets nobody in any more.
    fn close(&self) {
        self.0.fetch_and(!((LIMIT - 1) * LIMIT), SeqCst);
    }

    fn inside(&self) -> usize {
        self.0.load(SeqCst) % LIMIT
    }

    fn count(&self) -> usize {
        self.0.load(SeqCst) / COUNT
    }

    /// Enters, where there is other work than the `last` that this member was in; which it is.
    fn enter(&self, member: usize, last: Option<usize>) -> Option<usize> {
        let may = |word: usize| member < word / LIMIT % LIMIT && last != Some(word / COUNT);
        let entered = self
            .0
            .try_update(SeqCst, SeqCst, |word| may(word).then(|| word + 1));
        entered.ok().map(|word| word / COUNT)
    }

    /// Leaves; whether this was the last one inside.
    fn leave(&self) -> bool {
        self.0.fetch_sub(1, SeqCst) % LIMIT == 1
    }
}

/// A slice that several threads take apart.
struct Parts<P>(*mut P, usize);

// SAFETY: threads take disjoint elements out of it, which may be sent.
unsafe impl<P: Send> Sync for Parts<P> {}

impl<P> Parts<P> {
    fn at(&self, index: usize) -> Option<*mut P> {
        (index < self.1).then(|| self.0.wrapping_add(index))
    }
}

/// The caller's end of a piece of work, even if it panics: when nobody is inside.
struct Closing<'a>(&'a Shared);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.0.gate.close();
        self.0.wait_for_helpers();
        // SAFETY: `turn` is held, the gate is closed, and nobody is inside.
        unsafe { *self.0.job.get() = None };
    }
}

impl Shared {
    fn wake_helpers(&self) {
        // Who falls asleep counts itself first and then looks for work once more.
        if self.sleepers.load(SeqCst) > 0 {
            drop(locked(&self.sleep));
            self.work_is_there.notify_all();
        }
    }

    /// Waits for other work than the `last`, and enters; `None` where this member has to leave.
    fn next_work(&self, member: usize, last: Option<usize>) -> Option<usize> {
        let mut entered = None;
        let mut is_over = || {
            entered = self.gate.enter(member, last);
            entered.is_some() || member >= self.size.load(SeqCst)
        };
        if !self.spin_until(&mut is_over) {
            let mut sleep = locked(&self.sleep);
            self.sleepers.fetch_add(1, SeqCst);
            while !is_over() {
                sleep = waited(self.work_is_there.wait(sleep));
            }
            self.sleepers.fetch_sub(1, SeqCst);
        }
        entered
    }

    fn leave(&self) {
        if self.gate.leave() && self.caller_sleeps.load(SeqCst) {
            drop(locked(&self.sleep));
            self.work_is_done.notify_all();
        }
    }

    /// Waits until nobody is inside.
    fn wait_for_helpers(&self) {
        let is_done = || self.gate.inside() == 0;
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
    fn spin_until(&self, mut is_so: impl FnMut() -> bool) -> bool {
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
