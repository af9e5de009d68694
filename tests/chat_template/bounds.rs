//! Hostile templates end in typed errors, soon and on a small stack.

use std::time::Duration;

use serde_json::{Value, json};
use tokenbrook::tokenizer::{ChatTemplate, TemplateError};

use crate::stopwatch::Stopwatch;
use crate::{golden, golden_template, message, prompting, render};

#[test]
fn hostile_templates_end_in_typed_errors_soon() {
    let doubling = "{% set ns = namespace(x='ab') %}{% for i in range(99) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}";
    let json_levels = "{% set ns = namespace(x=[1,1,1,1,1,1,1,1,1,1]) %}{% for i in range(12) %}\
        {% set ns.x = [ns.x,ns.x,ns.x,ns.x,ns.x,ns.x,ns.x,ns.x,ns.x,ns.x] %}{% endfor %}{{ ns.x | tojson }}";
    let deep = "{% set ns = namespace(x=[]) %}{% for i in range(3000) %}{% set ns.x = [ns.x] %}{% endfor %}";
    let sources = [
        "{% for a in range(99999) %}{% for b in range(99999) %}{{ a }}{% endfor %}{% endfor %}"
            .to_owned(),
        "{% for a in range(1000000000) %}{% endfor %}".to_owned(),
        "{{ 'x' * 1000000000 }}".to_owned(),
        "{{ 'x' * 90000000 }}".to_owned(),
        "{{ [0] * 1000000000 }}".to_owned(),
        doubling.to_owned(),
        "{{ ('a' * 100000).replace('a', 'b' * 100000) }}".to_owned(),
        "{{ ('a' * 100000) | replace('a', 'b' * 100000) }}".to_owned(),
        "{{ ('b' * 100000).join(('a' * 100000)) }}".to_owned(),
        "{{ ('a' * 100000) | list | join('b' * 100000) }}".to_owned(),
        "{{ 'x' | indent(1000000000) }}".to_owned(),
        "{{ '%1000000000d' | format(1) }}".to_owned(),
        "{{ 9 ** 999999 }}".to_owned(),
        "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}".to_owned(),
        "{% for m in messages recursive %}{{ loop(messages) }}{% endfor %}".to_owned(),
        json_levels.to_owned(),
        json_levels.replace(" | tojson", ""),
        format!("{deep}{{{{ ns.x | tojson }}}}"),
        "{{ messages[0].content.missing.deeper }}".to_owned(),
        "{{ nothing() }}".to_owned(),
        "{{ 1 / 0 }}".to_owned(),
        "{% include 'other' %}".to_owned(),
        "{{ strftime_now('%Q') }}".to_owned(),
        "{{ raise_exception('no') }}".to_owned(),
    ];
    for source in sources {
        let start = Stopwatch::start();
        let result = render(&source);
        let took = start.elapsed();
        assert!(
            result.is_err(),
            "{source} wrote {:?}",
            result.map(|text| text.len())
        );
        assert!(took < Duration::from_secs(2), "{source}: {took:?}");
    }
}

/// Sources that nest or chain `levels` times, in every way there is.
fn nested_sources(levels: usize) -> Vec<String> {
    let expressions = [
        ("(", ")"),
        ("[", "]"),
        ("{'a': ", "}"),
        ("f(", ")"),
        ("x[", "]"),
        ("-", ""),
        ("not ", ""),
        ("1 if 1 else ", ""),
        ("", " if 1"),
        ("", "[0]"),
        ("", "[1:]"),
        ("", ".a"),
        ("", "()"),
        ("", "|list"),
        ("", " is defined"),
        ("", " is not none"),
        ("", " + 1"),
        ("", " ~ 'a'"),
        ("", " ** 1"),
        ("", " and 1"),
        ("", " == 1"),
        ("", " in [1]"),
    ];
    let mut sources: Vec<String> = expressions
        .iter()
        .map(|(open, close)| {
            let (open, close) = (open.repeat(levels), close.repeat(levels));
            format!("{{{{ {open}x{close} }}}}")
        })
        .collect();
    for (open, close) in [
        ("{% if 1 %}", "{% endif %}"),
        ("{% for i in [1] %}", "{% endfor %}"),
        ("{% set y %}", "{% endset %}"),
        ("{% set y | upper %}", "{% endset %}"),
        ("{% filter upper %}", "{% endfilter %}"),
        ("{% with a = 1 %}", "{% endwith %}"),
        ("{% macro m() %}", "{% endmacro %}"),
        ("{% call m() %}", "{% endcall %}"),
        ("{% autoescape false %}", "{% endautoescape %}"),
        ("{% if 1 %}{% raw %}{% endif %}{% endraw %}", "{% endif %}"),
    ] {
        sources.push(format!("{}{}", open.repeat(levels), close.repeat(levels)));
    }
    let elifs = "{% elif 0 %}".repeat(levels);
    sources.push(format!("{{% if 0 %}}{elifs}{{% endif %}}"));
    sources.push(format!(
        "{{% set {}a{} = 1 %}}",
        "(".repeat(levels),
        ")".repeat(levels)
    ));
    sources
}

