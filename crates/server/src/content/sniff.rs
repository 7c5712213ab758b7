//! The detection of a media type from the first bytes of content.

use longhaul::text_encoding::{DecodedText, decode_windows_1252};

/// The signatures of formats: offset, bytes, media type. The first matching row counts. Sources: the WHATWG's MIME
/// Sniffing Standard, and each format's own specification.
const MARKS: &[(usize, &[u8], &str)] = &[
    (0, b"\x89PNG\r\n\x1a\n", "image/png"),
    (0, b"\xff\xd8\xff", "image/jpeg"),
    (0, b"GIF87a", "image/gif"),
    (0, b"GIF89a", "image/gif"),
    // `RIFF` and a length precede this mark, as those of WAVE and AVI below.
    (8, b"WEBP", "image/webp"),
    (4, b"ftypavif", "image/avif"),
    (4, b"ftypheic", "image/heic"),
    (4, b"ftypmif1", "image/heif"),
    (0, b"BM", "image/bmp"),
    (0, b"II*\0", "image/tiff"),
    (0, b"MM\0*", "image/tiff"),
    (0, b"\0\0\x01\0", "image/x-icon"),
    (0, b"%PDF-", "application/pdf"),
    (8, b"WAVE", "audio/wav"),
    (8, b"AVI ", "video/x-msvideo"),
    (0, b"ID3", "audio/mpeg"),
    (0, b"\xff\xfb", "audio/mpeg"),
    (0, b"OggS", "audio/ogg"),
    (0, b"fLaC", "audio/flac"),
    // After the pictures above, whose files have the same container.
    (4, b"ftyp", "video/mp4"),
    (0, b"\x1a\x45\xdf\xa3", "video/webm"),
    // Office documents and many other files are archives of this kind too.
    (0, b"PK\x03\x04", "application/zip"),
    (0, b"\x1f\x8b", "application/gzip"),
];

/// The types with signatures that text may begin with, too. Such a signature counts only if the content is no
/// text.
const OF_TEXT: [&str; 2] = ["image/bmp", "audio/mpeg"];

/// Returns the media type of content by its first bytes. Text is `text/plain`, `application/json`, `text/html` or
/// `image/svg+xml`; unknown content is `application/octet-stream`.
pub(crate) fn media_type(content: &[u8]) -> &'static str {
    // A zero byte is valid UTF-8, but no text file has one.
    let decoded = is_marked_utf16(content).then(|| DecodedText::new(content).strict().ok()).flatten();
    let decoded = decoded.or_else(|| decode_windows_1252(content));
    let text = decoded.as_deref().or_else(|| std::str::from_utf8(content).ok());
    let text = text.filter(|text| !text.contains('\0'));
    let known = MARKS
        .iter()
        .find(|(at, mark, _)| content.get(*at..).is_some_and(|rest| rest.starts_with(mark)))
        .map(|(.., kind)| *kind);
    match (known.filter(|kind| text.is_none() || !OF_TEXT.contains(kind)), text) {
        (Some(kind), _) => kind,
        (None, Some(text)) => of_text(text),
        (None, None) => "application/octet-stream",
    }
}

/// Reports whether content begins with the byte order mark of UTF-16.
fn is_marked_utf16(content: &[u8]) -> bool {
    // Only the mark decides here: binary files may have a zero in every second byte of their beginning.
    content.starts_with(b"\xff\xfe") || content.starts_with(b"\xfe\xff")
}

fn of_text(text: &str) -> &'static str {
    let text = text.trim_start_matches('\u{feff}').trim();
    // An XML declaration and comments may precede the element.
    let start: String = text.chars().take(512).collect::<String>().to_ascii_lowercase();
    if start.starts_with("<!doctype html") || start.starts_with("<html") {
        "text/html"
    } else if start.starts_with("<svg") || start.starts_with("<?xml") && start.contains("<svg") {
        "image/svg+xml"
    } else if is_json(text) {
        "application/json"
    } else {
        "text/plain"
    }
}

/// Reports whether the text is a JSON object or list.
fn is_json(text: &str) -> bool {
    text.starts_with(['{', '[']) && serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok()
}

#[cfg(test)]
mod tests {
    use super::media_type;

    #[test]
    fn content_is_known_by_its_first_bytes() {
        for (content, expected) in [
            (&b"\x89PNG\r\n\x1a\n...."[..], "image/png"),
            (b"\xff\xd8\xff\xe0\0\x10JFIF", "image/jpeg"),
            (b"GIF89a\x01\0", "image/gif"),
            (b"RIFF\x10\0\0\0WEBPVP8 ", "image/webp"),
            (b"RIFF\x10\0\0\0WAVEfmt ", "audio/wav"),
            (b"%PDF-1.7\n", "application/pdf"),
            (b"BM\x36\0\0\0\0\0", "image/bmp"),
            (b"BMW is a car", "text/plain"),
            (b"ID3 tags are text here", "text/plain"),
            (b"PK\x03\x04\x14\0", "application/zip"),
            ("größer".as_bytes(), "text/plain"),
            (b"{\"a\": [1]}\n", "application/json"),
            (b"{a: 1}", "text/plain"),
            (b" <!DOCTYPE html><p>", "text/html"),
            (b"<?xml version=\"1.0\"?>\n<svg/>", "image/svg+xml"),
            (b"\xff\xfe{\0}\0", "application/json"),
            (b"\xfe\xff\0h\0i", "text/plain"),
            (b"\xff\xfe\0\xd8", "application/octet-stream"),
            (b"\0\x01\x02", "application/octet-stream"),
            (b"caf\xe9", "application/octet-stream"),
            (b"the caf\xe9 is open\n", "text/plain"),
            (b"\x01\x02 and some words \xe9", "application/octet-stream"),
        ] {
            assert_eq!(media_type(content), expected, "{content:?}");
        }
    }
}
