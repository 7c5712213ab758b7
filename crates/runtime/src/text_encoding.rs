//! The encoding of text that somebody attached: UTF-8, UTF-16 or Windows-1252.
//!
//! UTF-16 comes from editors and shells on Windows, Windows-1252 (with Latin-1 in it) from older programs. Every other
//! encoding, such as Shift-JIS, is not recognised, and its text is not decoded.

mod utf16;

use std::borrow::Cow;

use encoding_rs::WINDOWS_1252;

pub(crate) use self::utf16::Utf16Encoding;

/// The byte order mark, which some editors write before UTF-8, too.
const MARK: char = '\u{feff}';

/// The encoding that a text was decoded from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TextEncoding {
    /// UTF-8.
    Utf8,
    /// UTF-16, with a byte order mark or recognised by its zero bytes.
    Utf16,
    /// Windows-1252. Latin-1 is the same but for control characters that no text has.
    Windows1252,
}

/// A text, and how it was decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DecodedText<'a> {
    /// The text without a byte order mark.
    pub text: Cow<'a, str>,
    /// The encoding of the bytes.
    pub encoding: TextEncoding,
    /// Set if U+FFFD stands for bytes that are invalid in the encoding.
    pub is_lossy: bool,
}

impl DecodedText<'_> {
    /// Returns what the reader of a text should know about its decoding; `None` for valid UTF-8.
    pub fn notice(&self) -> Option<&'static str> {
        match (self.encoding, self.is_lossy) {
            (TextEncoding::Utf8, false) => None,
            (TextEncoding::Utf8, true) => Some("with bytes that are not valid UTF-8, shown as \u{fffd}"),
            (TextEncoding::Utf16, false) => Some("decoded from UTF-16"),
            (TextEncoding::Utf16, true) => {
                Some("decoded from UTF-16, with invalid characters shown as \u{fffd}")
            }
            (TextEncoding::Windows1252, _) => {
                Some("not valid UTF-8, decoded as Windows-1252, so some letters may be wrong")
            }
        }
    }
}

/// Decodes a text; `None` if the content is binary, or text in an encoding that is not recognised.
///
/// ```
/// use longhaul::text_encoding::decode_text;
/// assert_eq!(decode_text(b"caf\xe9 cr\xe8me").unwrap().text, "café crème");
/// assert_eq!(decode_text(b"\xff\xfeh\0i\0").unwrap().text, "hi");
/// assert!(decode_text(b"\0\x01\x02\xff").is_none());
/// ```
pub fn decode_text(content: &[u8]) -> Option<DecodedText<'_>> {
    // UTF-16 comes first: Latin letters in UTF-16 without a mark are valid UTF-8, with zeros between them.
    if let Some(decoded) = decode_utf16(content) {
        return Some(decoded);
    }
    if let Ok(text) = std::str::from_utf8(content) {
        let text = Cow::Borrowed(text.strip_prefix(MARK).unwrap_or(text));
        return Some(DecodedText { text, encoding: TextEncoding::Utf8, is_lossy: false });
    }
    if content.iter().any(|byte| is_binary(char::from(*byte))) {
        return None;
    }
    if is_mostly_utf8(content) {
        let text = String::from_utf8_lossy(content).trim_start_matches(MARK).to_owned().into();
        return Some(DecodedText { text, encoding: TextEncoding::Utf8, is_lossy: true });
    }
    // In Western languages most letters are ASCII. Text with more other bytes is in another encoding.
    let other_bytes = content.iter().filter(|byte| !byte.is_ascii()).count();
    if other_bytes * 2 > content.len() {
        return None;
    }
    let text = WINDOWS_1252.decode_without_bom_handling(content).0;
    Some(DecodedText { text, encoding: TextEncoding::Windows1252, is_lossy: false })
}

fn decode_utf16(content: &[u8]) -> Option<DecodedText<'static>> {
    let encoding = Utf16Encoding::of(content)?;
    let valid = encoding.decode(content);
    let is_lossy = valid.is_none();
    let text = valid.unwrap_or_else(|| encoding.decode_lossy(content));
    // Two bytes are a thin reason to believe in UTF-16: what comes of it must be a text.
    let invalid = text.chars().filter(|c| *c == char::REPLACEMENT_CHARACTER).count();
    let is_text = !text.contains(is_binary) && invalid <= 1 + text.len() / 100;
    is_text.then(|| DecodedText { text: text.into(), encoding: TextEncoding::Utf16, is_lossy })
}

