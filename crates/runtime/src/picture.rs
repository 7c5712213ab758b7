//! The size of a picture, the limits on decoding, and the fitting of pictures to a model's server.
//!
//! The size stands in the first bytes. The size is checked before a picture is decoded, because a small file can ask
//! for more memory than a machine has.

mod fit;
#[cfg(any(test, not(feature = "images")))]
mod no_rewrite;
#[cfg(feature = "images")]
mod rewrite;

#[cfg(not(feature = "images"))]
use no_rewrite as rewrite;

pub use fit::{FittedPicture, PictureFitError, PictureLimits, fit};

/// The maximum length of a side, in pixels.
pub(crate) const LONGEST_SIDE: usize = 32_768;

/// The maximum number of pixels: 100 million take 400 MB after decoding.
pub const MOST_PIXELS: usize = 100_000_000;

/// A picture too large for decoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a picture of {width} × {height} pixels is too large: {} million pixels at most, {LONGEST_SIDE} on a side",
    MOST_PIXELS / 1_000_000
)]
pub struct PictureTooLarge {
    /// The width, in pixels.
    pub width: usize,
    /// The height, in pixels.
    pub height: usize,
}

/// Returns width and height in pixels, as the content declares; `None` if the content is no picture of a known kind.
///
/// ```
/// let gif = b"GIF89a\x40\x00\x20\x00\x00\x00\x00";
/// assert_eq!(longhaul::picture::size(gif), Ok(Some((64, 32))));
/// let bomb = b"GIF89a\xff\xff\xff\xff\x00\x00\x00";
/// assert!(longhaul::picture::size(bomb).unwrap_err().to_string().contains("65535 × 65535"));
/// ```
///
/// # Errors
/// [`PictureTooLarge`].
pub fn size(content: &[u8]) -> Result<Option<(u32, u32)>, PictureTooLarge> {
    // A file may declare different sizes to different readers, so the largest of all counts.
    let said = imagesize::blob_size(content).ok().map(|size| (size.width, size.height));
    let Some((width, height)) = [said, jpeg(content), gif(content)].into_iter().flatten().reduce(larger)
    else {
        return Ok(None);
    };
    // Judged by the header alone: a small file can declare billions of pixels.
    let is_large = width.max(height) > LONGEST_SIDE || width.saturating_mul(height) > MOST_PIXELS;
    match (u32::try_from(width), u32::try_from(height)) {
        (Ok(width), Ok(height)) if !is_large => Ok(Some((width, height))),
        _ => Err(PictureTooLarge { width, height }),
    }
}

/// Returns the size around both, because a decoder may allocate either.
fn larger(one: (usize, usize), other: (usize, usize)) -> (usize, usize) {
    (one.0.max(other.0), one.1.max(other.1))
}

/// Returns the largest frame of a JPEG (ITU T.81, B.1.1). Any number of bytes `FF` may precede a marker.
fn jpeg(content: &[u8]) -> Option<(usize, usize)> {
    let mut rest = content.strip_prefix(b"\xFF\xD8")?;
    let mut found = None;
    loop {
        let Some(begin) = rest.iter().position(|byte| *byte == 0xFF) else { return found };
        // Any number of 0xFF bytes may stand before a marker.
        let Some(fill) = rest[begin..].iter().position(|byte| *byte != 0xFF) else { return found };
        let marker = rest[begin + fill];
        rest = &rest[begin + fill + 1..];
        match marker {
            // These markers are part of the picture's data or have no segment.
            0x00 | 0x01 | 0xD0..=0xD8 => continue,
            0xD9 => return found,
            _ => {}
        }
        // 0xC4, 0xC8 and 0xCC hold tables and extensions, not the size of a frame.
        if matches!(marker, 0xC0..=0xCF if ![0xC4, 0xC8, 0xCC].contains(&marker)) {
            let frame = two(rest, 5, u16::from_be_bytes).zip(two(rest, 3, u16::from_be_bytes));
            found = found.into_iter().chain(frame).reduce(larger);
        }
        // A length includes its own two bytes. A smaller one is wrong and would keep the search from moving on.
        let length = two(rest, 0, u16::from_be_bytes);
        let Some(behind) = length.and_then(|length| rest.get(length.max(2)..)) else { return found };
        rest = behind;
    }
}

