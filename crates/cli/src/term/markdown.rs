//! Formats a model's Markdown for a terminal: headings bold, lists with a hanging indent, code set off, links
//! with their address, tables aligned. The text arrives in pieces. Finished text is passed on at once, word by
//! word, and marked text and tables as a whole.

mod table;

use self::table::{MarkdownTable, is_delimiter, is_table_row};
use super::style::TextStyle;

/// The maximum length of marked text. Without it an unclosed mark would hold back the rest of its line.
const MARKED_CHARS: usize = 400;

/// A stretch of text of one kind, or the end of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MarkdownSpan {
    /// Text in an ink.
    Text(String, TextStyle),
    /// The rest of this line hangs so many columns deeper where it is broken.
    Hang(usize),
    /// The end of a line.
    End,
    /// The lines of a table, with the end of each.
    Table(MarkdownTable),
}

/// The received text whose form is not decided yet.
#[derive(Clone, Debug, Default)]
pub(crate) struct MarkdownFormatter {
    held: String,
    /// `true` if the kind of the line is known: then the held text is words of it.
    is_within: bool,
    ink: TextStyle,
    /// The last character that was given on, in this line.
    before: Option<char>,
    fence: Option<String>,
    /// The lines that may be a table, until another line ends it.
    table: Vec<String>,
}

impl MarkdownFormatter {
    /// Adds text.
    pub(crate) fn push(&mut self, text: &str, out: &mut Vec<MarkdownSpan>) {
        for piece in text.split_inclusive('\n') {
            self.held.push_str(piece);
            if self.held.ends_with('\n') {
                self.held.pop();
                self.line(out);
            } else {
                self.begun(out);
            }
        }
    }

    /// Ends the text, and emits the held rest.
    pub(crate) fn finish(&mut self, out: &mut Vec<MarkdownSpan>) {
        if self.held.is_empty() {
            return self.end_table(out);
        }
        self.line(out);
        self.end_table(out);
        // The text itself has no line end here.
        if out.last() == Some(&MarkdownSpan::End) {
            out.pop();
        }
    }

    /// Formats a whole line.
    fn line(&mut self, out: &mut Vec<MarkdownSpan>) {
        let line = std::mem::take(&mut self.held);
        if !self.is_within && self.fence.is_none() && is_table_row(&line) {
            return self.row(line, out);
        }
        self.end_table(out);
        if self.is_within {
            self.words(line, true, out);
        } else if let Some(mark) = fence(&line) {
            match &self.fence {
                // A fence inside a block of code is code unless it closes the block.
                Some(open) if !mark.starts_with(open.as_str()) => code(&line, out),
                // Neither the fence nor its line is shown.
                Some(_) => return self.fence = None,
                None => return self.fence = Some(mark),
            }
        } else if self.fence.is_some() {
            code(&line, out);
        } else if is_rule(&line) {
            out.push(MarkdownSpan::Text("─".repeat(24), TextStyle::DIM));
        } else {
            let rest = self.opened(&line, out);
            self.words(rest, true, out);
        }
        (self.is_within, self.ink, self.before) = (false, TextStyle::default(), None);
        out.push(MarkdownSpan::End);
    }

    /// Holds a line that may be a row of a table.
    fn row(&mut self, line: String, out: &mut Vec<MarkdownSpan>) {
        // Without a delimiter row below it, the line before was no heading.
        if self.table.len() == 1 && !is_delimiter(&line) {
            self.end_table(out);
        }
        self.table.push(line);
    }

    /// Emits the held rows: as a table, or as the text that they are.
    fn end_table(&mut self, out: &mut Vec<MarkdownSpan>) {
        let lines = std::mem::take(&mut self.table);
        if let Some(table) = MarkdownTable::read(&lines) {
            return out.push(MarkdownSpan::Table(table));
        }
        for line in lines {
            self.words(line, true, out);
            self.before = None;
            out.push(MarkdownSpan::End);
        }
    }

