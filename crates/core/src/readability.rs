//! Unreadable output: base64, binary content and minified lines cost tokens and say nothing.
//!
//! [`shorten`] replaces unreadable content by a note before an output is cut to its room. The whole output is stored
//! apart, as with any other truncation.

/// The shortest run of base64 that is replaced, in characters. Keys, hashes and signatures are shorter.
const MIN_BASE64_CHARS: usize = 512;

/// Characters of unreadable content that stay, enough to recognise the content.
const KEPT_CHARS: usize = 60;

/// The shortest unreadable block of lines that is replaced, in characters.
const MIN_BLOCK_CHARS: usize = 1_000;

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
    Binary,
}

fn kind_of(line: &str) -> LineKind {
    let content = line.trim_end();
    if content.len() >= MIN_BASE64_LINE && content.bytes().all(is_base64) && is_mixed(content) {
        return LineKind::Base64;
    }
    let (mut all, mut unreadable) = (0_usize, 0_usize);
    for c in content.chars() {
        all += 1;
        unreadable += usize::from(is_unreadable(c));
    }
    // One character in ten: text with single damaged bytes stays text.
    if unreadable * 10 > all { LineKind::Binary } else { LineKind::Text }
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
    /// Returns whether a line continues encoded content, which has lines of one length. Encoded digits or blanks give
    /// lines without letters of both cases.
    fn goes_on_with(&self, line: &str) -> bool {
        self.kind == LineKind::Base64
            && self.lines.last().is_some_and(|last| last.len() == line.len())
            && line.trim_end().bytes().all(is_base64)
    }

    /// Returns whether a line belongs to the block. Binary content has line breaks at any place, with short
    /// lines in between.
    fn takes(&self, kind: LineKind, line: &str) -> bool {
        match self.kind {
            LineKind::Text => self.lines.is_empty(),
            LineKind::Base64 => kind == LineKind::Base64,
            LineKind::Binary => kind == LineKind::Binary || line.len() < 8,
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
        let what = match self.kind {
            LineKind::Base64 if self.chars >= MIN_BLOCK_CHARS => Some("base64"),
            LineKind::Binary if self.chars >= MIN_BLOCK_CHARS => Some("binary content"),
            _ => None,
        };
        let shown: &[&str] = if what.is_some() { &[] } else { &self.lines };
        if let Some(what) = what {
            // The note itself must be readable, so it quotes no control characters.
            let chars = self.lines.iter().flat_map(|line| line.trim_end().chars());
            let readable =
                chars.filter(|c| !is_unreadable(*c) && !matches!(c, '\r' | '\u{8}' | '\u{c}' | '\u{1b}'));
            let start: String = readable.take(KEPT_CHARS).collect();
            let cut = grouped(self.chars - start.chars().count().min(self.chars));
            out.push_str(&format!("{start} [{cut} more characters of {what} cut]\n"));
        }
        // `fold` and not `any`: every line must be written, also behind a line that is cut.
        let lines = shown.iter().chain(&self.after);
        lines.fold(what.is_some(), |cut, line| write_line(line, out, max_line_chars) || cut)
    }
}

/// Writes a line without runs of base64, cut at the limit. Returns whether content was left out.
fn write_line(line: &str, out: &mut String, max_line_chars: usize) -> bool {
    if line.len() < MIN_BASE64_CHARS.min(max_line_chars) {
        out.push_str(line);
        return false;
    }
    let (content, end) = match line.strip_suffix('\n') {
        Some(content) => (content, "\n"),
        None => (line, ""),
    };
    let shortened = without_base64(content);
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

/// Returns a line with notes in place of long runs of base64; `None` if there are no such runs.
fn without_base64(line: &str) -> Option<String> {
    let mut out = String::new();
    let (mut written, mut start) = (0, 0);
    let bytes = line.as_bytes();
    while start < bytes.len() {
        let length = bytes[start..].iter().take_while(|byte| is_base64(**byte)).count();
        let run = line.get(start..start + length).unwrap_or_default();
        if length >= MIN_BASE64_CHARS && is_mixed(run) {
            let kept = start + KEPT_CHARS;
            out.push_str(line.get(written..kept).unwrap_or_default());
            out.push_str(&format!(" [{} more characters of base64 cut]", grouped(length - KEPT_CHARS)));
            written = start + length;
        }
        start += length.max(1);
    }
    if written == 0 {
        return None;
    }
    out.push_str(line.get(written..).unwrap_or_default());
    Some(out)
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