/// Returns the extent of a GIF's screen and frames (GIF89a, 18 to 20), because a frame may be larger than the screen.
fn gif(content: &[u8]) -> Option<(usize, usize)> {
    let rest = content.strip_prefix(b"GIF87a").or_else(|| content.strip_prefix(b"GIF89a"))?;
    let mut found = (two(rest, 0, u16::from_le_bytes)?, two(rest, 2, u16::from_le_bytes)?);
    let mut next = behind_colors(rest, 4, 7);
    while let Some((kind, block)) = next.and_then(<[u8]>::split_first) {
        next = match kind {
            0x2C => {
                let fields = [0, 2, 4, 6].map(|at| two(block, at, u16::from_le_bytes));
                if let [Some(left), Some(top), Some(width), Some(height)] = fields {
                    // Frames may reach beyond the declared screen, and decoders may make room for them.
                    found = larger(found, (left + width, top + height));
                }
                // One byte between the table and the data holds the code size of the compression.
                behind_colors(block, 8, 9).and_then(|data| data.get(1..)).and_then(behind_parts)
            }
            // An extension has a label before its parts.
            0x21 => block.get(1..).and_then(behind_parts),
            _ => None,
        };
    }
    Some(found)
}

/// Returns the bytes after a table of colours, if any. The byte at `flags` holds the table's presence and length.
fn behind_colors(bytes: &[u8], flags: usize, table: usize) -> Option<&[u8]> {
    let flags = *bytes.get(flags)?;
    let length = if flags & 0x80 == 0 { 0 } else { 3 << ((flags & 7) + 1) };
    bytes.get(table + length..)
}

/// Returns the bytes after a list of parts, each after a length byte.
fn behind_parts(mut bytes: &[u8]) -> Option<&[u8]> {
    loop {
        let (length, rest) = bytes.split_first()?;
        bytes = rest.get(usize::from(*length)..)?;
        if *length == 0 {
            return Some(bytes);
        }
    }
}

fn two(bytes: &[u8], at: usize, read: fn([u8; 2]) -> u16) -> Option<usize> {
    Some(read(bytes.get(at..at + 2)?.try_into().ok()?).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn jpeg_of(before: &[u8], width: u16, height: u16) -> Vec<u8> {
        let segment = [&[0xFF, 0xC0, 0, 17, 8][..], &height.to_be_bytes(), &width.to_be_bytes(), &[3; 10]];
        [b"\xFF\xD8", before, &segment.concat(), b"\xFF\xDA\x00\x02\x12\xFF\x00\xFF\xD9"].concat()
    }

    fn gif_of(screen: u16, frame: (u16, u16), colors: bool) -> Vec<u8> {
        let sizes = |sizes: &[u16]| sizes.iter().flat_map(|size| size.to_le_bytes()).collect::<Vec<u8>>();
        let table: &[u8] = if colors { &[0; 12] } else { &[] };
        let flags = if colors { 0x81 } else { 0 };
        let frame =
            [&[0x2C][..], &sizes(&[frame.0, 0, frame.1, 9]), &[flags], table, b"\x02\x02\x44\x01\x00"];
        let extension = b"\x21\xF9\x04\x00\x00\x00\x00\x00";
        let head = [b"GIF89a", &sizes(&[screen, screen])[..], &[flags, 0, 0], table].concat();
        [&head, &extension[..], &frame.concat(), extension, &frame.concat(), b";"].concat()
    }

    #[test]
    fn a_size_is_found_wherever_a_decoder_finds_it() {
        for before in [&b""[..], b"\xFF", b"\xFF\xFF\xFF", b"\x00\x01", b"\xFF\xE1\x00\x05ab\xFF\xFF"] {
            assert_eq!(size(&jpeg_of(before, 64, 32)), Ok(Some((64, 32))), "{before:?}");
            let bomb = jpeg_of(before, 20_000, 20_000);
            assert_eq!(size(&bomb), Err(PictureTooLarge { width: 20_000, height: 20_000 }), "{before:?}");
        }
        for colors in [true, false] {
            assert_eq!(size(&gif_of(100, (1, 9), colors)), Ok(Some((100, 100))));
            assert_eq!(size(&gif_of(1, (50, 60), colors)), Ok(Some((110, 9))), "the frames hang over");
            let bomb = gif_of(1, (30_000, 30_000), colors);
            assert_eq!(size(&bomb), Err(PictureTooLarge { width: 60_000, height: 9 }), "{colors}");
        }
    }

    #[test]
    fn what_is_cut_short_is_read_as_far_as_it_goes() {
        for whole in [jpeg_of(b"\xFF\xFF", 64, 32), gif_of(8, (60, 60), true)] {
            for end in 0..whole.len() {
                let _ = size(&whole[..end]);
            }
        }
    }
}
