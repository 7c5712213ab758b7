//! Parts of messages.
#![expect(
    dead_code,
    reason = "shapes that are described, never held; the tests compare them with what is answered"
)]

use utoipa::ToSchema;

/// A message's content: a text, or a list of parts.
#[derive(ToSchema)]
#[serde(untagged)]
pub(crate) enum Content {
    Text(String),
    Parts(Vec<GivenPart>),
}

/// A part as a client gives it.
#[derive(ToSchema)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub(crate) enum GivenPart {
    Text {
        text: String,
    },
    #[schema(title = "GivenImage")]
    Image(GivenMedia),
    #[schema(title = "GivenFile")]
    File(GivenMedia),
}

/// Content with either `data` or `blob`.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct GivenMedia {
    /// The bytes, in base64.
    data: Option<String>,
    /// The hash of what was uploaded, or the whole reference.
    blob: Option<GivenBlob>,
    /// Found out by the content if it is left out.
    media_type: Option<String>,
    /// The file's name; `filename` is taken too.
    name: Option<String>,
}

#[derive(ToSchema)]
#[serde(untagged)]
pub(crate) enum GivenBlob {
    Hash(String),
    Whole(BlobRef),
}

/// The name of stored content.
#[derive(ToSchema)]
pub(crate) struct BlobRef {
    /// BLAKE3, 64 hexadecimal digits.
    hash: String,
    bytes: u64,
}

/// Who writes.
#[derive(ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Role {
    User,
    Assistant,
    Tool,
}

/// A part of a message.
#[derive(ToSchema)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub(crate) enum Part {
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
        status: Outcome,
        #[schema(no_recursion)]
        content: Vec<Part>,
        truncated: Option<Truncation>,
    },
    #[schema(title = "ImagePart")]
    Image(Media),
    #[schema(title = "FilePart")]
    File(Media),
    /// Something of the provider's own.
    Opaque {
        kind: String,
        native: String,
    },
}

/// How a tool ended.
#[derive(ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Outcome {
    Completed,
    Error,
    Cancelled,
    Interrupted,
}

/// How much of a result the model is shown; the blob has the rest.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Truncation {
    head_bytes: u64,
    omitted_chars: u64,
    total_chars: u64,
    blob: BlobRef,
    lost_bytes: u64,
}

/// Stored content and what it is.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Media {
    blob: BlobRef,
    media_type: String,
    name: Option<String>,
    /// Pixels.
    width: Option<u32>,
    height: Option<u32>,
}

/// Who serves a model.
#[derive(ToSchema)]
pub(crate) struct Origin {
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
