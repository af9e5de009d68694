//! What a suite found: raw samples from the browser to medians and a table.

use std::cmp::Ordering;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Map, Value, json};

/// Fields of a row that are medians over its samples.
const MEDIANS: [&str; 3] = ["prefillTokensPerSecond", "decodeTokensPerSecond", "ttftMs"];

/// `{ machine, browser, versions, date, notes, downloads, rows }`. A row:
/// `{ engine, model, backend, precision, threads, wasmVariant, promptTokens,
/// prefillTokensPerSecond, decodeTokensPerSecond, ttftMs, loadMs, secondLoadMs, peakBytes,
/// samples }`; what was not measured is null. A second load is from what the engine kept.
#[derive(Debug)]
pub(super) struct Report(Value);

impl Report {
    /// From what a script measured, whose rows have samples in place of medians.
    pub(super) fn new(mut measured: Value) -> Result<Self> {
        let rows = measured["rows"].as_array_mut().context("no rows")?;
        for row in rows {
            let row = row.as_object_mut().context("a row is not an object")?;
            add_medians(row)?;
        }
        Ok(Self(measured))
    }

    /// Of an earlier run.
    pub(super) fn read(file: &Path) -> Result<Self> {
        let text = fs::read_to_string(file);
        let text = text.with_context(|| format!("cannot read `{}`", file.display()))?;
        let json = serde_json::from_str(&text).context("it is no JSON");
        json.and_then(Self::new)
            .with_context(|| format!("`{}` is no report", file.display()))
    }

    pub(super) fn json(&self) -> &Value {
        &self.0
    }

    pub(super) fn into_json(self) -> Value {
        self.0
    }

    pub(super) fn rows(&self) -> &[Value] {
        self.0["rows"].as_array().map_or(&[], Vec::as_slice)
    }

    /// Sentences on what is not in the rows.
    pub(super) fn notes(&self) -> impl Iterator<Item = &str> {
        let notes = self.0["notes"].as_array().map_or(&[][..], Vec::as_slice);
        notes.iter().filter_map(Value::as_str)
    }

    /// For people, on a terminal.
    pub(super) fn table(&self) -> String {
        let mut text = aligned(&self.cells());
        for note in self.notes() {
            text += &format!("{note}\n");
        }
        text
    }

    /// The head and one line a row.
    pub(super) fn cells(&self) -> Vec<Vec<String>> {
        let head = [
            "model",
            "engine",
            "variant",
            "threads",
            "prompt",
            "prefill/s",
            "decode/s",
            "ttft ms",
            "load ms",
            "again ms",
            "peak MB",
        ];
        let mut lines = vec![head.map(str::to_owned).to_vec()];
        lines.extend(self.rows().iter().map(|row| {
            let number = |name: &str, digits| figure(row[name].as_f64(), digits);
            vec![
                word(&row["model"]),
                word(&row["engine"]),
                variant(row).to_owned(),
                number("threads", 0),
                number("promptTokens", 0),
                rate(&row["prefillTokensPerSecond"]),
                rate(&row["decodeTokensPerSecond"]),
                number("ttftMs", 0),
                number("loadMs", 0),
                number("secondLoadMs", 0),
                figure(row["peakBytes"].as_f64().map(|bytes| bytes / 1e6), 0),
            ]
        }));
        lines
    }
}

/// The precision on a GPU, the artifact on a CPU.
pub(super) fn variant(row: &Value) -> &str {
    let name = match row["backend"].as_str() {
        Some("webgpu") => &row["precision"],
        _ => &row["wasmVariant"],
    };
    name.as_str().unwrap_or("–")
}

fn word(value: &Value) -> String {
    value.as_str().unwrap_or("–").to_owned()
}

pub(super) fn figure(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| "–".to_owned(), |value| format!("{value:.digits$}"))
}

/// A rate; below 1, software that plays a GPU, with a digit more.
fn rate(value: &Value) -> String {
    let value = value.as_f64();
    let digits = if value.is_some_and(|rate| rate < 1.0) {
        2
    } else {
        1
    };
    figure(value, digits)
}