    /// Formats an unfinished line: its words are emitted as soon as its kind is known.
    fn begun(&mut self, out: &mut Vec<MarkdownSpan>) {
        // A line of code is shown whole, because its end decides whether it is a fence.
        if self.fence.is_some() {
            return;
        }
        if !self.is_within {
            let begun = self.held.trim_start();
            let is_known = begun.split_once(char::is_whitespace).is_some_and(|(word, rest)| {
                !may_be_fence(word)
                    && !is_rule(word)
                    && !word.starts_with('|')
                    && (!rest.trim().is_empty() || !begins_line(word))
            });
            if !is_known {
                return;
            }
            self.end_table(out);
            let held = std::mem::take(&mut self.held);
            self.held = self.opened(&held, out);
            self.is_within = true;
        }
        let held = std::mem::take(&mut self.held);
        self.words(held, false, out);
    }

    /// Emits the mark at the beginning of a line, and returns the rest, which is words.
    fn opened(&mut self, line: &str, out: &mut Vec<MarkdownSpan>) -> String {
        let begun = line.trim_start();
        let indent = line.len() - begun.len();
        let (word, rest) = begun.split_once([' ', '\t']).unwrap_or((begun, ""));
        let rest = rest.trim_start();
        // CommonMark takes a line with four leading spaces for code.
        if indent < 4 && (1..=6).contains(&word.len()) && word.bytes().all(|b| b == b'#') && !rest.is_empty()
        {
            self.ink = TextStyle::BOLD;
            return rest.to_owned();
        }
        if is_mark(word) && !rest.is_empty() {
            // A number says the place in a list, so it stays. A sign is drawn as a dot.
            let mark = if word.len() == 1 { "•" } else { word };
            let lead = format!("{}{mark} ", " ".repeat(indent));
            out.push(MarkdownSpan::Hang(lead.chars().count()));
            out.push(MarkdownSpan::Text(lead, TextStyle::default()));
            self.before = Some(' ');
            return rest.to_owned();
        }
        if word == ">" || (word.starts_with('>') && indent < 4) {
            out.push(MarkdownSpan::Hang(2));
            out.push(MarkdownSpan::Text("│ ".to_owned(), TextStyle::DIM));
            self.before = Some(' ');
            return begun[1..].trim_start().to_owned();
        }
        line.to_owned()
    }

    /// Emits words. In an unfinished line, text that a mark may still enclose is held back.
    fn words(&mut self, text: String, is_whole: bool, out: &mut Vec<MarkdownSpan>) {
        let mut rest = text.as_str();
        let mut plain = String::new();
        while let Some(c) = rest.chars().next() {
            match marked(rest, self.before, is_whole) {
                InlineMark::Open => break,
                InlineMark::Text { length, text, ink } => {
                    give(&mut plain, self.ink, out);
                    let ink = self.ink | ink;
                    if ink.is_literal() {
                        out.push(MarkdownSpan::Text(text, ink));
                    } else {
                        // Marks may be nested, so the enclosed text is read like a line of its own.
                        Self { ink, is_within: true, ..Self::default() }.words(text, true, out);
                    }
                    self.before = rest[..length].chars().next_back();
                    rest = &rest[length..];
                }
                InlineMark::None => {
                    // A run of marks that is no mark is plain text as a whole.
                    let run = rest.len() - rest.trim_start_matches(c).len();
                    let length = if matches!(c, '*' | '_' | '`') { run } else { c.len_utf8() };
                    plain.push_str(&rest[..length]);
                    self.before = Some(c);
                    rest = &rest[length..];
                }
            }
        }
        give(&mut plain, self.ink, out);
        if !is_whole {
            self.held = rest.to_owned();
        }
    }
}

fn give(plain: &mut String, ink: TextStyle, out: &mut Vec<MarkdownSpan>) {
    if !plain.is_empty() {
        out.push(MarkdownSpan::Text(std::mem::take(plain), ink));
    }
}

fn code(line: &str, out: &mut Vec<MarkdownSpan>) {
    out.push(MarkdownSpan::Hang(2));
    out.push(MarkdownSpan::Text(format!("  {line}"), TextStyle::DIM));
}

/// The mark at the beginning of a text.
enum InlineMark {
    /// The text has no mark.
    None,
    /// The text has a mark that may still be closed.
    Open,
    /// The text has a closed mark: its length, and the enclosed text.
    Text { length: usize, text: String, ink: TextStyle },
}

