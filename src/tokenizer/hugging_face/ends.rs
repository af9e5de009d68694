//! The steps after the model: what goes around a prompt, and how tokens are read as text.

use serde_json::Value;

use super::file::{invalid, kind_of, unsupported};
use super::steps::flattened;
use crate::tokenizer::error::TokenizerError;

/// Tokens before and after a prompt.
#[derive(Default)]
pub(super) struct Around {
    pub(super) before: Vec<u32>,
    pub(super) after: Vec<u32>,
}

/// Real ones have up to two.
const MAX_AROUND: usize = 16;

impl Around {
    pub(super) fn read(value: Option<&Value>) -> Result<Self, TokenizerError> {
        const PART: &str = "post_processor";
        let mut around = Self::default();
        for value in flattened(PART, "processors", value)? {
            match kind_of(value) {
                // It only moves offsets.
                "ByteLevel" => {}
                "TemplateProcessing" => around.add(value)?,
                other => return Err(unsupported(PART, other)),
            }
        }
        Ok(around)
    }

    fn add(&mut self, value: &Value) -> Result<(), TokenizerError> {
        let wrong = || invalid("its post_processor has no template of one sequence");
        let pieces = value.get("single").and_then(Value::as_array);
        let mut is_after = false;
        for piece in pieces.ok_or_else(wrong)? {
            if piece.get("Sequence").is_some() {
                if is_after {
                    return Err(wrong());
                }
                is_after = true;
                continue;
            }
            let name = piece.pointer("/SpecialToken/id").and_then(Value::as_str);
            let listed = value.get("special_tokens").zip(name);
            let ids = listed.and_then(|(all, name)| all.get(name)?.get("ids")?.as_array());
            let side = if is_after {
                &mut self.after
            } else {
                &mut self.before
            };
            for id in ids.ok_or_else(wrong)? {
                let id = id.as_u64().and_then(|id| u32::try_from(id).ok());
                side.push(id.ok_or_else(wrong)?);
            }
            if side.len() > MAX_AROUND {
                return Err(wrong());
            }
        }
        if is_after { Ok(()) } else { Err(wrong()) }
    }
}

/// How the text of a token is made of its spelling.
#[derive(Default)]
pub(super) struct Reading {
    /// A letter stands for each byte.
    pub(super) byte_level: bool,
    /// `<0x0A>` is a byte.
    pub(super) byte_fallback: bool,
    /// What stands for what.
    replacements: Vec<(String, String)>,
    /// The first space of a text is left out.
    pub(super) strips_space: bool,
}

impl Reading {
    /// `byte_level`: whether text is spelled so.
    pub(super) fn read(value: Option<&Value>, byte_level: bool) -> Result<Self, TokenizerError> {
        const PART: &str = "decoder";
        let mut reading = Self {
            byte_level,
            ..Self::default()
        };
        for value in flattened(PART, "decoders", value)? {
            match kind_of(value) {
                "ByteLevel" => reading.byte_level = true,
                "ByteFallback" => reading.byte_fallback = true,
                "Fuse" => {}
                "Replace" => reading.replaces(value)?,
                "Metaspace" => reading.metaspace(value)?,
                "Strip" => reading.strips(value)?,
                other => return Err(unsupported(PART, other)),
            }
        }
        if reading.byte_level != byte_level {
            return Err(unsupported(PART, "ByteLevel without its pre_tokenizer"));
        }
        if !byte_level && value.is_none() {
            return Err(unsupported(PART, "none"));
        }
        Ok(reading)
    }

    fn replaces(&mut self, value: &Value) -> Result<(), TokenizerError> {
        let from = value.pointer("/pattern/String").and_then(Value::as_str);
        let to = value.get("content").and_then(Value::as_str);
        match (from, to) {
            // No longer than what it replaces: the texts stay as small as the file.
            (Some(from), Some(to)) if !from.is_empty() && to.len() <= from.len() => {
                self.replacements.push((from.to_owned(), to.to_owned()));
                Ok(())
            }
            _ => Err(unsupported("decoder", "a Replace of another kind")),
        }
    }

    fn metaspace(&mut self, value: &Value) -> Result<(), TokenizerError> {
        let space = value.get("replacement").and_then(Value::as_str);
        let space = space.filter(|space| !space.is_empty());
        let space = space.ok_or_else(|| invalid("its decoder names no replacement"))?;
        self.replacements.push((space.to_owned(), " ".to_owned()));
        let never = value.get("prepend_scheme").and_then(Value::as_str) == Some("never");
        let prefixes = value.get("add_prefix_space").and_then(Value::as_bool);
        self.strips_space = !never && prefixes != Some(false);
        Ok(())
    }

    fn strips(&mut self, value: &Value) -> Result<(), TokenizerError> {
        let number = |key: &str| value.get(key).and_then(Value::as_u64);
        let content = value.get("content").and_then(Value::as_str);
        if (content, number("start"), number("stop")) != (Some(" "), Some(1), Some(0)) {
            return Err(unsupported("decoder", "a Strip of another kind"));
        }
        self.strips_space = true;
        Ok(())
    }

    /// What a spelling reads as where no letters stand for bytes.
    pub(super) fn text(&self, spelling: &str) -> String {
        let mut text = spelling.to_owned();
        for (from, to) in &self.replacements {
            text = text.replace(from, to);
        }
        text
    }
}
