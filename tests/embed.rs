//! Embeddings against states that a model's own logits show.

mod common;

use std::cell::Cell;
use std::rc::Rc;

use common::gguf_builder::GgufBuilder;
use common::model::{BareModel, greedy, ids, run, session_from_bytes};
use common::tiny_llama::{self, CONTEXT};
use serde_json::{Value, json};
use tokenbrook::backend::cpu::{CpuBackend, Precision};
use tokenbrook::backend::ops::Cache;
use tokenbrook::backend::reference::ReferenceBackend;
use tokenbrook::backend::{Backend, Outputs};
use tokenbrook::measure::Clock;
use tokenbrook::session::{
    EmbedInput, EmbedOptions, EmbedProgress, Embeddings, LoadOptions, Loader, Pooling, Progress,
    Session, SessionError,
};

const HIDDEN: usize = 24;
const VOCAB: usize = 259;

/// The tiny model with the identity as its head, so that its first logits are its states.
fn file(change: impl Fn(GgufBuilder) -> GgufBuilder) -> Vec<u8> {
    let named =
        tiny_llama::metadata_with(|builder| change(builder.str("general.architecture", "llama")));
    let mut head = vec![0.0; VOCAB * HIDDEN];
    for state in 0..HIDDEN {
        head[state * HIDDEN + state] = 1.0;
    }
    tiny_llama::with_tensors(named, &tiny_llama::tensors())
        .tensor_f32("output.weight", &[HIDDEN as u64, VOCAB as u64], &head)
        .build()
}

fn plain() -> Vec<u8> {
    file(|builder| builder)
}

fn cpu(bytes: &[u8]) -> Session<CpuBackend> {
    session_from_bytes(CpuBackend::new(Precision::Exact), bytes, None).expect("it loads")
}

/// What the tiny model embeds here: shorter and longer than a chunk of 128 rows.
fn texts() -> Vec<Vec<u32>> {
    [1_usize, 2, 7, 131, 201]
        .map(|len| {
            (0..len)
                .map(|i| u32::try_from(3 + (i * i + len) % 250).expect("an id"))
                .collect()
        })
        .to_vec()
}

fn options(texts: &[Vec<u32>], pooling: Option<Pooling>) -> EmbedOptions {
    EmbedOptions {
        texts: texts.iter().cloned().map(EmbedInput::Ids).collect(),
        pooling,
    }
}

/// The embedding of one text, from the logits of one pass over all of it.
fn expected(bytes: &[u8], text: &[u32], pooling: Pooling) -> Vec<f64> {
    let mut model = BareModel::load(ReferenceBackend::new(), bytes, 256, 256);
    let block = model
        .backend
        .allocate_block(Cache::Full)
        .expect("there is memory");
    let logits = model.pass(text, 0, &[block], Outputs::AllRows);
    let states: Vec<&[f32]> = logits.chunks(VOCAB).map(|row| &row[..HIDDEN]).collect();
    let used = match pooling {
        Pooling::Mean => &states[..],
        Pooling::Last => &states[states.len() - 1..],
    };
    let mean: Vec<f64> = (0..HIDDEN)
        .map(|i| used.iter().map(|state| f64::from(state[i])).sum::<f64>() / used.len() as f64)
        .collect();
    let length = mean.iter().map(|v| v * v).sum::<f64>().sqrt();
    mean.iter().map(|v| v / length).collect()
}

fn embed<B: Backend>(session: &mut Session<B>, options: EmbedOptions) -> Embeddings {
    let mut job = session.embed_job(options).expect("the texts fit");
    loop {
        match pollster::block_on(session.embed(&mut job)).expect("the chunk runs") {
            EmbedProgress::Embedded { done, total } => assert!(done <= total),
            EmbedProgress::Finished(embeddings) => return embeddings,
        }
    }
}

fn largest_difference(got: &[f32], want: &[f64]) -> f64 {
    assert_eq!(got.len(), want.len());
    let differences = got.iter().zip(want).map(|(&a, b)| (f64::from(a) - b).abs());
    differences.fold(0.0, f64::max)
}

