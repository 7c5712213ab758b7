//! The sink for the by-products of a conversion: warnings and blobs.

use std::collections::HashSet;

use base64::Engine as _;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use bytes::Bytes;
use longhaul_core::message::{BlobRef, MediaPart, Part};

use super::{ImportPosition, ImportWarning};

/// Standard alphabet, padding or not: exporters differ.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

#[derive(Debug, Default)]
pub(super) struct ImportSink {
    pub(super) warnings: Vec<ImportWarning>,
    pub(super) blobs: Vec<(BlobRef, Bytes)>,
    seen: HashSet<String>,
}

impl ImportSink {
    pub(super) fn warn(&mut self, place: impl Into<Option<ImportPosition>>, message: impl Into<String>) {
        self.warnings.push(ImportWarning { place: place.into(), message: message.into() });
    }

    /// Returns the media of a base64 text, or a text part about invalid base64.
    pub(super) fn media(
        &mut self,
        place: ImportPosition,
        media_type: &str,
        name: Option<String>,
        base64: &str,
    ) -> Part {
        let Ok(content) = decode(base64) else {
            self.warn(place, format!("content of type {media_type} is not base64 and was left out"));
            return Part::text(format!("[unreadable content: {media_type}]"));
        };
        let size = imagesize::blob_size(&content).ok();
        let media = MediaPart {
            blob: self.keep(content.into()),
            media_type: media_type.to_owned(),
            name,
            width: size.and_then(|size| u32::try_from(size.width).ok()),
            height: size.and_then(|size| u32::try_from(size.height).ok()),
        };
        if media_type.starts_with("image/") { Part::Image(media) } else { Part::File(media) }
    }

    fn keep(&mut self, content: Bytes) -> BlobRef {
        let blob = blob_ref(&content);
        // Conversations send the same picture again and again, but equal content is one blob.
        if self.seen.insert(blob.hash.clone()) {
            self.blobs.push((blob.clone(), content));
        }
        blob
    }
}

/// Returns the name of a content.
pub(super) fn blob_ref(content: &[u8]) -> BlobRef {
    BlobRef { hash: blake3::hash(content).to_hex().to_string(), bytes: content.len() as u64 }
}

pub(super) fn decode(text: &str) -> Result<Vec<u8>, base64::DecodeError> {
    BASE64.decode(text.trim())
}
