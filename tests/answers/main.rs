//! Answers of a tiny model: how their tokens are chosen, and the forms that they are held to.

#[path = "../common/mod.rs"]
mod common;
mod sampling;
mod structured;
mod tools;

use common::model::session_from_bytes;
use common::tiny_llama;
use tokenbrook::backend::cpu::{CpuBackend, Precision};
use tokenbrook::measure::FinishReason;
use tokenbrook::session::{GenerateOptions, Generation, Progress, Session, SessionError, Token};

fn session() -> Session<CpuBackend> {
    let backend = CpuBackend::new(Precision::Exact);
    session_from_bytes(backend, &tiny_llama::file(), None).expect("the tiny model loads")
}

fn options(json: serde_json::Value) -> Result<GenerateOptions, SessionError> {
    GenerateOptions::from_json(json.as_object().expect("options are an object"))
}

fn start(session: &Session<CpuBackend>, options: serde_json::Value) -> Generation {
    let options = self::options(options).expect("the options are valid");
    let prompt = session.tokenizer().encode("Go on: ", false);
    session
        .generation(prompt.expect("it encodes"), options)
        .expect("it starts")
}

/// Advances to the next token; `None` at the end.
fn token(session: &mut Session<CpuBackend>, generation: &mut Generation) -> Option<Token> {
    loop {
        match pollster::block_on(session.advance(generation)).expect("the step runs") {
            Progress::Prefilled { .. } => {}
            Progress::Token(token) => return Some(token),
            Progress::Finished => return None,
        }
    }
}

/// All tokens of an answer and why it ended.
fn answer(
    session: &mut Session<CpuBackend>,
    options: serde_json::Value,
) -> (Vec<Token>, FinishReason) {
    let mut generation = start(session, options);
    let tokens = std::iter::from_fn(|| token(session, &mut generation)).collect();
    (tokens, generation.stats(FinishReason::Error).finish_reason)
}

fn ids(tokens: &[Token]) -> Vec<u32> {
    tokens.iter().map(|token| token.id).collect()
}

fn text(tokens: &[Token]) -> String {
    tokens.iter().map(|token| token.text.as_str()).collect()
}
