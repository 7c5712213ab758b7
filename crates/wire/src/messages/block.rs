//! A content block, put together from pieces.

use longhaul_core::message::{OpaquePart, Part, RawJson, ReasoningPart, TextPart, ToolCall};

use crate::raw_json::{self, RawObject};
use crate::{ModelEvent, ProviderError, surrogates};

/// The largest number of a block's growing fields. Known blocks have three.
const MAX_GROWN: usize = 64;

/// A content block, maybe unfinished.
#[derive(Debug)]
pub(super) struct PartialMessagesBlock {
    /// The block's index in the answer, as the provider counts.
    pub(super) index: u64,
    kind: String,
    /// The block's first object, with the fields replaced since.
    object: RawObject,
    /// The grown texts of the block, whole.
    grown: Vec<(String, String)>,
    /// The block's own bytes, as long as no piece was added.
    untouched: Option<RawJson>,
    /// Arguments so far, as text.
    input: String,
    /// Citations from pieces, in order.
    citations: Vec<String>,
    /// The index of the block among the answer's tool calls.
    pub(super) call: Option<usize>,
    pub(super) done: bool,
}

fn filled_text(object: &RawObject, key: &str) -> Option<String> {
    object.text(key).filter(|text| !text.is_empty())
}

impl PartialMessagesBlock {
    /// Creates a block with the beginning `json`. `None` if `json` is no object.
    pub(super) fn new(index: u64, json: &str) -> Option<Self> {
        let object = RawObject::parse(json)?;
        let kind = object.text("type").unwrap_or_default();
        let untouched = Some(RawJson(json.to_owned()));
        Some(Self {
            index,
            kind,
            object,
            grown: Vec::new(),
            untouched,
            input: String::new(),
            citations: Vec::new(),
            call: None,
            done: false,
        })
    }

    pub(super) fn is_call(&self) -> bool {
        self.kind == "tool_use"
    }

    /// Reports whether the block may grow for long without an event to show: withheld reasoning, or arguments in a
    /// single piece.
    pub(super) fn grows_unseen(&self) -> bool {
        !self.done && self.kind != "text"
    }

    /// Returns the event for the beginning of the block: most blocks begin empty.
    pub(super) fn begin(&self) -> Option<ModelEvent> {
        match (self.kind.as_str(), self.call) {
            ("text", _) => filled_text(&self.object, "text").map(ModelEvent::Text),
            ("thinking", _) => filled_text(&self.object, "thinking").map(ModelEvent::Reasoning),
            (_, Some(index)) => {
                Some(ModelEvent::ToolInput { index, name: self.object.text("name"), delta: String::new() })
            }
            _ => None,
        }
    }

    /// Returns the event for the end of the block: arguments outside of pieces.
    pub(super) fn end(&self) -> Option<ModelEvent> {
        // Some compatible servers send all arguments with the start of the block, and no delta.
        let index = self.call.filter(|_| self.input.is_empty())?;
        Some(ModelEvent::ToolInput { index, name: None, delta: self.arguments() })
    }

    /// Adds a piece. Known pieces are text, reasoning, signatures, arguments and citations; of others, strings are
    /// appended to the block's field of the same name, and anything else replaces the field.
    ///
    /// # Errors
    /// `third-party` for an unreadable known piece.
    pub(super) fn grow(&mut self, delta: &RawObject) -> Result<Option<ModelEvent>, ProviderError> {
        // The block's own bytes no longer tell everything once a piece was added.
        self.untouched = None;
        match delta.text("type").as_deref() {
            Some("input_json_delta") => {
                let piece: Option<String> = delta.content("partial_json")?;
                return Ok(piece.and_then(|piece| self.grow_input(&piece)));
            }
            Some("citations_delta") => self.cite(delta),
            // Other fields of a known piece (a running count of tokens) are no part of the block.
            Some("text_delta") => self.grow_only("text", delta)?,
            Some("thinking_delta") => self.grow_only("thinking", delta)?,
            Some("signature_delta") => self.grow_only("signature", delta)?,
            _ => delta
                .fields()
                .filter(|(key, _)| *key != "type")
                .for_each(|(key, value)| self.grow_field(key, value)),
        }
        Ok(match self.kind.as_str() {
            "text" => filled_text(delta, "text").map(ModelEvent::Text),
            "thinking" => filled_text(delta, "thinking").map(ModelEvent::Reasoning),
            _ => None,
        })
    }

    fn grow_input(&mut self, piece: &str) -> Option<ModelEvent> {
        self.input.push_str(piece);
        let index = self.call.filter(|_| !piece.is_empty())?;
        Some(ModelEvent::ToolInput { index, name: None, delta: piece.to_owned() })
    }

    fn grow_only(&mut self, key: &str, delta: &RawObject) -> Result<(), ProviderError> {
        if let Some(more) = delta.content::<String>(key)? {
            self.grow_text(key, &more);
        }
        Ok(())
    }

