//! Steps of decode: what is recorded, what is replayed, and what runs ahead.

use pollster::block_on;
use tokenbrook::backend::cpu::{CpuBackend, Precision};
use tokenbrook::backend::ops::Cache;
use tokenbrook::backend::webgpu::{KvFormat, PlanKind, WebGpuBackend, WebGpuOptions};
use tokenbrook::backend::{Backend, BlockId, Outputs};
use tokenbrook::session::{GenerateOptions, Session};

use crate::ahead::Ahead;
use crate::common::fixtures::load;
use crate::common::model::{BareModel, greedy, ids, run, session_from_bytes};
use crate::common::tiny_llama;
use crate::gpu::{ALL, open};

const BLOCK_TOKENS: usize = 256;

fn backend(plan: PlanKind) -> WebGpuBackend {
    let options = WebGpuOptions {
        plan: Some(plan),
        kv: Some(KvFormat::F32),
        ..WebGpuOptions::default()
    };
    WebGpuBackend::new(open(ALL[0]), options, || 0.0)
}

fn blocks<B: Backend>(model: &mut BareModel<B>, positions: usize) -> Vec<BlockId> {
    (0..positions.div_ceil(BLOCK_TOKENS))
        .map(|_| model.backend.allocate_block(Cache::Full).expect("memory"))
        .collect()
}

fn prompt(len: usize) -> Vec<u32> {
    let mut random = crate::common::Random(3);
    let id = |_| u32::try_from(3 + random.below(200)).expect("an id");
    (0..len).map(id).collect()
}

fn distance(a: &[f32], b: &[f32]) -> f32 {
    let differences = a.iter().zip(b).map(|(a, b)| (a - b).abs());
    differences.fold(0.0, f32::max)
}

#[test]
fn a_layer_of_decode_takes_at_most_seven_dispatches() {
    let (file, reference) = load("qwen3");
    let mut model = BareModel::load(backend(PlanKind::Hardware), &file, 32, BLOCK_TOKENS);
    let table = blocks(&mut model, 8);
    let ids = &reference.cases[0].ids;
    model.pass(&ids[..3], 0, &table, Outputs::LastRow);
    model.pass(&ids[3..4], 3, &table, Outputs::LastRow);
    let dispatches = model.backend.decode_dispatches();
    let layers = dispatches
        .iter()
        .filter(|name| name.starts_with("qk_rope_append"))
        .count();
    // The embedding, a table of rotations, and the logits belong to no layer.
    let outside = ["embed", "rope_table"];
    let inside = dispatches.iter().filter(|name| !outside.contains(name));
    let inside = inside.count() - 1;
    assert!(layers > 0);
    assert!(inside <= 7 * layers, "{inside} in {layers}: {dispatches:?}");
}

#[test]
fn steps_of_one_shape_are_recorded_once() {
    let (file, reference) = load("gemma3");
    for plan in [PlanKind::Software, PlanKind::Hardware] {
        let mut model = BareModel::load(backend(plan), &file, 32, BLOCK_TOKENS);
        let table = blocks(&mut model, 64);
        let ids = &reference.cases[0].ids;
        model.pass(&ids[..9], 0, &table, Outputs::LastRow);
        model.pass(&ids[9..10], 9, &table, Outputs::LastRow);
        let made = model.backend.gpu().objects_made();
        for (i, id) in ids[10..30].iter().enumerate() {
            model.pass(&[*id], 10 + i, &table, Outputs::LastRow);
        }
        // A read of logits has a buffer of its own; the steps make nothing.
        assert_eq!(model.backend.gpu().objects_made(), made + 20);
    }
}

#[test]
fn cached_decode_equals_computing_all_anew() {
    for plan in [PlanKind::Software, PlanKind::Hardware] {
        let file = tiny_llama::file();
        let mut model = BareModel::load(backend(plan), &file, 128, BLOCK_TOKENS);
        let table = blocks(&mut model, 128);
        let ids = prompt(84);
        model.pass(&ids[..20], 0, &table, Outputs::LastRow);
        let steps: Vec<_> = (20..84)
            .map(|i| model.pass(&ids[i..=i], i, &table, Outputs::LastRow))
            .collect();
        let anew = model.pass(&ids, 0, &table, Outputs::AllRows);
        let vocab = steps[0].len();
        for (i, step) in steps.iter().enumerate() {
            let row = &anew[(20 + i) * vocab..(21 + i) * vocab];
            let worst = distance(step, row);
            assert!(worst <= 1e-4, "{plan:?}, step {i}: {worst}");
        }
    }
}

#[test]
fn long_contexts_equal_the_cpu() {
    let file = tiny_llama::file();
    let ids = prompt(8200);
    let cpu = CpuBackend::new(Precision::Exact);
    let mut want = BareModel::load(cpu, &file, 320, BLOCK_TOKENS);
    let mut gpus = [PlanKind::Software, PlanKind::Hardware]
        .map(|plan| BareModel::load(backend(plan), &file, 320, BLOCK_TOKENS));
    let cpu_table = blocks(&mut want, ids.len());
    let tables = gpus.each_mut().map(|gpu| blocks(gpu, ids.len()));
    for (i, chunk) in ids[..8192].chunks(256).enumerate() {
        let position = i * 256;
        let logits = want.pass(chunk, position, &cpu_table, Outputs::LastRow);
        for (gpu, table) in gpus.iter_mut().zip(&tables) {
            let got = gpu.pass(chunk, position, table, Outputs::LastRow);
            if [1024, 4096, 8192].contains(&(position + 256)) {
                let worst = distance(&got, &logits);
                assert!(worst <= 1e-3, "at {}: {worst}", position + 256);
            }
        }
    }
    // One row at the end of it all: decode's own kernels.
    let logits = want.pass(&ids[8192..8193], 8192, &cpu_table, Outputs::LastRow);
    for (gpu, table) in gpus.iter_mut().zip(&tables) {
        let got = gpu.pass(&ids[8192..8193], 8192, table, Outputs::LastRow);
        let worst = distance(&got, &logits);
        assert!(worst <= 1e-3, "decode at 8192: {worst}");
    }
}

/// Penalties look at tokens that the host has not read.
#[test]
fn steps_ahead_choose_what_steps_one_by_one_choose() {
    let options = |temperature| GenerateOptions {
        temperature,
        top_k: 50,
        seed: Some(8),
        ignore_eos: true,
        repetition_penalty: 1.2,
        frequency_penalty: 0.3,
        presence_penalty: 0.1,
        ..greedy(40)
    };
    let session = |read_ms| -> Session<Ahead<WebGpuBackend>> {
        let backend = Ahead::new(backend(PlanKind::Software), read_ms);
        let mut session =
            session_from_bytes(backend, &tiny_llama::file(), None).expect("the model loads");
        block_on(session.ready()).expect("the kernels are right");
        session
    };
    for temperature in [0.0, 1.3] {
        let mut one_by_one = session(0.0);
        let want = run(&mut one_by_one, prompt(30), options(temperature));
        let mut ahead = session(1000.0);
        let got = run(&mut ahead, prompt(30), options(temperature));
        assert_eq!(ids(&got), ids(&want));
        assert!(ahead.backend().unread_steps > 20);
    }
}
