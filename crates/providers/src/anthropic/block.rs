//! One content block, put together from its pieces.

use longhaul_core::message::{Opaque, Part, RawJson, Reasoning, Text, ToolCall};

use crate::ModelEvent;
use crate::raw::{self, RawObject};

/// A content block that may still grow.
#[derive(Debug)]
pub(super) struct Block {
    /// Its place in the answer, as the provider counts.
    pub(super) index: u64,
    kind: String,
    /// The block with all pieces so far, except for its arguments.
    object: RawObject,
    /// Arguments so far, as text.
    input: String,
    /// Which of the answer's tool calls it is.
    call: Option<usize>,
    pub(super) done: bool,
}

impl Block {
    pub(super) fn new(index: u64, object: RawObject, calls: usize) -> Self {
        let kind = object.text("type").unwrap_or_default();
        let call = (kind == "tool_use").then_some(calls);
        Self { index, kind, object, input: String::new(), call, done: false }
    }

    pub(super) fn is_call(&self) -> bool {
        self.call.is_some()
    }

    /// What a viewer is shown when the block begins: most blocks begin empty.
    pub(super) fn begin(&self) -> Option<ModelEvent> {
        let field = |key: &str| self.object.text(key).filter(|text| !text.is_empty());
        match (self.kind.as_str(), self.call) {
            ("text", _) => field("text").map(ModelEvent::Text),
            ("thinking", _) => field("thinking").map(ModelEvent::Reasoning),
            (_, Some(index)) => {
                Some(ModelEvent::ToolInput { index, name: self.object.text("name"), delta: String::new() })
            }
            _ => None,
        }
    }

    /// Adds a piece. Known pieces are text, reasoning, signatures, arguments and citations; of others, strings
    /// are appended to the block's field of that name, and anything else replaces it.
    pub(super) fn grow(&mut self, delta: &RawObject) -> Option<ModelEvent> {
        match delta.text("type").as_deref() {
            Some("input_json_delta") => return self.grow_input(&delta.text("partial_json")?),
            Some("citations_delta") => self.cite(delta),
            _ => delta
                .fields()
                .filter(|(key, _)| *key != "type")
                .for_each(|(key, value)| self.grow_field(key, value)),
        }
        let text = |key: &str| delta.text(key).filter(|text| !text.is_empty());
        match self.kind.as_str() {
            "text" => text("text").map(ModelEvent::Text),
            "thinking" => text("thinking").map(ModelEvent::Reasoning),
            _ => None,
        }
    }

    fn grow_input(&mut self, piece: &str) -> Option<ModelEvent> {
        self.input.push_str(piece);
        let index = self.call.filter(|_| !piece.is_empty())?;
        Some(ModelEvent::ToolInput { index, name: None, delta: piece.to_owned() })
    }

    fn grow_field(&mut self, key: &str, piece: &str) {
        if let Ok(more) = serde_json::from_str::<String>(piece) {
            let before = self.object.text(key).unwrap_or_default();
            self.object.set_text(key, &(before + &more));
        } else if let Some(value) = raw::value(piece) {
            self.object.set(key, value);
        }
    }

    fn cite(&mut self, delta: &RawObject) {
        let mut citations: Vec<String> =
            self.object.list("citations").iter().map(|one| one.get().to_owned()).collect();
        citations.extend(delta.get("citation").map(str::to_owned));
        if let Some(list) = raw::value(&format!("[{}]", citations.join(","))) {
            self.object.set("citations", list);
        }
    }

    /// The part it is. `None` for text and reasoning without content.
    pub(super) fn part(&self) -> Option<Part> {
        match self.kind.as_str() {
            "text" => self.text(),
            "thinking" | "redacted_thinking" => self.reasoning(),
            "tool_use" => Some(Part::ToolCall(self.tool_call())),
            _ => Some(Part::Opaque(Opaque { kind: self.kind.clone(), native: self.whole().to_json() })),
        }
    }

    fn text(&self) -> Option<Part> {
        let text = self.object.text("text").filter(|text| !text.is_empty())?;
        Some(Part::Text(Text { text, native: self.native_beyond(&["type", "text"]) }))
    }

    /// Reasoning without signature was cut off: its provider would refuse it, so there is nothing to send back.
    fn reasoning(&self) -> Option<Part> {
        let text = self.object.text("thinking").unwrap_or_default();
        let proof = if self.kind == "thinking" { "signature" } else { "data" };
        let proven = self.object.text(proof).is_some_and(|proof| !proof.is_empty());
        let native = proven.then(|| self.object.to_json());
        (proven || !text.is_empty()).then_some(Part::Reasoning(Reasoning { text, native }))
    }

    fn tool_call(&self) -> ToolCall {
        let id = self.object.text("id").unwrap_or_default();
        ToolCall {
            call_id: id.as_str().into(),
            name: self.object.text("name").unwrap_or_default(),
            arguments: self.arguments(),
            provider_id: Some(id),
            native: self.native_beyond(&["type", "id", "name", "input"]),
        }
    }

    /// Arguments come in pieces, or whole at the beginning.
    fn arguments(&self) -> String {
        match self.input.is_empty() {
            true => self.object.get("input").unwrap_or("{}").to_owned(),
            false => self.input.clone(),
        }
    }

    /// The block, kept if it has content beyond these fields.
    fn native_beyond(&self, known: &[&str]) -> Option<RawJson> {
        let more = |(key, value): (&str, &str)| !known.contains(&key) && !matches!(value, "null" | "[]");
        self.object.fields().any(more).then(|| self.whole().to_json())
    }

    fn whole(&self) -> RawObject {
        let mut whole = self.object.clone();
        if !self.input.is_empty()
            && let Some(input) = raw::value(&self.input)
        {
            whole.set("input", input);
        }
        whole
    }
}
