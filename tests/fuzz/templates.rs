//! Chat templates: real ones with damage, and ones that a grammar made.

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokenbrook::tokenizer::{ChatMessage, ChatTemplate, TemplateOptions};

use crate::common::Random;
use crate::fuzz;
use crate::pieces::{mutated, one, text};
use crate::stopwatch::Stopwatch;

/// Rendering's limits are of work, not of time: these are for the slowest machine in its
/// slowest profile.
const MAX_TIME: Duration = Duration::from_secs(4);
const MAX_OUTPUT: usize = 64 << 20;

const PARTS: &[&str] = &[
    "{%",
    "%}",
    "{{",
    "}}",
    "{#",
    "#}",
    "{%-",
    "-%}",
    "endfor",
    "endif",
    "for x in range(99999)",
    "if",
    "else",
    "elif",
    "set",
    "macro m(a)",
    "endmacro",
    "namespace(a=1)",
    "loop.index0",
    "loop.previtem",
    "| tojson",
    "| length",
    "| join(',')",
    "| selectattr('role')",
    "is defined",
    "is not none",
    "messages",
    "messages[0]",
    "[::-1]",
    "tools",
    "raise_exception('x')",
    "strftime_now('%d %b %Y')",
    "'",
    "\"",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    "~",
    "+",
    "*",
    "**",
    "//",
    "%",
    "not",
    "and",
    "or",
    "in",
    "break",
    "continue",
    "recursive",
    "call",
    "filter",
    "x.x.x",
    "10000000000",
    "-1",
    "|",
    ".",
    ",",
    "content.split('</think>')",
    "\\",
    "\0",
    "é",
];

#[derive(Deserialize)]
struct Golden {
    templates: Vec<GoldenTemplate>,
}

#[derive(Deserialize)]
struct GoldenTemplate {
    source: String,
}

fn sources() -> Vec<String> {
    let golden = include_str!("../data/tokenizer/templates.json");
    let golden: Golden = serde_json::from_str(golden).expect("valid data");
    golden
        .templates
        .into_iter()
        .map(|template| template.source)
        .collect()
}

fn messages(random: &mut Random) -> Vec<ChatMessage> {
    let roles = ["system", "user", "assistant", "tool", "developer", ""];
    let message = |random: &mut Random| ChatMessage {
        role: one(random, &roles).to_owned(),
        content: Some(text(random, &["<|im_end|>", "</think>", "{{", "<s>"], 8))
            .filter(|_| random.below(8) > 0),
        tool_calls: (random.below(5) == 0).then(|| {
            json!([{ "id": "1", "type": "function",
                "function": { "name": "f", "arguments": { "a": [1, null, "é"] } } }])
        }),
        ..ChatMessage::default()
    };
    (0..random.below(6)).map(|_| message(random)).collect()
}

fn options(random: &mut Random) -> TemplateOptions {
    let mut variables = Map::new();
    if random.below(2) == 0 {
        let tool = json!({ "type": "function", "function": { "name": "f",
            "parameters": { "type": "object", "properties": { "a": { "type": "string" } } } } });
        variables.insert("tools".to_owned(), json!([tool]));
    }
    for name in ["enable_thinking", "date_string", "documents"] {
        if random.below(4) == 0 {
            let values = [
                json!(true),
                json!(false),
                json!("x"),
                json!([]),
                Value::Null,
            ];
            variables.insert(name.to_owned(), values[random.below(values.len())].clone());
        }
    }
    TemplateOptions {
        add_generation_prompt: random.below(2) == 0,
        variables,
        ..TemplateOptions::default()
    }
}

/// Renders; whether that went well.
fn check(random: &mut Random, source: &str) -> bool {
    let (messages, options) = (messages(random), options(random));
    let watch = Stopwatch::start();
    let rendered = ChatTemplate::new(source, "<s>", "</s>")
        .and_then(|template| template.render(&messages, &options));
    let took = watch.elapsed();
    assert!(took < MAX_TIME, "{took:?}: {source}");
    match rendered {
        Ok(text) => {
            assert!(text.len() < MAX_OUTPUT, "{} bytes: {source}", text.len());
            true
        }
        Err(error) => {
            assert!(!error.to_string().is_empty());
            false
        }
    }
}

#[test]
fn damaged_templates_render_or_are_refused_within_bounds() {
    let sources = sources();
    assert!(sources.len() > 3);
    let (mut rendered, mut refused) = (0, 0);
    fuzz("templates with damage", 4000, |random| {
        let source = &sources[random.below(sources.len())];
        let other = &sources[random.below(sources.len())];
        let source = mutated(random, source, other, PARTS);
        *(if check(random, &source) {
            &mut rendered
        } else {
            &mut refused
        }) += 1;
    });
    assert!(rendered > 50 && refused > 50, "{rendered} {refused}");
}

