//! Unreadable output: base64, hexadecimal digits, escaped bytes, dumps, binary content and minified lines cost tokens
//! and say nothing.
//!
//! [`shorten`] replaces unreadable content by a note before an output is cut to its room. The whole output is stored
//! apart, as with any other truncation.

/// The shortest run of base64 that is replaced, in characters. Keys, hashes and signatures are shorter.
const MIN_BASE64_CHARS: usize = 512;

/// The shortest run of escaped bytes that is replaced, in characters.
const MIN_ESCAPED_CHARS: usize = 512;

/// Characters of unreadable content that stay, enough to recognise the content.
const KEPT_CHARS: usize = 60;

/// The shortest unreadable block of lines that is replaced, in characters.
const MIN_BLOCK_CHARS: usize = 1_000;

/// The shortest dump or array of bytes that is replaced, in characters. Who asks for the bytes of a header wants to see
/// them, and tables of constants in source code are shorter.
const MIN_DUMP_CHARS: usize = 4_000;

/// The lines of a dump that stay.
const KEPT_DUMP_LINES: usize = 5;

/// The shortest line of a block of base64. Encoders break lines at 64 or 76 characters.
const MIN_BASE64_LINE: usize = 56;

/// Characters that a line may have beyond the limit before it is cut: room for the notes of tools that cut lines
/// themselves.
const SLACK_CHARS: usize = 120;

/// Returns the text with unreadable content replaced by notes; `None` if all of it can be read. Lines of more than
/// `max_line_chars` are cut.
///
/// ```
/// use longhaul_core::readability::shorten;
/// assert_eq!(shorten("one\ntwo\n", 2_000), None);
/// let shortened = shorten(&format!("start\n{}\nend\n", "x".repeat(3_000)), 2_000).unwrap();
/// assert!(shortened.ends_with("x [line cut: 3,000 characters in all]\nend\n"));
/// ```
pub fn shorten(text: &str, max_line_chars: usize) -> Option<String> {
    let mut out = String::new();
    let mut block = LineBlock::default();
    let mut is_changed = false;
    for line in text.split_inclusive('\n') {
        let kind = if block.goes_on_with(line) { block.kind } else { kind_of(line) };
        if block.takes(kind, line) {
            block.add(kind, line);
            continue;
        }
        is_changed |= block.flush(&mut out, max_line_chars);
        block = LineBlock { kind, ..LineBlock::default() };
        block.add(kind, line);
    }
    is_changed |= block.flush(&mut out, max_line_chars);
    is_changed.then_some(out)
}

/// The kind of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum LineKind {
    #[default]
    Text,
    Base64,
    /// Hexadecimal digits only, as `xxd -p` writes them.
    Hex,
    /// Escaped bytes, as in `"\x7f\x45"`.
    Escapes,
    /// An array of bytes, as in `0x7f, 0x45,`.
    ByteArray,
    /// A line of `xxd`, `od` or `hexdump`.
    Dump,
    Binary,
}

impl LineKind {
    /// Returns the words for the content in the note.
    fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Base64 => "base64",
            Self::Hex => "hexadecimal digits",
            Self::Escapes => "escaped bytes",
            Self::ByteArray => "an array of bytes",
            Self::Dump => "a dump of bytes",
            Self::Binary => "binary content",
        }
    }

    /// Returns the least size of a block that is replaced, in characters; `None` for text.
    fn min_block_chars(self) -> Option<usize> {
        match self {
            Self::Text => None,
            Self::ByteArray | Self::Dump => Some(MIN_DUMP_CHARS),
            Self::Base64 | Self::Hex | Self::Escapes | Self::Binary => Some(MIN_BLOCK_CHARS),
        }
    }
}

fn kind_of(line: &str) -> LineKind {
    let content = content_of(line);
    if content.len() >= MIN_BASE64_LINE && content.bytes().all(is_base64) {
        if is_hex_line(content) {
            return LineKind::Hex;
        }
        if is_mixed(content) {
            return LineKind::Base64;
        }
    }
    if begins_dump(content) {
        return LineKind::Dump;
    }
    if content.len() >= MIN_BASE64_LINE && is_mostly_escaped(content) {
        return LineKind::Escapes;
    }
    if content.len() >= MIN_ARRAY_LINE && is_byte_list(content) {
        return LineKind::ByteArray;
    }
    let (mut all, mut unreadable) = (0_usize, 0_usize);
    for c in content.chars() {
        all += 1;
        unreadable += usize::from(is_unreadable(c));
    }
    // One character in ten: text with single damaged bytes stays text.
    if unreadable * 10 > all { LineKind::Binary } else { LineKind::Text }
}

