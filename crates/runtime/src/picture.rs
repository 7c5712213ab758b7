//! The size of a picture, and which are too large to be passed on.
//!
//! No picture is decoded here: its size stands in its first bytes. Whoever serves the model does decode it, and a
//! small file can ask for more memory than a machine has.

/// The longest side, in pixels.
pub const LONGEST_SIDE: usize = 32_768;

/// The most pixels in all: 100 million are 400 MB when they are decoded.
pub const MOST_PIXELS: usize = 100_000_000;

/// A picture that nobody should decode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a picture of {width} × {height} pixels is too large: {} million pixels at most, {LONGEST_SIDE} on a side",
    MOST_PIXELS / 1_000_000
)]
pub struct TooLarge {
    /// In pixels.
    pub width: usize,
    /// In pixels.
    pub height: usize,
}

/// Width and height in pixels, as the content says; `None` for what is no picture of a known kind.
///
/// ```
/// let gif = b"GIF89a\x40\x00\x20\x00\x00\x00\x00";
/// assert_eq!(longhaul::picture::size(gif), Ok(Some((64, 32))));
/// let bomb = b"GIF89a\xff\xff\xff\xff\x00\x00\x00";
/// assert!(longhaul::picture::size(bomb).unwrap_err().to_string().contains("65535 × 65535"));
/// ```
///
/// # Errors
/// [`TooLarge`].
pub fn size(content: &[u8]) -> Result<Option<(u32, u32)>, TooLarge> {
    let Ok(size) = imagesize::blob_size(content) else { return Ok(None) };
    let (width, height) = (size.width, size.height);
    let is_large = width.max(height) > LONGEST_SIDE || width.saturating_mul(height) > MOST_PIXELS;
    match (u32::try_from(width), u32::try_from(height)) {
        (Ok(width), Ok(height)) if !is_large => Ok(Some((width, height))),
        _ => Err(TooLarge { width, height }),
    }
}
