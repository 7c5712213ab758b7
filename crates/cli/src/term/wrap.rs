//! Word wrap with a hanging indent for text that arrives in pieces, and breaks for lines that are too wide.

use super::style::TextStyle;
use super::text::{char_width, visible, width};

/// A wrapper for a stream of text. A word is held back until it is known to be whole.
#[derive(Clone, Debug)]
pub(crate) struct WordWrapper {
    indent: usize,
    width: usize,
    /// Columns used in the current line; 0 before its indent is written.
    column: usize,
    spaces: usize,
    word: Vec<(char, TextStyle)>,
    /// `true` if the current line of the source text has a word already.
    has_word: bool,
    /// Columns by which the rest of the text's own line hangs deeper where it is broken.
    hang: usize,
    /// `true` if the current line is the rest of a broken one.
    is_rest: bool,
    /// The style that the terminal writes with now.
    ink: TextStyle,
}

impl WordWrapper {
    /// Creates a wrapper for text behind a label of `column` columns. Later lines begin at `indent`.
    pub(crate) fn new(column: usize, indent: usize, width: usize) -> Self {
        // Room for at least a short word, however narrow the terminal is.
        let width = width.max(indent + 8);
        Self {
            indent,
            width,
            column,
            spaces: 0,
            word: Vec::new(),
            has_word: false,
            hang: 0,
            is_rest: false,
            ink: TextStyle::default(),
        }
    }

    /// Sets the width of later lines.
    pub(crate) fn resize(&mut self, width: usize) {
        self.width = width.max(self.indent + 8);
    }

    /// Returns the columns of a line behind its indent.
    pub(crate) fn room(&self) -> usize {
        self.width - self.indent
    }

    /// Adds text.
    pub(crate) fn push(&mut self, text: &str, out: &mut String) {
        self.push_in(text, TextStyle::default(), out);
    }

    /// Sets the indent of the rest of the current line, for the case that it is broken.
    pub(crate) fn hang(&mut self, columns: usize) {
        // In a narrow terminal a deep indent would leave no room for words.
        self.hang = columns.min(self.width.saturating_sub(self.indent) / 2);
    }

    /// Adds text in a style.
    pub(crate) fn push_in(&mut self, text: &str, ink: TextStyle, out: &mut String) {
        for c in text.chars() {
            match c {
                '\n' => self.line_end(out),
                ' ' => {
                    self.flush(out);
                    self.spaces += 1;
                }
                c => {
                    self.word.push((c, ink));
                    // Between wide characters a line may break anywhere.
                    if char_width(c) > 1 {
                        self.flush(out);
                    }
                }
            }
        }
    }

    /// Ends the text, and emits the held rest.
    pub(crate) fn finish(&mut self, out: &mut String) {
        self.flush(out);
        // Spaces at the end are not written, because nothing follows them.
        self.spaces = 0;
        self.paint(TextStyle::default(), out);
    }

    fn paint(&mut self, ink: TextStyle, out: &mut String) {
        let (before, codes) = (self.ink.codes(), ink.codes());
        self.ink = ink;
        if before == codes {
            return;
        }
        // A reset comes first: codes only add to the style in force.
        if !before.is_empty() {
            out.push_str("\u{1b}[0m");
        }
        out.push_str(&codes);
    }

    /// Returns whether the current line is empty.
    pub(crate) fn is_at_start(&self) -> bool {
        self.column == 0 && self.word.is_empty()
    }

    fn line_end(&mut self, out: &mut String) {
        self.flush(out);
        self.paint(TextStyle::default(), out);
        out.push('\n');
        (self.column, self.spaces, self.has_word) = (0, 0, false);
        (self.hang, self.is_rest) = (0, false);
    }

    fn flush(&mut self, out: &mut String) {
        if self.word.is_empty() {
            return;
        }
        let word = std::mem::take(&mut self.word);
        let needed = width(&word.iter().map(|(c, _)| *c).collect::<String>());
        // Spaces at the start of the text's own line are its indentation and stay with it.
        let used = self.column.max(self.indent);
        if self.has_word && used + self.spaces + needed > self.width {
            self.break_line(out);
        }
        // Only spaces between two words of one style are written in that style.
        let next = word.first().map(|(_, ink)| *ink).unwrap_or_default();
        let between = if next == self.ink { next } else { TextStyle::default() };
        for _ in 0..std::mem::take(&mut self.spaces) {
            self.write(' ', between, out);
        }
        for (c, ink) in word {
            self.write(c, ink, out);
        }
        self.has_word = true;
    }

