//! What the reader refuses: rows, lengths, and shards that do not belong together.

mod common;

use common::gguf_builder::GgufBuilder;
use common::gguf_files::{Recorder, read};
use tokenbrook::gguf::{GgmlType, GgufError, Reader};

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
