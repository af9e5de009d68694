//! Headers and tensor rows of GGUF files: what is read, and what is refused.

mod common;

use candle_core::quantized::gguf_file::{Content, Value as CandleValue};
use common::gguf_builder::{GgufBuilder, string};
use common::{Random, default_model};
use tokenbrook::gguf::{
    Array, GgmlType, GgufError, Header, Parsed, Reader, Sink, TensorInfo, Value, parse,
};
use tokenbrook::quant::dequantize;

/// Records what the reader hands on.
#[derive(Debug, Default, PartialEq)]
struct Recorder {
    headers: Vec<Header>,
    slabs: Vec<Slab>,
}

#[derive(Debug, PartialEq)]
struct Slab {
    tensor: String,
    first_row: u64,
    bytes: Vec<u8>,
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
    fn tensor(&self, name: &str) -> Vec<u8> {
        let mine = self.slabs.iter().filter(|slab| slab.tensor == name);
        mine.flat_map(|slab| slab.bytes.iter().copied()).collect()
    }
}

/// Reads files whose lengths are `known` or not, in chunks of the lengths given, over and over.
fn read(files: &[Vec<u8>], chunks: &[usize], known: bool) -> Result<Recorder, GgufError> {
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

fn header(file: &[u8]) -> Result<Header, GgufError> {
    match parse(file, Some(file.len() as u64))? {
        Parsed::Header(header) => Ok(header),
        Parsed::NeedMore { total_bytes } => panic!("needs {total_bytes} of {} bytes", file.len()),
    }
}

fn error(file: &GgufBuilder) -> GgufError {
    header(&file.build()).expect_err("the file is hostile")
}

/// A file with every kind of value and three tensors of different types.
fn sample(builder: GgufBuilder) -> GgufBuilder {
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

fn assert_same_value(key: &str, ours: &Value, candle: &CandleValue) {
    let same = match (ours, candle) {
        (Value::U8(a), CandleValue::U8(b)) => a == b,
        (Value::I8(a), CandleValue::I8(b)) => a == b,
        (Value::U16(a), CandleValue::U16(b)) => a == b,
        (Value::I16(a), CandleValue::I16(b)) => a == b,
        (Value::U32(a), CandleValue::U32(b)) => a == b,
        (Value::I32(a), CandleValue::I32(b)) => a == b,
        (Value::U64(a), CandleValue::U64(b)) => a == b,
        (Value::I64(a), CandleValue::I64(b)) => a == b,
        (Value::F32(a), CandleValue::F32(b)) => a == b,
        (Value::F64(a), CandleValue::F64(b)) => a == b,
        (Value::Bool(a), CandleValue::Bool(b)) => a == b,
        (Value::String(a), CandleValue::String(b)) => a == b,
        (Value::Array(a), CandleValue::Array(b)) => {
            assert_eq!(a.len(), b.len(), "{key}");
            for (i, candle) in b.iter().enumerate() {
                assert_same_value(key, &element(a, i), candle);
            }
            true
        }
        _ => false,
    };
    assert!(same, "{key}: ours {ours:?}, candle's {candle:?}");
}

fn element(array: &Array, i: usize) -> Value {
    match array {
        Array::U8(v) => Value::U8(v[i]),
        Array::I8(v) => Value::I8(v[i]),
        Array::U16(v) => Value::U16(v[i]),
        Array::I16(v) => Value::I16(v[i]),
        Array::U32(v) => Value::U32(v[i]),
        Array::I32(v) => Value::I32(v[i]),
        Array::F32(v) => Value::F32(v[i]),
        Array::Bool(v) => Value::Bool(v[i]),
        Array::String(v) => Value::String(v.get_str(i).expect("valid UTF-8").to_owned()),
        Array::U64(v) => Value::U64(v[i]),
        Array::I64(v) => Value::I64(v[i]),
        Array::F64(v) => Value::F64(v[i]),
    }
}

/// Metadata, directory, and the floats of the tensors named, against candle's reader.
fn assert_agrees_with_candle(file: &[u8], ours: &Recorder, tensors: &[&str]) {
    let mut source = std::io::Cursor::new(file);
    let candle = Content::read(&mut source).expect("candle reads it");
    let header = &ours.headers[0];
    assert_eq!(header.metadata.len(), candle.metadata.len());
    for (key, value) in header.metadata.iter() {
        assert_same_value(key, value, &candle.metadata[key]);
    }
    assert_eq!(header.data_offset, candle.tensor_data_offset);
    assert_eq!(header.tensors.len(), candle.tensor_infos.len());
    for tensor in &header.tensors {
        let info = &candle.tensor_infos[&tensor.name];
        let mut shape: Vec<u64> = info.shape.dims().iter().map(|&n| n as u64).collect();
        shape.reverse();
        assert_eq!(tensor.shape, shape, "{}", tensor.name);
        assert_eq!(
            tensor.offset,
            candle.tensor_data_offset + info.offset,
            "{}",
            tensor.name
        );
        let block = (
            info.ggml_dtype.block_size() as u64,
            info.ggml_dtype.type_size() as u64,
        );
        let ty = tensor.ggml_type;
        assert_eq!(
            (ty.block_elements(), ty.block_bytes()),
            block,
            "{}",
            tensor.name
        );
    }
    let device = candle_core::Device::Cpu;
    for &name in tensors {
        let tensor = candle
            .tensor(&mut source, name, &device)
            .expect("candle reads the tensor");
        let want = tensor
            .dequantize(&device)
            .and_then(|t| t.flatten_all()?.to_vec1::<f32>());
        let want = want.expect("candle dequantizes");
        let mut got = vec![0.0; want.len()];
        let info = header
            .tensors
            .iter()
            .find(|info| info.name == name)
            .expect("it is there");
        dequantize(info.ggml_type, &ours.tensor(name), &mut got).expect("whole blocks");
        let bits = |v: &[f32]| v.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        assert!(bits(&got) == bits(&want), "{name}: floats differ");
    }
}

#[test]
fn agrees_with_candle_on_built_files_of_both_versions() {
    for builder in [
        GgufBuilder::v2(),
        GgufBuilder::v3(),
        GgufBuilder::v3().alignment(256),
    ] {
        let file = sample(builder).build();
        let ours = read(std::slice::from_ref(&file), &[file.len()], true).expect("a valid file");
        assert_agrees_with_candle(&file, &ours, &["norm", "q8", "q4"]);
    }
}

#[test]
fn agrees_with_candle_on_the_default_model() {
    let file = std::fs::read(default_model()).expect("a readable file");
    let ours = read(std::slice::from_ref(&file), &[1 << 20], true).expect("a valid model");
    let header = &ours.headers[0];
    assert_eq!(
        header.metadata.str("general.architecture"),
        Ok(Some("llama"))
    );
    assert_eq!(header.metadata.u32("llama.block_count"), Ok(Some(30)));
    assert_eq!(header.tensors.len(), 272);
    let tensors = [
        "token_embd.weight",
        "blk.0.attn_q.weight",
        "blk.29.ffn_down.weight",
    ];
    assert_agrees_with_candle(&file, &ours, &tensors);
    assert_agrees_with_candle(
        &file,
        &ours,
        &["output_norm.weight", "blk.7.attn_norm.weight"],
    );
}

#[test]
fn metadata_keeps_file_order_and_reads_by_type() {
    let header = header(&sample(GgufBuilder::v3()).build()).expect("a valid file");
    let metadata = &header.metadata;
    let keys: Vec<&str> = metadata.iter().map(|(key, _)| key).collect();
    assert_eq!(&keys[..4], ["general.architecture", "u8", "i8", "u16"]);
    assert_eq!(metadata.str("general.architecture"), Ok(Some("llama")));
    assert_eq!(metadata.u32("u8"), Ok(Some(200)));
    assert_eq!(metadata.u32("u16"), Ok(Some(65_535)));
    assert_eq!(metadata.u32("absent"), Ok(None));
    assert_eq!(metadata.f32("llama.rope.freq_base"), Ok(Some(10_000.5)));
    assert_eq!(metadata.f32("f64"), Ok(Some(0.1)));
    assert_eq!(metadata.bool("yes"), Ok(Some(true)));
    assert_eq!(
        metadata.i32s("tokenizer.ggml.token_type"),
        Ok(Some(vec![1, 1, 3, -4]))
    );
    assert_eq!(metadata.u32s("u8s"), Ok(Some(vec![1, 2, 255])));
    assert_eq!(metadata.f32s("f64s"), Ok(Some(vec![2.5])));
    assert_eq!(metadata.bools("bools"), Ok(Some(vec![true, false, true])));
    assert_eq!(metadata.u32s("none"), Ok(Some(vec![])));
    let tokens = metadata
        .strings("tokenizer.ggml.tokens")
        .expect("strings")
        .expect("there");
    let tokens: Vec<&[u8]> = tokens.iter().collect();
    assert_eq!(
        tokens,
        [&b"a"[..], b"", "\u{120}the".as_bytes(), "é".as_bytes()]
    );
    for (key, message) in [
        (
            "u64",
            "an integer from 0 to 4294967295, found the u64 1099511627776",
        ),
        ("i32", "an integer from 0 to 4294967295, found the i32 -7"),
        (
            "yes",
            "an integer from 0 to 4294967295, found the bool true",
        ),
    ] {
        let error = metadata.u32(key).expect_err("does not fit").to_string();
        assert!(error.contains(message) && error.contains(key), "{error}");
    }
    for failed in [
        metadata.u32s("tokenizer.ggml.token_type").map(|_| ()),
        metadata.i32s("u32s").map(|_| ()),
        metadata.f32s("u32s").map(|_| ()),
        metadata.strings("general.architecture").map(|_| ()),
        metadata.bool("u8").map(|_| ()),
        metadata.f32("u8").map(|_| ()),
        metadata.str("u8").map(|_| ()),
        metadata.bools("u8s").map(|_| ()),
    ] {
        assert!(
            matches!(failed, Err(GgufError::MetadataType { .. })),
            "{failed:?}"
        );
    }
}

#[test]
fn slabs_are_the_same_however_the_bytes_arrive() {
    let file = sample(GgufBuilder::v3()).build();
    let whole = read(std::slice::from_ref(&file), &[file.len()], true).expect("a valid file");
    assert_eq!(whole.slabs.len(), 3);
    for known in [true, false] {
        for chunks in [
            &[1][..],
            &[3],
            &[7, 13],
            &[31, 1, 257],
            &[file.len() - 1],
            &[1009],
        ] {
            let got = read(std::slice::from_ref(&file), chunks, known).expect("a valid file");
            assert_eq!(got, whole, "chunks of {chunks:?}, length known: {known}");
        }
    }
}

#[test]
fn a_large_tensor_arrives_in_slabs_of_whole_rows_of_at_most_16_mib() {
    let (cols, rows) = (1_000_003_u64, 9_u64);
    let mut random = Random(11);
    let data = random.bytes(usize::try_from(cols * rows * 4).expect("36 MB"));
    let file = GgufBuilder::v3()
        .tensor("large", GgmlType::F32, &[cols, 3, 3], data.clone())
        .tensor_f32("after", &[5], &[1.0; 5])
        .build();
    let whole = read(std::slice::from_ref(&file), &[file.len()], true).expect("a valid file");
    let cuts: Vec<_> = whole
        .slabs
        .iter()
        .map(|slab| (&*slab.tensor, slab.first_row))
        .collect();
    assert_eq!(
        cuts,
        [("large", 0), ("large", 4), ("large", 8), ("after", 0)]
    );
    assert!(whole.tensor("large") == data);
    for chunks in [&[65_537][..], &[1 << 20, 3], &[4_000_037]] {
        let got = read(std::slice::from_ref(&file), chunks, false).expect("a valid file");
        assert!(got == whole, "chunks of {chunks:?}");
    }
}

#[test]
fn a_large_header_that_arrives_byte_by_byte_is_not_parsed_again_and_again() {
    let tokens: Vec<String> = (0..200_000).map(|i| format!("token{i}")).collect();
    let file = GgufBuilder::v3()
        .strings("tokens", &tokens)
        .tensor_f32("t", &[1], &[1.0])
        .build();
    assert!(file.len() > 3 << 20);
    let start = std::time::Instant::now();
    let got = read(std::slice::from_ref(&file), &[1], false).expect("a valid file");
    assert_eq!(
        got.headers[0]
            .metadata
            .strings("tokens")
            .map(|t| t.map(|t| t.len())),
        Ok(Some(200_000))
    );
    // Parsing once a token would take minutes.
    assert!(start.elapsed().as_secs() < 10, "took {:?}", start.elapsed());
}

#[test]
fn tensors_are_ordered_by_offset_and_gaps_are_skipped() {
    let file = GgufBuilder::v3()
        .raw_tensor("second", 0, &[2], Some(128), vec![2; 8])
        .raw_tensor("first", 0, &[2], Some(0), vec![1; 8])
        .build();
    let got = read(&[file], &[5], true).expect("a valid file");
    let slabs: Vec<_> = got
        .slabs
        .iter()
        .map(|s| (&*s.tensor, s.bytes[0], s.bytes.len()))
        .collect();
    assert_eq!(slabs, [("first", 1, 8), ("second", 2, 8)]);
}

#[test]
fn rejects_a_file_that_is_cut_off_anywhere() {
    let builder = sample(GgufBuilder::v3());
    let (file, directory) = (builder.build(), builder.directory().len());
    for len in 0..file.len() {
        let cut = &file[..len];
        let error = parse(cut, Some(len as u64)).expect_err("cut off");
        assert_eq!(error.code(), "invalid-gguf", "{len}: {error}");
        let error = read(&[cut.to_vec()], &[17], false).expect_err("cut off");
        assert_eq!(error.code(), "invalid-gguf", "{len}: {error}");
        match parse(cut, None).expect("valid so far") {
            Parsed::Header(_) => assert!(len >= directory),
            Parsed::NeedMore { total_bytes } => {
                assert!(len < directory);
                assert!(
                    (len as u64 + 1..=directory as u64).contains(&total_bytes),
                    "{len}"
                );
            }
        }
    }
}

#[test]
fn names_field_offset_need_and_rest_when_cut_off() {
    let file = GgufBuilder::v3().str("key", "value").directory();
    let error = header(&file[..file.len() - 2]).expect_err("cut off");
    let want = GgufError::Truncated {
        field: "the value of \"key\"".into(),
        offset: 24 + 8 + 3 + 4 + 8,
        need: 5,
        left: 3,
    };
    assert_eq!(error, want);
    assert_eq!(
        error.to_string(),
        "the file is cut off: the value of \"key\" at byte 47 needs at least 5 bytes, 3 are left \
         in the file; download it again"
    );
}

#[test]
fn rejects_absurd_counts_and_lengths_before_their_bytes_arrive() {
    let limit = |field: &str, offset, value, limit| GgufError::Limit {
        field: field.into(),
        offset,
        value,
        limit,
    };
    let base = GgufBuilder::v3();
    let count = u64::MAX;
    let error = |builder: GgufBuilder| parse(&builder.build(), None).expect_err("absurd");
    assert_eq!(
        error(base.clone().tensor_count(count)),
        limit("`tensor_count`", 8, count, 16_384)
    );
    let got = error(base.clone().entry_count(count));
    assert_eq!(got, limit("`metadata_kv_count`", 16, count, 4096));
    let array = base.clone().raw_array("k", 0, count, &[]);
    assert_eq!(
        error(array),
        limit("the array length of \"k\"", 41, count, 256 << 20)
    );
    let huge = (1_u64 << 62).to_le_bytes();
    let got = error(base.clone().raw("k", 8, &huge));
    assert_eq!(got, limit("the value of \"k\"", 37, 1 << 62, 256 << 20));
    for (type_id, size) in [(10, 8), (8, 8), (4, 4)] {
        let count = (256 << 20) / size;
        let got = error(base.clone().raw_array("k", type_id, count, &[]));
        assert!(
            matches!(&got, GgufError::HeaderTooLarge { field, offset: 49, limit, .. }
                if field == "the array of \"k\"" && *limit == 256 << 20),
            "{got:?}"
        );
    }
    let file = base.raw_array("k", 10, 1 << 20, &[0; 64]).directory();
    let got = parse(&file, None);
    assert_eq!(
        got,
        Ok(Parsed::NeedMore {
            total_bytes: 49 + (8 << 20)
        })
    );
    let got = header(&file).expect_err("not in the file");
    assert!(
        matches!(
            got,
            GgufError::Truncated {
                offset: 49,
                left: 64,
                ..
            }
        ),
        "{got:?}"
    );
}

#[test]
fn rejects_a_count_that_the_file_has_no_room_for() {
    for builder in [
        GgufBuilder::v3().tensor_count(9),
        GgufBuilder::v2().entry_count(9),
    ] {
        let got = error(&builder);
        assert!(
            matches!(
                got,
                GgufError::Truncated {
                    offset: 24,
                    left: 8,
                    ..
                }
            ),
            "{got:?}"
        );
    }
}

#[test]
fn rejects_values_of_unknown_types_and_shapes() {
    let base = GgufBuilder::v3();
    let type_field = |value| GgufError::ValueType {
        field: "the value type of \"k\"".into(),
        offset: 33,
        value,
    };
    assert_eq!(error(&base.clone().raw("k", 13, &[0; 8])), type_field(13));
    let got = error(&base.clone().raw_array("k", 99, 0, &[]));
    assert!(
        matches!(
            got,
            GgufError::ValueType {
                offset: 37,
                value: 99,
                ..
            }
        ),
        "{got:?}"
    );
    let got = error(&base.clone().raw_array("k", 9, 1, &[0; 16]));
    assert_eq!(
        got,
        GgufError::NestedArray {
            key: "k".into(),
            offset: 37
        }
    );
    let got = error(&base.clone().raw("k", 7, &[2]));
    assert_eq!(
        got,
        GgufError::Bool {
            key: "k".into(),
            offset: 37,
            value: 2
        }
    );
    let got = error(&base.raw_array("k", 7, 2, &[1, 3]));
    assert_eq!(
        got,
        GgufError::Bool {
            key: "k".into(),
            offset: 50,
            value: 3
        }
    );
}

#[test]
fn rejects_text_that_is_not_utf_8_but_keeps_tokens_as_bytes() {
    let base = GgufBuilder::v3();
    let bad = b"ok\xff";
    for (builder, field, offset) in [
        (base.clone().raw(bad, 0, &[1]), "a metadata key", 34),
        (base.clone().str("k", bad), "the value of \"k\"", 47),
        (
            base.clone().raw_tensor(bad, 0, &[1], None, vec![0; 4]),
            "a tensor name",
            34,
        ),
    ] {
        assert_eq!(
            error(&builder),
            GgufError::Utf8 {
                field: field.into(),
                offset
            }
        );
    }
    let header = header(&base.strings("tokens", &[bad]).build()).expect("tokens are bytes");
    let tokens = header
        .metadata
        .strings("tokens")
        .expect("strings")
        .expect("there");
    assert_eq!(
        (tokens.get(0), tokens.get_str(0), tokens.get(1)),
        (Some(&bad[..]), None, None)
    );
}

#[test]
fn rejects_duplicates() {
    let keys = GgufBuilder::v3().u32("a", 1).u32("b", 2).bool("a", true);
    assert_eq!(error(&keys), GgufError::DuplicateKey { key: "a".into() });
    let tensors = GgufBuilder::v3()
        .tensor_f32("t", &[1], &[1.0])
        .tensor_f32("u", &[1], &[1.0])
        .tensor_f32("t", &[1], &[1.0]);
    assert_eq!(
        error(&tensors),
        GgufError::DuplicateTensor {
            tensor: "t".into(),
            shard: 0
        }
    );
}

#[test]
fn rejects_tensor_types_that_are_not_supported() {
    for (id, name) in [
        (39, Some("MXFP4")),
        (16, Some("IQ2_XXS")),
        (4, Some("Q4_2")),
        (999, None),
    ] {
        let got = error(&GgufBuilder::v3().raw_tensor("blk.0.w", id, &[32], None, vec![0; 32]));
        let tensor = "blk.0.w".to_owned();
        assert_eq!(
            got,
            GgufError::UnsupportedType {
                tensor,
                offset: 51,
                id,
                name
            }
        );
        assert_eq!(got.code(), "unsupported-quantization");
        let text = got.to_string();
        assert!(
            text.contains(name.unwrap_or("unknown")) && text.contains("blk.0.w"),
            "{text}"
        );
    }
}

#[test]
fn rejects_tensor_shapes_that_cannot_be() {
    let tensor = |type_id, shape: &[u64]| {
        error(&GgufBuilder::v3().raw_tensor("t", type_id, shape, None, vec![0; 64]))
    };
    let name = || "t".to_owned();
    for (shape, value) in [(&[][..], 0), (&[1; 5], 5)] {
        let want = GgufError::Dimensions {
            tensor: name(),
            offset: 33,
            value,
            limit: 4,
        };
        assert_eq!(tensor(0, shape), want);
    }
    for shape in [&[0][..], &[4, 0], &[1, 1, 1, 0]] {
        assert_eq!(
            tensor(0, shape),
            GgufError::ZeroDimension {
                tensor: name(),
                shape: shape.into()
            }
        );
    }
    for shape in [
        &[1 << 62][..],
        &[1 << 32, 1 << 32],
        &[3, 1 << 62, 3],
        &[u64::MAX; 4],
    ] {
        let got = tensor(0, shape);
        assert_eq!(
            got,
            GgufError::TensorTooLarge {
                tensor: name(),
                shape: shape.into()
            }
        );
    }
    for (id, type_name, cols, block) in [(2, "Q4_0", 33, 32), (14, "Q6_K", 128, 256)] {
        let got = tensor(id, &[cols, 256]);
        assert_eq!(
            got,
            GgufError::PartialBlock {
                tensor: name(),
                type_name,
                cols,
                block
            }
        );
    }
}

#[test]
fn rejects_tensors_outside_the_file_or_on_each_other() {
    let base = GgufBuilder::v3();
    let file = base
        .clone()
        .raw_tensor("t", 0, &[1 << 28], None, vec![0; 4]);
    let file_len = file.build().len() as u64;
    let (tensor, offset, byte_len) = ("t".to_owned(), 64, 1 << 30);
    let past = |tensor, offset, byte_len, file_len| GgufError::PastEnd {
        tensor,
        offset,
        byte_len,
        file_len,
    };
    assert_eq!(error(&file), past(tensor, offset, byte_len, file_len));
    let far = u64::MAX - 31;
    let got = error(&base.clone().raw_tensor("t", 0, &[1], Some(far), vec![]));
    assert!(
        matches!(
            got,
            GgufError::PastEnd {
                offset: u64::MAX,
                ..
            }
        ),
        "{got:?}"
    );
    let got = error(&base.clone().raw_tensor("t", 0, &[1], Some(31), vec![0; 4]));
    assert_eq!(
        got,
        GgufError::Misaligned {
            tensor: "t".into(),
            offset: 31,
            alignment: 32
        }
    );
    let two = |second| {
        base.clone()
            .raw_tensor("late", 0, &[9], Some(second), vec![0; 36])
            .raw_tensor("early", 0, &[9], Some(0), vec![0; 36])
    };
    let GgufError::Overlap {
        tensor,
        previous,
        offset,
        end,
    } = error(&two(32))
    else {
        panic!("the tensors overlap");
    };
    assert_eq!((&*tensor, &*previous, end - offset), ("late", "early", 4));
    assert!(matches!(error(&two(0)), GgufError::Overlap { .. }));
    assert!(header(&two(64).build()).is_ok());
}

#[test]
fn rejects_an_alignment_that_is_no_power_of_two_from_8_to_1_mib() {
    for value in [0, 1, 4, 7, 24, 33, 1 << 21, u32::MAX] {
        let got = error(&GgufBuilder::v3().u32("general.alignment", value));
        assert_eq!(
            got,
            GgufError::Alignment {
                value: value.into(),
                limit: 1 << 20
            }
        );
    }
    let got = error(&GgufBuilder::v3().str("general.alignment", "32"));
    assert!(matches!(got, GgufError::MetadataType { .. }), "{got:?}");
    for value in [8, 4096] {
        let file = GgufBuilder::v3()
            .alignment(value)
            .tensor_f32("t", &[1], &[1.0])
            .build();
        assert_eq!(
            header(&file).map(|header| header.alignment),
            Ok(value.into())
        );
    }
}

#[test]
fn says_what_came_instead_of_a_model() {
    for page in [
        "<!DOCTYPE html><html>",
        "\n\t <html lang=en>",
        "\u{feff}<?xml version='1.0'?>",
    ] {
        for error in [
            parse(page.as_bytes(), None).expect_err("a page"),
            read(&[page.as_bytes().to_vec()], &[3], true).expect_err("a page"),
        ] {
            let text = error.to_string();
            assert!(
                text.starts_with("the server sent a web page instead of a model"),
                "{text}"
            );
            assert!(text.contains("check the URL"), "{text}");
            assert_eq!(error.code(), "invalid-gguf");
        }
    }
    let got = parse(b"PK\x03\x04rest", None).expect_err("a zip");
    assert_eq!(
        got,
        GgufError::Magic {
            found: b"PK\x03\x04".to_vec()
        }
    );
    assert_eq!(read(&[vec![]], &[1], true), Err(GgufError::Empty));
    assert_eq!(read(&[vec![]], &[1], false), Err(GgufError::Empty));
    assert_eq!(parse(&[], Some(0)), Err(GgufError::Empty));
}

#[test]
fn rejects_other_versions_and_big_endian_files() {
    for version in [0, 1, 4, 255] {
        assert_eq!(
            error(&GgufBuilder::version(version)),
            GgufError::Version { version }
        );
    }
    let got = error(&GgufBuilder::v3().big_endian_version());
    assert_eq!(
        got,
        GgufError::BigEndian {
            version: 0x0300_0000
        }
    );
    assert!(got.to_string().contains("big-endian"), "{got}");
}

#[test]
fn rejects_names_that_are_too_long() {
    let long = "n".repeat(1025);
    let got = error(&GgufBuilder::v3().tensor_f32(&long, &[1], &[1.0]));
    assert!(
        matches!(
            got,
            GgufError::Limit {
                offset: 24,
                value: 1025,
                limit: 1024,
                ..
            }
        ),
        "{got:?}"
    );
    let got = error(&GgufBuilder::v3().raw(string(&[b'k'; 65_536]), 0, &[1]));
    assert!(
        matches!(
            got,
            GgufError::Limit {
                value: 65_544,
                limit: 65_535,
                ..
            }
        ),
        "{got:?}"
    );
}

#[test]
fn rejects_a_row_that_is_longer_than_a_slab() {
    let cols = 1_u64 << 23;
    let file = GgufBuilder::v3()
        .raw_tensor("t", 0, &[cols], None, vec![])
        .build();
    let mut reader = Reader::new(&[None]);
    reader
        .push(&file, &mut Recorder::default())
        .expect("the header is parsed at its end");
    let got = reader
        .end_file(&mut Recorder::default())
        .expect_err("cut off");
    assert!(matches!(got, GgufError::PastEnd { .. }), "{got:?}");
    let mut reader = Reader::new(&[Some(64 << 20)]);
    let padded = [file, vec![0; 1 << 17]].concat();
    let got = reader
        .push(&padded, &mut Recorder::default())
        .expect_err("too long");
    let (row_bytes, limit) = (cols * 4, 16 << 20);
    assert_eq!(
        got,
        GgufError::RowTooLong {
            tensor: "t".into(),
            row_bytes,
            limit
        }
    );
}

#[test]
fn rejects_more_or_fewer_bytes_than_announced_and_stays_stopped() {
    let file = GgufBuilder::v3().tensor_f32("t", &[1], &[1.0]).build();
    let len = file.len() as u64;
    let sink = &mut Recorder::default();
    let mut reader = Reader::new(&[Some(len)]);
    reader.push(&file, sink).expect("a valid file");
    let got = reader.push(&[0], sink).expect_err("one too many");
    assert_eq!(
        got,
        GgufError::FileLength {
            shard: 0,
            announced: len,
            received: len + 1
        }
    );
    assert_eq!(reader.push(&[0], sink), Err(GgufError::Stopped));
    assert_eq!(reader.end_file(sink), Err(GgufError::Stopped));
    assert_eq!(reader.finish(), Err(GgufError::Stopped));

    let mut reader = Reader::new(&[Some(len + 1)]);
    reader
        .push(&file, &mut Recorder::default())
        .expect("a valid file");
    let got = reader
        .end_file(&mut Recorder::default())
        .expect_err("one too few");
    assert_eq!(got.code(), "invalid-gguf");
    assert!(matches!(got, GgufError::FileLength { .. }), "{got:?}");

    let mut reader = Reader::new(&[None]);
    let sink = &mut Recorder::default();
    reader.push(&file, sink).expect("a valid file");
    reader.end_file(sink).expect("a valid file");
    let got = reader.push(&file, sink).expect_err("one file too many");
    assert_eq!(got, GgufError::ShardsRead { ended: 1, given: 1 });
}

fn shards(count: u16) -> Vec<Vec<u8>> {
    let mut builder = GgufBuilder::v3().str("general.architecture", "llama");
    for i in 0..5_u8 {
        let name = format!("blk.{i}.w");
        builder = builder.tensor(&name, GgmlType::Q4_0, &[32, 3], vec![i; 54]);
    }
    builder
        .into_shards(count)
        .iter()
        .map(GgufBuilder::build)
        .collect()
}

#[test]
fn reads_shards_in_order() {
    for chunks in [&[1][..], &[13], &[100_000]] {
        for known in [true, false] {
            let got = read(&shards(3), chunks, known).expect("valid shards");
            assert_eq!(got.headers.len(), 3);
            let names: Vec<_> = got.slabs.iter().map(|slab| &*slab.tensor).collect();
            assert_eq!(
                names,
                ["blk.0.w", "blk.1.w", "blk.2.w", "blk.3.w", "blk.4.w"]
            );
            assert_eq!(got.tensor("blk.4.w"), [4; 54]);
        }
    }
}

#[test]
fn rejects_shards_that_do_not_belong_together() {
    let all = shards(3);
    let read = |files: &[Vec<u8>]| read(files, &[64], true).expect_err("not a model");
    let pick = |order: &[usize]| order.iter().map(|&i| all[i].clone()).collect::<Vec<_>>();
    let wrong_count = GgufError::ShardCount {
        shard: 0,
        count: 3,
        given: 2,
    };
    assert_eq!(read(&pick(&[0, 1])), wrong_count);
    let alone = GgufError::ShardCount {
        shard: 0,
        count: 3,
        given: 1,
    };
    assert_eq!(read(&pick(&[0])), alone);
    let order = GgufError::ShardOrder {
        shard: 1,
        number: 2,
    };
    assert_eq!(read(&pick(&[0, 2, 1])), order);
    let whole = GgufBuilder::v3().tensor_f32("t", &[1], &[1.0]).build();
    let got = read(&[whole.clone(), whole]);
    assert_eq!(
        got,
        GgufError::NotAShard {
            shard: 0,
            key: "split.count"
        }
    );

    let shard = |number: u16, name: &str, total| {
        let shard = GgufBuilder::v3()
            .u16("split.no", number)
            .u16("split.count", 2);
        shard
            .i32("split.tensors.count", total)
            .tensor_f32(name, &[1], &[1.0])
            .build()
    };
    let got = read(&[shard(0, "t", 2), shard(1, "t", 2)]);
    assert_eq!(
        got,
        GgufError::DuplicateTensor {
            tensor: "t".into(),
            shard: 1
        }
    );
    let got = read(&[shard(0, "t", 2), shard(1, "u", 3)]);
    assert_eq!(
        got,
        GgufError::ShardTensors {
            shard: 1,
            expected: 2,
            found: 3
        }
    );
    let got = read(&[shard(0, "t", 3), shard(1, "u", 3)]);
    assert_eq!(
        got,
        GgufError::ShardTensors {
            shard: 0,
            expected: 3,
            found: 2
        }
    );

    let mut reader = Reader::new(&[None, None]);
    let sink = &mut Recorder::default();
    reader.push(&shard(0, "t", 2), sink).expect("a valid shard");
    reader.end_file(sink).expect("a valid shard");
    assert_eq!(
        reader.finish(),
        Err(GgufError::ShardsRead { ended: 1, given: 2 })
    );
}
