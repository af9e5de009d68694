//! Calls of tools: what the model is told, and answers that have to be a call.

use serde_json::{Value, json};
use tokenbrook::backend::cpu::{CpuBackend, Precision};
use tokenbrook::measure::FinishReason;
use tokenbrook::session::{GenerateOptions, Input, Session, SessionError, ToolFormat};
use tokenbrook::tokenizer::Now;

use crate::common::model::session_from_bytes;
use crate::common::tiny_llama;
use crate::{answer, ids, options, session, start, text};

const HERMES: &str = "{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}\
    <|im_start|>{{ m.role }}\n{{ m.content or '' }}{% for c in m.tool_calls or [] %}<tool_call>\
    {{ c.function | tojson }}</tool_call>{% endfor %}<|im_end|>\n{% endfor %}";
const LLAMA: &str = "<|start_header_id|>{{ tools }}";
const NAMED: &str = "[TOOL_CALLS]{{ tools }}[ARGS]";
const FUNCTION_GEMMA: &str = "{{ tools }}<start_function_call>call:";
const GEMMA_CONTROLS: &[&str] = &[
    "<start_function_call>",
    "<end_function_call>",
    "<start_function_response>",
    "<escape>",
];
const MISTRAL: &str = "[TOOL_CALLS]{{ tools }}";

fn session_with(template: &str, controls: &[&str]) -> Session<CpuBackend> {
    let backend = CpuBackend::new(Precision::Exact);
    let file = tiny_llama::file_with_template(template, controls);
    session_from_bytes(backend, &file, None).expect("the tiny model loads")
}

fn tools() -> Value {
    let place = json!({
        "type": "object", "required": ["city", "days"], "additionalProperties": false,
        "properties": { "city": { "$ref": "#/$defs/city" }, "days": { "enum": [1, 2] } },
        "$defs": { "city": { "enum": ["Zürich", "a\"b"] } },
    });
    json!([
        { "type": "function", "function": { "name": "weather", "parameters": place } },
        { "type": "function", "function": { "name": "now", "description": "The time." } },
    ])
}

fn named(name: &str) -> Value {
    json!({ "type": "function", "function": { "name": name } })
}

/// Options under which nearly everything that may come does come.
fn hot(choice: &Value, seed: u64) -> Value {
    json!({ "tools": tools(), "toolChoice": choice, "seed": seed, "maxTokens": 280,
        "temperature": 9, "topK": 0, "topP": 1 })
}

/// Name and arguments of the one call that the answer is.
fn call(session: &mut Session<CpuBackend>, choice: &Value, seed: u64) -> (String, Value) {
    let (tokens, reason) = answer(session, hot(choice, seed));
    assert_eq!(
        (text(&tokens).as_str(), reason),
        ("", FinishReason::ToolCalls)
    );
    let parts: Vec<_> = tokens.iter().flat_map(|token| &token.tool_calls).collect();
    let first = parts.first().expect("a call");
    assert!(
        parts
            .iter()
            .all(|part| (part.index, &part.id) == (0, &first.id))
    );
    assert!(
        parts[1..].iter().all(|part| part.name.is_none()),
        "{parts:?}"
    );
    assert_eq!(first.id.len(), 9);
    // One byte a token: arguments come in as many pieces as they have bytes, nearly.
    let name = first.name.clone().expect("the first part has it");
    assert!(name != "weather" || parts.len() > 15, "{parts:?}");
    let arguments: String = parts
        .iter()
        .map(|part| part.arguments_delta.as_str())
        .collect();
    (name, serde_json::from_str(&arguments).expect("JSON"))
}

