//! The target of log lines: standard error, or above the input line while a person types.

use std::borrow::Cow;
use std::fmt;
use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};

use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// The escapes that colour a line.
const COLOURS: [&str; 9] = [
    "\u{1b}[0m",
    "\u{1b}[1m",
    "\u{1b}[2m",
    "\u{1b}[3m",
    "\u{1b}[31m",
    "\u{1b}[32m",
    "\u{1b}[33m",
    "\u{1b}[34m",
    "\u{1b}[35m",
];

static SINK: Mutex<LogOutput> = Mutex::new(LogOutput { above_input: None, quiet: false });

struct LogOutput {
    above_input: Option<Box<dyn Write + Send>>,
    quiet: bool,
}

/// Redirects log lines to a writer; `None` is standard error again.
pub(crate) fn redirect(writer: Option<Box<dyn Write + Send>>) {
    SINK.lock().unwrap_or_else(PoisonError::into_inner).above_input = writer;
}

/// Silences the log, for a conversation on the screen of a person who did not ask for a log.
pub(crate) fn silence_log() {
    SINK.lock().unwrap_or_else(PoisonError::into_inner).quiet = true;
}

/// Returns whether the log is silenced.
pub(crate) fn is_log_silent() -> bool {
    SINK.lock().unwrap_or_else(PoisonError::into_inner).quiet
}

/// The format of warnings among the notices of a command: the notices' mark in place of the level.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NoticeFormat;

impl<S, N> FormatEvent<S, N> for NoticeFormat
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        write!(writer, "! ")?;
        context.field_format().format_fields(writer.by_ref(), event)?;
        writeln!(writer)
    }
}

/// The writer of log lines.
#[derive(Debug, Default)]
pub(crate) struct LogLineWriter;

impl Write for LogLineWriter {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut sink = SINK.lock().unwrap_or_else(PoisonError::into_inner);
        if sink.quiet {
            // The line counts as written: to its caller a writer that takes nothing has failed.
            return Ok(line.len());
        }
        let shown = one_line(line);
        match sink.above_input.as_mut() {
            // A log line that cannot be shown there is dropped. It must not end the program.
            Some(writer) => writer.write_all(&shown).or(io::Result::Ok(()))?,
            None => io::stderr().write_all(&shown)?,
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

/// Returns a log event as a single line. Foreign text may have line breaks, and a line of its own would pass
/// for one of ours. Of its escapes only those colours stay that our own lines have.
fn one_line(event: &[u8]) -> Cow<'_, [u8]> {
    let body = event.strip_suffix(b"\n").unwrap_or(event);
    // Nearly every line of a server is plain, and a gateway writes several for each request.
    if body.iter().all(|byte| *byte == b'\t' || (b' '..=b'~').contains(byte)) {
        return Cow::Borrowed(event);
    }
    let text = String::from_utf8_lossy(body);
    let mut line = String::with_capacity(event.len() + 8);
    let mut left = text.as_ref();
    while let Some(next) = left.chars().next() {
        let colour = COLOURS.iter().find(|colour| left.starts_with(**colour));
        match (colour, next) {
            (Some(colour), _) => line.push_str(colour),
            (None, '\t') => line.push('\t'),
            (None, next) if next.is_control() => line.extend(next.escape_default()),
            (None, next) => line.push(next),
        }
        left = &left[colour.map_or(next.len_utf8(), |colour| colour.len())..];
    }
    let mut line = line.into_bytes();
    line.extend_from_slice(&event[body.len()..]);
    Cow::Owned(line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use tracing_subscriber::fmt::MakeWriter;

    /// The output that the program's own writer would have printed.
    #[derive(Clone, Default)]
    struct Printed(Arc<Mutex<Vec<u8>>>);

    impl Write for Printed {
        fn write(&mut self, line: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(&one_line(line));
            Ok(line.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl MakeWriter<'_> for Printed {
        type Writer = Self;

        fn make_writer(&self) -> Self {
            self.clone()
        }
    }

    fn logged(with_colours: bool, log: impl FnOnce()) -> String {
        let printed = Printed::default();
        let subscriber = tracing_subscriber::fmt()
            .with_writer(printed.clone())
            .with_ansi(with_colours)
            .without_time()
            .with_target(false)
            .finish();
        tracing::subscriber::with_default(subscriber, log);
        let bytes = printed.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn words_of_others_forge_no_line_and_move_no_cursor() {
        // Forges a line, clears the screen, sets the window's title, begins an escape with the one character
        // U+009B, and goes back over what was written.
        let words =
            "a name\r\n ERROR the disk is full\u{1b}[2J\u{1b}]0;title\u{7}\u{9b}31m\u{8}\u{0}b\u{b}c\td";
        for with_colours in [false, true] {
            let text = logged(with_colours, || {
                tracing::warn!("{words}");
                tracing::warn!(error = %words, name = words, list = ?[words], "it failed: {words}");
                let span = tracing::info_span!("asked", of = %words);
                let _inside = span.enter();
                tracing::warn!("inside");
            });
            assert_eq!(text.lines().count(), 3, "{text:?}");
            assert!(text.lines().all(|line| line.contains("WARN")), "{text:?}");
            for hostile in ["\u{1b}[2J", "\u{1b}]0;", "\u{7}", "\u{9b}", "\u{8}", "\u{0}", "\u{b}", "\r"] {
                assert!(!text.contains(hostile), "{hostile:?} in {text:?}");
            }
            assert!(text.contains("a name\\r\\n ERROR the disk is full"), "it can still be read: {text:?}");
            assert_eq!(text.contains('\u{1b}'), with_colours, "{text:?}");
        }
    }

    #[test]
    fn plain_lines_stay_as_they_are() {
        assert_eq!(
            logged(false, || tracing::warn!("a line, with\ta tab and ü")),
            " WARN a line, with\ta tab and ü\n"
        );
    }
}
