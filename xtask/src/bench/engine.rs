//! `bench --suite engine`: speed of the engine by itself in headless Chromium, and where its time
//! goes.

use std::path::PathBuf;

use anyhow::{Result, bail};
use lexopt::Parser;
use serde_json::{Map, Value, json};

use crate::args::{self, ModelSource};
use crate::{build, paths, process, setup};

/// Runs of each measurement; the median counts.
const SAMPLES: u32 = 5;

/// What the command line asks for.
struct Options {
    model: Option<ModelSource>,
    load: Map<String, Value>,
    samples: u32,
    json: bool,
    json_file: Option<PathBuf>,
}

/// `cargo xtask bench --suite engine`.
pub(crate) fn command(parser: Parser) -> Result<()> {
    let options = read(parser)?;
    let ready = setup::all()?;
    build::package(&ready.wasm, build::Kind::Fast, &build::Module::ALL)?;
    let model = options.model.unwrap_or(ModelSource::File(ready.model));
    let config = json!({
        "chromium": ready.chromium,
        "pkg": paths::at_root("pkg"),
        "model": model.to_json(),
        "load": options.load,
        "samples": options.samples,
        "json": options.json,
        "jsonFile": options.json_file,
    });
    process::become_program(process::node_script("bench-engine.mjs").arg(config.to_string()))
}

fn read(mut parser: Parser) -> Result<Options> {
    let mut options = Options {
        model: None,
        load: Map::from_iter([("backend".to_owned(), "webgpu".into())]),
        samples: SAMPLES,
        json: false,
        json_file: None,
    };
    while let Some(arg) = parser.next()? {
        let name = args::long(&arg)?;
        match name.as_str() {
            "suite" => drop(args::one_of(&mut parser, &name, &["engine"])?),
            "model" => options.model = Some(ModelSource::parse(&args::text(&mut parser)?)?),
            "backend" => {
                let backend = args::one_of(&mut parser, &name, &["webgpu", "cpu"])?;
                options.load.insert(name, backend.into());
            }
            "precision" => {
                let precision = args::one_of(&mut parser, &name, &["exact", "fast"])?;
                options.load.insert(name, precision.into());
            }
            "samples" => {
                options.samples = args::number(&mut parser, &name)?;
                if options.samples == 0 {
                    bail!("--samples takes 1 or more");
                }
            }
            "browser" => drop(args::one_of(&mut parser, &name, &["chromium"])?),
            "json" => options.json = true,
            "json-file" => {
                options.json_file = Some(std::path::absolute(args::text(&mut parser)?)?);
            }
            _ => return Err(args::unknown("bench", &name)),
        }
    }
    Ok(options)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_given_has_its_default() {
        let read = |args: &[&str]| read(Parser::from_args(args.iter().copied()));
        let plain = read(&[]).unwrap();
        assert_eq!(
            (plain.load["backend"].as_str(), plain.samples),
            (Some("webgpu"), SAMPLES)
        );
        let given = read(&["--suite", "engine", "--backend", "cpu", "--samples", "2"]).unwrap();
        assert_eq!(
            (given.load["backend"].as_str(), given.samples),
            (Some("cpu"), 2)
        );
        assert!(read(&["--samples", "0"]).is_err());
        assert!(read(&["--prompts", "3"]).is_err());
    }
}
