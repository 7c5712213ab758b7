//! The conversion between an editor's prompt and the parts of a message, in both directions.

use std::collections::BTreeMap;
use std::path::Path;

use agent_client_protocol::v1::schema::{
    ContentBlock, EmbeddedResource, EmbeddedResourceResource, ImageContent, ResourceLink, TextContent,
    TextResourceContents,
};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use longhaul::session::Runtime;
use longhaul::text_encoding::{DecodedText, decode_windows_1252};
use longhaul_core::ids::SessionId;
use longhaul_core::message::{BlobRef, MediaPart, Part};
use reqwest::Url;

use crate::failure::{CommandError, Outcome};
use crate::term::human::grouped;

/// A part of an editor's prompt, before anything is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PromptPart {
    Text(String),
    Media { bytes: Vec<u8>, media_type: String, name: Option<String> },
}

/// Reads a prompt. Texts that follow each other are one: editors put links between them in the middle of a sentence.
///
/// # Errors
/// The fault of the prompt, in a sentence.
pub(super) fn given(blocks: Vec<ContentBlock>, root: &Path) -> Result<Vec<PromptPart>, String> {
    let mut all: Vec<PromptPart> = Vec::new();
    for block in blocks {
        match (all.last_mut(), of_block(block, root)?) {
            (Some(PromptPart::Text(before)), PromptPart::Text(text)) => before.push_str(&text),
            (_, given) => all.push(given),
        }
    }
    // Blank text is dropped only after neighbours were joined: a blank may stand between two links.
    all.retain(|given| !matches!(given, PromptPart::Text(text) if text.trim().is_empty()));
    if all.is_empty() { Err("the prompt is empty".to_owned()) } else { Ok(all) }
}

fn of_block(block: ContentBlock, root: &Path) -> Result<PromptPart, String> {
    match block {
        ContentBlock::Text(text) => Ok(PromptPart::Text(text.text)),
        ContentBlock::Image(image) => {
            let name = image.uri.as_deref().map(|uri| named(uri, root));
            Ok(PromptPart::Media { bytes: decoded(&image.data)?, media_type: image.mime_type, name })
        }
        ContentBlock::ResourceLink(link) => Ok(PromptPart::Text(linked(&link, root))),
        ContentBlock::Resource(resource) => embedded(resource.resource, root),
        ContentBlock::Audio(_) => Err("audio is not supported: send text, images or files".to_owned()),
        _ => Err("content of this kind is not supported: send text, images or files".to_owned()),
    }
}

fn embedded(resource: EmbeddedResourceResource, root: &Path) -> Result<PromptPart, String> {
    match resource {
        EmbeddedResourceResource::TextResourceContents(text) => {
            let media_type = text.mime_type.unwrap_or_default();
            let name = Some(named(&text.uri, root));
            Ok(PromptPart::Media { bytes: text.text.into_bytes(), media_type: as_text(media_type), name })
        }
        EmbeddedResourceResource::BlobResourceContents(blob) => Ok(PromptPart::Media {
            bytes: decoded(&blob.blob)?,
            media_type: blob.mime_type.unwrap_or_else(|| "application/octet-stream".to_owned()),
            name: Some(named(&blob.uri, root)),
        }),
        _ => Err("a resource of this kind is not supported: send text or a file".to_owned()),
    }
}

fn decoded(data: &str) -> Result<Vec<u8>, String> {
    STANDARD.decode(data.trim()).map_err(|error| format!("the data is not base64: {error}"))
}

/// Returns a text media type for content that came as text, whatever its declared type.
fn as_text(media_type: String) -> String {
    // Only `MediaPart` knows which media types are text, so an empty one is asked.
    let blob = BlobRef { hash: String::new(), bytes: 0 };
    let media = MediaPart { blob, media_type, name: None, width: None, height: None };
    if media.is_text() { media.media_type } else { "text/plain".to_owned() }
}

