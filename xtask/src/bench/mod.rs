//! `bench`: what is measured in a headless browser, as a table and as JSON with raw samples.

mod engine;
mod peers;
mod report;
mod results;

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use lexopt::Parser;

use crate::args::{self, ModelSource};
use crate::process;
use report::Report;

/// A suite by its name; the first is what runs when none is named.
struct Suite {
    name: &'static str,
    run: fn(&Options) -> Result<Report>,
}

const SUITES: &[Suite] = &[Suite {
    name: "peers",
    run: peers::run,
}];

/// A median of fewer says little.
const SAMPLES: u32 = 5;

/// What the command line asks for. An empty list leaves the choice to the suite.
#[derive(Debug)]
struct Options {
    models: Vec<ModelSource>,
    threads: Vec<u32>,
    prompts: Vec<u32>,
    engines: Vec<String>,
    samples: u32,
    fast: bool,
    json: bool,
    json_file: Option<PathBuf>,
    write_results: bool,
}

/// `cargo xtask bench`.
pub(crate) fn command(mut parser: Parser) -> Result<()> {
    let args: Vec<OsString> = parser.raw_args()?.collect();
    if is_of_engine(&args) {
        return engine::command(Parser::from_args(args));
    }
    let (suite, options) = read(Parser::from_args(args))?;
    let report = (suite.run)(&options)?;
    let json = serde_json::to_string(report.json())? + "\n";
    if let Some(file) = &options.json_file {
        fs::write(file, &json).with_context(|| format!("cannot write `{}`", file.display()))?;
    }
    if options.write_results {
        results::write(suite.name, &report)?;
    }
    let table = report.table();
    if options.json {
        eprint!("{table}");
        return process::print(&json);
    }
    process::print(&table)
}

/// The suite with options of its own, which it reads itself.
fn is_of_engine(args: &[OsString]) -> bool {
    args.windows(2).any(|pair| pair == ["--suite", "engine"])
        || args.iter().any(|arg| arg == "--suite=engine")
}

fn read(mut parser: Parser) -> Result<(&'static Suite, Options)> {
    let mut suite = &SUITES[0];
    let mut options = Options {
        models: Vec::new(),
        threads: Vec::new(),
        prompts: Vec::new(),
        engines: Vec::new(),
        samples: SAMPLES,
        fast: false,
        json: false,
        json_file: None,
        write_results: false,
    };
    while let Some(arg) = parser.next()? {
        let name = args::long(&arg)?;
        match name.as_str() {
            "suite" => suite = named(&args::text(&mut parser)?)?,
            "model" => {
                let source = ModelSource::parse(&args::text(&mut parser)?)?;
                options.models.push(source);
            }
            "threads" => options.threads = numbers(&mut parser, &name)?,
            "prompts" => options.prompts = numbers(&mut parser, &name)?,
            "engines" => {
                let list = args::text(&mut parser)?;
                options.engines = list.split(',').map(str::to_owned).collect();
            }
            "samples" => options.samples = one_or_more(args::number(&mut parser, &name)?, &name)?,
            "browser" => drop(args::one_of(&mut parser, &name, &["chromium"])?),
            "fast" => options.fast = true,
            "json" => options.json = true,
            "json-file" => {
                options.json_file = Some(std::path::absolute(args::text(&mut parser)?)?);
            }
            "write-results" => options.write_results = true,
            _ => return Err(args::unknown("bench", &name)),
        }
    }
    Ok((suite, options))
}

fn named(name: &str) -> Result<&'static Suite> {
    let names: Vec<&str> = SUITES.iter().map(|suite| suite.name).collect();
    let found = SUITES.iter().find(|suite| suite.name == name);
    found.with_context(|| format!("--suite takes {}, not `{name}`", names.join(" or ")))
}

/// Numbers with commas between, each at least 1.
fn numbers(parser: &mut Parser, name: &str) -> Result<Vec<u32>> {
    let list = args::text(parser)?;
    let number = |text: &str| match text.parse() {
        Ok(number) => one_or_more(number, name),
        Err(_) => bail!("--{name} takes numbers with commas between, not `{list}`"),
    };
    list.split(',').map(number).collect()
}

fn one_or_more(number: u32, name: &str) -> Result<u32> {
    if number == 0 {
        bail!("--{name} takes 1 or more");
    }
    Ok(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(args: &[&str]) -> Result<Options> {
        read(Parser::from_args(args.iter().copied())).map(|(_, options)| options)
    }

    #[test]
    fn lists_are_read_in_order_and_defaults_stay() {
        let read = options(&["--threads", "2,1", "--engines", "a,b", "--write-results"]).unwrap();
        assert_eq!(read.threads, [2, 1]);
        assert_eq!(read.engines, ["a", "b"]);
        assert!(read.prompts.is_empty() && read.models.is_empty());
        assert_eq!((read.samples, read.write_results), (SAMPLES, true));
    }

    #[test]
    fn wrong_values_are_named() {
        for (args, want) in [
            (["--suite", "speed"], "--suite takes peers, not `speed`"),
            (["--samples", "0"], "--samples takes 1 or more"),
            (
                ["--threads", "1,x"],
                "--threads takes numbers with commas between, not `1,x`",
            ),
            (
                ["--thread", "1"],
                "`bench` has no option --thread; `cargo xtask help` lists them",
            ),
        ] {
            assert_eq!(options(&args).unwrap_err().to_string(), want);
        }
    }
}
