//! `tokenbrook/sse`.

use wasm_bindgen::JsValue;
use wasm_bindgen::prelude::wasm_bindgen;

use crate::Error;
use crate::sse::{self, Event};
use crate::wasm::convert::throw;

/// One block of an event stream; absent fields are not written.
///
/// # Errors
/// Throws `invalid-option` where `event` or `id` is more than one line, or `id` holds U+0000.
#[wasm_bindgen(js_name = encodeEvent)]
pub fn encode_event(
    comment: Option<String>,
    event: Option<String>,
    id: Option<String>,
    retry_ms: Option<f64>,
    data: Option<String>,
) -> Result<String, JsValue> {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the face passes whole numbers from 0; `as` saturates otherwise"
    )]
    let retry_ms = retry_ms.map(|ms| ms as u64);
    let event = Event {
        comment: comment.as_deref(),
        event: event.as_deref(),
        id: id.as_deref(),
        retry_ms,
        data: data.as_deref(),
    };
    let mut out = String::new();
    sse::encode_event(&event, &mut out).map_err(|error| throw(&Error::from(error)))?;
    Ok(out)
}
