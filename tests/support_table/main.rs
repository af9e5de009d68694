//! The README's table of what is supported, made of what tests prove.
//!
//! Rows come from the lists that the engine itself goes by and from the fixtures on which it is
//! measured; each entry names a test whose text mentions it, or runs over the list that it is
//! of. An entry without such a test fails here, and so does a README that says anything else.
//! `TOKENBROOK_REWRITE_README=1 cargo test --test support_table` writes the table.

#[path = "../common/mod.rs"]
mod common;
mod fixtures;
mod proofs;
mod rows;

use std::path::PathBuf;

use proofs::Proof;

const BEGIN: &str = "<!-- supported: written by tests/support_table -->\n";
const END: &str = "<!-- supported: end -->\n";

/// Tests of a row that are named; more are counted.
const NAMED_TESTS: usize = 3;

/// Something that works, with the test that shows it.
struct Entry {
    /// Empty for one more test of the entry before.
    text: String,
    proof: Proof,
}

/// A line of the table.
struct Row {
    name: &'static str,
    entries: Vec<Entry>,
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &str) -> String {
    let read = std::fs::read_to_string(root().join(path));
    read.unwrap_or_else(|why| panic!("{path}: {why}"))
}

/// The files of a row's tests, each with the tests' names, or how many there are.
fn shown_by(entries: &[Entry]) -> String {
    let mut files: Vec<(&str, Vec<&str>)> = Vec::new();
    for Entry { proof, .. } in entries {
        let at = files.iter().position(|(file, _)| *file == proof.file);
        let at = at.unwrap_or_else(|| {
            files.push((&proof.file, Vec::new()));
            files.len() - 1
        });
        if !files[at].1.contains(&proof.test.as_str()) {
            files[at].1.push(&proof.test);
        }
    }
    let file = |(file, tests): &(&str, Vec<&str>)| {
        let tests = if tests.len() > NAMED_TESTS {
            format!("{} tests", tests.len())
        } else {
            tests
                .iter()
                .map(|test| format!("_{}_", test.replace('_', " ")))
                .collect::<Vec<_>>()
                .join(", ")
        };
        format!("`{file}`: {tests}")
    };
    files.iter().map(file).collect::<Vec<_>>().join("; ")
}

fn table(rows: &[Row]) -> String {
    let mut table = "| | works | shown by |\n|---|---|---|\n".to_owned();
    for Row { name, entries } in rows {
        let texts = entries.iter().map(|entry| entry.text.as_str());
        let texts: Vec<_> = texts.filter(|text| !text.is_empty()).collect();
        table += &format!(
            "| {name} | {} | {} |\n",
            texts.join(", "),
            shown_by(entries)
        );
    }
    table
}

#[test]
fn the_readme_says_what_tests_prove() {
    let rows = rows::all();
    let readme = read("README.md");
    let (before, rest) = readme
        .split_once(BEGIN)
        .expect("the README has the table's beginning");
    let (written, after) = rest
        .split_once(END)
        .expect("the README has the table's end");
    let table = table(&rows);
    if std::env::var_os("TOKENBROOK_REWRITE_README").is_some() {
        let readme = [before, BEGIN, &table, END, after].concat();
        std::fs::write(root().join("README.md"), readme).expect("the README is writable");
        return;
    }
    assert!(
        written == table,
        "the README's table is not what tests prove; \
         `TOKENBROOK_REWRITE_README=1 cargo test --test support_table` writes this:\n{table}"
    );
}

#[test]
fn every_entry_has_a_test_that_mentions_it() {
    let rows = rows::all();
    assert!(rows.len() >= 10);
    for Row { name, entries } in rows {
        assert!(!entries.is_empty(), "{name}");
        for Entry { text, proof } in entries {
            if let Err(why) = proof.check() {
                panic!("{name}: {text}: {why}");
            }
        }
    }
}
