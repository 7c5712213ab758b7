//! Recorded traffic of real servers, in `../shared/fixtures/streams` (`SOURCES.md` there says whose).

use std::path::{Path, PathBuf};

use serde_json::Value;

/// A recorded answer.
#[derive(Clone, Debug)]
pub(crate) struct Exchange {
    /// The file, relative to the folder of streams.
    pub(crate) file: String,
    /// The path of the URL.
    pub(crate) path: String,
    pub(crate) status: u16,
    pub(crate) body: String,
}

impl Exchange {
    pub(crate) fn provider(&self) -> &str {
        self.file.split('/').next().unwrap_or_default()
    }
}

/// The folder of streams. Without the folder the test prints its name and passes, unless fixtures are required.
pub(crate) fn streams(test: &str) -> Option<PathBuf> {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/fixtures/streams"));
    if root.is_dir() {
        return Some(root.to_owned());
    }
    assert!(std::env::var_os("LONGHAUL_REQUIRE_FIXTURES").is_none(), "{} is missing", root.display());
    println!("{test}: SKIPPED, {} is missing", root.display());
    None
}

/// Every file below `root`, sorted, relative to `root`.
pub(crate) fn files(root: &Path) -> Vec<String> {
    let mut open = vec![root.to_owned()];
    let mut found = Vec::new();
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { open.push(path) } else { found.push(path) }
        }
    }
    let mut names: Vec<_> =
        found.iter().map(|path| path.strip_prefix(root).unwrap().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// Every exchange of every YAML cassette.
pub(crate) fn cassettes(root: &Path) -> Vec<Exchange> {
    let names = files(root).into_iter().filter(|name| name.ends_with(".yaml"));
    names.flat_map(|name| cassette(root, &name)).collect()
}

fn cassette(root: &Path, name: &str) -> Vec<Exchange> {
    let text = std::fs::read_to_string(root.join(name)).unwrap();
    let documents = documents(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
    let recorded = documents.iter().flat_map(|document| match document.get("interactions") {
        Some(Value::Array(interactions)) => interactions.iter().filter_map(vcr).collect::<Vec<_>>(),
        _ => Vec::new(),
    });
    let paired = pairs(&documents);
    recorded
        .chain(paired)
        .map(|(url, status, body)| Exchange { file: name.to_owned(), path: path_of(&url), status, body })
        .collect()
}

/// Bodies of binary wires are no text and stay as written.
fn documents(text: &str) -> Result<Vec<Value>, serde_saphyr::Error> {
    let as_written = serde_saphyr::options! { ignore_binary_tag_for_string: true };
    serde_saphyr::from_multiple(text).or_else(|_| serde_saphyr::from_multiple_with_options(text, as_written))
}

type Recorded = (String, u16, String);

/// The form of VCR: requests and responses in a single list, JSON bodies parsed.
fn vcr(interaction: &Value) -> Option<Recorded> {
    let response = interaction.get("response")?;
    let status = response.pointer("/status/code")?.as_u64()?;
    let body = match response.get("parsed_body") {
        Some(parsed) => parsed.to_string(),
        None => response.pointer("/body/string")?.as_str()?.to_owned(),
    };
    Some((interaction.pointer("/request/uri")?.as_str()?.to_owned(), status as u16, body))
}

/// The form of httpmock: `when` and `then`, in a single document or in two.
fn pairs(documents: &[Value]) -> Vec<Recorded> {
    let mut path = String::new();
    let mut found = Vec::new();
    for document in documents {
        if let Some(asked) = document.pointer("/when/path").and_then(Value::as_str) {
            path = asked.to_owned();
        }
        if let Some(then) = document.get("then") {
            let status = then.get("status").and_then(Value::as_u64).unwrap_or_default();
            let body = then.get("body").and_then(Value::as_str).unwrap_or_default();
            found.push((path.clone(), status as u16, body.to_owned()));
        }
    }
    found
}

fn path_of(url: &str) -> String {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest.find('/').map_or("", |at| &rest[at..]));
    rest.split(['?', '#']).next().unwrap_or_default().to_owned()
}
