//! Answers held to a form, from a model that says nothing: only the form makes sense of it.

use std::collections::BTreeSet;
use std::time::Instant;

use serde_json::{Value, json};
use tokenbrook::backend::cpu::{CpuBackend, Precision};
use tokenbrook::measure::FinishReason;
use tokenbrook::session::{Session, SessionError};

use crate::common::Random;
use crate::common::model::session_from_bytes;
use crate::common::tiny_llama::{self, EOS};
use crate::{answer, ids, options, session, start, text, token};

/// Options under which nearly everything that may come does come.
fn hot(format: &Value, seed: u64) -> Value {
    json!({ "responseFormat": format, "seed": seed, "maxTokens": 285, "temperature": 9,
        "topK": 0, "topP": 1 })
}

/// Texts of answers that ended with `stop`, out of `seeds` answers.
fn stopped(session: &mut Session<CpuBackend>, format: &Value, seeds: u64) -> Vec<String> {
    let mut texts = Vec::new();
    for seed in 0..seeds {
        let (tokens, reason) = answer(session, hot(format, seed));
        let text = text(&tokens);
        match reason {
            FinishReason::Stop => texts.push(text),
            FinishReason::Length => assert_eq!(tokens.len(), 285, "{text}"),
            other => panic!("{other:?}: {text}"),
        }
    }
    texts
}

/// As [`stopped`], parsed.
fn parsed(session: &mut Session<CpuBackend>, schema: &Value, seeds: u64) -> Vec<Value> {
    let format = json!({ "type": "json_schema", "schema": schema });
    let texts = stopped(session, &format, seeds).into_iter();
    texts
        .map(|text| serde_json::from_str(&text).unwrap_or_else(|why| panic!("{why}: {text}")))
        .collect()
}

#[test]
fn an_object_has_its_properties_in_order_and_within_their_limits() {
    let schema = json!({
        "type": "object",
        "properties": {
            "name": { "type": "string", "minLength": 1, "maxLength": 6 },
            "age": { "type": "integer", "minimum": 0, "maximum": 150 },
            "kind": { "enum": ["a\"b", 7, null] },
            "flag": { "type": "boolean" },
        },
        "required": ["name", "age", "kind", "flag"],
        "additionalProperties": false,
    });
    let values = parsed(&mut session(), &schema, 12);
    assert_eq!(values.len(), 12);
    for value in values {
        let object = value.as_object().expect("an object");
        let names: Vec<_> = object.keys().map(String::as_str).collect();
        assert_eq!(names, ["name", "age", "kind", "flag"]);
        let length = object["name"].as_str().expect("a string").chars().count();
        assert!((1..=6).contains(&length), "{value}");
        assert!(
            object["age"].as_u64().is_some_and(|age| age <= 150),
            "{value}"
        );
        let kinds = [json!("a\"b"), json!(7), json!(null)];
        assert!(kinds.contains(&object["kind"]), "{value}");
        assert!(object["flag"].is_boolean());
    }
}

#[test]
fn arrays_unions_and_references_hold_too() {
    let mut session = session();
    let mixed = json!({ "type": "array", "minItems": 1, "maxItems": 3, "items": {
        "anyOf": [{ "type": "null" }, { "type": "number", "minimum": -5, "maximum": 5 },
            { "const": { "x": [] } }] } });
    let values = parsed(&mut session, &mixed, 10);
    assert!(values.len() >= 8, "{}", values.len());
    for value in &values {
        let items = value.as_array().expect("an array");
        assert!((1..=3).contains(&items.len()), "{value}");
        for item in items {
            let number = item.as_f64().is_some_and(|x| (-5.0..=5.0).contains(&x));
            assert!(
                item.is_null() || number || *item == json!({ "x": [] }),
                "{item}"
            );
        }
    }
    let tree = json!({ "$ref": "#/$defs/tree", "$defs": { "tree": {
        "type": "object", "properties": { "leaves": { "type": "array", "maxItems": 2,
            "items": { "$ref": "#/$defs/tree" } } },
        "required": ["leaves"], "additionalProperties": false } } });
    let is_tree = |value: &Value| {
        fn check(value: &Value) -> bool {
            let object = value.as_object().expect("an object");
            let leaves = object["leaves"].as_array().expect("an array");
            object.len() == 1 && leaves.len() <= 2 && leaves.iter().all(check)
        }
        check(value)
    };
    let values = parsed(&mut session, &tree, 10);
    assert!(
        values.len() >= 3 && values.iter().all(is_tree),
        "{values:?}"
    );
    // Any object at all: most are long, those that end parse.
    let format = json!({ "type": "json_object" });
    for text in stopped(&mut session, &format, 12) {
        let value: Value = serde_json::from_str(&text).expect("JSON");
        assert!(value.is_object(), "{text}");
    }
}

