//! Recorded answers of real providers, for the tests of the wires. Their folder is `../shared/fixtures/streams`.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

/// A wire whose recordings are read here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RecordedWire {
    Anthropic,
    Responses,
    Gemini,
}

/// One recorded answer.
#[derive(Clone, Debug)]
pub(crate) struct RecordedAnswer {
    /// The file's path below the fixtures' folder.
    pub(crate) file: String,
    pub(crate) wire: RecordedWire,
    /// `true` if the answer was streamed; otherwise it is one payload.
    pub(crate) streamed: bool,
    pub(crate) payloads: Vec<String>,
}

/// A recording of one of the wires that is not decoded, with the reason.
#[derive(Clone, Debug)]
pub(crate) struct SkippedRecording {
    pub(crate) file: String,
    pub(crate) reason: String,
}

/// All recordings of these wires.
#[derive(Debug, Default)]
pub(crate) struct RecordingSet {
    pub(crate) answers: Vec<RecordedAnswer>,
    pub(crate) skipped: Vec<SkippedRecording>,
}

/// Reads all recordings. `None`, with a message that names `test`, if there are none.
pub(crate) fn all(test: &str) -> Option<RecordingSet> {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/fixtures/streams"));
    if !root.is_dir() {
        assert!(
            std::env::var_os("LONGHAUL_REQUIRE_FIXTURES").is_none(),
            "no recordings in {}",
            root.display()
        );
        println!("skipped: {test}: no recordings in {}", root.display());
        return None;
    }
    let mut files = Vec::new();
    collect(root, &mut files);
    // Folders list their files in any order, and failures should name the same file each time.
    files.sort();
    let mut recorded = RecordingSet::default();
    for path in files {
        let file = path.strip_prefix(root).unwrap().display().to_string();
        recorded.read(&file, &std::fs::read_to_string(&path).unwrap());
    }
    Some(recorded)
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { collect(&path, files) } else { files.push(path) }
    }
}

/// One exchange of a recorded HTTP session.
#[derive(Deserialize)]
struct RecordedExchange {
    when: RecordedHttpRequest,
    then: RecordedHttpResponse,
}

#[derive(Deserialize)]
struct RecordedHttpRequest {
    path: String,
}

#[derive(Deserialize)]
struct RecordedHttpResponse {
    status: u16,
    #[serde(default)]
    body: Option<String>,
}

#[derive(Deserialize)]
struct VcrCassette {
    interactions: Vec<VcrInteraction>,
}

#[derive(Deserialize)]
struct VcrInteraction {
    request: VcrRequest,
    response: VcrResponse,
}

#[derive(Deserialize)]
struct VcrRequest {
    uri: String,
}

#[derive(Deserialize)]
struct VcrResponse {
    #[serde(default)]
    body: Option<VcrBody>,
    #[serde(default)]
    parsed_body: Option<Value>,
    status: VcrStatus,
}

#[derive(Deserialize)]
struct VcrBody {
    #[serde(default)]
    string: Option<String>,
}

#[derive(Deserialize)]
struct VcrStatus {
    code: u16,
}

impl RecordingSet {
    fn read(&mut self, file: &str, text: &str) {
        match file.rsplit('.').next() {
            Some("yaml") => self.yaml(file, text),
            Some("txt") => self.lines(file, text),
            Some("responses") => self.calls(file, text),
            Some("sse") => self.body(file, wire_of(text), 200, text),
            Some("json") if text.lines().next().is_some_and(|line| line.contains("\"method\"")) => {
                self.calls(file, text)
            }
            Some("json") => self.body(file, whole_wire(text), 200, text),
            _ => {}
        }
    }

    fn yaml(&mut self, file: &str, text: &str) {
        if text.starts_with("interactions:") {
            return match serde_saphyr::from_str::<VcrCassette>(text) {
                Ok(cassette) => cassette.interactions.into_iter().for_each(|one| self.interaction(file, one)),
                Err(error) => self.skip(file, wire_of(text), format!("unreadable cassette: {error}")),
            };
        }
        match serde_saphyr::from_multiple::<RecordedExchange>(text) {
            Ok(exchanges) => exchanges.iter().for_each(|RecordedExchange { when, then }| {
                self.body(file, wire_at(&when.path), then.status, then.body.as_deref().unwrap_or_default());
            }),
            Err(error) => self.skip(file, wire_of(text), format!("unreadable cassette: {error}")),
        }
    }

