//! Every text of the kernels for other compilers to look at: `target/tmp/wgsl`, which a browser
//! test reads.

use tokenbrook::backend::RopeKind;
use tokenbrook::backend::ops::{Activation, Cache};
use tokenbrook::backend::webgpu::check::Case;
use tokenbrook::backend::webgpu::kernels::attention::{self, AttentionCase};
use tokenbrook::backend::webgpu::kernels::qk_rope_append::{self, AppendCase, Judged};
use tokenbrook::backend::webgpu::kernels::{
    embed, gate, linear, norm_add, rms_norm, rms_norm_span, rope_table, sample, yardstick,
};
use tokenbrook::backend::webgpu::kv::{KvFormat, KvLayout};
use tokenbrook::backend::webgpu::planes::PlaneFormat;
use tokenbrook::backend::webgpu::sampler::{Mode, Sampler};
use tokenbrook::backend::webgpu::{Dialect, Gpu, Pipelines, Recorder, Shader};

use crate::gpu::{ALL, open};

/// Cases of every variant of the kernels that are no products.
fn cases(gpu: &Gpu) -> Vec<Case> {
    let capabilities = gpu.capabilities();
    let mut cases = vec![rope_table::case(gpu, [3, 7, 5])];
    for copies in [true, false] {
        cases.push(yardstick::case(gpu, copies, 8));
    }
    for variant in rms_norm::Variant::available(capabilities) {
        cases.push(rms_norm::case(gpu, variant, [3, 65], 1));
        cases.push(norm_add::case(gpu, variant, [3, 65], 1));
        cases.push(rms_norm_span::case(gpu, variant, [3, 160, 32, 65], 1));
    }
    for format in KvFormat::ALL {
        for (num_heads, num_kv_heads, head_dim) in [(6, 2, 64), (3, 1, 10)] {
            let layout = KvLayout {
                format,
                num_kv_heads,
                head_dim,
                block_tokens: 16,
            };
            cases.extend(of_layout(gpu, layout, num_heads));
        }
    }
    cases
}

fn of_layout(gpu: &Gpu, layout: KvLayout, num_heads: usize) -> Vec<Case> {
    let capabilities = gpu.capabilities();
    let mut cases = Vec::new();
    for (kind, window) in [(Cache::Full, None), (Cache::Window, Some(19))] {
        let shape = AttentionCase {
            layout,
            kind,
            num_heads,
            window,
            soft_cap: None,
            sequences: vec![[3, 20]],
        };
        for variant in attention::Variant::available(capabilities, &layout) {
            cases.push(attention::case(gpu, variant, &shape, 1));
        }
        for rope in [RopeKind::Interleaved, RopeKind::Halves] {
            for norms in [[false; 2], [true; 2]] {
                let shape = AppendCase {
                    layout,
                    kind,
                    num_heads,
                    window,
                    rope: Some((rope, layout.head_dim / 2)),
                    norms,
                    sequences: vec![[3, 4]],
                };
                for variant in qk_rope_append::Variant::available(capabilities, &layout) {
                    cases.push(qk_rope_append::case(
                        gpu,
                        variant,
                        (&shape, Judged::Cache),
                        1,
                    ));
                }
            }
        }
    }
    cases
}

fn sampling(gpu: &Gpu, pipelines: &mut Pipelines) {
    let (logits, ring) = (gpu.storage("logits", 4096), gpu.storage("ring", 64 * 256));
    for variant in sample::Variant::available(gpu.capabilities()) {
        let sampler = Sampler::new(gpu, variant, 1001);
        for bits in 0..8 {
            let mode = Mode {
                adjusts: bits & 1 > 0,
                draws: bits & 2 > 0,
                logprobs: bits & 4 > 0,
            };
            let mut recorder = Recorder::new(gpu, pipelines);
            sampler.record(&mut recorder, mode, &logits, &ring);
        }
    }
}

#[test]
fn every_text_is_written_for_other_compilers() {
    let folder = concat!(env!("CARGO_TARGET_TMPDIR"), "/wgsl");
    // Texts of kernels that are gone would be looked at for ever.
    let _ = std::fs::remove_dir_all(folder);
    std::fs::create_dir_all(folder).expect("a folder for texts");
    let gpu = open(ALL[0]);
    let mut pipelines = Pipelines::default();
    for case in cases(&gpu) {
        let output = gpu.storage("output", 1 << 20);
        let mut recorder = Recorder::new(&gpu, &mut pipelines);
        (case.record)(&mut recorder, &output).expect("it is recorded");
    }
    sampling(&gpu, &mut pipelines);
    let mut all: Vec<Shader> = linear::shaders();
    all.extend(PlaneFormat::ALL.map(embed::shader));
    all.extend([Activation::Silu, Activation::GeluTanh].map(gate::shader));
    all.extend_from_slice(pipelines.shaders());
    for (i, shader) in all.iter().enumerate() {
        let path = format!("{folder}/{}_{i}.wgsl", shader.name);
        std::fs::write(path, shader.text(Dialect::Standard)).expect("a text");
    }
    assert!(
        pipelines.shaders().len() > 60,
        "{}",
        pipelines.shaders().len()
    );
    assert!(all.len() > 300, "{} texts", all.len());
}
