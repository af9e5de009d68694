//! `bench --suite lab`: the lab page's own run, in headless Chromium through its service worker.

use std::path::PathBuf;

use anyhow::Result;
use lexopt::Parser;
use serde_json::json;

use crate::args;
use crate::{build, paths, process, setup};

/// What the command line asks for.
#[derive(Debug, Default)]
struct Options {
    json: bool,
    json_file: Option<PathBuf>,
}

/// `cargo xtask bench --suite lab`.
pub(crate) fn command(parser: Parser) -> Result<()> {
    let options = read(parser)?;
    let ready = setup::all()?;
    build::fast(&ready.wasm)?;
    let config = json!({
        "chromium": ready.chromium,
        "dist": paths::at_root("dist"),
        "json": options.json,
        "jsonFile": options.json_file,
    });
    process::become_program(process::node_script("bench-lab.mjs").arg(config.to_string()))
}

fn read(mut parser: Parser) -> Result<Options> {
    let mut options = Options::default();
    while let Some(arg) = parser.next()? {
        let name = args::long(&arg)?;
        match name.as_str() {
            "suite" => drop(args::one_of(&mut parser, &name, &["lab"])?),
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
    fn takes_the_common_options_and_no_others() {
        let read = |args: &[&str]| read(Parser::from_args(args.iter().copied()));
        let given = read(&["--suite", "lab", "--json", "--json-file", "/x.json"]).unwrap();
        assert!(given.json);
        assert_eq!(given.json_file, Some("/x.json".into()));
        assert!(!read(&[]).unwrap().json);
        assert!(read(&["--model", "x.gguf"]).is_err());
    }
}
