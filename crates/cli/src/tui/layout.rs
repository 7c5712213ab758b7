//! Sets a text into rows that break between words, each row a range of its bytes. The input is shown and
//! navigated by these rows.

use std::borrow::Cow;
use std::ops::Range;

use unicode_segmentation::UnicodeSegmentation as _;

use crate::term::text::width;

/// Rows of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TextLayout {
    rows: Vec<Range<usize>>,
}

impl TextLayout {
    /// Sets a text into rows of at most `columns`, with clusters shown as `shown` says.
    pub(crate) fn new<'a>(text: &'a str, columns: usize, shown: impl Fn(&'a str) -> Cow<'a, str>) -> Self {
        // A wide character takes two columns, so a narrower row could hold none.
        let columns = columns.max(2);
        let mut rows = Vec::new();
        let (mut start, mut used) = (0, 0);
        // Where the newest word of the row begins, and the columns before it.
        let mut word = (0, 0);
        for (at, cluster) in text.grapheme_indices(true) {
            if cluster == "\n" {
                rows.push(start..at);
                (start, used, word) = (at + 1, 0, (at + 1, 0));
                continue;
            }
            let needed = width(&shown(cluster));
            // A space may hang over the edge.
            if used + needed > columns && cluster != " " {
                // A word that is longer than a row is broken where the row ends.
                let (end, before) = if word.0 > start { word } else { (at, used) };
                rows.push(start..end);
                (start, used, word) = (end, used - before, (end, 0));
            }
            used += needed;
            if cluster == " " {
                word = (at + 1, used);
            }
        }
        // The last row exists even if empty: the cursor stands there after a line end.
        rows.push(start..text.len());
        Self { rows }
    }

    /// Returns the rows, as ranges of the text.
    pub(crate) fn rows(&self) -> &[Range<usize>] {
        &self.rows
    }

    /// Returns the row of a byte. A byte that ends one row and begins the next belongs to the next.
    pub(crate) fn row_of(&self, byte: usize) -> usize {
        self.rows.iter().rposition(|row| row.start <= byte).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(text: &str, columns: usize) -> Vec<&str> {
        let layout = TextLayout::new(text, columns, Cow::Borrowed);
        layout.rows().iter().map(|row| &text[row.clone()]).collect()
    }

    #[test]
    fn rows_break_between_words_and_at_line_ends() {
        assert_eq!(rows("one two three", 8), ["one two ", "three"]);
        assert_eq!(rows("one two", 7), ["one two"]);
        assert_eq!(rows("abcdefghij", 4), ["abcd", "efgh", "ij"]);
        assert_eq!(rows("a\n\nb\n", 8), ["a", "", "b", ""]);
        assert_eq!(rows("日本語", 4), ["日本", "語"]);
        assert_eq!(rows("", 8), [""]);
        assert_eq!(rows("x abcdefghij", 4), ["x ", "abcd", "efgh", "ij"]);
    }

    #[test]
    fn every_byte_stands_in_one_row() {
        let text = "one two three\nfour";
        let layout = TextLayout::new(text, 8, Cow::Borrowed);
        assert_eq!([0, 7, 8, 13, 14, 18].map(|byte| layout.row_of(byte)), [0, 0, 1, 1, 2, 2]);
    }
}
