//! Models that there is no room for are refused by their header alone.

use std::rc::Rc;
use std::time::Instant;

use tokenbrook::backend::Backend;
use tokenbrook::backend::cpu::{CpuBackend, Precision};
use tokenbrook::backend::webgpu::{DeviceOptions, Gpu, KvFormat, WebGpuBackend, WebGpuOptions};
use tokenbrook::session::{LoadOptions, Loader, Need, SessionError, Sketch};

mod common;

use common::model::{SystemClock, greedy, run, session_from_bytes};
use common::tiny_llama;

/// Positions of a block, as the session has them.
const BLOCK: u64 = 256;
/// Keys and values of a position of the tiny model: two heads of four elements in a layer.
const ELEMENTS: u64 = 2 * 2 * 4;
const LAYERS: u64 = 2;

fn loader<B: Backend>(backend: B, context_length: usize) -> Loader<B> {
    let options = LoadOptions {
        context_length: Some(context_length),
        file_bytes: vec![None],
    };
    Loader::new(backend, options, Rc::new(SystemClock::from(Instant::now())))
}

fn cpu() -> CpuBackend {
    CpuBackend::new(Precision::Exact)
}

/// What the header says, where the host has so many bytes.
fn sketch<B: Backend>(backend: B, context_length: usize, host_bytes: u64) -> Sketch {
    let mut loader = loader(backend, context_length);
    for byte in tiny_llama::file().chunks(1) {
        loader.push(byte).expect("the file reads");
        if loader.has_header() {
            break;
        }
    }
    let sketch = loader.sketch(host_bytes);
    sketch.expect("there is a header of a model of ours")
}

#[test]
fn a_sketch_foretells_what_a_session_then_holds() {
    let fit = sketch(cpu(), tiny_llama::CONTEXT, u64::MAX).fit;
    let mut session = session_from_bytes(cpu(), &tiny_llama::file(), None).expect("it loads");
    let prompt: Vec<u32> = (0..tiny_llama::CONTEXT - 1).map(|_| 70).collect();
    run(&mut session, prompt, greedy(1));
    let memory = session.memory();
    assert_eq!(fit.kv_cache_bytes, memory.kv_cache_bytes);
    // The frequencies of RoPE are no tensor of the file: one for each pair of a head.
    assert_eq!(fit.weights_bytes + 4 * 4 / 2, memory.weights_bytes);
    assert_eq!(fit.longest_context, tiny_llama::CONTEXT);
    assert_eq!(fit.shortage, None);
}

#[test]
fn the_longest_context_is_the_one_beyond_which_a_byte_is_missing() {
    let fit = sketch(cpu(), tiny_llama::CONTEXT, u64::MAX).fit;
    let blocks = |count: u64| count * BLOCK * ELEMENTS * LAYERS * 4;
    assert_eq!(fit.kv_cache_bytes, blocks(2));
    let room = fit.weights_bytes + blocks(2);
    for (host, longest) in [
        (room, tiny_llama::CONTEXT),
        (room - 1, 256),
        (fit.weights_bytes + blocks(1), 256),
        (fit.weights_bytes + blocks(1) - 1, 0),
        (0, 0),
    ] {
        let fit = sketch(cpu(), tiny_llama::CONTEXT, host).fit;
        assert_eq!(fit.longest_context, longest, "{host}");
        assert_eq!(fit.shortage.is_none(), host >= room, "{host}");
    }
    assert_eq!(sketch(cpu(), 256, room - 1).fit.shortage, None);
}

#[test]
fn what_does_not_fit_the_host_is_refused_with_the_numbers_before_any_row() {
    let fit = sketch(cpu(), tiny_llama::CONTEXT, u64::MAX).fit;
    let need = fit.weights_bytes + fit.kv_cache_bytes;
    let mut loader = loader(cpu(), tiny_llama::CONTEXT).with_room(need - 1);
    let error = loader.push(&tiny_llama::file()).expect_err("no room");
    assert_eq!(error.code(), "out-of-memory");
    let SessionError::NoRoom {
        shortage,
        longest_context,
        on_host,
    } = &error
    else {
        panic!("{error}");
    };
    assert_eq!((shortage.need, shortage.have), (need, need - 1));
    assert_eq!(
        (shortage.what, *longest_context, *on_host),
        (Need::Host, 256, true)
    );
    assert!(error.to_string().contains("contextLength of at most 256"));
    assert_eq!(loader.backend_mut().memory().weights_bytes, 0);
    // With the context that it names, it loads.
    let mut fitting = self::loader(cpu(), 256).with_room(need - 1);
    fitting.push(&tiny_llama::file()).expect("there is room");
}

#[test]
fn a_gpu_refuses_a_layer_whose_cache_it_cannot_bind() {
    let bytes = BLOCK * ELEMENTS * 4;
    let open = |most_binding_bytes| {
        let device = DeviceOptions {
            most_binding_bytes: Some(most_binding_bytes),
            ..DeviceOptions::default()
        };
        let options = WebGpuOptions {
            device,
            kv: Some(KvFormat::F32),
            ..WebGpuOptions::default()
        };
        let gpu = pollster::block_on(Gpu::open(device)).expect("xtask setup installs one");
        WebGpuBackend::new(gpu, options, || 0.0)
    };
    let fit = sketch(open(2 * bytes), tiny_llama::CONTEXT, 0).fit;
    assert_eq!(
        (fit.shortage, fit.longest_context),
        (None, tiny_llama::CONTEXT)
    );
    assert_eq!(fit.kv_cache_bytes, 2 * bytes * LAYERS);
    let fit = sketch(open(2 * bytes - 1), tiny_llama::CONTEXT, 0).fit;
    assert_eq!(fit.longest_context, 256);
    let shortage = fit.shortage.expect("two blocks are too many");
    assert_eq!(
        (shortage.what, shortage.need),
        (Need::LayerCache, 2 * bytes)
    );
    assert_eq!(shortage.have, 2 * bytes - 1);
    let backend = open(2 * bytes - 1);
    let mut loader = loader(backend, tiny_llama::CONTEXT).with_room(u64::MAX);
    let error = loader.push(&tiny_llama::file()).expect_err("no room");
    assert_eq!(error.code(), "out-of-memory");
    assert_eq!(loader.backend_mut().memory().weights_bytes, 0);
}
