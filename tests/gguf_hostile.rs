//! Headers that are damaged or hostile, and what is said about them.

mod common;

use common::gguf_builder::{GgufBuilder, string};
use common::gguf_files::{error, header, read, sample};
use tokenbrook::gguf::{GgufError, Parsed, parse};

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
        (4, Some("Q4_2")),
        (16, Some("IQ2_XXS")),
        (17, Some("IQ2_XS")),
        (18, Some("IQ3_XXS")),
        (19, Some("IQ1_S")),
        (21, Some("IQ3_S")),
        (22, Some("IQ2_S")),
        (23, Some("IQ4_XS")),
        (24, Some("I8")),
        (28, Some("F64")),
        (29, Some("IQ1_M")),
        (34, Some("TQ1_0")),
        (35, Some("TQ2_0")),
        (36, Some("IQ4_NL_4_4")),
        (40, Some("NVFP4")),
        (41, Some("Q1_0")),
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
    let text = got.to_string();
    assert!(
        text.contains(r#"is "PK\x03\x04", expected "GGUF""#),
        "{text}"
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
