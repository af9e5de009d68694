//! `demo`: everything from a fresh machine, then the pages on a local address.

use anyhow::Result;
use serde_json::json;

use crate::args::{self, ModelSource};
use crate::{build, paths, process, setup};

pub(crate) fn command(mut parser: lexopt::Parser) -> Result<()> {
    let mut port: Option<u16> = None;
    let mut model = None;
    while let Some(arg) = parser.next()? {
        match args::long(&arg)?.as_str() {
            "port" => port = Some(args::number(&mut parser, "port")?),
            "model" => model = Some(ModelSource::parse(&args::text(&mut parser)?)?),
            name => return Err(args::unknown("demo", name)),
        }
    }
    let ready = setup::all()?;
    build::fast(&ready.wasm)?;
    let model = model.unwrap_or(ModelSource::File(ready.model));
    let config = json!({ "dist": paths::at_root("dist"), "model": model.to_json(), "port": port });
    process::become_program(process::node_script("demo.mjs").arg(config.to_string()))
}
