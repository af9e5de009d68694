//! Small helpers over `lexopt`, shared by the commands.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use lexopt::{Arg, Parser, ValueExt};

/// Fails on the first argument that is left: for commands without options.
pub(crate) fn nothing_left(mut parser: Parser) -> Result<()> {
    match parser.next()? {
        Some(arg) => Err(arg.unexpected().into()),
        None => Ok(()),
    }
}

/// The option's value as text.
pub(crate) fn text(parser: &mut Parser) -> Result<String> {
    Ok(parser.value()?.string()?)
}

/// The option's value as a number; `name` is the option, for the message.
pub(crate) fn number<T: std::str::FromStr>(parser: &mut Parser, name: &str) -> Result<T> {
    let value = text(parser)?;
    match value.parse() {
        Ok(number) => Ok(number),
        Err(_) => bail!("--{name} takes a number, not `{value}`"),
    }
}

/// The option's value where it must be one of a few words.
pub(crate) fn one_of(parser: &mut Parser, name: &str, words: &[&str]) -> Result<String> {
    let value = text(parser)?;
    if !words.contains(&value.as_str()) {
        bail!("--{name} takes {}, not `{value}`", words.join(" or "));
    }
    Ok(value)
}

/// Where a model comes from.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ModelSource {
    File(PathBuf),
    Url(String),
}

impl ModelSource {
    /// Reads the value of `--model`: anything with an http(s) scheme is an URL.
    pub(crate) fn parse(value: &str) -> Result<Self> {
        if value.starts_with("http://") || value.starts_with("https://") {
            return Ok(Self::Url(value.to_owned()));
        }
        let path = std::path::absolute(value)?;
        let meta = std::fs::metadata(&path)
            .with_context(|| format!("cannot read the model `{}`", path.display()))?;
        if !meta.is_file() {
            bail!("the model `{}` is not a file", path.display());
        }
        Ok(Self::File(path))
    }

    /// `{ file }` or `{ url }`, for the Node scripts.
    pub(crate) fn to_json(&self) -> serde_json::Value {
        match self {
            Self::File(path) => serde_json::json!({ "file": path }),
            Self::Url(url) => serde_json::json!({ "url": url }),
        }
    }
}

/// The option's long name, or an error for anything that is not a long option.
pub(crate) fn long(arg: &Arg<'_>) -> Result<String> {
    match arg {
        Arg::Long(name) => Ok((*name).to_owned()),
        Arg::Short(letter) => bail!("there is no option -{letter}; `cargo xtask help` lists them"),
        Arg::Value(value) => bail!("unexpected argument `{}`", value.to_string_lossy()),
    }
}

/// The error for an option that a command does not have.
pub(crate) fn unknown(command: &str, name: &str) -> anyhow::Error {
    anyhow::anyhow!("`{command}` has no option --{name}; `cargo xtask help` lists them")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parser(args: &[&str]) -> Parser {
        Parser::from_args(args.iter().copied())
    }

    #[test]
    fn number_names_the_option_when_the_value_is_no_number() {
        let mut p = parser(&["--port", "x"]);
        p.next().unwrap();
        let error = number::<u16>(&mut p, "port").unwrap_err().to_string();
        assert_eq!(error, "--port takes a number, not `x`");
    }

    #[test]
    fn one_of_rejects_a_word_outside_the_list() {
        let mut p = parser(&["--backend", "cuda"]);
        p.next().unwrap();
        let error = one_of(&mut p, "backend", &["cpu", "webgpu"])
            .unwrap_err()
            .to_string();
        assert_eq!(error, "--backend takes cpu or webgpu, not `cuda`");
    }

    #[test]
    fn model_source_tells_urls_from_files() {
        let url = "https://example.org/m.gguf";
        assert_eq!(
            ModelSource::parse(url).unwrap(),
            ModelSource::Url(url.to_owned())
        );
        let error = ModelSource::parse("/no/such/m.gguf")
            .unwrap_err()
            .to_string();
        assert_eq!(error, "cannot read the model `/no/such/m.gguf`");
    }
}
