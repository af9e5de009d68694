//! `benches/RESULTS.md`, made from a report.

use std::fs;

use anyhow::{Context, Result};
use serde_json::Value;

use super::report::{Report, figure, variant};
use crate::paths;

/// Peers of these names, in any version, are what ratios are taken to: the first that is there.
const YARDSTICKS: [(&str, &str); 2] = [("wllama", "the better wllama"), ("ort-web", "ORT-web")];
const OURS: &str = "tokenbrook";

/// Writes the file anew, a section for each run.
pub(super) fn write(suite: &str, reports: &[Report]) -> Result<()> {
    let file = paths::at_root("benches/RESULTS.md");
    fs::write(&file, text(suite, reports))
        .with_context(|| format!("cannot write `{}`", file.display()))
}

fn text(suite: &str, reports: &[Report]) -> String {
    let mut text = format!(
        "# Results\n\nMade by `cargo xtask bench --suite {suite} --write-results`; \
         [README.md](README.md) says how it is measured. What stands in one section is of one \
         run.\n"
    );
    for report in reports {
        text += &section(report);
    }
    text
}

fn section(report: &Report) -> String {
    let on_a_gpu = report.rows().iter().any(|row| row["backend"] == "webgpu");
    let place = if on_a_gpu { ", WebGPU" } else { "" };
    let mut text = format!("\n## {}{place}\n\n", models(report));
    for name in ["date", "machine", "browser", "versions"] {
        text += &format!("- {name}: {}\n", plain(&report.json()[name]));
    }
    for note in report.notes() {
        text += &format!("- {note}\n");
    }
    let mut table = |title: &str, table: &[Vec<String>]| {
        text += &format!("\n### {title}\n\n{}", markdown(table));
    };
    table("Rates, times and memory", &report.cells());
    if let Some((yardstick, called)) = yardstick(report) {
        table(&format!("Ratios to {called}"), &ratios(report, yardstick));
    }
    let downloads = downloads(report);
    if downloads.len() > 1 {
        table("Downloaded beside the model", &downloads);
    }
    text
}

fn yardstick(report: &Report) -> Option<(&'static str, &'static str)> {
    let is_there = |name: &str| report.rows().iter().any(|row| is_of(row, name));
    YARDSTICKS.into_iter().find(|(name, _)| is_there(name))
}

fn is_of(row: &Value, engine: &str) -> bool {
    row["engine"]
        .as_str()
        .is_some_and(|name| name.starts_with(engine))
}

/// The models of a run, each once.
fn models(report: &Report) -> String {
    let mut names: Vec<_> = report
        .rows()
        .iter()
        .map(|row| plain(&row["model"]))
        .collect();
    names.dedup();
    names.join(", ")
}

/// An object as `name value, name value`.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Object(fields) => {
            let parts = fields
                .iter()
                .map(|(name, value)| format!("{name} {}", plain(value)));
            parts.collect::<Vec<_>>().join(", ")
        }
        other => other.to_string(),
    }
}

fn markdown(lines: &[Vec<String>]) -> String {
    let mut text = String::new();
    for (index, line) in lines.iter().enumerate() {
        text += &format!("| {} |\n", line.join(" | "));
        if index == 0 {
            text += &format!("|{}\n", "---|".repeat(line.len()));
        }
    }
    text
}

/// Each of our rows against the fastest yardstick in the same place, rate by rate.
fn ratios(report: &Report, yardstick: &str) -> Vec<Vec<String>> {
    let head = ["model", "variant", "threads", "prompt", "prefill", "decode"];
    let mut lines = vec![head.map(str::to_owned).to_vec()];
    for row in report.rows().iter().filter(|row| row["engine"] == OURS) {
        let ratio = |name: &str| {
            let best = report
                .rows()
                .iter()
                .filter(|other| is_of(other, yardstick) && is_beside(row, other));
            let best = best
                .filter_map(|other| other[name].as_f64())
                .reduce(f64::max);
            let value = row[name].as_f64().zip(best).map(|(ours, best)| ours / best);
            value.map_or_else(|| "–".to_owned(), |value| format!("{value:.2} ×"))
        };
        lines.push(vec![
            plain(&row["model"]),
            variant(row).to_owned(),
            plain(&row["threads"]),
            plain(&row["promptTokens"]),
            ratio("prefillTokensPerSecond"),
            ratio("decodeTokensPerSecond"),
        ]);
    }
    lines
}