/// Returns a line without the spaces around it and without the number that `read` sets before it.
fn content_of(line: &str) -> &str {
    let line = line.trim();
    match line.split_once('\t') {
        Some((number, content)) if !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()) => {
            content.trim()
        }
        _ => line,
    }
}

/// Returns whether a line has hexadecimal digits only and is no hash.
fn is_hex_line(content: &str) -> bool {
    // Lists of hashes are read and compared: SHA-256, SHA-384 and SHA-512.
    !matches!(content.len(), 64 | 96 | 128) && is_hex(content)
}

/// Returns whether a run has hexadecimal digits only, decimal ones and letters of one case, as encoders write.
fn is_hex(run: &str) -> bool {
    let bytes = run.strip_prefix("0x").unwrap_or(run).as_bytes();
    let is_of_one_case =
        !bytes.iter().any(u8::is_ascii_uppercase) || !bytes.iter().any(u8::is_ascii_lowercase);
    bytes.iter().all(u8::is_ascii_hexdigit)
        && is_of_one_case
        && bytes.iter().any(u8::is_ascii_digit)
        && bytes.iter().any(u8::is_ascii_alphabetic)
}

/// The shortest first line of an array of bytes: eight of them.
const MIN_ARRAY_LINE: usize = 40;

/// The fewest digits of bytes in the first line of a dump: 12 bytes.
const MIN_DUMP_DIGITS: usize = 24;

/// Returns whether a line is one that a dump begins with: an offset, and cells of equal width.
fn begins_dump(content: &str) -> bool {
    let Some((_, cells)) = dump_offset(content) else { return false };
    let cells: Vec<&str> = cells.split_ascii_whitespace().collect();
    let Some(width) = cells.first().map(|cell| cell.len()) else { return false };
    // Hexadecimal cells have 2, 4, 8 or 16 digits, and octal ones 3 or 6.
    let numbers = cells
        .iter()
        .take_while(|cell| cell.len() == width && cell.bytes().all(|byte| byte.is_ascii_hexdigit()))
        .count();
    if matches!(width, 2 | 3 | 4 | 6 | 8 | 16) && numbers * width >= MIN_DUMP_DIGITS {
        return true;
    }
    // `od -c` has a character or three octal digits in each cell.
    cells.len() >= 12 && cells.iter().all(|cell| cell.chars().count() <= 3)
}

/// Returns the offset of a dump's line and the rest of the line.
fn dump_offset(content: &str) -> Option<(u64, &str)> {
    let end = content.find(|c: char| c.is_ascii_whitespace()).unwrap_or(content.len());
    let (offset, rest) = content.split_at(end);
    let (digits, has_colon) = match offset.strip_suffix(':') {
        Some(digits) => (digits, true),
        None => (offset, false),
    };
    // `tcpdump -x` writes `0x0010:`.
    let digits = digits.strip_prefix("0x").filter(|_| has_colon).unwrap_or(digits);
    let is_offset = match has_colon {
        true => (4..=16).contains(&digits.len()),
        // Numbers in a table have no zeros before them.
        false => (7..=16).contains(&digits.len()) && digits.starts_with('0'),
    };
    let offset = u64::from_str_radix(digits, 16).ok().filter(|_| is_offset)?;
    Some((offset, rest))
}

/// Returns whether most of a line is escaped bytes.
fn is_mostly_escaped(content: &str) -> bool {
    let escapes = escape_count(content);
    escapes > 0 && escapes * 4 * 5 >= content.len() * 3
}

fn escape_count(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut at = 0;
    let mut count = 0;
    while at < bytes.len() {
        let is_escape = is_escaped_byte(&bytes[at..]);
        count += usize::from(is_escape);
        at += if is_escape { 4 } else { 1 };
    }
    count
}

