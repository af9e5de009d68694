//! Models and tensors that do not fit where small ones do.

use pollster::block_on;
use tokenbrook::backend::Outputs;
use tokenbrook::backend::cpu::{CpuBackend, Precision};
use tokenbrook::backend::ops::Cache;
use tokenbrook::backend::webgpu::check::Seeded;
use tokenbrook::backend::webgpu::kernels::linear::random_blocks;
use tokenbrook::backend::webgpu::{
    DeviceOptions, KvFormat, PlanKind, WebGpuBackend, WebGpuOptions,
};
use tokenbrook::backend::{Backend, BlockId};
use tokenbrook::gguf::GgmlType;
use tokenbrook::session::{Input, Session};

use crate::common::fixtures::{TOLERANCE, compare, load, logits};
use crate::common::model::{BareModel, greedy, ids, prompt, run, session_from_file};
use crate::common::{gemma_model, tiny_llama};
use crate::gpu::open;

const BLOCK_TOKENS: usize = 32;

fn options(device: DeviceOptions, plan: PlanKind) -> WebGpuOptions {
    WebGpuOptions {
        device,
        plan: Some(plan),
        kv: Some(KvFormat::F32),
        ..WebGpuOptions::default()
    }
}

#[test]
fn tensors_beyond_the_binding_limit_are_cut_and_agree() {
    // The fixtures' matrices have up to 65 kB: a few rows to a buffer.
    let device = DeviceOptions {
        most_binding_bytes: Some(16_000),
        ..DeviceOptions::default()
    };
    for plan in [PlanKind::Software, PlanKind::Hardware] {
        for name in ["qwen3", "phi3", "gemma3"] {
            let (file, reference) = load(name);
            let backend = WebGpuBackend::new(open(device), options(device, plan), || 0.0);
            let case = &reference.cases[0];
            let got = logits(backend, &file, case, &[5, 1, 11, 3]);
            compare(
                &format!("{name}, {plan:?}, in pieces"),
                case,
                &got,
                TOLERANCE,
            );
        }
    }
}

/// Gemma's head, 262,144 rows, has more than the 128 MiB that every device can bind.
#[test]
fn gemmas_head_under_default_limits_gives_the_tokens_of_the_cpu() {
    let device = DeviceOptions {
        default_limits: true,
        ..DeviceOptions::default()
    };
    let path = gemma_model();
    let gpu = open(device);
    let limit = gpu.capabilities().max_binding_bytes;
    assert_eq!(limit, 128 << 20);
    let backend = WebGpuBackend::new(gpu, options(device, PlanKind::Software), || 0.0);
    let mut gpu = session_from_file(backend, &path);
    block_on(gpu.ready()).expect("the kernels are right");
    let mut cpu = session_from_file(CpuBackend::new(Precision::Exact), &path);
    let input = Input::Raw("The largest planet of the solar system is".to_owned());
    let wanted = answer(&mut cpu, &input);
    assert_eq!(answer(&mut gpu, &input), wanted);
}

fn answer<B: Backend>(session: &mut Session<B>, input: &Input) -> Vec<u32> {
    let prompt = prompt(session, input);
    ids(&run(session, prompt, greedy(6)))
}

/// A Llama of random blocks of `Q8_0`; every layer has the same ones.
fn random_llama([hidden, intermediate, layers]: [u64; 3]) -> Vec<u8> {
    let (heads, kv_heads) = (hidden / 64, hidden / 256);
    let small = |value: u64| u32::try_from(value).expect("a small number");
    let mut builder = tiny_llama::metadata()
        .without("llama.")
        .without("general.")
        .str("general.architecture", "llama")
        .u32("llama.context_length", 512)
        .u32("llama.embedding_length", small(hidden))
        .u32("llama.feed_forward_length", small(intermediate))
        .u32("llama.block_count", small(layers))
        .u32("llama.attention.head_count", small(heads))
        .u32("llama.attention.head_count_kv", small(kv_heads))
        .f32("llama.attention.layer_norm_rms_epsilon", 1e-5);
    let mut seeded = Seeded::new(5);
    let ones = vec![1.0; usize::try_from(hidden).expect("a size")];
    let matrix = |seeded: &mut Seeded, shape: [u64; 2]| {
        let elements = usize::try_from(shape[0] * shape[1]).expect("a size");
        random_blocks(GgmlType::Q8_0, elements, seeded)
    };
    let embedding = matrix(&mut seeded, [hidden, 259]);
    builder = builder
        .tensor(
            "token_embd.weight",
            GgmlType::Q8_0,
            &[hidden, 259],
            embedding,
        )
        .tensor_f32("output_norm.weight", &[hidden], &ones);
    let shapes = [
        ("attn_q.weight", [hidden, hidden]),
        ("attn_k.weight", [hidden, hidden / 4]),
        ("attn_v.weight", [hidden, hidden / 4]),
        ("attn_output.weight", [hidden, hidden]),
        ("ffn_gate.weight", [hidden, intermediate]),
        ("ffn_up.weight", [hidden, intermediate]),
        ("ffn_down.weight", [intermediate, hidden]),
    ];
    let contents = shapes.map(|(_, shape)| matrix(&mut seeded, shape));
    for layer in 0..layers {
        for name in ["attn_norm.weight", "ffn_norm.weight"] {
            builder = builder.tensor_f32(&format!("blk.{layer}.{name}"), &[hidden], &ones);
        }
        for ((name, shape), blocks) in shapes.iter().zip(&contents) {
            let name = format!("blk.{layer}.{name}");
            builder = builder.tensor(name, GgmlType::Q8_0, shape, blocks.clone());
        }
    }
    builder.build()
}

/// Logits after a few tokens, one pass of several rows and one of one.
fn after_five<B: Backend>(backend: B, file: &[u8]) -> Vec<f32> {
    let mut model = BareModel::load_for(backend, file, None, [16, BLOCK_TOKENS]);
    let blocks: [BlockId; 1] = [model.backend.allocate_block(Cache::Full).expect("memory")];
    model.pass(&[7, 99, 3, 200], 0, &blocks, Outputs::LastRow);
    model.pass(&[41], 4, &blocks, Outputs::LastRow)
}

fn agrees_with_the_cpu(shape: [u64; 3], plans: &[PlanKind]) {
    let file = random_llama(shape);
    eprintln!("{} bytes", file.len());
    let want = after_five(CpuBackend::new(Precision::Exact), &file);
    let size = want.iter().fold(0.0_f32, |most, it| most.max(it.abs()));
    for &plan in plans {
        let device = DeviceOptions::default();
        let backend = WebGpuBackend::new(open(device), options(device, plan), || 0.0);
        let got = after_five(backend, &file);
        let differences = got.iter().zip(&want).map(|(a, b)| (a - b).abs());
        let worst = differences.fold(0.0, f32::max) / size;
        eprintln!("{plan:?}: {worst:e} of the largest logit");
        assert!(worst <= 1e-3, "{plan:?}: {worst}");
    }
}

#[test]
fn a_model_of_random_weights_agrees_with_the_cpu() {
    agrees_with_the_cpu([256, 704, 3], &[PlanKind::Software, PlanKind::Hardware]);
}

/// 432 MB of file, and as much again on each side; a few seconds.
#[test]
fn a_model_of_more_than_400_megabytes_agrees_with_the_cpu() {
    agrees_with_the_cpu([2048, 5632, 9], &[PlanKind::Software]);
}