#[test]
fn a_regular_expression_matches_the_whole_answer() {
    let mut session = session();
    let mut texts = |pattern: &str| {
        let texts = stopped(
            &mut session,
            &json!({ "type": "regex", "pattern": pattern }),
            12,
        );
        assert_eq!(texts.len(), 12, "{pattern}");
        texts
    };
    for text in texts("[a-c]{5,9}") {
        assert!((5..=9).contains(&text.len()), "{text}");
        assert!(text.bytes().all(|b| (b'a'..=b'c').contains(&b)), "{text}");
    }
    for text in texts(r"([0-9]{1,3}\.){3}[0-9]{1,3}/8") {
        let (address, bits) = text.split_once('/').expect("a slash");
        let parts: Vec<_> = address.split('.').collect();
        assert_eq!((parts.len(), bits), (4, "8"), "{text}");
        assert!(
            parts
                .iter()
                .all(|p| p.len() <= 3 && p.parse::<u16>().is_ok()),
            "{text}"
        );
    }
    // Every token is one byte: characters of two to four bytes are never cut.
    for text in texts("[äß€😀]{7}") {
        assert_eq!(text.chars().count(), 7, "{text}");
        assert!(text.chars().all(|c| "äß€😀".contains(c)), "{text}");
    }
}

#[test]
fn a_grammar_derives_the_answer() {
    let mut session = session();
    let nested = json!({ "type": "lark", "grammar": "start: \"a\" start \"b\" | \"c\"" });
    let texts = stopped(&mut session, &nested, 16);
    assert_eq!(texts.len(), 16);
    for text in &texts {
        let depth = text.len() / 2;
        let want = format!("{}c{}", "a".repeat(depth), "b".repeat(depth));
        assert_eq!(*text, want);
    }
    assert!(texts.iter().collect::<BTreeSet<_>>().len() > 2, "{texts:?}");
    let sums = json!({ "type": "lark", "grammar":
        "start: term (\"+\" term)*\nterm: NUMBER | \"(\" start \")\"\nNUMBER: /[0-9]{1,3}/" });
    let texts = stopped(&mut session, &sums, 16);
    assert!(texts.len() > 4, "{texts:?}");
    for text in texts {
        let opened = text.bytes().filter(|&b| b == b'(').count();
        assert_eq!(
            opened,
            text.bytes().filter(|&b| b == b')').count(),
            "{text}"
        );
        let flat = text.replace(['(', ')'], "");
        let mut numbers = flat.split('+');
        assert!(
            numbers.all(|n| n.len() <= 3 && n.parse::<u16>().is_ok()),
            "{text}"
        );
    }
}

#[test]
fn end_tokens_come_only_where_the_form_is_complete() {
    let mut session = session();
    let end_ids = session.tokenizer().end_ids().to_vec();
    assert!(end_ids.contains(&EOS));
    let biased = |bias: i32| {
        let mut options = hot(&json!({ "type": "regex", "pattern": "[a-c]{5,9}" }), 4);
        let biases = end_ids.iter().map(|id| (id.to_string(), json!(bias)));
        options["logitBias"] = biases.collect::<serde_json::Map<_, _>>().into();
        options
    };
    // The end is pressed for from the start: it comes after the least that is allowed.
    let (tokens, reason) = answer(&mut session, biased(100));
    assert_eq!(
        (text(&tokens).len(), tokens.len(), reason),
        (5, 6, FinishReason::Stop)
    );
    assert!(end_ids.contains(&tokens[5].id));
    // The end is avoided: the answer ends by itself where nothing can follow.
    let (tokens, reason) = answer(&mut session, biased(-100));
    assert_eq!(
        (text(&tokens).len(), tokens.len(), reason),
        (9, 9, FinishReason::Stop)
    );
    let mut short = biased(-100);
    short["maxTokens"] = json!(3);
    let (tokens, reason) = answer(&mut session, short);
    assert_eq!((tokens.len(), reason), (3, FinishReason::Length));
    // Greedy choice is held as well.
    let mut greedy = hot(&json!({ "type": "regex", "pattern": "yes|no" }), 0);
    greedy["temperature"] = json!(0);
    assert!(["yes", "no"].contains(&text(&answer(&mut session, greedy).0).as_str()));
}

#[test]
fn a_form_streams_in_pieces_and_survives_suspensions() {
    let format = json!({ "type": "json_schema", "schema": {
        "type": "object", "properties": { "words": { "type": "array", "minItems": 2,
            "maxItems": 4, "items": { "type": "string", "maxLength": 5 } } },
        "required": ["words"], "additionalProperties": false } });
    let (want, reason) = answer(&mut session(), hot(&format, 21));
    assert_eq!(reason, FinishReason::Stop);
    // One byte a token; only parts of characters show nothing.
    let shown = want.iter().filter(|token| !token.text.is_empty()).count();
    assert!(
        shown * 3 > want.len() && shown > 20,
        "{shown} of {}",
        want.len()
    );
    let mut session = session();
    let mut suspended = start(&session, hot(&format, 21));
    let mut other = start(
        &session,
        hot(&json!({ "type": "regex", "pattern": "[xy]{280}" }), 5),
    );
    let mut got = Vec::new();
    while let Some(token) = token(&mut session, &mut suspended) {
        got.push(token.id);
        if got.len() % 3 == 0 {
            let other = crate::token(&mut session, &mut other).expect("it is long");
            assert!(["x", "y"].contains(&other.text.as_str()), "{other:?}");
        }
    }
    assert_eq!(got, ids(&want));
}

