//! The content of a client's message, and its parts.

mod sniff;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use longhaul_core::ids::SessionId;
use longhaul_core::message::{BlobRef, MediaPart, Part};
use longhaul_core::metadata::MessageMetadata;
use serde::Deserialize;
use serde_json::Value;

use crate::app::AppState;
use crate::error_messages::{is_blank, plain};
use crate::problem::ApiProblem;

/// The maximum lengths of a MIME type and of a file name, in characters.
const TYPE_CHARS: usize = 100;
const NAME_CHARS: usize = 255;

/// A part in the clients' form.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case", deny_unknown_fields)]
enum ClientPart {
    Text { text: String },
    Image(ClientMedia),
    File(ClientMedia),
}

/// Media content: base64, or the hash of the session's stored content.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ClientMedia {
    data: Option<String>,
    blob: Option<ClientBlobRef>,
    /// The media type, detected from the content if missing.
    #[serde(alias = "media_type", alias = "mimeType")]
    media_type: Option<String>,
    /// The AI SDK and OpenAI call it `filename`.
    #[serde(alias = "filename", alias = "fileName")]
    name: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum ClientBlobRef {
    Hash(String),
    Whole { hash: String },
}

/// The content of a message: a text, or a list of parts.
#[derive(Debug)]
pub(crate) enum ClientContent {
    Text(String),
    Parts(Vec<Value>),
}

impl<'de> Deserialize<'de> for ClientContent {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Serde's untagged enums have one message for every mistake, so the two forms are told apart here.
        match Value::deserialize(deserializer)? {
            Value::String(text) => Ok(Self::Text(text)),
            Value::Array(parts) => Ok(Self::Parts(parts)),
            _ => Err(serde::de::Error::custom("content is a text or a list of parts")),
        }
    }
}

impl ClientContent {
    /// Rejects empty content.
    ///
    /// # Errors
    /// `invalid-request`.
    pub(crate) fn check(&self) -> Result<(), ApiProblem> {
        let is_empty = match self {
            Self::Text(text) => is_blank(text),
            Self::Parts(parts) => {
                given(parts)?.iter().all(|part| matches!(part, ClientPart::Text { text } if is_blank(text)))
            }
        };
        if is_empty { Err(ApiProblem::invalid("The message is empty.")) } else { Ok(()) }
    }

    /// Checks content for a new session, without stored content or a store.
    ///
    /// # Errors
    /// See [`parts`](Self::parts).
    pub(crate) fn check_for_new(&self) -> Result<(), ApiProblem> {
        let Self::Parts(parts) = self else { return Ok(()) };
        for part in given(parts)? {
            match part {
                ClientPart::Text { .. } => {}
                ClientPart::Image(media) => media.check_for_new(true)?,
                ClientPart::File(media) => media.check_for_new(false)?,
            }
        }
        Ok(())
    }

    /// Returns the first words, for a title.
    pub(crate) fn title(&self) -> String {
        let text = match self {
            Self::Text(text) => text.as_str(),
            Self::Parts(parts) => parts.iter().find_map(|part| part["text"].as_str()).unwrap_or_default(),
        };
        // Titles are printed in terminals, where control characters are commands.
        let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        let text = if is_blank(&text) { "Files" } else { text.as_str() };
        let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
        if line.chars().count() <= 60 { line } else { line.chars().take(59).chain(['…']).collect() }
    }

    /// Stores the content and returns the parts.
    ///
    /// # Errors
    /// `invalid-request`; `not-found` for content outside the session; the blob store's.
    pub(crate) async fn parts(self, app: &AppState, session: &SessionId) -> Result<Vec<Part>, ApiProblem> {
        self.check()?;
        let given = match self {
            Self::Text(text) => return Ok(vec![Part::text(text)]),
            Self::Parts(parts) => given(&parts)?,
        };
        let mut parts = Vec::with_capacity(given.len());
        for part in given {
            parts.push(match part {
                ClientPart::Text { text } => Part::text(text),
                ClientPart::Image(media) => Part::Image(media.stored(app, session, true).await?),
                ClientPart::File(media) => {
                    let is_named = media.media_type.as_ref().is_some_and(|kind| !kind.trim().is_empty());
                    let media = media.stored(app, session, false).await?;
                    // A client that gives no type wants a picture shown as a picture.
                    let is_picture = !is_named && media.media_type.starts_with("image/");
                    if is_picture { Part::Image(media) } else { Part::File(media) }
                }
            });
        }
        Ok(parts)
    }
}

