//! The recordings of the Messages API.

use std::path::Path;

use super::*;
use crate::fixtures::{self, Exchange, streams};

/// Answers of the Messages API, and the other recordings.
#[derive(Default)]
pub(super) struct Recorded {
    pub(super) answers: Vec<Recording>,
    /// Refusals: status and body.
    pub(super) errors: Vec<(String, u16, String)>,
    /// Files of other wires, with the reason.
    pub(super) others: Vec<(String, &'static str)>,
}

pub(super) struct Recording {
    pub(super) file: String,
    pub(super) body: Vec<u8>,
}

impl Recording {
    pub(super) fn is_streamed(&self) -> bool {
        !self.body.trim_ascii_start().starts_with(b"{")
    }

    pub(super) fn provider(&self) -> &str {
        self.file.split('/').next().unwrap()
    }

    /// The payloads, read without our parser.
    pub(super) fn payloads(&self) -> Vec<Value> {
        let body = std::str::from_utf8(&self.body).unwrap();
        if !self.is_streamed() {
            return vec![serde_json::from_str(body).unwrap()];
        }
        let data = body.lines().filter_map(|line| line.strip_prefix("data:"));
        data.map(|data| serde_json::from_str(data).unwrap()).collect()
    }
}

pub(super) fn recorded(test: &str) -> Option<Recorded> {
    let root = streams(test)?;
    let mut recorded = Recorded::default();
    fixtures::cassettes(&root).into_iter().for_each(|exchange| recorded.exchange(exchange));
    for file in fixtures::files(&root).into_iter().filter(|file| !file.ends_with(".yaml")) {
        recorded.file(&root, file);
    }
    Some(recorded)
}

impl Recorded {
    fn exchange(&mut self, Exchange { file, path, status, body }: Exchange) {
        match path.as_str() {
            path if path.ends_with("/messages") && status < 300 => {
                self.answers.push(Recording { file, body: body.into_bytes() });
            }
            path if path.ends_with("/messages") => self.errors.push((file, status, body)),
            path if path.contains("anthropic.claude") => {
                self.others.push((file, "Bedrock Converse is another wire"));
            }
            path if file.starts_with("anthropic/") && path.contains("/files") => {
                self.others.push((file, "the Files API is no answer of a model"));
            }
            path if file.starts_with("anthropic/") && path.ends_with(":generateContent") => {
                self.others.push((file, "the conversation goes on with Gemini"));
            }
            _ => assert!(!file.starts_with("anthropic/"), "{file}: {path} is neither read nor named"),
        }
    }

    fn file(&mut self, root: &Path, file: String) {
        let Ok(text) = std::fs::read_to_string(root.join(&file)) else { return };
        let squeezed: String = text.chars().take(4_000).filter(|letter| !letter.is_whitespace()).collect();
        let live_error =
            file.contains("overflow_messages.response") || file.contains("bad_messages.response");
        if squeezed.contains("\"type\":\"message_start\"") {
            let body = if file.ends_with(".chunks.txt") { framed(&text) } else { text };
            self.answers.push(Recording { file, body: body.into_bytes() });
        } else if let Some(body) = exchanged(&text) {
            self.answers.push(Recording { file, body: body.into_bytes() });
        } else if squeezed.starts_with('{')
            && squeezed.contains("\"type\":\"message\",\"role\":\"assistant\"")
        {
            self.answers.push(Recording { file, body: text.into_bytes() });
        } else if live_error {
            self.errors.push((file, 400, text));
        } else {
            assert!(!file.starts_with("anthropic/"), "{file} is neither read nor named");
        }
    }
}

/// The answer of a request to the Messages API, both recorded in a single object.
fn exchanged(text: &str) -> Option<String> {
    let exchange: Value = serde_json::from_str(text).ok()?;
    let url = exchange.pointer("/request/url")?.as_str()?;
    url.ends_with("/v1/messages").then(|| exchange["response"]["body"].to_string())
}

/// Turns a recording with an event per line into a body of events.
fn framed(lines: &str) -> String {
    lines.lines().filter(|line| !line.trim().is_empty()).map(|line| format!("data: {line}\n\n")).collect()
}