fn assert_right<B: Backend>(session: &mut Session<B>, bytes: &[u8], limit: f64) {
    for pooling in [Pooling::Mean, Pooling::Last] {
        let texts = texts();
        let embeddings = embed(session, options(&texts, Some(pooling)));
        assert_eq!(embeddings.tokens, texts.iter().map(Vec::len).sum::<usize>());
        assert_eq!(embeddings.vectors.len(), texts.len());
        for (text, vector) in texts.iter().zip(&embeddings.vectors) {
            let length: f64 = vector.iter().map(|&v| f64::from(v).powi(2)).sum();
            assert!((length - 1.0).abs() < 1e-6, "length squared {length}");
            let difference = largest_difference(vector, &expected(bytes, text, pooling));
            let len = text.len();
            assert!(difference <= limit, "{pooling:?} of {len}: {difference}");
        }
    }
}

/// Makes chunks of 1, 2, 3, 3, … rows: each takes as long as that many should.
struct ThreeRows(Cell<(u32, f64)>);

impl Clock for ThreeRows {
    fn now_ms(&self) -> f64 {
        let (calls, now) = self.0.get();
        let took = match calls {
            _ if calls.is_multiple_of(2) => 0.0,
            1 => 27.0,
            3 => 54.0,
            _ => 80.0,
        };
        self.0.set((calls + 1, now + took));
        now + took
    }
}

fn in_threes<B: Backend>(backend: B, bytes: &[u8]) -> Session<B> {
    let load = LoadOptions {
        context_length: None,
        file_bytes: vec![Some(bytes.len() as u64)],
    };
    let clock = ThreeRows(Cell::new((0, 0.0)));
    let mut loader = Loader::new(backend, load, Rc::new(clock));
    loader.push(bytes).expect("the file reads");
    loader.end_file().expect("the file is whole");
    loader.finish().expect("the model is complete")
}

#[test]
fn vectors_are_the_pooled_states_on_both_backends_in_large_and_odd_chunks() {
    let bytes = plain();
    assert_right(&mut cpu(&bytes), &bytes, 1e-6);
    assert_right(
        &mut in_threes(CpuBackend::new(Precision::Exact), &bytes),
        &bytes,
        1e-6,
    );
    assert_right(
        &mut in_threes(ReferenceBackend::new(), &bytes),
        &bytes,
        1e-7,
    );
}

#[test]
fn a_chunk_holds_no_more_rows_than_there_is_time_for() {
    let bytes = plain();
    let mut session = in_threes(CpuBackend::new(Precision::Exact), &bytes);
    // 1 + 2 + 3 + 3 + 3 + 3 rows; then the cache holds all but the last row.
    for (pooling, chunks) in [(Pooling::Mean, 6), (Pooling::Last, 1)] {
        let text = vec![(10..25).collect::<Vec<u32>>()];
        let mut job = session
            .embed_job(options(&text, Some(pooling)))
            .expect("the text fits");
        let mut made = 0;
        while let EmbedProgress::Embedded { .. } =
            pollster::block_on(session.embed(&mut job)).expect("the chunk runs")
        {
            made += 1;
        }
        assert_eq!(made, chunks, "{pooling:?}");
    }
}

#[test]
fn the_file_names_the_pooling_unless_the_caller_does() {
    let text = texts()[3..4].to_vec();
    for (kind, pooling) in [
        (None, Pooling::Mean),
        (Some(0), Pooling::Mean),
        (Some(1), Pooling::Mean),
        (Some(2), Pooling::Mean),
        (Some(3), Pooling::Last),
    ] {
        let bytes = file(|builder| match kind {
            Some(kind) => builder.u32("llama.pooling_type", kind),
            None => builder,
        });
        let mut session = cpu(&bytes);
        let of = |session: &mut _, pooling| embed(session, options(&text, pooling)).vectors;
        let named = of(&mut session, None);
        assert_eq!(named, of(&mut session, Some(pooling)), "{kind:?}");
        let other = match pooling {
            Pooling::Mean => Pooling::Last,
            Pooling::Last => Pooling::Mean,
        };
        assert_ne!(named, of(&mut session, Some(other)), "{kind:?}");
    }
}

