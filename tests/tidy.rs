//! The import rules and the habits of the source tree, read from the files themselves.

use std::fs;
use std::path::{Path, PathBuf};

/// Which modules of ours each module may use.
const MAY_USE: &[(&str, &[&str])] = &[
    ("client", &[]),
    ("gguf", &[]),
    ("measure", &["sse"]),
    ("sse", &[]),
    ("stream", &[]),
    ("openai", &["sse"]),
    ("mock", &["openai", "sse", "stream"]),
    ("tokenizer", &[]),
    ("quant", &["gguf"]),
    ("backend", &["gguf", "quant"]),
    ("model", &["backend", "gguf", "quant"]),
    ("compat", &["backend", "gguf", "model"]),
    (
        "session",
        &["backend", "gguf", "measure", "model", "tokenizer"],
    ),
];

/// Where each outside crate may appear, as path prefixes under `src`.
const CRATE_HOME: &[(&str, &[&str])] = &[
    ("candle_core", &["compat"]),
    ("candle_transformers", &["compat"]),
    ("tokenizers", &["tokenizer"]),
    ("fancy_regex", &["tokenizer"]),
    ("minijinja", &["tokenizer"]),
    ("minijinja_contrib", &["tokenizer"]),
    ("llguidance", &["session/constraint"]),
    ("toktrie", &["session/constraint"]),
    ("wgpu", &["backend/webgpu"]),
    ("wasm_bindgen", &["wasm", "backend/webgpu/web"]),
    ("js_sys", &["wasm", "backend/webgpu/web"]),
    ("serde_wasm_bindgen", &["wasm"]),
    ("console_error_panic_hook", &["wasm"]),
];

/// Longest file that needs no reason, in lines.
const MAX_LINES: usize = 650;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Every Rust file under `folder`, with its path relative to it.
fn rust_files(folder: &Path) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(current) = folders.pop() {
        for entry in fs::read_dir(&current).expect("the folder reads") {
            let path = entry.expect("the entry reads").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).expect("the file reads");
                let name = path
                    .strip_prefix(folder)
                    .expect("it lies inside")
                    .to_path_buf();
                found.push((name.to_string_lossy().replace('\\', "/"), text));
            }
        }
    }
    assert!(!found.is_empty(), "{} has Rust files", folder.display());
    found
}

/// Lines of code: neither comments nor documentation.
fn code(text: &str) -> impl Iterator<Item = &str> {
    text.lines()
        .filter(|line| !line.trim_start().starts_with("//"))
}

/// Names that `line` reaches through `crate::`.
fn crate_uses(line: &str) -> Vec<&str> {
    line.match_indices("crate::")
        .filter_map(|(at, path)| {
            let rest = &line[at + path.len()..];
            let end = rest
                .find(|c: char| !c.is_alphanumeric() && c != '_')
                .unwrap_or(rest.len());
            Some(&rest[..end]).filter(|name| !name.is_empty())
        })
        .collect()
}

/// Whether `line` names the crate itself, not a longer word that contains it.
fn names_crate(line: &str, name: &str) -> bool {
    line.match_indices(name).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':')
            && line[at + name.len()..].starts_with("::")
    })
}

#[test]
fn modules_import_only_what_they_may() {
    for (file, text) in rust_files(&root().join("src")) {
        let module = file
            .split('/')
            .next()
            .unwrap_or_default()
            .trim_end_matches(".rs");
        let Some((_, allowed)) = MAY_USE.iter().find(|(name, _)| *name == module) else {
            assert!(
                ["lib", "error", "wasm"].contains(&module),
                "{module} has no import rule"
            );
            continue;
        };
        for line in code(&text) {
            for used in crate_uses(line) {
                assert!(
                    used == module || allowed.contains(&used),
                    "src/{file}: {module} may not use {used}: {line}"
                );
            }
        }
    }
}

#[test]
fn outside_crates_stay_where_they_belong() {
    for (file, text) in rust_files(&root().join("src")) {
        for (name, homes) in CRATE_HOME {
            if homes.iter().any(|home| file.starts_with(home)) {
                continue;
            }
            let stray = code(&text).find(|line| names_crate(line, name));
            assert!(stray.is_none(), "src/{file} may not use {name}: {stray:?}");
        }
    }
}

#[test]
fn library_code_neither_prints_nor_looks_at_the_clock() {
    for (file, text) in rust_files(&root().join("src")) {
        for word in ["println!", "eprintln!", "Instant::now", "SystemTime::now"] {
            let stray = code(&text).find(|line| line.contains(word));
            assert!(stray.is_none(), "src/{file} uses {word}: {stray:?}");
        }
    }
}

/// The one module with `unsafe` code.
const UNSAFE_HOME: &str = "backend/cpu/team/crew.rs";

/// Whether `line` has code that the compiler does not check, or lets some in.
fn is_unsafe(line: &str) -> bool {
    let lets_in = line.contains("(unsafe_code") || line.trim_start().starts_with("unsafe_code");
    line.contains("unsafe ") || line.contains("unsafe{") || lets_in
}

#[test]
fn unsafe_code_appears_in_one_module_alone() {
    for (file, text) in rust_files(&root().join("src")) {
        let denies = |line: &str| line == "#![deny(unsafe_code)]";
        let stray = code(&text).find(|line| is_unsafe(line) && !denies(line));
        assert!(
            stray.is_none() || file == UNSAFE_HOME,
            "src/{file}: {stray:?}"
        );
    }
}

#[test]
fn unsafe_code_says_why_it_is_safe() {
    let text = fs::read_to_string(root().join("src").join(UNSAFE_HOME)).expect("the file reads");
    let count = code(&text).filter(|line| line.contains("unsafe ")).count();
    assert!(count > 0, "there is some");
    assert_eq!(text.matches("// SAFETY: ").count(), count);
}

#[test]
fn files_are_short_and_lines_fit() {
    for folder in ["src", "tests", "xtask/src"] {
        for (file, text) in rust_files(&root().join(folder)) {
            let lines = text.lines().count();
            assert!(lines <= MAX_LINES, "{folder}/{file} has {lines} lines");
            let long = text
                .lines()
                .find(|line| line.chars().count() > 100 && !line.contains('"'));
            assert!(
                long.is_none(),
                "{folder}/{file}: {long:?} is longer than 100 characters"
            );
        }
    }
}

#[test]
fn the_rules_themselves_catch_what_they_name() {
    assert_eq!(
        crate_uses("use crate::model::{Config}; crate::gguf::X"),
        ["model", "gguf"]
    );
    assert!(names_crate("use candle_core::quantized;", "candle_core"));
    assert!(!names_crate("use crate::tokenizers::x;", "tokenizers"));
    assert!(!names_crate("my_tokenizers::x", "tokenizers"));
}
