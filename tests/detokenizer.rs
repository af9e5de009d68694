//! The detokenizer against `String::from_utf8_lossy` over every way to cut bytes.

use serde::Deserialize;
use tokenbrook::tokenizer::{Detokenizer, Tokenizer, Vocabulary};

fn detokenize<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> (Vec<String>, String) {
    let mut detokenizer = Detokenizer::new();
    let pushed = parts
        .into_iter()
        .map(|part| detokenizer.push(part))
        .collect();
    let rest = detokenizer.finish();
    assert!(!detokenizer.is_holding());
    (pushed, rest)
}

/// xorshift64*, seeded.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let value = self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33;
        usize::try_from(value).expect("31 bits") % limit
    }
}

const BYTES: [&[u8]; 13] = [
    b"plain",
    "Grüße 東京 ☕🚂 👨‍👩‍👧".as_bytes(),
    b"\xF0\x9F\x9A",
    b"\xF0\x9F\x9A\xF0\x9F\x9A\x82",
    b"a\xFFb\xC0\xAFc",
    b"\xE2\x82\xE2\x82\xAC",
    b"\xED\xA0\x80\xED\xB0\x80",
    b"\xF4\x90\x80\x80\xF4\x8F\xBF\xBF",
    b"\x80\x80\xE0\x80\x80",
    b"\xF0\x80\xF8\x88\x80\x80\x80",
    b"\xC3",
    b"\xC3(\xE1\x80",
    b"",
];

#[test]
fn equals_the_lossy_whole_however_the_bytes_are_cut() {
    for bytes in BYTES {
        let whole = String::from_utf8_lossy(bytes);
        for first in 0..=bytes.len() {
            for second in first..=bytes.len() {
                let parts = [&bytes[..first], &bytes[first..second], &bytes[second..]];
                let (pushed, rest) = detokenize(parts);
                assert_eq!(
                    pushed.concat() + &rest,
                    whole,
                    "{bytes:?} cut at {first}, {second}"
                );
            }
        }
        let (pushed, rest) = detokenize(bytes.chunks(1));
        assert_eq!(pushed.concat() + &rest, whole, "{bytes:?} by single bytes");
    }
}

#[test]
fn equals_the_lossy_whole_for_random_bytes_and_cuts() {
    // Bytes that start, continue and break characters.
    const ALPHABET: [u8; 17] = [
        b'a', 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC1, 0xC3, 0xE0, 0xE2, 0xED, 0xEF, 0xF0, 0xF1,
        0xF4, 0xF5,
    ];
    let mut random = Random(20_260_129);
    for round in 0..20_000 {
        let bytes: Vec<u8> = (0..random.below(12))
            .map(|_| ALPHABET[random.below(ALPHABET.len())])
            .collect();
        let mut parts: Vec<&[u8]> = Vec::new();
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let (part, after) = rest.split_at(random.below(rest.len() + 1));
            parts.push(part);
            rest = after;
        }
        let (pushed, tail) = detokenize(parts);
        let whole = String::from_utf8_lossy(&bytes);
        assert_eq!(pushed.concat() + &tail, whole, "round {round}: {bytes:?}");
    }
}

#[test]
fn holds_back_only_what_a_character_still_needs() {
    let text = "a☕ü🚂z";
    let mut detokenizer = Detokenizer::new();
    for character in text.chars() {
        let mut buffer = [0; 4];
        let bytes = character.encode_utf8(&mut buffer).as_bytes();
        let (last, start) = bytes.split_last().expect("a character has bytes");
        for byte in start {
            assert_eq!(detokenizer.push(&[*byte]), "");
            assert!(detokenizer.is_holding());
        }
        assert_eq!(detokenizer.push(&[*last]), character.to_string());
        assert!(!detokenizer.is_holding());
    }
    assert_eq!(detokenizer.finish(), "");
    // A byte that cannot continue the character releases it at once.
    assert_eq!(detokenizer.push(b"\xF0\x9F"), "");
    assert_eq!(detokenizer.push(b"!"), "\u{FFFD}!");
    assert_eq!(detokenizer.push(b"\xE2\x98"), "");
    assert_eq!(detokenizer.finish(), "\u{FFFD}");
    assert_eq!(detokenizer.finish(), "");
}

#[derive(Deserialize)]
struct Fixture {
    vocab_size: usize,
    tokens: Vec<(usize, String, i32)>,
    merges: Vec<String>,
}

fn smollm2() -> Tokenizer {
    let fixture: Fixture =
        serde_json::from_str(include_str!("data/tokenizer/smollm2.json")).expect("valid data");
    let mut tokens = vec![String::new(); fixture.vocab_size];
    let mut token_types = vec![5; fixture.vocab_size];
    for (id, text, kind) in fixture.tokens {
        tokens[id] = text;
        token_types[id] = kind;
    }
    let vocabulary = Vocabulary {
        model: "gpt2".to_owned(),
        pre: "smollm".to_owned(),
        token_types,
        ..Vocabulary::default()
    };
    Tokenizer::new(&vocabulary, &tokens, &fixture.merges).expect("a valid vocabulary")
}

#[test]
fn token_pairs_that_split_a_character_give_the_character_and_no_replacement() {
    let tokenizer = smollm2();
    let ids = 0..u32::try_from(tokenizer.vocab_size()).expect("ids are u32");
    let broken: Vec<&[u8]> = ids
        .filter_map(|id| tokenizer.token_bytes(id))
        .filter(|bytes| std::str::from_utf8(bytes).is_err())
        .collect();
    let mut whole = 0;
    for first in &broken {
        for second in &broken {
            let both = [*first, *second].concat();
            let (pushed, rest) = detokenize([*first, *second]);
            let text = pushed.concat() + &rest;
            assert_eq!(text, String::from_utf8_lossy(&both));
            if std::str::from_utf8(&both).is_ok() {
                assert!(!text.contains('\u{FFFD}') && rest.is_empty(), "{both:?}");
                whole += 1;
            }
        }
    }
    assert!(whole > 1000, "only {whole} pairs make whole characters");
}

#[test]
fn a_reply_cut_into_tokens_is_the_text_of_all_its_tokens() {
    let tokenizer = smollm2();
    let text = "Grüße aus Zürich — 東京 and naïve café ☕🚂:";
    let ids = tokenizer.encode(text, false).expect("encodes");
    assert!(ids.len() < text.len() && ids.len() > text.chars().count() / 2);
    let parts = ids
        .iter()
        .map(|id| tokenizer.token_bytes(*id).expect("listed"));
    let (pushed, rest) = detokenize(parts);
    assert_eq!(pushed.concat() + &rest, text);
    assert!(pushed.iter().all(|part| !part.contains('\u{FFFD}')));
    assert_eq!(tokenizer.decode(&ids), text);
}
