//! Sessions over a tiny model: turns, reuse, stops, limits.

mod common;

use common::model::{greedy, ids, prompt, run, session_from_bytes};
use common::tiny_llama::{self, CONTEXT, EOS};
use tokenbrook::backend::cpu::{CpuBackend, Precision};
use tokenbrook::backend::reference::ReferenceBackend;
use tokenbrook::measure::FinishReason;
use tokenbrook::session::{
    GenerateOptions, Generation, Input, Progress, ScoreProgress, Session, SessionError,
};

fn session() -> Session<CpuBackend> {
    let backend = CpuBackend::new(Precision::Exact);
    session_from_bytes(backend, &tiny_llama::file(), None).expect("the tiny model loads")
}

fn raw(session: &Session<CpuBackend>, text: &str) -> Vec<u32> {
    prompt(session, &Input::Raw(text.to_owned()))
}

/// Options that never end by themselves.
fn endless(max_tokens: usize) -> GenerateOptions {
    GenerateOptions {
        ignore_eos: true,
        ..greedy(max_tokens)
    }
}

fn start(session: &Session<CpuBackend>, text: &str, options: GenerateOptions) -> Generation {
    session
        .generation(raw(session, text), options)
        .expect("the prompt fits")
}

fn advance(session: &mut Session<CpuBackend>, generation: &mut Generation) -> Progress {
    pollster::block_on(session.advance(generation)).expect("the step runs")
}

/// Advances to the next token.
fn token(session: &mut Session<CpuBackend>, generation: &mut Generation) -> u32 {
    loop {
        match advance(session, generation) {
            Progress::Prefilled { .. } => {}
            Progress::Token(token) => return token.id,
            Progress::Finished => panic!("the generation ended early"),
        }
    }
}

#[test]
fn cpu_and_reference_backends_choose_the_same_tokens() {
    let mut cpu = session();
    let prompt = raw(&cpu, "The same words, twice.");
    let on_cpu = run(&mut cpu, prompt.clone(), endless(40));
    let mut reference =
        session_from_bytes(ReferenceBackend::new(), &tiny_llama::file(), None).expect("it loads");
    assert_eq!(ids(&on_cpu), ids(&run(&mut reference, prompt, endless(40))));
}

#[test]
fn a_stopped_generation_leaves_the_next_equal_to_a_fresh_one() {
    let mut fresh = session();
    let prompt = raw(&fresh, "A prompt of several tokens");
    let want = ids(&run(&mut fresh, prompt.clone(), endless(20)));

    let mut session = session();
    let mut stopped = start(&session, "A prompt of several words", endless(200));
    for _ in 0..5 {
        token(&mut session, &mut stopped);
    }
    let mut in_prefill = start(&session, &"long ".repeat(50), endless(9));
    advance(&mut session, &mut in_prefill);
    drop((stopped, in_prefill));
    assert_eq!(ids(&run(&mut session, prompt, endless(20))), want);
}

#[test]
fn two_generations_take_turns_and_both_are_right() {
    let mut alone = session();
    let want_a: Vec<u32> = {
        let prompt = raw(&alone, "First of two");
        ids(&run(&mut alone, prompt, endless(12)))
    };
    let want_b: Vec<u32> = {
        let prompt = raw(&alone, "And the second, longer one");
        ids(&run(&mut alone, prompt, endless(12)))
    };
    let mut session = session();
    let mut a = start(&session, "First of two", endless(12));
    let mut b = start(&session, "And the second, longer one", endless(12));
    let (mut got_a, mut got_b) = (Vec::new(), Vec::new());
    for round in 0..12 {
        got_a.push(token(&mut session, &mut a));
        if round % 2 == 0 {
            let mut job = session.score_job(vec![5, 6, 7]).expect("the ids fit");
            pollster::block_on(session.score(&mut job)).expect("the chunk runs");
        }
        got_b.push(token(&mut session, &mut b));
    }
    assert_eq!((got_a, got_b), (want_a, want_b));
}

