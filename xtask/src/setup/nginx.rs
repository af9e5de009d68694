//! The reverse proxy that the tests put in front of the mock server.

use std::path::Path;

use anyhow::Result;

use super::apt;

/// Where Debian puts it, which is where the tests look.
const PROGRAM: &str = "/usr/sbin/nginx";

pub(crate) fn ready() -> Result<()> {
    if Path::new(PROGRAM).is_file() {
        return Ok(());
    }
    apt::install(
        &["nginx-light"],
        "nginx, for the tests of a buffering proxy,",
    )
}
