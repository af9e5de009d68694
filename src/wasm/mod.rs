//! What the worker calls: a [`Loader`] that takes bytes, an [`Engine`] that generates, an
//! [`Exchange`] that turns tokens into an answer in the OpenAI dialect.
//!
//! Thin on purpose: values are converted here, work is done in [`crate::session`]. Failures
//! are thrown as `Error` objects with a `code`; a panic writes its text to the console, then
//! traps, and the worker that sees the trap is replaced.

mod convert;
mod dialect;
mod engine;
mod hardware;
mod loader;

pub use dialect::Exchange;
pub use engine::Engine;
pub use loader::Loader;

use wasm_bindgen::prelude::wasm_bindgen;

use crate::measure::Clock;

#[wasm_bindgen]
extern "C" {
    #[wasm_bindgen(js_namespace = performance, js_name = now)]
    fn performance_now() -> f64;
}

/// The worker's `performance.now()`.
struct PerformanceClock;

impl Clock for PerformanceClock {
    fn now_ms(&self) -> f64 {
        performance_now()
    }
}

/// Runs once, when the module is instantiated.
#[wasm_bindgen(start)]
fn start() {
    console_error_panic_hook::set_once();
}
