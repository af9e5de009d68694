//! JSON of scenarios into their types.

use serde::de::DeserializeOwned;

use super::MockError;

/// Reads a whole text as one value.
///
/// # Errors
/// [`MockError::Scenario`] with the place of what is refused.
pub(super) fn read_json<T: DeserializeOwned>(json: &str) -> Result<T, MockError> {
    let mut reader = serde_json::Deserializer::from_str(json);
    let value =
        serde_path_to_error::deserialize(&mut reader).map_err(|error| MockError::Scenario {
            place: error.path().to_string(),
            why: error.inner().to_string(),
        })?;
    reader.end().map_err(|error| MockError::Scenario {
        place: String::new(),
        why: error.to_string(),
    })?;
    Ok(value)
}
