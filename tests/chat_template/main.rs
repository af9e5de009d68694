//! Chat templates against Jinja2, hostile ones against their limits, and what users write
//! against the control tokens.

mod bounds;
mod rendering;
mod segments;
#[path = "../common/stopwatch.rs"]
mod stopwatch;

use serde::Deserialize;
use tokenbrook::tokenizer::{ChatMessage, ChatTemplate, TemplateError, TemplateOptions};

#[derive(Deserialize)]
struct Golden {
    now: f64,
    templates: Vec<GoldenTemplate>,
}

#[derive(Deserialize)]
struct GoldenTemplate {
    name: String,
    source: String,
    bos: String,
    eos: String,
    cases: Vec<GoldenCase>,
}

#[derive(Deserialize)]
struct GoldenCase {
    messages: Vec<ChatMessage>,
    add_generation_prompt: bool,
    #[serde(default)]
    variables: serde_json::Map<String, serde_json::Value>,
    expected: Option<String>,
    raises: Option<String>,
}

fn golden() -> Golden {
    serde_json::from_str(include_str!("../data/tokenizer/templates.json")).expect("valid data")
}

fn golden_template(name: &str) -> GoldenTemplate {
    golden()
        .templates
        .into_iter()
        .find(|template| template.name == name)
        .expect("listed")
}

fn message(role: &str, content: &str) -> ChatMessage {
    ChatMessage {
        role: role.to_owned(),
        content: Some(content.to_owned()),
        ..ChatMessage::default()
    }
}

fn prompting() -> TemplateOptions {
    TemplateOptions {
        add_generation_prompt: true,
        ..TemplateOptions::default()
    }
}

fn render(source: &str) -> Result<String, TemplateError> {
    ChatTemplate::new(source, "<s>", "</s>")?.render(&[message("user", "hi")], &prompting())
}
