//! Pictures fit for a model's server: of a known kind, undamaged, and within the server's limits.

use bytes::Bytes;

use super::{PictureTooLarge, rewrite};

/// The limits of a server for a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PictureLimits {
    /// The maximum length of a side, in pixels.
    pub max_side: u32,
    /// The maximum size of the file, in bytes.
    pub max_bytes: u64,
}

impl PictureLimits {
    /// Returns the limits of a wire, in a request with `count` pictures.
    ///
    /// Anthropic, "Vision" (8,000 pixels, 2,000 where a request has more than 20 pictures; 5 MB in base64). The others
    /// accept about 20 MB in base64 and scale down pictures wider than 8,000 pixels themselves.
    pub fn of_wire(api: &str, count: usize) -> Self {
        match api {
            // Base64 adds a third: 3,900,000 bytes become 5.2 million characters, 15,000,000 bytes become 20 million.
            "anthropic-messages" => {
                Self { max_side: if count > 20 { 2_000 } else { 8_000 }, max_bytes: 3_900_000 }
            }
            _ => Self { max_side: 8_000, max_bytes: 15_000_000 },
        }
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
}
