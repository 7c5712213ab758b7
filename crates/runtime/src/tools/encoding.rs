//! The encoding of text files: UTF-8, or UTF-16 as editors and shells on Windows write it. All file tools read and
//! write text through [`TextEncoding`].

/// The number of bytes at the beginning of a file that decide on its encoding, if it has no byte order mark.
const SAMPLE_BYTES: usize = 1_024;

/// The byte order mark as a character.
const MARK: char = '\u{feff}';

/// The byte order mark of UTF-8 files. It is no part of the first line.
const UTF8_MARK: &[u8] = b"\xef\xbb\xbf";

/// The encoding of a text file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TextEncoding {
    /// UTF-8, or another encoding that extends ASCII, with or without a byte order mark.
    Utf8 {
        /// `true` if the file begins with a byte order mark.
        has_mark: bool,
    },
    /// UTF-16.
    Utf16(Utf16Encoding),
}

impl TextEncoding {
    /// Returns the encoding of a file that begins with these bytes; `None` if the file is no text.
    pub(super) fn of(start: &[u8]) -> Option<Self> {
        match Utf16Encoding::of(start) {
            Some(encoding) => Some(Self::Utf16(encoding)),
            // No other text has a zero byte.
            None if start.contains(&0) => None,
            None => Some(Self::Utf8 { has_mark: start.starts_with(UTF8_MARK) }),
        }
    }

    /// Returns the text of a file without its byte order mark; `None` if UTF-16 has units that are no characters.
    /// Bytes that are no UTF-8 stay.
    pub(super) fn decode(self, bytes: Vec<u8>) -> Option<Vec<u8>> {
        match self {
            Self::Utf8 { has_mark } => Some(if has_mark { without_mark(bytes) } else { bytes }),
            Self::Utf16(encoding) => encoding.decode(&bytes).map(String::into_bytes),
        }
    }

    /// Returns the text of a file without its byte order mark, with U+FFFD for invalid units of UTF-16.
    pub(super) fn decode_lossy(self, bytes: Vec<u8>) -> Vec<u8> {
        match self {
            Self::Utf8 { has_mark } => {
                if has_mark {
                    without_mark(bytes)
                } else {
                    bytes
                }
            }
            Self::Utf16(encoding) => encoding.decode_lossy(&bytes).into_bytes(),
        }
    }

    /// Returns the bytes of a file with this text. The text may have a byte order mark of its own.
    pub(super) fn encode(self, text: Vec<u8>) -> Vec<u8> {
        match self {
            Self::Utf8 { has_mark: false } => text,
            Self::Utf8 { has_mark: true } if text.starts_with(UTF8_MARK) => text,
            Self::Utf8 { has_mark: true } => [UTF8_MARK, &text].concat(),
            Self::Utf16(encoding) => {
                // Valid text with valid text inserted stays valid, so the lossy conversion loses nothing.
                let text = String::from_utf8_lossy(&text);
                encoding.encode(text.strip_prefix(MARK).unwrap_or(&text))
            }
        }
    }

    /// Returns the name of the encoding for the model; `None` for UTF-8 without a byte order mark.
    pub(super) fn name(self) -> Option<&'static str> {
        match self {
            Self::Utf8 { has_mark: false } => None,
            Self::Utf8 { has_mark: true } => Some("UTF-8 with a byte order mark"),
            Self::Utf16(_) => Some("UTF-16"),
        }
    }
}

fn without_mark(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.drain(..UTF8_MARK.len().min(bytes.len()));
    bytes
}

/// UTF-16 with or without a byte order mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Utf16Encoding {
    is_big_endian: bool,
    has_mark: bool,
}

impl Utf16Encoding {
    /// Returns the encoding of a file that begins with these bytes; `None` for UTF-8 and every other encoding. A file
    /// without a byte order mark is UTF-16 if its beginning is valid text in it, most of it from Latin-1.
    fn of(start: &[u8]) -> Option<Self> {
        match start {
            // UTF-32 begins with these bytes, too.
            [0xff, 0xfe, 0, 0, ..] => None,
            [0xff, 0xfe, ..] => Some(Self { is_big_endian: false, has_mark: true }),
            [0xfe, 0xff, ..] => Some(Self { is_big_endian: true, has_mark: true }),
            // The sample has whole units only, hence the even length.
            _ => Self::unmarked(&start[..start.len().min(SAMPLE_BYTES) & !1]),
        }
    }

