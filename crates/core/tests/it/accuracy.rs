//! The estimator against an exact tokenizer, on recorded work of agents.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use longhaul_core::estimate::text_tokens;
use serde_json::Value;

const RECORDED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/fixtures/trajectories");

/// Shorter texts are a handful of tokens, where one more or less says nothing.
const MIN_BYTES: usize = 160;

type Texts = BTreeMap<&'static str, BTreeSet<String>>;

#[test]
fn close_to_the_exact_count_on_recorded_work() {
    if !Path::new(RECORDED).is_dir() {
        assert!(std::env::var_os("LONGHAUL_REQUIRE_FIXTURES").is_none(), "no recorded work in {RECORDED}");
        println!("skipped: close_to_the_exact_count_on_recorded_work ({RECORDED} is not there)");
        return;
    }
    let exact = tiktoken::get_encoding("o200k_base").unwrap();
    let texts = recorded_texts();
    println!("{:12} {:>6} {:>9} {:>7} {:>7} {:>7}", "kind", "texts", "tokens", "median", "p95", "bias");
    for (kind, texts) in &texts {
        let counts: Vec<(u64, u64)> =
            texts.iter().map(|text| (text_tokens(text), exact.count(text) as u64)).collect();
        let (median, p95) = (error_percent(&counts, 50), error_percent(&counts, 95));
        let sum = |of: fn(&(u64, u64)) -> u64| counts.iter().map(of).sum::<u64>() as f64;
        let bias = (sum(|count| count.0) / sum(|count| count.1) - 1.0) * 100.0;
        let tokens = sum(|count| count.1);
        println!("{kind:12} {:6} {tokens:9} {median:6.2}% {p95:6.2}% {bias:+6.2}%", texts.len());
        assert!(median <= 4.0 && p95 <= 12.0, "{kind}: median {median}, p95 {p95}");
        assert!(bias.abs() <= 4.0, "{kind}: bias {bias}");
    }
    assert_eq!(texts.len(), 4, "every kind was met");
}

/// The given percentile of the unsigned error, in percent of the exact count.
fn error_percent(counts: &[(u64, u64)], percentile: usize) -> f64 {
    let error = |&(estimated, exact): &(u64, u64)| estimated.abs_diff(exact) as f64 * 100.0 / exact as f64;
    let mut errors: Vec<f64> = counts.iter().map(error).collect();
    errors.sort_by(f64::total_cmp);
    errors[(errors.len() - 1) * percentile / 100]
}

#[expect(clippy::disallowed_methods, reason = "a test reads its fixtures")]
fn recorded_texts() -> Texts {
    let mut texts = Texts::new();
    for file in files(Path::new(RECORDED)) {
        let content = std::fs::read_to_string(&file).unwrap();
        match serde_json::from_str(&content) {
            Ok(value) => collect(&value, &mut texts),
            Err(_) => {
                content.lines().filter_map(|line| serde_json::from_str(line).ok()).for_each(|value: Value| {
                    collect(&value, &mut texts);
                })
            }
        }
    }
    texts
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.extension().and_then(|extension| extension.to_str()) {
            _ if path.is_dir() => found.extend(files(&path)),
            Some("md") => {}
            _ => found.push(path),
        }
    }
    found.sort();
    found
}

/// Walks any of the recorded formats: messages have a role and a content, calls have arguments.
fn collect(value: &Value, texts: &mut Texts) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| collect(item, texts)),
        Value::Object(fields) => {
            let is_tool = fields.get("role").is_some_and(|role| role == "tool" || role == "toolResult");
            let prose = if is_tool { "tool output" } else { "prose" };
            for (key, value) in fields {
                match (key.as_str(), value) {
                    ("content" | "text" | "thinking", Value::String(text)) => add(texts, prose, text),
                    ("content", Value::Array(blocks)) if is_tool => {
                        blocks
                            .iter()
                            .filter_map(|block| block["text"].as_str())
                            .for_each(|text| add(texts, prose, text));
                    }
                    ("observation", Value::String(text)) => add(texts, "tool output", text),
                    ("diff" | "newText" | "oldText" | "new_string", Value::String(text)) => {
                        add(texts, "code", text)
                    }
                    ("arguments", Value::String(text)) => add(texts, "json", text),
                    ("thinkingSignature", _) => {}
                    _ => collect(value, texts),
                }
                if key == "arguments" && value.is_object() {
                    add(texts, "json", &value.to_string());
                    value["content"].as_str().into_iter().for_each(|text| add(texts, "code", text));
                }
            }
        }
        _ => {}
    }
}

fn add(texts: &mut Texts, kind: &'static str, text: &str) {
    let is_json = text.starts_with(['{', '[']) && serde_json::from_str::<Value>(text).is_ok();
    if text.len() >= MIN_BYTES {
        texts.entry(if is_json { "json" } else { kind }).or_default().insert(text.to_owned());
    }
}
