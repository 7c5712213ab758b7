//! The reason for a command's early end: one message for a person, and the exit status.

use std::any::Any;
use std::error::Error;
use std::io;
use std::process::ExitCode;

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
fn chain(error: &dyn Error) -> String {
    let mut words = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        let text = next.to_string();
        if !words.contains(&text) {
            words.push_str(": ");
            words.push_str(&text);
        }
        cause = next.source();
    }
    words
}
