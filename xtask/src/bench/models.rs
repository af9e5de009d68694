//! Models by name: the default one, its requantizations, and Gemma 3.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Result, bail};

use crate::args::ModelSource;
use crate::stamp::{self, Inputs};
use crate::{paths, process, setup};

/// What `--model` may name beside files and addresses.
const NAMES: [(&str, Named); 5] = [
    ("smollm2-q4_1", Named::Default),
    ("smollm2-q4_0", Named::Requantized("Q4_0")),
    ("smollm2-q8_0", Named::Requantized("Q8_0")),
    ("smollm2-q4_k_m", Named::Requantized("Q4_K_M")),
    ("gemma", Named::Gemma),
];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Named {
    Default,
    /// The default model's weights in another quantization.
    Requantized(&'static str),
    Gemma,
}

/// A model that was asked for.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Wanted {
    Name(&'static str),
    Source(ModelSource),
}

impl Wanted {
    /// A name, a file or an address.
    pub(super) fn parse(value: &str) -> Result<Self> {
        let wanted = value.to_lowercase();
        if let Some((name, _)) = NAMES.iter().find(|(name, _)| *name == wanted) {
            return Ok(Self::Name(name));
        }
        match ModelSource::parse(value) {
            Ok(source) => Ok(Self::Source(source)),
            Err(error) => {
                let names = NAMES.map(|(name, _)| name).join(", ");
                bail!("{error:#}; known by name: {names}")
            }
        }
    }
}

/// Where the wanted models are, made if they are not there yet; the default one for none.
pub(super) fn sources(wanted: &[Wanted]) -> Result<Vec<ModelSource>> {
    let none = [Wanted::Name(NAMES[0].0)];
    let wanted = if wanted.is_empty() { &none } else { wanted };
    wanted.iter().map(source).collect()
}

fn source(wanted: &Wanted) -> Result<ModelSource> {
    let name = match wanted {
        Wanted::Source(source) => return Ok(source.clone()),
        Wanted::Name(name) => name,
    };
    let found = NAMES.iter().find(|(known, _)| known == name);
    let file = match found.map(|(_, named)| *named) {
        Some(Named::Requantized(mix)) => requantized(mix)?,
        Some(Named::Gemma) => setup::gemma()?,
        Some(Named::Default) | None => setup::default_model()?,
    };
    Ok(ModelSource::File(file))
}

/// The default model in another quantization, beside it in the cache.
fn requantized(mix: &str) -> Result<PathBuf> {
    let source = setup::default_model()?;
    let target = source.with_file_name(format!("SmolLM2-135M-Instruct.{mix}.gguf"));
    let maker = paths::at_root("benches/models/requantize.rs");
    let inputs = Inputs::new().text(&source.to_string_lossy()).path(&maker)?;
    stamp::unless_fresh(&format!("model-{mix}"), &inputs.finish(), &target, || {
        eprintln!("bench: making {}", target.display());
        // Under another name until it is whole.
        let part = target.with_extension("part");
        let mut cargo = Command::new("cargo");
        cargo.args(["run", "--quiet", "--package", "tokenbrook"]);
        cargo.args(["--example", "requantize", "--"]);
        process::run(cargo.arg(&source).arg(&part).arg(mix))?;
        Ok(std::fs::rename(&part, &target)?)
    })?;
    Ok(target)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_a_name_an_address_or_a_file_that_is_there() {
        let named = Wanted::parse("SmolLM2-Q8_0").unwrap();
        assert_eq!(named, Wanted::Name("smollm2-q8_0"));
        let address = "https://example.org/m.gguf";
        let there = Wanted::parse(address).unwrap();
        assert_eq!(there, Wanted::Source(ModelSource::Url(address.to_owned())));
        let error = Wanted::parse("smollm2-q3_k").unwrap_err().to_string();
        assert!(error.contains("smollm2-q4_k_m"), "{error}");
    }

    #[test]
    fn every_name_is_written_in_lower_case_as_it_is_compared() {
        for (name, _) in NAMES {
            assert_eq!(name, name.to_lowercase());
        }
    }
}
