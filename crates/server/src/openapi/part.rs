//! Parts of messages.
#![expect(
    dead_code,
    reason = "shapes that are described, never held; the tests compare them with what is answered"
)]

use utoipa::ToSchema;

/// The content of a message: a text, or a list of parts.
#[derive(ToSchema)]
#[serde(untagged)]
#[schema(as = Content)]
pub(crate) enum MessageContentSchema {
    Text(String),
    Parts(Vec<ClientPartSchema>),
}

/// A part as a client sends it.
#[derive(ToSchema)]
#[serde(tag = "type", rename_all = "kebab-case")]
#[schema(as = GivenPart)]
pub(crate) enum ClientPartSchema {
    Text {
        text: String,
    },
    #[schema(title = "GivenImage")]
    Image(ClientMediaSchema),
    #[schema(title = "GivenFile")]
    File(ClientMediaSchema),
}

/// Content with either `data` or `blob`.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = GivenMedia)]
pub(crate) struct ClientMediaSchema {
    /// The bytes, in base64.
    data: Option<String>,
    /// The hash of uploaded content, or the whole reference.
    blob: Option<ClientBlobRefSchema>,
    /// The media type. Without it, the server detects it from the content.
    media_type: Option<String>,
    /// The file's name. `filename` is accepted as well.
    name: Option<String>,
}

#[derive(ToSchema)]
#[serde(untagged)]
#[schema(as = GivenBlob)]
pub(crate) enum ClientBlobRefSchema {
    Hash(String),
    Whole(BlobRefSchema),
}

/// The hash of stored content.
#[derive(ToSchema)]
#[schema(as = BlobRef)]
pub(crate) struct BlobRefSchema {
    /// BLAKE3, 64 hexadecimal digits.
    hash: String,
    bytes: u64,
}

/// The role of a message.
#[derive(ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = Role)]
pub(crate) enum RoleSchema {
    User,
    Assistant,
    Tool,
}

/// A part of a message.
#[derive(ToSchema)]
#[serde(tag = "type", rename_all = "kebab-case")]
#[schema(as = Part)]
pub(crate) enum PartSchema {
    Text {
        text: String,
        /// The text as safe HTML, if the request asked for it.
        html: Option<String>,
        /// The provider's own item, as JSON.
        native: Option<String>,
    },
    Reasoning {
        text: String,
        native: Option<String>,
    },
    ToolCall {
        call_id: String,
        name: String,
        /// JSON, as the model wrote it.
        arguments: String,
        provider_id: Option<String>,
        native: Option<String>,
    },
    ToolResult {
        call_id: String,
        status: ToolOutcomeSchema,
        #[schema(no_recursion)]
        content: Vec<PartSchema>,
        truncated: Option<TruncationSchema>,
    },
    #[schema(title = "ImagePart")]
    Image(MediaSchema),
    #[schema(title = "FilePart")]
    File(MediaSchema),
    /// A provider's own item.
    Opaque {
        kind: String,
        native: String,
    },
}

/// The outcome of a tool call.
#[derive(ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = Outcome)]
pub(crate) enum ToolOutcomeSchema {
    Completed,
    Error,
    Cancelled,
    Interrupted,
}

/// The part of a tool result that the model sees. The blob has the whole.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Truncation)]
pub(crate) struct TruncationSchema {
    head_bytes: u64,
    omitted_chars: u64,
    total_chars: u64,
    blob: BlobRefSchema,
    lost_bytes: u64,
}

/// Stored content with its media type and name.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Media)]
pub(crate) struct MediaSchema {
    blob: BlobRefSchema,
    media_type: String,
    name: Option<String>,
    /// In pixels.
    width: Option<u32>,
    height: Option<u32>,
}

/// The provider, API and name of a model.
#[derive(ToSchema)]
#[schema(as = Origin)]
pub(crate) struct ModelOriginSchema {
    provider: String,
    api: String,
    model: String,
}

/// Tokens.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TokenUsage {
    /// All input tokens, cache reads and writes included.
    input_tokens: u64,
    output_tokens: u64,
    reasoning_tokens: u64,
    cache_read_tokens: u64,
    cache_write_tokens: u64,
    total_tokens: u64,
}
