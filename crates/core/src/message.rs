//! Messages and their parts: the neutral view of a conversation, with the provider's own bytes beside it.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::ids::{CallId, MessageId};

/// One JSON value, byte for byte as somebody else wrote it.
///
/// Stored as text inside our own JSON, so that numbers, escapes, key order and duplicate keys survive.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RawJson(pub String);

impl RawJson {
    /// The bytes as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for RawJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// A person, or the runtime speaking to the model in a person's place (summary, note).
    User,
    /// The model.
    Assistant,
    /// A tool's answer to one call.
    Tool,
}

/// Which model wrote a message, and over which wire: native parts are sent back to no other.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ModelOrigin {
    /// The provider as configured, for example `openai-compatible`.
    pub provider: String,
    /// The wire format, for example `openai-chat`.
    pub api: String,
    /// The model's name.
    pub model: String,
}

/// One message: an author and parts in order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Its name.
    pub id: MessageId,
    /// Who speaks.
    pub role: Role,
    /// What is said, in order.
    pub parts: Vec<Part>,
    /// Which model wrote it (assistant messages).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<ModelOrigin>,
}

/// A piece of a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum Part {
    /// Plain text.
    Text(TextPart),
    /// The model's reasoning.
    Reasoning(ReasoningPart),
    /// A request of the model to run a tool.
    ToolCall(ToolCall),
    /// A tool's answer.
    ToolResult(ToolResult),
    /// A picture, stored as a blob.
    Image(MediaPart),
    /// A file, stored as a blob.
    File(MediaPart),
    /// A provider's block we do not model: kept, and sent back to the provider that made it.
    Opaque(OpaquePart),
}

/// Text, with the provider's own item beside it if it had one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TextPart {
    /// The text.
    pub text: String,
    /// The provider's item, byte for byte.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub native: Option<RawJson>,
}

/// Reasoning: what may be shown of it, and the item that proves it to its provider.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReasoningPart {
    /// The readable part; empty for encrypted or redacted reasoning.
    pub text: String,
    /// The provider's item (signature, encrypted content, id), byte for byte.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub native: Option<RawJson>,
}

/// A tool call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Our name of the call, unique in the session.
    pub call_id: CallId,
    /// The tool.
    pub name: String,
    /// The arguments exactly as the model wrote them: one JSON object, or (if the model erred) anything.
    pub arguments: String,
    /// The provider's name of the call, if it gave one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_id: Option<String>,
    /// The provider's item, byte for byte.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub native: Option<RawJson>,
}

impl ToolCall {
    /// Replaces arguments that say nothing by an empty object.
    pub fn settle_arguments(&mut self) {
        if given_arguments(&self.arguments) != self.arguments {
            self.arguments = NO_ARGUMENTS.to_owned();
        }
    }
}

/// The arguments of a call that has none.
const NO_ARGUMENTS: &str = "{}";

/// Returns a call's arguments, or `{}` where they say nothing. Models and servers write nothing, blanks, `null` or an
/// empty string for a call without arguments; most servers refuse to read those again.
///
/// ```
/// use longhaul_core::message::given_arguments;
/// assert_eq!(["", " \n", "null", "\"\"", "{}"].map(given_arguments), ["{}"; 5]);
/// assert_eq!(given_arguments("[1]"), "[1]");
/// ```
pub fn given_arguments(written: &str) -> &str {
    let is_nothing = match written.trim() {
        "" | "null" => true,
        quoted => quoted
            .strip_prefix('"')
            .and_then(|text| text.strip_suffix('"'))
            .is_some_and(|text| text.trim().is_empty()),
    };
    if is_nothing { NO_ARGUMENTS } else { written }
}

/// Returns whether arguments that have come so far may still turn out to say nothing.
pub fn may_be_no_arguments(begun: &str) -> bool {
    let begun = begun.trim();
    let is_blank_text =
        || begun.strip_prefix('"').is_some_and(|text| text.trim_end_matches('"').trim().is_empty());
    "null".starts_with(begun) || is_blank_text()
}

/// How a tool call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ToolStatus {
    /// It did what was asked.
    Completed,
    /// It ran, or refused to run, and reports an error.
    Error,
    /// It was cancelled or denied by a person.
    Cancelled,
    /// The process ended while it ran: whether it took effect is unknown.
    Interrupted,
}

