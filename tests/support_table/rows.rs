//! The rows, each from the list that it is about.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;
use tokenbrook::backend::cpu::{CpuBackend, Precision};
use tokenbrook::gguf::GgmlType;
use tokenbrook::model::ModelError;
use tokenbrook::openai::Route;
use tokenbrook::session::{GenerateOptions, SessionError, ToolFormat};
use tokenbrook::tokenizer::SUPPORTED_PRE_TOKENIZERS;

use crate::common::gguf_builder::GgufBuilder;
use crate::common::model::session_from_bytes;
use crate::common::tiny_llama;
use crate::fixtures::{self, Fixture};
use crate::proofs::Proof;
use crate::{Entry, Row, read};

pub(crate) fn all() -> Vec<Row> {
    let fixtures = fixtures::all(fixtures::ARCHITECTURES);
    let [own, compat] = known_architectures();
    vec![
        files(),
        architectures("architectures", &own, &fixtures),
        layers(&fixtures),
        quantizations(),
        gpu(),
        architectures(
            "architectures of the compat engine",
            &compat,
            &fixtures::all(fixtures::COMPAT),
        ),
        tokenizers(),
        chat_templates(),
        options(),
        forms(),
        tool_formats(),
        embeddings(),
        routes(),
        requests(),
    ]
}

fn entry(text: impl Into<String>, file: &str, test: &str, mentions: &str) -> Entry {
    Entry {
        text: text.into(),
        proof: Proof::new(file, test, mentions),
    }
}

fn row(name: &'static str, file: &str, entries: &[(&str, &str, &str)]) -> Row {
    let entries = entries.iter();
    let entries = entries.map(|(text, test, mentions)| entry(*text, file, test, mentions));
    Row {
        name,
        entries: entries.collect(),
    }
}

/// What runs on a GPU beside the CPU: all architectures and quantizations.
fn gpu() -> Row {
    row(
        "on WebGPU",
        "tests/webgpu/architectures.rs",
        &[
            (
                "every architecture above",
                "the_software_plan_equals_transformers_whatever_the_chunks",
                "check_all",
            ),
            (
                "default limits, no subgroups, no f16",
                "the_hardware_plan_equals_transformers_on_every_kind_of_device",
                "ALL",
            ),
            (
                "KV cache in f32 or f16",
                "keys_and_values_in_f16_stay_near",
                "KvFormat::F16",
            ),
        ],
    )
}

fn files() -> Row {
    let mut row = row(
        "files",
        "tests/gguf.rs",
        &[
            (
                "GGUF 2",
                "agrees_with_candle_on_built_files_of_both_versions",
                "v2()",
            ),
            (
                "GGUF 3",
                "agrees_with_candle_on_built_files_of_both_versions",
                "v3()",
            ),
        ],
    );
    row.entries.push(entry(
        "split files",
        "tests/gguf_reader.rs",
        "reads_shards_in_order",
        "shards(",
    ));
    row
}

/// Names that the engine says it knows, and the other engine knows, from its refusal of another.
fn known_architectures() -> [Vec<String>; 2] {
    let strange = |builder: GgufBuilder| builder.str("general.architecture", "strange");
    let file = tiny_llama::with_tensors(tiny_llama::metadata_with(strange), &tiny_llama::tensors());
    let loaded = session_from_bytes(CpuBackend::new(Precision::Exact), &file.build(), None);
    match loaded.err().expect("no such architecture") {
        SessionError::Model(ModelError::UnsupportedArchitecture { supported, .. }) => {
            let (own, compat) = supported
                .split_once("; by the compat artifact: ")
                .expect("two lists");
            [own, compat].map(|names| names.split(", ").map(str::to_owned).collect())
        }
        other => panic!("{other}"),
    }
}

fn architectures(row: &'static str, known: &[String], fixtures: &[Fixture]) -> Row {
    let mut first: BTreeMap<String, Vec<&Fixture>> = BTreeMap::new();
    for fixture in fixtures {
        first.entry(fixture.kind()).or_default().push(fixture);
    }
    let known: BTreeSet<_> = known.iter().cloned().collect();
    let tested: BTreeSet<_> = first.keys().cloned().collect();
    assert_eq!(
        known, tested,
        "each architecture of the engine has a fixture"
    );
    let mut entries = Vec::new();
    for (name, of_name) in first {
        let names: Vec<_> = of_name
            .iter()
            .map(|fixture| fixture.name.as_str())
            .collect();
        let text = match names.as_slice() {
            [only] if *only == name => format!("`{name}`"),
            names => match name.split_once(' ') {
                Some((name, with)) => format!("`{name}` {with} ({})", names.join(", ")),
                None => format!("`{name}` ({})", names.join(", ")),
            },
        };
        for (index, fixture) in of_name.iter().enumerate() {
            // Further fixtures are further tests of the same.
            let text = if index == 0 { text.as_str() } else { "" };
            entries.push(entry(text, fixture.tests, &fixture.test(), &fixture.name));
        }
    }
    Row { name: row, entries }
}

