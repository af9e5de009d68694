//! Where a pass's time goes.

use pollster::block_on;
use tokenbrook::backend::webgpu::kernels::yardstick;
use tokenbrook::backend::webgpu::{
    Cost, Extents, KvFormat, PlanKind, WebGpuBackend, WebGpuOptions,
};

use crate::common::model::session_from_bytes;
use crate::common::tiny_llama;
use crate::gpu::{ALL, check, open};

#[test]
fn a_profile_accounts_for_every_dispatch_of_a_pass() {
    for plan in [PlanKind::Software, PlanKind::Hardware] {
        let options = WebGpuOptions {
            plan: Some(plan),
            kv: Some(KvFormat::F32),
            ..WebGpuOptions::default()
        };
        let start = std::time::Instant::now();
        let clock = move || start.elapsed().as_secs_f64() * 1000.0;
        let backend = WebGpuBackend::new(open(ALL[0]), options, clock);
        let mut session =
            session_from_bytes(backend, &tiny_llama::file(), None).expect("the model loads");
        block_on(session.ready()).expect("the kernels are right");
        let profiles = block_on(session.profile()).expect("the device works");
        let [decode, prefill] = &profiles[..] else {
            panic!("{} passes", profiles.len());
        };
        assert_eq!([decode.rows, decode.positions], [1, 65]);
        assert_eq!([prefill.rows, prefill.positions], [64, 128]);
        for pass in [decode, prefill] {
            let of_kernels = pass.kernels.iter().map(|kernel| kernel.dispatches);
            assert_eq!(of_kernels.sum::<usize>(), pass.dispatches);
            let shares = pass.kernels.iter().map(|kernel| kernel.share);
            assert!((shares.sum::<f64>() - 1.0).abs() < 1e-9);
            assert!(pass.kernels.is_sorted_by(|a, b| a.micros >= b.micros));
            let bytes = pass.kernels.iter().map(|kernel| kernel.bytes);
            assert_eq!(bytes.sum::<u64>(), pass.bytes);
            assert!(pass.micros > 0.0 && pass.bytes > 0 && pass.flops > 0);
            assert!(pass.copy_bytes_per_second > 1e8 && pass.flops_per_second > 1e8);
        }
        assert!(prefill.flops > 30 * decode.flops);
    }
}

#[test]
fn a_cost_grows_with_rows_and_positions_as_far_as_they_are_seen() {
    let cost = Cost {
        weight_bytes: 1000,
        rows_a_read: 8,
        macs: 7,
        kv_bytes: 10,
        rows_a_kv_read: 1,
        kv_macs: 3,
        window: 20,
    };
    let at = |rows, positions| {
        let extents = Extents {
            rows,
            logit_rows: 0,
            positions,
        };
        let work = cost.at(&extents);
        [work.bytes, work.macs]
    };
    assert_eq!(at(1, 5), [1050, 22]);
    assert_eq!(at(1, 500), [1210, 70]);
    assert_eq!(at(9, 500), [2000 + 10 * 29 * 9, (7 + 3 * 29) * 9]);
}

#[test]
fn the_yardsticks_copy_and_multiply() {
    for options in [ALL[0], ALL[3]] {
        let gpu = open(options);
        // One, and more than a row of the grid: every row of an output ends with its width.
        for invocations in [8, 65_536 + 72] {
            for copies in [true, false] {
                check(&gpu, &yardstick::case(&gpu, copies, invocations));
            }
        }
    }
}
