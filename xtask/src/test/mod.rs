//! `test`: all checks and tests in order, up to the first that fails, then one line
//! that counts them.

mod summary;

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::build::{self, Kind, Module, package};
use crate::setup::{self, Ready};
use crate::{args, paths, process};
use summary::Counts;

/// Native builds have the compat part beside the rest; the wasm32 builds have one each.
const COMPAT: &str = "tokenbrook/compat";

/// The workspace but for what only `bench` builds, and only for wasm32.
const TESTED: [&str; 3] = ["--workspace", "--exclude", "candle-peer"];

/// Which part of the tests to run.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Part {
    All,
    Native,
    Browser,
}

struct Options {
    part: Part,
    filter: Option<String>,
}

/// `cargo xtask test`. Exits with a failure when any step failed.
pub(crate) fn command(mut parser: lexopt::Parser) -> Result<ExitCode> {
    let mut options = Options {
        part: Part::All,
        filter: None,
    };
    while let Some(arg) = parser.next()? {
        if let lexopt::Arg::Value(value) = arg {
            options.filter = Some(value.to_string_lossy().into_owned());
            continue;
        }
        options.part = match args::long(&arg)?.as_str() {
            "native" => Part::Native,
            "browser-only" => Part::Browser,
            name => return Err(args::unknown("test", name)),
        };
    }
    let mut run = Run {
        counts: Counts::default(),
        start: Instant::now(),
    };
    let outcome = setup::for_tests().and_then(|ready| run.steps(&ready, &options));
    if let Err(error) = &outcome {
        eprintln!("error: {error:#}");
        // A step that failed without a failed test still has to be seen in the count.
        if run.counts.failed == 0 {
            run.counts.failed = 1;
        }
    }
    process::print(&run.counts.line())?;
    Ok(if outcome.is_ok() && run.counts.failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

struct Run {
    counts: Counts,
    start: Instant,
}

impl Run {
    fn steps(&mut self, ready: &Ready, options: &Options) -> Result<()> {
        if options.part != Part::Browser {
            self.native(ready, options)?;
        }
        if options.part == Part::Native {
            return Ok(());
        }
        self.step("build", |_| {
            build::fast(&ready.wasm)?;
            build::print_sizes(Kind::Fast)
        })?;
        self.step("type check", |_| type_check())?;
        self.step("script tests", script_tests)?;
        self.step("browser tests", |counts| {
            browser_tests(ready, options, counts)
        })
    }

    fn native(&mut self, ready: &Ready, options: &Options) -> Result<()> {
        self.step("format", |_| {
            process::run(cargo().args(["fmt", "--all", "--check"]))
        })?;
        self.step("clippy", |_| {
            let mut clippy = cargo();
            clippy.arg("clippy").args(TESTED);
            clippy.args([
                "--all-targets",
                "--features",
                COMPAT,
                "--",
                "-D",
                "warnings",
            ]);
            process::run(&mut clippy)
        })?;
        self.step("clippy without the engine", |_| {
            let mut clippy = cargo();
            clippy.args(["clippy", "--package", "tokenbrook", "--lib"]);
            clippy.args(crate::wasm::STREAMING);
            process::run(clippy.args(["--", "-D", "warnings"]))
        })?;
        for module in Module::ALL {
            self.step(&format!("clippy for wasm32, {}", module.name()), |_| {
                let mut clippy = ready.wasm.clippy();
                clippy.args(["--package", "tokenbrook", "--lib"]);
                clippy.args(module.clippy_features());
                clippy.args(["--target", crate::wasm::TARGET]);
                // The build's own profile: macros and build scripts are compiled once for both.
                clippy.args(["--profile", module.profile(Kind::Fast)]);
                process::run(clippy.args(["--", "-D", "warnings"]))
            })?;
        }
        self.step("documentation", |_| {
            let mut doc = cargo();
            doc.arg("doc").args(TESTED);
            doc.args(["--no-deps", "--features", COMPAT])
                .env("RUSTDOCFLAGS", "-D warnings");
            process::run(&mut doc)
        })?;
        self.step("native tests", |counts| {
            let mut test = cargo();
            test.arg("test").args(TESTED);
            test.args(["--no-fail-fast", "--features", COMPAT]);
            test.env("TOKENBROOK_MODEL", &ready.model);
            count(test.arg("--").args(&options.filter), counts)
        })
    }

    fn step(&mut self, name: &str, work: impl FnOnce(&mut Counts) -> Result<()>) -> Result<()> {
        eprintln!("== {name}");
        let start = Instant::now();
        let outcome = work(&mut self.counts);
        let verdict = if outcome.is_ok() { "passed" } else { "FAILED" };
        let (took, total) = (
            start.elapsed().as_secs_f64(),
            self.start.elapsed().as_secs_f64(),
        );
        eprintln!("== {name}: {verdict} in {took:.1} s ({total:.0} s in all)");
        outcome.with_context(|| name.to_owned())
    }
}

fn cargo() -> Command {
    let mut command = Command::new("cargo");
    command.current_dir(paths::root());
    command
}

/// Every TypeScript project of the checkout.
fn type_check() -> Result<()> {
    for project in ["js", "js/node", "www", "tests/browser"] {
        if paths::at_root(project).join("tsconfig.json").exists() {
            process::run(package::tsc(project).arg("--noEmit"))?;
        }
    }
    Ok(())
}

/// Tests that Node runs by itself: the pages' logic and the servers.
fn script_tests(counts: &mut Counts) -> Result<()> {
    let mut pages = Command::new("node");
    pages.current_dir(paths::root()).arg("www/test/run.mjs");
    count(&mut pages, counts)?;
    let mut server = Command::new("node");
    server.current_dir(paths::root()).args([
        "--test",
        "xtask/node/serve.test.mjs",
        "xtask/node/mock-server.test.mjs",
    ]);
    count(&mut server, counts)
}

/// Runs Playwright against the package as npm would publish it.
fn browser_tests(ready: &Ready, options: &Options, counts: &mut Counts) -> Result<()> {
    let tarball = pack()?;
    let mut playwright = Command::new("node");
    playwright.current_dir(paths::root());
    playwright.args([
        "node_modules/@playwright/test/cli.js",
        "test",
        "-c",
        "tests/browser",
    ]);
    playwright.args(["--reporter", "list"]);
    if let Some(filter) = &options.filter {
        // A filter may name native tests only.
        playwright.args(["--grep", filter, "--pass-with-no-tests"]);
    }
    playwright.env("TOKENBROOK_CHROMIUM", &ready.chromium);
    playwright.env("TOKENBROOK_MODEL", &ready.model);
    playwright.env("TOKENBROOK_TARBALL", &tarball);
    playwright.env("TOKENBROOK_PACKAGE", tarball.with_file_name("package"));
    count(&mut playwright, counts)
}

/// Packs `pkg/` and unpacks it again beside the tarball; gives the tarball's path.
fn pack() -> Result<std::path::PathBuf> {
    let folder = paths::at_root("target/packed");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    let mut npm = Command::new("npm");
    npm.current_dir(paths::root())
        .args(["pack", "./pkg", "--silent", "--pack-destination"]);
    let name = process::output_or_words(npm.arg(&folder))?;
    let name = name.lines().last().context("npm pack named no tarball")?;
    let tarball = folder.join(name);
    process::run(
        Command::new("tar")
            .arg("-xzf")
            .arg(&tarball)
            .arg("-C")
            .arg(&folder),
    )?;
    Ok(tarball)
}

/// Runs a test program, passing its stdout on line by line while counting.
fn count(command: &mut Command, counts: &mut Counts) -> Result<()> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start `{}`", process::describe(command)))?;
    let stdout = child
        .stdout
        .take()
        .context("the test program has no stdout")?;
    for line in BufReader::new(stdout).split(b'\n') {
        let line = String::from_utf8_lossy(&line?).into_owned();
        counts.read_line(line.trim_end());
        process::print(&(line + "\n"))?;
    }
    let status = child.wait()?;
    if !status.success() {
        bail!("`{}` failed ({status})", process::describe(command));
    }
    Ok(())
}
