//! Threads of a browser: workers that share this module's memory and join its crew.
//!
//! The worker that runs the engine starts them, each with an instance of its own, waits until all
//! have enlisted, and settles how many stay. They end with it.

use std::num::NonZeroUsize;
use std::sync::OnceLock;

use wasm_bindgen::JsValue;
use wasm_bindgen::prelude::wasm_bindgen;

use super::performance_now;
use crate::backend::cpu::{self, Crew};

/// One for all models: they compute in turn.
static CREW: OnceLock<Crew> = OnceLock::new();

/// The crew of this memory.
pub(super) fn crew() -> &'static Crew {
    CREW.get_or_init(|| Crew::new(performance_now))
}

/// The memory that workers have to share.
#[wasm_bindgen(js_name = sharedMemory)]
#[must_use]
pub fn shared_memory() -> JsValue {
    wasm_bindgen::memory()
}

/// A member of the crew, on the thread of a worker.
#[wasm_bindgen]
#[derive(Debug)]
pub struct Helper(cpu::Helper);

#[wasm_bindgen]
impl Helper {
    /// Makes this worker a member; `undefined` where there are too many. It has to help then.
    #[must_use]
    pub fn enlist() -> Option<Self> {
        crew().enlist().map(Self)
    }

    /// Works, and sleeps between, until this worker is not needed any more.
    pub fn help(self) {
        self.0.help();
    }
}

/// Tells the others that a helper was stopped in the middle of its work, so that nobody waits for
/// it; what the model computes from then on fails.
#[wasm_bindgen(js_name = abandonWork)]
pub fn abandon_work() {
    crew().abandon();
}

/// Lets workers go until there are `threads`, or, without a number, as many as are fastest in a
/// measurement of a few milliseconds. Returns how many threads there are.
#[wasm_bindgen(js_name = settleThreads)]
#[must_use]
pub fn settle_threads(threads: Option<usize>) -> usize {
    let size = threads.unwrap_or_else(|| cpu::best_size(crew(), performance_now));
    crew().shrink(NonZeroUsize::new(size).unwrap_or(NonZeroUsize::MIN));
    crew().size()
}
