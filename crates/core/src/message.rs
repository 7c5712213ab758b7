//! Messages and parts: the neutral view of a conversation, with the provider's own bytes beside it.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::ids::{CallId, MessageId};

/// One JSON value, byte for byte as written by the author.
///
/// The log stores the value as text within the event's JSON, so that numbers, escapes, key order and duplicate
/// keys survive.
// Not `serde_json::Value`, which changes numbers and escapes, and not `RawValue`, which internally tagged enums
// cannot read (decision 0002).
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RawJson(pub String);

impl RawJson {
    /// Returns the bytes as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for RawJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the derived form's escapes, JSON in a failed assertion stays readable.
        f.write_str(&self.0)
    }
}

/// The author of a message.
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
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

/// The model that wrote a message, and the wire. Native parts are sent back to no other model.
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
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
    /// The message's name.
    pub id: MessageId,
    /// The author of the message.
    pub role: Role,
    /// The content of the message, in order.
    pub parts: Vec<Part>,
    /// The model that wrote the message (assistant messages only).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<ModelOrigin>,
}

/// A piece of a message.
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
#[non_exhaustive]
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
    /// A provider's block without a type in this crate. The block is kept and sent back only to its provider.
    Opaque(OpaquePart),
}

/// Text, with the provider's own item beside if there was one.
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TextPart {
    /// The text.
    pub text: String,
    /// The provider's item, byte for byte.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub native: Option<RawJson>,
}

/// Reasoning: the part that may be shown, and the item for the provider's own verification.
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReasoningPart {
    /// The readable part; empty for encrypted or redacted reasoning.
    pub text: String,
    /// The provider's item (signature, encrypted content, id), byte for byte.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub native: Option<RawJson>,
}

/// A tool call.
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The call's name in this project, unique in the session.
    pub call_id: CallId,
    /// The tool.
    pub name: String,
    /// The arguments exactly as written by the model: one JSON object, or any text if the model erred.
    pub arguments: String,
    /// The provider's name of the call, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_id: Option<String>,
    /// The provider's item, byte for byte.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub native: Option<RawJson>,
}

impl ToolCall {
    /// Replaces empty or meaningless arguments by an empty object.
    pub fn settle_arguments(&mut self) {
        // Arguments with content keep their bytes, on which a provider's prompt cache rests.
        if given_arguments(&self.arguments) != self.arguments {
            self.arguments = NO_ARGUMENTS.to_owned();
        }
    }
}

/// The arguments of a call that has none.
const NO_ARGUMENTS: &str = "{}";

/// Returns a call's arguments, or `{}` if they have no content. Models and servers write nothing, blanks, `null` or
/// an empty string for a call without arguments. Most servers refuse to read those forms again.
///
/// ```
/// use longhaul_core::message::given_arguments;
/// assert_eq!(["", " \n", "null", "\"\"", "{}"].map(given_arguments), ["{}"; 5]);
/// assert_eq!(given_arguments("[1]"), "[1]");
/// ```
#[doc(hidden)]
pub fn given_arguments(written: &str) -> &str {
    // The forms are compared as text, because broken JSON must pass unchanged.
    let is_nothing = match written.trim() {
        "" | "null" => true,
        quoted => quoted
            .strip_prefix('"')
            .and_then(|text| text.strip_suffix('"'))
            .is_some_and(|text| text.trim().is_empty()),
    };
    if is_nothing { NO_ARGUMENTS } else { written }
}

/// Returns whether partial arguments may still turn out to have no content.
#[doc(hidden)]
pub fn may_be_no_arguments(begun: &str) -> bool {
    // A stream gives the arguments in pieces, and a piece that was passed on cannot be taken back.
    let begun = begun.trim();
    // A quotation mark that is still open may close around nothing but blanks.
    let text = begun.strip_prefix('"').map(|text| text.trim_end_matches('"').trim());
    "null".starts_with(begun) || text.is_some_and(str::is_empty)
}

/// The outcome of a tool call.
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ToolStatus {
    /// The tool did its work.
    Completed,
    /// The tool ran, or refused to run, and reports an error.
    Error,
    /// The call was cancelled or denied by a person.
    Cancelled,
    /// The process ended while the tool ran, and it is unknown whether the call took effect.
    Interrupted,
}

/// A tool's answer to one call.
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolResult {
    /// The call that this result answers.
    pub call_id: CallId,
    /// The outcome of the call.
    pub status: ToolStatus,
    /// The output of the tool: text, images, files. At most one part is truncated text: the first.
    pub content: Vec<Part>,
    /// The truncation of the text, if the text was too long for the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub truncated: Option<OutputTruncation>,
}

/// The truncation of a text: the place and the size of the omitted part.
///
/// The kept text is `head + tail`, and the marker is inserted at `head_bytes` when the view is built. The marker
/// contains the result's own position in the log, which is known only once the result is stored.
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OutputTruncation {
    /// The place of the marker: a byte offset into the kept text, on a character boundary.
    pub head_bytes: usize,
    /// The number of characters left out.
    pub omitted_chars: u64,
    /// The number of characters in the whole output.
    pub total_chars: u64,
    /// The whole output, or as much as the quota allowed.
    pub blob: BlobRef,
    /// The bytes of the output that were beyond the blob limit and are lost.
    #[serde(default)]
    pub lost_bytes: u64,
}

