//! The input: a text of several lines, a cursor in it, and large pastes folded to one sign each.

use std::borrow::Cow;

use unicode_segmentation::UnicodeSegmentation as _;

use crate::term::human::{count, grouped};
use crate::term::text::width;

use super::layout::TextLayout;

/// The maximum lines of a paste that is not folded.
const FOLD_LINES: usize = 5;

/// The maximum characters of a paste that is not folded.
const FOLD_CHARS: usize = 600;

/// The first character that represents a folded paste in the text, in a plane that no font of letters uses.
const FIRST_FOLD: u32 = 0xF_0000;

/// The last character that can represent a folded paste.
const LAST_FOLD: u32 = 0xF_FFFD;

/// The input.
#[derive(Clone, Debug, Default)]
pub(crate) struct InputEditor {
    text: String,
    cursor: usize,
    folds: Vec<String>,
    killed: String,
    /// The column that moves up and down aim at.
    aim: Option<usize>,
}

impl InputEditor {
    /// Creates an editor with a text, its cursor at the end.
    #[cfg(test)]
    pub(crate) fn with(text: &str) -> Self {
        let mut editor = Self::default();
        editor.paste(text);
        editor
    }

    /// Returns whether the text is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Returns the text with every fold as its sign: for looking at, and for the position of the cursor.
    pub(crate) fn folded(&self) -> &str {
        &self.text
    }

    /// Returns the text in full.
    pub(crate) fn text(&self) -> String {
        let mut text = String::with_capacity(self.text.len());
        for c in self.text.chars() {
            match self.fold(c) {
                Some(fold) => text.push_str(fold),
                None => text.push(c),
            }
        }
        text
    }

    /// Empties the editor, and returns the text.
    pub(crate) fn take(&mut self) -> String {
        let text = self.text();
        self.set("");
        text
    }

    /// Replaces the text, and puts the cursor at its end.
    pub(crate) fn set(&mut self, text: &str) {
        let mut killed = std::mem::take(&mut self.killed);
        // The folds go, and their signs with them.
        killed.retain(|c| !is_fold(c));
        *self = Self { killed, ..Self::default() };
        self.paste(text);
    }

    /// Returns the position of the cursor in the folded text, in bytes.
    pub(crate) fn cursor(&self) -> usize {
        self.cursor
    }

    /// Writes a character.
    pub(crate) fn insert(&mut self, c: char) {
        // A foreign character from the range of the folds would stand for one of the pastes.
        if (c.is_control() && c != '\n' && c != '\t') || is_fold(c) {
            return;
        }
        self.text.insert(self.cursor, c);
        self.moved_to(self.cursor + c.len_utf8());
    }

    /// Writes a text; a large one is folded.
    pub(crate) fn paste(&mut self, text: &str) {
        // Terminals send the line ends of a paste as carriage returns.
        let text = text.replace("\r\n", "\n").replace('\r', "\n");
        let text: String =
            text.chars().filter(|c| (!c.is_control() || matches!(c, '\n' | '\t')) && !is_fold(*c)).collect();
        let is_large = text.lines().count() > FOLD_LINES || text.chars().count() > FOLD_CHARS;
        // When all signs are used, a large paste stays unfolded.
        let sign = u32::try_from(self.folds.len()).ok().and_then(|at| char::from_u32(FIRST_FOLD + at));
        match sign.filter(|sign| is_large && is_fold(*sign)) {
            Some(sign) => {
                self.folds.push(text);
                self.text.insert(self.cursor, sign);
                self.moved_to(self.cursor + sign.len_utf8());
            }
            None => {
                self.text.insert_str(self.cursor, &text);
                self.moved_to(self.cursor + text.len());
            }
        }
    }

