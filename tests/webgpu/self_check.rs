//! Wrong kernels are found before a model is used.

use pollster::block_on;
use tokenbrook::backend::Backend;
use tokenbrook::backend::webgpu::{
    Fault, KvFormat, PlanKind, Verdict, WebGpuBackend, WebGpuOptions,
};

use crate::common::fixtures::load;
use crate::common::model::BareModel;
use crate::gpu::{ALL, open};

/// Quantizations of the model's matrices.
const FORMATS: [&str; 1] = ["F32"];

fn backend(plan: PlanKind, fault: Option<Fault>) -> WebGpuBackend {
    let options = WebGpuOptions {
        plan: Some(plan),
        kv: Some(KvFormat::F16),
        fault,
        ..WebGpuOptions::default()
    };
    let backend = WebGpuBackend::new(open(ALL[0]), options, || 0.0);
    let (file, _) = load("gemma3");
    BareModel::load(backend, &file, 32, 19).backend
}

#[test]
fn all_kernels_of_both_plans_pass() {
    for plan in [PlanKind::Software, PlanKind::Hardware] {
        let mut backend = backend(plan, None);
        block_on(backend.ready()).expect("the kernels are right");
        let products = |it: &&Verdict| it.role.starts_with("linear");
        assert_eq!(
            backend.verdicts().iter().filter(products).count(),
            3 * FORMATS.len()
        );
        assert_eq!(backend.verdicts().len(), 6 + 3 * FORMATS.len());
        for verdict in backend.verdicts() {
            assert_eq!(verdict.fault, None, "{verdict:?}");
        }
    }
}

#[test]
fn a_wrong_variant_gives_way_to_a_right_one() {
    // What the tree and the subgroup variants share, but not the serial one.
    let fault = Fault {
        kernel: "rms_norm",
        from: "inverseSqrt(",
        to: "sqrt(",
    };
    let mut backend = backend(PlanKind::Hardware, Some(fault));
    block_on(backend.ready()).expect("another variant is right");
    let norms = backend.verdicts().iter().filter(|it| it.role == "norm");
    let norms: Vec<_> = norms
        .map(|verdict| (verdict.variant.as_str(), verdict.fault.is_some()))
        .collect();
    assert_eq!(
        norms,
        [("Subgroup", true), ("Tree", true), ("Serial", false)]
    );
}

#[test]
fn a_variant_that_the_device_refuses_gives_way_too() {
    let fault = Fault {
        kernel: "rms_norm",
        from: "inverseSqrt(",
        to: "no_such_function(",
    };
    let mut backend = backend(PlanKind::Hardware, Some(fault));
    block_on(backend.ready()).expect("another variant is right");
    let serial = |it: &&tokenbrook::backend::webgpu::Verdict| it.variant == "Serial";
    assert!(backend.verdicts().iter().any(|it| serial(&it)));
}

#[test]
fn a_kernel_without_a_right_variant_is_an_error_that_names_it() {
    let fault = Fault {
        kernel: "rms_norm_serial",
        from: "inverseSqrt(",
        to: "sqrt(",
    };
    let mut backend = backend(PlanKind::Software, Some(fault));
    let error = block_on(backend.ready()).expect_err("no variant is right");
    assert_eq!(error.code(), "unsupported-environment");
    assert!(error.to_string().contains("norm Serial"), "{error}");
}
