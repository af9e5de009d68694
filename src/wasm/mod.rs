//! What JavaScript calls, in two modules built from this crate.
//!
//! The engine's: a `Loader` that takes bytes, an `Engine` that generates, an `Exchange` that
//! turns tokens into an answer in the OpenAI dialect. The small one: `streaming`.
//!
//! Thin on purpose: values are converted here, work is done in the other modules. Failures
//! are thrown as `Error` objects with a `code`; a panic writes its text to the console, then
//! traps, and the worker that sees the trap is replaced.

mod convert;
#[cfg(feature = "engine")]
mod dialect;
#[cfg(feature = "engine")]
mod engine;
#[cfg(feature = "engine")]
mod hardware;
#[cfg(feature = "engine")]
mod loader;
#[cfg(feature = "streaming")]
pub mod streaming;
#[cfg(feature = "threads")]
mod threads;

#[cfg(feature = "engine")]
pub use dialect::Exchange;
#[cfg(feature = "engine")]
pub use engine::Engine;
#[cfg(feature = "engine")]
pub use loader::Loader;
#[cfg(feature = "threads")]
pub use threads::{Helper, abandon_work, settle_threads, shared_memory};

use wasm_bindgen::prelude::wasm_bindgen;

#[cfg(feature = "engine")]
use crate::measure::Clock;

#[cfg(feature = "engine")]
#[wasm_bindgen]
extern "C" {
    #[wasm_bindgen(js_namespace = performance, js_name = now)]
    fn performance_now() -> f64;
}

/// The worker's `performance.now()`.
#[cfg(feature = "engine")]
struct PerformanceClock;

#[cfg(feature = "engine")]
impl Clock for PerformanceClock {
    fn now_ms(&self) -> f64 {
        performance_now()
    }
}

/// Types whose CPU kernel differs from its plain twin in this browser; none, if all is well.
///
/// # Errors
/// Thrown where memory is short.
#[cfg(feature = "engine")]
#[wasm_bindgen(js_name = differingKernels)]
pub fn differing_kernels() -> Result<Vec<String>, wasm_bindgen::JsError> {
    let names = crate::backend::cpu::differing_kernels()?;
    Ok(names.into_iter().map(str::to_owned).collect())
}

/// Runs once, when the module is instantiated.
#[wasm_bindgen(start)]
fn start() {
    console_error_panic_hook::set_once();
}
