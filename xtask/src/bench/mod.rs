//! `bench`: what is measured in a headless browser, as a table and as JSON with raw samples.

mod candle;
mod engine;
mod lab;
mod models;
mod peers;
mod report;
mod results;

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use lexopt::Parser;
use serde_json::Value;

use models::Wanted;

use crate::args;
use crate::process;

/// A suite by its name; the first is what runs when none is named.
struct Suite {
    name: &'static str,
    /// The options that it knows, beside those that every suite does.
    takes: &'static [&'static str],
    run: fn(&Options) -> Result<Measured>,
}

/// What a suite found: for programs, and for people.
struct Measured {
    json: Value,
    table: String,
}

const SUITES: &[Suite] = &[
    Suite {
        name: "peers",
        takes: peers::OPTIONS,
        run: peers::run,
    },
    Suite {
        name: "engine",
        takes: engine::OPTIONS,
        run: engine::run,
    },
    Suite {
        name: "lab",
        takes: &[],
        run: lab::run,
    },
];

/// Options of every suite.
const COMMON: &[&str] = &["suite", "browser", "json", "json-file"];

/// A median of fewer says little.
const SAMPLES: u32 = 5;

/// What the command line asks for. An empty list leaves the choice to the suite.
#[derive(Debug)]
struct Options {
    models: Vec<Wanted>,
    threads: Vec<u32>,
    prompts: Vec<u32>,
    engines: Vec<String>,
    samples: u32,
    backend: Option<String>,
    precision: Option<String>,
    browser: String,
    onnx: Option<PathBuf>,
    native_python: Option<PathBuf>,
    fast: bool,
    json: bool,
    json_file: Option<PathBuf>,
    write_results: bool,
    /// Files of earlier runs.
    reports: Vec<PathBuf>,
}

/// `cargo xtask bench`.
pub(crate) fn command(parser: Parser) -> Result<()> {
    let (suite, options) = read(parser)?;
    let Measured { json, table } = (suite.run)(&options)?;
    let json = serde_json::to_string(&json)? + "\n";
    if let Some(file) = &options.json_file {
        fs::write(file, &json).with_context(|| format!("cannot write `{}`", file.display()))?;
    }
    if options.json {
        eprint!("{table}");
        return process::print(&json);
    }
    process::print(&table)
}

fn read(mut parser: Parser) -> Result<(&'static Suite, Options)> {
    let mut suite = &SUITES[0];
    let mut given = Vec::new();
    let mut options = Options {
        models: Vec::new(),
        threads: Vec::new(),
        prompts: Vec::new(),
        engines: Vec::new(),
        samples: SAMPLES,
        backend: None,
        precision: None,
        browser: "chromium".to_owned(),
        onnx: None,
        native_python: None,
        fast: false,
        json: false,
        json_file: None,
        write_results: false,
        reports: Vec::new(),
    };
    while let Some(arg) = parser.next()? {
        let name = args::long(&arg)?;
        if name == "suite" {
            suite = named(&args::text(&mut parser)?)?;
        } else if !options.set(&name, &mut parser)? {
            return Err(args::unknown("bench", &name));
        }
        given.push(name);
    }
    for name in given {
        if ![COMMON, suite.takes].concat().contains(&name.as_str()) {
            bail!("the suite `{}` has no option --{name}", suite.name);
        }
    }
    Ok((suite, options))
}

impl Options {
    /// Takes the value of an option; whether there is one of this name.
    fn set(&mut self, name: &str, parser: &mut Parser) -> Result<bool> {
        match name {
            "model" => self.models.push(Wanted::parse(&args::text(parser)?)?),
            "threads" => self.threads = numbers(parser, name)?,
            "prompts" => self.prompts = numbers(parser, name)?,
            "engines" => self.engines = args::text(parser)?.split(',').map(str::to_owned).collect(),
            "samples" => self.samples = one_or_more(args::number(parser, name)?, name)?,
            "backend" => self.backend = Some(args::one_of(parser, name, &["cpu", "webgpu"])?),
            "precision" => self.precision = Some(args::one_of(parser, name, &["exact", "fast"])?),
            "browser" => self.browser = args::one_of(parser, name, &["chromium", "firefox"])?,
            "onnx" => self.onnx = Some(std::path::absolute(args::text(parser)?)?),
            "native-python" => self.native_python = Some(args::text(parser)?.into()),
            "fast" => self.fast = true,
            "json" => self.json = true,
            "json-file" => self.json_file = Some(std::path::absolute(args::text(parser)?)?),
            "write-results" => self.write_results = true,
            "report" => self.reports.push(args::text(parser)?.into()),
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// Runs a script that measures in Chromium only and prints `{ …, table }`.
fn in_chromium(script: &str, options: &Options, config: &Value) -> Result<Measured> {
    if options.browser != "chromium" {
        bail!("this suite runs in chromium only");
    }
    let mut script = process::node_script(script);
    let measured = process::output_or_words(script.arg(config.to_string()))?;
    let mut json: Value = serde_json::from_str(&measured).context("the script gave no JSON")?;
    let table = json.as_object_mut().and_then(|map| map.remove("table"));
    let table = table.as_ref().and_then(Value::as_str).unwrap_or_default();
    Ok(Measured {
        table: table.to_owned(),
        json,
    })
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
            (
                ["--suite", "speed"],
                "--suite takes peers or engine or lab, not `speed`",
            ),
            (["--samples", "0"], "--samples takes 1 or more"),
            (
                ["--threads", "1,x"],
                "--threads takes numbers with commas between, not `1,x`",
            ),
            (
                ["--suite=engine", "--fast"],
                "the suite `engine` has no option --fast",
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
