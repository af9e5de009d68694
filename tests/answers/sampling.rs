//! Penalties, biases and log-probabilities through a session.

use std::collections::HashMap;

use serde_json::json;
use tokenbrook::session::{ScoreProgress, SessionError};

use crate::common::tiny_llama::EOS;
use crate::{answer, ids, options, session, start, token};

#[test]
fn logprobs_are_those_that_scoring_finds() {
    let mut session = session();
    let asked = json!({ "maxTokens": 30, "temperature": 1.2, "topK": 0, "topP": 1, "seed": 3,
        "ignoreEos": true, "logprobs": 3, "frequencyPenalty": 1.5 });
    let mut generation = start(&session, asked);
    let tokens: Vec<_> = std::iter::from_fn(|| token(&mut session, &mut generation)).collect();
    let first = generation.prompt_ids().len() - 1;
    let mut job = session
        .score_job(generation.ids().to_vec())
        .expect("they fit");
    let scores = loop {
        let progress = pollster::block_on(session.score(&mut job)).expect("the chunk runs");
        if let ScoreProgress::Finished(scores) = progress {
            break scores;
        }
    };
    assert_eq!(tokens.len(), 30);
    for (i, token) in tokens.iter().enumerate() {
        let at = first + i;
        let logprob = token.logprob.expect("it was asked for");
        assert!(
            (logprob - scores.next_logprob[at]).abs() < 1e-4,
            "{i}: {token:?}"
        );
        let top = token.top_logprobs.as_ref().expect("they were asked for");
        assert_eq!((top.len(), top[0].id), (3, scores.top1[at]));
        assert!((top[0].logprob - scores.top1_logprob[at]).abs() < 1e-4);
        assert!(top.is_sorted_by(|a, b| a.logprob >= b.logprob), "{top:?}");
        assert_eq!(top[0].text, session.tokenizer().decode(&[top[0].id]));
        let bytes = |id: u32| {
            let tokenizer = session.tokenizer();
            let bytes = tokenizer
                .token_bytes(id)
                .filter(|_| !tokenizer.is_control(id));
            bytes.map(<[u8]>::to_vec)
        };
        assert_eq!(token.bytes, bytes(token.id));
        assert_eq!(top[0].bytes, bytes(top[0].id));
    }
    let silent = answer(&mut session, json!({ "maxTokens": 2, "logprobs": false })).0;
    assert_eq!((silent[0].logprob, &silent[0].top_logprobs), (None, &None));
    assert_eq!(silent[0].bytes, None);
    let own = answer(&mut session, json!({ "maxTokens": 2, "logprobs": true })).0;
    assert_eq!(own[0].top_logprobs.as_ref().map(Vec::len), Some(0));
    assert!(own[0].logprob.is_some_and(|logprob| logprob < 0.0));
}

#[test]
fn frequency_and_presence_penalties_count_the_answer() {
    let (frequency, presence) = (0.375, 0.75);
    let asked = json!({ "maxTokens": 60, "temperature": 0, "ignoreEos": true, "logprobs": 20,
        "frequencyPenalty": frequency, "presencePenalty": presence });
    let tokens = answer(&mut session(), asked).0;
    let mut counts: HashMap<u32, f64> = HashMap::new();
    let (mut decided, mut turned) = (0, 0);
    for token in &tokens {
        let top = token.top_logprobs.as_ref().expect("they were asked for");
        let penalized = |id: u32, logprob: f64| {
            let count = counts.get(&id).copied().unwrap_or(0.0);
            logprob - count * frequency - if count > 0.0 { presence } else { 0.0 }
        };
        let best = top
            .iter()
            .map(|t| (penalized(t.id, t.logprob), t.id))
            .max_by(|a, b| a.0.total_cmp(&b.0))
            .expect("alternatives");
        // Beyond the alternatives nothing can be better than the last of them.
        if best.0 > top[19].logprob + 1e-6 {
            assert_eq!(token.id, best.1, "{token:?}");
            decided += 1;
            turned += usize::from(best.1 != top[0].id);
        }
        *counts.entry(token.id).or_default() += 1.0;
    }
    assert!(decided > 20 && turned > 5, "{decided} {turned}");
}

#[test]
fn the_repetition_penalty_also_sees_the_prompt() {
    let mut session = session();
    let prompt = session
        .tokenizer()
        .encode("Go on: ", false)
        .expect("it encodes");
    let free = json!({ "maxTokens": 80, "temperature": 0, "ignoreEos": true });
    let strict = json!({ "maxTokens": 80, "temperature": 0, "ignoreEos": true,
        "repetitionPenalty": 10 });
    let repeats = |tokens: &[u32]| {
        let mut seen = prompt.clone();
        let mut again = 0;
        for id in tokens {
            again += usize::from(seen.contains(id));
            seen.push(*id);
        }
        again
    };
    let (free, strict) = (answer(&mut session, free).0, answer(&mut session, strict).0);
    assert!(
        repeats(&ids(&strict)) * 4 < repeats(&ids(&free)),
        "{strict:?}"
    );
    let spelled = ids(&strict);
    assert!(!prompt.contains(&spelled[0]), "{spelled:?}");
}

#[test]
fn a_bias_forces_or_bans_a_token() {
    let mut session = session();
    let free = answer(&mut session, json!({ "maxTokens": 9, "temperature": 0 })).0;
    let banned = free[0].id;
    let asked = |id: u32, bias: i32| {
        json!({ "maxTokens": 9, "temperature": 0, "ignoreEos": true,
            "logitBias": { id.to_string(): bias } })
    };
    let without = answer(&mut session, asked(banned, -100)).0;
    assert!(!ids(&without).contains(&banned), "{without:?}");
    let forced = answer(&mut session, asked(77, 100)).0;
    assert_eq!(ids(&forced), [77; 9]);
    let ended = json!({ "maxTokens": 9, "logitBias": { EOS.to_string(): 100 } });
    assert_eq!(ids(&answer(&mut session, ended).0), [EOS]);
    let outside = options(json!({ "logitBias": { "259": 1 } })).expect("the range is fine");
    let error = session
        .generation(vec![5], outside)
        .expect_err("no such token");
    let want = SessionError::TokenId {
        id: 259,
        vocab_size: 259,
    };
    assert_eq!((error.code(), error), ("invalid-option", want));
}

#[test]
fn penalties_and_seeds_survive_a_suspension() {
    let asked = || {
        json!({ "maxTokens": 40, "temperature": 1.3, "seed": 11, "ignoreEos": true,
            "repetitionPenalty": 1.2, "frequencyPenalty": 0.5, "presencePenalty": 0.5,
            "topK": 0, "topP": 0.9 })
    };
    let want = ids(&answer(&mut session(), asked()).0);
    let mut session = session();
    let mut suspended = start(&session, asked());
    let mut got = Vec::new();
    for round in 0..40 {
        got.push(token(&mut session, &mut suspended).expect("a token").id);
        if round % 13 == 4 {
            let other = json!({ "maxTokens": 5, "seed": 2, "presencePenalty": 2 });
            answer(&mut session, other);
            let mut job = session.score_job(vec![9, 8, 7]).expect("they fit");
            pollster::block_on(session.score(&mut job)).expect("the chunk runs");
        }
    }
    assert_eq!(got, want);
    // They do matter here.
    let mut plain = asked();
    plain["frequencyPenalty"] = json!(0);
    assert_ne!(ids(&answer(&mut session, plain).0), want);
}