fn is_beside(row: &Value, other: &Value) -> bool {
    let place = ["model", "threads", "promptTokens"];
    place.iter().all(|name| row[name] == other[name])
}

/// What was counted: of a browser that keeps its counts to itself, nothing.
fn downloads(report: &Report) -> Vec<Vec<String>> {
    let mut lines = vec![
        ["engine", "files", "kB", "kB, brotli"]
            .map(str::to_owned)
            .to_vec(),
    ];
    let found = report.json()["downloads"].as_array();
    let found = found.map_or(&[][..], Vec::as_slice).iter();
    for entry in found.filter(|entry| entry["files"] != 0) {
        let kilobytes = |name: &str| figure(entry[name].as_f64().map(|bytes| bytes / 1e3), 0);
        lines.push(vec![
            plain(&entry["engine"]),
            plain(&entry["files"]),
            kilobytes("bytes"),
            kilobytes("brotliBytes"),
        ]);
    }
    lines
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::report::tests::row;
    use super::*;

    #[test]
    fn ratios_are_to_the_better_peer_of_the_same_place() {
        let rows = json!([
            row("tokenbrook", 1, &[30.0]),
            row("wllama 3", 1, &[10.0]),
            row("wllama 2", 1, &[12.0]),
            row("wllama 2", 2, &[60.0]),
            row("other", 1, &[90.0]),
        ]);
        let report = Report::new(json!({ "rows": rows })).unwrap();
        assert_eq!(yardstick(&report), Some(YARDSTICKS[0]));
        let lines = ratios(&report, "wllama");
        assert_eq!(lines.len(), 2);
        assert_eq!(
            lines[1],
            ["m Q4_1", "simd128", "1", "128", "2.50 ×", "2.50 ×"]
        );
    }

    #[test]
    fn without_a_peer_in_the_same_place_there_is_no_ratio() {
        let ours = row("tokenbrook", 2, &[30.0]);
        let alone = Report::new(json!({ "rows": [ours] })).unwrap();
        assert!(!section(&alone).contains("Ratios"));
        let rows = json!([ours, row("ort-web 1.0", 1, &[0.4])]);
        let report = Report::new(json!({ "rows": rows })).unwrap();
        assert_eq!(ratios(&report, "ort-web")[1][4..], ["–", "–"]);
        let text = section(&report);
        assert!(text.contains("### Ratios to ORT-web\n"), "{text}");
        assert!(text.contains("| 0.40 |"), "{text}");
    }

    #[test]
    fn the_text_names_machine_versions_and_what_is_left_out() {
        let report = Report::new(json!({
            "rows": [row("tokenbrook", 1, &[30.0])],
            "machine": { "cpu": "Some CPU" },
            "versions": { "tokenbrook": "0.1.0" },
            "downloads": [{ "engine": "tokenbrook", "files": 3, "bytes": 9000,
                "brotliBytes": 1500 }, { "engine": "uncounted", "files": 0 }],
            "notes": ["ORT-web is left out."],
        }));
        let report = report.unwrap();
        let text = text("peers", &[report]);
        for part in [
            "- machine: cpu Some CPU\n",
            "- versions: tokenbrook 0.1.0\n",
            "| tokenbrook | 3 | 9 | 2 |\n",
            "\n## m Q4_1\n",
            "\n- ORT-web is left out.\n",
        ] {
            assert!(text.contains(part), "{part}");
        }
        assert!(!text.contains("uncounted") && !text.contains("WebGPU"));
    }
}
