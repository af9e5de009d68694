//! Variants chosen by measuring.

use std::time::Instant;

use pollster::block_on;
use tokenbrook::backend::Backend;
use tokenbrook::backend::webgpu::{
    Fault, Given, GpuError, InUse, Report, WebGpuBackend, WebGpuOptions,
};

use crate::common::fixtures::load;
use crate::common::model::BareModel;
use crate::gpu::{ALL, open};

/// A small model, its kernels chosen by measuring.
fn tuned(options: WebGpuOptions, given: Given) -> Result<WebGpuBackend, String> {
    let start = Instant::now();
    let clock = move || start.elapsed().as_secs_f64() * 1000.0;
    let backend = WebGpuBackend::new(open(options.device), options, clock).with_given(given);
    let (file, _) = load("gemma3");
    let mut backend = BareModel::load(backend, &file, 32, 19).backend;
    block_on(backend.ready()).map_err(|error| error.to_string())?;
    Ok(backend)
}

fn report(backend: &WebGpuBackend) -> Report {
    backend.report().expect("it is ready").clone()
}

fn variant(report: &Report, role: &str) -> String {
    let mut all = report.variants.iter();
    let found = all.find(|it| it.role == role).expect("a role");
    found.variant.clone()
}

#[test]
fn a_processor_that_plays_a_gpu_gets_variants_without_barriers_by_itself() {
    for fast in [false, true] {
        let options = WebGpuOptions {
            device: ALL[0],
            fast,
            ..WebGpuOptions::default()
        };
        // Other tests on the same cores may disturb a measurement; not every one.
        let has_barriers = |report: &Report| {
            let products =
                ["linearOne", "linearFew", "linearMany"].map(|role| variant(report, role));
            let barriers = ["Tree", "Subgroup", "Gemm"];
            products
                .iter()
                .any(|it| barriers.iter().any(|word| it.contains(word)))
        };
        let reports = (0..3).map(|_| report(&tuned(options, Given::default()).expect("it loads")));
        let mut reports = reports.skip_while(has_barriers);
        let report = reports.next().expect("one without barriers in products");
        let timed = |role: &str| report.timings.iter().filter(|it| it.role == role).count();
        assert!(timed("linearOne") >= 4, "every variant is timed");
        assert!(report.timings.iter().all(|it| it.micros.is_finite()));
        let pace = report.pace.expect("it was measured");
        assert!(pace.decode_ms > 0.0 && pace.prefill_ms > 0.0);
    }
}

#[test]
fn what_an_earlier_load_found_is_not_looked_for_again() {
    let options = WebGpuOptions::default();
    let first = report(&tuned(options, Given::default()).expect("it loads"));
    // A change that no measurement would make shows that it is the report that counts.
    let mut changed = first.clone();
    let norm = changed.variants.iter_mut().find(|it| it.role == "norm");
    norm.expect("a role").variant = "Tree".to_owned();
    let given = |reports| Given {
        reports,
        ..Given::default()
    };
    let again = tuned(options, given(vec![changed])).expect("it loads");
    assert!(again.report_is_known());
    assert_eq!(variant(&report(&again), "norm"), "Tree");
    let mut of_another = first;
    of_another.key.push_str(" of another adapter");
    let fresh = tuned(options, given(vec![of_another])).expect("it loads");
    assert!(!fresh.report_is_known());
}

#[test]
fn a_variant_can_be_asked_for() {
    let given = |role: &str, variant: &str| Given {
        variants: vec![InUse {
            role: role.to_owned(),
            format: None,
            variant: variant.to_owned(),
        }],
        ..Given::default()
    };
    let options = WebGpuOptions::default();
    let backend = tuned(options, given("linearOne", "Tree")).expect("it loads");
    assert_eq!(variant(&report(&backend), "linearOne"), "Tree");
    // Its own sampler comes along: the others are measured as ever.
    assert_eq!(variant(&report(&backend), "sample"), "Tree");
    assert_eq!(variant(&report(&backend), "attentionOne"), "Serial8");
    let refused = tuned(options, given("linearOne", "Quick")).expect_err("there is none");
    assert!(refused.contains("Rows"), "{refused}");
    let refused = tuned(options, given("linearTwo", "Tree")).expect_err("there is none");
    assert!(refused.contains("linearOne"), "{refused}");
    let error = GpuError::Variant {
        role: String::new(),
        variant: String::new(),
        known: String::new(),
    };
    assert_eq!(error.code(), "invalid-option");
}

#[test]
fn a_wrong_variant_is_not_even_timed() {
    let fault = Fault {
        kernel: "rms_norm",
        from: "inverseSqrt(",
        to: "sqrt(",
    };
    let options = WebGpuOptions {
        fault: Some(fault),
        ..WebGpuOptions::default()
    };
    let report = report(&tuned(options, Given::default()).expect("another is right"));
    assert_eq!(variant(&report, "norm"), "Serial");
    let mut norms = report.timings.iter().filter(|it| it.role == "norm");
    assert!(norms.all(|it| it.variant == "Serial"));
    let faults = report.checks.iter().filter(|it| it.fault.is_some());
    assert!(faults.count() >= 1);
}
