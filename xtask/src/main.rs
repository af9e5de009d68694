//! Automation of this repository; `cargo xtask help` lists the commands.

mod args;
mod bench;
mod build;
mod demo;
mod drive;
mod mock;
mod paths;
mod process;
mod setup;
mod stamp;
mod test;
mod wasm;

use std::process::ExitCode;

const USAGE: &str = "\
Usage: cargo xtask COMMAND [OPTIONS]

  setup                 install what building needs; repeat it freely
  build [--fast]        the npm package in pkg/ and the pages in dist/, with sizes;
                        --fast leaves out link-time optimization and wasm-opt,
                        --only engine or streaming makes one wasm module anew and no pages
  demo [--port N]       set up, build, then serve the pages and print the address
  mock [--port N]       the mock server's scenarios over HTTP, for curl -N
  test [FILTER]         set up, then run all checks and tests
       --native           no browser tests
       --browser-only     only the build and the browser tests
  chat                  one generation in headless Chromium, tokens as they arrive
       --prompt TEXT      a user message, through the model's chat template
       --raw TEXT         a prompt as it stands
       --messages FILE    a JSON array of { role, content }
       --max-tokens N --temperature X --top-k N --top-p X --min-p X --seed N
       --repetition-penalty X --frequency-penalty X --presence-penalty X --logprobs N
       --stop TEXT        may be repeated
       --schema FILE      a JSON schema that the answer is held to
       --ignore-eos       keep going past end tokens
  score                 teacher-forced log-probabilities
       --text-file FILE   text to score
       --ids-file FILE    a JSON array of token ids to score
  bench                 speed, load time and memory in headless Chromium, as a table
        --suite engine     this engine by itself, and where its time goes
        --suite lab        the lab page's waits and streams, through its service worker
        --suite peers      beside other engines, which npm installs first
        --threads N,N --prompts N,N --engines NAME,NAME --samples N
        --model NAME       smollm2-q4_1, -q4_0, -q8_0 or -q4_k_m, or gemma; made where missing
        --onnx FOLDER      weights for ONNX Runtime, as benches/peers/export_onnx.py makes them
        --native-python P  a Python that has llama-cpp-python: llama.cpp without a browser too
        --fast             without link-time optimization and wasm-opt
        --write-results    the tables into benches/RESULTS.md
        --report FILE      what `--json-file` has kept, in place of measuring (repeatable)
  help                  this text

Options of demo, chat, score and bench (which takes several):
  --model FILE|URL      instead of the default model
Options of chat and score, and the last two of bench:
  --backend cpu|webgpu  --precision exact|fast  --context-length N
  --threads N           chat and score, on the CPU
  --browser chromium    bench --suite peers also takes firefox
  --json                one JSON object on stdout, everything else on stderr
  --json-file FILE      the JSON object into a file

Environment:
  TOKENBROOK_CHROMIUM   the browser to drive, where it is not found by itself
  TOKENBROOK_FIREFOX    the second browser of the tests
  XDG_CACHE_HOME        where the model and the compiler's pieces are kept (~/.cache)
";

fn main() -> ExitCode {
    match run() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> anyhow::Result<ExitCode> {
    let mut parser = lexopt::Parser::from_env();
    let command = match parser.next()? {
        Some(lexopt::Arg::Value(value)) => value.to_string_lossy().into_owned(),
        Some(lexopt::Arg::Short('h') | lexopt::Arg::Long("help")) => "help".into(),
        Some(other) => return Err(other.unexpected().into()),
        None => "help".into(),
    };
    match command.as_str() {
        "setup" => setup::command(parser)?,
        "bench" => bench::command(parser)?,
        "build" => build::command(parser)?,
        "demo" => demo::command(parser)?,
        "mock" => mock::command(parser)?,
        "test" => return test::command(parser),
        "chat" => drive::chat(parser)?,
        "score" => drive::score(parser)?,
        "help" => process::print(USAGE)?,
        other => anyhow::bail!("there is no command `{other}`; `cargo xtask help` lists them"),
    }
    Ok(ExitCode::SUCCESS)
}