#[test]
fn forms_that_cannot_be_are_refused_with_their_place() {
    let session = session();
    let schema = |schema: Value| json!({ "type": "json_schema", "schema": schema });
    for (format, place, why) in [
        (schema(json!({ "type": "strnig" })), "schema", "strnig"),
        (
            schema(json!({ "properties": { "a": {}, "b c": { "items": { "type": 3 } } } })),
            "schema.properties[\"b c\"].items",
            "type must be",
        ),
        (
            schema(
                json!({ "anyOf": [{ "type": "null" }, { "$ref": "#/$defs/x" }],
                "$defs": { "x": { "type": "string", "pattern": "a(" } } }),
            ),
            "schema.$defs.x",
            "",
        ),
        (
            schema(json!({ "type": "array", "uniqueItems": true })),
            "schema",
            "uniqueItems",
        ),
        (json!({ "type": "regex", "pattern": "a(" }), "pattern", ""),
        (
            json!({ "type": "lark", "grammar": "start: other" }),
            "grammar",
            "other",
        ),
        (
            json!({ "type": "lark", "grammar": "start: \"a\" )" }),
            "grammar",
            "1(12)",
        ),
    ] {
        let read = options(json!({ "responseFormat": format })).expect("its shape is right");
        let error = session.generation(vec![5], read).expect_err("it cannot be");
        let SessionError::Grammar {
            place: at,
            why: told,
        } = &error
        else {
            panic!("{format}: {error}");
        };
        assert_eq!(*at, format!("responseFormat.{place}"), "{told}");
        assert!(
            told.contains(why) && !told.is_empty() && told.len() < 600,
            "{told}"
        );
        assert!(
            !told.contains("<state>") && !told.contains("non-verbose"),
            "{told}"
        );
        assert_eq!(error.code(), "invalid-option");
    }
}

/// Words of two to nine letters, half of them after a space, as byte-level BPE spells them.
fn words(count: usize) -> Vec<String> {
    let mut random = Random(49_152);
    let mut words = BTreeSet::new();
    while words.len() < count {
        let space = if random.below(2) == 0 { "Ġ" } else { "" };
        let letters = 2 + random.below(8);
        let letters = (0..letters).map(|_| char::from(b"etaoinshrdlu{}\":,0123"[random.below(21)]));
        words.insert(space.to_owned() + &letters.collect::<String>());
    }
    words.into_iter().collect()
}

#[test]
#[expect(clippy::print_stdout, reason = "a measurement to be read")]
fn a_form_costs_little_a_token_with_a_vocabulary_of_usual_size() {
    let file = tiny_llama::file_with_tokens(&words(49_152 - 259));
    let backend = CpuBackend::new(Precision::Exact);
    let mut session = session_from_bytes(backend, &file, None).expect("it loads");
    let format = json!({ "type": "json_schema", "schema": { "type": "array", "minItems": 9,
        "items": { "type": "object", "properties": { "text": { "type": "string",
        "maxLength": 90 }, "n": { "type": "integer" } }, "required": ["text", "n"] } } });
    let mut held = hot(&format, 1);
    // A sampler that costs little itself.
    held["temperature"] = json!(0);
    let mut free = held.clone();
    free.as_object_mut()
        .expect("options")
        .remove("responseFormat");
    free["ignoreEos"] = json!(true);
    let first = Instant::now();
    drop(start(&session, hot(&format, 0)));
    let first_ms = first.elapsed().as_secs_f64() * 1000.0;
    let second = Instant::now();
    drop(start(&session, hot(&format, 0)));
    let second_ms = second.elapsed().as_secs_f64() * 1000.0;
    let mut steps = |options: Value| {
        let mut generation = start(&session, options);
        let mut steps = Vec::new();
        loop {
            let started = Instant::now();
            if token(&mut session, &mut generation).is_none() {
                steps.sort_by(f64::total_cmp);
                return (steps[steps.len() / 2], steps[steps.len() - 1]);
            }
            steps.push(started.elapsed().as_secs_f64() * 1000.0);
        }
    };
    let (free, held) = (steps(free), steps(held));
    println!(
        "structured output, 49152 tokens: first form {first_ms:.0} ms, a later one \
         {second_ms:.1} ms; a token {:.3} ms free, {:.3} ms held (median), {:.1} ms at most",
        free.0, held.0, held.1
    );
    // Generous, for busy machines: what it guards against is a walk over the whole vocabulary.
    assert!(held.0 - free.0 < 15.0, "{free:?} {held:?}");
    assert!(second_ms < first_ms, "the trie is kept");
}