fn add_medians(row: &mut Map<String, Value>) -> Result<()> {
    let samples = row.get("samples").and_then(Value::as_array);
    let samples = samples.context("a row has no samples")?;
    let mut medians = Vec::new();
    for name in MEDIANS {
        let values = samples.iter().filter_map(|sample| sample[name].as_f64());
        medians.push((name, json!(median(values.collect()))));
    }
    row.extend(
        medians
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value)),
    );
    Ok(())
}

/// The middle value, or the mean of the two in the middle.
pub(super) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(|a, b| a.partial_cmp(b).unwrap_or(Ordering::Equal));
    let middle = values.len() / 2;
    let upper = *values.get(middle)?;
    if values.len() % 2 == 1 {
        return Some(upper);
    }
    Some((values[middle - 1] + upper) / 2.0)
}

/// Columns of one width; the first three hold words, the others numbers.
fn aligned(lines: &[Vec<String>]) -> String {
    let columns = lines.first().map_or(0, Vec::len);
    let length = |cell: &String| cell.chars().count();
    let width = |column: usize| lines.iter().map(|line| length(&line[column])).max();
    let widths: Vec<usize> = (0..columns).map(|c| width(c).unwrap_or(0)).collect();
    let mut text = String::new();
    for line in lines {
        let cells: Vec<String> = line.iter().zip(&widths).enumerate().map(pad).collect();
        text += cells.join("  ").trim_end();
        text += "\n";
    }
    text
}

fn pad((column, (cell, width)): (usize, (&String, &usize))) -> String {
    if column < 3 {
        format!("{cell:<width$}")
    } else {
        format!("{cell:>width$}")
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// One row of an engine with these decode rates at a prompt of 128 tokens.
    pub(in super::super) fn row(engine: &str, threads: u32, decode: &[f64]) -> Value {
        let sample = |rate: &f64| {
            json!({ "prefillTokensPerSecond": rate * 2.0, "decodeTokensPerSecond": rate,
                "ttftMs": 500 })
        };
        let samples: Vec<Value> = decode.iter().map(sample).collect();
        json!({ "engine": engine, "model": "m Q4_1", "backend": "cpu", "threads": threads,
            "wasmVariant": "simd128", "promptTokens": 128, "loadMs": 300.4,
            "secondLoadMs": 200.4,
            "peakBytes": 2_000_000, "samples": samples })
    }

    #[test]
    fn medians_are_of_the_samples_that_have_the_field() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(Vec::new()), None);
        let mut one = row("a", 1, &[10.0, 30.0, 20.0]);
        one["samples"][1]["decodeTokensPerSecond"] = Value::Null;
        let report = Report::new(json!({ "rows": [one] })).unwrap();
        let found = &report.rows()[0];
        assert_eq!(found["decodeTokensPerSecond"], 15.0);
        assert_eq!(found["prefillTokensPerSecond"], 40.0);
    }

    #[test]
    fn a_row_has_every_field_that_readers_rely_on() {
        let report = Report::new(json!({ "rows": [row("a", 1, &[10.0])] })).unwrap();
        let fields = "engine model backend threads wasmVariant promptTokens \
            prefillTokensPerSecond decodeTokensPerSecond ttftMs loadMs secondLoadMs peakBytes \
            samples";
        for field in fields.split_whitespace() {
            assert!(!report.rows()[0][field].is_null(), "{field}");
        }
    }

    #[test]
    fn the_table_is_aligned_and_ends_in_the_notes() {
        let rows = json!({ "rows": [row("tokenbrook", 1, &[10.0])], "notes": ["No ORT."] });
        let table = Report::new(rows).unwrap().table();
        let lines: Vec<&str> = table.lines().collect();
        assert!(lines[0].starts_with("model   engine      variant  threads  prompt  prefill/s"));
        assert!(lines[1].starts_with("m Q4_1  tokenbrook  simd128        1     128       20.0"));
        assert_eq!(lines[2], "No ORT.");
    }

    #[test]
    fn a_row_without_samples_is_refused() {
        let error = Report::new(json!({ "rows": [{ "engine": "a" }] })).unwrap_err();
        assert_eq!(error.to_string(), "a row has no samples");
    }
}
