//! `mock`: the mock server's scenarios over real HTTP/1.1, from Node.

use anyhow::Result;
use serde_json::json;

use crate::{args, build, paths, process, setup};

pub(crate) fn command(mut parser: lexopt::Parser) -> Result<()> {
    let mut port: Option<u16> = None;
    while let Some(arg) = parser.next()? {
        match args::long(&arg)?.as_str() {
            "port" => port = Some(args::number(&mut parser, "port")?),
            name => return Err(args::unknown("mock", name)),
        }
    }
    let wasm = setup::for_build()?;
    build::package(&wasm, build::Kind::Fast, &[build::Module::Streaming])?;
    let config = json!({ "pkg": paths::at_root("pkg"), "port": port });
    process::become_program(process::node_script("mock.mjs").arg(config.to_string()))
}
