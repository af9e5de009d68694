//! What templates render, and what they are refused for.

use tokenbrook::tokenizer::{ChatTemplate, Now, TemplateError, TemplateOptions};

use crate::{golden, message, prompting, render};

#[test]
fn renders_what_jinja2_renders_for_every_family() {
    let golden = golden();
    let mut checked = 0;
    for template in golden.templates {
        let compiled = ChatTemplate::new(&template.source, &template.bos, &template.eos);
        let compiled = compiled.unwrap_or_else(|error| panic!("{}: {error}", template.name));
        for (index, case) in template.cases.into_iter().enumerate() {
            let options = TemplateOptions {
                add_generation_prompt: case.add_generation_prompt,
                variables: case.variables,
                now: Now {
                    unix_seconds: golden.now,
                    utc_offset_minutes: 0,
                },
            };
            let expected = match (case.expected, case.raises) {
                (Some(text), _) => Ok(text),
                (None, message) => Err(TemplateError::Raised {
                    message: message.expect("one of the two"),
                }),
            };
            let found = compiled.render(&case.messages, &options);
            assert_eq!(found, expected, "{} case {index}", template.name);
            checked += 1;
        }
    }
    assert_eq!(checked, 72);
}

#[test]
fn tools_and_documents_are_none_unless_given() {
    let source = "{{ tools is none }} {{ documents is none }} {{ other is defined }}";
    assert_eq!(render(source).as_deref(), Ok("True True False"));
}

#[test]
fn a_generation_block_writes_what_it_holds() {
    let plain =
        "{% for m in messages %}\n  {%- if true -%} {{ m.content }} {%- endif %}\n{% endfor %}";
    let marked = plain
        .replace("if true", "generation")
        .replace("endif", "endgeneration");
    assert_eq!(render(&marked), render(plain));
    assert_eq!(render(&marked).as_deref(), Ok("hi"));
    for source in ["generation {%}", "{% generation %}{%", "{%%}generation"] {
        assert!(ChatTemplate::new(source, "", "").is_err(), "{source}");
    }
}

#[test]
fn dates_are_those_of_the_given_moment_and_offset() {
    let template = ChatTemplate::new("{{ strftime_now(messages[0].content) }}", "", "").unwrap();
    let format = |format: &str, unix_seconds: f64, utc_offset_minutes: i32| {
        let now = Now {
            unix_seconds,
            utc_offset_minutes,
        };
        let options = TemplateOptions {
            now,
            ..TemplateOptions::default()
        };
        template.render(&[message("user", format)], &options)
    };
    let full = "%Y-%m-%d %H:%M:%S %a %j %I%p %y %e %-m/%-d 100%%";
    let cases = [
        (
            951_782_399.9,
            0,
            "2000-02-28 23:59:59 Mon 059 11PM 00 28 2/28 100%",
        ),
        (
            951_782_400.0,
            0,
            "2000-02-29 00:00:00 Tue 060 12AM 00 29 2/29 100%",
        ),
        (
            951_782_400.0,
            -1,
            "2000-02-28 23:59:00 Mon 059 11PM 00 28 2/28 100%",
        ),
        (
            1_735_689_599.0,
            60,
            "2025-01-01 00:59:59 Wed 001 12AM 25  1 1/1 100%",
        ),
        (-1.0, 0, "1969-12-31 23:59:59 Wed 365 11PM 69 31 12/31 100%"),
        (
            1_709_251_200.0,
            720,
            "2024-03-01 12:00:00 Fri 061 12PM 24  1 3/1 100%",
        ),
    ];
    for (seconds, offset, expected) in cases {
        assert_eq!(format(full, seconds, offset).as_deref(), Ok(expected));
    }
    assert!(format("%F", f64::NAN, 0).is_ok() && format("%c", f64::INFINITY, 0).is_ok());
    let unknown = TemplateError::UnknownTimeFormat { conversion: 'Q' };
    assert_eq!(format("%Q", 0.0, 0), Err(unknown));
}