/// A tool's answer to one call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolResult {
    /// The call it answers.
    pub call_id: CallId,
    /// How the call ended.
    pub status: ToolStatus,
    /// What the tool gave: text, images, files. At most one of them is truncated text, the first.
    pub content: Vec<Part>,
    /// If the text was too long for the model: what was left out, and where it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub truncated: Option<OutputTruncation>,
}

/// What was left out of a text.
///
/// The text that stays is `head + tail`; `head_bytes` is where the marker goes when the view is built (the
/// handle in it is the result's own position in the log, known only once it is stored).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OutputTruncation {
    /// Where the marker goes: a byte offset into the kept text, on a character boundary.
    pub head_bytes: usize,
    /// Characters left out.
    pub omitted_chars: u64,
    /// Characters of the whole output.
    pub total_chars: u64,
    /// The whole output, or as much of it as the quota allowed.
    pub blob: BlobRef,
    /// Bytes of the output that were beyond the blob limit and are gone.
    #[serde(default)]
    pub lost_bytes: u64,
}

/// Content addressed by its hash.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BlobRef {
    /// BLAKE3 of the content, 64 hexadecimal digits.
    pub hash: String,
    /// Length of the content.
    pub bytes: u64,
}

impl fmt::Display for BlobRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "@blob:{}", self.hash)
    }
}

/// A picture or a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MediaPart {
    /// The content.
    pub blob: BlobRef,
    /// Its MIME type, for example `image/png`.
    pub media_type: String,
    /// File name, if it had one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Width in pixels, for pictures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub width: Option<u32>,
    /// Height in pixels, for pictures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub height: Option<u32>,
}

/// Media types that are text, beside `text/*`, `*+json` and `*+xml`.
const TEXTS: [&str; 6] = [
    "application/javascript",
    "application/json",
    "application/toml",
    "application/x-yaml",
    "application/xml",
    "application/yaml",
];

impl MediaPart {
    /// The media type without its parameters, in lower case.
    pub fn kind(&self) -> String {
        self.media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
    }

    /// Returns whether its content is text: shown to every model as such.
    pub fn is_text(&self) -> bool {
        let kind = self.kind();
        let is_named = TEXTS.contains(&kind.as_str());
        is_named || kind.starts_with("text/") || kind.ends_with("+json") || kind.ends_with("+xml")
    }
}

/// A provider's block we do not model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpaquePart {
    /// The provider's name of the kind, for example `server_tool_use`.
    pub kind: String,
    /// The block, byte for byte.
    pub native: RawJson,
}

impl Part {
    /// A text part without a native item.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(TextPart { text: text.into(), native: None })
    }

    /// The text, if this is a text part.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(&text.text),
            _ => None,
        }
    }
}

impl Message {
    /// A user message.
    pub fn user(id: impl Into<MessageId>, parts: Vec<Part>) -> Self {
        Self { id: id.into(), role: Role::User, parts, origin: None }
    }

    /// The tool calls, in order.
    pub fn tool_calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.parts.iter().filter_map(|part| match part {
            Part::ToolCall(call) => Some(call),
            _ => None,
        })
    }

    /// All text parts, joined without separators.
    pub fn text(&self) -> String {
        self.parts.iter().filter_map(Part::as_text).collect()
    }
}

/// Why a model stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ModelStopReason {
    /// It had said what it wanted to say.
    Stop,
    /// It asks for tools.
    ToolCalls,
    /// It ran into the output limit, or into the end of its window.
    Length,
    /// The model refused, in words of its own, or its provider withheld the answer.
    ContentFilter,
    /// Something else, kept in the provider's item.
    Other,
}

/// What one finished model call gave.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelAnswer {
    /// The parts of the assistant message, in the provider's order.
    pub parts: Vec<Part>,
    /// Why the model stopped.
    pub finish: ModelStopReason,
    /// What the provider reported, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<crate::usage::Usage>,
    /// What the provider said of the answer as a whole (its id, its own word for the end, containers), byte for
    /// byte where it came as one object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub envelope: Option<RawJson>,
}

/// A tool as the model is told of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolSpec {
    /// Its name.
    pub name: String,
    /// What it does, for the model.
    pub description: String,
    /// JSON Schema of its arguments, byte for byte as it is sent.
    pub parameters: RawJson,
    /// Whether it changes nothing: such tools run in parallel and need no approval by default.
    #[serde(default)]
    pub read_only: bool,
    /// Whether repeating it with the same result is its purpose (exempt from loop detection).
    #[serde(default)]
    pub poll: bool,
    /// Where it comes from: `builtin`, or the name of an MCP server.
    pub source: String,
}
