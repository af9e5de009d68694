//! Damaged headers end in typed errors: no panic, no hang, no memory that the bytes do not
//! justify. Valid files take little of it, too.

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::collections::HashSet;

use common::Random;
use common::gguf_builder::GgufBuilder;
use tokenbrook::gguf::{GgmlType, GgufError, Header, Reader, Sink, TensorInfo, parse};

thread_local! {
    // Signed: a thread may free what another one made.
    static LIVE: Cell<i64> = const { Cell::new(0) };
    static PEAK: Cell<i64> = const { Cell::new(0) };
    static LARGEST: Cell<usize> = const { Cell::new(0) };
}

/// Counts the bytes that this thread holds.
struct Counting;

impl Counting {
    fn add(bytes: usize) {
        LARGEST.set(LARGEST.get().max(bytes));
        LIVE.set(LIVE.get() + signed(bytes));
        PEAK.set(PEAK.get().max(LIVE.get()));
    }

    fn remove(bytes: usize) {
        LIVE.set(LIVE.get() - signed(bytes));
    }
}

/// Sizes of allocations are below 2^63 by the allocator's contract.
fn signed(bytes: usize) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

#[expect(
    unsafe_code,
    reason = "an allocator that counts is the only way to see what is held"
)]
// SAFETY: every call goes to the system's allocator unchanged; counting does not allocate, the
// counters are thread-local cells without destructors.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        Self::add(layout.size());
        // SAFETY: the caller keeps `GlobalAlloc`'s contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        Self::remove(layout.size());
        // SAFETY: the caller keeps `GlobalAlloc`'s contract.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // Old and new are held at once where the block moves.
        Self::add(size);
        Self::remove(layout.size());
        // SAFETY: the caller keeps `GlobalAlloc`'s contract.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// What a run took from the allocator.
struct Taken {
    /// Most bytes held at once, beyond those held before.
    peak: usize,
    /// Largest single allocation.
    largest: usize,
}

fn watch<T>(run: impl FnOnce() -> T) -> (T, Taken) {
    let before = LIVE.get();
    PEAK.set(before);
    LARGEST.set(0);
    let result = run();
    let peak = usize::try_from(PEAK.get() - before).expect("not below the start");
    let largest = LARGEST.get();
    (result, Taken { peak, largest })
}

/// Takes everything and keeps nothing.
struct Discard;

impl Sink for Discard {
    type Error = GgufError;

    fn header(&mut self, _: usize, _: &Header) -> Result<(), GgufError> {
        Ok(())
    }

    fn rows(&mut self, _: &TensorInfo, _: u64, _: &[u8]) -> Result<(), GgufError> {
        Ok(())
    }
}

fn read(file: &[u8], chunk: usize, file_len: Option<u64>) -> Result<(), GgufError> {
    let mut reader = Reader::new(&[file_len]);
    for bytes in file.chunks(chunk) {
        reader.push(bytes, &mut Discard)?;
    }
    reader.end_file(&mut Discard)?;
    reader.finish()
}

fn bases() -> Vec<Vec<u8>> {
    let small = GgufBuilder::v3()
        .str("general.architecture", "llama")
        .u32("llama.block_count", 2)
        .f32("llama.rope.freq_base", 10_000.0)
        .bool("tokenizer.ggml.add_bos_token", true)
        .strings("tokenizer.ggml.tokens", &["a", "bc", "def"])
        .i32s("tokenizer.ggml.token_type", &[1, 1, 3])
        .tensor("w", GgmlType::Q4_0, &[32, 2], vec![7; 36])
        .tensor_f32("n", &[5], &[1.0; 5]);
    let bare = GgufBuilder::v2().tensor("t", GgmlType::Q8_0, &[32], vec![3; 34]);
    let keys = GgufBuilder::v3()
        .alignment(64)
        .u64("a", 1 << 40)
        .raw_array("b", 12, 2, &[0; 16])
        .raw_array("c", 7, 3, &[1, 0, 1])
        .raw_array("d", 2, 3, &[1, 0, 2, 0, 3, 0]);
    let shard = GgufBuilder::v3()
        .tensor_f32("t", &[3, 3], &[0.5; 9])
        .into_shards(1)
        .remove(0);
    [small, bare, keys, shard]
        .iter()
        .map(GgufBuilder::build)
        .collect()
}

const EXTREMES: [u64; 14] = [
    0,
    1,
    2,
    9,
    0x7f,
    0xff,
    0xffff,
    0x7fff_ffff,
    0xffff_ffff,
    1 << 28,
    1 << 32,
    i64::MAX as u64,
    u64::MAX - 31,
    u64::MAX,
];

