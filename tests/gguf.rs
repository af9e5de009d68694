//! Headers and tensor rows of GGUF files, against candle's reader and however they arrive.

mod common;

use candle_core::quantized::gguf_file::{Content, Value as CandleValue};
use common::gguf_builder::GgufBuilder;
use common::gguf_files::{Recorder, header, read, sample};
use common::{Random, default_model};
use tokenbrook::gguf::{Array, GgmlType, GgufError, Value};
use tokenbrook::quant::dequantize;

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
