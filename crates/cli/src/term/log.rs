//! Where log lines go: to standard error, or above the input line while somebody types.

use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};

static SINK: Mutex<Sink> = Mutex::new(Sink { above_input: None, quiet: false });

struct Sink {
    above_input: Option<Box<dyn Write + Send>>,
    quiet: bool,
}

/// From now on log lines are printed there; `None` is standard error again.
pub(crate) fn redirect(writer: Option<Box<dyn Write + Send>>) {
    SINK.lock().unwrap_or_else(PoisonError::into_inner).above_input = writer;
}

/// From now on nothing is printed: a conversation is on the screen, and nobody asked for a log.
pub(crate) fn hush() {
    SINK.lock().unwrap_or_else(PoisonError::into_inner).quiet = true;
}

/// One log line.
#[derive(Debug, Default)]
pub(crate) struct Log;

impl Write for Log {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut sink = SINK.lock().unwrap_or_else(PoisonError::into_inner);
        if sink.quiet {
            return Ok(line.len());
        }
        match sink.above_input.as_mut() {
            // A line that finds no room there is no reason to wait.
            Some(writer) => writer.write(line).or(Ok(line.len())),
            None => io::stderr().write(line),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}