    fn interaction(&mut self, file: &str, one: VcrInteraction) {
        let body = one.response.body.and_then(|body| body.string);
        let body = body.or(one.response.parsed_body.map(|body| body.to_string())).unwrap_or_default();
        self.body(file, wire_at(&one.request.uri), one.response.status.code, &body);
    }

    /// Adds a recording with one event per line.
    fn lines(&mut self, file: &str, text: &str) {
        if text.contains("\"event_type\":\"interaction.created\"") {
            return self.skip(
                file,
                Some(RecordedWire::Gemini),
                "the Interactions API is another wire".into(),
            );
        }
        let payloads = text.lines().filter(|line| !line.trim().is_empty()).map(str::to_owned).collect();
        self.keep(file, wire_of(text), true, payloads);
    }

    /// Adds a recording with one call per line: its method and its chunks.
    fn calls(&mut self, file: &str, text: &str) {
        #[derive(Deserialize)]
        struct Call {
            method: String,
            response: Value,
        }
        for call in text.lines().filter(|line| !line.trim().is_empty()) {
            match serde_json::from_str(call) {
                Ok(Call { method, response: Value::Array(chunks) }) if method == "generateContentStream" => {
                    self.keep(
                        file,
                        Some(RecordedWire::Gemini),
                        true,
                        chunks.iter().map(Value::to_string).collect(),
                    );
                }
                Ok(Call { method, response }) if method == "generateContent" => {
                    self.keep(file, Some(RecordedWire::Gemini), false, vec![response.to_string()]);
                }
                Ok(Call { method, .. }) => {
                    self.skip(file, Some(RecordedWire::Gemini), format!("no answer of a model: {method}"))
                }
                Err(error) => self.skip(file, Some(RecordedWire::Gemini), error.to_string()),
            }
        }
    }

    fn body(&mut self, file: &str, wire: Option<RecordedWire>, status: u16, body: &str) {
        if !(200..300).contains(&status) {
            return self.skip(file, wire, format!("HTTP status {status}"));
        }
        if body.starts_with("event:") || body.starts_with("data:") || body.starts_with(':') {
            let data =
                body.lines().filter_map(|line| line.strip_prefix("data:")).map(|data| data.trim().to_owned());
            return self.keep(file, wire, true, data.collect());
        }
        match wire {
            Some(wire) if whole_wire(body) == Some(wire) => {
                self.keep(file, Some(wire), false, vec![body.to_owned()])
            }
            wire => self.skip(file, wire, "no answer of a model".into()),
        }
    }

    fn keep(&mut self, file: &str, wire: Option<RecordedWire>, streamed: bool, payloads: Vec<String>) {
        if let Some(wire) = wire {
            self.answers.push(RecordedAnswer { file: file.to_owned(), wire, streamed, payloads });
        }
    }

    fn skip(&mut self, file: &str, wire: Option<RecordedWire>, reason: String) {
        if let Some(wire) = wire {
            self.skipped
                .push(SkippedRecording { file: file.to_owned(), reason: format!("{wire:?}: {reason}") });
        }
    }
}

/// Returns the wire of a path or an address.
fn wire_at(uri: &str) -> Option<RecordedWire> {
    let path = uri.split('?').next().unwrap_or_default();
    if path.ends_with("/messages") {
        Some(RecordedWire::Anthropic)
    // `generateContent` and `streamGenerateContent`.
    } else if path.ends_with("enerateContent") {
        Some(RecordedWire::Gemini)
    } else {
        path.contains("/responses").then_some(RecordedWire::Responses)
    }
}

/// Returns the wire of a stream.
fn wire_of(text: &str) -> Option<RecordedWire> {
    if text.contains("\"type\":\"message_start\"") {
        Some(RecordedWire::Anthropic)
    } else if text.contains("\"type\":\"response.") {
        Some(RecordedWire::Responses)
    } else {
        text.starts_with("{\"candidates\"").then_some(RecordedWire::Gemini)
    }
}

/// Returns the wire of an answer that was not streamed.
fn whole_wire(text: &str) -> Option<RecordedWire> {
    let value: Value = serde_json::from_str(text).ok()?;
    if value["type"] == "message" && value["content"].is_array() {
        Some(RecordedWire::Anthropic)
    } else if value["object"] == "response" && value["output"].is_array() {
        Some(RecordedWire::Responses)
    } else {
        value["candidates"].is_array().then_some(RecordedWire::Gemini)
    }
}

mod tests;
