//! The crate's error: one enum per stage, wrapped, with the code that the public interface
//! promises.

use crate::mock::MockError;
#[cfg(feature = "engine")]
use crate::session::SessionError;
use crate::sse::{EncodeError, TooLarge};

/// Any failure of the library.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Loading, generating or scoring.
    #[cfg(feature = "engine")]
    #[error(transparent)]
    Session(#[from] SessionError),
    /// An event that cannot be written.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// An event of a stream beyond the limit.
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
    /// A scenario of the mock server, or a record of it.
    #[error(transparent)]
    Mock(#[from] MockError),
    /// A choice that this build does not have.
    #[error("option {name:?} is {value:?}; this build has {known}")]
    Choice {
        /// Option as the caller spells it.
        name: &'static str,
        /// Its value.
        value: String,
        /// Values that work.
        known: &'static str,
    },
    /// A value of the wrong kind.
    #[error("{name} must be {expected}")]
    Kind {
        /// Argument or option.
        name: &'static str,
        /// What is allowed.
        expected: &'static str,
    },
    /// A job that has ended or never began.
    #[error("there is no job {id} on this engine")]
    NoSuchJob {
        /// Its number.
        id: u32,
    },
}

impl Error {
    /// The kebab-case code of the public interface.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            #[cfg(feature = "engine")]
            Self::Session(error) => error.code(),
            Self::Encode(_) | Self::Mock(_) | Self::Choice { .. } | Self::Kind { .. } => {
                "invalid-option"
            }
            Self::TooLarge(_) => "server-error",
            Self::NoSuchJob { .. } => "internal",
        }
    }
}
