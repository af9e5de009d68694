//! `POST /v1/embeddings`: texts to vectors.

use serde::Serialize;
use serde_json::{Value, json};

use super::error::DialectError;
use super::parameters::{invalid, kind};
use super::reply::to_json;
use super::request::fields;

/// Most texts of one request, as at OpenAI.
const MAX_INPUTS: usize = 2048;

/// Hints to a service, without a meaning for one model on one machine.
const IGNORED: &[&str] = &["model", "user"];

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// What a request for embeddings asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct EmbeddingsRequest {
    texts: Value,
    /// Whether the body held one text by itself.
    single: bool,
    base64: bool,
}

#[derive(Serialize)]
struct List<'a> {
    object: &'static str,
    data: Vec<Embedding<'a>>,
    model: &'a str,
    usage: Counts,
}

#[derive(Serialize)]
struct Embedding<'a> {
    object: &'static str,
    index: usize,
    embedding: Vector<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Vector<'a> {
    Numbers(&'a [f32]),
    Base64(String),
}

#[derive(Serialize)]
struct Counts {
    prompt_tokens: usize,
    total_tokens: usize,
}

impl EmbeddingsRequest {
    /// Reads and checks a body. Whether the texts fit is for the engine to judge.
    ///
    /// # Errors
    /// [`DialectError`] with the parameter that is refused.
    pub fn read(body: &[u8]) -> Result<Self, DialectError> {
        let body = fields(body)?;
        let (mut texts, mut base64) = (None, false);
        for (name, value) in body.iter().filter(|(_, value)| !value.is_null()) {
            match name.as_str() {
                "input" => texts = Some(inputs(value)?),
                "encoding_format" => base64 = is_base64(value)?,
                name if IGNORED.contains(&name) => {}
                _ => {
                    return Err(DialectError::Unsupported {
                        param: name.clone(),
                    });
                }
            }
        }
        let (texts, single) = texts.ok_or(DialectError::Missing { param: "input" })?;
        Ok(Self {
            texts,
            single,
            base64,
        })
    }

    /// An array with a string or an array of ids for each text.
    #[must_use]
    pub fn texts(&self) -> &Value {
        &self.texts
    }

    /// The parameter that an option of the engine came from: `texts[3]` is `input[3]`, or
    /// `input` where that was no list.
    #[must_use]
    pub fn parameter_of(&self, option: &str) -> Option<String> {
        let place = option.strip_prefix("texts")?;
        let place = if self.single { "" } else { place };
        Some(format!("input{place}"))
    }

    /// The whole answer.
    #[must_use]
    pub fn answer(&self, model: &str, vectors: &[Vec<f32>], tokens: usize) -> String {
        let data = vectors.iter().enumerate().map(|(index, vector)| Embedding {
            object: "embedding",
            index,
            embedding: if self.base64 {
                Vector::Base64(base64(vector))
            } else {
                Vector::Numbers(vector)
            },
        });
        to_json(&List {
            object: "list",
            data: data.collect(),
            model,
            usage: Counts {
                prompt_tokens: tokens,
                total_tokens: tokens,
            },
        })
    }
}

/// The texts as an array, and whether there was one by itself.
fn inputs(value: &Value) -> Result<(Value, bool), DialectError> {
    let expected = "a string, an array of ids, or a non-empty array of those";
    let refuse = |what: String| invalid("input", what, expected);
    match value {
        Value::String(_) => Ok((json!([value]), true)),
        Value::Array(list) if list.len() > MAX_INPUTS && !list.iter().all(Value::is_number) => {
            Err(invalid(
                "input",
                format!("an array of {}", list.len()),
                format!("at most {MAX_INPUTS} texts"),
            ))
        }
        Value::Array(list) if list.is_empty() => Err(refuse("an empty array".to_owned())),
        Value::Array(list) if list.iter().all(Value::is_number) => Ok((json!([value]), true)),
        Value::Array(list) => match list
            .iter()
            .find(|text| !text.is_string() && !text.is_array())
        {
            None => Ok((value.clone(), false)),
            Some(other) => Err(refuse(format!("an array with {}", kind(other)))),
        },
        other => Err(refuse(kind(other))),
    }
}

