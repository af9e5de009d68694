//! `chat` and `score`: the npm package in headless Chromium, driven by a Node script.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use lexopt::Parser;
use serde_json::{Map, Value, json};

use crate::args::{self, ModelSource};
use crate::{build, paths, process, setup};

/// Options that `chat` and `score` share.
#[derive(Default)]
struct Common {
    model: Option<ModelSource>,
    load: Map<String, Value>,
    json: bool,
    json_file: Option<PathBuf>,
}

impl Common {
    /// Takes in one option; false when it is none of these.
    fn read(&mut self, name: &str, parser: &mut Parser) -> Result<bool> {
        match name {
            "model" => self.model = Some(ModelSource::parse(&args::text(parser)?)?),
            "backend" => self.set(
                "backend",
                args::one_of(parser, name, &["cpu", "webgpu"])?.into(),
            ),
            "precision" => {
                self.set(
                    "precision",
                    args::one_of(parser, name, &["exact", "fast"])?.into(),
                );
            }
            "context-length" => {
                self.set("contextLength", args::number::<u32>(parser, name)?.into())
            }
            "threads" => self.set("threads", args::number::<u32>(parser, name)?.into()),
            "browser" => drop(args::one_of(parser, name, &["chromium"])?),
            "json" => self.json = true,
            "json-file" => self.json_file = Some(std::path::absolute(args::text(parser)?)?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn set(&mut self, key: &str, value: Value) {
        self.load.insert(key.to_owned(), value);
    }

    /// Sets up, builds and becomes the script with this task.
    fn run(self, task: Value) -> Result<()> {
        let ready = setup::all()?;
        build::package(
            &ready.wasm,
            build::Kind::Fast,
            &[
                build::Module::Engine,
                build::Module::Relaxed,
                build::Module::Threads,
                build::Module::Compat,
            ],
        )?;
        let model = self.model.unwrap_or(ModelSource::File(ready.model));
        let config = json!({
            "chromium": ready.chromium,
            "pkg": paths::at_root("pkg"),
            "model": model.to_json(),
            "load": self.load,
            "task": task,
            "json": self.json,
            "jsonFile": self.json_file,
        });
        process::become_program(process::node_script("drive.mjs").arg(config.to_string()))
    }
}

/// `cargo xtask chat`.
pub(crate) fn chat(mut parser: Parser) -> Result<()> {
    let mut common = Common::default();
    let mut options = Map::new();
    let mut stop = Vec::new();
    let mut input = None;
    while let Some(arg) = parser.next()? {
        let name = args::long(&arg)?;
        let value = match name.as_str() {
            "prompt" | "raw" | "messages" => {
                if input.replace(read_input(&name, &mut parser)?).is_some() {
                    bail!("give one of --prompt, --raw and --messages");
                }
                continue;
            }
            "stop" => {
                stop.push(Value::from(args::text(&mut parser)?));
                continue;
            }
            "schema" => {
                let path = args::text(&mut parser)?;
                let schema: Value = serde_json::from_str(&read_file(Path::new(&path))?)
                    .with_context(|| format!("`{path}` is not JSON"))?;
                let format = json!({ "type": "json_schema", "schema": schema });
                options.insert("responseFormat".into(), format);
                continue;
            }
            "ignore-eos" => Value::Bool(true),
            "max-tokens" | "top-k" | "seed" | "logprobs" => {
                args::number::<u64>(&mut parser, &name)?.into()
            }
            "temperature" | "top-p" | "min-p" | "repetition-penalty" | "frequency-penalty"
            | "presence-penalty" => args::number::<f64>(&mut parser, &name)?.into(),
            _ if common.read(&name, &mut parser)? => continue,
            _ => return Err(args::unknown("chat", &name)),
        };
        options.insert(camel_case(&name), value);
    }
    if !stop.is_empty() {
        options.insert("stop".into(), stop.into());
    }
    let input = input.context("`chat` needs --prompt TEXT, --raw TEXT or --messages FILE")?;
    common.run(json!({ "kind": "chat", "input": input, "options": options }))
}

/// `cargo xtask score`.
pub(crate) fn score(mut parser: Parser) -> Result<()> {
    let mut common = Common::default();
    let mut input = None;
    while let Some(arg) = parser.next()? {
        let name = args::long(&arg)?;
        let value = match name.as_str() {
            "text-file" => read_file(Path::new(&args::text(&mut parser)?))?.into(),
            "ids-file" => read_json(Path::new(&args::text(&mut parser)?), is_id, "token ids")?,
            _ if common.read(&name, &mut parser)? => continue,
            _ => return Err(args::unknown("score", &name)),
        };
        if input.replace(value).is_some() {
            bail!("give one of --text-file and --ids-file");
        }
    }
    let input = input.context("`score` needs --text-file FILE or --ids-file FILE")?;
    common.run(json!({ "kind": "score", "input": input }))
}

/// What to generate from: a string is a raw prompt, messages go through the template.
fn read_input(name: &str, parser: &mut Parser) -> Result<Value> {
    let value = args::text(parser)?;
    match name {
        "raw" => Ok(value.into()),
        "prompt" => Ok(json!([{ "role": "user", "content": value }])),
        _ => read_json(Path::new(&value), is_message, "{ role, content } objects"),
    }
}

fn read_file(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read `{}`", path.display()))
}

/// A JSON array whose elements all pass.
fn read_json(path: &Path, fits: fn(&Value) -> bool, what: &str) -> Result<Value> {
    let value: Value = serde_json::from_str(&read_file(path)?)
        .with_context(|| format!("`{}` is not JSON", path.display()))?;
    if !value.as_array().is_some_and(|list| list.iter().all(fits)) {
        bail!("`{}` is not a JSON array of {what}", path.display());
    }
    Ok(value)
}

fn is_id(value: &Value) -> bool {
    value.as_u64().is_some_and(|id| u32::try_from(id).is_ok())
}

fn is_message(value: &Value) -> bool {
    value["role"].is_string() && value["content"].is_string()
}

/// `max-tokens` to `maxTokens`: the package's name of an option.
fn camel_case(name: &str) -> String {
    let mut words = name.split('-');
    let mut camel = words.next().unwrap_or_default().to_owned();
    for word in words {
        let (first, rest) = word.split_at(1);
        camel += &first.to_ascii_uppercase();
        camel += rest;
    }
    camel
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn camel_case_gives_the_packages_option_names() {
        assert_eq!(camel_case("ignore-eos"), "ignoreEos");
        assert_eq!(camel_case("top-k"), "topK");
        assert_eq!(camel_case("seed"), "seed");
    }

    #[test]
    fn chat_rejects_two_inputs() {
        let args = ["--prompt", "a", "--raw", "b"];
        let error = chat(Parser::from_args(args)).unwrap_err().to_string();
        assert_eq!(error, "give one of --prompt, --raw and --messages");
    }

    #[test]
    fn chat_rejects_an_option_that_it_does_not_have() {
        let error = chat(Parser::from_args(["--temprature", "0"]))
            .unwrap_err()
            .to_string();
        let want = "`chat` has no option --temprature; `cargo xtask help` lists them";
        assert_eq!(error, want);
    }

    #[test]
    fn messages_and_ids_are_checked_element_by_element() {
        assert!(is_message(&json!({ "role": "user", "content": "hi" })));
        assert!(!is_message(&json!({ "role": "user" })));
        assert!(is_id(&json!(49151)));
        assert!(!is_id(&json!(-1)) && !is_id(&json!(4_294_967_296_u64)) && !is_id(&json!("7")));
    }
}
