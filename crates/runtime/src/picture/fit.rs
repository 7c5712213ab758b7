//! Pictures fit for a model's server: of a known kind, undamaged, and within the server's limits.

use bytes::Bytes;
use longhaul_core::refusal::PictureSizeLimits;

use super::{PictureTooLarge, rewrite};

/// The limits of a server for a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PictureLimits {
    /// The maximum length of a side, in pixels.
    pub max_side: u32,
    /// The maximum number of pixels of the whole picture.
    pub max_pixels: u64,
    /// The maximum size of the file, in bytes.
    pub max_bytes: u64,
}

impl PictureLimits {
    /// Returns the limits of a wire, in a request with `count` pictures.
    ///
    /// Anthropic, "Vision" (8,000 pixels, 2,000 where a request has more than 20 pictures; 5 MB in base64). The others
    /// accept about 20 MB in base64 and scale down pictures wider than 8,000 pixels themselves.
    pub fn of_wire(api: &str, count: usize) -> Self {
        // Base64 adds a third: 3,900,000 bytes become 5.2 million characters, 15,000,000 bytes become 20 million.
        let (max_side, max_bytes) = match api {
            "anthropic-messages" => (if count > 20 { 2_000 } else { 8_000 }, 3_900_000),
            _ => (8_000, 15_000_000),
        };
        Self { max_side, max_pixels: u64::MAX, max_bytes }
    }

    /// Returns these limits, lowered to those that a server's error has stated.
    #[must_use]
    pub fn within(self, stated: PictureSizeLimits) -> Self {
        // Servers count the file or its base64 text, which is a third longer. A file of three quarters fits both.
        let max_bytes = stated.max_bytes.map(|bytes| bytes / 4 * 3);
        Self {
            max_side: stated.max_side.map_or(self.max_side, |side| side.min(self.max_side)),
            max_pixels: stated.max_pixels.map_or(self.max_pixels, |pixels| pixels.min(self.max_pixels)),
            max_bytes: max_bytes.map_or(self.max_bytes, |bytes| bytes.min(self.max_bytes)),
        }
    }

    /// Returns whether a picture of this size and length keeps within the limits.
    pub(super) fn admits(&self, (width, height): (u32, u32), bytes: usize) -> bool {
        width.max(height) <= self.max_side
            && u64::from(width) * u64::from(height) <= self.max_pixels
            && bytes as u64 <= self.max_bytes
    }
}

/// A picture fit for sending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FittedPicture {
    /// The MIME type, as the content declares.
    pub media_type: &'static str,
    /// The rewritten picture; `None` if the original can be sent.
    pub rewritten: Option<Bytes>,
}

/// The reason against sending a picture.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PictureFitError {
    /// The content is of no accepted kind.
    #[error("its content is no PNG, JPEG, GIF, WebP or BMP picture")]
    Unknown,
    /// The content cannot be decoded, or its size cannot be read.
    #[error("the picture is damaged ({0})")]
    Damaged(String),
    /// The picture is too large to be decoded.
    #[error("{0}")]
    TooLarge(#[from] PictureTooLarge),
    /// The picture stays too large after all reductions.
    #[error("it cannot be made small enough for this server")]
    Incompressible,
}

/// Checks a picture, and makes a picture over a server's limits smaller.
///
/// Without the feature `images` nothing is decoded: a picture within the limits is sent as it is, damaged or not, and a
/// larger one is [`Incompressible`](PictureFitError::Incompressible).
///
/// ```
/// use longhaul::picture::{PictureLimits, PictureFitError, fit};
/// let limits = PictureLimits::of_wire("openai-chat", 1);
/// assert_eq!(fit(b"no picture", limits), Err(PictureFitError::Unknown));
/// ```
///
/// # Errors
/// [`PictureFitError`]: the picture cannot be sent, and the caller may send a text instead.
pub fn fit(content: &[u8], limits: PictureLimits) -> Result<FittedPicture, PictureFitError> {
    rewrite::fit(content, limits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anthropic_takes_smaller_pictures_where_there_are_many() {
        assert_eq!(PictureLimits::of_wire("anthropic-messages", 20).max_side, 8_000);
        assert_eq!(PictureLimits::of_wire("anthropic-messages", 21).max_side, 2_000);
    }

    #[test]
    fn a_stated_limit_only_lowers_the_known_one() {
        let known = PictureLimits::of_wire("openai-chat", 1);
        let stated =
            PictureSizeLimits { max_side: Some(2_000), max_pixels: None, max_bytes: Some(90_000_000) };
        assert_eq!(known.within(stated), PictureLimits { max_side: 2_000, ..known });
        let stated = PictureSizeLimits { max_bytes: Some(4_000), ..PictureSizeLimits::default() };
        assert_eq!(known.within(stated).max_bytes, 3_000, "its base64 text has 4,000");
    }
}
