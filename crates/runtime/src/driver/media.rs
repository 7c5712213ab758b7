//! The pictures and files of a request: their bytes, or words in their place.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use longhaul_core::error::ErrorCode;
use longhaul_core::event::EventBody;
use longhaul_core::ids::SessionId;
use longhaul_core::message::{MediaPart, Message, ModelOrigin, Part, ToolResult};
use longhaul_core::refusal::PictureSizeLimits;
use longhaul_providers::{Limits, ModelRequest, ProviderError};
use longhaul_store::BlobStore;
use serde_json::json;
use tokio::sync::Semaphore;

use super::context::DriverContext;
use crate::agent::Agent;
use crate::api_events::ApiEvent;
use crate::clock::now_ms;
use crate::picture::{FittedPicture, PictureFitError, PictureLimits, fit};
use crate::text_encoding::{DecodedText, TextDamage, decode_windows_1252};

/// Types of pictures whose content is checked.
const KNOWN_PICTURES: [&str; 6] =
    ["image/bmp", "image/gif", "image/jpeg", "image/jpg", "image/png", "image/webp"];

/// Characters that a model is shown of a name or a media type.
const NAME_CHARS: usize = 255;

/// The media that a model takes besides text.
#[derive(Clone, Debug)]
pub(super) struct MediaCapabilities {
    images: bool,
    files: bool,
    /// The most pictures of one request, if an error has stated a limit.
    most_images: Option<u32>,
    /// The limits on one picture that errors have stated.
    size: PictureSizeLimits,
    /// The wire that the pictures go over.
    api: String,
}

/// The most checked pictures that a session remembers.
// A forgotten picture is decoded again, which takes up to a second.
const MAX_REMEMBERED: usize = 256;

/// The most bytes of scaled pictures that a session keeps.
const MAX_REMEMBERED_BYTES: usize = 64 << 20;

/// Pictures that are decoded at once in this process: each may take half a gigabyte meanwhile.
static DECODING: Semaphore = Semaphore::const_new(2);

/// The pictures that a session has checked, by content and limits: each is decoded once.
#[derive(Debug, Default)]
pub(crate) struct CheckedPictureCache {
    checked: Mutex<HashMap<(String, PictureLimits), Result<FittedPicture, PictureFitError>>>,
}

impl CheckedPictureCache {
    /// Checks a picture on a thread of its own, because decoding a large one takes a second. Returns also whether that
    /// is news.
    async fn fit(
        &self,
        hash: &str,
        content: Bytes,
        limits: PictureLimits,
    ) -> (Result<FittedPicture, PictureFitError>, bool) {
        // Another model, or more pictures in the request, has other limits for the same picture.
        let key = (hash.to_owned(), limits);
        if let Some(known) = self.checked().get(&key) {
            return (known.clone(), false);
        }
        // The semaphore is never closed, so this error cannot occur; the picture is decoded all the same.
        let _permit = DECODING.acquire().await.ok();
        // A panic of a decoder must not end the step: the picture counts as damaged and is shown as words.
        let checking = tokio::task::spawn_blocking(move || fit(&content, limits));
        let fitted = checking.await.unwrap_or_else(|error| {
            tracing::warn!(is_panic = error.is_panic(), "the decoder of a picture failed");
            Err(PictureFitError::Damaged("it cannot be decoded".to_owned()))
        });
        // Locked again only now. A lock must not be held while a picture is decoded.
        let mut checked = self.checked();
        let bytes: usize = checked.values().map(rewritten_bytes).sum();
        if checked.len() >= MAX_REMEMBERED || bytes + rewritten_bytes(&fitted) > MAX_REMEMBERED_BYTES {
            tracing::debug!(
                pictures = checked.len(),
                bytes,
                "the cache of checked pictures is full and is cleared"
            );
            // Cleared whole: a cleared picture costs one more check, and no order of use has to be kept.
            checked.clear();
        }
        checked.insert(key, fitted.clone());
        (fitted, true)
    }