#[test]
fn a_required_call_is_valid_in_every_format() {
    for (template, controls, format) in [
        (HERMES, &[][..], ToolFormat::Hermes),
        (LLAMA, &[], ToolFormat::Llama),
        (MISTRAL, &["[TOOL_CALLS]"], ToolFormat::Mistral),
        (MISTRAL, &[], ToolFormat::Mistral),
        (NAMED, &["[TOOL_CALLS]", "[ARGS]"], ToolFormat::MistralNamed),
        (NAMED, &[], ToolFormat::MistralNamed),
        ("{{ messages }}", &[], ToolFormat::Fenced),
        (FUNCTION_GEMMA, &[], ToolFormat::FunctionGemma),
        (FUNCTION_GEMMA, GEMMA_CONTROLS, ToolFormat::FunctionGemma),
    ] {
        let mut session = session_with(template, controls);
        assert_eq!(session.tool_format(), format);
        let mut names = Vec::new();
        for seed in 0..8 {
            let (name, arguments) = call(&mut session, &json!("required"), seed);
            if name == "weather" {
                assert!([json!("Zürich"), json!("a\"b")].contains(&arguments["city"]));
                assert!([json!(1), json!(2)].contains(&arguments["days"]));
                assert_eq!(arguments.as_object().map(serde_json::Map::len), Some(2));
            } else {
                assert_eq!((name.as_str(), arguments), ("now", json!({})));
            }
            names.push(name);
        }
        names.sort();
        names.dedup();
        assert_eq!(names, ["now", "weather"], "{format:?}");
        for seed in 0..3 {
            assert_eq!(call(&mut session, &named("now"), seed).0, "now");
        }
    }
}

#[test]
fn a_required_call_that_is_cut_is_text_and_no_call() {
    let mut session = session_with(HERMES, &[]);
    let mut options = hot(&json!("required"), 3);
    options["maxTokens"] = json!(20);
    let (tokens, reason) = answer(&mut session, options);
    assert_eq!(reason, FinishReason::Length);
    assert_eq!(&text(&tokens)[..20], "<tool_call>\n{\"name\":");
    assert!(tokens.iter().all(|token| token.tool_calls.is_empty()));
}

#[test]
fn a_call_that_is_cut_in_its_arguments_is_there_as_text_too() {
    let mut session = session_with(HERMES, &[]);
    let mut options = hot(&named("weather"), 3);
    options["maxTokens"] = json!(55);
    let (tokens, reason) = answer(&mut session, options);
    assert_eq!(reason, FinishReason::Length);
    let text = text(&tokens);
    let parts = tokens.iter().flat_map(|token| &token.tool_calls);
    let arguments: String = parts.map(|part| part.arguments_delta.as_str()).collect();
    let (head, tail) = text.split_at("<tool_call>\n{\"name\": \"weather\", \"arguments\": ".len());
    assert!(head.ends_with("\"arguments\": "), "{text}");
    let blank = |c: char| matches!(c, ' ' | '\n' | '\r' | '\t');
    assert!(arguments.starts_with('{') && !arguments.ends_with('}'));
    assert_eq!(tail.replace(blank, ""), arguments.replace(blank, ""));
}

#[test]
fn the_response_that_functiongemma_would_invent_ends_the_answer() {
    let mut session = session_with(FUNCTION_GEMMA, GEMMA_CONTROLS);
    let response = session
        .tokenizer()
        .encode(GEMMA_CONTROLS[2], true)
        .expect("it is known")[0];
    let mut options = json!({ "tools": tools(), "maxTokens": 5, "logitBias": {} });
    options["logitBias"][response.to_string()] = json!(100);
    assert_eq!(answer(&mut session, options.clone()).0.len(), 1);
    options["tools"] = json!([]);
    assert_eq!(answer(&mut session, options).0.len(), 5);
}

#[test]
fn a_schema_that_cannot_be_is_refused_with_its_place() {
    let session = session_with(HERMES, &[]);
    let parameters = json!({ "type": "object", "properties": { "a": { "type": "strnig" } } });
    let mut tools = tools();
    tools[1]["function"]["parameters"] = parameters;
    let options = options(json!({ "tools": tools, "toolChoice": "required" }));
    let refused = session.generation(vec![5], options.expect("the engine finds out"));
    let error = refused.expect_err("no such type");
    assert!(
        matches!(&error, SessionError::Grammar { place, .. }
            if place == "tools[1].function.parameters.properties.a"),
        "{error}"
    );
}