/// Content addressed by hash.
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BlobRef {
    /// BLAKE3 of the content, 64 hexadecimal digits.
    pub hash: String,
    /// The length of the content in bytes.
    pub bytes: u64,
}

impl fmt::Display for BlobRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "@blob:{}", self.hash)
    }
}

/// A picture or a file.
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MediaPart {
    /// The content of the picture or file.
    pub blob: BlobRef,
    /// The MIME type of the content, for example `image/png`.
    pub media_type: String,
    /// The file name, if the file had one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The width in pixels, for pictures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub width: Option<u32>,
    /// The height in pixels, for pictures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub height: Option<u32>,
}

/// Media types that count as text, besides `text/*`, `*+json` and `*+xml`.
const TEXTS: [&str; 6] = [
    "application/javascript",
    "application/json",
    "application/toml",
    "application/x-yaml",
    "application/xml",
    "application/yaml",
];

impl MediaPart {
    /// Returns the media type without parameters, in lower case.
    pub fn kind(&self) -> String {
        self.media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
    }

    /// Returns whether the content is text. Text is shown to every model as such.
    pub fn is_text(&self) -> bool {
        let kind = self.kind();
        let is_named = TEXTS.contains(&kind.as_str());
        is_named || kind.starts_with("text/") || kind.ends_with("+json") || kind.ends_with("+xml")
    }
}

/// A provider's block that this crate does not model.
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpaquePart {
    /// The provider's name of the kind, for example `server_tool_use`.
    pub kind: String,
    /// The block, byte for byte.
    pub native: RawJson,
}

/// Adds the blobs that the parts name, those of nested results included.
#[doc(hidden)]
pub fn collect_blobs<'p>(parts: &'p [Part], named: &mut Vec<&'p BlobRef>) {
    for part in parts {
        // Every kind is listed, so that a new kind does not compile until its author has looked for its blobs.
        match part {
            Part::Image(media) | Part::File(media) => named.push(&media.blob),
            Part::ToolResult(result) => result.collect_blobs(named),
            Part::Text(_) | Part::Reasoning(_) | Part::ToolCall(_) | Part::Opaque(_) => {}
        }
    }
}

impl ToolResult {
    /// Adds the blobs of the result: its media, and the whole output of a shortened one.
    pub(crate) fn collect_blobs<'p>(&'p self, named: &mut Vec<&'p BlobRef>) {
        collect_blobs(&self.content, named);
        named.extend(self.truncated.as_ref().map(|truncation| &truncation.blob));
    }
}

impl Part {
    /// Creates a text part without a native item.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(TextPart { text: text.into(), native: None })
    }

    /// Returns the text, if this is a text part.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(&text.text),
            _ => None,
        }
    }
}

impl Message {
    /// Creates a user message.
    pub fn user(id: impl Into<MessageId>, parts: Vec<Part>) -> Self {
        Self { id: id.into(), role: Role::User, parts, origin: None }
    }

    /// Returns the tool calls of the message, in order.
    pub fn tool_calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.parts.iter().filter_map(|part| match part {
            Part::ToolCall(call) => Some(call),
            _ => None,
        })
    }

    /// Returns the text of all text parts, joined without separators.
    pub fn text(&self) -> String {
        self.parts.iter().filter_map(Part::as_text).collect()
    }
}

/// The reason why a model stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum ModelStopReason {
    /// The model ended the answer.
    Stop,
    /// The model asks for tools.
    ToolCalls,
    /// The model reached the output limit, or the end of the window.
    Length,
    /// The model refused in words, or the provider withheld the answer.
    ContentFilter,
    /// Another reason, kept in the provider's item.
    Other,
}

/// The answer of one finished model call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelAnswer {
    /// The parts of the assistant message, in the provider's order.
    pub parts: Vec<Part>,
    /// The reason why the model stopped.
    pub finish: ModelStopReason,
    /// The usage that the provider reported, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<crate::usage::Usage>,
    /// The provider's data on the answer as a whole (the answer's id, the provider's own stop reason,
    /// containers). Data that came as one object is kept byte for byte.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub envelope: Option<RawJson>,
}

/// A tool as described to the model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolSpec {
    /// The tool's name.
    pub name: String,
    /// The tool's purpose, for the model.
    pub description: String,
    /// The JSON Schema of the arguments, byte for byte as sent.
    pub parameters: RawJson,
    /// `true` if the tool changes nothing. Such tools run in parallel and need no approval by default.
    #[serde(default)]
    pub read_only: bool,
    /// `true` if repeated calls with the same result are the tool's purpose (exempt from loop detection).
    #[serde(default)]
    pub poll: bool,
    /// The origin of the tool: `builtin`, or the name of an MCP server.
    pub source: String,
}