/// What layers may have beside the plain Llama's, as far as a fixture has it.
fn layers(fixtures: &[Fixture]) -> Row {
    let key = |name: &'static str| {
        move |fixture: &Fixture| {
            let key = format!("{}.{name}", fixture.architecture());
            fixture.header.metadata.get(&key).is_some()
        }
    };
    let scaling = |kind: &'static str| {
        move |fixture: &Fixture| {
            let key = format!("{}.rope.scaling.type", fixture.architecture());
            matches!(fixture.header.metadata.str(&key), Ok(Some(found)) if found == kind)
        }
    };
    let tensor = |name: &'static str| move |fixture: &Fixture| fixture.has_tensor(name);
    type Has = Box<dyn Fn(&Fixture) -> bool>;
    let features: [(&str, Has); 9] = [
        ("linear RoPE scaling", Box::new(scaling("linear"))),
        ("YaRN", Box::new(scaling("yarn"))),
        (
            "RoPE frequency factors",
            Box::new(tensor("rope_freqs.weight")),
        ),
        (
            "long and short RoPE factors",
            Box::new(tensor("rope_factors_long.weight")),
        ),
        ("sliding windows", Box::new(key("attention.sliding_window"))),
        ("soft caps", Box::new(key("attn_logit_softcapping"))),
        ("QKV biases", Box::new(tensor("blk.0.attn_q.bias"))),
        (
            "norms of queries and keys",
            Box::new(tensor("blk.0.attn_q_norm.weight")),
        ),
        (
            "stacked QKV tensors",
            Box::new(tensor("blk.0.attn_qkv.weight")),
        ),
    ];
    let entries = features.iter().map(|(text, has)| {
        let fixture = fixtures.iter().find(|fixture| has(fixture));
        let fixture = fixture.unwrap_or_else(|| panic!("no fixture has {text}"));
        entry(*text, fixture.tests, &fixture.test(), &fixture.name)
    });
    Row {
        name: "layers",
        entries: entries.collect(),
    }
}

fn quantizations() -> Row {
    let test = "a_file_of_every_type_has_the_logits_of_the_reference";
    let entries = GgmlType::ALL
        .into_iter()
        .map(|ty| entry(ty.name(), "tests/quantizations.rs", test, "GgmlType::ALL"));
    Row {
        name: "quantizations",
        entries: entries.collect(),
    }
}

fn tokenizers() -> Row {
    const SENTENCE_PIECE: &str = "tests/tokenizer_sentence_piece.rs";
    const BYTE_LEVEL: &str = "tests/tokenizer/hugging_face.rs";
    let mut entries = vec![
        entry(
            "SentencePiece's with scores and byte fallback (Gemma 3",
            SENTENCE_PIECE,
            "gemma3_ids_equal_hugging_face",
            "gemma3()",
        ),
        entry(
            "Llama 2)",
            SENTENCE_PIECE,
            "llama2_ids_equal_hugging_face",
            "llama2()",
        ),
    ];
    let (rules, aliases) = (fixtures::rules(), fixtures::aliases());
    let prefix = |index: usize| {
        if index == 0 {
            "byte-level BPE with the rules "
        } else {
            ""
        }
    };
    for (index, pre) in SUPPORTED_PRE_TOKENIZERS.into_iter().enumerate() {
        let text = format!("{}`{pre}`", prefix(index));
        let like = aliases.get(pre).map_or(pre, String::as_str);
        let test = rules[like];
        // These run over data that holds the rule's name.
        let mentions = if test.starts_with("smollm2") {
            "smollm2()"
        } else {
            "rule"
        };
        entries.push(entry(text, BYTE_LEVEL, test, mentions));
    }
    Row {
        name: "tokenizers",
        entries,
    }
}

