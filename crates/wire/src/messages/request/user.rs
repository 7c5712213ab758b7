//! The encoder of a user's or a tool's message as content blocks.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use longhaul_core::message::{MediaPart, Part, ToolResult, ToolStatus};
use serde::Serialize;

use super::super::MessagesConfig;
use super::MessagesCacheControl;
use crate::{ModelRequest, UNSUPPORTED};

/// A content block of a user message.
#[derive(Debug, Serialize)]
pub(super) struct MessagesUserBlock<'a> {
    #[serde(flatten)]
    content: MessagesUserContent<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<MessagesCacheControl>,
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum MessagesUserContent<'a> {
    Text {
        text: Cow<'a, str>,
    },
    Image {
        source: MessagesMediaSource<'a>,
    },
    Document {
        source: MessagesMediaSource<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        title: Option<&'a str>,
    },
    ToolResult {
        tool_use_id: String,
        #[serde(skip_serializing_if = "MessagesResultContent::is_empty")]
        content: MessagesResultContent<'a>,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
    },
}

/// The content of a tool's result.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum MessagesResultContent<'a> {
    Blocks(Vec<MessagesUserContent<'a>>),
    /// The only text, for servers that take no lists of text blocks.
    Text(Cow<'a, str>),
}

impl MessagesResultContent<'_> {
    fn is_empty(&self) -> bool {
        matches!(self, Self::Blocks(blocks) if blocks.is_empty())
    }
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum MessagesMediaSource<'a> {
    Base64 { media_type: &'static str, data: String },
    Text { media_type: &'static str, data: &'a str },
    Url { url: &'a str },
}

impl<'a> MessagesUserBlock<'a> {
    pub(super) fn new(content: MessagesUserContent<'a>) -> Self {
        Self { content, cache_control: None }
    }

    pub(super) fn text(text: Cow<'a, str>) -> Self {
        Self::new(MessagesUserContent::Text { text })
    }

    /// Returns the text of a block of nothing but text.
    pub(super) fn plain_text(&self) -> Option<String> {
        match &self.content {
            MessagesUserContent::Text { text } => Some(text.clone().into_owned()),
            _ => None,
        }
    }

    /// Returns the block with a cache mark: the end of a prefix to be kept.
    pub(super) fn marked(mut self, mark: Option<MessagesCacheControl>) -> Self {
        self.mark(mark);
        self
    }

    /// Marks the block as the end of a prefix to be kept.
    pub(super) fn mark(&mut self, mark: Option<MessagesCacheControl>) {
        self.cache_control = mark;
    }
}

/// An encoder of the parts shown to the model.
#[derive(Clone, Copy)]
pub(super) struct MessagesUserEncoder<'a> {
    request: &'a ModelRequest,
    media: bool,
    /// `true` if a result of nothing but text is a text and no list.
    has_plain_texts: bool,
}

impl<'a> MessagesUserEncoder<'a> {
    pub(super) fn of(request: &'a ModelRequest, config: &MessagesConfig) -> Self {
        Self {
            request,
            media: config.settings.declared.images != Some(false),
            has_plain_texts: config.adaptations.has_plain_texts,
        }
    }

    /// Returns the blocks of a message, without tool results. Neighbouring texts become a single block. Blank texts
    /// are left out, because the API refuses blank texts.
    pub(super) fn contents(self, parts: impl Iterator<Item = &'a Part>) -> Vec<MessagesUserContent<'a>> {
        let mut contents: Vec<MessagesUserContent<'a>> = Vec::new();
        for part in parts {
            match (self.content(part), contents.last_mut()) {
                (MessagesUserContent::Text { text }, Some(MessagesUserContent::Text { text: before })) => {
                    before.to_mut().push_str(&text);
                }
                (content, _) => contents.push(content),
            }
        }
        // Anthropic refuses a text block with nothing but blanks.
        contents.retain(
            |content| !matches!(content, MessagesUserContent::Text { text } if text.trim().is_empty()),
        );
        contents
    }

    /// Returns the block of a tool's answer.
    pub(super) fn tool_result(self, tool_use_id: &str, result: &'a ToolResult) -> MessagesUserContent<'a> {
        let mut content = self.contents(result.content.iter());
        // A successful result may be empty, but the API refuses an error without text.
        if content.is_empty() && result.status != ToolStatus::Completed {
            content.push(MessagesUserContent::Text { text: Cow::Borrowed(no_words(result.status)) });
        }
        let is_error = result.status != ToolStatus::Completed;
        let content = match content.as_mut_slice() {
            // Neighbouring texts are one block already.
            [MessagesUserContent::Text { text }] if self.has_plain_texts => {
                MessagesResultContent::Text(std::mem::take(text))
            }
            _ => MessagesResultContent::Blocks(content),
        };
        MessagesUserContent::ToolResult { tool_use_id: tool_use_id.to_owned(), content, is_error }
    }

    fn content(self, part: &'a Part) -> MessagesUserContent<'a> {
        let shown = match part {
            Part::Text(text) => Some(MessagesUserContent::Text { text: Cow::Borrowed(text.text.as_str()) }),
            Part::Image(media) | Part::File(media) => self.media(media),
            _ => None,
        };
        shown.unwrap_or(MessagesUserContent::Text { text: Cow::Borrowed(UNSUPPORTED) })
    }

    /// Returns the block of a medium; `None` for a kind unknown to the API, or without bytes in the request.
    fn media(self, media: &'a MediaPart) -> Option<MessagesUserContent<'a>> {
        // A link comes first, because a medium with a link has no bytes in the request.
        if let Some(url) = self.request.links.get(&media.blob.hash).filter(|_| self.media) {
            let (source, is_image) =
                (MessagesMediaSource::Url { url }, media.media_type.starts_with("image/"));
            let title = media.name.as_deref();
            return Some(if is_image {
                MessagesUserContent::Image { source }
            } else {
                MessagesUserContent::Document { source, title }
            });
        }
        let bytes = self.request.media.get(&media.blob.hash)?;
        let title = media.name.as_deref();
        // The type may have parameters (`text/plain; charset=utf-8`), which the comparison below must not see.
        let kind = media.media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        match kind.as_str() {
            "application/pdf" if self.media => {
                Some(MessagesUserContent::Document { source: base64_source("application/pdf", bytes), title })
            }
            // The API takes text documents as `text/plain` only.
            text if text.starts_with("text/") || text == "application/json" => {
                // JSON can hold only valid UTF-8, and the API refuses blank texts.
                let data = std::str::from_utf8(bytes).ok().filter(|text| !text.trim().is_empty())?;
                let source = MessagesMediaSource::Text { media_type: "text/plain", data };
                Some(MessagesUserContent::Document { source, title })
            }
            image => image_type(image)
                .filter(|_| self.media)
                .map(|it| MessagesUserContent::Image { source: base64_source(it, bytes) }),
        }
    }
}

fn base64_source<'a>(media_type: &'static str, bytes: &[u8]) -> MessagesMediaSource<'a> {
    MessagesMediaSource::Base64 { media_type, data: STANDARD.encode(bytes) }
}

/// Returns the media type of an image, if accepted by the API.
fn image_type(kind: &str) -> Option<&'static str> {
    Some(match kind {
        "image/png" => "image/png",
        "image/jpeg" | "image/jpg" => "image/jpeg",
        "image/gif" => "image/gif",
        "image/webp" => "image/webp",
        _ => return None,
    })
}

/// Returns the text of a result without text: the API refuses an error without text.
fn no_words(status: ToolStatus) -> &'static str {
    match status {
        ToolStatus::Completed => "",
        ToolStatus::Error => "[the tool failed without a message]",
        ToolStatus::Cancelled => "[cancelled]",
        ToolStatus::Interrupted => "[interrupted, outcome unknown]",
    }
}