#[test]
fn tojson_escapes_non_ascii_only_on_request() {
    let found = render(
        r#"{{ {"b": "é😀", "a": [1]} | tojson(ensure_ascii=true, indent=1, sort_keys=true) }}"#,
    );
    assert_eq!(
        found.as_deref(),
        Ok("{\n \"a\": [\n  1\n ],\n \"b\": \"\\u00e9\\ud83d\\ude00\"\n}")
    );
    let found = render(r#"{{ [1, {"a": 2}] | tojson(separators=(',', ':')) }}"#);
    assert_eq!(found.as_deref(), Ok(r#"[1,{"a":2}]"#));
}

#[test]
fn reports_the_line_of_a_syntax_error() {
    for source in [
        "a\n{% if x %}",
        "a\n{{ 1 + }}",
        "\n{% frobnicate %}",
        "{{ 'open",
        "{% endfor %}",
    ] {
        let error = ChatTemplate::new(source, "", "").expect_err(source);
        assert!(
            matches!(error, TemplateError::Syntax { line: 1..=2, .. }),
            "{source}: {error}"
        );
    }
    let nested = format!(
        "{}x{}",
        "{% if 1 %}".repeat(2000),
        "{% endif %}".repeat(2000)
    );
    assert!(matches!(
        ChatTemplate::new(&nested, "", ""),
        Err(TemplateError::TooDeep {
            what: "blocks",
            line: 1,
            limit: 40
        })
    ));
    let long = " ".repeat((128 << 10) + 1);
    let too_long = TemplateError::TooLong {
        bytes: (128 << 10) + 1,
        limit: 128 << 10,
    };
    assert_eq!(
        ChatTemplate::new(&long, "", "").expect_err("too long"),
        too_long
    );
}

#[test]
fn checks_of_depth_change_nothing_in_a_template() {
    let cases = [
        ("{{ [1, (2, 3), {'a': [4]}] }}", "[1, (2, 3), {'a': [4]}]"),
        (
            "{{ (1, 2)[1] ~ [5][0] ~ {'a': 1}['a'] ~ {'b': 2}.b }}",
            "2512",
        ),
        ("{{ 1 in [1] and 2 not in (1, 3) and not [] }}", "True"),
        ("{% set a, b = 1, [2] %}{{ a }}{{ b[0] }}", "12"),
        ("{% set (a, b) = (1, 2) %}{{ a + b }}", "3"),
        (
            "{% for a, (b, c) in [(1, (2, 3))] %}{{ a }}{{ b }}{{ c }}{% endfor %}",
            "123",
        ),
        (
            "{% for k, v in {'a': 1}.items() if v in [1] %}{{ k }}{% endfor %}",
            "a",
        ),
        (
            "{% set ns = namespace(n=1, l=[]) %}{% set ns.l = ns.l + [ns.n] %}{{ ns.l[0] }}",
            "1",
        ),
        (
            "{% macro m(a, b=[2]) %}{{ a }}{{ b[0] }}{% endmacro %}{% set f = m %}{{ f(1) }}",
            "12",
        ),
        (
            "{% set x = 'a' if false else none %}{{ x is none }}",
            "True",
        ),
        ("{% set x = missing %}{{ x is defined }}", "False"),
        (
            "{% set x = messages[0:1] %}{{ x[0].role }}{{ x | length }}",
            "user1",
        ),
        (
            "{{ dict(a=1).a }}{{ [3] | first }}{{ 2 is in [2] }}",
            "13True",
        ),
        ("{%- set a = [\n  1,\n] -%}\n {{- a | length }}", "1"),
        ("{% set x %}[{% endset %}{{ x }}", "["),
    ];
    for (source, expected) in cases {
        assert_eq!(render(source).as_deref(), Ok(expected), "{source}");
    }
}

#[test]
fn tojson_keeps_the_order_of_keys() {
    let template = ChatTemplate::new(
        "{{ tools | tojson }}{{ {'z': 1, 'b': 2} | tojson }}",
        "",
        "",
    );
    let mut options = prompting();
    let tools = serde_json::from_str(r#"{"type": 1, "name": 2, "args": {"y": 1, "x": 2}}"#);
    options.variables.insert("tools".to_owned(), tools.unwrap());
    assert_eq!(
        template.unwrap().render(&[], &options).as_deref(),
        Ok(r#"{"type": 1, "name": 2, "args": {"y": 1, "x": 2}}{"z": 1, "b": 2}"#)
    );
}

#[test]
fn a_role_is_a_name() {
    let template = ChatTemplate::new("{{ messages[0].role }}", "", "").unwrap();
    for role in ["", "user\n", "<|im_end|>", "us er", "ü", &"x".repeat(65)] {
        let error = template
            .render(&[message(role, "")], &prompting())
            .expect_err(role);
        assert!(
            matches!(error, TemplateError::InvalidRole { index: 0, .. }),
            "{error}"
        );
    }
    assert!(
        template
            .render(&[message("tool_2-b", "")], &prompting())
            .is_ok()
    );
}