/// Returns whether a text begins with an escaped byte: `\x7f`, or `\177` in octal digits.
fn is_escaped_byte(text: &[u8]) -> bool {
    match text {
        [b'\\', b'x', high, low, ..] => high.is_ascii_hexdigit() && low.is_ascii_hexdigit(),
        [b'\\', first, second, third, ..] => {
            matches!(first, b'0'..=b'3') && [second, third].iter().all(|digit| matches!(digit, b'0'..=b'7'))
        }
        _ => false,
    }
}

/// Returns whether a line lists bytes only, as `xxd -i` writes them.
fn is_byte_list(content: &str) -> bool {
    content.trim_end_matches(',').split(',').all(|cell| is_hex_byte(cell.trim()))
}

/// Returns whether a cell is a byte in hexadecimal digits with their prefix.
fn is_hex_byte(cell: &str) -> bool {
    let digits = cell.strip_prefix("0x").or_else(|| cell.strip_prefix("0X"));
    digits.is_some_and(|digits| digits.len() == 2 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

fn is_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=' | b'-' | b'_')
}

/// Returns whether a run has letters of both cases and digits, as encoded content has and words or rulers have not.
fn is_mixed(run: &str) -> bool {
    let bytes = run.as_bytes();
    bytes.iter().any(u8::is_ascii_uppercase)
        && bytes.iter().any(u8::is_ascii_lowercase)
        && bytes.iter().any(u8::is_ascii_digit)
}

/// Returns whether a character is no text: the replacement of a byte that is not UTF-8, or a control character that
/// no terminal needs.
fn is_unreadable(c: char) -> bool {
    c == '\u{fffd}' || (c.is_control() && !matches!(c, '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' | '\u{1b}'))
}

/// Adjacent lines of one kind.
#[derive(Debug, Default)]
struct LineBlock<'a> {
    kind: LineKind,
    lines: Vec<&'a str>,
    /// Short lines of text behind the last unreadable line, possibly the output of the next command.
    after: Vec<&'a str>,
    chars: usize,
}

impl<'a> LineBlock<'a> {
    /// Returns whether a line continues the block although it would not begin one.
    fn goes_on_with(&self, line: &str) -> bool {
        let Some(last) = self.lines.last() else { return false };
        let (content, last) = (content_of(line), content_of(last));
        match self.kind {
            // Encoded content has lines of one length. Encoded digits or blanks give lines without letters of both
            // cases.
            LineKind::Base64 => last.len() == content.len() && content.bytes().all(is_base64),
            LineKind::Hex => {
                last.len() == content.len() && content.bytes().all(|byte| byte.is_ascii_hexdigit())
            }
            LineKind::Dump => self.goes_on_with_dump(content),
            // The last line may be short.
            LineKind::Escapes => is_mostly_escaped(content),
            LineKind::ByteArray => is_byte_list(content),
            LineKind::Text | LineKind::Binary => false,
        }
    }

    /// Returns whether a line continues a dump: with a higher offset, or with the `*` in place of equal lines.
    fn goes_on_with_dump(&self, content: &str) -> bool {
        let newest = self.lines.iter().rev().take(2).find_map(|line| dump_offset(content_of(line)));
        match (newest, dump_offset(content)) {
            (Some((before, _)), Some((offset, _))) => offset > before,
            _ => content == "*",
        }
    }

    /// Returns whether a line belongs to the block. Binary content has line breaks at any place, with short
    /// lines in between.
    fn takes(&self, kind: LineKind, line: &str) -> bool {
        match self.kind {
            LineKind::Text => self.lines.is_empty(),
            LineKind::Binary => kind == LineKind::Binary || line.len() < 8,
            // The offsets of one dump grow, and a dump of another file begins at 0.
            LineKind::Dump => kind == LineKind::Dump && (self.lines.is_empty() || self.goes_on_with(line)),
            own => kind == own,
        }
    }

    fn add(&mut self, kind: LineKind, line: &'a str) {
        if kind != self.kind {
            self.after.push(line);
            return;
        }
        // Another unreadable line proves that the short lines in between were binary content too.
        let added = self.after.iter().chain([&line]);
        self.chars += added.map(|line| line.chars().count()).sum::<usize>();
        self.lines.append(&mut self.after);
        self.lines.push(line);
    }

