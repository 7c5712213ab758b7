//! UTF-16 in text files, as editors and shells on Windows write it.

/// The number of bytes at the beginning of a file that decide on its encoding, if it has no byte order mark.
const SAMPLE_BYTES: usize = 1_024;

/// The byte order mark as a character.
const MARK: char = '\u{feff}';

/// The encoding of a text file that is not UTF-8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Utf16Encoding {
    is_big_endian: bool,
    has_mark: bool,
}

impl Utf16Encoding {
    /// Returns the encoding of a file that begins with these bytes; `None` for UTF-8 and every other encoding. A file
    /// without a byte order mark is UTF-16 if every second byte of its beginning is zero and no other byte is.
    pub(crate) fn of(start: &[u8]) -> Option<Self> {
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
        // Latin letters and digits have one zero byte in each unit.
        if units.iter().all(|[low, high]| *low != 0 && *high == 0) {
            return Some(Self { is_big_endian: false, has_mark: false });
        }
        let is_big_endian = units.iter().all(|[high, low]| *high == 0 && *low != 0);
        is_big_endian.then_some(Self { is_big_endian: true, has_mark: false })
    }

    /// Returns the text of a file without its byte order mark; `None` if it is no valid UTF-16.
    pub(crate) fn decode(self, bytes: &[u8]) -> Option<String> {
        let (units, rest) = self.units(bytes);
        let text: Option<String> = char::decode_utf16(units).collect::<Result<_, _>>().ok();
        text.filter(|_| rest.is_empty())
    }

    /// Returns the text of a file without its byte order mark, with U+FFFD for invalid units.
    pub(crate) fn decode_lossy(self, bytes: &[u8]) -> String {
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
    pub(crate) fn encode(self, text: &str) -> Vec<u8> {
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
            let texts: &[&str] = if has_mark { &["", "a\r\nb", "é 次 🦀"] } else { &["a\r\nb"] };
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
