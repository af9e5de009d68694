//! Norms.

use tokenbrook::backend::webgpu::kernels::rms_norm::{Variant, case};
use tokenbrook::backend::webgpu::kernels::{norm_add, rms_norm_span};

use crate::gpu::{ALL, check, open};

#[test]
fn rms_norm_matches_its_twin_at_awkward_sizes() {
    for options in ALL {
        let gpu = open(options);
        for variant in Variant::available(gpu.capabilities()) {
            for size in [[1, 1], [1, 63], [3, 65], [5, 576], [130, 257]] {
                check(&gpu, &case(&gpu, variant, size, 7));
            }
        }
    }
}

#[test]
fn norm_add_matches_its_twin_at_awkward_sizes() {
    for options in ALL {
        let gpu = open(options);
        for variant in Variant::available(gpu.capabilities()) {
            for size in [[1, 1], [1, 63], [3, 65], [5, 576], [130, 257]] {
                check(&gpu, &norm_add::case(&gpu, variant, size, 7));
            }
        }
    }
}

#[test]
fn rms_norm_span_changes_its_span_and_nothing_else() {
    for options in ALL {
        let gpu = open(options);
        for variant in Variant::available(gpu.capabilities()) {
            for size in [
                [1, 3, 1, 1],
                [3, 200, 0, 65],
                [3, 200, 65, 63],
                [130, 333, 76, 257],
            ] {
                check(&gpu, &rms_norm_span::case(&gpu, variant, size, 7));
            }
        }
    }
}