#[test]
fn tools_that_are_not_called_change_nothing() {
    let mut session = session();
    for seed in 0..4 {
        let free = json!({ "seed": seed, "maxTokens": 40 });
        let with = json!({ "seed": seed, "maxTokens": 40, "tools": tools() });
        let (free, reason) = answer(&mut session, free);
        let (tokens, with_reason) = answer(&mut session, with);
        assert_eq!((ids(&tokens), with_reason), (ids(&free), reason));
        assert_eq!(text(&tokens), text(&free));
    }
    // Without tools nothing is held back.
    let generation = start(&session, json!({ "toolChoice": "none", "tools": tools() }));
    assert!(!generation.is_finished());
}

/// The prompt of messages, as text.
fn prompt(session: &Session<CpuBackend>, messages: Value, options: Value) -> String {
    let input = Input::from_json(&messages).expect("messages");
    let options = GenerateOptions::from_json(options.as_object().expect("an object"));
    let options = options.expect("they are valid");
    let ids = session.prompt_ids_with(&input, &options, Now::default());
    session.tokenizer().decode(&ids.expect("it renders"))
}

#[test]
fn the_template_tells_of_tools_calls_and_results() {
    let session = session_with(HERMES, &[]);
    let call = json!({ "id": "x", "type": "function",
        "function": { "name": "now", "arguments": "{\"a\":1}" } });
    let messages = json!([
        { "role": "user", "content": "u" },
        { "role": "assistant", "content": null, "tool_calls": [call] },
        { "role": "tool", "content": "7", "tool_call_id": "x" },
    ]);
    let chat = "<|im_start|>user\nu<|im_end|>\n<|im_start|>assistant\n<tool_call>\
        {\"name\": \"now\", \"arguments\": {\"a\": 1}}</tool_call><|im_end|>\n\
        <|im_start|>tool\n7<|im_end|>\n";
    let declared = json!([named("now")]);
    let told = prompt(&session, messages.clone(), json!({ "tools": declared }));
    let tools = "[{\"type\": \"function\", \"function\": {\"name\": \"now\"}}]";
    assert_eq!(told, format!("{tools}{chat}"));
    let none = json!({ "tools": declared, "toolChoice": "none" });
    assert_eq!(prompt(&session, messages, none), chat);
}

#[test]
fn a_template_without_tools_tells_of_them_in_the_first_question() {
    let messages = json!([{ "role": "user", "content": "then what?" }]);
    let declared = json!([named("now")]);
    let told = prompt(&session(), messages, json!({ "tools": declared }));
    assert!(
        told.starts_with("<|im_start|>user\nYou have access to functions."),
        "{told}"
    );
    let end = format!("{declared}\n\nthen what?<|im_end|>\n<|im_start|>assistant\n");
    assert!(told.ends_with(&end), "{told}");
}

#[test]
fn control_tokens_in_calls_and_tools_stay_text() {
    let session = session_with(HERMES, &[]);
    let control = "<|im_end|>";
    let function = json!({ "name": "now", "arguments": { "a": control } });
    let messages = json!([
        { "role": "assistant", "tool_calls": [{ "id": control, "function": function }] },
        { "role": "tool", "content": control, "tool_call_id": control, "name": control },
    ]);
    let tool = json!({ "type": "function",
        "function": { "name": "now", "description": control } });
    let input = Input::from_json(&messages).expect("messages");
    let options = options(json!({ "tools": [tool] })).expect("they are valid");
    let ids = session.prompt_ids_with(&input, &options, Now::default());
    let ids = ids.expect("it renders");
    assert_eq!(ids.iter().filter(|id| **id == tiny_llama::EOS).count(), 2);
    assert_eq!(session.tokenizer().decode(&ids).matches(control).count(), 5);
}

#[test]
fn template_options_are_variables_of_the_template() {
    let session = session_with("{{ messages[0].content }}{{ mood }}", &[]);
    let messages = json!([{ "role": "user", "content": "u" }]);
    let options = json!({ "templateOptions": { "mood": "calm" } });
    assert_eq!(prompt(&session, messages.clone(), options), "ucalm");
    assert_eq!(prompt(&session, messages, json!({})), "u");
}
