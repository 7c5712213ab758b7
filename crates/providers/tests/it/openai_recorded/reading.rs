//! The answers of OpenAI's wires in the recordings, and the wire of each provider.

use std::path::Path;
use std::sync::OnceLock;

use bytes::Bytes;
use serde_json::Value;

use super::{decode, payloads};
use crate::fixtures::{self, streams};
use crate::gemini_recorded::{Outcome, Recorded};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Wire {
    Chat,
    Responses,
}

/// A body for a client to read.
pub(super) struct One {
    pub(super) wire: Wire,
    pub(super) recorded: Recorded,
}

impl One {
    pub(super) fn file(&self) -> &str {
        &self.recorded.file
    }

    fn text(&self) -> &str {
        std::str::from_utf8(&self.recorded.body).unwrap()
    }

    pub(super) fn is_streamed(&self) -> bool {
        !self.text().trim_start().starts_with('{')
    }

    /// The JSON of the events, or the whole body.
    pub(super) fn payloads(&self) -> Vec<String> {
        let body = Bytes::copy_from_slice(&self.recorded.body);
        if self.is_streamed() { payloads(vec![body]) } else { vec![self.text().to_owned()] }
    }

    pub(super) fn decoded(&self) -> Outcome {
        decode(self.wire, &self.payloads())
    }
}

/// Every answer. `None`, said aloud as `test`, where there are no recordings.
pub(super) fn recorded(test: &str) -> Option<&'static [One]> {
    static ALL: OnceLock<Vec<One>> = OnceLock::new();
    let root = streams(test)?;
    Some(ALL.get_or_init(|| read(&root)))
}

fn read(root: &Path) -> Vec<One> {
    let mut bodies: Vec<(String, String)> = Vec::new();
    for exchange in fixtures::cassettes(root).into_iter().filter(|exchange| exchange.status < 300) {
        bodies.push((exchange.file, exchange.body));
    }
    for file in fixtures::files(root).into_iter().filter(|file| !file.ends_with(".yaml")) {
        let text = std::fs::read_to_string(root.join(&file)).unwrap();
        let inside = if file.ends_with(".chunks.txt") { vec![framed(text.lines())] } else { opened(text) };
        bodies.extend(inside.into_iter().map(|body| (file.clone(), body)));
    }
    let ones = bodies.into_iter().filter_map(|(file, body)| {
        let wire = wire_of(&body)?;
        Some(One { wire, recorded: Recorded { file, body: body.into_bytes() } })
    });
    ones.collect()
}

/// Turns a recording with an event per line into a body of events.
fn framed<'a>(lines: impl Iterator<Item = &'a str>) -> String {
    lines.filter(|line| !line.trim().is_empty()).map(|line| format!("data: {line}\n\n")).collect()
}

/// The bodies in a file: a list of exchanges, the objects of a client library, or the body itself.
fn opened(text: String) -> Vec<String> {
    match serde_json::from_str(&text) {
        Ok(Value::Array(exchanges)) => {
            exchanges.iter().filter_map(|exchange| exchange["response"].as_str()).map(str::to_owned).collect()
        }
        Ok(Value::Object(file)) if file.contains_key("test_id") => match &file["response"]["body"] {
            Value::Array(chunks) => {
                let chunks: Vec<String> = chunks.iter().map(|chunk| chunk["__data__"].to_string()).collect();
                vec![framed(chunks.iter().map(String::as_str))]
            }
            whole => vec![whole["__data__"].to_string()],
        },
        _ => vec![text],
    }
}

/// The wire of an answer of a model; none for anything else.
fn wire_of(body: &str) -> Option<Wire> {
    if let Ok(whole) = serde_json::from_str::<Value>(body) {
        return match whole["object"].as_str() {
            Some("response") if whole["output"].is_array() => Some(Wire::Responses),
            _ => whole["choices"][0]["message"].is_object().then_some(Wire::Chat),
        };
    }
    let head: String = body.chars().take(4_000).filter(|letter| !letter.is_whitespace()).collect();
    if !["data:", "event:", ":"].iter().any(|start| head.starts_with(start)) {
        return None;
    }
    let is_response = head.contains(r#""type":"response."#);
    let is_chat = head.contains(r#""choices":["#);
    is_response.then_some(Wire::Responses).or(is_chat.then_some(Wire::Chat))
}