#[test]
fn a_longer_turn_reuses_the_cache_of_the_one_before() {
    let mut session = session();
    let first = raw(&session, "One turn");
    let answer = ids(&run(&mut session, first.clone(), endless(7)));
    // The last token was sampled, not fed.
    let cached = first.len() + answer.len() - 1;
    let second = [first.clone(), answer.clone(), raw(&session, " and more")].concat();
    let mut generation = session
        .generation(second, endless(1))
        .expect("the prompt fits");
    token(&mut session, &mut generation);
    let stats = generation.stats(FinishReason::Error);
    assert_eq!(
        (stats.finish_reason, stats.cached_tokens),
        (FinishReason::Length, cached)
    );
    // The same prompt again: all but the row that gives the logits.
    let mut again = session
        .generation(first.clone(), endless(1))
        .expect("the prompt fits");
    assert_eq!(token(&mut session, &mut again), answer[0]);
    assert_eq!(
        again.stats(FinishReason::Error).cached_tokens,
        first.len() - 1
    );
}

#[test]
fn a_suspended_generation_that_lost_its_cache_goes_on_as_if_it_had_not() {
    let mut whole = session();
    let prompt = raw(&whole, "Suspended");
    let want = ids(&run(&mut whole, prompt, endless(30)));
    let mut session = session();
    let mut suspended = start(&session, "Suspended", endless(30));
    let mut got: Vec<u32> = (0..10)
        .map(|_| token(&mut session, &mut suspended))
        .collect();
    let other = raw(&session, &"something else ".repeat(15));
    run(&mut session, other, endless(3));
    got.extend((0..20).map(|_| token(&mut session, &mut suspended)));
    assert_eq!(got, want);
    assert_eq!(advance(&mut session, &mut suspended), Progress::Finished);
    let stats = suspended.stats(FinishReason::Error);
    assert_eq!(
        (
            stats.decode_steps,
            stats.completion_tokens,
            stats.cached_tokens
        ),
        (29, 30, 0)
    );
}

#[test]
fn same_seed_same_tokens_other_seed_others() {
    let mut session = session();
    let prompt = raw(&session, "Draw");
    let mut drawn = |seed| {
        let options = GenerateOptions {
            temperature: 1.5,
            top_k: 0,
            top_p: 1.0,
            seed: Some(seed),
            ..endless(24)
        };
        ids(&run(&mut session, prompt.clone(), options))
    };
    assert_eq!(drawn(7), drawn(7));
    assert_ne!(drawn(7), drawn(8));
}

#[test]
fn a_stop_string_across_tokens_ends_the_answer_before_it() {
    let mut session = session();
    let prompt = raw(&session, "Go");
    let tokens = run(&mut session, prompt.clone(), endless(40));
    let text: String = tokens.iter().map(|token| token.text.as_str()).collect();
    // Two neighbouring characters of the answer: every token is one byte, so they straddle.
    let stop: String = text.chars().skip(8).take(2).collect();
    let at = text.find(&stop).expect("it occurs");
    let options = GenerateOptions {
        stop: vec![stop.clone()],
        ..endless(40)
    };
    let stopped = run(&mut session, prompt.clone(), options);
    let shown: String = stopped.iter().map(|token| token.text.as_str()).collect();
    assert_eq!(shown, text[..at]);
    assert!(stopped.len() < tokens.len());
    // A stop string that never completes loses no text.
    let options = GenerateOptions {
        stop: vec![format!("{stop}\u{1F9ED}")],
        ..endless(40)
    };
    let complete = run(&mut session, prompt, options);
    let shown: String = complete.iter().map(|token| token.text.as_str()).collect();
    assert_eq!(shown, text);
}

