//! What only a browser has: the adapter's names, features that wgpu does not know, and a way
//! to be heard by a browser that looks for finished work ten times a second.

use js_sys::Reflect;
use wasm_bindgen::closure::Closure;
use wasm_bindgen::{JsCast, JsValue};

use super::{AdapterDescription, Gpu, GpuError};

/// Milliseconds between two empty submissions.
const NUDGE_MS: i32 = 1;

/// Submits nothing, again and again, until it is dropped: Firefox answers at its next look,
/// every 100 ms, or when work is submitted.
pub(super) struct Nudge {
    timer: JsValue,
    _closure: Closure<dyn FnMut()>,
}

impl Gpu {
    /// Keeps the browser looking while the result lives.
    pub(super) fn nudge(&self) -> Option<Nudge> {
        if !self.needs_nudges() {
            return None;
        }
        let queue = self.queue.clone();
        let closure = Closure::<dyn FnMut()>::new(move || {
            queue.submit([]);
        });
        let set = function("setInterval")?;
        let timer = set
            .call2(&js_sys::global(), closure.as_ref(), &NUDGE_MS.into())
            .ok()?;
        Some(Nudge {
            timer,
            _closure: closure,
        })
    }

    fn needs_nudges(&self) -> bool {
        agent().contains("Firefox")
    }
}

impl Drop for Nudge {
    fn drop(&mut self) {
        if let Some(clear) = function("clearInterval") {
            // Nothing can be done about a timer that will not stop.
            let _ = clear.call1(&js_sys::global(), &self.timer);
        }
    }
}

/// The browser and its version.
pub(super) fn agent() -> String {
    let agent = get(&js_sys::global(), "navigator").and_then(|it| get(&it, "userAgent"));
    let agent = agent.and_then(|agent| agent.as_string());
    agent.unwrap_or_default()
}

/// Whether there can be a device.
pub(super) fn check() -> Result<(), GpuError> {
    let global = js_sys::global();
    if get(&global, "navigator")
        .and_then(|it| get(&it, "gpu"))
        .is_some()
    {
        return Ok(());
    }
    if get(&global, "isSecureContext").is_some_and(|secure| secure.is_falsy()) {
        return Err(GpuError::Insecure);
    }
    Err(GpuError::NoAdapter("this browser has no WebGPU".to_owned()))
}

/// Names of an adapter, as far as the browser tells them.
pub(super) fn describe(info: &wgpu::AdapterInfo, device: &wgpu::Device) -> AdapterDescription {
    let names = raw(device).and_then(|device| get(&device, "adapterInfo"));
    let name = |key| {
        let value = names.as_ref().and_then(|names| get(names, key));
        value
            .and_then(|value| value.as_string())
            .unwrap_or_default()
    };
    AdapterDescription {
        vendor: name("vendor"),
        architecture: name("architecture"),
        device: name("device"),
        description: info.name.clone(),
    }
}

/// Whether shaders of the device may use subgroup operations. wgpu does not know the feature;
/// the worker asks for it in its place.
pub(super) fn subgroups(device: &wgpu::Device) -> bool {
    let features = raw(device).and_then(|device| get(&device, "features"));
    features.is_some_and(|features| {
        let has = Reflect::get(&features, &"has".into()).ok();
        let has = has.and_then(|has| has.dyn_into::<js_sys::Function>().ok());
        has.and_then(|has| has.call1(&features, &"subgroups".into()).ok())
            .is_some_and(|has| has.is_truthy())
    })
}

fn raw(device: &wgpu::Device) -> Option<JsValue> {
    device
        .as_webgpu()
        .map(|device| JsValue::from(device.clone()))
}

fn function(name: &str) -> Option<js_sys::Function> {
    get(&js_sys::global(), name)?.dyn_into().ok()
}

/// A property, where there is one.
fn get(object: &JsValue, key: &str) -> Option<JsValue> {
    let value = Reflect::get(object, &key.into()).ok()?;
    (!value.is_undefined() && !value.is_null()).then_some(value)
}
