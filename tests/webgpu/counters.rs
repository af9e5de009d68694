//! What a token of the default model costs, by the plan for GPUs: counted, not timed, but for one.

use std::path::Path;
use std::time::Instant;

use pollster::block_on;
use tokenbrook::backend::webgpu::{KvFormat, PlanKind, WebGpuBackend, WebGpuOptions};
use tokenbrook::session::{Input, Progress, Session};

use crate::common::default_model;
use crate::common::model::{greedy, prompt, session_from_file};
use crate::gpu::{ALL, open};

const LAYERS: u64 = 30;

/// Bytes of keys and values of a position: 30 layers, 3 heads of 64, twice, in f16.
const KV_BYTES: u64 = LAYERS * 3 * 64 * 2 * 2;

fn session(path: &Path) -> Session<WebGpuBackend> {
    let options = WebGpuOptions {
        plan: Some(PlanKind::Hardware),
        kv: Some(KvFormat::F16),
        ..WebGpuOptions::default()
    };
    let start = Instant::now();
    let clock = move || start.elapsed().as_secs_f64() * 1000.0;
    let backend = WebGpuBackend::new(open(ALL[0]), options, clock);
    let mut session = session_from_file(backend, path);
    block_on(session.ready()).expect("the kernels are right");
    block_on(session.warm()).expect("a step runs");
    session
}

#[test]
fn a_token_of_the_default_model_makes_no_object_and_reads_weights_and_cache_once() {
    let path = default_model();
    let mut session = session(&path);
    let ids = prompt(&session, &Input::Raw("The capital of France is".to_owned()));
    let made = session.backend().gpu().objects_made();
    let mut generation = session.generation(ids, greedy(24)).expect("it fits");
    generation.set_lookahead(8);
    let mut tokens = 0;
    loop {
        match block_on(session.advance(&mut generation)).expect("the step runs") {
            Progress::Prefilled { .. } => {}
            Progress::Token(_) => tokens += 1,
            Progress::Finished => break,
        }
    }
    let backend = session.backend();
    assert_eq!(
        backend.gpu().objects_made(),
        made,
        "objects of a generation"
    );
    assert_eq!(tokens, 24);

    let dispatches = backend.decode_dispatches().len() as u64;
    // The embedding, a table of rotations, and the logits belong to no layer.
    assert!(dispatches - 3 <= 7 * LAYERS, "{dispatches} dispatches");

    let work = backend.last_work().expect("a pass ran");
    let file = std::fs::metadata(&path).expect("the file is there").len();
    let positions = 5 + 24;
    let least = file + positions * KV_BYTES;
    let share = work.bytes as f64 / least as f64;
    eprintln!("{dispatches} dispatches; {share:.3} of weights and cache are read");
    assert!((0.9..=1.1).contains(&share), "{share}");
    // Every weight is used once.
    assert!(
        (130_000_000..150_000_000).contains(&work.macs),
        "{}",
        work.macs
    );

    let encodes = (0..5).map(|_| backend.last_encode_ms().expect("a pass ran"));
    let least = encodes.fold(f64::INFINITY, f64::min);
    eprintln!("encoding a step takes {least:.3} ms");
    // A third of this on an idle machine; the tests share theirs.
    assert!(least <= 1.5, "{least} ms");
}