#[test]
fn embeddings_and_a_generation_take_turns_and_both_are_right() {
    let bytes = tiny_llama::file();
    let texts = texts();
    for pooling in [Pooling::Mean, Pooling::Last] {
        let options = options(&texts, Some(pooling));
        let mut endless = greedy(40);
        endless.ignore_eos = true;
        let prompt = vec![9, 8, 7, 6, 5, 4];
        let tokens = ids(&run(&mut cpu(&bytes), prompt.clone(), endless.clone()));
        let vectors = embed(&mut cpu(&bytes), options.clone()).vectors;

        let mut session = in_threes(CpuBackend::new(Precision::Exact), &bytes);
        let mut job = session.embed_job(options).expect("the texts fit");
        let mut generation = session
            .generation(prompt, endless)
            .expect("the prompt fits");
        let mut got = Vec::new();
        let mut turn = 0;
        let embedded = loop {
            turn += 1;
            // Several chunks to a step, so that texts lose the cache half way.
            for _ in 0..4 {
                let step = session.advance(&mut generation);
                if let Progress::Token(token) = pollster::block_on(step).expect("the step runs") {
                    got.push(token.id);
                    break;
                }
            }
            let chunks = (0..1 + turn % 3).map(|_| pollster::block_on(session.embed(&mut job)));
            let last = chunks
                .last()
                .expect("one at least")
                .expect("the chunk runs");
            if let EmbedProgress::Finished(embeddings) = last {
                break embeddings.vectors;
            }
            assert!(turn < 10_000, "the job does not come forward");
        };
        got.extend(ids_left(&mut session, &mut generation));
        assert_eq!(got, tokens, "{pooling:?}");
        for (got, want) in embedded.iter().zip(&vectors) {
            let want: Vec<f64> = want.iter().map(|&v| f64::from(v)).collect();
            assert!(largest_difference(got, &want) <= 1e-6, "{pooling:?}");
        }
        assert_eq!(embedded.len(), vectors.len());
    }
}

fn ids_left<B: Backend>(
    session: &mut Session<B>,
    generation: &mut tokenbrook::session::Generation,
) -> Vec<u32> {
    let mut left = Vec::new();
    loop {
        match pollster::block_on(session.advance(generation)).expect("the step runs") {
            Progress::Prefilled { .. } => {}
            Progress::Token(token) => left.push(token.id),
            Progress::Finished => return left,
        }
    }
}

#[test]
fn texts_get_the_files_begin_and_end_tokens() {
    let bytes = tiny_llama::file();
    let mut session = cpu(&bytes);
    let ids = session
        .tokenizer()
        .encode_prompt("then")
        .expect("it encodes");
    let from_ids = embed(&mut session, options(&[ids], None));
    let read = EmbedOptions::from_json(&json!(["then"]), &serde_json::Map::new());
    assert_eq!(embed(&mut session, read.expect("it is a text")), from_ids);
}

#[test]
fn refuses_what_cannot_be_embedded() {
    let session = cpu(&tiny_llama::file());
    let read = |texts: &Value, options: Value| {
        let options = options.as_object().expect("tests pass objects");
        let read = EmbedOptions::from_json(texts, options)?;
        session.embed_job(read).map(|_| ())
    };
    for (texts, options, name) in [
        (json!([]), json!({}), "texts"),
        (json!("then"), json!({}), "texts"),
        (json!(["a", ""]), json!({}), "texts[1]"),
        (json!([[5], []]), json!({}), "texts[1]"),
        (json!(["a", 7]), json!({}), "texts[1]"),
        (json!([[5, -1]]), json!({}), "texts[0]"),
        (json!(["a"]), json!({ "pooling": "cls" }), "pooling"),
        (json!(["a"]), json!({ "pooling": 1 }), "pooling"),
    ] {
        match read(&texts, options) {
            Err(SessionError::InvalidOption { name: found, .. }) => assert_eq!(found, name),
            other => panic!("{texts}: {other:?}"),
        }
    }
    let unknown = read(&json!(["a"]), json!({ "poling": "mean" })).expect_err("unknown");
    assert_eq!(unknown.code(), "invalid-option");
    let foreign = read(&json!([[VOCAB]]), json!({})).expect_err("no such id");
    assert_eq!(foreign.code(), "invalid-option");
    let fitting = vec![5; CONTEXT];
    assert_eq!(read(&json!([fitting]), json!({})), Ok(()));
    let long = vec![5; CONTEXT + 1];
    let error = read(&json!(["a", long]), json!({})).expect_err("too long");
    assert_eq!(error.code(), "context-full");
}
