//! Answers in every format, in pieces of every kind.

use serde_json::Value;

use super::*;

/// Text and calls of an answer that comes in `pieces`; calls that stay incomplete are marked.
fn parse(format: ToolFormat, pieces: &[&str]) -> (String, Vec<(String, String)>) {
    let names = ["weather", "now"].map(str::to_owned).to_vec();
    let mut parser = ToolParser::new(format, names, 7);
    let mut parts: Vec<_> = pieces.iter().map(|piece| parser.push(piece)).collect();
    parts.push(parser.finish());
    let text = parts.iter().map(|part| part.text.as_str()).collect();
    let mut calls: Vec<(String, String)> = Vec::new();
    for delta in parts.into_iter().flat_map(|part| part.calls) {
        assert_eq!(delta.id, parser.id(delta.index));
        match delta.name {
            Some(name) => {
                assert_eq!(delta.index, calls.len(), "calls begin in order");
                calls.push((name, delta.arguments_delta));
            }
            None => {
                assert_eq!(delta.index + 1, calls.len(), "parts are of the last call");
                assert!(!delta.arguments_delta.is_empty());
                calls[delta.index].1.push_str(&delta.arguments_delta);
            }
        }
    }
    let is_object =
        |text: &str| serde_json::from_str::<serde_json::Map<String, Value>>(text).is_ok();
    let complete = calls
        .iter()
        .filter(|(_, arguments)| is_object(arguments))
        .count();
    assert_eq!(complete, parser.complete(), "{calls:?}");
    (text, calls)
}

/// Checks an answer in one piece, in single characters and cut at every two places.
fn assert_parses(format: ToolFormat, answer: &str, text: &str, calls: &[(&str, &str)]) {
    let calls: Vec<_> = calls
        .iter()
        .map(|(name, arguments)| ((*name).to_owned(), (*arguments).to_owned()))
        .collect();
    let want = (text.to_owned(), calls);
    assert_eq!(parse(format, &[answer]), want, "{answer:?}");
    let characters: Vec<_> = answer.split("").collect();
    assert_eq!(parse(format, &characters), want, "{answer:?} by characters");
    let cuts = || (0..=answer.len()).filter(|&at| answer.is_char_boundary(at));
    for first in cuts() {
        for second in cuts().filter(|&second| second >= first) {
            let pieces = [&answer[..first], &answer[first..second], &answer[second..]];
            assert_eq!(parse(format, &pieces), want, "{pieces:?}");
        }
    }
}

const CITY: (&str, &str) = ("weather", "{\"city\":\"Zürich }\\\" {\",\"n\":[1.0,{}]}");
const NOW: (&str, &str) = ("now", "{}");
const CITY_JSON: &str = r#"{"city": "Zürich }\" {", "n": [1.0, {}]}"#;

#[test]
fn hermes_calls_come_out_of_their_tags_however_the_text_is_cut() {
    let call = format!(
        "Let me see.\n<tool_call>\n{{\"name\": \"weather\", \"arguments\": {CITY_JSON}}}\n\
         </tool_call>\n<tool_call>{{\"name\":\"now\"}}</tool_call>\n"
    );
    assert_parses(ToolFormat::Hermes, &call, "Let me see.\n", &[CITY, NOW]);
    let open = "<tool_call>{\"name\": \"now\", \"arguments\": {}}</tool";
    assert_parses(ToolFormat::Hermes, open, "", &[NOW]);
    let open = "<tool_call>{\"name\":\"now\"} or so";
    assert_parses(ToolFormat::Hermes, open, " or so", &[NOW]);
    let behind = "<tool_call>{\"name\":\"now\"}</tool_call>\n done";
    assert_parses(ToolFormat::Hermes, behind, "\n done", &[NOW]);
    let quoted = r#"<tool_call>{"name":"now","arguments":"{ }"}</tool_call>"#;
    assert_parses(ToolFormat::Hermes, quoted, "", &[NOW]);
}

