//! Forms for answers: schemas, regular expressions and grammars that strangers wrote.

use std::time::Duration;

use serde_json::{Map, Value, json};
use tokenbrook::backend::cpu::{CpuBackend, Precision};
use tokenbrook::session::{GenerateOptions, Progress, Session, SessionError};

use crate::common::Random;
use crate::common::model::session_from_bytes;
use crate::common::tiny_llama;
use crate::fuzz;
use crate::pieces::{mutated, one, soup, text};
use crate::stopwatch::Stopwatch;

/// What a form may take to be read, and an answer's token to be held to it, in the development
/// profile on a slow machine.
const MAX_TIME: Duration = Duration::from_secs(8);

fn session() -> Session<CpuBackend> {
    let backend = CpuBackend::new(Precision::Exact);
    session_from_bytes(backend, &tiny_llama::file(), None).expect("the tiny model loads")
}

/// Starts an answer of a form and makes some of it; whether the form was taken.
fn check(session: &mut Session<CpuBackend>, random: &mut Random, format: &Value) -> bool {
    let options = json!({ "responseFormat": format, "maxTokens": 25, "temperature": 9, "topK": 0,
        "topP": 1, "seed": random.below(1000) });
    let watch = Stopwatch::start();
    let options = GenerateOptions::from_json(options.as_object().expect("it is one"));
    let started = options.and_then(|options| session.generation(vec![5], options));
    let took = watch.elapsed();
    assert!(took < MAX_TIME, "{took:?}: {format}");
    let mut generation = match started {
        Ok(generation) => generation,
        Err(error) => {
            let grammar = matches!(error, SessionError::Grammar { .. });
            let option = matches!(error, SessionError::InvalidOption { .. });
            assert!(grammar || option, "{error}: {format}");
            assert_eq!(error.code(), "invalid-option");
            return false;
        }
    };
    loop {
        let watch = Stopwatch::start();
        let progress = pollster::block_on(session.advance(&mut generation));
        let took = watch.elapsed();
        assert!(took < MAX_TIME, "{took:?} for a token: {format}");
        match progress {
            Ok(Progress::Finished) => return true,
            Ok(_) => {}
            Err(SessionError::Grammar { .. }) => return true,
            Err(error) => panic!("{error}: {format}"),
        }
    }
}

fn pattern(random: &mut Random, levels: usize) -> String {
    const LEAVES: &[&str] = &[
        "a",
        ".",
        "[a-z]",
        "[^\\n]",
        "\\d",
        "\\w",
        "\\s",
        "\\p{L}",
        "é",
        "[[:alpha:]]",
        "\\b",
        "^",
        "$",
        "(?i)",
        "\\x41",
        "\\u{1f600}",
        "[]",
        "[^]",
        "()",
        "\\1",
        "\\Q",
        "[z-a]",
        "x*",
        "[\\s\\S]",
        "(?=a)",
        "(?!a)",
        "(?<=a)",
        "\\",
        "",
        "\\pX",
        "[a&&b]",
        "(?P<n>a)",
    ];
    const COUNTS: &[&str] = &[
        "*",
        "+",
        "?",
        "{3}",
        "{2,}",
        "{0,9}",
        "{99}",
        "{1000}",
        "{4294967295}",
        "{9,2}",
        "*?",
        "{99999999999999999999}",
        "{0,100000}",
        "**",
    ];
    if levels == 0 {
        return one(random, LEAVES).to_owned();
    }
    let (a, b) = (pattern(random, levels - 1), pattern(random, levels - 1));
    match random.below(6) {
        0 => format!("({a}|{b})"),
        1 => format!("({a}){}", one(random, COUNTS)),
        2 => format!("{a}{}", one(random, COUNTS)),
        3 => format!("(?:{a}&{b})"),
        4 => format!("~({a})"),
        _ => a + &b,
    }
}

fn any_number(random: &mut Random) -> Value {
    let numbers = [
        json!(0),
        json!(-1),
        json!(1),
        json!(3),
        json!(1e308),
        json!(-1e-308),
        json!(0.1),
        json!(u64::MAX),
        json!(i64::MIN),
        json!(1_000_000),
        json!(1e19),
        json!("3"),
        json!(null),
        json!(2.5),
        json!(65_536),
        json!(4_294_967_296_u64),
    ];
    numbers[random.below(numbers.len())].clone()
}