    fn break_line(&mut self, out: &mut String) {
        self.paint(TextStyle::default(), out);
        out.push('\n');
        (self.column, self.spaces, self.is_rest) = (0, 0, true);
    }

    fn write(&mut self, c: char, ink: TextStyle, out: &mut String) {
        let columns = char_width(c);
        // A word that is wider than the line breaks inside.
        if self.column.max(self.indent) + columns > self.width {
            self.break_line(out);
        }
        let indent = self.indent + if self.is_rest { self.hang } else { 0 };
        // The indent is written with the first character, so that empty lines have no trailing spaces.
        while self.column < indent {
            out.push(' ');
            self.column += 1;
        }
        self.paint(ink, out);
        out.push(c);
        self.column += columns;
    }
}

/// Wraps a whole text at once.
pub(crate) fn wrapped(text: &str, column: usize, indent: usize, width: usize) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 8);
    let mut wrap = WordWrapper::new(column, indent, width);
    wrap.push(text, &mut out);
    wrap.finish(&mut out);
    out
}

/// Breaks a painted line that is too wide between words. The rest hangs below `hanging` columns.
pub(crate) fn broken(line: &str, hanging: usize, columns: usize) -> String {
    let mut text = String::with_capacity(line.len() + hanging);
    let mut used = 0;
    for word in line.split_inclusive(' ') {
        let shown = visible(word);
        // A word that is wider than a row gains nothing from a new row: the break would leave an empty one.
        if used + width(shown.trim_end()) > columns && used > hanging {
            text.truncate(text.trim_end().len());
            text.push('\n');
            text.push_str(&" ".repeat(hanging));
            used = hanging;
        }
        text.push_str(word);
        used += width(&shown);
    }
    text
}

/// Breaks painted lines that are too wide for the terminal. The rest of a line hangs below its first words,
/// or below the text behind its label.
pub(crate) fn fitting(text: &str, columns: usize) -> String {
    text.split('\n')
        .map(|line| match visible(line) {
            shown if width(shown.trim_end()) <= columns => line.to_owned(),
            // At most half of the columns, or a long label would leave no room for the text.
            shown => broken(line, hanging(&shown).min(columns / 2), columns),
        })
        .collect::<Vec<_>>()
        .join("\n")
}

/// Returns the column of the text behind the first gap of a line, else of its first word.
fn hanging(line: &str) -> usize {
    let words = line.trim_start();
    let indent = line.len() - words.len();
    let behind = words.find("  ").map(|gap| indent + width(&words[..gap]) + gap_of(&words[gap..]));
    behind.unwrap_or(indent)
}

fn gap_of(text: &str) -> usize {
    text.len() - text.trim_start_matches(' ').len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_between_words() {
        assert_eq!(wrapped("one two three four", 2, 2, 11), "one two\n  three\n  four");
        assert_eq!(wrapped("a\n\n    code line\n", 2, 2, 20), "a\n\n      code line\n");
        assert_eq!(wrapped("abcdefghijklmno", 2, 2, 10), "abcdefgh\n  ijklmno");
        assert_eq!(wrapped("日本語日本語", 2, 2, 10), "日本語日\n  本語");
    }

    #[test]
    fn lines_that_are_too_wide_hang_below_their_first_words() {
        let text = "server        none answers on localhost (1234, 8080)\nshort\n  its page  http://127.0.0.1:4400/open here\n";
        let set = fitting(text, 30);
        let expected = "server        none answers on\n              localhost (1234,\n              8080)\nshort\n\
                        \x20 its page  http://127.0.0.1:4400/open\n            here\n";
        assert_eq!(set, expected);
        assert_eq!(fitting(text, 200), text);
        let painted = "\u{1b}[2mlabel  \u{1b}[0mone two three";
        assert_eq!(fitting(painted, 14), "\u{1b}[2mlabel  \u{1b}[0mone two\n       three");
        assert_eq!(fitting("one two three four", 9), "one two\nthree\nfour");
    }

    #[test]
    fn pieces_give_what_the_whole_gives() {
        let text = "The quick brown fox\njumps  over   the lazy dog, and then some more 日本語 words.";
        let whole = wrapped(text, 9, 9, 30);
        assert!(
            whole.lines().skip(1).all(|line| width(line) <= 30 && line.starts_with("         ")),
            "{whole}"
        );
        for size in 1..7 {
            let mut out = String::new();
            let mut wrap = WordWrapper::new(9, 9, 30);
            let chars: Vec<char> = text.chars().collect();
            for piece in chars.chunks(size) {
                wrap.push(&piece.iter().collect::<String>(), &mut out);
            }
            wrap.finish(&mut out);
            assert_eq!(out, whole, "pieces of {size}");
        }
    }
}
