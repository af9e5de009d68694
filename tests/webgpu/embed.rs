//! Gather of embeddings.

use tokenbrook::backend::webgpu::DeviceOptions;
use tokenbrook::backend::webgpu::kernels::embed::{case, case_in};
use tokenbrook::backend::webgpu::planes::Allocations;
use tokenbrook::gguf::GgmlType;

use crate::gpu::{ALL, check, open};

#[test]
fn embed_matches_its_twin_in_every_type() {
    for options in ALL {
        let gpu = open(options);
        for ty in GgmlType::ALL {
            let cols = match ty.block_elements() {
                1 => 45,
                32 => 1056,
                _ => 512,
            };
            for rows in [1, 7] {
                let case = case(&gpu, &[(ty, 33)], [rows, cols], None, 3);
                check(&gpu, &case.expect("the device works"));
            }
        }
    }
}

#[test]
fn embed_takes_row_0_from_the_ring_where_the_step_says_so() {
    let gpu = open(DeviceOptions::default());
    let parts = [(GgmlType::Q8_0, 9), (GgmlType::Q4_0, 11)];
    for slot in [0, 63] {
        let case = case(&gpu, &parts, [1, 64], Some(slot), 3);
        check(&gpu, &case.expect("the device works"));
    }
}

#[test]
fn embed_gathers_from_several_pieces() {
    let gpu = open(DeviceOptions::default());
    let parts = [(GgmlType::Q6_K, 5), (GgmlType::F32, 7), (GgmlType::Q5_1, 3)];
    let case = case(&gpu, &parts, [40, 256], None, 4);
    check(&gpu, &case.expect("the device works"));
    // 128 bytes of codes a row: five rows a piece.
    let memory = (&gpu, Allocations::with_most_bytes(700));
    let case = case_in(memory, &[(GgmlType::Q4_1, 23)], [40, 256], None, 4);
    check(&gpu, &case.expect("the device works"));
}
