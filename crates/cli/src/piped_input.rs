//! Standard input that is a pipe or a file: read whole, or line by line.
//!
//! Bytes that are no characters never stop a command. They are replaced, and a notice counts them.

use std::io;

use longhaul::text_encoding::{DecodedText, TextDamage};
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _};

use crate::term::human::count;

/// The maximum size of an input, and of one line of an input, in bytes. It is the largest size of a stored content
/// (`blobs.maxBytes`).
pub(crate) const MAX_INPUT_BYTES: usize = 64 << 20;

/// A decoded input with notices for the person.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PipedText {
    pub(crate) text: String,
    /// The lines to print on standard error.
    pub(crate) notices: Vec<String>,
}

/// Reads an input to its end, or to `max_bytes`.
///
/// # Errors
/// The errors of the input.
pub(crate) async fn read_text(input: impl AsyncRead + Unpin, max_bytes: usize) -> io::Result<PipedText> {
    let mut bytes = Vec::new();
    // One byte above the limit shows that the input goes on.
    input.take(max_bytes as u64 + 1).read_to_end(&mut bytes).await?;
    let is_cut = bytes.len() > max_bytes;
    bytes.truncate(max_bytes);
    let decoded = if is_cut { DecodedText::of_beginning(&bytes) } else { DecodedText::new(&bytes) };
    let mut notices = Vec::new();
    if let Some(damage) = decoded.damage {
        let hint = if decoded.is_binary() { "; is it text at all?" } else { "" };
        notices.push(format!("standard input has {damage}: replaced by U+FFFD{hint}\n"));
    }
    if is_cut {
        let limit = mebibytes(max_bytes);
        notices.push(format!("standard input is longer than {limit}: only its beginning is used\n"));
    }
    Ok(PipedText { text: decoded.text, notices })
}

/// The encoding of a stream of lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LineEncoding {
    Utf8,
    Utf16LittleEndian,
    Utf16BigEndian,
}

impl LineEncoding {
    /// Returns the encoding of an input that begins with these bytes; `None` if more bytes decide.
    fn of(start: &[u8]) -> Option<Self> {
        match start {
            [] | [0xff] | [0xfe] => None,
            [0xff, 0xfe, ..] => Some(Self::Utf16LittleEndian),
            [0xfe, 0xff, ..] => Some(Self::Utf16BigEndian),
            _ => Some(Self::Utf8),
        }
    }

    /// Returns the byte order mark that a line needs in order to be decoded alone.
    fn mark(self) -> &'static [u8] {
        match self {
            Self::Utf8 => &[],
            Self::Utf16LittleEndian => &[0xff, 0xfe],
            Self::Utf16BigEndian => &[0xfe, 0xff],
        }
    }

    /// Reports whether a line ends with the byte at `length`, of which these are the newest two.
    fn is_line_end(self, newest: [u8; 2], length: u64) -> bool {
        match self {
            Self::Utf8 => newest[1] == b'\n',
            // Units begin at even offsets, and other characters have the byte 10 as well.
            Self::Utf16LittleEndian => length.is_multiple_of(2) && newest == [b'\n', 0],
            Self::Utf16BigEndian => length.is_multiple_of(2) && newest == [0, b'\n'],
        }
    }
}

/// A reader of lines in UTF-8, or in UTF-16 with a byte order mark.
pub(crate) struct PipedLines<R> {
    input: R,
    /// The encoding; `None` before the bytes that decide.
    encoding: Option<LineEncoding>,
    /// The number of lines that were read.
    count: u64,
    max_line_bytes: usize,
}

impl<R: AsyncBufRead + Unpin> PipedLines<R> {
    pub(crate) fn new(input: R) -> Self {
        Self { input, encoding: None, count: 0, max_line_bytes: MAX_INPUT_BYTES }
    }

    /// Returns the next line without its end; `None` after the last line.
    ///
    /// # Errors
    /// The errors of the input.
    pub(crate) async fn next(&mut self) -> io::Result<Option<PipedText>> {
        let mut line = LineBytes::default();
        let mut has_ended = false;
        while !has_ended {
            let chunk = self.input.fill_buf().await?;
            if chunk.is_empty() {
                break;
            }
            let mut used = 0;
            for byte in chunk {
                used += 1;
                line.push(*byte, self.max_line_bytes);
                // Decided as early as possible: a program at the other end may wait for the answer to one byte.
                self.encoding = self.encoding.or_else(|| LineEncoding::of(&line.kept));
                if self.encoding.is_some_and(|encoding| encoding.is_line_end(line.newest, line.length)) {
                    has_ended = true;
                    break;
                }
            }
            self.input.consume(used);
        }
        if line.length == 0 {
            return Ok(None);
        }
        self.count += 1;
        Ok(Some(self.decode_line(&line)))
    }