/// One to four changes: bits, values over fields of any width, cuts, and pieces of other files.
fn mutate(random: &mut Random, bases: &[Vec<u8>]) -> Vec<u8> {
    let mut file = bases[random.below(bases.len())].clone();
    for _ in 0..=random.below(4) {
        if file.is_empty() {
            break;
        }
        let at = random.below(file.len());
        match random.below(7) {
            0 => file[at] ^= 1 << random.below(8),
            1 => file[at] = random.next().to_le_bytes()[0],
            2 | 3 => {
                let value = EXTREMES[random.below(EXTREMES.len())].to_le_bytes();
                let width = [1, 2, 4, 8][random.below(4)].min(file.len() - at);
                file[at..at + width].copy_from_slice(&value[..width]);
            }
            4 => file.truncate(at),
            5 => {
                let other = &bases[random.below(bases.len())];
                let start = random.below(other.len());
                let end = start + random.below((other.len() - start).min(64));
                file.splice(at..at, other[start..end].iter().copied());
            }
            _ => {
                let end = at + random.below((file.len() - at).min(32));
                file.drain(at..end);
            }
        }
    }
    file
}

/// Beyond twice the file: the entries of a header of this size (about 100 bytes each, in
/// vectors with room to grow), and the text of an error.
const SMALL_HEADER_SLACK: usize = 4096;

/// What a file may cost in one allocation beyond twice its size: room for four entries, or the
/// text of an error.
const SMALL_ALLOCATION: usize = 512;

#[test]
fn a_hundred_thousand_damaged_headers_give_typed_errors_in_bounded_memory() {
    let seed = 20_261;
    let mut random = Random(seed);
    let bases = bases();
    let mut accepted = 0;
    let mut kinds = HashSet::new();
    for round in 0..100_000 {
        let file = mutate(&mut random, &bases);
        let len = file.len();
        let known = Some(len as u64).filter(|_| round % 3 != 0);
        let chunk = [1, 7, 61, 4096][random.below(4)];
        let (result, Taken { peak, largest }) = watch(|| {
            let prefix = parse(&file, known).map(|_| ());
            (read(&file, chunk, known), prefix)
        });
        assert!(
            peak <= 2 * len + SMALL_HEADER_SLACK,
            "round {round} of seed {seed}: {peak} bytes held for a file of {len}"
        );
        assert!(
            largest <= 2 * len + SMALL_ALLOCATION,
            "round {round} of seed {seed}: {largest} bytes allocated for a file of {len}"
        );
        match result {
            (Ok(()), prefix) => {
                accepted += 1;
                assert_eq!(prefix, Ok(()), "round {round} of seed {seed}");
            }
            (Err(error), _) => {
                kinds.insert(std::mem::discriminant(&error));
                let code = error.code();
                assert!(["invalid-gguf", "unsupported-quantization"].contains(&code));
                assert!(
                    error.to_string().len() > 20,
                    "round {round} of seed {seed}: {error}"
                );
            }
        }
    }
    // Changes in tensor data or in values leave a file valid; far from all are such.
    assert!(
        (1_000..60_000).contains(&accepted),
        "{accepted} files were accepted"
    );
}

/// Beyond twice the file: 4,096 keys and 16,384 tensors, at their sizes in memory.
const MANY_ENTRIES_SLACK: usize = 6 << 20;

#[test]
fn as_many_entries_as_the_limits_allow_are_read_in_bounded_memory() {
    let mut builder = GgufBuilder::v3();
    for i in 0..4096 {
        builder = builder.raw(format!("{i:x}"), 0, &[1]);
    }
    for i in 0..16_384 {
        builder = builder.tensor_f32(&format!("{i:x}"), &[1], &[1.0]);
    }
    let file = builder.build();
    let (result, Taken { peak, largest }) = watch(|| read(&file, 65_521, Some(file.len() as u64)));
    assert_eq!(result, Ok(()));
    let bound = 2 * file.len() + MANY_ENTRIES_SLACK;
    assert!(
        peak <= bound,
        "{peak} bytes held for a file of {}",
        file.len()
    );
    assert!(
        largest <= 2 * file.len(),
        "{largest} bytes allocated at once"
    );
}

/// Two slabs while the slab grows into its last size, and three times a header of 2 MiB.
const READER_BYTES: usize = (2 * Reader::MAX_SLAB_BYTES) + (6 << 20);

#[test]
fn the_default_model_is_read_without_holding_more_than_header_and_slab() {
    let file = std::fs::read(common::default_model()).expect("a readable file");
    for file_len in [Some(file.len() as u64), None] {
        for chunk in [65_537, file.len()] {
            let (result, Taken { peak, .. }) = watch(|| read(&file, chunk, file_len));
            assert_eq!(result, Ok(()));
            assert!(
                peak <= READER_BYTES,
                "{peak} bytes held with chunks of {chunk}"
            );
        }
    }
}

#[test]
fn the_counting_allocator_counts() {
    let (bytes, taken) = watch(|| {
        let large = std::hint::black_box(vec![1_u8; 1 << 20]);
        let small = std::hint::black_box(vec![1_u8; 1 << 10]);
        large.len() + small.len()
    });
    assert_eq!(taken.peak, bytes);
    assert_eq!(taken.largest, 1 << 20);
}
