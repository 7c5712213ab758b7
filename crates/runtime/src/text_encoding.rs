//! The encoding of text files: UTF-8, or UTF-16 and Windows-1252 as editors and shells on Windows write them.
//!
//! [`DecodedText`] reads every file that a person hands in: prompts, agent files, rule files, attachments and pipes. The
//! file tools read and write text through `TextEncoding`, which keeps the bytes of everything that is not edited.

use std::fmt;

/// The number of bytes at the beginning of a file that decide on its encoding, if it has no byte order mark.
const SAMPLE_BYTES: usize = 1_024;

/// The byte order mark as a character.
const MARK: char = '\u{feff}';

/// The fewest bytes of decoded text per bad byte. A replaced byte has three bytes, so half of a text may be bad.
const MIN_BYTES_PER_BAD_BYTE: usize = 4;

/// The byte order mark in UTF-8.
const UTF8_MARK: &[u8] = b"\xef\xbb\xbf";

/// A text that was decoded from the bytes of a file or a pipe, without its byte order mark.
///
/// ```
/// use longhaul::text_encoding::DecodedText;
///
/// assert_eq!(DecodedText::new(b"\xff\xfeA\0b\0").text, "Ab");
/// let decoded = DecodedText::new(b"caf\xe9\n");
/// assert_eq!(decoded.text, "caf\u{fffd}\n");
/// assert_eq!(decoded.damage.unwrap().to_string(), "1 byte that is not UTF-8, at offset 3 (line 1, column 4)");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DecodedText {
    /// The text, with U+FFFD in the place of bytes that are not characters.
    pub text: String,
    /// The bytes that are not characters; `None` if there are none.
    pub damage: Option<TextDamage>,
}

/// The bytes of a text that are no characters of its encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TextDamage {
    /// The number of bad bytes.
    pub bad_bytes: usize,
    /// The offset of the first bad byte, in bytes from 0.
    pub offset: usize,
    /// The line of the first bad byte, from 1.
    pub line: usize,
    /// The column of the first bad byte, in characters from 1.
    pub column: usize,
    encoding: &'static str,
}

impl DecodedText {
    /// Decodes UTF-8 or UTF-16, with or without a byte order mark.
    pub fn new(bytes: &[u8]) -> Self {
        match Utf16Encoding::of(bytes) {
            Some(encoding) => encoding.decode_with_damage(bytes),
            None => decode_utf8(bytes),
        }
    }

    /// Decodes the beginning of a longer text. A last character that the cut has divided is left out.
    pub fn of_beginning(bytes: &[u8]) -> Self {
        let end = match Utf16Encoding::of(bytes) {
            Some(encoding) => encoding.whole_characters(bytes),
            None => whole_utf8_characters(bytes),
        };
        Self::new(&bytes[..end])
    }

    /// Reports whether the content is probably no text at all: bad bytes beside zero bytes, or many bad bytes.
    pub fn is_binary(&self) -> bool {
        let Some(damage) = self.damage else { return false };
        // A Western text in an old encoding has one bad byte in ten, and anything else has many more.
        self.text.contains('\0') || damage.bad_bytes * MIN_BYTES_PER_BAD_BYTE > self.text.len()
    }

    /// Returns the text, if every byte of it is a character.
    ///
    /// # Errors
    /// The bad bytes, with the position of the first.
    pub fn strict(self) -> Result<String, TextDamage> {
        self.damage.map_or(Ok(self.text), Err)
    }
}

/// The characters of the bytes 0x80 to 0x9F in Windows-1252; U+FFFD where it has none. All other bytes are the characters
/// of Latin-1. Source: the table of the Unicode Consortium, "CP1252.TXT".
const WINDOWS_1252: [char; 32] = [
    '€', '\u{fffd}', '‚', 'ƒ', '„', '…', '†', '‡', 'ˆ', '‰', 'Š', '‹', 'Œ', '\u{fffd}', 'Ž', '\u{fffd}',
    '\u{fffd}', '‘', '’', '“', '”', '•', '–', '—', '˜', '™', 'š', '›', 'œ', '\u{fffd}', 'ž', 'Ÿ',
];

