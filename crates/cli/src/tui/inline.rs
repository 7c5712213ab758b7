//! A ratatui backend whose screen is the live rows below the scrollback.
//!
//! The backend moves the cursor relative to its place and never asks the terminal for a position. So neither
//! a scroll nor other output above can disturb its rows. Rows are written without the blanks at their ends,
//! so that copied text equals displayed text.

use std::io::{self, Write};

use ratatui::backend::{Backend, ClearType, WindowSize};
use ratatui::buffer::{Buffer, Cell};
use ratatui::layout::{Position, Rect, Size};
use ratatui::style::{Color, Modifier};

use crate::term::text::width;

use super::ascii_fallback::GlyphSet;
use super::paint::codes;

/// The codes around a synchronised update: the terminal shows it only when it is complete.
const BEGIN: &str = "\u{1b}[?2026h\u{1b}[?25l";
const END: &str = "\u{1b}[?2026l";

/// The escape codes that clear this row and all below. They clear from the second column on: if all of the
/// screen is cleared from its first cell, tmux puts the old content into the scrollback.
const CLEAR: &str = "\r\u{1b}[2K\u{1b}[C\u{1b}[J\r";

/// The output of the live rows.
pub(crate) trait TerminalWrite: Write {
    /// Returns the present number of columns.
    fn columns(&self) -> u16;
}

/// The live rows.
#[derive(Debug)]
pub(crate) struct InlineBackend<W: TerminalWrite> {
    out: W,
    glyphs: GlyphSet,
    reflows: bool,
    /// Columns of the terminal, and live rows.
    size: Size,
    /// The live rows that the terminal shall show.
    wanted: Buffer,
    /// Rows that the terminal shows otherwise.
    stale: Vec<bool>,
    /// Columns of each row that the terminal shows.
    drawn: Vec<u16>,
    /// The position of the terminal's cursor.
    at: Position,
    /// The position that the cursor shall have, if it is to be seen.
    cursor: Option<Position>,
    is_cursor_moved: bool,
    /// The text to print above the live rows.
    above: String,
    /// `true` if the live rows must be drawn again.
    is_lost: bool,
}

impl<W: TerminalWrite> InlineBackend<W> {
    /// Creates the backend without live rows, in a terminal of `columns`, the cursor in the first column.
    pub(crate) fn new(out: W, columns: u16, glyphs: GlyphSet, reflows: bool) -> Self {
        Self {
            out,
            glyphs,
            reflows,
            size: Size::new(columns, 1),
            wanted: Buffer::empty(Rect::new(0, 0, columns, 1)),
            stale: vec![true],
            drawn: vec![0],
            at: Position::ORIGIN,
            cursor: None,
            is_cursor_moved: false,
            above: String::new(),
            is_lost: true,
        }
    }

    /// Prints finished rows above the live ones. They are the terminal's afterwards.
    pub(crate) fn insert(&mut self, text: &str) {
        for line in text.lines() {
            self.above.push_str(&self.glyphs.set(line));
            self.above.push_str("\r\n");
        }
        self.is_lost |= !text.is_empty();
    }

    /// Sets the number of live rows.
    pub(crate) fn set_rows(&mut self, rows: u16) {
        self.size.height = rows.max(1);
    }

    /// Sets the number of columns, after the terminal has rearranged the rows as its kind does.
    pub(crate) fn set_columns(&mut self, columns: u16) {
        let columns = columns.max(1);
        // A wider terminal breaks no row of ours, so all places stay.
        if self.reflows && columns < self.size.width {
            // A terminal that reflows breaks each longer row into several, and the cursor moves down with them.
            let above = self
                .drawn
                .iter()
                .take(usize::from(self.at.y))
                .map(|drawn| drawn.div_ceil(columns).max(1))
                .sum::<u16>();
            self.at.y = above + self.at.x / columns;
        }
        self.size.width = columns;
        // The terminal may have moved everything, so the next frame redraws all rows.
        self.is_lost = true;
    }

    /// Makes everything be drawn again.
    pub(crate) fn forget(&mut self) {
        self.is_lost = true;
    }

    /// Removes the live rows. The cursor is then where they began.
    ///
    /// # Errors
    /// The errors of the terminal.
    pub(crate) fn erase(&mut self) -> io::Result<()> {
        let mut frame = String::new();
        self.go_home(&mut frame);
        frame.push_str(&std::mem::take(&mut self.above));
        self.is_lost = true;
        self.out.write_all(frame.as_bytes())?;
        self.out.flush()
    }

    fn go_home(&mut self, frame: &mut String) {
        if self.at.y > 0 {
            frame.push_str(&format!("\u{1b}[{}A", self.at.y));
        }
        frame.push_str(CLEAR);
        self.at = Position::ORIGIN;
        self.drawn = vec![0];
    }

    /// Writes the text above, and makes room for the live rows.
    fn make_room(&mut self, frame: &mut String) {
        self.go_home(frame);
        frame.push_str(&self.above);
        let below = usize::from(self.size.height) - 1;
        // Line feeds, not cursor moves: only they scroll at the bottom of the screen.
        frame.push_str(&"\n".repeat(below));
        if below > 0 {
            frame.push_str(&format!("\u{1b}[{below}A"));
        }
        self.drawn = vec![0; below + 1];
        self.stale = vec![true; below + 1];
        self.is_lost = false;
    }