/// Returns a link as the model can follow it: a path for its tools, if it is a file.
fn linked(link: &ResourceLink, root: &Path) -> String {
    let target = named(&link.uri, root);
    // An editor's name of a file is mostly its last part, which the path shows already.
    if target.ends_with(&link.name) { format!("`{target}`") } else { format!("[{}]({target})", link.name) }
}

/// Returns a file's path, relative to the workspace if it lies there, with the lines that are meant. Other
/// addresses are unchanged.
fn named(uri: &str, root: &Path) -> String {
    let Ok(url) = Url::parse(uri) else { return uri.to_owned() };
    let Some(path) = Some(&url).filter(|url| url.scheme() == "file").and_then(|url| url.to_file_path().ok())
    else {
        return uri.to_owned();
    };
    let path = path.strip_prefix(root).ok().filter(|rest| !rest.as_os_str().is_empty()).unwrap_or(&path);
    let lines = url.fragment().map(|lines| format!("#{lines}")).unwrap_or_default();
    format!("{}{lines}", path.display())
}

/// Stores media with the session, within its quota.
///
/// # Errors
/// The quota is used up; a blob cannot be kept.
pub(super) async fn stored(
    all: Vec<PromptPart>,
    runtime: &Runtime,
    session: &SessionId,
) -> Outcome<Vec<Part>> {
    let mut parts = Vec::with_capacity(all.len());
    for given in all {
        parts.push(match given {
            PromptPart::Text(text) => Part::text(text),
            PromptPart::Media { bytes, media_type, name } => {
                // Checked before the blob is stored: a refused prompt must not leave it behind.
                check_quota(bytes.len() as u64, runtime, session).await?;
                let is_image = media_type.starts_with("image/");
                // Measured before the blob is stored, for the same reason: an unreadable image is refused.
                let size = longhaul::picture::size(&bytes)
                    .map_err(|error| CommandError::usage(format!("{error}")))?;
                let size = size.filter(|_| is_image);
                let media = MediaPart {
                    blob: runtime.blobs().put(bytes).await?,
                    media_type,
                    name,
                    width: size.map(|(width, _)| width),
                    height: size.map(|(_, height)| height),
                };
                if is_image { Part::Image(media) } else { Part::File(media) }
            }
        });
    }
    Ok(parts)
}

async fn check_quota(bytes: u64, runtime: &Runtime, session: &SessionId) -> Outcome<()> {
    let kept: u64 = runtime.store().blobs(session).await?.iter().map(|blob| blob.bytes).sum();
    let quota = runtime.agent().rules.session_quota_bytes;
    if kept.saturating_add(bytes) <= quota {
        return Ok(());
    }
    Err(CommandError::new(format!(
        "{} bytes do not fit: this session keeps {} of {} bytes (blobs.sessionQuotaBytes)",
        grouped(bytes),
        grouped(kept),
        grouped(quota)
    )))
}

/// The contents of shown media, by the hash of their blob.
pub(super) type Contents = BTreeMap<String, Vec<u8>>;

/// Returns a part as an editor shows it, or nothing if editors do not show it.
pub(super) fn shown(part: &Part, contents: &Contents, root: &Path) -> Option<ContentBlock> {
    match part {
        Part::Text(text) if !text.text.is_empty() => Some(text_block(&text.text)),
        Part::Image(media) => Some(match contents.get(&media.blob.hash) {
            Some(bytes) => ContentBlock::Image(ImageContent::new(STANDARD.encode(bytes), &*media.media_type)),
            None => text_block(&stand_in(media)),
        }),
        Part::File(media) => {
            // Bytes that are no text cannot be shown as text, so the name stands for the file.
            let bytes = contents.get(&media.blob.hash).filter(|_| media.is_text());
            let text = bytes.and_then(|bytes| {
                let decoded = Some(DecodedText::new(bytes)).filter(|decoded| !decoded.is_binary());
                decode_windows_1252(bytes).or(decoded.map(|decoded| decoded.text))
            });
            Some(match text {
                Some(text) => {
                    let name = media.name.as_deref().unwrap_or("file");
                    let contents = TextResourceContents::new(text, address(name, root));
                    let contents = contents.mime_type(media.media_type.clone());
                    let whole = EmbeddedResourceResource::TextResourceContents(contents);
                    ContentBlock::Resource(EmbeddedResource::new(whole))
                }
                None => text_block(&stand_in(media)),
            })
        }
        _ => None,
    }
}

