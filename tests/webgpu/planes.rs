//! Planes hold what a file's blocks hold.

use pollster::block_on;
use tokenbrook::backend::webgpu::check::Seeded;
use tokenbrook::backend::webgpu::kernels::linear::random_blocks;
use tokenbrook::backend::webgpu::planes::{Allocations, Matrix, PlaneFormat, Rows, repack, unpack};
use tokenbrook::backend::webgpu::{DeviceOptions, GpuError};
use tokenbrook::gguf::GgmlType;
use tokenbrook::quant::dequantize;

use crate::gpu::open;

#[test]
fn unpacked_planes_equal_the_plain_dequantizer_bit_for_bit() {
    for ty in GgmlType::ALL {
        let cols = match ty.block_elements() {
            1 => 45,
            32 => 32 * 5,
            _ => 256 * 3,
        };
        let mut seeded = Seeded::new(11);
        let blocks = random_blocks(ty, 3 * cols, &mut seeded);
        let mut want = vec![0.0; 3 * cols];
        dequantize(ty, &blocks, &mut want).expect("whole blocks");
        let mut rows = Rows::default();
        for row in blocks.chunks(blocks.len() / 3) {
            repack(ty, row, cols, &mut rows).expect("a row");
        }
        for (i, want) in want.iter().enumerate() {
            let got = unpack(PlaneFormat::of(ty), &rows, cols, [i / cols, i % cols]);
            assert_eq!(
                got.to_bits(),
                want.to_bits(),
                "{ty}, element {i}: {got} {want}"
            );
        }
    }
}

#[test]
fn planes_take_at_most_a_tenth_more_than_blocks() {
    for ty in GgmlType::ALL {
        // Those that have planes of their own.
        if matches!(
            ty,
            GgmlType::Q8_1 | GgmlType::Q8_K | GgmlType::IQ4_NL | GgmlType::MXFP4
        ) {
            continue;
        }
        for cols in [768, 2048, 2816] {
            let file = ty.row_bytes(cols as u64).expect("whole blocks");
            let planes = PlaneFormat::of(ty).row_bytes(cols);
            assert!(
                10 * planes <= 11 * file,
                "{ty}, {cols}: {planes} for {file}"
            );
        }
    }
}

#[test]
fn repack_rejects_rows_of_another_length() {
    let mut rows = Rows::default();
    repack(GgmlType::Q4_0, &[0; 17], 32, &mut rows).expect_err("no whole block");
    repack(GgmlType::Q4_0, &[0; 18], 64, &mut rows).expect_err("a block too few");
    repack(GgmlType::F16, &[0; 6], 2, &mut rows).expect_err("an element too many");
    assert_eq!(rows, Rows::default());
}

#[test]
fn neighbours_of_one_format_become_one_piece() {
    let gpu = open(DeviceOptions::default());
    let mut allocations = Allocations::default();
    let mut matrix = Matrix::new(64, &[3, 5, 7]);
    // They arrive in another order than they lie.
    for (part, rows, ty) in [
        (2, 7, GgmlType::F16),
        (1, 5, GgmlType::Q4_0),
        (0, 3, GgmlType::Q4_0),
    ] {
        let blocks = random_blocks(ty, rows * 64, &mut Seeded::new(1));
        matrix
            .write(&gpu, &mut allocations, part, (ty, 0, &blocks))
            .expect("rows of the part");
    }
    block_on(allocations.settle(&gpu)).expect("little memory");
    let pieces: Vec<_> = matrix
        .pieces()
        .iter()
        .map(|p| (p.first_row, p.rows))
        .collect();
    assert_eq!(pieces, [(0, 8), (8, 7)]);
    assert_eq!(matrix.bytes(), 8 * 2 * 18 + 7 * 64 * 2);
}

#[test]
fn a_part_beyond_the_largest_binding_is_split_by_rows() {
    let gpu = open(DeviceOptions::default());
    let mut allocations = Allocations::with_most_bytes(320);
    let mut matrix = Matrix::new(64, &[4, 25]);
    for (part, rows) in [(0, 4), (1, 25)] {
        let blocks = random_blocks(GgmlType::Q4_0, rows * 64, &mut Seeded::new(1));
        matrix
            .write(&gpu, &mut allocations, part, (GgmlType::Q4_0, 0, &blocks))
            .expect("rows of the part");
    }
    let pieces: Vec<_> = matrix
        .pieces()
        .iter()
        .map(|p| (p.first_row, p.rows))
        .collect();
    // 32 bytes of codes a row.
    assert_eq!(pieces, [(0, 4), (4, 10), (14, 10), (24, 5)]);
}

#[test]
fn matrix_rejects_rows_that_are_not_next_or_of_another_type() {
    let gpu = open(DeviceOptions::default());
    let mut allocations = Allocations::default();
    let mut matrix = Matrix::new(64, &[4]);
    let mut write = |ty, first_row, bytes: usize| {
        matrix.write(&gpu, &mut allocations, 0, (ty, first_row, &vec![0; bytes]))
    };
    write(GgmlType::Q4_0, 1, 36).expect_err("row 0 is next");
    write(GgmlType::Q4_0, 0, 35).expect_err("no whole row");
    write(GgmlType::Q4_K, 0, 144).expect_err("64 columns are no superblock");
    write(GgmlType::Q4_0, 0, 72).expect("two rows");
    write(GgmlType::Q8_0, 2, 68).expect_err("another type");
    write(GgmlType::Q4_0, 2, 108).expect_err("a row too many");
    write(GgmlType::Q4_0, 2, 72).expect("the others");
}

#[test]
fn a_buffer_beyond_the_limit_is_out_of_memory_with_numbers() {
    let gpu = open(DeviceOptions {
        default_limits: true,
        ..DeviceOptions::default()
    });
    let limit = gpu.capabilities().max_binding_bytes;
    let error = Allocations::default()
        .storage(&gpu, "weights", limit + 4)
        .expect_err("beyond the limit");
    let want = GpuError::OutOfMemory {
        what: "weights".to_owned(),
        bytes: limit + 4,
        max_buffer_bytes: limit,
    };
    assert_eq!(error, want);
}
