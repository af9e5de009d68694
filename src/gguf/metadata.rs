use super::cursor::{Cursor, Field, Stop};
use super::value::read_value;
use super::{Array, GgufError, MAX_KEY_BYTES, StringArray, Value};

/// The keys and values of a header, in file order; no key is there twice.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metadata {
    entries: Vec<(Box<str>, Value)>,
    /// Indices into `entries`, ordered by key.
    by_key: Vec<u32>,
}

impl Metadata {
    /// Smallest entry in a file: the length of an empty key, a type, a one-byte value.
    pub(super) const MIN_ENTRY_BYTES: u64 = 8 + 4 + 1;

    pub(super) fn read(cursor: &mut Cursor<'_>, count: u64) -> Result<Self, Stop> {
        let mut entries = Vec::new();
        let mut by_key = Vec::new();
        for index in 0..u32::try_from(count).unwrap_or(u32::MAX) {
            let key = cursor.text(Field::new("a metadata key"), MAX_KEY_BYTES)?;
            let value = read_value(cursor, key)?;
            entries.push((Box::from(key), value));
            by_key.push(index);
        }
        let metadata = Self { entries, by_key };
        Ok(metadata.indexed()?)
    }

    fn indexed(mut self) -> Result<Self, GgufError> {
        let mut by_key = std::mem::take(&mut self.by_key);
        by_key.sort_by(|&a, &b| self.key_at(a).cmp(self.key_at(b)));
        let twice = by_key.windows(2).find_map(|pair| match *pair {
            [a, b] if self.key_at(a) == self.key_at(b) => Some(self.key_at(a)),
            _ => None,
        });
        if let Some(key) = twice {
            return Err(GgufError::DuplicateKey {
                key: key.to_owned(),
            });
        }
        self.by_key = by_key;
        Ok(self)
    }

    fn key_at(&self, index: u32) -> &str {
        self.entries.get(index as usize).map_or("", |(key, _)| key)
    }

    /// Number of keys.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is no key.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The value of `key`, of whatever type.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Value> {
        let found = self
            .by_key
            .binary_search_by(|&index| self.key_at(index).cmp(key))
            .ok()?;
        let index = *self.by_key.get(found)?;
        self.entries.get(index as usize).map(|(_, value)| value)
    }

    /// Keys and values in file order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.entries.iter().map(|(key, value)| (&**key, value))
    }

    fn typed<'a, T>(
        &'a self,
        key: &str,
        expected: &'static str,
        convert: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, GgufError> {
        let Some(value) = self.get(key) else {
            return Ok(None);
        };
        convert(value)
            .map(Some)
            .ok_or_else(|| GgufError::MetadataType {
                key: key.to_owned(),
                expected,
                found: value.describe(),
            })
    }

    /// An integer of any width whose value fits.
    ///
    /// # Errors
    /// [`GgufError::MetadataType`] where the value is no integer from 0 to 2^32 - 1.
    pub fn u32(&self, key: &str) -> Result<Option<u32>, GgufError> {
        self.typed(key, "an integer from 0 to 4294967295", |value| {
            u32::try_from(value.integer()?).ok()
        })
    }

    /// A float; an `f64` is rounded.
    ///
    /// # Errors
    /// [`GgufError::MetadataType`] where the value is no float.
    pub fn f32(&self, key: &str) -> Result<Option<f32>, GgufError> {
        self.typed(key, "a float", |value| match *value {
            Value::F32(v) => Some(v),
            Value::F64(v) => Some(narrow(v)),
            _ => None,
        })
    }

    /// A truth value.
    ///
    /// # Errors
    /// [`GgufError::MetadataType`] where the value is no bool.
    pub fn bool(&self, key: &str) -> Result<Option<bool>, GgufError> {
        self.typed(key, "a bool", |value| match *value {
            Value::Bool(v) => Some(v),
            _ => None,
        })
    }

    /// A string.
    ///
    /// # Errors
    /// [`GgufError::MetadataType`] where the value is no string.
    pub fn str(&self, key: &str) -> Result<Option<&str>, GgufError> {
        self.typed(key, "a string", |value| match value {
            Value::String(v) => Some(v.as_str()),
            _ => None,
        })
    }

    /// An array of strings.
    ///
    /// # Errors
    /// [`GgufError::MetadataType`] where the value is no array of strings.
    pub fn strings(&self, key: &str) -> Result<Option<&StringArray>, GgufError> {
        self.typed(key, "an array of strings", |value| match value {
            Value::Array(Array::String(v)) => Some(v),
            _ => None,
        })
    }

    /// An array of integers of any width whose values fit.
    ///
    /// # Errors
    /// [`GgufError::MetadataType`] where the value is no such array.
    pub fn i32s(&self, key: &str) -> Result<Option<Vec<i32>>, GgufError> {
        self.typed(
            key,
            "an array of integers from -2147483648 to 2147483647",
            |value| integers(value, |v| i32::try_from(v).ok()),
        )
    }

    /// An array of integers of any width whose values fit.
    ///
    /// # Errors
    /// [`GgufError::MetadataType`] where the value is no such array.
    pub fn u32s(&self, key: &str) -> Result<Option<Vec<u32>>, GgufError> {
        self.typed(key, "an array of integers from 0 to 4294967295", |value| {
            integers(value, |v| u32::try_from(v).ok())
        })
    }

    /// An array of floats; `f64` elements are rounded.
    ///
    /// # Errors
    /// [`GgufError::MetadataType`] where the value is no array of floats.
    pub fn f32s(&self, key: &str) -> Result<Option<Vec<f32>>, GgufError> {
        self.typed(key, "an array of floats", |value| match value {
            Value::Array(Array::F32(v)) => Some(v.to_vec()),
            Value::Array(Array::F64(v)) => Some(v.iter().map(|&v| narrow(v)).collect()),
            _ => None,
        })
    }

    /// An array of truth values.
    ///
    /// # Errors
    /// [`GgufError::MetadataType`] where the value is no array of bools.
    pub fn bools(&self, key: &str) -> Result<Option<Vec<bool>>, GgufError> {
        self.typed(key, "an array of bools", |value| match value {
            Value::Array(Array::Bool(v)) => Some(v.to_vec()),
            _ => None,
        })
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "rounding to f32 is what the getters state"
)]
fn narrow(value: f64) -> f32 {
    value as f32
}

fn integers<T>(value: &Value, convert: impl Fn(i128) -> Option<T>) -> Option<Vec<T>> {
    match value {
        Value::Array(array) => array.integers()?.map(convert).collect(),
        _ => None,
    }
}