/// Creates a text block.
pub(super) fn text_block(text: &str) -> ContentBlock {
    ContentBlock::Text(TextContent::new(text))
}

fn stand_in(media: &MediaPart) -> String {
    format!("[{} {}]", media.name.as_deref().unwrap_or("attachment"), media.media_type)
}

/// Returns the address from which [`named`] made a name.
fn address(name: &str, root: &Path) -> String {
    if name.contains("://") {
        return name.to_owned();
    }
    let (path, lines) = name.split_once('#').map_or((name, None), |(path, lines)| (path, Some(lines)));
    let Ok(mut url) = Url::from_file_path(root.join(path)) else { return name.to_owned() };
    url.set_fragment(lines);
    url.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn read(blocks: Value) -> Result<Vec<PromptPart>, String> {
        given(serde_json::from_value(blocks).unwrap(), Path::new("/work"))
    }

    #[test]
    fn a_link_in_a_sentence_stays_in_it_as_a_path() {
        let sentence = read(json!([
            { "type": "text", "text": "compare " },
            { "type": "resource_link", "name": "a b.rs", "uri": "file:///work/src/a%20b.rs#L3-9" },
            { "type": "text", "text": " with " },
            { "type": "resource_link", "name": "b.rs", "uri": "file:///work/b.rs" },
            { "type": "text", "text": " and " },
            { "type": "resource_link", "name": "the issue", "uri": "https://host/1" },
        ]));
        let text = "compare [a b.rs](src/a b.rs#L3-9) with `b.rs` and [the issue](https://host/1)";
        assert_eq!(sentence.unwrap(), [PromptPart::Text(text.into())]);
    }

    #[test]
    fn what_is_embedded_is_a_file_of_its_own() {
        let parts = read(json!([
            { "type": "text", "text": "see" },
            { "type": "resource", "resource": { "uri": "file:///work/x.rs", "text": "fn x() {}", "mimeType": "application/x" } },
            { "type": "resource", "resource": { "uri": "zed:///thread/1", "blob": "AQI=", "mimeType": "application/pdf" } },
            { "type": "image", "data": "AQID", "mimeType": "image/png" },
        ]));
        assert_eq!(
            parts.unwrap(),
            [
                PromptPart::Text("see".into()),
                media(b"fn x() {}", "text/plain", Some("x.rs")),
                media(&[1, 2], "application/pdf", Some("zed:///thread/1")),
                media(&[1, 2, 3], "image/png", None),
            ]
        );
    }

    fn media(bytes: &[u8], media_type: &str, name: Option<&str>) -> PromptPart {
        PromptPart::Media {
            bytes: bytes.to_vec(),
            media_type: media_type.into(),
            name: name.map(str::to_owned),
        }
    }

    #[test]
    fn what_cannot_be_read_is_refused_in_words() {
        let image = json!([{ "type": "image", "data": "!", "mimeType": "image/png" }]);
        assert!(read(image).unwrap_err().contains("not base64"));
        let audio = json!([{ "type": "audio", "data": "AQ==", "mimeType": "audio/wav" }]);
        assert_eq!(read(audio).unwrap_err(), "audio is not supported: send text, images or files");
        assert_eq!(read(json!([{ "type": "text", "text": " " }])).unwrap_err(), "the prompt is empty");
    }

    #[test]
    fn an_attached_file_comes_back_under_its_address() {
        for (name, uri) in [
            ("src/a b.rs#L3-9", "file:///work/src/a%20b.rs#L3-9"),
            ("/etc/hosts", "file:///etc/hosts"),
            ("zed:///thread/1", "zed:///thread/1"),
        ] {
            assert_eq!(named(uri, Path::new("/work")), name);
            assert_eq!(address(name, Path::new("/work")), uri);
        }
    }
}
