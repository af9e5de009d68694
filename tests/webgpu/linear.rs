//! Products.

use tokenbrook::backend::ops::Activation;
use tokenbrook::backend::webgpu::kernels::linear::{Shape, Variant, case};
use tokenbrook::backend::webgpu::{DeviceOptions, Gpu};
use tokenbrook::gguf::GgmlType;

use crate::gpu::{ALL, check, open};

fn run(gpu: &Gpu, variant: Variant, shape: Shape, parts: &[(GgmlType, usize)], size: [usize; 2]) {
    let case = case(gpu, variant, shape, parts, size, 5).expect("the device works");
    check(gpu, &case);
}

/// Columns that a type can have: odd ones, and more than a few blocks.
fn columns(ty: GgmlType) -> [usize; 2] {
    match ty.block_elements() {
        1 => [1, 77],
        32 => [32, 576],
        _ => [256, 1024],
    }
}

#[test]
fn products_match_their_twin_in_every_type_and_variant() {
    for options in [ALL[0], ALL[3]] {
        let gpu = open(options);
        for variant in Variant::available(gpu.capabilities()) {
            for ty in GgmlType::ALL {
                for (cols, (t, n)) in columns(ty).into_iter().zip([(1, 1), (5, 67)]) {
                    run(&gpu, variant, Shape::Store(0, false), &[(ty, n)], [t, cols]);
                }
            }
        }
    }
}

#[test]
fn products_match_their_twin_in_every_shape() {
    use GgmlType::{F16, Q4_1, Q6_K, Q8_0};
    for options in ALL {
        let gpu = open(options);
        for variant in Variant::available(gpu.capabilities()) {
            for t in [1, 3, 4, 9] {
                run(&gpu, variant, Shape::Store(3, true), &[(Q4_1, 63)], [t, 96]);
                // Pieces of several formats.
                let stack = [(Q8_0, 5), (Q6_K, 64), (Q6_K, 1), (F16, 2)];
                run(&gpu, variant, Shape::Store(0, true), &stack, [t, 512]);
                run(&gpu, variant, Shape::Add(false), &[(Q4_1, 65)], [t, 160]);
                run(&gpu, variant, Shape::Add(true), &stack, [t, 256]);
                for activation in [Activation::Silu, Activation::GeluTanh] {
                    let shape = Shape::Gate(activation);
                    run(&gpu, variant, shape, &[(Q4_1, 37), (Q4_1, 37)], [t, 96]);
                    run(&gpu, variant, shape, &[(Q4_1, 37), (Q8_0, 37)], [t, 96]);
                }
                run(
                    &gpu,
                    variant,
                    Shape::Logits(1, false),
                    &[(Q8_0, 131)],
                    [t, 64],
                );
                run(
                    &gpu,
                    variant,
                    Shape::Logits(t, true),
                    &[(Q8_0, 131)],
                    [t, 64],
                );
            }
        }
    }
}

#[test]
fn products_match_their_twin_at_the_sizes_of_a_model() {
    use GgmlType::{Q4_1, Q4_K, Q8_0};
    let gpu = open(DeviceOptions::default());
    for variant in Variant::available(gpu.capabilities()) {
        for t in [1, 33] {
            run(
                &gpu,
                variant,
                Shape::Store(0, false),
                &[(Q4_1, 960)],
                [t, 576],
            );
            run(&gpu, variant, Shape::Add(false), &[(Q4_1, 576)], [t, 1536]);
            let shape = Shape::Gate(Activation::Silu);
            run(
                &gpu,
                variant,
                shape,
                &[(Q4_1, 1536), (Q4_1, 1536)],
                [t, 576],
            );
            run(
                &gpu,
                variant,
                Shape::Logits(1, false),
                &[(Q8_0, 4999)],
                [t, 576],
            );
            run(
                &gpu,
                variant,
                Shape::Store(0, false),
                &[(Q4_K, 130)],
                [t, 8192],
            );
        }
    }
}
