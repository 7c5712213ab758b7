//! Pictures and files of a request: their bytes beside it, or words in their place.

use bytes::Bytes;
use longhaul_core::error::ErrorCode;
use longhaul_core::event::EventBody;
use longhaul_core::message::{Media, Message, Part, ToolResult};
use longhaul_providers::{Limits, ProviderError, Request};
use longhaul_store::Blobs;
use serde_json::json;

use super::Driver;
use crate::announce::Announcement;

/// Characters that a model is shown of a name or a media type.
const NAME_CHARS: usize = 255;

/// What a model takes beside text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Takes {
    images: bool,
    files: bool,
}

impl Takes {
    pub(super) fn of(limits: &Limits) -> Self {
        Self { images: limits.images.may(), files: limits.files.may() }
    }

    /// What is said of a picture or a file that the model does not take.
    fn refusal(self, part: &Part, media: &Media) -> Option<String> {
        let is_image = matches!(part, Part::Image(_)) || media.kind().starts_with("image/");
        match is_image {
            true if !self.images => Some(not_shown(media, "a picture", "this model does not see pictures")),
            false if !self.files => Some(not_shown(media, "a file", "this model does not read files")),
            _ => None,
        }
    }
}

impl Driver {
    /// Tells of each picture and file in a new message that the model will not be shown.
    pub(super) fn tell_of_unsupported(&self, event: &EventBody) {
        let (EventBody::MessagesTaken { message: Message { parts, .. }, .. }
        | EventBody::ToolFinished { result: ToolResult { content: parts, .. } }) = event
        else {
            return;
        };
        let (takes, model) = (Takes::of(&self.agent.limits), self.agent.provider.origin());
        for part in parts {
            let (Part::Image(media) | Part::File(media)) = part else { continue };
            let text = matches!(part, Part::File(file) if file.is_text());
            let Some(words) = takes.refusal(part, media).filter(|_| !text) else { continue };
            let payload = json!({
                "errors": [words], "provider": model.provider, "model": model.model,
                "fileType": media.kind(), "details": { "name": media.name },
            });
            self.tell(Announcement::passing("llm:unsupported-input", &self.shared.session_id, payload));
        }
    }
}

/// Gives a request the bytes of the media that stay in it, and words in the place of the others.
///
/// A text file reads the same for every model, wherever it stands: what was sent before stays the beginning of what
/// is sent now.
///
/// # Errors
/// `storage` if content cannot be read.
pub(super) async fn fill(request: &mut Request, takes: Takes, blobs: &Blobs) -> Result<(), ProviderError> {
    let Request { messages, media: carried, .. } = request;
    for part in messages.iter_mut().flat_map(|message| &mut message.parts).flat_map(media_parts) {
        if let Some(words) = in_words(part, takes, blobs).await? {
            *part = Part::text(words);
        } else if let Part::Image(media) | Part::File(media) = &*part
            && !carried.contains_key(&media.blob.hash)
        {
            carried.insert(media.blob.hash.clone(), read(media, blobs).await?);
        }
    }
    Ok(())
}

fn media_parts(part: &mut Part) -> Vec<&mut Part> {
    match part {
        Part::Image(_) | Part::File(_) => vec![part],
        Part::ToolResult(result) => result.content.iter_mut().flat_map(media_parts).collect(),
        _ => Vec::new(),
    }
}

/// What the model reads in place of a picture or a file; nothing if it takes it as it is.
async fn in_words(part: &Part, takes: Takes, blobs: &Blobs) -> Result<Option<String>, ProviderError> {
    match part {
        Part::File(file) if file.is_text() => {
            let bytes = read(file, blobs).await?;
            let words = std::str::from_utf8(&bytes).map(|content| shown(file, content));
            Ok(Some(words.unwrap_or_else(|_| not_shown(file, "a file", "it is not valid UTF-8"))))
        }
        Part::File(media) | Part::Image(media) => Ok(takes.refusal(part, media)),
        _ => Ok(None),
    }
}

async fn read(media: &Media, blobs: &Blobs) -> Result<Bytes, ProviderError> {
    let content = blobs.get(&media.blob).await;
    content.map_err(|error| ProviderError::new(ErrorCode::Storage, error.to_string()))
}

/// A text file: a line that names it, and its content in a fence longer than any that is in it.
///
/// It has its lines for itself: many wires join neighbouring texts without anything between them.
fn shown(file: &Media, content: &str) -> String {
    let fence = "`".repeat(longest_run(content).max(2) + 1);
    let end = if content.is_empty() || content.ends_with('\n') { "" } else { "\n" };
    let kind = plain(&file.kind());
    let heading = match title(file) {
        Some(name) => format!("File \"{name}\" ({kind}):"),
        None => format!("File ({kind}):"),
    };
    format!("\n{heading}\n{fence}\n{content}{end}{fence}\n")
}

/// Of backticks, wherever they stand.
fn longest_run(content: &str) -> usize {
    content.split(|c| c != '`').map(str::len).max().unwrap_or(0)
}

fn not_shown(media: &Media, nameless: &str, reason: &str) -> String {
    let name = title(media).unwrap_or_else(|| nameless.to_owned());
    format!("[not shown: {name} ({}), {reason}]", plain(&media.kind()))
}

/// The name, as far as it has one.
fn title(media: &Media) -> Option<String> {
    media.name.as_deref().map(plain).filter(|name| !name.is_empty())
}

/// What others chose, without what could pass for the end of a line, of a quotation or of a note.
fn plain(word: &str) -> String {
    let kept: String = word.chars().filter(|c| !forges(*c)).take(NAME_CHARS).collect();
    kept.trim().to_owned()
}

fn forges(c: char) -> bool {
    let ends_something = matches!(c, '"' | '\'' | '`' | '\u{2018}'..='\u{201f}' | '«' | '»' | '[' | ']');
    // Line and paragraph separators, and what turns the direction of reading.
    let is_format = matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    c.is_control() || ends_something || is_format
}