/// Returns the metadata of a client's message; `null` is none.
///
/// # Errors
/// `invalid-request` for anything but an object within the limits.
pub(crate) fn message_metadata(given: Option<Value>) -> Result<Option<MessageMetadata>, ApiProblem> {
    let metadata = given.map(MessageMetadata::try_from).transpose();
    metadata.map_err(|error| ApiProblem::invalid(format!("The message was not accepted: {error}.")))
}

fn given(parts: &[Value]) -> Result<Vec<ClientPart>, ApiProblem> {
    let numbered = (1..).zip(parts);
    numbered
        .map(|(number, part)| {
            ClientPart::deserialize(part).map_err(|error| {
                let error = plain(&error.to_string());
                ApiProblem::invalid(format!("Part {number} of the content is not as expected: {error}."))
            })
        })
        .collect()
}

impl ClientMedia {
    fn check_for_new(self, is_picture: bool) -> Result<(), ApiProblem> {
        match (self.data, self.blob) {
            (Some(data), None) => {
                let bytes = decoded(&data)?;
                if bytes.is_empty() {
                    return Err(ApiProblem::invalid("The content is empty."));
                }
                let kind = stated_or_found(self.media_type, &bytes, is_picture)?;
                checked(kind, self.name)?;
                check_picture(&bytes)
            }
            // A new session has no content yet that a hash could name.
            (None, Some(_)) => Err(ApiProblem::not_found("such content in this session")),
            _ => Err(ApiProblem::invalid("An image or a file needs `data` or `blob`, and not both.")),
        }
    }

    async fn stored(
        self,
        app: &AppState,
        session: &SessionId,
        is_picture: bool,
    ) -> Result<MediaPart, ApiProblem> {
        let blob = self.blob.map(|blob| match blob {
            ClientBlobRef::Hash(hash) | ClientBlobRef::Whole { hash } => {
                // A reference that was copied from an export or a log has this prefix.
                hash.trim_start_matches("@blob:").to_owned()
            }
        });
        match (self.data, blob) {
            (Some(data), None) => {
                let bytes = decoded(&data)?;
                let kind = stated_or_found(self.media_type, &bytes, is_picture)?;
                store(app, session, bytes, kind, self.name).await
            }
            (None, Some(hash)) => {
                let about = (self.media_type, self.name);
                named(app, session, &hash, about, is_picture).await
            }
            _ => Err(ApiProblem::invalid("An image or a file needs `data` or `blob`, and not both.")),
        }
    }
}

/// Returns the stated media type, or the one detected from the content.
///
/// # Errors
/// `invalid-request` for a picture without a stated or detected type.
fn stated_or_found(stated: Option<String>, bytes: &[u8], is_picture: bool) -> Result<String, ApiProblem> {
    if let Some(stated) = stated.filter(|stated| !stated.trim().is_empty()) {
        return Ok(stated);
    }
    // A type that a client states is believed: formats are more than the signatures known here.
    let kind = found_type(bytes);
    if is_picture && !kind.starts_with("image/") {
        return Err(ApiProblem::invalid(format!(
            "The content is not an image: its first bytes are those of {kind}."
        )));
    }
    Ok(kind.to_owned())
}

/// Returns the media type of content, detected from the first bytes.
pub(crate) fn found_type(bytes: &[u8]) -> &'static str {
    sniff::media_type(bytes)
}

fn decoded(data: &str) -> Result<Bytes, ApiProblem> {
    let bytes = STANDARD.decode(data.trim());
    bytes.map(Bytes::from).map_err(|error| ApiProblem::invalid(format!("`data` is not base64: {error}.")))
}

