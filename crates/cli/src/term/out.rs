//! The two output streams: data on standard output, everything else on standard error.

use std::io::{self, IsTerminal, Write};

use longhaul::io_error::io_error_text;

use super::wrap::{fitting, wrapped};

/// The widest line that is comfortable to read, in columns.
const WIDEST: usize = 100;

/// The minimum columns that text is set for.
const NARROWEST: usize = 16;

/// The rows of text on a terminal of unknown size.
const USUAL_ROWS: usize = 20;

/// The rows that marks and the input take beside a text.
const ROWS_AROUND: usize = 6;

/// The minimum rows of a text that is cut to a screen.
const FEWEST_ROWS: usize = 8;

/// The columns of a terminal of unknown size.
const USUAL: usize = 80;

/// Writes data.
///
/// # Errors
/// The errors of the stream, above all that the reader has left.
pub(crate) fn data(text: &str) -> io::Result<()> {
    written(&[text.as_bytes()])
}

/// Writes a line of data.
///
/// # Errors
/// The errors of [`data`].
pub(crate) fn print_line(text: &str) -> io::Result<()> {
    written(&[text.as_bytes(), b"\n"])
}

/// Writes bytes to standard output; the error names the stream.
fn written(parts: &[&[u8]]) -> io::Result<()> {
    // The lock is held for all parts, so that lines of two threads do not mix.
    let mut out = io::stdout().lock();
    let all = parts.iter().try_for_each(|part| out.write_all(part));
    // Standard output is written line by line, and a text without a line end would stay behind.
    all.and_then(|()| out.flush()).map_err(|error| match error.kind() {
        // A reader such as `head` has enough. Callers know this case by its kind.
        io::ErrorKind::BrokenPipe => error,
        kind => {
            let why = io_error_text(&error);
            io::Error::new(kind, format!("standard output cannot be written: {why}"))
        }
    })
}

/// Writes a message. A missing reader is no error.
pub(crate) fn message(text: &str) {
    let _ = io::stderr().lock().write_all(text.as_bytes());
}

/// Writes rows for people: at a terminal none breaks within a word.
///
/// # Errors
/// The errors of [`data`].
pub(crate) fn rows(text: &str) -> io::Result<()> {
    if io::stdout().is_terminal() { data(&fitting(text, width())) } else { data(text) }
}

/// Prints text to the stream of messages.
pub(crate) fn print_message(text: &str) {
    if io::stderr().is_terminal() { message(&fitting(text, width())) } else { message(text) }
}

/// Writes a message of any length: where a person reads, no line breaks within a word.
pub(crate) fn complaint(text: &str) {
    if io::stderr().is_terminal() {
        message(&wrapped(text, 0, 0, width()));
    } else {
        message(text);
    }
}

/// Returns the columns of the terminal.
pub(crate) fn columns() -> usize {
    // Standard output may be a pipe while a person reads the messages.
    let size =
        rustix::termios::tcgetwinsize(io::stdout()).or_else(|_| rustix::termios::tcgetwinsize(io::stderr()));
    size.map_or(USUAL, |size| usize::from(size.ws_col)).max(1)
}

/// Returns the rows of one screen, less the lines around a text. A pipe has no screen, so it gets every row.
pub(crate) fn screen_rows() -> usize {
    if !io::stdout().is_terminal() {
        return usize::MAX;
    }
    // A terminal of unknown size reports no rows.
    let rows = rustix::termios::tcgetwinsize(io::stdout()).map_or(0, |size| usize::from(size.ws_row));
    if rows == 0 { USUAL_ROWS } else { rows.saturating_sub(ROWS_AROUND).max(FEWEST_ROWS) }
}

/// Returns the columns at which a row is broken. No row is broken if standard output is no terminal.
pub(crate) fn row_width() -> usize {
    if io::stdout().is_terminal() { width() } else { usize::MAX }
}

/// Returns the columns for text. The last column stays free, so that the cursor never wraps by itself.
pub(crate) fn width() -> usize {
    match columns() {
        // A terminal without a known size reports 0 columns.
        1 => USUAL,
        columns => (columns - 1).clamp(NARROWEST, WIDEST),
    }
}