/// An expression of a grammar.
fn expression(random: &mut Random, levels: usize) -> String {
    let inner = |random: &mut Random| expression(random, levels - 1);
    if levels == 0 {
        let leaves = [
            "messages",
            "m",
            "m.content",
            "m['role']",
            "x",
            "tools",
            "1",
            "0",
            "-7",
            "1.5",
            "99999999999",
            "'é'",
            "'ab' * 99",
            "none",
            "true",
            "[]",
            "{}",
            "missing",
            "bos_token",
            "loop.index",
            "loop.last",
            "ns.a",
            "range(99)",
            "messages[0].content",
        ];
        return one(random, &leaves).to_owned();
    }
    let (a, b) = (inner(random), inner(random));
    match random.below(13) {
        0 => format!(
            "({a} {} {b})",
            one(random, &["+", "-", "*", "/", "//", "%", "**", "~"])
        ),
        1 => format!(
            "({a} {} {b})",
            one(random, &["==", "!=", "<", ">=", "in", "not in"])
        ),
        2 => format!("({a} {} {b})", one(random, &["and", "or"])),
        3 => {
            let filters = [
                "length",
                "tojson",
                "tojson(indent=2)",
                "trim",
                "upper",
                "list",
                "first",
                "last",
                "join('-')",
                "reverse",
                "sort",
                "unique",
                "items",
                "string",
                "int",
                "abs",
                "default('x')",
                "replace('a', 'bb')",
                "map(attribute='role')",
                "indent(4)",
                "selectattr('role', 'equalto', 'user')",
                "rejectattr('content')",
                "capitalize",
                "batch(2)",
                "dictsort",
                "safe",
                "sum",
                "round",
                "nothing",
                "split",
                "tojson(-1)",
            ];
            format!("({a} | {})", one(random, &filters))
        }
        4 => {
            let tests = [
                "defined", "none", "string", "mapping", "iterable", "number", "odd",
            ];
            format!(
                "({a} is {}{})",
                one(random, &["", "not "]),
                one(random, &tests)
            )
        }
        5 => format!("{a}[{b}]"),
        6 => format!("{a}[{}:{b}]", one(random, &["", "1", "-2"])),
        7 => format!("({a} if {b} else {a})"),
        8 => format!("[{a}, {b}]"),
        9 => format!("{{'k': {a}, 'l': {b}}}"),
        10 => {
            let methods = [
                "split('<')",
                "strip()",
                "startswith('a')",
                "replace('a', 'aa')",
                "items()",
                "get('role')",
                "rstrip('x')",
                "upper()",
                "join(['a'])",
                "format(1)",
                "keys()",
            ];
            format!("{a}.{}", one(random, &methods))
        }
        11 => format!("range({a})"),
        _ => format!("f({a}, {b})"),
    }
}

/// Statements of a grammar.
fn body(random: &mut Random, levels: usize) -> String {
    let mut out = String::new();
    for _ in 0..1 + random.below(3) {
        let deep = random.below(4);
        let value = expression(random, deep);
        let inner = if levels > 0 {
            body(random, levels - 1)
        } else {
            "t\n".to_owned()
        };
        out += &match random.below(9) {
            0 => format!("{{% for m in {value} %}}{inner}{{% else %}}e{{% endfor %}}"),
            1 => format!("{{% for m in range(999) %}}{inner}{{% endfor %}}"),
            2 => format!("{{%- if {value} -%}}{inner}{{%- elif x %}}{inner}{{% endif %}}"),
            3 => format!("{{% set x = {value} %}}"),
            4 => format!("{{% set ns = namespace(a={value}) %}}{{% set ns.a = [ns.a, x] %}}"),
            5 => format!("{{% macro f(a, x=1) %}}{inner}{{% endmacro %}}"),
            6 => format!("{{% set x %}}{inner}{{% endset %}}"),
            7 => format!("{{% if {value} %}}{{% break %}}{{% endif %}}{{{{ f(x) }}}}"),
            _ => format!("{{{{ {value} }}}}"),
        };
    }
    out
}

#[test]
fn made_templates_render_or_are_refused_within_bounds() {
    let (mut rendered, mut refused) = (0, 0);
    fuzz("templates of a grammar", 4000, |random| {
        let levels = random.below(4);
        let body = body(random, levels);
        let source = format!("{{% for m in messages %}}{body}{{% endfor %}}");
        *(if check(random, &source) {
            &mut rendered
        } else {
            &mut refused
        }) += 1;
    });
    assert!(rendered > 50 && refused > 50, "{rendered} {refused}");
}