#[test]
fn llama_calls_are_the_answer_itself_or_follow_the_tag() {
    let call = format!("\n{{\"name\": \"weather\", \"parameters\": {CITY_JSON}}}");
    assert_parses(ToolFormat::Llama, &call, "", &[CITY]);
    let tagged = format!("Well: <|python_tag|>{call};{{\"name\":\"now\"}}");
    assert_parses(ToolFormat::Llama, &tagged, "Well: ", &[CITY, NOW]);
    let wrapped = r#"{"type": "function", "function": {"name": "now"}}"#;
    assert_parses(ToolFormat::Llama, wrapped, "", &[NOW]);
    // In the middle of a text it is an example.
    let example = r#"Such as {"name":"now"}"#;
    assert_parses(ToolFormat::Llama, example, example, &[]);
}

#[test]
fn mistral_calls_come_as_a_list() {
    let call = format!(
        "Yes[TOOL_CALLS] [{{\"name\": \"weather\", \"arguments\": {CITY_JSON}}}, \
         {{\"name\": \"now\", \"arguments\": {{}}}}]"
    );
    assert_parses(ToolFormat::Mistral, &call, "Yes", &[CITY, NOW]);
    let open = r#"[TOOL_CALLS] [{"name":"now"}"#;
    assert_parses(ToolFormat::Mistral, open, "", &[NOW]);
    let bare = r#"[TOOL_CALLS]{"name":"now"}"#;
    assert_parses(ToolFormat::Mistral, bare, "", &[NOW]);
}