/// Runs `check` where deep recursion would end the process: a module of WebAssembly has one MiB
/// of stack, and smaller frames.
fn on_a_small_stack(check: fn()) {
    let thread = std::thread::Builder::new()
        .stack_size(384 << 10)
        .spawn(check);
    thread.expect("a thread").join().expect("no panic");
}

#[test]
fn sources_fit_a_small_stack_however_they_nest() {
    on_a_small_stack(|| {
        for levels in [8, 9, 20, 24, 25, 40, 41, 53, 80, 160, 161, 2000] {
            for source in nested_sources(levels) {
                let result = render(&source);
                if levels == 2000 {
                    assert!(
                        matches!(result, Err(TemplateError::TooDeep { .. })),
                        "{}: {result:?}",
                        &source[..60]
                    );
                }
            }
        }
        // All limits at once.
        let deep = format!("{}x{}", "(".repeat(23), "[0]".repeat(136) + &")".repeat(23));
        let blocks = "{% if 1 %}".repeat(40);
        let source = format!("{blocks}{{{{ {deep} }}}}{}", "{% endif %}".repeat(40));
        assert!(matches!(render(&source), Err(TemplateError::Render { .. })));
    });
}

#[test]
fn values_fit_a_small_stack_however_they_grow() {
    on_a_small_stack(|| {
        let loops = [
            "{% set ns.x = [ns.x] %}",
            "{% set ns.x = {'a': ns.x} %}",
            "{% set ns.x = (ns.x,) %}",
            "{% set ns.x = ns.x, 1 %}",
            "{% set ns.x = dict(a=ns.x) %}",
            "{% set ns.x = namespace(a=ns.x) %}",
            "{% set ns.x = [1, [2, [ns.x]]] %}",
            "{% set ns.x = ns %}",
            "{% set ns.x = [ns] %}",
            "{% set ns.x = namespace(ns).items() | list %}",
            "{% set old = ns.x %}{% macro m() %}{{ old }}{% endmacro %}{% set ns.x = m %}",
            "{% set ns.x = [ns.x] | map('reverse') | list %}",
        ];
        for (index, step) in loops.into_iter().enumerate() {
            for end in [
                "",
                "{{ ns.x }}",
                "{{ ns }}",
                "{{ ns.x == ns.x }}",
                "{{ ns.x | tojson }}",
            ] {
                let source = format!(
                    "{{% set ns = namespace(x=[]) %}}{{% for i in range(20000) %}}{step}\
                     {{% endfor %}}{end}"
                );
                let result = render(&source);
                assert!(
                    matches!(result, Err(TemplateError::Render { .. })),
                    "loop {index}: {result:?}"
                );
            }
        }
        // These do not nest; iterators must not either.
        for step in ["ns.x[1:]", "ns.x | reverse", "ns.x + [1]", "(ns.x | list)"] {
            let source = format!(
                "{{% set ns = namespace(x=[1]) %}}{{% for i in range(600) %}}\
                 {{% set ns.x = {step} %}}{{% endfor %}}{{{{ ns.x | length }}}}"
            );
            assert!(render(&source).is_ok(), "{step}: {:?}", render(&source));
        }
        let straight = "{% set x = [x] %}".repeat(5000);
        assert!(matches!(
            render(&straight),
            Err(TemplateError::Render { .. })
        ));
        let brackets = format!("{}x{}", "[".repeat(24), "]".repeat(24));
        let recursive =
            format!("{{% macro m(x) %}}{{{{ m({brackets}) }}}}{{% endmacro %}}{{{{ m(1) }}}}");
        assert!(render(&recursive).is_err());
        let slices = format!("x{}", "[1:]".repeat(8));
        let recursive = format!(
            "{{% macro m(x) %}}{{{{ m({slices}) }}}}{{% endmacro %}}{{{{ m('ab' | list) }}}}"
        );
        assert!(render(&recursive).is_err());
        let doubling = "{% set ns = namespace(x=[1]) %}{% for i in range(40) %}\
                        {% set ns.x = [ns.x, ns.x] %}{% endfor %}";
        assert!(matches!(
            render(doubling),
            Err(TemplateError::OutOfFuel { .. })
        ));
    });
}

