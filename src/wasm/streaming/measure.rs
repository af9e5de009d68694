//! `tokenbrook/measure`: moments in, timelines and summaries out.

use wasm_bindgen::prelude::wasm_bindgen;
use wasm_bindgen::{JsCast, JsValue};

use crate::Error;
use crate::measure::{FIGURES, Headers, Rendered, Timeline, Watch, compare, diagnose, summarize};
use crate::wasm::convert::{from_js, throw, to_js};

/// The stopwatch of one exchange. Times are Unix milliseconds.
#[wasm_bindgen]
#[derive(Debug)]
pub struct ExchangeWatch {
    watch: Watch,
}

#[wasm_bindgen]
impl ExchangeWatch {
    /// Starts with the request.
    #[wasm_bindgen(constructor)]
    #[must_use]
    pub fn new(request_ms: f64) -> Self {
        Self {
            watch: Watch::new(request_ms),
        }
    }

    /// Status and headers are there: `pairs` is a JSON array of names and values, `all` whether
    /// none is kept from the reader.
    ///
    /// # Errors
    /// Throws `invalid-option` where `pairs` is something else.
    pub fn headers(
        &mut self,
        at_ms: f64,
        status: u16,
        pairs: &str,
        all: bool,
    ) -> Result<(), JsValue> {
        let pairs: Vec<(String, String)> = serde_json::from_str(pairs).map_err(|_| {
            throw(&Error::Kind {
                name: "headers",
                expected: "pairs of names and values",
            })
        })?;
        let pairs = &*pairs;
        self.watch.headers(at_ms, Headers { status, pairs, all });
        Ok(())
    }

    /// A read of the body; gives how many events there are by now.
    pub fn read(&mut self, at_ms: f64, bytes: &[u8]) -> usize {
        self.watch.read(at_ms, bytes);
        self.watch.timeline().events.len()
    }

    /// The body is at its end, or, if not `clean`, broke.
    pub fn close(&mut self, at_ms: f64, clean: bool) {
        self.watch.close(at_ms, clean);
    }

    /// The caller stopped it.
    pub fn abort(&mut self, at_ms: f64) {
        self.watch.abort(at_ms);
    }

    /// The first text was painted, as `PerformanceObserver` or else animation frames tell.
    pub fn rendered(&mut self, at_ms: f64, by_element_timing: bool) {
        let by = if by_element_timing {
            Rendered::ElementTiming
        } else {
            Rendered::AnimationFrames
        };
        self.watch.rendered(at_ms, by);
    }

    /// The generator's own stamps.
    pub fn generator(&mut self, first_token_ms: Option<f64>, end_ms: Option<f64>) {
        self.watch.generator(first_token_ms, end_ms);
    }

    /// Events from number `from` on.
    ///
    /// # Errors
    /// None: plain values can always be told.
    pub fn events(&self, from: usize) -> Result<JsValue, JsValue> {
        let events = &self.watch.timeline().events;
        to_js(&events.get(from..).unwrap_or_default())
    }

    /// What was seen so far, and what follows from it.
    ///
    /// # Errors
    /// None: plain values can always be told.
    pub fn timeline(&self) -> Result<JsValue, JsValue> {
        let seen = self.watch.timeline();
        let (timeline, firsts) = (to_js(seen)?, to_js(&seen.firsts())?);
        let timeline: js_sys::Object = timeline.unchecked_into();
        Ok(js_sys::Object::assign(&timeline, firsts.unchecked_ref()).into())
    }
}

/// Sums up timelines.
///
/// # Errors
/// Throws `invalid-option` where they are none.
#[wasm_bindgen(js_name = summarizeTimelines)]
pub fn summarize_timelines(timelines: JsValue) -> Result<JsValue, JsValue> {
    let timelines: Vec<Timeline> = from_js(timelines, "timelines", "an array of timelines")?;
    to_js(&summarize(&timelines))
}

/// Judges a timeline.
///
/// # Errors
/// Throws `invalid-option` where it is none.
#[wasm_bindgen(js_name = diagnoseTimeline)]
pub fn diagnose_timeline(timeline: JsValue) -> Result<JsValue, JsValue> {
    to_js(&diagnose(&one(timeline, "timeline")?))
}

/// Compares the direct path with the public one.
///
/// # Errors
/// Throws `invalid-option` where one is no timeline.
#[wasm_bindgen(js_name = compareTimelines)]
pub fn compare_timelines(direct: JsValue, public: JsValue) -> Result<JsValue, JsValue> {
    to_js(&compare(&one(direct, "direct")?, &one(public, "public")?))
}

fn one(timeline: JsValue, name: &'static str) -> Result<Timeline, JsValue> {
    from_js(timeline, name, "a timeline")
}

/// Pairs of every figure's name and whose definition it is.
///
/// # Errors
/// None: plain values can always be told.
#[wasm_bindgen(js_name = figureSources)]
pub fn figure_sources() -> Result<JsValue, JsValue> {
    to_js(&FIGURES)
}
