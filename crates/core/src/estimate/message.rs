//! Messages, tools and media in tokens: text estimates plus the framing around them.

use super::text_tokens;
use crate::message::{Media, Message, Part, Reasoning, Role, ToolResult, ToolSpec};

/// Tokens around each message: three marks and its role (OpenAI cookbook, "How to count tokens with tiktoken").
pub const MESSAGE_FRAMING_TOKENS: u64 = 4;

/// Tokens that open the answer, once per request (same source).
pub const REPLY_PRIMING_TOKENS: u64 = 3;

/// Tokens of a picture whose size is not known: near the largest charge of the tile and patch rules.
pub const UNKNOWN_IMAGE_TOKENS: u64 = 1_600;

/// Tokens around a tool call. With a result's framing and its message about 24, as users of the API measure.
const CALL_FRAMING_TOKENS: u64 = 10;

/// Tokens around a tool result, beside its message's own.
const RESULT_FRAMING_TOKENS: u64 = 10;

/// Tokens around a function definition (OpenAI cookbook).
const TOOL_FRAMING_TOKENS: u64 = 10;

/// A schema is rendered shorter than its JSON: 63 tokens for 85 in the published example.
const SCHEMA_PERCENT: u64 = 75;

/// A document is charged by its pages, and requests hold about a hundred of them at up to 3,000 tokens.
const DOCUMENT_CAP_TOKENS: u64 = 300_000;

/// Tokens of one message by kind. The fields add up to the whole message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Breakdown {
    /// Text, and provider blocks we do not model.
    pub text: u64,
    /// Tool calls: names, arguments, framing.
    pub tool_calls: u64,
    /// Text of tool results, and their framing.
    pub tool_results: u64,
    /// Reasoning.
    pub reasoning: u64,
    /// Pictures and files, also those inside tool results.
    pub media: u64,
    /// What stands around the message.
    pub framing: u64,
}

impl Breakdown {
    /// All fields together: [`message_tokens`].
    pub fn total(&self) -> u64 {
        self.text + self.tool_calls + self.tool_results + self.reasoning + self.media + self.framing
    }

    fn count(&mut self, part: &Part) {
        match part {
            Part::Text(_) | Part::Opaque(_) => self.text += part_tokens(part),
            Part::Reasoning(_) => self.reasoning += part_tokens(part),
            Part::ToolCall(_) => self.tool_calls += part_tokens(part),
            Part::ToolResult(result) => self.count_result(result),
            Part::Image(_) | Part::File(_) => self.media += part_tokens(part),
        }
    }

    fn count_result(&mut self, result: &ToolResult) {
        self.tool_results += RESULT_FRAMING_TOKENS;
        for part in &result.content {
            match part {
                Part::Image(_) | Part::File(_) => self.media += part_tokens(part),
                _ => self.tool_results += part_tokens(part),
            }
        }
    }
}

/// Tokens of a message by kind.
pub fn breakdown(message: &Message) -> Breakdown {
    let framing = match message.role {
        // Each result is a message of its own on the wire.
        Role::Tool => MESSAGE_FRAMING_TOKENS * (message.parts.len() as u64).max(1),
        Role::User | Role::Assistant => MESSAGE_FRAMING_TOKENS,
    };
    let mut sum = Breakdown { framing, ..Breakdown::default() };
    for part in &message.parts {
        sum.count(part);
    }
    sum
}

/// Tokens of a message with its framing and its reasoning.
pub fn message_tokens(message: &Message) -> u64 {
    breakdown(message).total()
}

/// The part of [`message_tokens`] that is reasoning: to be subtracted where a provider drops it.
pub fn reasoning_tokens(message: &Message) -> u64 {
    message.parts.iter().filter(|part| matches!(part, Part::Reasoning(_))).map(part_tokens).sum()
}

/// Tokens of one part, with its own framing (a tool call's or result's) but not its message's.
pub fn part_tokens(part: &Part) -> u64 {
    match part {
        Part::Text(text) => text_tokens(&text.text),
        Part::Reasoning(reasoning) => reasoning_part_tokens(reasoning),
        Part::ToolCall(call) => text_tokens(&call.name) + text_tokens(&call.arguments) + CALL_FRAMING_TOKENS,
        Part::ToolResult(result) => {
            result.content.iter().map(part_tokens).sum::<u64>() + RESULT_FRAMING_TOKENS
        }
        Part::Image(media) => image_tokens(media.width, media.height),
        Part::File(media) => file_tokens(media),
        Part::Opaque(opaque) => text_tokens(opaque.native.as_str()),
    }
}

/// Reasoning without readable text is encrypted: base64, three bytes in four characters, four bytes a token.
fn reasoning_part_tokens(reasoning: &Reasoning) -> u64 {
    match &reasoning.native {
        Some(native) if reasoning.text.is_empty() => (native.as_str().len() as u64 * 3).div_ceil(16),
        _ => text_tokens(&reasoning.text),
    }
}

/// Tokens of a tool's definition.
pub fn tool_tokens(tool: &ToolSpec) -> u64 {
    let schema = text_tokens(tool.parameters.as_str()) * SCHEMA_PERCENT;
    text_tokens(&tool.name) + text_tokens(&tool.description) + schema.div_ceil(100) + TOOL_FRAMING_TOKENS
}

/// Tokens of a picture by OpenAI's tile rule: fit into 2048 × 2048, bring the short side down to 768, then 85
/// and 170 for each tile of 512 × 512. [`UNKNOWN_IMAGE_TOKENS`] if a side is unknown.
///
/// ```
/// use longhaul_core::estimate::image_tokens;
/// assert_eq!(image_tokens(Some(1024), Some(1024)), 765);
/// assert_eq!(image_tokens(Some(2048), Some(4096)), 1105);
/// ```
pub fn image_tokens(width: Option<u32>, height: Option<u32>) -> u64 {
    let (Some(width), Some(height)) = (width, height) else {
        return UNKNOWN_IMAGE_TOKENS;
    };
    let (long, short) = (u64::from(width.max(height)).max(1), u64::from(width.min(height)).max(1));
    let (long, short) = shrink(long, short, long, 2048);
    let (long, short) = shrink(long, short, short, 768);
    85 + 170 * long.div_ceil(512) * short.div_ceil(512)
}

/// Scales both sides so that `side` becomes at most `limit`.
fn shrink(long: u64, short: u64, side: u64, limit: u64) -> (u64, u64) {
    if side <= limit {
        return (long, short);
    }
    ((long * limit).div_ceil(side), (short * limit).div_ceil(side))
}

/// Tokens of a file: a quarter of its bytes. What is no text is charged by its pages, not its bytes: there the
/// count stops at 300,000, more than a request may hold.
pub fn file_tokens(media: &Media) -> u64 {
    let tokens = media.blob.bytes.div_ceil(4);
    if media.media_type.starts_with("text/") { tokens } else { tokens.min(DOCUMENT_CAP_TOKENS) }
}
