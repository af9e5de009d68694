//! Methods and paths.

use super::error::DialectError;

/// Which of the two completions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// `/v1/chat/completions`: messages through the model's template.
    Chat,
    /// `/v1/completions`: text as it stands.
    Text,
}

/// What a request is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Route {
    /// `POST /v1/chat/completions` or `/v1/completions`.
    Completion(Endpoint),
    /// `POST /v1/embeddings`.
    Embeddings,
    /// `GET /v1/models`.
    Models,
    /// `GET /v1/models/{name}`, the name still percent-encoded.
    Model(String),
}

impl Route {
    /// Reads a method in capitals and the path of an address. What stands before the last
    /// `/v1/` is the client's base address and may be anything.
    ///
    /// # Errors
    /// [`DialectError::NoSuchPath`], [`DialectError::Method`].
    pub fn read(method: &str, path: &str) -> Result<Self, DialectError> {
        let no_such_path = || DialectError::NoSuchPath {
            method: method.to_owned(),
            path: path.to_owned(),
        };
        let (_, tail) = path.rsplit_once("/v1/").ok_or_else(no_such_path)?;
        let tail = tail.strip_suffix('/').unwrap_or(tail);
        let (route, allowed) = match tail {
            "chat/completions" => (Self::Completion(Endpoint::Chat), "POST"),
            "completions" => (Self::Completion(Endpoint::Text), "POST"),
            "embeddings" => (Self::Embeddings, "POST"),
            "models" => (Self::Models, "GET"),
            _ => match tail.strip_prefix("models/") {
                Some(name) => (Self::Model(name.to_owned()), "GET"),
                None => return Err(no_such_path()),
            },
        };
        if method == allowed {
            return Ok(route);
        }
        Err(DialectError::Method {
            method: method.to_owned(),
            path: path.to_owned(),
            allowed,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_found_under_any_base() {
        let chat = Route::Completion(Endpoint::Chat);
        for path in ["/v1/chat/completions", "/a/b/v1/chat/completions/"] {
            assert_eq!(Route::read("POST", path), Ok(chat.clone()), "{path}");
        }
        let text = Route::Completion(Endpoint::Text);
        assert_eq!(Route::read("POST", "/v1/completions"), Ok(text));
        assert_eq!(Route::read("POST", "/v1/embeddings"), Ok(Route::Embeddings));
        assert_eq!(Route::read("GET", "/v1/models"), Ok(Route::Models));
        let one = Route::Model("a%2Fb".to_owned());
        assert_eq!(Route::read("GET", "/v1/models/a%2Fb"), Ok(one));
    }

    #[test]
    fn other_paths_are_404_and_other_methods_405() {
        for path in [
            "/v1/audio/speech",
            "/v1",
            "/chat/completions",
            "",
            "/v1/chat",
        ] {
            let error = Route::read("POST", path).expect_err("no such endpoint");
            assert_eq!(error.status(), 404, "{path}");
        }
        let error = Route::read("GET", "/v1/completions").expect_err("it takes POST");
        assert_eq!(error.status(), 405);
        let error = Route::read("POST", "/v1/models").expect_err("it takes GET");
        assert_eq!(
            error.to_json(),
            "{\"error\":{\"message\":\"/v1/models takes GET, not POST.\",\
             \"type\":\"invalid_request_error\",\"param\":null,\"code\":\"method_not_allowed\"}}"
        );
    }
}