/// Stores content for a session, within its quota.
///
/// # Errors
/// `invalid-request`; too large; the blob store's.
pub(crate) async fn store(
    app: &AppState,
    session: &SessionId,
    bytes: Bytes,
    media_type: String,
    name: Option<String>,
) -> Result<MediaPart, ApiProblem> {
    if bytes.is_empty() {
        return Err(ApiProblem::invalid("The content is empty."));
    }
    let (media_type, name) = checked(media_type, name)?;
    let runtime = app.runtime();
    // The quota is checked before the blob is written: a refused upload must not fill the disk.
    let kept: u64 = runtime.store().blobs(session).await?.iter().map(|blob| blob.bytes).sum();
    let quota = runtime.agent().rules.session_quota_bytes;
    if kept.saturating_add(bytes.len() as u64) > quota {
        return Err(ApiProblem::too_large(quota.saturating_sub(kept)));
    }
    // Checked before the blob is written, so that nothing has to be removed.
    check_picture(&bytes)?;
    let blob = runtime.blobs().put(bytes.clone()).await?;
    Ok(media(blob, &bytes, media_type, name))
}

/// Returns content of the session: from the log, or an earlier upload.
async fn named(
    app: &AppState,
    session: &SessionId,
    hash: &str,
    (media_type, name): (Option<String>, Option<String>),
    is_picture: bool,
) -> Result<MediaPart, ApiProblem> {
    // Only content of this session is found. A hash alone must not open another session's files.
    if let Some(upload) = app.uploads().find(session, hash) {
        let (media_type, name) = checked(media_type.unwrap_or(upload.media_type), name.or(upload.name))?;
        return Ok(MediaPart { media_type, name, ..upload });
    }
    let of_log = app.runtime().store().blobs(session).await?;
    let Some(blob) = of_log.into_iter().find(|blob| blob.hash == hash) else {
        return Err(ApiProblem::not_found("such content in this session"));
    };
    // The content is read for its size in pixels, and for its type if none is stated.
    let bytes = app.runtime().blobs().get(&blob).await?;
    let kind = stated_or_found(media_type, &bytes, is_picture)?;
    let (media_type, name) = checked(kind, name)?;
    Ok(media(blob, &bytes, media_type, name))
}

/// Refuses pictures whose decoded size would exhaust the memory. Such files can be small.
fn check_picture(bytes: &[u8]) -> Result<(), ApiProblem> {
    longhaul::picture::size(bytes)
        .map(drop)
        .map_err(|too_large| ApiProblem::invalid(format!("The picture was not accepted: {too_large}.")))
}

fn media(blob: BlobRef, bytes: &Bytes, media_type: String, name: Option<String>) -> MediaPart {
    let size = longhaul::picture::size(bytes).ok().flatten().filter(|_| media_type.starts_with("image/"));
    MediaPart {
        blob,
        media_type,
        name,
        width: size.map(|(width, _)| width),
        height: size.map(|(_, height)| height),
    }
}

fn checked(media_type: String, name: Option<String>) -> Result<(String, Option<String>), ApiProblem> {
    // Parameters such as a charset are dropped, because the type is compared with lists of known ones.
    let media_type = media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let is_type =
        media_type.split_once('/').is_some_and(|(kind, form)| is_mime_token(kind) && is_mime_token(form));
    if !is_type || media_type.len() > TYPE_CHARS {
        return Err(ApiProblem::invalid("`mediaType` is a MIME type like image/png."));
    }
    if !name.as_deref().is_none_or(is_file_name) {
        return Err(ApiProblem::invalid(format!(
            "A file's name must have 1 to {NAME_CHARS} visible characters."
        )));
    }
    Ok((media_type, name))
}

fn is_mime_token(token: &str) -> bool {
    !token.is_empty() && token.chars().all(|c| c.is_ascii_alphanumeric() || "!#$&-^_.+".contains(c))
}

fn is_file_name(name: &str) -> bool {
    // Names are printed in terminals, where control characters are commands.
    !name.is_empty() && name.chars().count() <= NAME_CHARS && !name.chars().any(char::is_control)
}
