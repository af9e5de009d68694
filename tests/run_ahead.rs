//! Steps submitted before earlier tokens are read: the tokens are those of a session that reads
//! each one first, whatever the sampler, the stop, or who takes turns.

#[path = "common/ahead.rs"]
mod ahead;
mod common;

use ahead::Ahead;
use common::model::{greedy, ids, run, session_from_bytes};
use common::tiny_llama;
use tokenbrook::backend::Backend;
use tokenbrook::backend::cpu::{CpuBackend, Precision};
use tokenbrook::measure::FinishReason;
use tokenbrook::session::{GenerateOptions, Generation, Input, Progress, ResponseFormat, Session};

/// Reads so slow that as many steps are in flight as are allowed.
const READ_MS: f64 = 1000.0;

fn file(architecture: &str) -> Vec<u8> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/architectures/");
    std::fs::read(format!("{folder}{architecture}.gguf")).expect("the fixture reads")
}

fn cpu() -> CpuBackend {
    CpuBackend::new(Precision::Exact)
}

fn load<B: Backend>(backend: B, file: &[u8]) -> Session<B> {
    session_from_bytes(backend, file, None).expect("the model loads")
}

fn sampled(max_tokens: usize) -> GenerateOptions {
    GenerateOptions {
        temperature: 1.5,
        top_k: 0,
        top_p: 1.0,
        seed: Some(5),
        ignore_eos: true,
        repetition_penalty: 1.3,
        frequency_penalty: 0.2,
        presence_penalty: 0.1,
        logprobs: Some(2),
        ..greedy(max_tokens)
    }
}

fn start<B: Backend>(session: &Session<B>, options: &GenerateOptions) -> Generation {
    let prompt = (1..20).chain(3..9).collect();
    session
        .generation(prompt, options.clone())
        .expect("the prompt fits")
}

fn token<B: Backend>(session: &mut Session<B>, generation: &mut Generation) -> Option<u32> {
    loop {
        match pollster::block_on(session.advance(generation)).expect("the step runs") {
            Progress::Prefilled { .. } => {}
            Progress::Token(token) => return Some(token.id),
            Progress::Finished => return None,
        }
    }
}

#[test]
fn tokens_are_those_of_a_session_that_reads_each_one_first() {
    for file in [tiny_llama::file(), file("mistral")] {
        for options in [greedy(60), sampled(60)] {
            let prompt: Vec<u32> = (1..20).collect();
            let mut plain = load(cpu(), &file);
            let want = run(&mut plain, prompt.clone(), options.clone());
            let mut ahead = load(Ahead::new(cpu(), READ_MS), &file);
            let got = run(&mut ahead, prompt, options);
            assert_eq!(ids(&got), ids(&want));
            let logprobs = |tokens: &[tokenbrook::session::Token]| {
                tokens.iter().map(|token| token.logprob).collect::<Vec<_>>()
            };
            assert_eq!(logprobs(&got), logprobs(&want));
            // The first steps are taken one by one, until their time is known.
            let unread = ahead.backend().unread_steps;
            assert!(
                unread >= got.len().saturating_sub(4),
                "{unread} of {}",
                got.len()
            );
        }
    }
}

#[test]
fn a_backend_whose_reads_cost_nothing_is_read_after_each_step() {
    let mut session = load(Ahead::new(cpu(), 0.0), &tiny_llama::file());
    run(&mut session, vec![1, 2, 3], sampled(20));
    assert_eq!(session.backend().unread_steps, 0);
}

#[test]
fn generations_that_take_turns_do_not_see_each_others_steps() {
    let options = [sampled(40), greedy(40)];
    let want = options.clone().map(|options| {
        let mut session = load(cpu(), &file("gemma3"));
        let mut generation = start(&session, &options);
        std::iter::from_fn(|| token(&mut session, &mut generation)).collect::<Vec<_>>()
    });
    let mut session = load(Ahead::new(cpu(), READ_MS), &file("gemma3"));
    let mut generations = options.map(|options| start(&session, &options));
    let mut got = [Vec::new(), Vec::new()];
    for turn in [7, 1, 3, 40].into_iter().cycle().take(16) {
        for (generation, got) in generations.iter_mut().zip(&mut got) {
            for _ in 0..turn {
                got.extend(token(&mut session, generation));
            }
            let mut job = session.score_job(vec![5, 6, 7]).expect("the ids fit");
            pollster::block_on(session.score(&mut job)).expect("the chunk runs");
        }
    }
    assert_eq!(got, want);
}

#[test]
fn what_ran_ahead_of_an_end_is_not_counted_as_cached() {
    let mut session = load(Ahead::new(cpu(), READ_MS), &tiny_llama::file());
    let mut generation = start(&session, &sampled(1000));
    for _ in 0..30 {
        token(&mut session, &mut generation);
    }
    let known = generation.ids().to_vec();
    drop(generation);
    let longer = [known.clone(), vec![7, 8]].concat();
    let mut next = session
        .generation(longer.clone(), greedy(1))
        .expect("it fits");
    let got = token(&mut session, &mut next);
    // The step after the last token that was read was in flight: its keys and values are there.
    let cached = next.stats(FinishReason::Error).cached_tokens;
    assert_eq!(cached, known.len());
    let want = run(&mut load(cpu(), &tiny_llama::file()), longer, greedy(1));
    assert_eq!(got, Some(want[0].id));
}

#[test]
fn no_more_tokens_are_made_ahead_than_the_reader_allows() {
    let mut session = load(Ahead::new(cpu(), READ_MS), &tiny_llama::file());
    let mut generation = start(&session, &sampled(100));
    generation.set_lookahead(1);
    for _ in 0..50 {
        token(&mut session, &mut generation);
    }
    assert_eq!(session.backend().unread_steps, 0);
    generation.set_lookahead(3);
    token(&mut session, &mut generation);
    assert_eq!(session.backend().unread_steps, 2);
}

#[test]
fn a_constrained_answer_is_read_token_by_token() {
    let mut session = load(Ahead::new(cpu(), READ_MS), &tiny_llama::file());
    let options = GenerateOptions {
        response_format: Some(ResponseFormat::Regex("(ab){3,9}".to_owned())),
        ..sampled(60)
    };
    let prompt = common::model::prompt(&session, &Input::Raw("ab".to_owned()));
    run(&mut session, prompt, options);
    assert_eq!(session.backend().unread_steps, 0);
}