    fn grow_field(&mut self, key: &str, piece: &str) {
        match serde_json::from_str::<String>(piece) {
            Ok(more) => self.grow_text(key, &more),
            // Texts grow from piece to piece. A number or an object comes whole, and the newest one counts.
            Err(_) => self.replace(key, piece),
        }
    }

    fn replace(&mut self, key: &str, piece: &str) {
        // A replaced field starts empty, or the old text would be written over the new value.
        self.grown.retain(|(name, _)| name != key);
        if let Some(value) = raw_json::value(piece) {
            self.object.set(key, value);
        }
    }

    fn grow_text(&mut self, key: &str, more: &str) {
        // A hostile server could send a new field with every piece.
        let is_full = self.grown.len() >= MAX_GROWN;
        match self.grown.iter_mut().find(|(name, _)| name == key) {
            Some((_, text)) => text.push_str(more),
            None if !is_full => {
                let before = self.object.text(key).unwrap_or_default();
                self.grown.push((key.to_owned(), before + more));
            }
            None => {}
        }
    }

    fn text_of(&self, key: &str) -> Option<String> {
        let grown = self.grown.iter().find(|(name, _)| name == key);
        grown.map(|(_, text)| text.clone()).or_else(|| self.object.text(key))
    }

    fn cite(&mut self, delta: &RawObject) {
        let Some(citation) = delta.get("citation") else { return };
        if self.citations.is_empty() {
            self.citations = self.object.list("citations").iter().map(|one| one.get().to_owned()).collect();
            // A placeholder keeps the field's position. The list itself is written with the block.
            if let Some(list) = raw_json::value("[0]") {
                self.object.set("citations", list);
            }
        }
        self.citations.push(citation.to_owned());
    }

    /// Returns the block as a part. `None` for text and reasoning without content.
    pub(super) fn part(&self) -> Option<Part> {
        match self.kind.as_str() {
            "text" => self.text(),
            "thinking" | "redacted_thinking" => self.reasoning(),
            "tool_use" => Some(Part::ToolCall(self.tool_call())),
            _ => Some(Part::Opaque(OpaquePart { kind: self.kind.clone(), native: self.whole() })),
        }
    }

    fn text(&self) -> Option<Part> {
        let text = self.text_of("text").filter(|text| !text.is_empty())?;
        Some(Part::Text(TextPart { text, native: self.native_beyond(&["type", "text"]) }))
    }

    /// Returns the reasoning. Reasoning without signature was cut off: the provider would refuse such reasoning, so
    /// nothing is sent back.
    fn reasoning(&self) -> Option<Part> {
        let text = self.text_of("thinking").unwrap_or_default();
        let proof = if self.kind == "thinking" { "signature" } else { "data" };
        let proven = self.text_of(proof).is_some_and(|proof| !proof.is_empty());
        let native = proven.then(|| self.whole());
        (proven || !text.is_empty()).then_some(Part::Reasoning(ReasoningPart { text, native }))
    }

    fn tool_call(&self) -> ToolCall {
        // Some servers behind this API send calls without ids. A result needs one to refer to.
        let id = filled_text(&self.object, "id");
        let call_id = id.clone().unwrap_or_else(|| format!("call_{}", self.call.unwrap_or_default()));
        ToolCall {
            call_id: call_id.into(),
            name: self.object.text("name").unwrap_or_default(),
            arguments: self.arguments(),
            provider_id: id,
            native: self.native_beyond(&["type", "id", "name", "input"]),
        }
    }

    /// Returns the arguments, from pieces or from the beginning.
    fn arguments(&self) -> String {
        if self.input.is_empty() {
            return surrogates::in_arguments(self.object.get("input").unwrap_or("{}").to_owned());
        }
        surrogates::in_arguments(self.input.clone())
    }

    /// Returns the block itself if the block has content beyond the `known` fields.
    fn native_beyond(&self, known: &[&str]) -> Option<RawJson> {
        let has_more =
            // Servers send many fields as `null` or as an empty list, which say nothing.
            self.object.fields().any(|(key, value)| !known.contains(&key) && !matches!(value, "null" | "[]"));
        has_more.then(|| self.whole())
    }

    fn whole(&self) -> RawJson {
        // A signature may cover the exact bytes, so they are kept as long as possible.
        if let Some(untouched) = &self.untouched {
            return untouched.clone();
        }
        let mut whole = self.object.clone();
        if let Some(list) = raw_json::value(&format!("[{}]", self.citations.join(",")))
            && !self.citations.is_empty()
        {
            whole.set("citations", list);
        }
        for (key, text) in &self.grown {
            whole.set_text(key, text);
        }
        // Arguments that stop in the middle are no JSON. The block then keeps the `input` of its start.
        if let Some(input) = raw_json::value(&self.input) {
            whole.set("input", input);
        }
        whole.to_json()
    }
}
