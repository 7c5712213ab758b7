//! Collection of a stream's events into a whole answer, and the events of a whole answer.

use bytes::Bytes;

use super::item::BorrowedMessagesBlock;
use crate::edit::AnswerEvents;
use crate::raw_json::{elements, field, fields, quote, string, text_field, with_field};
use crate::sse::SseEvent;

/// Returns the answer; `None` if the events end before the answer does.
pub(super) fn collect(events: &[Bytes]) -> Option<Bytes> {
    let mut answer = MessagesResponseCollector::default();
    for raw in events {
        answer.take(&SseEvent::parse(raw).data);
    }
    answer.finish().map(Bytes::from)
}

/// Returns a whole answer as the events of a stream. Each block comes whole, with its beginning.
pub(super) fn events(body: &str) -> Option<AnswerEvents> {
    let said = fields(body)?;
    let value = |name: &str| field(&said, name).unwrap_or("null");
    // An error is no content, and the end alone says why the answer has ended.
    let unset = [("content", "[]"), ("stop_reason", "null"), ("stop_sequence", "null"), ("error", "null")];
    let mut unset = unset.into_iter().filter(|(name, _)| *name != "error" || field(&said, name).is_some());
    let message =
        unset.try_fold(body.to_owned(), |message, (name, value)| with_field(&message, name, value))?;
    let mut content = vec![event("message_start", &format!(r#""message":{message}"#))];
    for (index, block) in elements(field(&said, "content")?)?.into_iter().enumerate() {
        let begun = format!(r#""index":{index},"content_block":{block}"#);
        content.push(event("content_block_start", &begun));
        content.push(event("content_block_stop", &format!(r#""index":{index}"#)));
    }
    let delta = format!(
        r#""delta":{{"stop_reason":{},"stop_sequence":{}}}"#,
        value("stop_reason"),
        value("stop_sequence")
    );
    let usage = field(&said, "usage").map(|usage| format!(r#","usage":{usage}"#)).unwrap_or_default();
    let end = vec![event("message_delta", &format!("{delta}{usage}")), event("message_stop", "")];
    Some(AnswerEvents { content, end })
}

/// Returns an event with these fields behind its type.
fn event(name: &str, fields: &str) -> Bytes {
    let comma = if fields.is_empty() { "" } else { "," };
    format!("event: {name}\ndata: {{\"type\":\"{name}\"{comma}{fields}}}\n\n").into()
}

#[derive(Default)]
struct MessagesResponseCollector {
    message: Option<String>,
    usage: Option<String>,
    blocks: Vec<CollectedBlock>,
    over: bool,
}

/// A block as begun, with the additions.
#[derive(Default)]
struct CollectedBlock {
    index: u64,
    raw: String,
    text: String,
    thinking: String,
    signature: String,
    input: String,
    citations: Vec<String>,
}

impl MessagesResponseCollector {
    fn take(&mut self, data: &str) -> Option<()> {
        let said = fields(data)?;
        let kind = field(&said, "type").and_then(string)?;
        match kind.as_str() {
            "message_start" => {
                let message = field(&said, "message")?;
                let usage = fields(message).and_then(|said| field(&said, "usage").map(str::to_owned));
                // A second start is a gateway's new attempt, which voids the first one.
                *self = Self { message: Some(message.to_owned()), usage, ..Self::default() };
            }
            "content_block_start" => {
                let index = field(&said, "index")?.parse().ok()?;
                let raw = field(&said, "content_block")?.to_owned();
                self.blocks.push(CollectedBlock { index, raw, ..CollectedBlock::default() });
            }
            "content_block_delta" => self.grow(field(&said, "index")?, field(&said, "delta")?)?,
            "message_delta" => {
                for (name, value) in fields(field(&said, "delta")?)? {
                    self.message = with_field(self.message.as_deref()?, &name, value);
                }
                // The last report may have fewer counts than the first one. The known counts stay then.
                for (name, value) in fields(field(&said, "usage").unwrap_or("{}"))? {
                    self.usage = with_field(self.usage.as_deref().unwrap_or("{}"), &name, value);
                }
            }
            "message_stop" => self.over = true,
            _ => {}
        }
        Some(())
    }

    fn grow(&mut self, index: &str, delta: &str) -> Option<()> {
        let index: u64 = index.parse().ok()?;
        let block = self.blocks.iter_mut().rev().find(|block| block.index == index)?;
        let delta = fields(delta)?;
        block.text.push_str(&text_field(&delta, "text").unwrap_or_default());
        block.thinking.push_str(&text_field(&delta, "thinking").unwrap_or_default());
        block.signature.push_str(&text_field(&delta, "signature").unwrap_or_default());
        block.input.push_str(&text_field(&delta, "partial_json").unwrap_or_default());
        block.citations.extend(field(&delta, "citation").map(str::to_owned));
        Some(())
    }

    fn finish(self) -> Option<String> {
        let message = self.message.filter(|_| self.over)?;
        let blocks: Vec<String> = self.blocks.into_iter().filter_map(CollectedBlock::finish).collect();
        let message = with_field(&message, "content", &format!("[{}]", blocks.join(",")))?;
        match self.usage {
            Some(usage) => with_field(&message, "usage", &usage),
            None => Some(message),
        }
    }
}

impl CollectedBlock {
    fn finish(self) -> Option<String> {
        let mut whole = self.raw.clone();
        let begun = BorrowedMessagesBlock::read(&self.raw)?;
        for (name, more) in [("text", self.text), ("thinking", self.thinking), ("signature", self.signature)]
        {
            if !more.is_empty() {
                let said = format!("{}{more}", begun.text(name).unwrap_or_default());
                whole = with_field(&whole, name, &quote(&said))?;
            }
        }
        // Unfinished arguments stay as far as they came, as the text that the model wrote.
        if !self.input.is_empty() {
            let is_json = fields(&self.input).is_some();
            let input = if is_json { self.input } else { quote(&self.input) };
            whole = with_field(&whole, "input", &input)?;
        }
        if !self.citations.is_empty() {
            let begun = field(&begun.fields, "citations").and_then(elements).unwrap_or_default();
            let all: Vec<&str> = begun.into_iter().chain(self.citations.iter().map(String::as_str)).collect();
            whole = with_field(&whole, "citations", &format!("[{}]", all.join(",")))?;
        }
        Some(whole)
    }
}