    /// Writes the lines, or the note in their place. Returns whether content was left out.
    fn flush(&self, out: &mut String, max_line_chars: usize) -> bool {
        let is_cut = self.kind.min_block_chars().is_some_and(|min| self.chars >= min);
        let shown: &[&str] = if is_cut { &[] } else { &self.lines };
        if is_cut && self.kind == LineKind::Dump {
            let kept: String = self.lines.iter().take(KEPT_DUMP_LINES).copied().collect();
            let cut = grouped(self.chars - kept.chars().count().min(self.chars));
            out.push_str(&format!("{kept}[{cut} more characters of {} cut]\n", self.kind.name()));
        } else if is_cut {
            // The note itself must be readable, so it quotes no control characters.
            let chars = self.lines.iter().flat_map(|line| line.trim_end().chars());
            let readable =
                chars.filter(|c| !is_unreadable(*c) && !matches!(c, '\r' | '\u{8}' | '\u{c}' | '\u{1b}'));
            let start: String = readable.take(KEPT_CHARS).collect();
            let cut = grouped(self.chars - start.chars().count().min(self.chars));
            out.push_str(&format!("{start} [{cut} more characters of {} cut]\n", self.kind.name()));
        }
        // `fold` and not `any`: every line must be written, also behind a line that is cut.
        let lines = shown.iter().chain(&self.after);
        lines.fold(is_cut, |cut, line| write_line(line, out, max_line_chars) || cut)
    }
}

/// Writes a line without runs of encoded bytes, cut at the limit. Returns whether content was left out.
fn write_line(line: &str, out: &mut String, max_line_chars: usize) -> bool {
    if line.len() < MIN_BASE64_CHARS.min(max_line_chars) {
        out.push_str(line);
        return false;
    }
    let (content, end) = match line.strip_suffix('\n') {
        Some(content) => (content, "\n"),
        None => (line, ""),
    };
    let shortened = without_encoded(content);
    let shown = shortened.as_deref().unwrap_or(content);
    let limit = shown.char_indices().nth(max_line_chars).map(|(at, _)| at);
    let is_long = limit.is_some() && shown.chars().nth(max_line_chars + SLACK_CHARS).is_some();
    match limit.filter(|_| is_long) {
        Some(at) => {
            let all = grouped(content.chars().count());
            out.push_str(&format!(
                "{} [line cut: {all} characters in all]",
                shown.get(..at).unwrap_or_default()
            ));
        }
        None => out.push_str(shown),
    }
    out.push_str(end);
    is_long || shortened.is_some()
}

/// Returns a line with notes in place of long runs of base64, hexadecimal digits and escaped bytes; `None` if there are
/// no such runs.
fn without_encoded(line: &str) -> Option<String> {
    let mut out = String::new();
    let (mut written, mut start) = (0, 0);
    let bytes = line.as_bytes();
    while start < bytes.len() {
        let run = EncodedRun::at(line, start);
        if let Some(kind) = run.kind {
            let kept = start + KEPT_CHARS;
            out.push_str(line.get(written..kept).unwrap_or_default());
            let cut = grouped(run.length - KEPT_CHARS);
            out.push_str(&format!(" [{cut} more characters of {} cut]", kind.name()));
            written = start + run.length;
        }
        // At least one, or a run without characters would never end.
        start += run.length.max(1);
    }
    if written == 0 {
        return None;
    }
    out.push_str(line.get(written..).unwrap_or_default());
    Some(out)
}

/// A run of characters in a line that may be encoded bytes.
struct EncodedRun {
    /// The length in bytes, which are ASCII characters.
    length: usize,
    /// The kind of a run that is to be replaced.
    kind: Option<LineKind>,
}

impl EncodedRun {
    /// Returns the run that begins at a position of a line.
    fn at(line: &str, start: usize) -> Self {
        let bytes = &line.as_bytes()[start..];
        if is_escaped_byte(bytes) {
            let length = escaped_length(bytes);
            return Self { length, kind: (length >= MIN_ESCAPED_CHARS).then_some(LineKind::Escapes) };
        }
        // `=` ends encoded content, so that `key=` is no part of the content behind it.
        let digits = bytes.iter().take_while(|byte| is_base64(**byte) && **byte != b'=').count();
        let length = digits + bytes[digits..].iter().take_while(|byte| **byte == b'=').count();
        let run = line.get(start..start + length).unwrap_or_default();
        let kind = match length >= MIN_BASE64_CHARS {
            true if is_hex(run) => Some(LineKind::Hex),
            true if is_mixed(run) => Some(LineKind::Base64),
            _ => None,
        };
        Self { length, kind }
    }
}