    fn checked(
        &self,
    ) -> MutexGuard<'_, HashMap<(String, PictureLimits), Result<FittedPicture, PictureFitError>>> {
        self.checked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the bytes that a checked picture keeps in memory: a picture that is sent unchanged keeps none.
fn rewritten_bytes(fitted: &Result<FittedPicture, PictureFitError>) -> usize {
    match fitted {
        Ok(FittedPicture { rewritten: Some(bytes), .. }) => bytes.len(),
        _ => 0,
    }
}

impl MediaCapabilities {
    pub(super) fn of(agent: &Agent) -> Self {
        let Limits { images, files, .. } = &agent.limits;
        let api = agent.provider.origin().api;
        let most_images = agent.calibrations.most_images(&agent.provider.origin(), now_ms());
        let size = agent.calibrations.picture_size(&agent.provider.origin(), now_ms());
        Self { images: images.may() && most_images != Some(0), files: files.may(), most_images, size, api }
    }

    /// Returns the words for a picture or a file that the model does not take.
    fn refusal(&self, part: &Part, media: &MediaPart) -> Option<String> {
        let is_image = matches!(part, Part::Image(_)) || media.kind().starts_with("image/");
        if is_image {
            return (!self.images).then(|| not_shown(media, "a picture", "this model does not see pictures"));
        }
        (!self.files).then(|| not_shown(media, "a file", "this model does not read files"))
    }
}

/// Tells of each picture and file in a new message that the model will not be shown.
pub(super) fn publish_omitted_media(context: &DriverContext, event: &EventBody) {
    let (EventBody::MessagesTaken { message: Message { parts, .. }, .. }
    | EventBody::ToolFinished { result: ToolResult { content: parts, .. } }) = event
    else {
        return;
    };
    let (takes, model) = (MediaCapabilities::of(&context.agent), context.agent.provider.origin());
    for part in parts {
        let (Part::Image(media) | Part::File(media)) = part else { continue };
        // A text file reaches every model as text, so nothing of it is omitted.
        let text = matches!(part, Part::File(file) if file.is_text());
        let Some(words) = takes.refusal(part, media).filter(|_| !text) else { continue };
        tracing::info!(
            media_type = media.media_type,
            bytes = media.blob.bytes,
            model = model.model,
            "media is not shown to the model, which does not take its kind"
        );
        let omitted = OmittedMediaNotice { words, kind: media.kind(), name: media.name.clone() };
        context.publish(omitted.announcement(context.session_id(), &model));
    }
}

/// Gives a request the bytes of the media that stay in it, and words in the place of the others.
///
/// A text file reads the same for every model and at every place: the earlier request stays a prefix of the present
/// one.
///
/// Pictures are checked before they are sent: one that is damaged would be refused with every later request. Those that
/// are larger than the server takes are scaled down.
///
/// Returns the pictures that were found unfit just now.
///
/// # Errors
/// `storage` if content cannot be read.
pub(super) async fn fill(
    request: &mut ModelRequest,
    takes: &MediaCapabilities,
    blobs: &BlobStore,
    pictures: &CheckedPictureCache,
) -> Result<Vec<OmittedMediaNotice>, ProviderError> {
    let ModelRequest { messages, media: carried, .. } = request;
    let mut found = Vec::new();
    if let Some(most) = takes.most_images.filter(|_| takes.images) {
        // Before the bytes are read: pictures that do not go out need not be read or decoded.
        keep_newest(messages, most as usize);
    }
    // Anthropic takes smaller pictures where a request has more than 20, so the count decides the limits.
    let count = all_parts(messages).filter(|part| is_picture(part)).count();
    let limits = PictureLimits::of_wire(&takes.api, count).within(takes.size);
    for part in all_parts(messages) {
        if let Some(words) = in_words(part, takes, blobs).await? {
            *part = Part::text(words);
            continue;
        }
        let shows_picture = is_picture(part);
        let (Part::Image(media) | Part::File(media)) = part else { continue };
        // One picture may stand at several places of the view. Its bytes are read once.
        let content = match carried.get(&media.blob.hash) {
            Some(content) => content.clone(),
            None => read(media, blobs).await?,
        };
        if !shows_picture {
            if let Some(reason) = unreadable(media, &content) {
                *part = Part::text(not_shown(media, "a file", reason));
                continue;
            }
            carried.insert(media.blob.hash.clone(), content);
            continue;
        }
        let (fitted, is_news) = pictures.fit(&media.blob.hash, content.clone(), limits).await;
        match fitted {
            Ok(FittedPicture { media_type, rewritten }) => {
                // Logged once for a picture, and not with each request that carries it.
                if let Some(smaller) = rewritten.as_ref().filter(|_| is_news) {
                    tracing::debug!(
                        media_type,
                        bytes_before = content.len(),
                        bytes_after = smaller.len(),
                        "a picture was scaled down"
                    );
                }
                // The file's own bytes say its type. Providers refuse a picture under a wrong name (decision 0045).
                media_type.clone_into(&mut media.media_type);
                carried.insert(media.blob.hash.clone(), rewritten.unwrap_or(content));
            }
            // A kind that only some servers know, such as HEIC.
            Err(PictureFitError::Unknown) if !KNOWN_PICTURES.contains(&media.kind().as_str()) => {
                carried.insert(media.blob.hash.clone(), content);
            }
            Err(unfit) => {
                let words = not_shown(media, "a picture", &unfit.to_string());
                if is_news {
                    tracing::info!(media_type = media.media_type, bytes = content.len(), reason = %unfit, "a picture cannot be sent");
                    found.push(OmittedMediaNotice {
                        words: words.clone(),
                        kind: media.kind(),
                        name: media.name.clone(),
                    });
                }
                *part = Part::text(words);
            }
        }
    }
    Ok(found)
}

/// The notice to people about a picture that the model is not shown.
#[derive(Clone, Debug)]
pub(super) struct OmittedMediaNotice {
    /// The words that the model reads in place of the picture.
    words: String,
    kind: String,
    name: Option<String>,
}

impl OmittedMediaNotice {
    pub(super) fn announcement(&self, session_id: &SessionId, model: &ModelOrigin) -> ApiEvent {
        let payload = json!({
            "errors": [self.words], "provider": model.provider, "model": model.model,
            "fileType": self.kind, "details": { "name": self.name },
        });
        ApiEvent::passing("llm:unsupported-input", session_id, payload)
    }
}

fn all_parts(messages: &mut [Message]) -> impl Iterator<Item = &mut Part> {
    messages.iter_mut().flat_map(|message| &mut message.parts).flat_map(media_parts)
}

fn is_picture(part: &Part) -> bool {
    match part {
        Part::Image(_) => true,
        Part::File(file) => file.kind().starts_with("image/"),
        _ => false,
    }
}

/// Returns why a file would be refused; `None` where only its reader can tell. A PDF begins with its mark, within its
/// first 1,024 bytes (ISO 32000-1, annex H).
fn unreadable(file: &MediaPart, content: &[u8]) -> Option<&'static str> {
    let head = &content[..content.len().min(1_024)];
    let is_pdf = head.windows(4).any(|window| window == b"%PDF");
    (file.kind() == "application/pdf" && !is_pdf).then_some("its content is no PDF")
}