fn schema(random: &mut Random, levels: usize) -> Value {
    const TYPES: &[&str] = &[
        "string", "number", "integer", "object", "array", "boolean", "null", "strnig", "",
    ];
    const KEYS: &[&str] = &[
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "multipleOf",
        "minLength",
        "maxLength",
        "minItems",
        "maxItems",
        "minProperties",
        "maxProperties",
        "minContains",
    ];
    let mut out = Map::new();
    if random.below(4) > 0 {
        out.insert("type".to_owned(), json!(one(random, TYPES)));
    }
    for _ in 0..random.below(3) {
        out.insert(one(random, KEYS).to_owned(), any_number(random));
    }
    for _ in 0..random.below(3) {
        let inner = |random: &mut Random| match levels {
            0 => json!(random.below(2) == 0),
            _ => schema(random, levels - 1),
        };
        let names = ["a", "b c", "é", "", "$ref", "\"", "__proto__"];
        let (key, value) = match random.below(18) {
            0 => (
                "properties",
                json!({ one(random, &names): inner(random), "z": inner(random) }),
            ),
            1 => ("items", inner(random)),
            2 => ("prefixItems", json!([inner(random), inner(random)])),
            3 => ("anyOf", json!([inner(random), inner(random)])),
            4 => ("allOf", json!([inner(random), inner(random)])),
            5 => ("oneOf", json!([inner(random), inner(random)])),
            6 => ("additionalProperties", inner(random)),
            7 => (
                "patternProperties",
                json!({ pattern(random, 1): inner(random) }),
            ),
            8 => (
                "$ref",
                json!(one(
                    random,
                    &["#", "#/$defs/x", "#/", "http://x/y", "", "#/a/0"]
                )),
            ),
            9 => ("$defs", json!({ "x": inner(random) })),
            10 => ("required", json!([one(random, &names), "a", "a"])),
            11 => (
                "enum",
                json!([1, "a\u{0}", null, [], { "a": 1e300 }, text(random, &[], 9)]),
            ),
            12 => ("const", json!({ "a": [any_number(random)] })),
            13 => ("pattern", json!(pattern(random, 2))),
            14 => {
                let formats = [
                    "date",
                    "date-time",
                    "uuid",
                    "email",
                    "ipv6",
                    "uri",
                    "nothing",
                ];
                ("format", json!(one(random, &formats)))
            }
            15 => ("not", inner(random)),
            16 => (
                "x-guidance",
                json!({ "whitespace_pattern": pattern(random, 1),
                "item_separator": pattern(random, 1), "lenient": true, "coerce_one_of": true }),
            ),
            _ => ("type", json!(["null", one(random, TYPES), 3])),
        };
        out.insert(key.to_owned(), value);
    }
    Value::Object(out)
}

#[test]
fn schemas_are_held_to_or_refused() {
    let mut session = session();
    let (mut taken, mut refused) = (0, 0);
    fuzz("schemas", 2000, |random| {
        let levels = random.below(4);
        let schema = schema(random, levels);
        let format = json!({ "type": "json_schema", "schema": schema });
        *(if check(&mut session, random, &format) {
            &mut taken
        } else {
            &mut refused
        }) += 1;
    });
    assert!(taken > 20 && refused > 50, "{taken} {refused}");
}

#[test]
fn regular_expressions_are_held_to_or_refused() {
    let mut session = session();
    let (mut taken, mut refused) = (0, 0);
    fuzz("regular expressions", 1500, |random| {
        let levels = random.below(5);
        let pattern = pattern(random, levels);
        let format = json!({ "type": "regex", "pattern": pattern });
        *(if check(&mut session, random, &format) {
            &mut taken
        } else {
            &mut refused
        }) += 1;
    });
    assert!(taken > 20 && refused > 50, "{taken} {refused}");
}

#[test]
fn grammars_are_held_to_or_refused() {
    const PARTS: &[&str] = &[
        "start",
        "start:",
        "a:",
        "b",
        "A",
        "\"x\"",
        "\"\"",
        "/[a-z]+/",
        "/a{9999}/",
        "(",
        ")",
        "|",
        "*",
        "+",
        "?",
        "~3",
        "~0..99999",
        "{3}",
        "{2,}",
        "%json",
        "{\"type\":\"object\"}",
        "%regex",
        "%ignore",
        "/ /",
        "%import common.WS",
        "%llguidance {}",
        "%lark {",
        "}",
        "\n",
        "[",
        "]",
        "max_tokens=3",
        "stop=\"x\"",
        "suffix",
        "lazy",
        "capture",
        "temperature=1",
        "<|im_end|>",
        "<[2]>",
        "<[1-99]>",
        "<[*]>",
        "<[^1]>",
        "-1",
        "&",
        "~A",
        "\\",
        "\u{0}",
        "é",
        "_rule",
        "::",
        ",",
        "@json",
        "$x",
        "#",
        "//",
        "\"a\"..\"z\"",
        "\"x\"i",
        "/x/i",
    ];
    let seeds = [
        "start: \"a\" start \"b\" | \"c\"",
        "start: term (\"+\" term)*\nterm: NUMBER | \"(\" start \")\"\nNUMBER: /[0-9]{1,3}/",
        "start: obj\nobj: %json { \"type\": \"object\", \"properties\": { \"a\": {} } }",
        "start: <[2]> name\nname[max_tokens=5]: /[a-z]*/\n%ignore /\\s+/",
        "start: a{2,5} b?\na: A | \"y\"\nb: /x+/ & ~/xx/\nA: \"a\"..\"z\"",
    ];
    let mut session = session();
    let (mut taken, mut refused) = (0, 0);
    fuzz("grammars", 2000, |random| {
        let (seed, other) = (random.below(seeds.len()), random.below(seeds.len()));
        let grammar = match random.below(4) {
            0 => format!("start: {}", soup(random, PARTS, 12)),
            _ => mutated(random, seeds[seed], seeds[other], PARTS),
        };
        let format = json!({ "type": "lark", "grammar": grammar });
        *(if check(&mut session, random, &format) {
            &mut taken
        } else {
            &mut refused
        }) += 1;
    });
    assert!(taken > 20 && refused > 50, "{taken} {refused}");
}