/// The most readable characters between two escaped bytes of a run: bytes that are letters by chance.
const MAX_ESCAPE_GAP: usize = 3;

/// Returns the length of a run of escaped bytes with single printable characters between.
fn escaped_length(bytes: &[u8]) -> usize {
    let (mut end, mut at) = (0, 0);
    while at < bytes.len() && at <= end + MAX_ESCAPE_GAP {
        if is_escaped_byte(&bytes[at..]) {
            at += 4;
            end = at;
        } else if bytes[at].is_ascii_graphic() || bytes[at] == b' ' {
            at += 1;
        } else {
            break;
        }
    }
    end
}

/// Returns a number with commas: `1234567` as `1,234,567`.
fn grouped(number: usize) -> String {
    crate::truncate::grouped(number as u64)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Base64 as an encoder writes it.
    fn base64(chars: usize) -> String {
        const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let mut state = 7_u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            char::from(ALPHABET[(state >> 58) as usize])
        };
        (0..chars).map(|_| next()).collect()
    }

    #[test]
    fn text_stays_as_it_is() {
        let paths = "./a/path/of/thirty/characters\0".repeat(50);
        let source = "fn main() { println!(\"ä\"); }\n".repeat(500);
        let sums = format!("{}  file\n", "0123456789abcdef".repeat(4)).repeat(100);
        let ruler = format!("{}\n", "=".repeat(1_500));
        let colours = "\u{1b}[31mred\u{1b}[0m\r\n".repeat(100);
        for text in [paths, source, sums, ruler, colours, base64(500), String::new()] {
            assert_eq!(shorten(&text, 2_000), None, "{text}");
        }
    }

    #[test]
    fn lines_of_one_case_are_part_of_what_is_encoded() {
        let mixed = format!("{}\n", base64(76));
        let upper = format!("{}\n", "MTAK".repeat(19));
        let shown = shorten(&format!("before\n{mixed}{}{mixed}after\n", upper.repeat(50)), 2_000).unwrap();
        assert_eq!(shown.lines().count(), 3, "{shown}");
        assert!(shown.starts_with("before\n") && shown.ends_with("after\n"), "{shown}");
    }

    #[test]
    fn base64_gives_way_to_a_note_in_a_line_and_over_lines() {
        let encoded = base64(120_000);
        let json = format!(r#"{{"name":"p.png","data":"{encoded}","size":90000}}"#);
        let shown = shorten(&json, 2_000).unwrap();
        let start = &encoded[..60];
        assert_eq!(
            shown,
            format!(
                r#"{{"name":"p.png","data":"{start} [119,940 more characters of base64 cut]","size":90000}}"#
            )
        );
        let lines: String = encoded
            .as_bytes()
            .chunks(76)
            .map(|line| format!("{}\n", str::from_utf8(line).unwrap()))
            .collect();
        let shown = shorten(&format!("before\n{lines}after\n"), 2_000).unwrap();
        assert!(shown.starts_with(&format!("before\n{start} [")), "{shown}");
        assert!(shown.ends_with("more characters of base64 cut]\nafter\n") && shown.len() < 200, "{shown}");
    }

    /// Bytes without a pattern.
    fn noise(length: usize) -> Vec<u8> {
        let mut state = 7_u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        };
        (0..length).map(|_| next()).collect()
    }

    /// Returns the lines of a dump, each of 16 bytes, written by `line` from the offset and the bytes.
    fn dump(length: usize, line: impl Fn(usize, &[u8]) -> String) -> String {
        let bytes = noise(length);
        let lines = bytes.chunks(16).enumerate().map(|(at, bytes)| line(at * 16, bytes) + "\n");
        lines.collect()
    }

    fn cells(bytes: &[u8], width: usize) -> String {
        let cells: Vec<String> =
            bytes.chunks(width).map(|cell| cell.iter().map(|byte| format!("{byte:02x}")).collect()).collect();
        cells.join(" ")
    }

    #[test]
    fn dumps_of_bytes_keep_their_first_lines() {
        let xxd = dump(9_000, |at, bytes| format!("{at:08x}: {}  .ELF.  ...#..9>.", cells(bytes, 2)));
        let hexdump = dump(9_000, |at, bytes| format!("{at:08x}  {}  |.E L....|", cells(bytes, 1)));
        let od = dump(9_000, |at, bytes| {
            let words =
                bytes.as_chunks::<2>().0.iter().map(|word| format!("{:06o}", u16::from_le_bytes(*word)));
            format!("{at:07o} {}", words.collect::<Vec<_>>().join(" "))
        });
        let od_c = dump(9_000, |at, bytes| {
            let cells = bytes.iter().map(|byte| match byte {
                b'!'..=b'~' => format!("   {}", char::from(*byte)),
                b'\n' => "  \\n".to_owned(),
                byte => format!(" {byte:03o}"),
            });
            format!("{at:07o}{}", cells.collect::<String>())
        });
        let plain = dump(9_000, |at, bytes| format!("{at:07x} {}", cells(bytes, 2)));
        for dump in [xxd, hexdump, od, od_c, plain] {
            let whole = format!("$ dump\n{dump}*\n0fffffff\n$ echo\nend\n");
            let shown = shorten(&whole, 2_000).unwrap_or_else(|| panic!("not cut: {}", &dump[..300]));
            let first: String = dump.split_inclusive('\n').take(5).collect();
            assert!(shown.starts_with(&format!("$ dump\n{first}[")), "{shown}");
            assert!(shown.ends_with("more characters of a dump of bytes cut]\n$ echo\nend\n"), "{shown}");
            // A look at a header is what the model asked for.
            let few: String = dump.split_inclusive('\n').take(30).collect();
            assert_eq!(shorten(&few, 2_000), None);
        }
    }

    #[test]
    fn hexadecimal_digits_and_escaped_bytes_give_way_to_notes() {
        let hex: String = noise(3_000).iter().map(|byte| format!("{byte:02x}")).collect();
        let shown = shorten(&format!("key={hex};"), 20_000).unwrap();
        assert_eq!(shown, format!("key={} [5,940 more characters of hexadecimal digits cut];", &hex[..60]));
        assert!(shorten(&format!("code: 0x{hex}"), 20_000).unwrap().len() < 200);
        let lines: String =
            hex.as_bytes().chunks(60).map(|line| format!("{}\n", str::from_utf8(line).unwrap())).collect();
        let shown = shorten(&format!("before\n{lines}after\n"), 2_000).unwrap();
        assert!(shown.ends_with("more characters of hexadecimal digits cut]\nafter\n"), "{shown}");

        let escaped: String = noise(3_000).iter().map(|byte| format!("\\x{byte:02x}")).collect();
        let shown = shorten(&format!("b'{escaped}'"), 20_000).unwrap();
        assert_eq!(shown, format!("b'{} [11,940 more characters of escaped bytes cut]'", &escaped[..60]));
        let lines: String = escaped
            .as_bytes()
            .chunks(64)
            .map(|line| format!("  \"{}\"\n", str::from_utf8(line).unwrap()))
            .collect();
        let shown = shorten(&format!("before\n{lines}after\n"), 2_000).unwrap();
        assert!(shown.ends_with("more characters of escaped bytes cut]\nafter\n"), "{shown}");

        let array = dump(9_000, |_, bytes| {
            format!("  {},", bytes.iter().map(|byte| format!("0x{byte:02x}")).collect::<Vec<_>>().join(", "))
        });
        let shown = shorten(&format!("char a[] = {{\n{array}}};\n"), 2_000).unwrap();
        assert!(
            shown.starts_with("char a[] = {\n") && shown.ends_with("an array of bytes cut]\n};\n"),
            "{shown}"
        );
    }

    #[test]
    fn base64_with_line_numbers_or_indentation_is_found() {
        let lines = |prefix: &dyn Fn(usize) -> String| -> String {
            let encoded = base64(6_400);
            let lines = encoded.as_bytes().chunks(64).enumerate();
            lines.map(|(at, line)| format!("{}{}\n", prefix(at), str::from_utf8(line).unwrap())).collect()
        };
        for text in [lines(&|at| format!("{:>6}\t", at + 1)), lines(&|_| "      ".to_owned())] {
            let shown = shorten(&format!("cert: |\n{text}end\n"), 2_000).unwrap();
            assert!(shown.ends_with("more characters of base64 cut]\nend\n") && shown.len() < 200, "{shown}");
        }
    }

    #[test]
    fn numbers_code_and_hashes_stay() {
        let repeated = |line: &dyn Fn(u64) -> String| (0..400).map(|at| line(at) + "\n").collect::<String>();
        let hash = |at: u64| blake3::hash(&at.to_le_bytes()).to_hex().to_string();
        for text in [
            repeated(&|at| format!("{at},{},{},{}", at * 7_919, at * 31, at * 104_729)),
            repeated(&|at| format!("{} 1234 5678 2345 4321 9876 1000 2000 3000", 2_000 + at)),
            repeated(&|at| format!("{:08} 1234 5678 2345", at * 16)),
            repeated(&|at| hash(at)),
            repeated(&|at| hash(at)[..40].to_owned()),
            repeated(&|at| format!("{}  src/file{at}.rs", hash(at))),
            repeated(&|at| format!("checksum = \"{}\"", hash(at))),
            repeated(&|at| format!("      \"integrity\": \"sha512-{}==\",", hash(at))),
            repeated(&|at| format!("  40{at:04x}:\t48 8b 05 d9 2f 00 00 \tmov    0x2fd9(%rip),%rax")),
            repeated(&|at| format!("    0x{:08x}, 0x{:08x}, 0x{:08x},", at * 7_919, at * 31, at * 104_729)),
            repeated(&|at| format!("    assert_eq!(parse(b\"\\x00\\x{at:02x}\"), Some({at}));")),
            repeated(&|at| format!("2026-01-01T00:00:{:02} 0x7ffe{at:04x} GET /a/b/c?id={at} 200", at % 60)),
            repeated(&|at| format!("{at:>6}\tlet value_{at} = table[{at}];")),
            // The substitution box of AES has this size.
            (0..16).map(|_| format!("{}\n", ["0x63"; 16].join(", "))).collect(),
        ] {
            assert_eq!(shorten(&text, 2_000), None, "{}", &text[..200]);
        }
    }

    #[test]
    fn binary_content_gives_way_to_a_note() {
        let binary = "\u{fffd}PNG\u{1}\u{2}\n\u{0}\u{fffd}\u{fffd}IHDR\u{3}\nab\n".repeat(500);
        let shown = shorten(&format!("cat p.png\n{binary}[exit code 0]"), 2_000).unwrap();
        assert!(shown.starts_with("cat p.png\nPNGIHDRab"), "{shown}");
        assert!(shown.ends_with("more characters of binary content cut]\nab\n[exit code 0]"), "{shown}");
        assert!(shown.len() < 200 && !shown.contains('\u{fffd}'), "{shown}");
    }

    #[test]
    fn a_minified_line_keeps_its_start() {
        let line = "var a=1;".repeat(10_000);
        let shown = shorten(&format!("{line}\nend"), 2_000).unwrap();
        assert_eq!(shown, format!("{} [line cut: 80,000 characters in all]\nend", &line[..2_000]));
        let cut_before = format!("     1\t{} [line cut: 80000 bytes in all]\n", &line[..2_000]);
        assert_eq!(shorten(&cut_before, 2_000), None, "what `read` has cut stays as it is");
    }

    proptest! {
        #[test]
        fn what_is_shown_is_short_lines_and_stays_so(
            pieces in prop::collection::vec("\\PC{0,80}|[A-Za-z0-9+/]{0,900}|\n|(\u{0}|\u{fffd}){0,300}", 0..12),
            max in 10_usize..300,
        ) {
            let text = pieces.concat();
            let shown = shorten(&text, max);
            let shown = shown.as_deref().unwrap_or(&text);
            let longest = shown.lines().map(|line| line.chars().count()).max().unwrap_or_default();
            prop_assert!(longest <= max.max(MIN_BLOCK_CHARS) + SLACK_CHARS + 80, "{}", longest);
        }
    }
}
