//! An unfinished output item, and the item's part, whole or cut off.

use longhaul_core::message::{OpaquePart, Part, RawJson, ReasoningPart, TextPart, ToolCall, given_arguments};

use crate::raw_json::{RawObject, quote};
use crate::{ModelEvent, surrogates};

/// An output item that is being written.
#[derive(Debug, Default)]
pub(super) struct PartialResponsesItem {
    /// The item's first object, as announced.
    head: RawObject,
    /// The provider's item, once it is whole.
    whole: Option<RawJson>,
    /// The streamed content: text, reasoning or arguments.
    pub(super) streamed: String,
    /// The index of the item among the response's calls.
    pub(super) call: Option<usize>,
}

impl PartialResponsesItem {
    pub(super) fn new(head: RawObject) -> Self {
        Self { head, ..Self::default() }
    }

    pub(super) fn head(&self) -> &RawObject {
        &self.head
    }

    pub(super) fn id(&self) -> Option<String> {
        self.head.text("id")
    }

    pub(super) fn is_call(&self) -> bool {
        matches!(self.kind().as_str(), "function_call" | "custom_tool_call")
    }

    pub(super) fn is_done(&self) -> bool {
        self.whole.is_some()
    }

    /// Takes the finished item: later copies of it may differ.
    pub(super) fn done(&mut self, native: &str) {
        if let Some(head) = RawObject::parse(native) {
            self.head = head;
            self.whole = Some(RawJson(native.to_owned()));
        }
    }

    /// Returns the event for an item that was not streamed but came whole.
    pub(super) fn unsaid(&self) -> Option<ModelEvent> {
        // What was streamed was shown already.
        if !self.streamed.is_empty() {
            return None;
        }
        match (self.part()?, self.call) {
            (Part::Text(text), _) => Some(ModelEvent::Text(text.text)),
            (Part::Reasoning(reasoning), _) if !reasoning.text.is_empty() => {
                Some(ModelEvent::Reasoning(reasoning.text))
            }
            (Part::ToolCall(call), Some(index)) => {
                Some(ModelEvent::ToolInput { index, name: None, delta: call.arguments })
            }
            _ => None,
        }
    }

    fn kind(&self) -> String {
        self.head.text("type").unwrap_or_default()
    }

    /// Returns the item as a part. `None` for items without content.
    pub(super) fn part(&self) -> Option<Part> {
        match self.kind().as_str() {
            "message" => self.message(),
            "reasoning" => self.reasoning(),
            "function_call" => {
                let mut part = self.tool_call(self.text_or_streamed("arguments"));
                if let Part::ToolCall(call) = &mut part {
                    mend_arguments(call);
                }
                Some(part)
            }
            "custom_tool_call" => {
                let input = self.text_or_streamed("input");
                Some(self.tool_call(format!(r#"{{"input":{}}}"#, quote(&input))))
            }
            _ => self.opaque(),
        }
    }

    fn message(&self) -> Option<Part> {
        let said: String =
            if self.is_done() { self.texts("content").concat() } else { self.streamed.clone() };
        (!said.is_empty()).then(|| Part::Text(TextPart { text: said, native: self.whole.clone() }))
    }

    fn reasoning(&self) -> Option<Part> {
        let text = match self.texts("summary") {
            // A summary that was cut off exists only in the deltas.
            _ if !self.is_done() => self.streamed.clone(),
            // OpenAI shows only a summary; servers of open models show the reasoning itself.
            summary if summary.is_empty() => self.texts("content").join("\n\n"),
            summary => summary.join("\n\n"),
        };
        (self.is_done() || !text.is_empty())
            .then(|| Part::Reasoning(ReasoningPart { text, native: self.whole.clone() }))
    }

    fn tool_call(&self, arguments: String) -> Part {
        let id = self.head.text("call_id").or(self.id()).unwrap_or_default();
        Part::ToolCall(ToolCall {
            call_id: id.as_str().into(),
            name: self.head.text("name").unwrap_or_default(),
            arguments,
            provider_id: Some(id),
            native: self.whole.clone(),
        })
    }

    fn opaque(&self) -> Option<Part> {
        // An unknown item that was cut off is of no use: it could not be sent back.
        let native = self.whole.clone()?;
        Some(Part::Opaque(OpaquePart { kind: self.kind(), native }))
    }

    fn text_or_streamed(&self, key: &str) -> String {
        // The head of an unfinished item may have an empty field, which must not hide the pieces.
        let whole = if self.is_done() { self.head.text(key) } else { None };
        whole.unwrap_or_else(|| self.streamed.clone())
    }

    /// Reports whether the model refuses in a field of its own.
    pub(super) fn refuses(&self) -> bool {
        let parts = self.head.list("content");
        let mut parts = parts.iter().filter_map(|part| RawObject::parse(part.get()));
        parts.any(|part| part.text("refusal").is_some_and(|words| !words.is_empty()))
    }

    /// Returns the texts of a list of content parts: `text`, or `refusal`.
    fn texts(&self, key: &str) -> Vec<String> {
        let parts = self.head.list(key);
        let parts = parts.iter().filter_map(|part| RawObject::parse(part.get()));
        parts.filter_map(|part| part.text("text").or(part.text("refusal"))).collect()
    }
}

/// Settles empty arguments and lone halves of characters, in the item too: the item is sent back unchanged, and servers
/// refuse such arguments.
fn mend_arguments(call: &mut ToolCall) {
    let written = std::mem::take(&mut call.arguments);
    call.arguments = surrogates::in_arguments(given_arguments(&written).to_owned());
    // Unchanged arguments leave the item as it is, byte for byte.
    if call.arguments == written {
        return;
    }
    if let Some(mut item) = call.native.as_ref().and_then(|native| RawObject::parse(native.as_str())) {
        item.set_text("arguments", &call.arguments);
        call.native = Some(item.to_json());
    }
}
