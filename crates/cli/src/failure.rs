//! The reason for a command's early end: one message for a person, and the exit status.

use std::any::Any;
use std::error::Error;
use std::io;
use std::process::ExitCode;

use longhaul::io_error::{io_error_text, json_error_text, without_error_numbers};

/// The result of a command.
pub(crate) type Outcome<T = ExitCode> = Result<T, CommandError>;

/// The exit status of success.
pub(crate) const DONE: ExitCode = ExitCode::SUCCESS;

/// The exit status of something cancelled.
pub(crate) const CANCELLED: u8 = 130;

/// The reason for a command's early end.
#[derive(Debug)]
pub(crate) struct CommandError {
    status: u8,
    message: String,
    is_untrusted: bool,
}

impl CommandError {
    /// Creates a failure: status 1.
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { status: 1, message: message.into(), is_untrusted: false }
    }

    /// Creates the error for a wrong command line or configuration: status 2.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self { status: 2, ..Self::new(message) }
    }

    /// Creates the error for an untrusted file: status 2.
    pub(crate) fn untrusted(message: impl Into<String>) -> Self {
        Self { is_untrusted: true, ..Self::usage(message) }
    }

    /// Adds a sentence to the message, unless the message has no reader any more.
    pub(crate) fn followed_by(mut self, more: &str) -> Self {
        if !self.message.is_empty() {
            self.message = format!("{}; {more}", self.message);
        }
        self
    }

    /// Returns true if an untrusted file is the only error.
    pub(crate) fn is_untrusted(&self) -> bool {
        self.is_untrusted
    }

    /// Returns the error message; empty if it has no reader any more.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// Returns the exit status.
    pub(crate) fn status(&self) -> ExitCode {
        ExitCode::from(self.status)
    }
}

/// Converts any error into a failure with the error's message. `CommandError` does not implement [`Error`], or this
/// would overlap with the conversion of a type into itself.
impl<E: Error + 'static> From<E> for CommandError {
    fn from(error: E) -> Self {
        let reader_left = (&error as &dyn Any)
            .downcast_ref::<io::Error>()
            .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe);
        // A reader such as `head` closes the pipe when it has enough. That is no failure.
        if reader_left {
            return Self { status: 0, ..Self::new("") };
        }
        Self::new(chain(&error))
    }
}

/// Returns an error and its causes in one line, without repetition.
fn chain(error: &(dyn Error + 'static)) -> String {
    let mut words = String::new();
    let mut cause = Some(error);
    while let Some(next) = cause {
        let raw = next.to_string();
        let text = next.downcast_ref::<io::Error>().map_or_else(|| json_error_text(&raw), io_error_text);
        if words.is_empty() {
            words = text;
        } else if words.contains(&raw) {
            // An error often has the system's own text in its message already.
            words = words.replace(&raw, &text);
        } else if !words.contains(&text) {
            words.push_str(": ");
            words.push_str(&text);
        }
        cause = next.source();
    }
    without_error_numbers(&words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("notes.md: {0}")]
    struct NotesError(#[source] io::Error);

    #[test]
    fn the_system_s_errors_are_told_in_words() {
        let missing = || io::Error::from_raw_os_error(2);
        assert_eq!(CommandError::from(missing()).message(), "there is no such file");
        assert_eq!(CommandError::from(NotesError(missing())).message(), "notes.md: there is no such file");
    }
}