/// Decodes a text in Windows-1252, which extends Latin-1; `None` if the bytes are UTF-8 or UTF-16, with or without
/// damage, or no Western text.
///
/// ```
/// use longhaul::text_encoding::decode_windows_1252;
///
/// assert_eq!(decode_windows_1252(b"a caf\xe9 for \x80 5\n").as_deref(), Some("a café for € 5\n"));
/// assert_eq!(decode_windows_1252("café".as_bytes()), None);
/// ```
pub fn decode_windows_1252(bytes: &[u8]) -> Option<String> {
    if bytes.starts_with(UTF8_MARK) || Utf16Encoding::of(bytes).is_some() {
        return None;
    }
    let mut bad_bytes = 0;
    for chunk in bytes.utf8_chunks() {
        // Characters of several bytes occur in UTF-8 only, so the other bytes are damage.
        if !chunk.valid().is_ascii() {
            return None;
        }
        bad_bytes += chunk.invalid().len();
    }
    // A file that was cut in the middle of a character is UTF-8, too, if nothing else is wrong with it.
    let is_cut = bytes.len() - whole_utf8_characters(bytes) == bad_bytes;
    // A Western text has one such letter in ten. Other scripts have many more in encodings of their own.
    let is_western = bad_bytes > 0 && bad_bytes * MIN_BYTES_PER_BAD_BYTE <= bytes.len();
    if is_cut || !is_western {
        return None;
    }
    bytes.iter().map(|byte| windows_1252_character(*byte)).collect()
}

/// Returns the character of a byte; `None` for a byte that no text has.
fn windows_1252_character(byte: u8) -> Option<char> {
    match byte {
        0..=8 | 0xb | 0xe..=0x1a | 0x1c..=0x1f | 0x7f => None,
        0x80..=0x9f => {
            Some(WINDOWS_1252[usize::from(byte - 0x80)]).filter(|c| *c != char::REPLACEMENT_CHARACTER)
        }
        _ => Some(char::from(byte)),
    }
}

/// Encodes `text` as the file with the content `original` is encoded, with the same byte order mark.
///
/// ```
/// use longhaul::text_encoding::encode_like;
///
/// assert_eq!(encode_like(b"\xff\xfeA\0", "b"), b"\xff\xfeb\0");
/// assert_eq!(encode_like(b"plain", "b"), b"b");
/// ```
pub fn encode_like(original: &[u8], text: &str) -> Vec<u8> {
    let encoding = TextEncoding::of(original).unwrap_or(TextEncoding::Utf8 { has_mark: false });
    encoding.encode(text.as_bytes().to_vec())
}

/// Returns the length of a beginning in UTF-8 without a divided last character.
fn whole_utf8_characters(bytes: &[u8]) -> usize {
    // A character has at most four bytes, so a divided one has at most three.
    let tail = bytes.len().saturating_sub(3);
    let lead = bytes[tail..].iter().rposition(|byte| *byte >= 0xc0).map(|at| tail + at);
    let is_divided =
        |lead: &usize| std::str::from_utf8(&bytes[*lead..]).is_err_and(|error| error.error_len().is_none());
    // Bytes that no further byte could mend are damage, and stay where they are.
    lead.filter(is_divided).unwrap_or(bytes.len())
}

fn decode_utf8(bytes: &[u8]) -> DecodedText {
    let (mark, content) = match bytes.strip_prefix(UTF8_MARK) {
        Some(content) => (UTF8_MARK.len(), content),
        None => (0, bytes),
    };
    let mut text = String::with_capacity(content.len());
    let (mut offset, mut damage) = (mark, None::<TextDamage>);
    for chunk in content.utf8_chunks() {
        text.push_str(chunk.valid());
        offset += chunk.valid().len();
        let bad_bytes = chunk.invalid().len();
        if bad_bytes > 0 {
            let damage = damage.get_or_insert_with(|| TextDamage::at_end_of(&text, offset, "UTF-8"));
            damage.bad_bytes += bad_bytes;
            text.push(char::REPLACEMENT_CHARACTER);
            offset += bad_bytes;
        }
    }
    DecodedText { text, damage }
}

