//! Parts of messages.
#![expect(
    dead_code,
    reason = "shapes that are described, never held; the tests compare them with what is answered"
)]

use utoipa::ToSchema;

/// A message's content: a text, or a list of parts.
#[derive(ToSchema)]
#[serde(untagged)]
#[schema(as = Content)]
pub(crate) enum MessageContentSchema {
    Text(String),
    Parts(Vec<ClientPartSchema>),
}

/// A part as a client gives it.
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
    /// The hash of what was uploaded, or the whole reference.
    blob: Option<ClientBlobRefSchema>,
    /// Found out by the content if it is left out.
    media_type: Option<String>,
    /// The file's name; `filename` is taken too.
    name: Option<String>,
}

#[derive(ToSchema)]
#[serde(untagged)]
#[schema(as = GivenBlob)]
pub(crate) enum ClientBlobRefSchema {
    Hash(String),
    Whole(BlobRefSchema),
}

/// The name of stored content.
#[derive(ToSchema)]
#[schema(as = BlobRef)]
pub(crate) struct BlobRefSchema {
    /// BLAKE3, 64 hexadecimal digits.
    hash: String,
    bytes: u64,
}

/// Who writes.
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
        /// Markup that is safe to show, where it was asked for.
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
    /// Something of the provider's own.
    Opaque {
        kind: String,
        native: String,
    },
}

/// How a tool ended.
#[derive(ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = Outcome)]
pub(crate) enum ToolOutcomeSchema {
    Completed,
    Error,
    Cancelled,
    Interrupted,
}

/// How much of a result the model is shown; the blob has the rest.
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

/// Stored content and what it is.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Media)]
pub(crate) struct MediaSchema {
    blob: BlobRefSchema,
    media_type: String,
    name: Option<String>,
    /// Pixels.
    width: Option<u32>,
    height: Option<u32>,
}

/// Who serves a model.
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
    /// With what was read from and written to the cache.
    input_tokens: u64,
    output_tokens: u64,
    reasoning_tokens: u64,
    cache_read_tokens: u64,
    cache_write_tokens: u64,
    total_tokens: u64,
}