/// Leaves the newest pictures in a request, and words in the place of the others.
fn keep_newest(messages: &mut [Message], most: usize) {
    let mut images: Vec<&mut Part> = all_parts(messages).filter(|part| is_picture(part)).collect();
    let surplus = images.len().saturating_sub(most);
    if surplus > 0 {
        tracing::debug!(
            pictures = images.len(),
            most,
            left_out = surplus,
            "older pictures are left out of a request"
        );
    }
    for part in images.drain(..surplus) {
        let (Part::Image(media) | Part::File(media)) = &*part else { continue };
        let reason = format!("this model takes {most} pictures in one request, and newer ones follow");
        *part = Part::text(not_shown(media, "a picture", &reason));
    }
}

/// Returns the hashes of the pictures and files of a request whose media were filled in, in the order in which they are
/// sent.
pub(super) fn sent_hashes(request: &ModelRequest) -> Vec<String> {
    fn of(part: &Part, hashes: &mut Vec<String>) {
        match part {
            Part::Image(media) | Part::File(media) => hashes.push(media.blob.hash.clone()),
            Part::ToolResult(result) => result.content.iter().for_each(|part| of(part, hashes)),
            _ => {}
        }
    }
    let mut hashes = Vec::new();
    request.messages.iter().flat_map(|message| &message.parts).for_each(|part| of(part, &mut hashes));
    hashes
}