/// Runs `work` on a stack as small as that of WebAssembly.
fn on_a_small_stack(work: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().stack_size(1 << 20).spawn(work);
    thread.expect("it starts").join().expect("it ends well");
}

#[test]
fn forms_that_nest_deeply_are_held_to_or_refused_on_a_small_stack() {
    on_a_small_stack(|| {
        let mut session = session();
        let mut random = Random(5);
        for levels in [9, 60, 127, 255, 510, 3000, 30_000] {
            let nested = |open: &str, inner: &str, close: &str| {
                open.repeat(levels) + inner + &close.repeat(levels)
            };
            let mut schema = json!({ "type": "null" });
            for level in 0..levels.min(62) {
                schema = match level % 3 {
                    0 => json!({ "items": schema }),
                    1 => json!({ "anyOf": [schema] }),
                    _ => json!({ "properties": { "a": schema } }),
                };
            }
            let rules: String = (0..levels)
                .map(|level| format!("r{level}: \"a\" r{}\n", level + 1))
                .collect();
            let bracketed: String = (0..levels)
                .map(|level| format!("r{level}: (((\"a\" r{})))\n", level + 1))
                .collect();
            let terminals: String = (0..levels)
                .map(|level| format!("T{level}: \"a\" T{}\n", level + 1))
                .collect();
            let definitions: Map<String, Value> = (0..levels)
                .map(|level| {
                    (
                        format!("d{level}"),
                        json!({ "$ref": format!("#/$defs/d{}", level + 1) }),
                    )
                })
                .chain([(format!("d{levels}"), json!({ "type": "null" }))])
                .collect();
            let regex = |pattern: String| json!({ "type": "regex", "pattern": pattern });
            let lark = |grammar: String| json!({ "type": "lark", "grammar": grammar });
            let schema_of = |schema: Value| json!({ "type": "json_schema", "schema": schema });
            for format in [
                regex(nested("(", "a", ")")),
                regex(nested("(?:a|", "b", ")*")),
                regex(nested("[", "a", "]")),
                regex("a".to_owned() + &"*".repeat(levels)),
                regex(nested("", "a", "|b")),
                lark(format!("start: {}", nested("(", "\"a\"", ")"))),
                lark(format!("start: {}", nested("(\"a\" | ", "\"b\"", ")*"))),
                lark(format!("start: {}", nested("[", "\"a\"", "]"))),
                lark(format!("start: T\nT: {}", nested("(", "\"a\"", ")"))),
                lark(format!("start: /{}/", nested("(", "a", ")"))),
                lark(format!("start: \"a\"{}", "*".repeat(levels))),
                lark(format!("start: {}\"a\"", "~".repeat(levels))),
                lark(format!(
                    "start: %lark {}",
                    nested("{ start: %lark ", "{ start: \"a\" }", "}")
                )),
                lark(format!("start: %json {}", nested("[", "1", "]"))),
                lark(format!("start: %json {}", nested("{\"items\":", "{}", "}"))),
                lark(format!("start: r0\n{rules}r{levels}: \"b\"")),
                lark(format!("start: T0\n{terminals}T{levels}: \"b\"")),
                lark(format!("start: r0\n{bracketed}r{levels}: \"b\"")),
                schema_of(schema),
                schema_of(json!({ "$ref": "#/$defs/d0", "$defs": definitions })),
                schema_of(json!({ "type": "string", "pattern": nested("(", "a", ")") })),
            ] {
                if format.to_string().len() < 120_000 {
                    check(&mut session, &mut random, &format);
                }
            }
        }
    });
}
