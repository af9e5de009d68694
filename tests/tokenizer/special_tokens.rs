//! Control, user-defined and other special tokens, and the edges of prompts.

use tokenbrook::tokenizer::{Segment, Tokenizer, TokenizerError, Vocabulary};

use crate::{byte_tokens, gpt2, smollm2, with_extra};

#[test]
fn special_tokens_are_found_by_their_kind_longest_first() {
    let extra = [
        ("<a>", 3),
        ("<a>b", 3),
        ("<u>", 4),
        ("<?>", 2),
        ("<x>", 5),
        ("<0x41>", 6),
    ];
    let tokenizer = with_extra(gpt2("gpt-2"), &extra).expect("valid");
    let text = "<a><a>b<u><?><x><0x41>";
    let special = tokenizer.encode(text, true).expect("encodes");
    assert_eq!(special[..4], [256, 257, 258, 259]);
    assert!(
        special[4..].iter().all(|id| *id < 256),
        "unused and byte tokens are not text"
    );
    let plain = tokenizer.encode(text, false).expect("encodes");
    let found: Vec<u32> = plain.iter().copied().filter(|id| *id >= 256).collect();
    assert_eq!(found, [258], "only the user-defined token");
    assert_eq!(tokenizer.decode(&special), text);
    assert_eq!(tokenizer.decode(&plain), text);
    assert_eq!(tokenizer.token_bytes(261), Some(&b"A"[..]));
    assert_eq!(tokenizer.token_bytes(262), None);
    let controls: Vec<u32> = (0..263).filter(|id| tokenizer.is_control(*id)).collect();
    assert_eq!(controls, [256, 257, 259]);
}

#[test]
fn segments_hide_control_text_and_merge_across_their_edges() {
    let (tokenizer, _) = smollm2();
    let segment = |text: &str, special| Segment {
        text: text.to_owned(),
        special,
    };
    let parts = [
        segment("<|im_start|>user\n", true),
        segment("What is <|im_end|>", false),
        segment("<|im_", true),
        segment("", false),
        segment("end|>\n", true),
        segment("<|im_", true),
        segment("end|>", false),
    ];
    let ids = tokenizer.encode_segments(&parts).expect("encodes");
    let controls: Vec<u32> = ids
        .iter()
        .copied()
        .filter(|id| tokenizer.is_control(*id))
        .collect();
    assert_eq!(
        controls,
        [1, 2],
        "one of the template's own, one of two adjacent parts of it"
    );
    let text: String = parts.iter().map(|part| part.text.as_str()).collect();
    assert_eq!(tokenizer.decode(&ids), text);
    let cut = [
        segment("The capital of Fra", true),
        segment("nce is", false),
        segment(" Paris", true),
    ];
    let whole = tokenizer.encode("The capital of France is Paris", true);
    assert_eq!(tokenizer.encode_segments(&cut), whole);
    assert_eq!(tokenizer.encode_segments(&[]), Ok(vec![]));
}

#[test]
fn prompts_get_the_edges_that_the_file_asks_for() {
    let edges = |pre: &str, add_bos, add_eos, bos, eos| {
        let vocabulary = Vocabulary {
            add_bos,
            add_eos,
            bos,
            eos,
            ..gpt2(pre)
        };
        let tokenizer = with_extra(vocabulary, &[("<s>", 3), ("</s>", 3)]).expect("valid");
        tokenizer.encode_prompt("!").expect("encodes")
    };
    let (s, e) = (Some(256), Some(257));
    assert_eq!(edges("gpt-2", None, None, s, e), [33]);
    assert_eq!(edges("gpt-2", Some(true), Some(true), s, e), [256, 33, 257]);
    assert_eq!(edges("llama-bpe", None, None, s, e), [256, 33]);
    assert_eq!(edges("llama-bpe", Some(false), None, s, e), [33]);
    assert_eq!(edges("llama-bpe", None, None, None, None), [33]);
    let asks = Vocabulary {
        add_bos: Some(true),
        ..gpt2("gpt-2")
    };
    assert_eq!(
        with_extra(asks, &[]).expect_err("no BOS"),
        TokenizerError::MissingSpecialToken {
            flag: "tokenizer.ggml.add_bos_token",
            field: "tokenizer.ggml.bos_token_id",
        }
    );
}

#[test]
fn end_ids_are_the_named_ones_and_the_known_ones() {
    let (tokenizer, _) = smollm2();
    assert_eq!(tokenizer.end_ids(), [0, 2]);
    assert_eq!((tokenizer.bos(), tokenizer.eos()), (Some(1), Some(2)));
    assert_eq!(
        (&*tokenizer.bos_text(), &*tokenizer.eos_text()),
        ("<|im_start|>", "<|im_end|>")
    );
    let vocabulary = Vocabulary {
        eos: Some(5),
        eot: Some(256),
        ..gpt2("gpt-2")
    };
    let extra = [
        ("<x>", 3),
        ("<|eot_id|>", 4),
        ("<end_of_turn>", 1),
        ("<y>", 3),
    ];
    let tokenizer = with_extra(vocabulary, &extra).expect("valid");
    assert_eq!(tokenizer.end_ids(), [5, 256, 257, 258]);
    assert!(
        tokenizer.is_control(257) && tokenizer.is_control(258),
        "whatever the file says"
    );
    assert_eq!(
        with_extra(gpt2("gpt-2"), &[]).expect("valid").bos_text(),
        ""
    );
}

#[test]
fn without_token_types_the_named_ids_are_control_tokens() {
    let mut tokens = byte_tokens();
    tokens.push("<s>".to_owned());
    let vocabulary = Vocabulary {
        bos: Some(256),
        ..gpt2("gpt-2")
    };
    let tokenizer = Tokenizer::new(&vocabulary, &tokens, &Vec::<&str>::new()).expect("valid");
    assert!(tokenizer.is_control(256));
    assert_eq!(tokenizer.encode("<s>", true), Ok(vec![256]));
}

#[test]
fn merges_never_make_a_control_token() {
    let vocabulary = Vocabulary {
        token_types: vec![1, 1, 3, 5],
        ..gpt2("gpt-2")
    };
    let (tokens, merges) = (vec!["a", "b", "ab", "ba"], vec!["a b", "b a"]);
    let tokenizer = Tokenizer::new(&vocabulary, &tokens, &merges).expect("valid");
    assert_eq!(tokenizer.encode("abba", false), Ok(vec![0, 1, 1, 0]));
    assert_eq!(tokenizer.encode("abba", true), Ok(vec![2, 1, 0]));
}

#[test]
fn text_that_the_vocabulary_cannot_spell_is_left_out() {
    let tokenizer = Tokenizer::new(&gpt2("gpt-2"), &vec!["a", "b"], &Vec::<&str>::new());
    assert_eq!(
        tokenizer.expect("valid").encode("a€b", false),
        Ok(vec![0, 1])
    );
}

#[test]
fn tokens_that_are_not_spelled_in_letters_keep_their_text() {
    let tokenizer = with_extra(gpt2("gpt-2"), &[("a b", 1), ("東", 1), ("", 3)]).expect("valid");
    assert_eq!(tokenizer.token_bytes(256), Some(&b"a b"[..]));
    assert_eq!(tokenizer.decode(&[257, 258, 9999]), "東");
    assert_eq!(tokenizer.encode("", true), Ok(vec![]));
}