fn media_parts(part: &mut Part) -> Vec<&mut Part> {
    match part {
        Part::Image(_) | Part::File(_) => vec![part],
        Part::ToolResult(result) => result.content.iter_mut().flat_map(media_parts).collect(),
        _ => Vec::new(),
    }
}

/// Returns the words that replace a picture or a file; `None` if the model takes the part unchanged.
async fn in_words(
    part: &Part,
    takes: &MediaCapabilities,
    blobs: &BlobStore,
) -> Result<Option<String>, ProviderError> {
    match part {
        Part::File(file) if file.is_text() => {
            let bytes = read(file, blobs).await?;
            Ok(Some(text_in_words(file, &bytes)))
        }
        Part::File(media) | Part::Image(media) => Ok(takes.refusal(part, media)),
        _ => Ok(None),
    }
}

/// Returns the words for a file that is declared as text, in UTF-8, UTF-16 or Windows-1252. A few bad bytes are replaced
/// and counted; content with more of them is no text.
fn text_in_words(file: &MediaPart, bytes: &[u8]) -> String {
    let decoded = DecodedText::new(bytes);
    match decoded.damage {
        None => shown(file, &decoded.text, ""),
        Some(damage) => match decode_windows_1252(bytes) {
            Some(text) => shown(file, &text, "[read as Windows-1252: it is not UTF-8]\n"),
            None => damaged_in_words(file, &decoded, damage),
        },
    }
}

/// Returns the words for a file of text with bytes that are not characters.
fn damaged_in_words(file: &MediaPart, decoded: &DecodedText, damage: TextDamage) -> String {
    match decoded.is_binary() {
        true => not_shown(file, "a file", &format!("it is not text: it has {damage}")),
        false => shown(file, &decoded.text, &format!("[replaced by U+FFFD: {damage}]\n")),
    }
}

async fn read(media: &MediaPart, blobs: &BlobStore) -> Result<Bytes, ProviderError> {
    let content = blobs.get(&media.blob).await;
    content.map_err(|error| ProviderError::new(ErrorCode::Storage, error.to_string()))
}

/// Returns a text file: a line that names it, its content in a fence longer than any that is in it, and a note.
///
/// The file has its own lines: many wires join neighbouring texts without anything between them.
fn shown(file: &MediaPart, content: &str, note: &str) -> String {
    let fence = "`".repeat(longest_run(content).max(2) + 1);
    let end = if content.is_empty() || content.ends_with('\n') { "" } else { "\n" };
    let kind = plain(&file.kind());
    let heading = match title(file) {
        Some(name) => format!("File \"{name}\" ({kind}):"),
        None => format!("File ({kind}):"),
    };
    format!("\n{heading}\n{fence}\n{content}{end}{fence}\n{note}")
}

/// Returns the length of the longest run of backticks, at any place.
fn longest_run(content: &str) -> usize {
    content.split(|c| c != '`').map(str::len).max().unwrap_or(0)
}

fn not_shown(media: &MediaPart, nameless: &str, reason: &str) -> String {
    let name = title(media).unwrap_or_else(|| nameless.to_owned());
    format!("[not shown: {name} ({}), {reason}]", plain(&media.kind()))
}

/// Returns the name, as far as it has one.
fn title(media: &MediaPart) -> Option<String> {
    media.name.as_deref().map(plain).filter(|name| !name.is_empty())
}

/// Returns `word`, which somebody else chose, without characters that could pass for the end of a line, of a quotation
/// or of a note.
fn plain(word: &str) -> String {
    let kept: String = word.chars().filter(|c| !forges(*c)).take(NAME_CHARS).collect();
    kept.trim().to_owned()
}

fn forges(c: char) -> bool {
    let ends_something = matches!(c, '"' | '\'' | '`' | '\u{2018}'..='\u{201f}' | '«' | '»' | '[' | ']');
    // Line and paragraph separators, and characters that change the direction of reading.
    let is_format = matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    c.is_control() || ends_something || is_format
}