#[test]
fn an_end_token_ends_the_answer_unless_it_is_ignored() {
    let mut session = session();
    let prompt = raw(&session, "End");
    // A high temperature over all tokens meets the end token sooner or later.
    let hot = |seed, ignore_eos| GenerateOptions {
        temperature: 90.0,
        top_k: 0,
        top_p: 1.0,
        seed: Some(seed),
        ignore_eos,
        ..greedy(150)
    };
    let (seed, tokens) = (0..50)
        .map(|seed| (seed, run(&mut session, prompt.clone(), hot(seed, false))))
        .find(|(_, tokens)| tokens.len() < 150)
        .expect("one of fifty answers ends");
    let last = tokens.last().expect("an answer");
    assert!(session.tokenizer().end_ids().contains(&last.id), "{last:?}");
    assert!(!last.text.contains("<|"), "{last:?}");
    let ignoring = ids(&run(&mut session, prompt, hot(seed, true)));
    assert_eq!(ignoring.len(), 150);
    assert_eq!(ignoring[..tokens.len()], ids(&tokens)[..]);
}

#[test]
fn the_context_ends_an_answer_and_refuses_a_longer_prompt() {
    let mut session = session();
    let prompt = raw(&session, &"x".repeat(CONTEXT - 4));
    let tokens = run(&mut session, prompt, endless(1000));
    // Four positions are free, and the token after the last needs none.
    assert_eq!(tokens.len(), 5);
    let exact = raw(&session, &"x".repeat(CONTEXT));
    assert_eq!(run(&mut session, exact, endless(9)).len(), 1);
    let long = raw(&session, &"x".repeat(CONTEXT + 1));
    let error = session.generation(long, endless(1)).expect_err("too long");
    let want = SessionError::ContextFull {
        prompt_tokens: CONTEXT + 1,
        context_length: CONTEXT,
    };
    assert_eq!((error.code(), error), ("context-full", want));
}

#[test]
fn prompts_that_make_no_sense_are_refused() {
    let session = session();
    let refusal = |ids| session.generation(ids, greedy(1)).expect_err("no prompt");
    assert_eq!(refusal(Vec::new()), SessionError::EmptyPrompt);
    assert_eq!(
        refusal(vec![4, 259]),
        SessionError::TokenId {
            id: 259,
            vocab_size: 259
        }
    );
    let error = session.score_job(vec![900]).expect_err("no such id");
    assert_eq!(error.code(), "invalid-option");
}

#[test]
fn scores_do_not_depend_on_chunks_or_interruptions() {
    let ids: Vec<u32> = (0..90).map(|i| 3 + i * 7 % 250).collect();
    let score = |session: &mut Session<CpuBackend>, mut interruptions: usize| {
        let mut job = session.score_job(ids.clone()).expect("the ids fit");
        loop {
            match pollster::block_on(session.score(&mut job)).expect("the chunk runs") {
                ScoreProgress::Finished(result) => return result,
                ScoreProgress::Scored { .. } if interruptions > 0 => {
                    interruptions -= 1;
                    let other = raw(session, "interrupting");
                    run(session, other, endless(2));
                }
                ScoreProgress::Scored { .. } => {}
            }
        }
    };
    let whole = score(&mut session(), 0);
    let pieces = score(&mut session(), 3);
    assert_eq!((&whole.ids, whole.top1.len()), (&ids, ids.len() - 1));
    assert_eq!(whole.top1, pieces.top1);
    for (a, b) in whole.next_logprob.iter().zip(&pieces.next_logprob) {
        assert!((a - b).abs() < 1e-4 && *a < 0.0);
    }
}

#[test]
fn contents_of_messages_never_become_control_tokens() {
    let session = session();
    let messages = serde_json::json!([{ "role": "user", "content": "<|im_end|>" }]);
    let ids = prompt(&session, &Input::from_json(&messages).expect("messages"));
    assert_eq!(ids.iter().filter(|&&id| id == EOS).count(), 1);
    // A raw prompt is the caller's own.
    assert_eq!(raw(&session, "<|im_end|>"), [EOS]);
}

#[test]
fn prefill_reports_progress_in_bounded_chunks() {
    let mut session = session();
    let mut generation = start(&session, &"word ".repeat(50), endless(1));
    let mut reported = Vec::new();
    while let Progress::Prefilled { done, total } = advance(&mut session, &mut generation) {
        reported.push(done);
        assert_eq!(total, 250);
    }
    assert!(reported.is_sorted() && reported[0] == 1, "{reported:?}");
    assert!(reported.len() > 2, "{reported:?}");
}
