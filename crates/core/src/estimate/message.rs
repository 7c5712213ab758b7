//! Tokens of messages, tools and media: text estimates plus the framing around texts.

use super::{MessageTokenCounter, TokensByScript};
use crate::message::{MediaPart, Message, Part, ReasoningPart, Role, ToolResult, ToolSpec};

/// Tokens that open the answer, once per request (OpenAI cookbook, "How to count tokens with tiktoken").
#[doc(hidden)]
pub const REPLY_PRIMING_TOKENS: u64 = 3;

/// The largest count of a document, in tokens. Providers charge by page, and a request holds about a hundred pages of
/// at most 3,000 tokens.
const DOCUMENT_CAP_TOKENS: u64 = 300_000;

/// Tokens of one message by kind. The fields add up to the whole message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MessageTokenBreakdown {
    /// Tokens of text, and of provider blocks that have no type here.
    pub text: u64,
    /// Tokens of tool calls: names, arguments, framing.
    pub tool_calls: u64,
    /// Tokens of the text of tool results, and of their framing.
    pub tool_results: u64,
    /// Tokens of reasoning.
    pub reasoning: u64,
    /// Tokens of pictures and files, also inside tool results.
    pub media: u64,
    /// Tokens of the template around the message.
    pub framing: u64,
}

impl MessageTokenBreakdown {
    /// Returns the sum of all fields, equal to [`MessageTokenCounter::message`].
    pub fn total(&self) -> u64 {
        self.text + self.tool_calls + self.tool_results + self.reasoning + self.media + self.framing
    }

    fn count(&mut self, part: &Part, counter: &MessageTokenCounter) {
        match part {
            Part::Text(_) | Part::Opaque(_) => self.text += counter.part(part),
            Part::Reasoning(_) => self.reasoning += counter.part(part),
            Part::ToolCall(_) => self.tool_calls += counter.part(part),
            Part::ToolResult(result) => self.count_result(result, counter),
            Part::Image(_) | Part::File(_) => self.media += counter.part(part),
        }
    }

    fn count_result(&mut self, result: &ToolResult, counter: &MessageTokenCounter) {
        self.tool_results += counter.framing().result;
        for part in &result.content {
            match part {
                Part::Image(_) | Part::File(_) => self.media += counter.part(part),
                _ => self.tool_results += counter.part(part),
            }
        }
    }
}

/// Counts of messages, parts and tools.
impl MessageTokenCounter {
    /// Returns the tokens of a message with framing and reasoning, by group.
    pub fn message_groups(&self, message: &Message) -> TokensByScript {
        let parts: TokensByScript = message.parts.iter().map(|part| self.part_groups(part)).sum();
        parts + TokensByScript::of_framing(self.around(message), messages(message))
    }

    /// Returns the tokens of a message with framing and reasoning.
    pub fn message(&self, message: &Message) -> u64 {
        self.message_groups(message).total()
    }

    /// Returns the tokens of a message by kind of content.
    pub fn breakdown(&self, message: &Message) -> MessageTokenBreakdown {
        let mut sum =
            MessageTokenBreakdown { framing: self.around(message), ..MessageTokenBreakdown::default() };
        for part in &message.parts {
            sum.count(part, self);
        }
        sum
    }

    fn around(&self, message: &Message) -> u64 {
        self.framing().message * messages(message)
    }

    /// Returns the tokens of one part by group. The framing of a tool call or result is included, the framing of the
    /// message is not.
    pub fn part_groups(&self, part: &Part) -> TokensByScript {
        let texts = self.text_counter();
        match part {
            Part::Text(said) => texts.groups(&said.text),
            Part::Reasoning(reasoning) => self.reasoning_groups(reasoning),
            Part::ToolCall(call) => {
                let framing = TokensByScript::of(self.framing().call);
                texts.groups(&call.name) + texts.groups(&call.arguments) + framing
            }
            Part::ToolResult(result) => {
                let content: TokensByScript = result.content.iter().map(|part| self.part_groups(part)).sum();
                content + TokensByScript::of(self.framing().result)
            }
            Part::Image(media) => TokensByScript::of(self.images().tokens(media.width, media.height)),
            Part::File(media) => TokensByScript::of(file_tokens(media)),
            // A block without a type here is sent back byte for byte, so its JSON is its content.
            Part::Opaque(opaque) => texts.groups(opaque.native.as_str()),
        }
    }

    /// Returns the tokens of one part with the part's own framing, without the message's.
    pub fn part(&self, part: &Part) -> u64 {
        self.part_groups(part).total()
    }

    /// Returns the tokens of reasoning by group. Reasoning without readable text is encrypted: base64 with three
    /// bytes in four characters, at four bytes for each token.
    fn reasoning_groups(&self, reasoning: &ReasoningPart) -> TokensByScript {
        match &reasoning.native {
            Some(native) if reasoning.text.is_empty() => {
                // The encrypted item is sent back, and the server charges for the reasoning inside.
                TokensByScript::of((native.as_str().len() as u64 * 3).div_ceil(16))
            }
            _ => self.text_counter().groups(&reasoning.text),
        }
    }

    /// Returns the tokens of a tool's definition.
    pub fn tool(&self, tool: &ToolSpec) -> u64 {
        let schema = self.text(tool.parameters.as_str()) * self.framing().schema_percent;
        self.text(&tool.name) + self.text(&tool.description) + schema.div_ceil(100) + self.framing().tool
    }
}

/// Returns the number of messages on the wire, where each tool result is a separate message.
fn messages(message: &Message) -> u64 {
    match message.role {
        Role::Tool => (message.parts.len() as u64).max(1),
        Role::User | Role::Assistant => 1,
    }
}

/// [`MessageTokenCounter::message`] by the structured estimate.
pub fn message_tokens(message: &Message) -> u64 {
    MessageTokenCounter::structured().message(message)
}

/// [`MessageTokenCounter::part`] by the structured estimate.
pub fn part_tokens(part: &Part) -> u64 {
    MessageTokenCounter::structured().part(part)
}

/// [`MessageTokenCounter::tool`] by the structured estimate.
pub fn tool_tokens(tool: &ToolSpec) -> u64 {
    MessageTokenCounter::structured().tool(tool)
}

/// Returns the tokens of a file: a quarter of its bytes. Binary documents are charged by page, so their count stops
/// at 300,000, more than a request may hold.
pub(crate) fn file_tokens(media: &MediaPart) -> u64 {
    let tokens = media.blob.bytes.div_ceil(4);
    if media.is_text() { tokens } else { tokens.min(DOCUMENT_CAP_TOKENS) }
}
