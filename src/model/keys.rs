//! Metadata under an architecture's prefix.

use super::error::ModelError;
use crate::gguf::Metadata;

/// The error for a key that has to be there.
pub(crate) fn missing(key: &str) -> ModelError {
    ModelError::MissingKey {
        key: key.to_owned(),
    }
}

/// Metadata under the architecture's prefix, checked on the way out.
pub(crate) struct Keys<'a> {
    pub(crate) metadata: &'a Metadata,
    pub(crate) prefix: &'static str,
}

impl Keys<'_> {
    pub(crate) fn key(&self, name: &str) -> String {
        format!("{}.{name}", self.prefix)
    }

    pub(crate) fn size(&self, name: &str, max: u32) -> Result<usize, ModelError> {
        self.optional_size(name, max)?
            .ok_or_else(|| missing(&self.key(name)))
    }

    pub(crate) fn optional_size(&self, name: &str, max: u32) -> Result<Option<usize>, ModelError> {
        let key = self.key(name);
        let Some(value) = self.metadata.u32(&key)? else {
            return Ok(None);
        };
        if value == 0 || value > max {
            return Err(ModelError::Hyperparameter {
                key,
                value: value.to_string(),
                limit: format!("between 1 and {max}"),
            });
        }
        Ok(Some(value as usize))
    }

    pub(crate) fn positive(&self, name: &str) -> Result<Option<f32>, ModelError> {
        let key = self.key(name);
        let Some(value) = self.metadata.f32(&key)? else {
            return Ok(None);
        };
        if !value.is_finite() || value <= 0.0 {
            return Err(ModelError::Hyperparameter {
                key,
                value: value.to_string(),
                limit: "a positive finite number".to_owned(),
            });
        }
        Ok(Some(value))
    }

    pub(crate) fn divides(
        &self,
        name: &str,
        divisor: usize,
        dividend: usize,
    ) -> Result<(), ModelError> {
        if dividend.is_multiple_of(divisor) {
            return Ok(());
        }
        Err(ModelError::Hyperparameter {
            key: self.key(name),
            value: divisor.to_string(),
            limit: format!("a divisor of {dividend}"),
        })
    }

    /// Features that change the computation must be absent (or 0).
    pub(crate) fn none_of(&self, names: &[&str]) -> Result<(), ModelError> {
        for name in names {
            let key = self.key(name);
            if let Some(value) = self.metadata.u32(&key)?.filter(|&value| value != 0) {
                return Err(ModelError::UnsupportedFeature {
                    key,
                    value: value.to_string(),
                    supported: "0",
                });
            }
        }
        Ok(())
    }

    /// Switches that must be on (or absent).
    pub(crate) fn none_off(&self, names: &[&str]) -> Result<(), ModelError> {
        for name in names {
            let key = self.key(name);
            if self.metadata.bool(&key)? == Some(false) {
                return Err(ModelError::UnsupportedFeature {
                    key,
                    value: "false".to_owned(),
                    supported: "true",
                });
            }
        }
        Ok(())
    }

    /// A soft cap; 0 stands for none.
    pub(crate) fn cap(&self, name: &str) -> Result<Option<f32>, ModelError> {
        if self.metadata.f32(&self.key(name))? == Some(0.0) {
            return Ok(None);
        }
        self.positive(name)
    }
}
