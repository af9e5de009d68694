//! `GET /v1/models`: the one model that is loaded.

use serde::Serialize;

use super::error::DialectError;
use super::reply::to_json;

#[derive(Serialize)]
struct Model<'a> {
    id: &'a str,
    object: &'static str,
    created: u64,
    owned_by: &'static str,
}

#[derive(Serialize)]
struct List<'a> {
    object: &'static str,
    data: [Model<'a>; 1],
}

/// The list of models as JSON, or one entry of it: `wanted` is a percent-encoded name.
///
/// # Errors
/// [`DialectError::NoSuchModel`] for a name that is not `name`.
pub fn model_list(name: &str, created: u64, wanted: Option<&str>) -> Result<String, DialectError> {
    let model = Model {
        id: name,
        object: "model",
        created,
        owned_by: "local",
    };
    match wanted {
        None => Ok(to_json(&List {
            object: "list",
            data: [model],
        })),
        Some(wanted) if decoded(wanted) == name.as_bytes() => Ok(to_json(&model)),
        Some(wanted) => Err(DialectError::NoSuchModel {
            name: String::from_utf8_lossy(&decoded(wanted)).into_owned(),
        }),
    }
}

/// Without percent-encoding; what is not encoded well stays as it is.
fn decoded(text: &str) -> Vec<u8> {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let digits = text.get(at + 1..at + 3).filter(|_| byte == b'%');
        match digits.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(value) => {
                out.push(value);
                at += 3;
            }
            None => {
                out.push(byte);
                at += 1;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENTRY: &str =
        "{\"id\":\"A b/é\",\"object\":\"model\",\"created\":9,\"owned_by\":\"local\"}";

    #[test]
    fn lists_the_model_and_finds_it_by_its_encoded_name() {
        assert_eq!(
            model_list("A b/é", 9, None),
            Ok(format!("{{\"object\":\"list\",\"data\":[{ENTRY}]}}"))
        );
        assert_eq!(
            model_list("A b/é", 9, Some("A%20b%2f%C3%A9")),
            Ok(ENTRY.to_owned())
        );
    }

    #[test]
    fn another_name_is_404_with_the_name() {
        for (wanted, name) in [("x%20y", "x y"), ("%", "%"), ("%zz", "%zz"), ("é%2", "é%2")] {
            let error = model_list("A", 9, Some(wanted)).expect_err("it is not loaded");
            assert_eq!(error.status(), 404);
            assert_eq!(
                error,
                DialectError::NoSuchModel {
                    name: name.to_owned()
                }
            );
        }
    }
}