#[test]
fn gemma_calls_are_the_answer_itself_or_in_a_fenced_block() {
    let fenced =
        format!("Ok.\n```tool_code\n{{\"name\": \"weather\", \"parameters\": {CITY_JSON}}}\n```");
    assert_parses(ToolFormat::Fenced, &fenced, "Ok.\n", &[CITY]);
    let json = "```json\n[{\"name\":\"now\"},{\"name\":\"now\"}]\n```\n";
    assert_parses(ToolFormat::Fenced, json, "", &[NOW, NOW]);
    assert_parses(ToolFormat::Fenced, r#" {"name":"now"}"#, "", &[NOW]);
}

#[test]
fn what_is_no_call_stays_text_to_the_last_byte() {
    for (format, answers) in [
        (
            ToolFormat::Hermes,
            &[
                "",
                " \n",
                "\n<tool",
                "<tool_call>",
                "<tool_call>now()</tool_call>",
                "<tool_call>{\"name\":\"unknown\"}</tool_call>",
                "<tool_call>{\"name\":\"now\"",
                "<tool_call>{\"name\":\"now\",\"arguments\":[1]}</tool_call>",
                "<tool_call>{\"name\":\"now\"]</tool_call>ü",
                "<tool_call><tool_call><<tool_call>{",
            ][..],
        ),
        (
            ToolFormat::Llama,
            &[
                "{}",
                " {\"a\": 1}; {",
                "<|python_tag|>print(1)",
                "{{\"name\":\"now\"}",
            ][..],
        ),
        (
            ToolFormat::Mistral,
            &[
                "[TOOL_CALLS]",
                "[TOOL_CALLS][]",
                "[TOOL_CALLS] [{\"name\":\"now\"",
            ][..],
        ),
        (
            ToolFormat::Fenced,
            &[
                "```json\n{\"a\": 1}\n```",
                "```tool_code\nnow(1)\n```",
                "[now(1)]",
                "[now",
                "now()",
                "[ nowhere()]",
                "[1]",
            ][..],
        ),
    ] {
        for answer in answers {
            assert_parses(format, answer, answer, &[]);
        }
    }
}

#[test]
fn a_call_behind_a_false_opening_is_found() {
    let answer = "<tool_call>oh<tool_call>{\"name\":\"now\"}</tool_call>";
    assert_parses(ToolFormat::Hermes, answer, "<tool_call>oh", &[NOW]);
}

#[test]
fn false_openings_without_end_cost_a_bounded_time() {
    let answer = "<tool_call>{".repeat(100_000);
    let (text, calls) = parse(ToolFormat::Hermes, &[&answer]);
    assert!(text == answer && calls.is_empty());
}

#[test]
fn text_passes_as_soon_as_it_cannot_begin_a_call() {
    let mut parser = ToolParser::new(ToolFormat::Hermes, vec!["now".to_owned()], 0);
    let mut shown = |piece: &str| parser.push(piece).text;
    assert_eq!(shown("a <tool"), "a ");
    assert_eq!(shown("box"), "<toolbox");
    assert_eq!(shown("<tool_call>{\"name\""), "");
    assert_eq!(shown(" "), "");
    assert_eq!(shown("7"), "<tool_call>{\"name\" 7");
    assert_eq!(shown("}"), "}");
}

#[test]
fn ids_are_nine_letters_and_digits_that_differ() {
    let parser = |seed| ToolParser::new(ToolFormat::Hermes, Vec::new(), seed);
    let ids = [parser(1).id(0), parser(1).id(1), parser(2).id(0)];
    assert!(ids[0] != ids[1] && ids[0] != ids[2] && ids[1] != ids[2]);
    for id in ids {
        assert!(id.len() == 9 && id.bytes().all(|b| b.is_ascii_alphanumeric()));
    }
}

#[test]
fn formats_are_told_by_the_template() {
    for (source, format) in [
        ("... <tool_call>\n ...", ToolFormat::Hermes),
        ("{{ '[TOOL_CALLS] [' }}", ToolFormat::Mistral),
        ("[TOOL_CALLS]{{ name }}[ARGS]", ToolFormat::MistralNamed),
        ("<start_function_call>call:", ToolFormat::FunctionGemma),
        ("<|start_header_id|>", ToolFormat::Llama),
        ("<start_of_turn>", ToolFormat::Fenced),
    ] {
        assert_eq!(ToolFormat::of_template(source), format);
    }
}

#[test]
fn mistrals_newer_calls_are_names_with_arguments() {
    let call = format!(
        "Yes[TOOL_CALLS]weather[ARGS]{CITY_JSON}[TOOL_CALLS]now[CALL_ID]aB3dE6gH9[ARGS]{{}} ok"
    );
    for format in [ToolFormat::Mistral, ToolFormat::MistralNamed] {
        assert_parses(format, &call, "Yes ok", &[CITY, NOW]);
        assert_parses(format, "[TOOL_CALLS]now{ }", "", &[NOW]);
    }
    for answer in [
        "[TOOL_CALLS]nowhere[ARGS]{}",
        "[TOOL_CALLS]now[ARGS]",
        "[TOOL_CALLS]now[ARGS][ARGS]{}",
        "[TOOL_CALLS]no[ARGS]{}",
        "[TOOL_CALLS]now and then",
    ] {
        assert_parses(ToolFormat::MistralNamed, answer, answer, &[]);
    }
}

#[test]
fn python_calls_have_keywords_in_a_list_or_a_block() {
    let arguments = r#"{"city":"Zürich, (1)","n":[1,{"a":null}],"x":true}"#;
    let call = "weather(city='Zürich, (1)', n=[1, {\"a\": None}], x = True)";
    for format in [ToolFormat::Fenced, ToolFormat::Llama] {
        let list = format!("[{call},\n now()]");
        assert_parses(format, &list, "", &[("weather", arguments), NOW]);
    }
    let block = format!("Ok.\n```tool_code\n{call}\nnow( )\n```\nDone");
    let want = &[("weather", arguments), NOW];
    assert_parses(ToolFormat::Fenced, &block, "Ok.\n\nDone", want);
    assert_parses(ToolFormat::Fenced, "```tool_code\nnow()", "", &[NOW]);
    assert_parses(ToolFormat::Llama, "<|python_tag|>now()", "", &[NOW]);
}

#[test]
fn functiongemmas_calls_have_strings_between_delimiters() {
    let call = "<start_function_call>call:weather{city:<escape>Oslo, {}\"<escape>,days:3,\
        at:{a:<escape><escape>,b:[true]}}<end_function_call>";
    let arguments = r#"{"city":"Oslo, {}\"","days":3,"at":{"a":"","b":[true]}}"#;
    assert_parses(
        ToolFormat::FunctionGemma,
        call,
        "",
        &[("weather", arguments)],
    );
    let two = "<start_function_call>call:now{}<end_function_call>".repeat(2);
    assert_parses(ToolFormat::FunctionGemma, &two, "", &[NOW, NOW]);
    let json = "<start_function_call>{\"name\": \"now\"}<end_function_call>";
    assert_parses(ToolFormat::FunctionGemma, json, "", &[NOW]);
    let other = "<start_function_call>call:then{}<end_function_call>";
    assert_parses(ToolFormat::FunctionGemma, other, other, &[]);
}

#[test]
fn arguments_pass_as_they_come() {
    let mut parser = ToolParser::new(ToolFormat::Hermes, vec!["now".to_owned()], 0);
    let mut part = |piece: &str| {
        let parsed = parser.push(piece);
        assert_eq!(parsed.text, "");
        let part = |call: ToolCallDelta| (call.index, call.name, call.arguments_delta);
        parsed.calls.into_iter().map(part).collect::<Vec<_>>()
    };
    let some = |text: &str| vec![(0, None, text.to_owned())];
    assert_eq!(part("<tool_call>{\"name\": \"now\", \"arg"), []);
    let name = Some("now".to_owned());
    assert_eq!(part("uments\": { "), [(0, name.clone(), "{".to_owned())]);
    assert_eq!(part("\"a\" : \"b "), some("\"a\":\"b "));
    assert_eq!(part(" é"), some(" é"));
    assert_eq!(part("\" }"), some("\"}"));
    assert_eq!(part("}</tool_"), []);
    assert_eq!(
        part("call>\n<tool_call>{\"name\":\"now\"}"),
        [(1, name, "{}".to_owned())]
    );
    assert_eq!(parser.complete(), 2);
}

#[test]
fn a_call_that_is_cut_or_breaks_is_text_again() {
    for (format, answer) in [
        (
            ToolFormat::Hermes,
            "<tool_call>{\"name\": \"now\", \"arguments\": {\"a\": [1, ",
        ),
        (
            ToolFormat::Hermes,
            "<tool_call>{\"name\": \"now\", \"arguments\": {\"a\" 1}}",
        ),
        (
            ToolFormat::Llama,
            "{\"name\": \"now\", \"parameters\": {\"a\": \"b",
        ),
        (
            ToolFormat::Mistral,
            "[TOOL_CALLS] [{\"name\": \"now\", \"arguments\": {\"a\":",
        ),
        (ToolFormat::MistralNamed, "[TOOL_CALLS]now[ARGS]{\"a\": tru"),
        (ToolFormat::Fenced, "```tool_code\nnow(a='b"),
        (ToolFormat::Fenced, "[now(a=1), now(b=]"),
        (
            ToolFormat::FunctionGemma,
            "<start_function_call>call:now{a:<escape>b",
        ),
    ] {
        let (text, calls) = parse(format, &[answer]);
        let whole = calls.iter().take_while(|(_, a)| a.ends_with('}')).count();
        // What was complete before is a call; all behind it is there.
        let want = if whole == 0 { answer } else { ", now(b=]" };
        assert_eq!(text, want);
        assert_eq!(calls.len(), whole + 1, "{calls:?}");
        let characters: Vec<_> = answer.split("").collect();
        assert_eq!(parse(format, &characters), (text, calls));
    }
}

/// Numbers below an end: SplitMix64.
fn random(state: &mut u64, end: usize) -> usize {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    usize::try_from((z ^ (z >> 31)) % end as u64).expect("below a usize")
}

/// An answer with calls.
fn example(format: ToolFormat, which: usize) -> &'static str {
    let [first, second] = match format {
        ToolFormat::Hermes => [
            "a <tool_call>\n{\"name\": \"now\", \"arguments\": {\"a\": \"é\"}}\n</tool_call>",
            "<tool_call>{\"arguments\": {\"a\": []}, \"name\": \"now\"}</tool_call> b",
        ],
        ToolFormat::Llama => [
            "{\"name\": \"weather\", \"parameters\": {\"a\": [1.5, null]}}",
            "<|python_tag|>{\"name\": \"now\", \"parameters\": {}}; [now(a='b')]",
        ],
        ToolFormat::Mistral | ToolFormat::MistralNamed => [
            "[TOOL_CALLS] [{\"name\": \"now\", \"arguments\": {\"a\": 1}}, {\"name\": \"now\"}]",
            "é[TOOL_CALLS]now[ARGS]{\"a\": {}}[TOOL_CALLS]weather[CALL_ID]x[ARGS]{\"b\":\"é\"}",
        ],
        ToolFormat::Fenced => [
            "Ok\n```tool_code\nnow(a=1, b='é', c=[2])\nweather(a=None)\n```\n",
            "[now(a={'b': 1}), weather()]",
        ],
        ToolFormat::FunctionGemma => [
            "<start_function_call>call:now{a:<escape>é}<escape>,b:1}<end_function_call>",
            "x<start_function_call>call:now{}<end_function_call>",
        ],
    };
    if which == 0 { first } else { second }
}