fn marked(rest: &str, before: Option<char>, is_whole: bool) -> InlineMark {
    // A mark that nothing can close any more is plain text.
    let open = || if is_whole || rest.len() > MARKED_CHARS { InlineMark::None } else { InlineMark::Open };
    if let Some(escaped) = rest.strip_prefix('\\') {
        return match escaped.chars().next() {
            Some(c) if c.is_ascii_punctuation() => {
                InlineMark::Text { length: 2, text: c.to_string(), ink: TextStyle::PLAIN }
            }
            None => open(),
            Some(_) => InlineMark::None,
        };
    }
    if rest.starts_with('[') {
        return link(rest).unwrap_or_else(|| if may_be_link(rest) { open() } else { InlineMark::None });
    }
    let Some(c) = rest.chars().next().filter(|c| matches!(c, '*' | '_' | '`')) else {
        return InlineMark::None;
    };
    let is_code = c == '`';
    // Within a word a mark is plain text: `2**10`, `snake_case`.
    if !is_code && before.is_some_and(char::is_alphanumeric) {
        return InlineMark::None;
    }
    let inner = rest.trim_start_matches(c);
    let mark = &rest[..rest.len() - inner.len()];
    if inner.is_empty() {
        return open();
    }
    if !is_code && (mark.len() > 3 || inner.starts_with(char::is_whitespace)) {
        return InlineMark::None;
    }
    let Some(end) = closing(inner, mark) else { return open() };
    let length = mark.len() * 2 + end;
    // One more star may still follow and make another mark of it.
    if !is_whole && length == rest.len() {
        return open();
    }
    let ink = match (is_code, mark.len()) {
        (true, _) => TextStyle::CODE,
        (false, 1) => TextStyle::ITALIC,
        (false, _) => TextStyle::BOLD,
    };
    InlineMark::Text { length, text: inner[..end].to_owned(), ink }
}

/// Returns the end of the text that a mark encloses.
fn closing(inner: &str, mark: &str) -> Option<usize> {
    let sign = mark.chars().next()?;
    inner.match_indices(mark).map(|(at, _)| at).find(|at| {
        let (before, after) = (&inner[..*at], &inner[at + mark.len()..]);
        !before.is_empty()
            && !before.ends_with(|c: char| c == sign || (sign != '`' && c.is_whitespace()))
            && !after.starts_with(sign)
    })
}

/// Formats a whole link as `words (address)`, or as the address alone if the words are equal to it.
fn link(rest: &str) -> Option<InlineMark> {
    let (words, after) = rest[1..].split_once("](")?;
    let (address, _) = after.split_once(')')?;
    if words.contains('[') || address.contains(char::is_whitespace) {
        return None;
    }
    let text = if words == address { words.to_owned() } else { format!("{words} ({address})") };
    let length = 1 + words.len() + 2 + address.len() + 1;
    // An address is no Markdown.
    Some(InlineMark::Text { length, text, ink: TextStyle::PLAIN })
}

/// Returns whether a text may become a link with its next characters.
fn may_be_link(rest: &str) -> bool {
    match rest[1..].split_once(']') {
        None => !rest[1..].contains('['),
        Some((_, after)) => after.is_empty() || (after.starts_with('(') && !after.contains([')', ' '])),
    }
}

/// Returns the fence, if the line is one.
fn fence(line: &str) -> Option<String> {
    let line = line.trim_start();
    let mark: String = line.chars().take_while(|c| *c == '`').collect();
    let mark = if mark.is_empty() { line.chars().take_while(|c| *c == '~').collect() } else { mark };
    (mark.len() >= 3 && !line[mark.len()..].contains('`')).then_some(mark)
}

fn may_be_fence(word: &str) -> bool {
    word.starts_with("```") || word.starts_with("~~~")
}

/// Returns whether a word may be the mark of a line. The text behind it decides.
fn begins_line(word: &str) -> bool {
    is_mark(word) || word == ">" || word.bytes().all(|byte| byte == b'#')
}

/// Reports whether a word is the mark of a list item.
fn is_mark(word: &str) -> bool {
    let number = word.strip_suffix(['.', ')']);
    matches!(word, "-" | "*" | "+")
        || number.is_some_and(|digits| {
            // CommonMark's limit.
            (1..=9).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit())
        })
}

fn is_rule(line: &str) -> bool {
    let marks: String = line.split_whitespace().collect();
    marks.len() >= 3 && ["-", "*", "_"].iter().any(|mark| marks.replace(mark, "").is_empty())
}

#[cfg(test)]
mod tests;
