//! The tokenizer of the default model's own file.

mod common;

use common::default_model;
use common::model::session_from_file;
use serde::Deserialize;
use tokenbrook::backend::cpu::{CpuBackend, Precision};

#[derive(Deserialize)]
struct Fixture {
    vocab_size: usize,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    text: String,
    ids: Vec<u32>,
    special_ids: Vec<u32>,
}

#[test]
fn ids_of_the_whole_file_equal_hugging_face() {
    let session = session_from_file(CpuBackend::new(Precision::Exact), &default_model());
    let tokenizer = session.tokenizer();
    let fixture: Fixture =
        serde_json::from_str(include_str!("data/tokenizer/smollm2.json")).expect("valid data");
    assert_eq!(tokenizer.vocab_size(), fixture.vocab_size);
    assert_eq!((tokenizer.bos(), tokenizer.eos()), (Some(1), Some(2)));
    assert_eq!(tokenizer.end_ids(), [0, 2]);
    assert_eq!(fixture.cases.len(), 57);
    for case in fixture.cases {
        let plain = tokenizer.encode(&case.text, false);
        assert_eq!(plain.as_ref(), Ok(&case.ids), "{:?}", case.text);
        let special = tokenizer.encode(&case.text, true);
        assert_eq!(special.as_ref(), Ok(&case.special_ids), "{:?}", case.text);
    }
}