/// Features by the words that use them, as far as a template with a golden text has them.
fn chat_templates() -> Row {
    let data: serde_json::Value =
        serde_json::from_str(&read("tests/data/tokenizer/templates.json")).expect("valid data");
    let templates = data["templates"].as_array().expect("a list");
    let sources = || {
        templates
            .iter()
            .filter_map(|template| template["source"].as_str())
    };
    let features = [
        ("tools", "tools"),
        ("`enable_thinking`", "enable_thinking"),
        ("`namespace`", "namespace("),
        ("macros", "macro "),
        ("`break` and `continue`", "break"),
        ("recursive loops", "recursive"),
        ("slices", "[::-1]"),
        ("tests", " is defined"),
        ("string methods", ".split("),
        ("`tojson`", "tojson"),
        ("`selectattr`", "selectattr"),
        ("`map`", "map("),
        ("`join`", "join("),
        ("`strftime_now`", "strftime_now("),
        ("`raise_exception`", "raise_exception("),
    ];
    let file = "tests/chat_template/rendering.rs";
    let test = "renders_what_jinja2_renders_for_every_family";
    let entries = features.map(|(text, word)| {
        assert!(
            sources().any(|source| source.contains(word)),
            "no golden template has {word}"
        );
        entry(text, file, test, "golden()")
    });
    Row {
        name: "chat templates",
        entries: entries.into(),
    }
}

/// Every option of a generation: the engine's own list, and a test of each.
fn options() -> Row {
    const CUTS: &str = "tests/sampling/cuts.rs";
    const ANSWERS: &str = "tests/answers/sampling.rs";
    const SESSION: &str = "tests/session.rs";
    const TOOLS: &str = "tests/answers/tools.rs";
    let tests = [
        (
            "maxTokens",
            "tests/answers/structured.rs",
            "end_tokens_come_only_where_the_form_is_complete",
            "maxTokens",
        ),
        (
            "temperature",
            CUTS,
            "draws_in_proportion_to_the_probabilities",
            "temperature",
        ),
        ("topK", CUTS, "top_k_keeps_the_best_k", "top_k"),
        (
            "topP",
            CUTS,
            "top_p_keeps_the_smallest_set_that_reaches_it",
            "top_p",
        ),
        (
            "minP",
            CUTS,
            "min_p_drops_what_is_small_beside_the_largest",
            "min_p",
        ),
        (
            "repetitionPenalty",
            ANSWERS,
            "the_repetition_penalty_also_sees_the_prompt",
            "repetitionPenalty",
        ),
        (
            "frequencyPenalty",
            ANSWERS,
            "frequency_and_presence_penalties_count_the_answer",
            "frequencyPenalty",
        ),
        (
            "presencePenalty",
            ANSWERS,
            "frequency_and_presence_penalties_count_the_answer",
            "presencePenalty",
        ),
        (
            "logitBias",
            ANSWERS,
            "a_bias_forces_or_bans_a_token",
            "logitBias",
        ),
        (
            "logprobs",
            ANSWERS,
            "logprobs_are_those_that_scoring_finds",
            "logprobs",
        ),
        (
            "responseFormat",
            "tests/answers/structured.rs",
            "forms_that_cannot_be_are_refused_with_their_place",
            "responseFormat",
        ),
        (
            "tools",
            TOOLS,
            "tools_that_are_not_called_change_nothing",
            "tools",
        ),
        (
            "toolChoice",
            TOOLS,
            "tools_that_are_not_called_change_nothing",
            "toolChoice",
        ),
        (
            "seed",
            SESSION,
            "same_seed_same_tokens_other_seed_others",
            "seed",
        ),
        (
            "stop",
            SESSION,
            "a_stop_string_across_tokens_ends_the_answer_before_it",
            "stop",
        ),
        (
            "ignoreEos",
            SESSION,
            "an_end_token_ends_the_answer_unless_it_is_ignored",
            "ignore_eos",
        ),
        (
            "templateOptions",
            TOOLS,
            "template_options_are_variables_of_the_template",
            "templateOptions",
        ),
    ];
    let strange = json!({ "strange": 1 });
    let refused = GenerateOptions::from_json(strange.as_object().expect("it is one"));
    let Err(SessionError::UnknownOption { known, .. }) = refused else {
        panic!("no such option");
    };
    let entries = known.split(", ").map(|name| {
        let found = tests.iter().find(|(tested, ..)| *tested == name);
        let (_, file, test, mentions) = found.unwrap_or_else(|| panic!("no test of {name}"));
        entry(format!("`{name}`"), file, test, mentions)
    });
    Row {
        name: "options of `generate()`",
        entries: entries.collect(),
    }
}

fn forms() -> Row {
    row(
        "structured output",
        "tests/answers/structured.rs",
        &[
            (
                "`json_schema`",
                "arrays_unions_and_references_hold_too",
                "parsed(",
            ),
            (
                "`json_object`",
                "arrays_unions_and_references_hold_too",
                "json_object",
            ),
            (
                "`regex`",
                "a_regular_expression_matches_the_whole_answer",
                "regex",
            ),
            ("`lark`", "a_grammar_derives_the_answer", "lark"),
        ],
    )
}

