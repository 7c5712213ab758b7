//! Tables in a model's Markdown: aligned if the place is wide enough, else a list of `heading: value` lines.

use super::{MarkdownFormatter, MarkdownSpan};
use crate::term::style::TextStyle;
use crate::term::text::width;

/// The columns between two cells.
const GAP: usize = 2;

/// A table with at least a heading.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MarkdownTable {
    heading: Vec<TableCell>,
    rows: Vec<Vec<TableCell>>,
    /// The columns whose cells are set to the right.
    is_right: Vec<bool>,
}

/// A cell: formatted text in one line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct TableCell(Vec<(String, TextStyle)>);

impl TableCell {
    fn of(text: &str, ink: TextStyle) -> Self {
        let mut spans = Vec::new();
        MarkdownFormatter { ink, is_within: true, ..MarkdownFormatter::default() }.words(
            text.to_owned(),
            true,
            &mut spans,
        );
        let words = spans.into_iter().filter_map(|span| match span {
            MarkdownSpan::Text(text, ink) => Some((text, ink)),
            _ => None,
        });
        Self(words.collect())
    }

    fn width(&self) -> usize {
        self.0.iter().map(|(text, _)| width(text)).sum()
    }

    fn put(&self, out: &mut Vec<MarkdownSpan>) {
        out.extend(self.0.iter().map(|(text, ink)| MarkdownSpan::Text(text.clone(), *ink)));
    }
}

impl MarkdownTable {
    /// Reads the lines of a table; `None` if the second line is no delimiter row.
    pub(super) fn read(lines: &[String]) -> Option<Self> {
        let (heading, delimiter, rows) = match lines {
            [heading, delimiter, rows @ ..] if is_delimiter(delimiter) => (heading, delimiter, rows),
            _ => return None,
        };
        let cells = |line: &String, ink| cells(line).iter().map(|cell| TableCell::of(cell, ink)).collect();
        let is_right =
            self::cells(delimiter).into_iter().map(|cell| !cell.starts_with(':') && cell.ends_with(':'));
        Some(Self {
            heading: cells(heading, TextStyle::BOLD),
            rows: rows.iter().map(|row| cells(row, TextStyle::default())).collect(),
            is_right: is_right.collect(),
        })
    }

    /// Returns the table for a place of `room` columns.
    pub(crate) fn spans(&self, room: usize) -> Vec<MarkdownSpan> {
        let widths: Vec<usize> = (0..self.heading.len()).map(|at| self.column_width(at)).collect();
        let all = widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1);
        if all <= room { self.aligned(&widths) } else { self.listed() }
    }

    fn column_width(&self, at: usize) -> usize {
        let cells = std::iter::once(&self.heading).chain(&self.rows).filter_map(|row| row.get(at));
        cells.map(TableCell::width).max().unwrap_or(0)
    }

    fn aligned(&self, widths: &[usize]) -> Vec<MarkdownSpan> {
        let mut out = Vec::new();
        self.put_row(&self.heading, widths, &mut out);
        let rule = widths.iter().map(|width| "─".repeat(*width)).collect::<Vec<_>>().join(&" ".repeat(GAP));
        out.extend([MarkdownSpan::Text(rule, TextStyle::DIM), MarkdownSpan::End]);
        for row in &self.rows {
            self.put_row(row, widths, &mut out);
        }
        out
    }

    fn put_row(&self, row: &[TableCell], widths: &[usize], out: &mut Vec<MarkdownSpan>) {
        // Blanks are held until a cell follows, so that no row ends in them.
        let mut blanks = 0;
        for (at, width) in widths.iter().enumerate() {
            let empty = TableCell::default();
            let cell = row.get(at).unwrap_or(&empty);
            let missing = width.saturating_sub(cell.width());
            let is_right = self.is_right.get(at).is_some_and(|is_right| *is_right);
            blanks += if is_right { missing } else { 0 };
            if !cell.0.is_empty() {
                out.push(MarkdownSpan::Text(" ".repeat(std::mem::take(&mut blanks)), TextStyle::default()));
                cell.put(out);
            }
            blanks += GAP + if is_right { 0 } else { missing };
        }
        out.push(MarkdownSpan::End);
    }

    /// Returns a line for each cell with text, and an empty line between two rows.
    fn listed(&self) -> Vec<MarkdownSpan> {
        let mut out = Vec::new();
        for (at, row) in self.rows.iter().enumerate() {
            if at > 0 {
                out.push(MarkdownSpan::End);
            }
            for (heading, cell) in self.heading.iter().zip(row).filter(|(_, cell)| !cell.0.is_empty()) {
                out.push(MarkdownSpan::Hang(GAP));
                heading.put(&mut out);
                if !heading.0.is_empty() {
                    out.push(MarkdownSpan::Text(": ".to_owned(), TextStyle::default()));
                }
                cell.put(&mut out);
                out.push(MarkdownSpan::End);
            }
        }
        // A table without rows still has its heading.
        if self.rows.is_empty() {
            for heading in self.heading.iter().filter(|heading| !heading.0.is_empty()) {
                heading.put(&mut out);
                out.push(MarkdownSpan::End);
            }
        }
        out
    }
}

/// Returns whether a line may be a row of a table: it begins with a bar. Rows without one are rare, and every line of
/// text would have to wait for the next.
pub(super) fn is_table_row(line: &str) -> bool {
    let begun = line.trim_start();
    // CommonMark takes a line with four leading spaces for code.
    begun.starts_with('|') && line.len() - begun.len() < 4
}

/// Returns whether a line is the delimiter row of a table, for example `|---|--:|`.
pub(super) fn is_delimiter(line: &str) -> bool {
    let is_mark = |cell: &String| {
        let dashes = cell.trim_start_matches(':').trim_end_matches(':');
        !dashes.is_empty() && dashes.bytes().all(|byte| byte == b'-')
    };
    let cells = cells(line);
    !cells.is_empty() && cells.iter().all(is_mark)
}

/// Returns the texts between the bars of a row. An escaped bar is text.
fn cells(line: &str) -> Vec<String> {
    let line = line.trim();
    let mut cells = Vec::new();
    let mut cell = String::new();
    let mut rest = line.strip_prefix('|').unwrap_or(line).chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\\' if rest.next_if_eq(&'|').is_some() => cell.push('|'),
            '|' => cells.push(std::mem::take(&mut cell)),
            c => cell.push(c),
        }
    }
    // The last bar ends the row, and text behind it is a cell of its own.
    if !cell.trim().is_empty() {
        cells.push(cell);
    }
    cells.iter().map(|cell| cell.trim().to_owned()).collect()
}