    fn unmarked(sample: &[u8]) -> Option<Self> {
        let (units, _) = sample.as_chunks::<2>();
        if units.is_empty() {
            return None;
        }
        let encodings = [false, true].map(|is_big_endian| Self { is_big_endian, has_mark: false });
        encodings.into_iter().find(|encoding| encoding.is_likely(sample))
    }

    /// Returns whether a sample without a byte order mark reads as text in this encoding.
    fn is_likely(self, sample: &[u8]) -> bool {
        let (units, _) = self.units(sample);
        let (mut all, mut latin) = (0_usize, 0_usize);
        for unit in units {
            all += 1;
            match unit {
                // Sound samples and tables of numbers have such units, and text has none.
                0..=8 | 0xb | 0xe..=0x1a | 0x1c..=0x1f | 0xfffe | 0xffff => return false,
                9..=0xff => latin += 1,
                _ => {}
            }
        }
        // Latin letters, digits and blanks have one zero byte in each unit. Other scripts have some of them.
        latin * 4 >= all * 3
    }

    /// Returns the text of a file without its byte order mark; `None` if it is no valid UTF-16.
    fn decode(self, bytes: &[u8]) -> Option<String> {
        let (units, rest) = self.units(bytes);
        let text: Option<String> = char::decode_utf16(units).collect::<Result<_, _>>().ok();
        text.filter(|_| rest.is_empty())
    }

    /// Returns the text of a file without its byte order mark, with U+FFFD for invalid units.
    fn decode_lossy(self, bytes: &[u8]) -> String {
        let (units, rest) = self.units(bytes);
        let characters = char::decode_utf16(units).map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER));
        characters.chain(rest.first().map(|_| char::REPLACEMENT_CHARACTER)).collect()
    }

    /// Returns the units after the mark, and a last byte that is half a unit.
    fn units(self, bytes: &[u8]) -> (impl Iterator<Item = u16> + '_, &[u8]) {
        let bytes = if self.has_mark { bytes.get(2..).unwrap_or_default() } else { bytes };
        let (pairs, rest) = bytes.as_chunks::<2>();
        let from_bytes = if self.is_big_endian { u16::from_be_bytes } else { u16::from_le_bytes };
        (pairs.iter().map(move |pair| from_bytes(*pair)), rest)
    }

    /// Returns the bytes of a file with this text.
    fn encode(self, text: &str) -> Vec<u8> {
        let mut units = [0_u16; 2];
        let marked = self.has_mark.then_some(MARK).into_iter().chain(text.chars());
        let mut bytes = Vec::with_capacity(text.len() * 2 + 2);
        for character in marked {
            for unit in character.encode_utf16(&mut units) {
                bytes.extend(if self.is_big_endian { unit.to_be_bytes() } else { unit.to_le_bytes() });
            }
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_read_is_written_in_the_same_bytes() {
        for (is_big_endian, has_mark) in [(false, false), (false, true), (true, false), (true, true)] {
            let encoding = Utf16Encoding { is_big_endian, has_mark };
            let texts: &[&str] = if has_mark {
                &["", "a\r\nb", "é 次 🦀"]
            } else {
                &["a\r\nb", "Name: 次 of many — and more"]
            };
            for text in texts {
                let bytes = encoding.encode(text);
                assert_eq!(Utf16Encoding::of(&bytes), Some(encoding), "{text:?}");
                assert_eq!(encoding.decode(&bytes).as_deref(), Some(*text));
            }
        }
    }

    #[test]
    fn other_files_are_no_utf_16() {
        for bytes in
            [&b""[..], b"text", b"\xef\xbb\xbftext", b"\x7fELF\0\0\0\0", b"\xff\xfe\0\0a\0\0\0", b"\0\0\0\0"]
        {
            assert_eq!(Utf16Encoding::of(bytes), None, "{bytes:?}");
        }
        let broken = [0xff, 0xfe, b'a', 0, 0, 0xd8, b'b'];
        let encoding = Utf16Encoding::of(&broken).unwrap();
        assert_eq!(encoding.decode(&broken), None);
        assert_eq!(encoding.decode_lossy(&broken), "a\u{fffd}\u{fffd}");
    }
}
