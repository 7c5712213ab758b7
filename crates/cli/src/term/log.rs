//! Where log lines go: to standard error, or above the input line while somebody types.

use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};

use rustyline_async::SharedWriter;

static ABOVE_INPUT: Mutex<Option<SharedWriter>> = Mutex::new(None);

/// From now on log lines are printed there; `None` is standard error again.
pub(crate) fn redirect(writer: Option<SharedWriter>) {
    *ABOVE_INPUT.lock().unwrap_or_else(PoisonError::into_inner) = writer;
}

/// One log line.
#[derive(Debug, Default)]
pub(crate) struct Log;

impl Write for Log {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut above = ABOVE_INPUT.lock().unwrap_or_else(PoisonError::into_inner);
        match above.as_mut() {
            // A line that finds no room there is no reason to wait.
            Some(writer) => writer.write(line).or(Ok(line.len())),
            None => io::stderr().write(line),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}
