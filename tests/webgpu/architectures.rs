//! Every architecture's fixture through whole passes, by both kinds of plans, with all that the
//! adapter has and with default limits.

use tokenbrook::backend::webgpu::{
    DeviceOptions, KvFormat, PlanKind, WebGpuBackend, WebGpuOptions,
};

use crate::common::fixtures::{TOLERANCE, compare, load, logits, path};
use crate::gpu::{ALL, open};

/// With keys and values in f16, which keeps 11 bits of them; the logits span about 5.
const TOLERANCE_F16: f32 = 5e-2;

fn names() -> Vec<String> {
    let entries = std::fs::read_dir(path("")).expect("the folder reads");
    let names = entries.filter_map(|entry| {
        let name = entry.expect("the entry reads").file_name();
        let name = name.to_string_lossy().into_owned();
        name.strip_suffix(".gguf").map(str::to_owned)
    });
    names.collect()
}

fn check_all(options: WebGpuOptions, tolerance: f32, ways: &[&[usize]]) {
    let gpu = open(options.device);
    for name in names() {
        let (file, reference) = load(&name);
        for case in &reference.cases {
            for &chunks in ways {
                let what = format!("{name} with {options:?} in chunks of {chunks:?}");
                let backend = WebGpuBackend::new(gpu.clone(), options, || 0.0);
                let got = logits(backend, &file, case, chunks);
                let worst = compare(&what, case, &got, tolerance);
                eprintln!("{what}: {worst:e}");
            }
        }
    }
}

fn options(device: DeviceOptions, plan: PlanKind, kv: KvFormat) -> WebGpuOptions {
    WebGpuOptions {
        device,
        plan: Some(plan),
        kv: Some(kv),
        ..WebGpuOptions::default()
    }
}

#[test]
fn the_software_plan_equals_transformers_whatever_the_chunks() {
    let ways: [&[usize]; 3] = [&[320], &[5, 1, 11, 3], &[1]];
    check_all(
        options(ALL[0], PlanKind::Software, KvFormat::F32),
        TOLERANCE,
        &ways,
    );
}

#[test]
fn the_hardware_plan_equals_transformers_on_every_kind_of_device() {
    for device in ALL {
        let ways: [&[usize]; 1] = [&[5, 1, 11, 3]];
        check_all(
            options(device, PlanKind::Hardware, KvFormat::F32),
            TOLERANCE,
            &ways,
        );
    }
}

#[test]
fn keys_and_values_in_f16_stay_near() {
    for plan in [PlanKind::Software, PlanKind::Hardware] {
        check_all(
            options(ALL[0], plan, KvFormat::F16),
            TOLERANCE_F16,
            &[&[5, 1, 11, 3]],
        );
    }
}