impl TextDamage {
    /// Returns damage without bad bytes so far, behind the text that was decoded up to `offset`.
    fn at_end_of(text: &str, offset: usize, encoding: &'static str) -> Self {
        let (before, last_line) =
            text.rsplit_once('\n').map_or((None, text), |(before, last)| (Some(before), last));
        let line = before.map_or(1, |before| before.matches('\n').count() + 2);
        Self { bad_bytes: 0, offset, line, column: last_line.chars().count() + 1, encoding }
    }
}

impl fmt::Display for TextDamage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { bad_bytes, offset, line, column, encoding } = self;
        match bad_bytes {
            1 => write!(formatter, "1 byte that is not {encoding}, at offset {offset}")?,
            _ => {
                write!(formatter, "{bad_bytes} bytes that are not {encoding}, the first at offset {offset}")?
            }
        }
        write!(formatter, " (line {line}, column {column})")
    }
}

/// The encoding of a text file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TextEncoding {
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
    pub(crate) fn of(start: &[u8]) -> Option<Self> {
        match Utf16Encoding::of(start) {
            Some(encoding) => Some(Self::Utf16(encoding)),
            // No other text has a zero byte.
            None if start.contains(&0) => None,
            None => Some(Self::Utf8 { has_mark: start.starts_with(UTF8_MARK) }),
        }
    }

    /// Returns the text of a file without its byte order mark; `None` if UTF-16 has units that are not characters.
    /// Bytes that are no UTF-8 stay.
    pub(crate) fn decode(self, bytes: Vec<u8>) -> Option<Vec<u8>> {
        match self {
            Self::Utf8 { has_mark } => Some(if has_mark { without_mark(bytes) } else { bytes }),
            Self::Utf16(encoding) => encoding.decode(&bytes).map(String::into_bytes),
        }
    }

    /// Returns the text of a file without its byte order mark, with U+FFFD for invalid units of UTF-16.
    pub(crate) fn decode_lossy(self, bytes: Vec<u8>) -> Vec<u8> {
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
    pub(crate) fn encode(self, text: Vec<u8>) -> Vec<u8> {
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
    pub(crate) fn name(self) -> Option<&'static str> {
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
pub(crate) struct Utf16Encoding {
    is_big_endian: bool,
    has_mark: bool,
}

impl Utf16Encoding {
    /// Returns the encoding of a file that begins with these bytes; `None` for UTF-8 and every other encoding. A file
    /// without a byte order mark is UTF-16 if its beginning is valid text in it, most of it from Latin-1.
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
    pub(crate) fn decode(self, bytes: &[u8]) -> Option<String> {
        let (units, rest) = self.units(bytes);
        let text: Option<String> = char::decode_utf16(units).collect::<Result<_, _>>().ok();
        text.filter(|_| rest.is_empty())
    }

    /// Returns the text of a file without its byte order mark, with U+FFFD for invalid units.
    pub(crate) fn decode_lossy(self, bytes: &[u8]) -> String {
        self.decode_with_damage(bytes).text
    }

    fn decode_with_damage(self, bytes: &[u8]) -> DecodedText {
        let (units, rest) = self.units(bytes);
        let mut text = String::with_capacity(bytes.len() / 2);
        let (mut offset, mut damage) = (if self.has_mark { 2 } else { 0 }, None::<TextDamage>);
        let characters = char::decode_utf16(units).map(|unit| unit.map_err(|_| 2));
        // A last byte that is half a unit is no character either.
        for character in characters.chain(rest.first().map(|_| Err(1))) {
            match character {
                Ok(character) => {
                    text.push(character);
                    offset += character.len_utf16() * 2;
                }
                Err(bad_bytes) => {
                    let damage = damage.get_or_insert_with(|| TextDamage::at_end_of(&text, offset, "UTF-16"));
                    damage.bad_bytes += bad_bytes;
                    text.push(char::REPLACEMENT_CHARACTER);
                    offset += bad_bytes;
                }
            }
        }
        DecodedText { text, damage }
    }

    /// Returns the length of a beginning without a divided last character.
    fn whole_characters(self, bytes: &[u8]) -> usize {
        let (units, rest) = self.units(bytes);
        let is_high_surrogate = units.last().is_some_and(|unit| (0xd800..0xdc00).contains(&unit));
        bytes.len() - rest.len() - if is_high_surrogate { 2 } else { 0 }
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
    fn a_mark_is_no_text_and_bad_bytes_are_counted_with_the_place_of_the_first() {
        let decoded = |bytes: &[u8]| {
            let DecodedText { text, damage } = DecodedText::new(bytes);
            (text, damage.map(|damage| damage.to_string()).unwrap_or_default())
        };
        for bytes in [
            &b"R\xc3\xa4te"[..],
            b"\xef\xbb\xbfR\xc3\xa4te",
            b"\xff\xfeR\0\xe4\0t\0e\0",
            b"\xfe\xff\0R\0\xe4\0t\0e",
        ] {
            assert_eq!(decoded(bytes), ("Räte".to_owned(), String::new()), "{bytes:?}");
        }
        assert_eq!(decoded(b""), Default::default());
        assert_eq!(
            decoded(b"\xef\xbb\xbfone\ntw\xffo\xfe\xfe"),
            (
                "one\ntw\u{fffd}o\u{fffd}\u{fffd}".to_owned(),
                "3 bytes that are not UTF-8, the first at offset 9 (line 2, column 3)".to_owned()
            )
        );
        // The half of a character at the end of a cut file is one fault of two bytes.
        assert_eq!(
            decoded(b"\n\n\xe2\x82").1,
            "2 bytes that are not UTF-8, the first at offset 2 (line 3, column 1)"
        );
        assert_eq!(
            decoded(b"\xff\xfea\0\n\0\0\xd8b\0c"),
            (
                "a\n\u{fffd}b\u{fffd}".to_owned(),
                "3 bytes that are not UTF-16, the first at offset 6 (line 2, column 1)".to_owned()
            )
        );
        for (whole, cut) in
            [(&b"a\xe2\x82\xac"[..], 4), (b"\xff\xfea\0=\xd8\0\xde", 8), (b"\xfe\xff\0a\xd8=\xde\0", 8)]
        {
            let beginnings: Vec<DecodedText> =
                (2..cut).map(|end| DecodedText::of_beginning(&whole[..end])).collect();
            assert!(beginnings.iter().all(|beginning| beginning.damage.is_none()), "{beginnings:?}");
            assert_eq!(beginnings.last().unwrap().text, "a");
        }
        assert_eq!(DecodedText::of_beginning(b"a\xe2\x82\xac").text, "a€");
        assert_eq!(DecodedText::of_beginning(b"a\xff").text, "a\u{fffd}");
        assert_eq!(DecodedText::new(b"fine").strict().as_deref(), Ok("fine"));
        assert_eq!(DecodedText::new(b"\xff").strict().unwrap_err().column, 1);
    }

    #[test]
    fn western_texts_of_older_programs_keep_their_letters() {
        for (bytes, text) in [
            (&b"caf\xe9 cr\xe8me"[..], "café crème"),
            (b"Gr\xfc\xdfe aus K\xf6ln", "Grüße aus Köln"),
            (b"it\x92s \x96 well \x85\r\n", "it’s – well …\r\n"),
            (
                b"a long line that ends with an accent: d\xe9j\xe0",
                "a long line that ends with an accent: déjà",
            ),
        ] {
            assert_eq!(decode_windows_1252(bytes).as_deref(), Some(text));
        }
        for bytes in [
            &b""[..],
            b"plain",
            "café".as_bytes(),
            b"caf\xc3\xa9 and \xff damage",
            b"cut in the middle of caf\xc3",
            b"\xef\xbb\xbfmarked as UTF-8: caf\xe9",
            b"\xff\xfeh\0\xe9\0",
            b"\xcf\xf0\xe8\xe2\xe5\xf2, \xec\xe8\xf0",
            b"zero \0 byte and \xe9",
            b"no character: \x81 of it",
        ] {
            assert_eq!(decode_windows_1252(bytes), None, "{bytes:?}");
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
