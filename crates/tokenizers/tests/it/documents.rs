//! The texts of recorded work of agents, by kind.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::Value;

/// Recorded sessions and streams, beside the project.
pub(crate) const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/fixtures");

/// Shorter texts are a handful of tokens, where one more or less says nothing.
const MIN_BYTES: usize = 160;

/// Texts by kind, each once.
pub(crate) type Documents = BTreeMap<&'static str, BTreeSet<String>>;

/// Bytes by which documents are alike: those that begin so are in the same half.
const BEGINNING_BYTES: usize = 48;

/// The halves of the documents: weights are fitted on one, and judged by the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Half {
    Fitting,
    Judging,
}

impl Half {
    /// By the document's beginning (FNV-1a), so that versions of one document do not stand on both sides.
    pub(crate) fn of(text: &str) -> Self {
        let beginning = text.bytes().take(BEGINNING_BYTES);
        let hash = beginning.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
        });
        if (hash >> 32).is_multiple_of(2) { Self::Fitting } else { Self::Judging }
    }
}

/// Whether the fixtures are there; says so if not, and fails if they must be.
pub(crate) fn fixtures_for(test: &str) -> bool {
    let found = Path::new(FIXTURES).is_dir();
    if !found {
        assert!(std::env::var_os("LONGHAUL_REQUIRE_FIXTURES").is_none(), "{FIXTURES} is not there");
        println!("skipped: {test} ({FIXTURES} is not there)");
    }
    found
}

/// All files below a folder, sorted.
pub(crate) fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found.sort();
    found
}

/// The texts of the recorded sessions among the fixtures.
pub(crate) fn documents(fixtures: &Path) -> Documents {
    let mut documents = Documents::new();
    for file in files(&fixtures.join("trajectories")) {
        let content = std::fs::read_to_string(&file).unwrap();
        match serde_json::from_str::<Value>(&content) {
            Ok(value) => collect(&value, &mut documents),
            Err(_) => {
                let lines = content.lines().filter_map(|line| serde_json::from_str(line).ok());
                lines.for_each(|value: Value| collect(&value, &mut documents));
            }
        }
    }
    documents
}

/// Walks any of the recorded formats: messages have a role and a content, calls have arguments.
fn collect(value: &Value, documents: &mut Documents) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| collect(item, documents)),
        Value::Object(fields) => {
            let is_tool = fields.get("role").is_some_and(|role| role == "tool" || role == "toolResult");
            let said = if is_tool { "tool output" } else { "prose" };
            for (key, value) in fields {
                collect_field(key, value, said, documents);
            }
        }
        _ => {}
    }
}

fn collect_field(key: &str, value: &Value, said: &'static str, documents: &mut Documents) {
    match (key, value) {
        ("thinkingSignature", _) => {}
        ("content" | "text" | "thinking", Value::String(text)) => add(documents, said, text),
        ("observation", Value::String(text)) => add(documents, "tool output", text),
        ("diff" | "newText" | "oldText" | "new_string", Value::String(text)) => add(documents, "code", text),
        ("arguments", Value::String(text)) => add(documents, "JSON", text),
        ("content", Value::Array(blocks)) if said == "tool output" => {
            blocks
                .iter()
                .filter_map(|block| block["text"].as_str())
                .for_each(|text| add(documents, said, text));
        }
        ("arguments", Value::Object(fields)) => {
            add(documents, "JSON", &value.to_string());
            fields
                .get("content")
                .and_then(Value::as_str)
                .into_iter()
                .for_each(|text| add(documents, "code", text));
            collect(value, documents);
        }
        _ => collect(value, documents),
    }
}

fn add(documents: &mut Documents, kind: &'static str, text: &str) {
    let is_json = text.starts_with(['{', '[']) && serde_json::from_str::<Value>(text).is_ok();
    if text.len() >= MIN_BYTES {
        documents.entry(if is_json { "JSON" } else { kind }).or_default().insert(text.to_owned());
    }
}
