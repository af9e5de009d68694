//! Products.

use pollster::block_on;
use tokenbrook::backend::ops::Activation;
use tokenbrook::backend::webgpu::check::{self, Case};
use tokenbrook::backend::webgpu::kernels::linear::{
    Epilogue, Linear, Norm, Rows, Shape, Variant, case, case_in, linear,
};
use tokenbrook::backend::webgpu::planes::{Allocations, Matrix};
use tokenbrook::backend::webgpu::{DeviceOptions, Gpu, Pipelines, Recorder};
use tokenbrook::gguf::GgmlType;

use crate::gpu::{ALL, open};

/// A device and what it has compiled: most cases differ only in their sizes.
struct Checks {
    gpu: Gpu,
    pipelines: Pipelines,
}

impl Checks {
    fn new(options: DeviceOptions) -> Self {
        Self {
            gpu: open(options),
            pipelines: Pipelines::default(),
        }
    }

    fn variants(&self) -> Vec<Variant> {
        Variant::available(self.gpu.capabilities())
    }

    fn run(
        &mut self,
        variant: Variant,
        shape: Shape,
        parts: &[(GgmlType, usize)],
        size: [usize; 2],
    ) {
        let case = case(&self.gpu, variant, shape, parts, size, 5);
        self.check(&case.expect("the device works"));
    }

    fn check(&mut self, case: &Case) {
        let outcome = block_on(check::run(&self.gpu, &mut self.pipelines, case));
        let outcome = outcome.expect("the device works");
        let fault = outcome.fault.unwrap_or_default();
        assert!(
            fault.is_empty(),
            "{}, {}: {fault}",
            outcome.kernel,
            outcome.description
        );
    }
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
    // Formats and subgroups have nothing to do with each other.
    let mut checks = Checks::new(ALL[3]);
    for variant in checks.variants() {
        for ty in GgmlType::ALL {
            for (cols, (t, n)) in columns(ty).into_iter().zip([(3, 1), (5, 67)]) {
                checks.run(variant, Shape::Store(0, false), &[(ty, n)], [t, cols]);
            }
        }
    }
}

#[test]
fn products_match_their_twin_in_every_shape() {
    use GgmlType::{F16, Q4_1, Q6_K, Q8_0};
    // No variant looks at 16-bit floats.
    for options in [ALL[0], ALL[3]] {
        let mut checks = Checks::new(options);
        for variant in checks.variants() {
            for t in [1, 3, 4, 9] {
                checks.run(variant, Shape::Store(3, true), &[(Q4_1, 63)], [t, 96]);
                // Pieces of several formats.
                let stack = [(Q8_0, 5), (Q6_K, 64), (Q6_K, 1), (F16, 2)];
                checks.run(variant, Shape::Store(0, true), &stack, [t, 512]);
                checks.run(variant, Shape::Add(false), &[(Q4_1, 65)], [t, 160]);
                checks.run(variant, Shape::Add(true), &stack, [t, 256]);
                for activation in [Activation::Silu, Activation::GeluTanh] {
                    let shape = Shape::Gate(activation);
                    checks.run(variant, shape, &[(Q4_1, 37), (Q4_1, 37)], [t, 96]);
                    checks.run(variant, shape, &[(Q4_1, 37), (Q8_0, 37)], [t, 96]);
                }
                checks.run(variant, Shape::Logits(1, false), &[(Q8_0, 131)], [t, 64]);
                checks.run(variant, Shape::Logits(t, true), &[(Q8_0, 131)], [t, 64]);
            }
        }
    }
}

#[test]
fn products_match_their_twin_at_the_sizes_of_a_model() {
    use GgmlType::{Q4_1, Q4_K, Q8_0};
    let mut checks = Checks::new(DeviceOptions::default());
    for variant in checks.variants() {
        for t in [1, 33] {
            checks.run(variant, Shape::Store(0, false), &[(Q4_1, 960)], [t, 576]);
            checks.run(variant, Shape::Add(false), &[(Q4_1, 576)], [t, 1536]);
            let shape = Shape::Gate(Activation::Silu);
            checks.run(variant, shape, &[(Q4_1, 1536), (Q4_1, 1536)], [t, 576]);
            checks.run(variant, Shape::Logits(1, false), &[(Q8_0, 4999)], [t, 576]);
            checks.run(variant, Shape::Store(0, false), &[(Q4_K, 130)], [t, 8192]);
        }
    }
}

#[test]
fn matrices_beyond_the_largest_binding_are_multiplied_piece_by_piece() {
    use GgmlType::{Q4_1, Q8_0};
    let mut checks = Checks::new(DeviceOptions::default());
    // Codes of 96 columns take 48 bytes a row of Q4_1 and 96 of Q8_0: a piece has 21 or 10.
    let small = || Allocations::with_most_bytes(1023);
    for variant in [Variant::Rows, Variant::Tiles, Variant::Tree, Variant::Gemm] {
        for (shape, parts) in [
            (Shape::Store(2, true), [(Q4_1, 50), (Q8_0, 23)]),
            (Shape::Add(true), [(Q8_0, 11), (Q4_1, 43)]),
            (Shape::Gate(Activation::Silu), [(Q4_1, 30), (Q4_1, 30)]),
            (Shape::Logits(2, true), [(Q8_0, 31), (Q8_0, 9)]),
        ] {
            let memory = (&checks.gpu, small());
            let case = case_in(memory, variant, shape, &parts, [3, 96], 8);
            checks.check(&case.expect("the device works"));
        }
    }
}

#[test]
fn linear_rejects_a_norm_where_the_variant_has_none_and_a_matrix_without_rows() {
    let gpu = open(DeviceOptions::default());
    let mut pipelines = Pipelines::default();
    let buffer = gpu.storage("any", 4096);
    let mut allocations = Allocations::default();
    let mut matrix = Matrix::new(32, &[2]);
    let empty = Matrix::new(32, &[2]);
    matrix
        .write(&gpu, &mut allocations, 0, (GgmlType::Q4_0, 0, &[0; 36]))
        .expect("two rows");
    let norm = Norm {
        weight: &buffer,
        eps: 1e-5,
    };
    let op = Linear {
        step: &buffer,
        x: &buffer,
        matrix: &matrix,
        norm: None,
        rows: Rows::All,
        epilogue: Epilogue::Store {
            column: 0,
            bias: None,
        },
        y: &buffer,
        y_width: 2,
        scratch: &buffer,
    };
    let normed = Linear {
        norm: Some(norm),
        ..op
    };
    let of_nothing = Linear {
        matrix: &empty,
        ..op
    };
    for variant in Variant::ALL {
        let mut record = |op| linear(&mut Recorder::new(&gpu, &mut pipelines), variant, op);
        assert_eq!(record(&normed).is_ok(), variant.fuses_norm(), "{variant:?}");
        record(&of_nothing).expect_err("no rows");
    }
}