fn tool_formats() -> Row {
    let entries = ToolFormat::ALL.into_iter().map(|format| {
        let (text, test) = match format {
            ToolFormat::Hermes => (
                "Hermes and Qwen `<tool_call>{…}`",
                "hermes_calls_come_out_of_their_tags_however_the_text_is_cut",
            ),
            ToolFormat::Llama => (
                "Llama 3 `{…}`, `<|python_tag|>`",
                "llama_calls_are_the_answer_itself_or_follow_the_tag",
            ),
            ToolFormat::Mistral => (
                "Mistral `[TOOL_CALLS] [{…}]`",
                "mistral_calls_come_as_a_list",
            ),
            ToolFormat::MistralNamed => (
                "newer Mistral `[TOOL_CALLS]name[ARGS]{…}`",
                "mistrals_newer_calls_are_names_with_arguments",
            ),
            ToolFormat::Fenced => (
                "Gemma `[name(key=value)]`, `tool_code` and JSON",
                "python_calls_have_keywords_in_a_list_or_a_block",
            ),
            ToolFormat::FunctionGemma => (
                "FunctionGemma `call:name{…}`",
                "functiongemmas_calls_have_strings_between_delimiters",
            ),
        };
        let mentions = format!("ToolFormat::{format:?}");
        entry(
            text.replace('|', "\\|"),
            "src/session/tool_calls/tests.rs",
            test,
            &mentions,
        )
    });
    Row {
        name: "tool calls",
        entries: entries.collect(),
    }
}

fn embeddings() -> Row {
    let test = "vectors_are_the_pooled_states_on_both_backends_in_large_and_odd_chunks";
    row(
        "embeddings",
        "tests/embed.rs",
        &[
            ("mean pooling", test, "assert_right"),
            ("last pooling", test, "assert_right"),
        ],
    )
}

/// Routes of `model.fetch`, each known to the router.
fn routes() -> Row {
    const FETCH: &str = "tests/browser/specs/fetch.spec.ts";
    const EMBED: &str = "tests/browser/specs/embed.spec.ts";
    let routes = [
        (
            "POST",
            "/v1/chat/completions",
            FETCH,
            "streams a chat: role, text, reason, usage",
            "openai.chat.completions",
        ),
        (
            "POST",
            "/v1/completions",
            FETCH,
            "completes text, streamed and whole",
            "openai.completions",
        ),
        (
            "POST",
            "/v1/embeddings",
            EMBED,
            "npm openai gets the same vectors, as base64 and as numbers",
            "embeddings.create",
        ),
        (
            "GET",
            "/v1/models",
            FETCH,
            "lists and finds the model",
            "models.list",
        ),
        (
            "GET",
            "/v1/models/NAME",
            FETCH,
            "lists and finds the model",
            "models.retrieve",
        ),
    ];
    let entries = routes.map(|(method, path, file, test, mentions)| {
        assert!(Route::read(method, path).is_ok(), "{path}");
        entry(format!("`{method} {path}`"), file, test, mentions)
    });
    Row {
        name: "routes of `model.fetch`",
        entries: entries.into(),
    }
}

fn requests() -> Row {
    const FETCH: &str = "tests/browser/specs/fetch.spec.ts";
    const OBJECTS: &str = "tests/browser/specs/fetch-objects.spec.ts";
    const TOOLS: &str = "tests/browser/specs/tools.spec.ts";
    let entries = [
        (
            "streams",
            FETCH,
            "streams a chat: role, text, reason, usage",
            "stream: true",
        ),
        (
            "`include_usage`",
            FETCH,
            "streams a chat: role, text, reason, usage",
            "include_usage",
        ),
        (
            "`n`",
            FETCH,
            "answers a chat whole, with several choices",
            "n: 3",
        ),
        (
            "`stop`",
            FETCH,
            "a stop string ends the text before it",
            "stop",
        ),
        (
            "`logprobs` with bytes",
            FETCH,
            "log-probabilities have the bytes of their tokens",
            "logprobs",
        ),
        (
            "`response_format`",
            OBJECTS,
            "npm openai parses an object of a schema",
            "response_format",
        ),
        (
            "objects of npm `ai`",
            OBJECTS,
            "Vercel's ai generates and streams an object of a schema",
            "generateObject",
        ),
        (
            "`tools` with streamed arguments",
            TOOLS,
            "npm openai gets the arguments in pieces, and the text of a call that is cut",
            "tools",
        ),
        (
            "cancellation",
            FETCH,
            "an abort of the stream stops the engine",
            "abort",
        ),
        (
            "typed errors",
            FETCH,
            "refusals are typed errors with parameter and code",
            "APIError",
        ),
    ];
    let entries = entries.map(|(text, file, test, mentions)| entry(text, file, test, mentions));
    Row {
        name: "requests of npm `openai` and `ai`",
        entries: entries.into(),
    }
}