    fn go(&mut self, to: Position, frame: &mut String) {
        match (to.y, self.at.y) {
            (to, at) if to < at => frame.push_str(&format!("\u{1b}[{}A", at - to)),
            (to, at) if to > at => frame.push_str(&format!("\u{1b}[{}B", to - at)),
            _ => {}
        }
        // From the left edge, because terminals differ in the cursor's place behind a full row.
        frame.push('\r');
        if to.x > 0 {
            frame.push_str(&format!("\u{1b}[{}C", to.x));
        }
        self.at = to;
    }

    fn write_row(&mut self, y: u16, frame: &mut String) {
        self.go(Position::new(0, y), frame);
        let (text, columns) = self.row(y);
        if let Some(drawn) = self.drawn.get_mut(usize::from(y)) {
            // The whole row is cleared: some terminals count blanks that were cleared at the end of a row as
            // part of it.
            if std::mem::replace(drawn, columns) > columns {
                frame.push_str("\u{1b}[2K");
            }
        }
        frame.push_str(&text);
        self.at.x = columns;
    }

    /// Returns a row without the blanks at its end, and its columns.
    fn row(&self, y: u16) -> (String, u16) {
        let cells: Vec<&Cell> =
            (0..self.wanted.area.width).filter_map(|x| self.wanted.cell((x, y))).collect();
        let end = cells.iter().rposition(|cell| cell.symbol() != " ").map_or(0, |at| at + 1);
        let mut text = String::new();
        let mut paint = (Color::Reset, Modifier::empty());
        let mut used = 0;
        let mut skip = 0;
        for cell in &cells[..end] {
            // The cells behind a wide character belong to it.
            if skip > 0 {
                skip -= 1;
                continue;
            }
            if (cell.fg, cell.modifier) != paint {
                paint = (cell.fg, cell.modifier);
                // A reset first: the new codes would otherwise add to the old ones.
                text.push_str("\u{1b}[0m");
                text.push_str(&codes(paint));
            }
            let symbol = self.glyphs.set(cell.symbol());
            text.push_str(&symbol);
            let width = columns(&symbol);
            skip = width - 1;
            used += width;
        }
        if paint != (Color::Reset, Modifier::empty()) {
            text.push_str("\u{1b}[0m");
        }
        (text, used)
    }
}

/// Columns that a cell's symbol takes.
fn columns(symbol: &str) -> u16 {
    u16::try_from(width(symbol).max(1)).unwrap_or(u16::MAX)
}

impl<W: TerminalWrite> Backend for InlineBackend<W> {
    type Error = io::Error;

    fn draw<'a, I: Iterator<Item = (u16, u16, &'a Cell)>>(&mut self, content: I) -> io::Result<()> {
        for (x, y, cell) in content {
            if let Some(wanted) = self.wanted.cell_mut((x, y)) {
                wanted.clone_from(cell);
            }
            // The terminal gets nothing for the cells behind a wide character.
            for x in x + 1..x + columns(cell.symbol()) {
                if let Some(below) = self.wanted.cell_mut((x, y)) {
                    below.reset();
                }
            }
            if let Some(stale) = self.stale.get_mut(usize::from(y)) {
                *stale = true;
            }
        }
        Ok(())
    }

    fn hide_cursor(&mut self) -> io::Result<()> {
        self.is_cursor_moved |= self.cursor.take().is_some();
        Ok(())
    }

    // `flush` shows the cursor together with its position.
    fn show_cursor(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn get_cursor_position(&mut self) -> io::Result<Position> {
        Ok(self.cursor.unwrap_or(self.at))
    }

    fn set_cursor_position<P: Into<Position>>(&mut self, position: P) -> io::Result<()> {
        let position = Some(position.into());
        self.is_cursor_moved |= self.cursor != position;
        self.cursor = position;
        Ok(())
    }

    fn clear(&mut self) -> io::Result<()> {
        self.clear_region(ClearType::All)
    }

    fn clear_region(&mut self, _: ClearType) -> io::Result<()> {
        self.wanted = Buffer::empty(Rect::from((Position::ORIGIN, self.size)));
        self.is_lost = true;
        Ok(())
    }

    fn size(&self) -> io::Result<Size> {
        Ok(self.size)
    }

    fn window_size(&mut self) -> io::Result<WindowSize> {
        Ok(WindowSize { columns_rows: self.size, pixels: Size::ZERO })
    }

    fn flush(&mut self) -> io::Result<()> {
        // An unchanged picture writes nothing, so an idle chat sends nothing over a slow line.
        if !self.is_lost && !self.is_cursor_moved && !self.stale.contains(&true) {
            return Ok(());
        }
        let before = (self.at, self.drawn.clone());
        let mut frame = String::from(BEGIN);
        if self.is_lost {
            self.make_room(&mut frame);
        }
        for y in 0..self.size.height {
            if std::mem::take(&mut self.stale[usize::from(y)]) {
                self.write_row(y, &mut frame);
            }
        }
        if let Some(cursor) = self.cursor {
            let cursor = Position::new(cursor.x, cursor.y.min(self.size.height - 1));
            self.go(cursor, &mut frame);
            frame.push_str("\u{1b}[?25h");
        }
        frame.push_str(END);
        // The terminal may have rearranged its rows just now. Until `set_columns` is called, their
        // places are unknown.
        if self.out.columns() != self.size.width {
            (self.at, self.drawn) = before;
            self.is_lost = true;
            return Ok(());
        }
        // Only now: a frame that was given up above must be drawn again in full.
        self.is_cursor_moved = false;
        self.above.clear();
        self.out.write_all(frame.as_bytes())?;
        self.out.flush()
    }
}

#[cfg(test)]
mod tests;