#[test]
fn output_past_the_limit_is_refused_and_long_messages_are_not() {
    let grown = render("{% for i in range(30) %}{{ 'x' * 100000 }}{% endfor %}");
    assert!(
        matches!(grown, Err(TemplateError::OutputTooLong { .. })),
        "{:?}",
        grown.map(|t| t.len())
    );
    let smollm2 = golden_template("smollm2");
    let template = ChatTemplate::new(&smollm2.source, "", "").unwrap();
    let long = "Grüße und Küsse. ".repeat(200_000);
    let prompt = template
        .render(&[message("user", &long)], &prompting())
        .expect("renders");
    assert!(prompt.contains(&long));
    let many = vec![message("user", "a"); 5000];
    assert!(template.render(&many, &prompting()).is_ok());
}

/// Seeded random numbers: SplitMix64 (Steele, Lea, Flood 2014).
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) % end as u64).expect("below a usize")
    }
}

/// Copies and drops parts of a template.
fn mutate(source: &str, random: &mut Random) -> String {
    let mut letters: Vec<char> = source.chars().collect();
    for _ in 0..1 + random.below(4) {
        let from = random.below(letters.len());
        let to = (from + 1 + random.below(40)).min(letters.len());
        let part: Vec<char> = letters[from..to].to_vec();
        if random.below(2) == 0 {
            letters.drain(from..to);
        } else {
            let at = random.below(letters.len());
            let copies = part.repeat(1 + random.below(60));
            letters.splice(at..at, copies);
        }
        if letters.is_empty() {
            break;
        }
    }
    letters.into_iter().collect()
}

#[test]
fn mutated_templates_never_panic_nor_run_long_on_a_small_stack() {
    on_a_small_stack(|| {
        let mut random = Random(2029);
        let (mut rendered, mut refused) = (0, 0);
        for template in golden().templates {
            for round in 0..60 {
                let source = mutate(&template.source, &mut random);
                let start = Stopwatch::start();
                let result = ChatTemplate::new(&source, "<s>", "</s>")
                    .and_then(|compiled| compiled.render(&[message("user", "hi")], &prompting()));
                let took = start.elapsed();
                assert!(took < Duration::from_secs(2), "{round} {source}: {took:?}");
                match result {
                    Ok(_) => rendered += 1,
                    Err(_) => refused += 1,
                }
            }
        }
        assert!(rendered > 20 && refused > 20, "{rendered} {refused}");
    });
}

#[test]
fn rejects_variables_that_nest_too_deep() {
    let nested = |levels: usize| (0..levels).fold(json!(1), |inner, _| json!({ "a": [inner] }));
    let render = |variable: Value| {
        let mut options = prompting();
        options.variables.insert("tools".to_owned(), variable);
        let template = ChatTemplate::new("{{ tools | tojson | length > 9 }}", "", "");
        template.expect("compiles").render(&[], &options)
    };
    assert_eq!(render(nested(32)).as_deref(), Ok("True"));
    let refused = TemplateError::VariableTooDeep {
        name: "tools".to_owned(),
        limit: 64,
    };
    assert_eq!(render(nested(33)), Err(refused));
}