/// Returns whether a character is one that no text file has. Terminals' output has the escape character.
fn is_binary(c: char) -> bool {
    c < ' ' && !matches!(c, '\t' | '\n' | '\r' | '\x08' | '\x0b' | '\x0c' | '\x1b')
}

/// Returns whether a content is UTF-8 with a few bad bytes: more of its characters beyond ASCII are valid than invalid.
fn is_mostly_utf8(content: &[u8]) -> bool {
    let (mut valid, mut invalid) = (0_usize, 0_usize);
    for chunk in content.utf8_chunks() {
        valid += chunk.valid().chars().filter(|c| !c.is_ascii()).count();
        invalid += usize::from(!chunk.invalid().is_empty());
    }
    valid > invalid
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(content: &[u8]) -> Option<(String, TextEncoding, bool)> {
        decode_text(content).map(|decoded| (decoded.text.into_owned(), decoded.encoding, decoded.is_lossy))
    }

    fn utf16(text: &str, is_big_endian: bool) -> Vec<u8> {
        let to_bytes = if is_big_endian { u16::to_be_bytes } else { u16::to_le_bytes };
        text.encode_utf16().flat_map(to_bytes).collect()
    }

    #[test]
    fn each_encoding_is_recognised() {
        let long = "größer, ".repeat(20) + "次 🦀";
        let marked = |is_big_endian| utf16(&format!("\u{feff}{long}"), is_big_endian);
        let mut cut = marked(false);
        cut.pop();
        let lost = format!("{}\u{fffd}\u{fffd}", long.strip_suffix('🦀').unwrap());
        for (content, expected) in [
            (b"".to_vec(), Some(("", TextEncoding::Utf8, false))),
            (long.clone().into_bytes(), Some((long.as_str(), TextEncoding::Utf8, false))),
            (b"\xef\xbb\xbfa = 1".to_vec(), Some(("a = 1", TextEncoding::Utf8, false))),
            (marked(false), Some((&long, TextEncoding::Utf16, false))),
            (marked(true), Some((&long, TextEncoding::Utf16, false))),
            (utf16("a = 1\r\n", false), Some(("a = 1\r\n", TextEncoding::Utf16, false))),
            (utf16("a = 1\r\n", true), Some(("a = 1\r\n", TextEncoding::Utf16, false))),
            (cut, Some((&lost, TextEncoding::Utf16, true))),
            (b"caf\xe9".to_vec(), Some(("café", TextEncoding::Windows1252, false))),
            (b"\x93Stra\xdfe\x94 5 \x80".to_vec(), Some(("“Straße” 5 €", TextEncoding::Windows1252, false))),
            (b"\xc3\xa9 \xc3\xa0 \xff".to_vec(), Some(("é à \u{fffd}", TextEncoding::Utf8, true))),
        ] {
            let expected = expected.map(|(text, encoding, is_lossy)| (text.to_owned(), encoding, is_lossy));
            assert_eq!(decoded(&content), expected, "{content:?}");
        }
    }

    #[test]
    fn what_is_no_text_is_not_decoded() {
        let shift_jis = b"\x93\xfa\x96\x7b\x8c\xea\x82\xcc";
        let koi8 = b"\xf0\xd2\xc9\xd7\xc5\xd4, \xcd\xc9\xd2";
        let utf32 = b"\xff\xfe\0\0a\0\0\0\xe9\0\0\0";
        let elf = b"\x7fELF\x02\x01\x01\0\xff";
        for content in [&shift_jis[..], koi8, utf32, elf, b"\xff\xfe\x01\0\x02\0", b"\x80\x01\x02"] {
            assert_eq!(decoded(content), None, "{content:?}");
        }
    }

    #[test]
    fn the_reader_is_told_how_a_text_was_decoded() {
        let notice = |content: &[u8]| decode_text(content).unwrap().notice();
        assert_eq!(notice(b"plain"), None);
        assert_eq!(notice(b"\xff\xfeh\0i\0"), Some("decoded from UTF-16"));
        assert!(notice(b"caf\xe9").unwrap().contains("Windows-1252"));
        assert!(notice(b"\xc3\xa9 \xc3\xa0 \xff").unwrap().contains('\u{fffd}'));
    }
}