#[test]
fn any_split_of_any_answer_gives_the_same_text_and_calls() {
    let parts = [
        "<tool_call>",
        "</tool_call>",
        "<|python_tag|>",
        "[TOOL_CALLS]",
        "[ARGS]",
        "[CALL_ID]x",
        "```tool_code\n",
        "```",
        "```json",
        "<start_function_call>",
        "<end_function_call>",
        "call:now{",
        "<escape>",
        "{\"name\": \"now\"",
        ", \"arguments\": {",
        "\"parameters\": ",
        "\"function\": {",
        "\"a\": 1",
        "\"é\\\"\"",
        "}",
        "}}",
        "]",
        "[",
        "{",
        "now(",
        "now",
        ")",
        "a=",
        "'b'",
        ",",
        ":",
        ";",
        " ",
        "\n",
        "weather",
        "\"arguments\": \"{}\"",
        "text",
        "ü",
        "{\"name\":\"weather\",\"arguments\":{\"a\":[]}}",
        "now(a=1, b=[2])",
        "call:now{a:1}",
    ];
    let mut state = 11;
    let (mut with_calls, mut with_text, mut cut) = (0, 0, 0);
    for round in 0..6000 {
        let format = ToolFormat::ALL[round % ToolFormat::ALL.len()];
        let mut answer = String::new();
        if round % 2 > 0 {
            // A call with some damage: in two of three cases, a cut.
            answer.push_str(example(format, random(&mut state, 2)));
            let at = random(&mut state, answer.chars().count());
            let at = answer.char_indices().nth(at).map_or(0, |(at, _)| at);
            match round % 3 {
                0 => answer.insert_str(at, parts[random(&mut state, parts.len())]),
                _ => answer.truncate(at),
            }
        } else if round % 4 > 0 {
            let markers = format.markers();
            answer.push_str(markers[random(&mut state, markers.len())].0);
        }
        let more = random(&mut state, 12);
        for _ in 0..if round % 2 > 0 { more % 2 } else { 1 + more } {
            answer.push_str(parts[random(&mut state, parts.len())]);
        }
        let want = parse(format, &[&answer]);
        with_calls += usize::from(want.1.iter().any(|(_, a)| a.ends_with('}')));
        cut += usize::from(want.1.iter().any(|(_, a)| !a.ends_with('}')));
        with_text += usize::from(!want.0.is_empty());
        for _ in 0..4 {
            let mut pieces = Vec::new();
            let mut rest = answer.as_str();
            while !rest.is_empty() {
                let most = rest.chars().count();
                let count = 1 + random(&mut state, most.min(9));
                let end = rest
                    .char_indices()
                    .nth(count)
                    .map_or(rest.len(), |(at, _)| at);
                pieces.push(&rest[..end]);
                rest = &rest[end..];
            }
            assert_eq!(parse(format, &pieces), want, "{format:?} {pieces:?}");
        }
    }
    assert!(
        with_calls > 200 && with_text > 3000 && cut > 100,
        "{with_calls} {with_text} {cut}"
    );
}
