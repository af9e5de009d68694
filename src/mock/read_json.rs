//! JSON of scenarios into their types.

use std::fmt::Write;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::MockError;

/// Reads a whole text as one value.
///
/// # Errors
/// [`MockError::Scenario`] with the place of what is refused.
pub(super) fn read_json<T: DeserializeOwned>(json: &str) -> Result<T, MockError> {
    let value: Value = serde_json::from_str(json).map_err(|error| MockError::Scenario {
        place: String::new(),
        why: error.to_string(),
    })?;
    T::deserialize(&value).map_err(|error| {
        let why = error.to_string();
        let fails = |value: &Value| T::deserialize(value).is_err_and(|at| at.to_string() == why);
        // What is missing is missing in an object, whatever was read last.
        let whole = why.starts_with("missing field");
        let place = place_of(value, whole, &fails);
        MockError::Scenario { place, why }
    })
}

/// Path of the innermost value because of which `value` fails. Readers take the parts of a value
/// in order, so it is the last part of the shortest beginning that fails the same way.
///
/// A reader that notes its path as it goes would add a layer to each type that is read, and more
/// to the module than this whole file.
fn place_of(mut value: Value, in_whole: bool, fails: &dyn Fn(&Value) -> bool) -> String {
    let mut steps = Vec::new();
    let mut place = String::new();
    loop {
        let Some(whole) = part(&mut value, &steps).cloned() else {
            return place;
        };
        let mut fails_with = |count: usize| {
            if let Some(at) = part(&mut value, &steps) {
                *at = beginning(&whole, count);
            }
            fails(&value)
        };
        let (mut passes, mut guilty) = (0, length(&whole));
        if guilty == 0 || fails_with(0) {
            return place;
        }
        while guilty - passes > 1 {
            let middle = passes.midpoint(guilty);
            if fails_with(middle) {
                guilty = middle;
            } else {
                passes = middle;
            }
        }
        // What comes behind it is of no more interest.
        fails_with(guilty);
        let last = part(&mut value, &steps).and_then(|value| part(value, &[guilty - 1]));
        if in_whole && !last.is_some_and(|last| last.is_object() || last.is_array()) {
            return place;
        }
        add_step(&mut place, &whole, guilty - 1);
        steps.push(guilty - 1);
    }
}

/// The value at a path of places within objects and arrays.
fn part<'a>(value: &'a mut Value, steps: &[usize]) -> Option<&'a mut Value> {
    steps.iter().try_fold(value, |value, step| match value {
        Value::Array(items) => items.get_mut(*step),
        Value::Object(fields) => fields.values_mut().nth(*step),
        _ => None,
    })
}

fn length(value: &Value) -> usize {
    match value {
        Value::Array(items) => items.len(),
        Value::Object(fields) => fields.len(),
        _ => 0,
    }
}

/// The first `count` parts of an object or array.
fn beginning(value: &Value, count: usize) -> Value {
    match value {
        Value::Array(items) => items.iter().take(count).cloned().collect(),
        Value::Object(fields) => {
            let fields = fields.iter().take(count);
            let fields: Map<_, _> = fields.map(|(k, v)| (k.clone(), v.clone())).collect();
            Value::Object(fields)
        }
        other => other.clone(),
    }
}

fn add_step(place: &mut String, value: &Value, step: usize) {
    // Writing to a string cannot fail.
    match value {
        Value::Object(fields) => {
            if !place.is_empty() {
                place.push('.');
            }
            place.push_str(fields.keys().nth(step).map_or("", String::as_str));
        }
        _ => {
            let _ = write!(place, "[{step}]");
        }
    }
}
