//! Who does the work of an operation: callers split their output into disjoint parts, and a
//! team runs one piece of work on each.

#[cfg_attr(
    all(target_arch = "wasm32", not(feature = "threads")),
    expect(dead_code, reason = "nobody can join there")
)]
mod crew;
#[cfg(any(feature = "threads", test))]
mod measure;

pub(crate) use crew::Crew;
#[cfg(feature = "threads")]
pub(crate) use crew::Helper;
#[cfg(not(target_arch = "wasm32"))]
use crew::NowMs;
#[cfg(feature = "threads")]
pub(crate) use measure::best_size;

use crate::backend::BackendError;

/// Parts of an operation for each thread.
const PARTS: usize = 4;

/// Threads that share an operation: the calling one, and those of its crew.
#[derive(Debug)]
pub(super) struct Team {
    crew: Option<Crew>,
    /// Threads that this team has started, and has to end.
    #[cfg(not(target_arch = "wasm32"))]
    own: Vec<std::thread::JoinHandle<()>>,
}

impl Team {
    /// The calling thread alone.
    pub(super) fn alone() -> Self {
        Self {
            crew: None,
            #[cfg(not(target_arch = "wasm32"))]
            own: Vec::new(),
        }
    }

    /// The calling thread and those that have joined the crew.
    #[cfg(feature = "threads")]
    pub(super) fn of(crew: Crew) -> Self {
        Self {
            crew: Some(crew),
            #[cfg(not(target_arch = "wasm32"))]
            own: Vec::new(),
        }
    }

    /// The calling thread and new ones, as many as the system gives, `size` in all.
    #[cfg(not(target_arch = "wasm32"))]
    pub(super) fn start(size: usize, now_ms: NowMs) -> Self {
        let crew = Crew::new(now_ms);
        let start = |_| {
            let (tell, joined) = std::sync::mpsc::channel();
            let crew = crew.clone();
            let thread = std::thread::Builder::new().spawn(move || {
                let helper = crew.enlist();
                // Who started it is waiting.
                let _ = tell.send(helper.is_some());
                if let Some(helper) = helper {
                    helper.help();
                }
            });
            thread.ok().filter(|_| joined.recv() == Ok(true))
        };
        let own = (1..size).map_while(start).collect();
        let crew = Some(crew);
        Self { crew, own }
    }

    /// The calling thread and those of the crew.
    pub(super) fn threads(&self) -> usize {
        self.crew.as_ref().map_or(1, Crew::size)
    }

    /// Parts that an operation is best split into: some for each thread, so that one that is held
    /// up is left behind.
    pub(super) fn size(&self) -> usize {
        match self.threads() {
            1 => 1,
            threads => PARTS * threads,
        }
    }

    /// Runs `work` on every part and returns when all are done. Parts are disjoint by their
    /// types, so that they may run at once. Of a part whose thread fails, [`Team::check`] tells.
    pub(super) fn run<P: Send>(&self, parts: &mut [P], work: impl Fn(&mut P) + Sync) {
        match &self.crew {
            Some(crew) => crew.run(parts, &work),
            None => parts.iter_mut().for_each(work),
        }
    }

    /// Runs `work` on every row of `x` and that of `out`, which have so many elements each.
    pub(super) fn run_rows<T: Send>(
        &self,
        (x, x_width): (&[f32], usize),
        (out, out_width): (&mut [T], usize),
        work: impl Fn(&[f32], &mut [T]) + Sync,
    ) {
        let rows = out.len() / out_width;
        let share = rows.div_ceil(self.size()).max(1);
        let parts = x.chunks(share * x_width);
        let mut parts: Vec<_> = parts.zip(out.chunks_mut(share * out_width)).collect();
        self.run(&mut parts, |(x, out)| {
            for (x, out) in x.chunks(x_width).zip(out.chunks_mut(out_width)) {
                work(x, out);
            }
        });
    }

    /// Whether all that was run was done.
    ///
    /// # Errors
    /// [`BackendError::Library`], for good, once a thread has failed in its part.
    pub(super) fn check(&self) -> Result<(), BackendError> {
        if self.crew.as_ref().is_some_and(Crew::has_failed) {
            return Err(BackendError::Library {
                library: "threads",
                why: "one of them stopped in the middle of its work".to_owned(),
            });
        }
        Ok(())
    }
}

#[cfg(not(target_arch = "wasm32"))]
impl Drop for Team {
    fn drop(&mut self) {
        if self.own.is_empty() {
            return;
        }
        if let Some(crew) = &self.crew {
            crew.shrink(std::num::NonZeroUsize::MIN);
        }
        for thread in self.own.drain(..) {
            // It catches what its work throws.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests;
