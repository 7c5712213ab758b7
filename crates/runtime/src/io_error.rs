//! Errors of the system in the words of a person.
//!
//! The standard library's texts are a mixture: `entity not found` without a number, `No such file or directory (os
//! error 2)` with one. A reader needs the fact and no number.

use std::io::{self, ErrorKind};

/// The beginning of the number behind a text of the system.
const NUMBER: &str = " (os error ";

/// Returns an error of the system in words, for example `there is no such file`. An error with a text of its own
/// keeps the text.
pub fn io_error_text(error: &io::Error) -> String {
    if let Some(inner) = error.get_ref() {
        return match inner.downcast_ref::<io::Error>() {
            Some(inner) => io_error_text(inner),
            None => json_error_text(&error.to_string()),
        };
    }
    let words = match error.kind() {
        ErrorKind::NotFound => "there is no such file",
        ErrorKind::PermissionDenied => "permission denied",
        ErrorKind::AlreadyExists => "it exists already",
        ErrorKind::NotADirectory => "a part of its path is not a folder",
        ErrorKind::IsADirectory => "it is a folder",
        ErrorKind::DirectoryNotEmpty => "the folder is not empty",
        ErrorKind::StorageFull => "the disk is full",
        ErrorKind::QuotaExceeded => "the disk quota is used up",
        ErrorKind::FileTooLarge => "the file would be too large",
        ErrorKind::ReadOnlyFilesystem => "the file system is read-only",
        ErrorKind::AddrInUse => "the address is in use",
        ErrorKind::AddrNotAvailable => "this machine has no such address",
        ErrorKind::ConnectionRefused => "the connection was refused",
        ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted => "the other side closed the connection",
        ErrorKind::NetworkUnreachable => "the network cannot be reached",
        ErrorKind::HostUnreachable => "the host cannot be reached",
        ErrorKind::TimedOut => "it took too long",
        ErrorKind::BrokenPipe => "the reader has gone",
        ErrorKind::UnexpectedEof => "it ends too early",
        ErrorKind::OutOfMemory => "there is not enough memory",
        _ => return without_number(&error.to_string()),
    };
    words.to_owned()
}

/// Returns an error of the JSON parser in words; other texts stay.
pub fn json_error_text(error: &str) -> String {
    match error.strip_prefix("EOF while parsing ") {
        // The parser names the value that it was reading, which tells a reader nothing.
        Some(rest) => {
            let place = rest.find(" at line").map_or("", |at| &rest[at..]);
            format!("the JSON ends too early{place}")
        }
        None => error.to_owned(),
    }
}

/// Returns the reason that a program does not start, in words.
pub fn program_error_text(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::NotFound => "there is no such program".to_owned(),
        ErrorKind::PermissionDenied => "permission denied: it must be an executable file".to_owned(),
        _ => io_error_text(error),
    }
}

/// Returns a text without the numbers of the system's errors, such as ` (os error 30)`: other crates quote these errors
/// as they are.
pub fn without_error_numbers(text: &str) -> String {
    let mut words = String::with_capacity(text.len());
    let mut left = text;
    while let Some((before, behind)) = left.split_once(NUMBER) {
        words.push_str(before);
        let rest = behind.trim_start_matches(|c: char| c.is_ascii_digit());
        match rest.strip_prefix(')') {
            Some(rest) => left = rest,
            None => {
                words.push_str(NUMBER);
                left = behind;
            }
        }
    }
    words.push_str(left);
    words
}

/// Returns a system's text as the end of a sentence: without the number, and with a small first letter.
fn without_number(text: &str) -> String {
    let text = without_error_numbers(text);
    let mut letters = text.chars();
    // An abbreviation such as `RPC` keeps its letters.
    let is_word = letters.clone().nth(1).is_none_or(char::is_lowercase);
    match letters.next() {
        Some(first) if is_word => first.to_lowercase().chain(letters).collect(),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_s_errors_are_told_without_numbers() {
        let missing = std::fs::metadata("/no/such/file").unwrap_err();
        assert_eq!(io_error_text(&missing), "there is no such file");
        assert_eq!(io_error_text(&ErrorKind::NotFound.into()), "there is no such file");
        assert_eq!(io_error_text(&io::Error::from_raw_os_error(28)), "the disk is full");
        assert_eq!(io_error_text(&io::Error::from_raw_os_error(24)), "too many open files");
        assert_eq!(io_error_text(&io::Error::other("it is larger than 1 MiB")), "it is larger than 1 MiB");
        assert_eq!(io_error_text(&io::Error::other(missing)), "there is no such file");
        assert_eq!(
            json_error_text("EOF while parsing a value at line 1 column 11"),
            "the JSON ends too early at line 1 column 11"
        );
        let quoted = "/data: Read-only file system (os error 30); nothing was written (os error x";
        let bare = "/data: Read-only file system; nothing was written (os error x";
        assert_eq!(without_error_numbers(quoted), bare);
        assert_eq!(program_error_text(&ErrorKind::NotFound.into()), "there is no such program");
    }
}