    /// Returns the displayed form of a cluster of the text.
    pub(crate) fn shown<'a>(&self, cluster: &'a str) -> Cow<'a, str> {
        match cluster.chars().next() {
            Some('\t') => Cow::Borrowed("    "),
            Some(c) => match self.fold(c) {
                Some(fold) => Cow::Owned(label(fold)),
                None => Cow::Borrowed(cluster),
            },
            None => Cow::Borrowed(cluster),
        }
    }

    /// Sets the text into rows.
    pub(crate) fn layout(&self, columns: usize) -> TextLayout {
        TextLayout::new(&self.text, columns, |cluster| self.shown(cluster))
    }

    /// Columns that a stretch of the text takes.
    pub(crate) fn columns(&self, text: &str) -> usize {
        text.graphemes(true).map(|cluster| width(&self.shown(cluster))).sum()
    }

    fn fold(&self, c: char) -> Option<&String> {
        // A folded paste stands in the text as one private character, so that the cursor passes it in one step.
        self.folds.get(usize::try_from(u32::from(c).checked_sub(FIRST_FOLD)?).ok()?)
    }

    fn moved_to(&mut self, cursor: usize) {
        (self.cursor, self.aim) = (cursor, None);
    }

    pub(crate) fn left(&mut self) {
        self.moved_to(self.before());
    }

    pub(crate) fn right(&mut self) {
        self.moved_to(self.after());
    }

    pub(crate) fn word_left(&mut self) {
        self.moved_to(self.word_start());
    }

    pub(crate) fn word_right(&mut self) {
        self.moved_to(self.word_end());
    }

    /// Moves to the start of the line.
    pub(crate) fn start(&mut self) {
        self.moved_to(self.line_start());
    }

    /// Moves to the end of the line.
    pub(crate) fn end(&mut self) {
        self.moved_to(self.line_end());
    }

    /// Moves one displayed row up in `columns`. Returns `false` in the first.
    pub(crate) fn up(&mut self, columns: usize) -> bool {
        let layout = self.layout(columns);
        let Some(row) = layout.row_of(self.cursor).checked_sub(1) else { return false };
        self.aim_at_row(&layout, row);
        true
    }

    /// Moves one displayed row down in `columns`. Returns `false` in the last.
    pub(crate) fn down(&mut self, columns: usize) -> bool {
        let layout = self.layout(columns);
        let row = layout.row_of(self.cursor) + 1;
        if row >= layout.rows().len() {
            return false;
        }
        self.aim_at_row(&layout, row);
        true
    }

    fn aim_at_row(&mut self, layout: &TextLayout, row: usize) {
        let here = &layout.rows()[layout.row_of(self.cursor)];
        let aim = self.aim.unwrap_or_else(|| self.columns(&self.text[here.start..self.cursor]));
        let target = layout.rows()[row].clone();
        let is_last = row + 1 == layout.rows().len();
        let ends_line = is_last || self.text[target.end..].starts_with('\n');
        let mut column = 0;
        let mut at = target.start;
        for (offset, cluster) in self.text[target.clone()].grapheme_indices(true) {
            column += width(&self.shown(cluster));
            let next = target.start + offset + cluster.len();
            // The end of a row that goes on is the start of the next.
            if column > aim || (next == target.end && !ends_line) {
                break;
            }
            at = next;
        }
        (self.cursor, self.aim) = (at, Some(aim));
    }

    pub(crate) fn delete_back(&mut self) {
        self.delete(self.before(), self.cursor);
    }

    pub(crate) fn delete_forward(&mut self) {
        self.delete(self.cursor, self.after());
    }

    /// Deletes the word before the cursor. [`InputEditor::yank`] inserts the text of the newest `kill` again.
    pub(crate) fn kill_word_back(&mut self) {
        self.kill(self.word_start(), self.cursor);
    }

    pub(crate) fn kill_word_forward(&mut self) {
        self.kill(self.cursor, self.word_end());
    }

    pub(crate) fn kill_to_start(&mut self) {
        self.kill(self.line_start(), self.cursor);
    }

    /// Deletes to the end of the line; at the end it deletes the line end itself.
    pub(crate) fn kill_to_end(&mut self) {
        let end = self.line_end();
        self.kill(self.cursor, if end == self.cursor { self.after() } else { end });
    }

    pub(crate) fn yank(&mut self) {
        self.text.insert_str(self.cursor, &self.killed);
        self.moved_to(self.cursor + self.killed.len());
    }

    fn kill(&mut self, from: usize, to: usize) {
        if from < to {
            self.killed = self.text[from..to].to_owned();
        }
        self.delete(from, to);
    }

    fn delete(&mut self, from: usize, to: usize) {
        self.text.replace_range(from..to, "");
        self.moved_to(from);
    }

    fn before(&self) -> usize {
        // By cluster, or the cursor could stand between a letter and its accent.
        let cluster = self.text[..self.cursor].graphemes(true).next_back();
        self.cursor - cluster.map_or(0, str::len)
    }

    fn after(&self) -> usize {
        self.cursor + self.text[self.cursor..].graphemes(true).next().map_or(0, str::len)
    }

    fn line_start(&self) -> usize {
        self.text[..self.cursor].rfind('\n').map_or(0, |at| at + 1)
    }

    fn line_end(&self) -> usize {
        self.text[self.cursor..].find('\n').map_or(self.text.len(), |at| self.cursor + at)
    }

    fn word_start(&self) -> usize {
        let mut at = self.cursor;
        let mut seen = false;
        for c in self.text[..self.cursor].chars().rev() {
            if seen && !is_word(c) {
                break;
            }
            seen |= is_word(c);
            at -= c.len_utf8();
        }
        at
    }

    fn word_end(&self) -> usize {
        let mut at = self.cursor;
        let mut seen = false;
        for c in self.text[self.cursor..].chars() {
            if seen && !is_word(c) {
                break;
            }
            seen |= is_word(c);
            at += c.len_utf8();
        }
        at
    }
}

fn is_word(c: char) -> bool {
    // A fold is a word too, or moves and deletions by words would pass over it.
    c.is_alphanumeric() || is_fold(c)
}

fn is_fold(c: char) -> bool {
    (FIRST_FOLD..=LAST_FOLD).contains(&u32::from(c))
}

fn label(fold: &str) -> String {
    match fold.lines().count() {
        0 | 1 => format!("[{} characters pasted]", grouped(fold.chars().count() as u64)),
        lines => format!("[{} pasted]", count(lines as u64, "line")),
    }
}

#[cfg(test)]
mod tests;
