//! What a person or a tool said, as content blocks.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use longhaul_core::message::{Media, Part, ToolResult, ToolStatus};
use serde::Serialize;

use super::super::MessagesConfig;
use super::Mark;
use crate::{Request, UNSUPPORTED};

/// A content block of a user message.
#[derive(Debug, Serialize)]
pub(super) struct Block<'a> {
    #[serde(flatten)]
    content: Content<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<Mark>,
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Content<'a> {
    Text {
        text: Cow<'a, str>,
    },
    Image {
        source: Source<'a>,
    },
    Document {
        source: Source<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        title: Option<&'a str>,
    },
    ToolResult {
        tool_use_id: String,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        content: Vec<Content<'a>>,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
    },
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Source<'a> {
    Base64 { media_type: &'static str, data: String },
    Text { media_type: &'static str, data: &'a str },
    Url { url: &'a str },
}

impl<'a> Block<'a> {
    pub(super) fn new(content: Content<'a>) -> Self {
        Self { content, cache_control: None }
    }

    pub(super) fn text(text: Cow<'a, str>) -> Self {
        Self::new(Content::Text { text })
    }

    /// The block as the end of what is to be kept.
    pub(super) fn marked(mut self, mark: Option<Mark>) -> Self {
        self.mark(mark);
        self
    }

    /// Makes the block the end of what is to be kept.
    pub(super) fn mark(&mut self, mark: Option<Mark>) {
        self.cache_control = mark;
    }
}

/// What the model is shown of somebody's parts.
#[derive(Clone, Copy)]
pub(super) struct Shown<'a> {
    request: &'a Request,
    media: bool,
}

impl<'a> Shown<'a> {
    pub(super) fn of(request: &'a Request, config: &MessagesConfig) -> Self {
        Self { request, media: config.settings.declared.images != Some(false) }
    }

    /// The blocks of one message, its tool results aside. Neighbouring texts are one block, blank ones none:
    /// the API refuses those.
    pub(super) fn contents(self, parts: impl Iterator<Item = &'a Part>) -> Vec<Content<'a>> {
        let mut contents: Vec<Content<'a>> = Vec::new();
        for part in parts {
            match (self.content(part), contents.last_mut()) {
                (Content::Text { text }, Some(Content::Text { text: before })) => {
                    before.to_mut().push_str(&text);
                }
                (content, _) => contents.push(content),
            }
        }
        contents.retain(|content| !matches!(content, Content::Text { text } if text.trim().is_empty()));
        contents
    }

    /// The block of a tool's answer.
    pub(super) fn tool_result(self, tool_use_id: &str, result: &'a ToolResult) -> Content<'a> {
        let mut content = self.contents(result.content.iter());
        if content.is_empty() && result.status != ToolStatus::Completed {
            content.push(Content::Text { text: Cow::Borrowed(no_words(result.status)) });
        }
        let is_error = result.status != ToolStatus::Completed;
        Content::ToolResult { tool_use_id: tool_use_id.to_owned(), content, is_error }
    }

    fn content(self, part: &'a Part) -> Content<'a> {
        let shown = match part {
            Part::Text(text) => Some(Content::Text { text: Cow::Borrowed(text.text.as_str()) }),
            Part::Image(media) | Part::File(media) => self.media(media),
            Part::Reasoning(_) | Part::ToolCall(_) | Part::ToolResult(_) | Part::Opaque(_) => None,
        };
        shown.unwrap_or(Content::Text { text: Cow::Borrowed(UNSUPPORTED) })
    }

    /// Nothing for a kind that the API does not take, or whose bytes did not come with the request.
    fn media(self, media: &'a Media) -> Option<Content<'a>> {
        if let Some(url) = self.request.links.get(&media.blob.hash).filter(|_| self.media) {
            let (source, is_image) = (Source::Url { url }, media.media_type.starts_with("image/"));
            let title = media.name.as_deref();
            return Some(if is_image {
                Content::Image { source }
            } else {
                Content::Document { source, title }
            });
        }
        let bytes = self.request.media.get(&media.blob.hash)?;
        let base64 = |media_type| Source::Base64 { media_type, data: STANDARD.encode(bytes) };
        let title = media.name.as_deref();
        let kind = media.media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        match kind.as_str() {
            "application/pdf" if self.media => {
                Some(Content::Document { source: base64("application/pdf"), title })
            }
            text if text.starts_with("text/") || text == "application/json" => {
                let data = std::str::from_utf8(bytes).ok().filter(|text| !text.trim().is_empty())?;
                let source = Source::Text { media_type: "text/plain", data };
                Some(Content::Document { source, title })
            }
            image => image_type(image).filter(|_| self.media).map(|it| Content::Image { source: base64(it) }),
        }
    }
}

/// The kinds of images that the API takes.
fn image_type(kind: &str) -> Option<&'static str> {
    Some(match kind {
        "image/png" => "image/png",
        "image/jpeg" | "image/jpg" => "image/jpeg",
        "image/gif" => "image/gif",
        "image/webp" => "image/webp",
        _ => return None,
    })
}

/// The API refuses an error without words.
fn no_words(status: ToolStatus) -> &'static str {
    match status {
        ToolStatus::Completed => "",
        ToolStatus::Error => "[the tool failed without a message]",
        ToolStatus::Cancelled => "[cancelled]",
        ToolStatus::Interrupted => "[interrupted, outcome unknown]",
    }
}
