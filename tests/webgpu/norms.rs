//! Norms.

use tokenbrook::backend::webgpu::kernels::rms_norm::{Variant, case};

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
