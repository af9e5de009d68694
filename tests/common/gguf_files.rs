//! Reads built files whole, and a file with every kind of value.

use tokenbrook::gguf::{GgmlType, GgufError, Header, Parsed, Reader, Sink, TensorInfo, parse};

use super::Random;
use super::gguf_builder::GgufBuilder;

/// Records what the reader hands on.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Recorder {
    pub(crate) headers: Vec<Header>,
    pub(crate) slabs: Vec<Slab>,
}

#[derive(Debug, PartialEq)]
pub(crate) struct Slab {
    pub(crate) tensor: String,
    pub(crate) first_row: u64,
    pub(crate) bytes: Vec<u8>,
}

impl Sink for Recorder {
    type Error = GgufError;

    fn header(&mut self, shard: usize, header: &Header) -> Result<(), GgufError> {
        assert_eq!(shard, self.headers.len());
        self.headers.push(header.clone());
        Ok(())
    }

    fn rows(&mut self, tensor: &TensorInfo, row: u64, bytes: &[u8]) -> Result<(), GgufError> {
        assert!(
            bytes.len() <= Reader::MAX_SLAB_BYTES,
            "{} bytes in a slab",
            bytes.len()
        );
        assert_eq!(bytes.as_ptr() as usize % 8, 0, "the slab is not aligned");
        assert_eq!(bytes.len() as u64 % tensor.row_bytes(), 0, "rows are whole");
        let (tensor, bytes) = (tensor.name.clone(), bytes.to_vec());
        self.slabs.push(Slab {
            tensor,
            first_row: row,
            bytes,
        });
        Ok(())
    }
}

impl Recorder {
    pub(crate) fn tensor(&self, name: &str) -> Vec<u8> {
        let mine = self.slabs.iter().filter(|slab| slab.tensor == name);
        mine.flat_map(|slab| slab.bytes.iter().copied()).collect()
    }
}

/// Reads files whose lengths are `known` or not, in chunks of the lengths given, over and over.
pub(crate) fn read(
    files: &[Vec<u8>],
    chunks: &[usize],
    known: bool,
) -> Result<Recorder, GgufError> {
    let lens: Vec<_> = files
        .iter()
        .map(|file| known.then_some(file.len() as u64))
        .collect();
    let mut reader = Reader::new(&lens);
    let mut recorder = Recorder::default();
    let mut chunks = chunks.iter().copied().cycle();
    for file in files {
        let mut rest = &file[..];
        while !rest.is_empty() {
            let (chunk, after) = rest.split_at(chunks.next().unwrap_or(1).min(rest.len()));
            reader.push(chunk, &mut recorder)?;
            rest = after;
        }
        reader.end_file(&mut recorder)?;
    }
    let total: u64 = files.iter().map(|file| file.len() as u64).sum();
    assert_eq!(reader.received_bytes(), total);
    reader.finish()?;
    Ok(recorder)
}

pub(crate) fn header(file: &[u8]) -> Result<Header, GgufError> {
    match parse(file, Some(file.len() as u64))? {
        Parsed::Header(header) => Ok(header),
        Parsed::NeedMore { total_bytes } => panic!("needs {total_bytes} of {} bytes", file.len()),
    }
}

pub(crate) fn error(file: &GgufBuilder) -> GgufError {
    header(&file.build()).expect_err("the file is hostile")
}

/// A file with every kind of value and three tensors of different types.
pub(crate) fn sample(builder: GgufBuilder) -> GgufBuilder {
    let mut random = Random(7);
    builder
        .str("general.architecture", "llama")
        .raw("u8", 0, &[200])
        .raw("i8", 1, &[0xfe])
        .u16("u16", 65_535)
        .raw("i16", 3, &(-3_i16).to_le_bytes())
        .u32("llama.block_count", 3)
        .i32("i32", -7)
        .f32("llama.rope.freq_base", 10_000.5)
        .bool("yes", true)
        .u64("u64", 1 << 40)
        .raw("i64", 11, &(-(1_i64 << 40)).to_le_bytes())
        .raw("f64", 12, &0.1_f64.to_le_bytes())
        .strings("tokenizer.ggml.tokens", &["a", "", "\u{120}the", "é"])
        .i32s("tokenizer.ggml.token_type", &[1, 1, 3, -4])
        .u32s("u32s", &[0, 5, u32::MAX])
        .f32s("f32s", &[0.5, -1.25, 3.0])
        .raw_array("bools", 7, 3, &[1, 0, 1])
        .raw_array("u8s", 0, 3, &[1, 2, 255])
        .raw_array("f64s", 12, 1, &2.5_f64.to_le_bytes())
        .raw_array("none", 4, 0, &[])
        .tensor_f32("norm", &[3], &[1.0, -2.0, 0.5])
        .tensor("q8", GgmlType::Q8_0, &[64, 5], random.bytes(5 * 68))
        .tensor("q4", GgmlType::Q4_1, &[96, 7, 2], random.bytes(14 * 60))
}