    fn decode_line(&self, line: &LineBytes) -> PipedText {
        let mark = self.encoding.map_or(&[][..], LineEncoding::mark);
        // The first line has the mark already, and a second one would be text.
        let mark = if line.kept.starts_with(mark) { &[] } else { mark };
        let is_cut = line.length > line.kept.len() as u64;
        let bytes = [mark, &line.kept].concat();
        let DecodedText { mut text, damage, .. } =
            if is_cut { DecodedText::of_beginning(&bytes) } else { DecodedText::new(&bytes) };
        let end = text.strip_suffix('\n').map(|line| line.strip_suffix('\r').unwrap_or(line).len());
        text.truncate(end.unwrap_or(text.len()));
        let number = self.count;
        let mut notices = Vec::new();
        if let Some(TextDamage { bad_bytes, column, .. }) = damage {
            let bytes = count(bad_bytes as u64, "bad byte");
            notices.push(format!(
                "line {number} of the input has {bytes}, from column {column} on: replaced by U+FFFD\n"
            ));
        }
        if is_cut {
            let limit = mebibytes(self.max_line_bytes);
            notices.push(format!(
                "line {number} of the input is longer than {limit}: only its beginning is used\n"
            ));
        }
        PipedText { text, notices }
    }
}

/// The bytes of a line. Bytes beyond the limit are counted and dropped.
#[derive(Default)]
struct LineBytes {
    kept: Vec<u8>,
    /// The number of bytes so far.
    length: u64,
    newest: [u8; 2],
}

impl LineBytes {
    fn push(&mut self, byte: u8, max_bytes: usize) {
        if self.kept.len() < max_bytes {
            self.kept.push(byte);
        }
        self.length += 1;
        self.newest = [self.newest[1], byte];
    }
}

fn mebibytes(bytes: usize) -> String {
    format!("{} MiB", bytes >> 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn lines(input: &[u8]) -> Vec<(String, usize)> {
        // One byte at a time, as a slow pipe delivers them.
        let mut lines = PipedLines::new(tokio::io::BufReader::with_capacity(1, input));
        lines.max_line_bytes = 12;
        let mut all = Vec::new();
        while let Some(PipedText { text, notices }) = lines.next().await.unwrap() {
            all.push((text, notices.len()));
        }
        all
    }

    fn plain(texts: &[&str]) -> Vec<(String, usize)> {
        texts.iter().map(|text| ((*text).to_owned(), 0)).collect()
    }

    #[tokio::test]
    async fn lines_are_read_in_each_encoding() {
        assert_eq!(lines(b"").await, []);
        assert_eq!(lines(b"\n").await, plain(&[""]));
        assert_eq!(lines(b"one\r\n\ntwo").await, plain(&["one", "", "two"]));
        assert_eq!(lines(b"\xef\xbb\xbfone\ntwo\n").await, plain(&["one", "two"]));
        // U+0A41 and U+410A have the byte 10 and are no line ends.
        let text = "a\u{a41}\r\n\u{410a}b\nc";
        for (mark, unit) in
            [([0xff, 0xfe], u16::to_le_bytes as fn(u16) -> [u8; 2]), ([0xfe, 0xff], u16::to_be_bytes)]
        {
            let mut bytes = mark.to_vec();
            bytes.extend(text.encode_utf16().flat_map(unit));
            assert_eq!(lines(&bytes).await, plain(&["a\u{a41}", "\u{410a}b", "c"]), "{mark:?}");
        }
    }

    #[tokio::test]
    async fn bad_bytes_and_long_lines_cost_a_notice_and_no_other_line() {
        let read = lines(b"caf\xe9\nfine\n0123456789abcdef\nend").await;
        let expected = [("caf\u{fffd}", 1), ("fine", 0), ("0123456789ab", 1), ("end", 0)];
        assert_eq!(read, expected.map(|(text, notices)| (text.to_owned(), notices)));
        let mut lines = PipedLines::new(&b"ok\nna\xefve \xff\xff\n"[..]);
        lines.next().await.unwrap();
        let notices = lines.next().await.unwrap().unwrap().notices;
        assert_eq!(notices, ["line 2 of the input has 3 bad bytes, from column 3 on: replaced by U+FFFD\n"]);
    }

    #[tokio::test]
    async fn a_whole_input_is_decoded_and_cut_at_its_limit() {
        let read = |bytes: &'static [u8], limit| async move { read_text(bytes, limit).await.unwrap() };
        assert_eq!(read(b"\xff\xfea\0", 9).await, PipedText { text: "a".to_owned(), notices: Vec::new() });
        let bad = read(b"caf\xe9 au lait \xe0", 99).await;
        assert_eq!(bad.text, "caf\u{fffd} au lait \u{fffd}");
        let notice = "standard input has 2 bytes that are not UTF-8, the first at offset 3 (line 1, column 4): replaced \
                      by U+FFFD\n";
        assert_eq!(bad.notices, [notice]);
        // The limit falls into the second character.
        let cut = read("é€".as_bytes(), 4).await;
        assert_eq!((cut.text.as_str(), cut.notices.len()), ("é", 1), "{:?}", cut.notices);
        assert!(cut.notices[0].contains("only its beginning is used"));
        assert_eq!(read("é€".as_bytes(), 5).await.notices, [""; 0]);
    }
}
