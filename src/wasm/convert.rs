//! Values across the border.

use serde::Serialize;
#[cfg(feature = "streaming")]
use serde::de::DeserializeOwned;
use wasm_bindgen::JsValue;

use crate::Error;
#[cfg(feature = "engine")]
use crate::model::ModelError;
#[cfg(feature = "engine")]
use crate::session::SessionError;
#[cfg(feature = "engine")]
use crate::tokenizer::Now;

/// A plain JavaScript value, with `null` for what is absent.
pub(super) fn to_js<T: Serialize>(value: &T) -> Result<JsValue, JsValue> {
    let serializer = serde_wasm_bindgen::Serializer::json_compatible();
    value.serialize(&serializer).map_err(JsValue::from)
}

/// A plain JavaScript value as what it describes.
#[cfg(feature = "streaming")]
pub(super) fn from_js<T: DeserializeOwned>(
    value: JsValue,
    name: &'static str,
    expected: &'static str,
) -> Result<T, JsValue> {
    serde_wasm_bindgen::from_value(value).map_err(|_| throw(&Error::Kind { name, expected }))
}

/// A plain JavaScript value as JSON; absent (`undefined`) gives `null`.
#[cfg(feature = "engine")]
pub(super) fn to_json(
    value: JsValue,
    name: &'static str,
    expected: &'static str,
) -> Result<serde_json::Value, JsValue> {
    serde_wasm_bindgen::from_value(value).map_err(|_| throw(&Error::Kind { name, expected }))
}

/// An options object as JSON; absent gives an empty one.
#[cfg(feature = "engine")]
pub(super) fn to_options(
    value: JsValue,
    name: &'static str,
) -> Result<serde_json::Map<String, serde_json::Value>, JsValue> {
    let expected = "an object of plain values";
    match to_json(value, name, expected)? {
        serde_json::Value::Object(options) => Ok(options),
        serde_json::Value::Null => Ok(serde_json::Map::new()),
        _ => Err(throw(&Error::Kind { name, expected })),
    }
}

/// An `Error` object with the failure's code and, where one is to blame, the option.
pub(super) fn throw(error: &Error) -> JsValue {
    let thrown = js_sys::Error::new(&error.to_string());
    let code = JsValue::from_str(error.code());
    // Setting a property on a fresh object cannot fail.
    let _ = js_sys::Reflect::set(&thrown, &JsValue::from_str("code"), &code);
    #[cfg(feature = "engine")]
    describe(error, &thrown);
    thrown.into()
}

/// What the engine's failures say beside their code.
#[cfg(feature = "engine")]
fn describe(error: &Error, thrown: &js_sys::Error) {
    if let Error::Session(SessionError::Model(ModelError::CompatArchitecture { .. })) = error {
        // For the worker alone, which goes on with the other artifact.
        let _ = js_sys::Reflect::set(thrown, &JsValue::from_str("compat"), &JsValue::TRUE);
    }
    if let Error::Session(SessionError::NoRoom {
        shortage, on_host, ..
    }) = error
    {
        let bytes = [("need", shortage.need), ("have", shortage.have)];
        for (name, bytes) in bytes {
            #[expect(clippy::cast_precision_loss, reason = "a number for people")]
            let bytes = JsValue::from_f64(bytes as f64);
            let _ = js_sys::Reflect::set(thrown, &JsValue::from_str(name), &bytes);
        }
        // For the worker alone, which tries the processor where it may.
        let on_gpu = JsValue::from_bool(!on_host);
        let _ = js_sys::Reflect::set(thrown, &JsValue::from_str("onGpu"), &on_gpu);
    }
    let option = match error {
        Error::Session(
            SessionError::InvalidOption { name, .. } | SessionError::UnknownOption { name, .. },
        ) => Some(name.as_str()),
        Error::Session(SessionError::TokenizerOption(_)) => Some("tokenizer"),
        _ => None,
    };
    if let Some(name) = option {
        let name = JsValue::from_str(name);
        let _ = js_sys::Reflect::set(thrown, &JsValue::from_str("option"), &name);
    }
}

/// As [`throw`], for a session's failures.
#[cfg(feature = "engine")]
pub(super) fn throw_session(error: SessionError) -> JsValue {
    throw(&Error::from(error))
}

/// The page's date and time, for templates that ask.
#[cfg(feature = "engine")]
pub(super) fn now() -> Now {
    let date = js_sys::Date::new_0();
    #[expect(clippy::cast_possible_truncation, reason = "offsets are whole minutes")]
    Now {
        unix_seconds: date.get_time() / 1000.0,
        utc_offset_minutes: -date.get_timezone_offset() as i32,
    }
}
