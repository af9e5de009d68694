//! What a request can be refused for, and how the dialect says it.

use serde::Serialize;

/// A refusal or a failure, with the status that it has before the first byte.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DialectError {
    /// No endpoint has this path.
    #[error("Invalid URL ({method} {path}).")]
    NoSuchPath {
        /// Method of the request.
        method: String,
        /// Its path.
        path: String,
    },
    /// An endpoint that takes another method.
    #[error("{path} takes {allowed}, not {method}.")]
    Method {
        /// Method of the request.
        method: String,
        /// Its path.
        path: String,
        /// The method it takes.
        allowed: &'static str,
    },
    /// A model that is not the one loaded.
    #[error("The model {name:?} is not loaded.")]
    NoSuchModel {
        /// Its name.
        name: String,
    },
    /// A body beyond the limit.
    #[error("The body has {bytes} bytes; the limit is {limit}.")]
    TooLarge {
        /// Its size.
        bytes: usize,
        /// The most that is read.
        limit: usize,
    },
    /// A body that is no JSON object.
    #[error("The body could not be read as a JSON object: {why}.")]
    NotJson {
        /// What is wrong with it.
        why: String,
    },
    /// A parameter that has to be there.
    #[error("Missing required parameter: {param:?}.")]
    Missing {
        /// Its name.
        param: &'static str,
    },
    /// A parameter of the wrong kind or outside its limits.
    #[error("Invalid value for {param:?}: {value}; it must be {limit}.")]
    Invalid {
        /// Its name, with a position where it has one.
        param: String,
        /// What was given.
        value: String,
        /// What is allowed.
        limit: String,
    },
    /// A parameter that is not known, or that the engine does not have.
    #[error("Parameter {param:?} is not supported.")]
    Unsupported {
        /// Its name.
        param: String,
    },
    /// Content that no model here can take.
    #[error("{param:?} holds {what}, which the loaded model cannot take.")]
    Unprocessable {
        /// Where it is.
        param: String,
        /// What it is.
        what: String,
    },
    /// The engine refused the request or failed at it.
    #[error("{message}")]
    Engine {
        /// The engine's kebab-case code.
        code: String,
        /// Its sentence.
        message: String,
        /// The parameter that the refusal is about.
        param: Option<String>,
    },
}

/// `{ "error": { … } }`.
#[derive(Serialize)]
struct Body {
    error: Detail,
}

#[derive(Serialize)]
struct Detail {
    message: String,
    r#type: &'static str,
    param: Option<String>,
    code: Option<String>,
}

impl DialectError {
    /// The HTTP status.
    #[must_use]
    pub fn status(&self) -> u16 {
        match self {
            Self::NoSuchPath { .. } | Self::NoSuchModel { .. } => 404,
            Self::Method { .. } => 405,
            Self::TooLarge { .. } => 413,
            Self::NotJson { .. }
            | Self::Missing { .. }
            | Self::Invalid { .. }
            | Self::Unsupported { .. } => 400,
            Self::Unprocessable { .. } => 422,
            Self::Engine { code, .. } => match code.as_str() {
                "invalid-option" | "context-full" => 400,
                "disposed" | "device-lost" => 503,
                _ => 500,
            },
        }
    }

    /// The error as the dialect's JSON.
    #[must_use]
    pub fn to_json(&self) -> String {
        let body = Body {
            error: Detail {
                message: self.to_string(),
                r#type: if self.status() < 500 {
                    "invalid_request_error"
                } else {
                    "server_error"
                },
                param: self.param(),
                code: self.code(),
            },
        };
        super::reply::to_json(&body)
    }

    fn param(&self) -> Option<String> {
        match self {
            Self::NoSuchModel { .. } => Some("model".to_owned()),
            Self::Missing { param } => Some((*param).to_owned()),
            Self::Invalid { param, .. }
            | Self::Unsupported { param }
            | Self::Unprocessable { param, .. } => Some(param.clone()),
            Self::Engine { param, .. } => param.clone(),
            Self::NoSuchPath { .. }
            | Self::Method { .. }
            | Self::TooLarge { .. }
            | Self::NotJson { .. } => None,
        }
    }

    fn code(&self) -> Option<String> {
        let code = match self {
            Self::NoSuchPath { .. } => "unknown_url",
            Self::Method { .. } => "method_not_allowed",
            Self::NoSuchModel { .. } => "model_not_found",
            Self::TooLarge { .. } => "request_too_large",
            Self::NotJson { .. } => "invalid_json",
            Self::Missing { .. } => "missing_required_parameter",
            Self::Invalid { .. } => "invalid_value",
            Self::Unsupported { .. } => "unsupported_parameter",
            Self::Unprocessable { .. } => "unsupported_content",
            // The one code of a prompt's length that clients look for.
            Self::Engine { code, .. } if code == "context-full" => "context_length_exceeded",
            Self::Engine { code, .. } => return Some(code.replace('-', "_")),
        };
        Some(code.to_owned())
    }
}
