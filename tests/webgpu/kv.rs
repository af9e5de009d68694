//! Places of the KV cache.

use pollster::block_on;
use tokenbrook::backend::webgpu::kv::{KvFormat, KvLayout, KvPool};
use tokenbrook::backend::webgpu::{DeviceOptions, GpuError};

use crate::gpu::open;

const LAYOUT: KvLayout = KvLayout {
    format: KvFormat::F32,
    num_kv_heads: 3,
    head_dim: 10,
    block_tokens: 5,
};

#[test]
fn rows_are_whole_quads_in_every_format() {
    let bytes = KvFormat::ALL.map(|format| KvLayout { format, ..LAYOUT }.row_bytes());
    assert_eq!(bytes, [48, 24, 16]);
    let wide = KvFormat::ALL.map(|format| {
        let layout = KvLayout {
            format,
            head_dim: 64,
            ..LAYOUT
        };
        layout.row_bytes()
    });
    assert_eq!(wide, [256, 128, 72]);
    for format in KvFormat::ALL {
        let row = vec![0.5; 66];
        let layout = KvLayout {
            format,
            head_dim: 66,
            ..LAYOUT
        };
        assert_eq!(format.encode(&row).len() as u64 * 4, layout.row_bytes());
    }
}

#[test]
fn places_are_reused_and_buffers_grow_by_doubling() {
    let gpu = open(DeviceOptions::default());
    let mut pool = KvPool::new(&gpu, "the KV cache", 2, LAYOUT, 2).expect("it is small");
    let block = LAYOUT.block_bytes();
    assert_eq!(pool.bytes(), 2 * 2 * block);
    let take = |pool: &mut KvPool| pool.take(&gpu).expect("it is small");
    let (a, b) = (take(&mut pool), take(&mut pool));
    assert_eq!([a.place, b.place], [0, 1]);
    assert!(!a.grown && !b.grown);
    pool.release(0);
    pool.release(0);
    pool.release(77);
    assert_eq!(take(&mut pool).place, 0);
    let c = take(&mut pool);
    assert!(c.grown, "a place given back twice would be free twice");
    assert_eq!((c.place, pool.places()), (2, 4));
    assert_eq!(pool.bytes(), 2 * 4 * block);
    block_on(pool.settle(&gpu)).expect("there is memory");
}

#[test]
fn rejects_a_cache_that_passes_the_limits_of_the_device() {
    let gpu = open(DeviceOptions {
        default_limits: true,
        ..DeviceOptions::default()
    });
    let places = usize::try_from((128 << 20) / LAYOUT.block_bytes() + 1).expect("it fits");
    let refused = KvPool::new(&gpu, "the KV cache", 1, LAYOUT, places);
    let Err(GpuError::OutOfMemory {
        what,
        bytes,
        max_buffer_bytes,
    }) = refused
    else {
        panic!("{refused:?}");
    };
    assert_eq!(what, "the KV cache");
    assert_eq!(bytes, places as u64 * LAYOUT.block_bytes());
    assert_eq!(max_buffer_bytes, 128 << 20);
    let mut small = KvPool::new(&gpu, "the KV cache", 1, LAYOUT, places / 2 + 1)
        .expect("half of it is within the limits");
    for _ in 0..=places / 2 {
        assert!(!small.take(&gpu).expect("it is there").grown);
    }
    assert!(small.take(&gpu).expect("there is more room").grown);
    assert_eq!(
        small.places(),
        places - 1,
        "not twice as many: that is too much"
    );
}

#[test]
fn a_pool_grows_to_what_a_binding_has_room_for_and_no_further() {
    // Three blocks, and a part of a fourth.
    let limit = LAYOUT.block_bytes() * 7 / 2;
    let gpu = open(DeviceOptions {
        most_binding_bytes: Some(limit),
        ..DeviceOptions::default()
    });
    let mut pool = KvPool::new(&gpu, "KV cache", 2, LAYOUT, 1).expect("memory");
    let places: Vec<_> = (0..3)
        .map(|_| pool.take(&gpu).expect("there is room").place)
        .collect();
    assert_eq!(places, [0, 1, 2]);
    let refused = pool.take(&gpu).expect_err("a fourth is too many");
    assert!(matches!(refused, GpuError::OutOfMemory { bytes, .. } if bytes > limit));
}