fn is_base64(value: &Value) -> Result<bool, DialectError> {
    match value.as_str() {
        Some("float") => Ok(false),
        Some("base64") => Ok(true),
        _ => Err(invalid(
            "encoding_format",
            value.to_string(),
            "\"float\" or \"base64\"",
        )),
    }
}

/// The little-endian bytes of the numbers, in base64 with padding.
fn base64(vector: &[f32]) -> String {
    let bytes: Vec<u8> = vector
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect();
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let byte = |at: usize| group.get(at).map_or(0, |&byte| u32::from(byte));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for digit in 0..4 {
            let value = (bits >> (18 - 6 * digit) & 63) as usize;
            text.push(if digit <= group.len() {
                char::from(ALPHABET[value])
            } else {
                '='
            });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &Value) -> Result<EmbeddingsRequest, DialectError> {
        EmbeddingsRequest::read(body.to_string().as_bytes())
    }

    #[test]
    fn one_text_and_many_become_a_list() {
        for (input, texts, parameter) in [
            (json!("a"), json!(["a"]), "input"),
            (json!([7, 8]), json!([[7, 8]]), "input"),
            (json!(["a", "b"]), json!(["a", "b"]), "input[1]"),
            (json!([[7], [8, 9]]), json!([[7], [8, 9]]), "input[1]"),
        ] {
            let request = read(&json!({ "model": "m", "input": input, "user": "x" }));
            let request = request.expect("it is complete");
            assert_eq!(request.texts(), &texts);
            let found = request.parameter_of("texts[1]");
            assert_eq!(found.as_deref(), Some(parameter));
            assert_eq!(request.parameter_of("pooling"), None);
        }
    }

    #[test]
    fn refusals_name_the_parameter() {
        for (body, param) in [
            (json!({}), "input"),
            (json!({ "input": null }), "input"),
            (json!({ "input": [] }), "input"),
            (json!({ "input": 7 }), "input"),
            (json!({ "input": ["a", 7] }), "input"),
            (json!({ "input": vec!["a"; 2049] }), "input"),
            (json!({ "input": "a", "model": 7 }), "model"),
            (json!({ "input": "a", "dimensions": 8 }), "dimensions"),
            (
                json!({ "input": "a", "encoding_format": "hex" }),
                "encoding_format",
            ),
        ] {
            let error = read(&body).expect_err("it is refused");
            assert_eq!(error.status(), 400, "{body}");
            let json = error.to_json();
            assert!(json.contains(&format!("\"param\":\"{param}\"")), "{json}");
        }
    }

    #[test]
    fn vectors_are_numbers_or_base64_of_little_endian_floats() {
        let vectors = [vec![0.5_f32, -0.1], vec![0.0, 1.0]];
        let start = "{\"object\":\"list\",\"data\":[{\"object\":\"embedding\",\"index\":0,";
        let floats = read(&json!({ "input": ["a", "b"] })).expect("it is complete");
        assert_eq!(
            floats.answer("Tiny", &vectors, 7),
            format!(
                "{start}\"embedding\":[0.5,-0.1]}},{{\"object\":\"embedding\",\"index\":1,\
                 \"embedding\":[0.0,1.0]}}],\"model\":\"Tiny\",\
                 \"usage\":{{\"prompt_tokens\":7,\"total_tokens\":7}}}}"
            )
        );
        let body = json!({ "input": "a", "encoding_format": "base64" });
        let encoded = read(&body).expect("it is complete");
        let answer = encoded.answer("Tiny", &vectors[..1], 7);
        assert!(
            answer.starts_with(&format!("{start}\"embedding\":\"AAAAP83MzL0=\"}}")),
            "{answer}"
        );
        // Every length of the last group.
        for (vector, want) in [
            (1, "AACAPw=="),
            (2, "AACAPwAAgD8="),
            (3, "AACAPwAAgD8AAIA/"),
        ] {
            assert_eq!(base64(&vec![1.0; vector]), want);
        }
    }
}
