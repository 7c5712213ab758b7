//! Conversations recorded elsewhere, turned into a log of our own.
//!
//! [`import`] recognises the format by the content and is a function of bytes: no file is opened. The result is always
//! a valid log: every call has exactly one result, results stand right after their step, and ids are counted from the
//! start of the session. A warning names content with unavoidable changes.

mod assemble;
mod blocks;
mod claude_code;
mod inspect;
mod item;
mod native;
mod openai;
mod pi;
mod sink;
mod swe_agent;
mod tape_agents;
mod tau;
#[cfg(test)]
mod tests;
mod time;

use std::borrow::Cow;
use std::fmt;

use bytes::Bytes;
use longhaul_core::event::EventBody;
use longhaul_core::ids::Millis;
use longhaul_core::message::BlobRef;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::text_encoding::Utf16Encoding;

/// The largest file taken, in bytes: 512 MiB.
pub const MAX_BYTES: usize = 512 << 20;

/// A file format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ImportFormat {
    /// Our own export ([`crate::export`]).
    Longhaul,
    /// A session of the pi coding agent, a JSON object per line.
    Pi,
    /// A list of Chat Completions messages, bare or under `messages`, or a request logged with its response.
    OpenaiMessages,
    /// A list of tau-bench runs, each with messages under `traj`.
    TauBench,
    /// A SWE-agent trajectory: messages under `history`, actions and observations under `trajectory`.
    SweAgent,
    /// An evaluation log of Inspect; each sample is a conversation.
    Inspect,
    /// A TapeAgents tape: a list of `steps`, each with a `kind`.
    TapeAgents,
    /// A session of Claude Code, a JSON object per line.
    ClaudeCode,
}

impl ImportFormat {
    /// Returns the name stored in `SessionStarted`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Longhaul => "longhaul",
            Self::Pi => "pi",
            Self::OpenaiMessages => "openai-messages",
            Self::TauBench => "tau-bench",
            Self::SweAgent => "swe-agent",
            Self::Inspect => "inspect",
            Self::TapeAgents => "tape-agents",
            Self::ClaudeCode => "claude-code",
        }
    }
}

/// The content of a file.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ImportedFile {
    /// The file's format.
    pub format: ImportFormat,
    /// The conversations, in the order of the file; never empty.
    pub sessions: Vec<ImportedSession>,
}

/// An imported conversation.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct ImportedSession {
    /// A title: the file's own, or made of the first user message.
    pub title: Option<String>,
    /// The system prompt of the recorded requests. A log has no place for the prompt.
    pub system_prompt: Option<String>,
    /// The list of tool schemas of the recorded requests, as JSON text. A log has no place for the list.
    pub tools: Option<String>,
    /// The log, `SessionStarted` first; the position of an event is the index + 1. Times never run backwards.
    pub events: Vec<(Millis, EventBody)>,
    /// Content named by the events.
    pub blobs: Vec<(BlobRef, Bytes)>,
    /// Content named by the events and missing in the file. Missing content must not be looked up elsewhere: a blob is
    /// readable only from the blob's own session.
    pub missing_blobs: Vec<BlobRef>,
    /// The warnings about changed content, in the order of the file; warnings about the whole file come first.
    pub warnings: Vec<ImportWarning>,
}

/// Content not kept unchanged.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ImportWarning {
    /// The position in the file; `None` for the file as a whole.
    pub place: Option<ImportPosition>,
    /// The change, and the changed object.
    pub message: String,
}

impl fmt::Display for ImportWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Some(place) => write!(f, "{place}: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

/// A place in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ImportPosition {
    /// A line, from 1.
    Line(usize),
    /// A message of the list, from 1.
    Message(usize),
    /// A run (or sample) of the list and the message's number in the run, both from 1.
    Run(usize, usize),
}

impl fmt::Display for ImportPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(line) => write!(f, "line {line}"),
            Self::Message(message) => write!(f, "message {message}"),
            Self::Run(run, message) => write!(f, "run {run}, message {message}"),
        }
    }
}

/// The reason why a file cannot be imported.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// The file is larger than [`MAX_BYTES`].
    #[error("the file has {0} bytes; at most {MAX_BYTES} can be imported")]
    TooLarge(usize),
    /// The content is none of the known formats.
    #[error("unknown format: {0}")]
    UnknownFormat(String),
    /// The format is known, but the file has no conversation.
    #[error("the file holds no conversation")]
    Empty,
    /// An entry cannot be read.
    #[error("{place}: {reason}")]
    Entry {
        /// The position of the bad entry.
        place: ImportPosition,
        /// The reason.
        reason: String,
    },
    /// An export of a later version.
    #[error("the file was written in format {found}; this version reads up to {known}")]
    Newer {
        /// The file's format.
        found: u64,
        /// The newest format known here.
        known: u64,
    },
    /// An export without the end.
    #[error("the file ends early: {found} of {expected} {what}")]
    Incomplete {
        /// The counted objects.
        what: &'static str,
        /// The number in the file.
        found: usize,
        /// The number stated in the file's first line.
        expected: usize,
    },
}

/// Reads a file. `at` is the time for events of formats without times.
///
/// ```
/// let file = br#"[{"role":"user","content":"hi"},{"role":"assistant","content":"hello"}]"#;
/// let import = longhaul::import::import(file, 0).unwrap();
/// assert_eq!(import.sessions[0].title.as_deref(), Some("hi"));
/// assert_eq!(import.sessions[0].events.len(), 4);
/// ```
///
/// # Errors
/// [`ImportError`] when the format is unknown or an entry contradicts the format.
pub fn import(bytes: &[u8], at: Millis) -> Result<ImportedFile, ImportError> {
    if bytes.len() > MAX_BYTES {
        return Err(ImportError::TooLarge(bytes.len()));
    }
    // PowerShell writes what it redirects into a file in UTF-16.
    let decoded = Utf16Encoding::of(bytes).map(|encoding| encoding.decode_lossy(bytes));
    let bytes = decoded.as_ref().map_or(bytes, String::as_bytes);
    // Some editors begin a file with a byte order mark, which is no JSON.
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes).trim_ascii();
    // A few damaged bytes must not make a whole recording unreadable.
    let (bytes, unreadable) = readable(bytes);
    let bytes = &*bytes;
    let format = recognise(bytes)?;
    tracing::debug!(bytes = bytes.len(), ?format, "a file of sessions was recognised");
    // Our own export has no such escapes, and stays byte for byte.
    let (bytes, replaced) = match format {
        ImportFormat::Longhaul => (Cow::Borrowed(bytes), 0),
        _ => longhaul_wire::surrogates::replace_lone_halves(bytes),
    };
    let bytes = &*bytes;
    let mut sessions = match format {
        ImportFormat::Longhaul => vec![native::read(bytes)?],
        ImportFormat::Pi => vec![pi::read(bytes, at)?],
        ImportFormat::OpenaiMessages => vec![openai::read(bytes, at)?],
        ImportFormat::TauBench => tau::read(bytes, at)?,
        ImportFormat::SweAgent => vec![swe_agent::read(bytes, at)?],
        ImportFormat::Inspect => inspect::read(bytes, at)?,
        ImportFormat::TapeAgents => vec![tape_agents::read(bytes, at)?],
        ImportFormat::ClaudeCode => vec![claude_code::read(bytes, at)?],
    };
    let counts = [(replaced, "escapes of half a character"), (unreadable, "bytes that are not characters")];
    for (count, what) in counts.into_iter().filter(|(count, _)| *count > 0) {
        let message = format!("{what}: {count} replaced by U+FFFD");
        if let Some(first) = sessions.first_mut() {
            first.warnings.insert(0, ImportWarning { place: None, message });
        }
    }
    tracing::info!(
        ?format,
        sessions = sessions.len(),
        events = sessions.iter().map(|session| session.events.len()).sum::<usize>(),
        warnings = sessions.iter().map(|session| session.warnings.len()).sum::<usize>(),
        "a file of sessions was read"
    );
    Ok(ImportedFile { format, sessions })
}

/// Returns whether a byte is a control character forbidden in JSON.
fn is_illegal_control(byte: u8) -> bool {
    byte < b' ' && !matches!(byte, b'\t' | b'\n' | b'\r')
}

/// Returns the text with U+FFFD in the place of bytes forbidden in JSON (no UTF-8, control characters), and the number
/// of replacements.
fn readable(bytes: &[u8]) -> (Cow<'_, [u8]>, usize) {
    if std::str::from_utf8(bytes).is_ok() && !bytes.iter().any(|byte| is_illegal_control(*byte)) {
        return (Cow::Borrowed(bytes), 0);
    }
    let (mut text, mut count) = (String::with_capacity(bytes.len()), 0);
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            let is_bad = u8::try_from(character).is_ok_and(is_illegal_control);
            text.push(if is_bad { char::REPLACEMENT_CHARACTER } else { character });
            count += usize::from(is_bad);
        }
        if !chunk.invalid().is_empty() {
            text.push(char::REPLACEMENT_CHARACTER);
            count += 1;
        }
    }
    (Cow::Owned(text.into_bytes()), count)
}

fn recognise(bytes: &[u8]) -> Result<ImportFormat, ImportError> {
    match bytes.first() {
        None => Err(ImportError::Empty),
        Some(b'[') if tau::fits(bytes) => Ok(ImportFormat::TauBench),
        Some(b'[') => Ok(ImportFormat::OpenaiMessages),
        Some(b'{') => {
            let line = lines(bytes).next().map_or(bytes, |(_, line)| line);
            // The formats are tried from the most specific marks to the least: a list named `messages` or `steps` may
            // also stand in files of other programs.
            match () {
                () if native::fits(line) => Ok(ImportFormat::Longhaul),
                () if pi::fits(line) => Ok(ImportFormat::Pi),
                () if claude_code::fits(bytes) => Ok(ImportFormat::ClaudeCode),
                () if swe_agent::fits(bytes) => Ok(ImportFormat::SweAgent),
                () if inspect::fits(bytes) => Ok(ImportFormat::Inspect),
                () if openai::fits(bytes) => Ok(ImportFormat::OpenaiMessages),
                () if tape_agents::fits(bytes) => Ok(ImportFormat::TapeAgents),
                () => Err(ImportError::UnknownFormat(
                    "neither an export, a session, a list of messages, a trajectory, a log nor a tape"
                        .to_owned(),
                )),
            }
        }
        Some(_) => Err(ImportError::UnknownFormat("the file is not JSON".to_owned())),
    }
}

/// Returns the lines without blank ones, numbered from 1.
fn lines(bytes: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let numbered = bytes.split(|byte| *byte == b'\n').enumerate();
    numbered.map(|(index, line)| (index + 1, line.trim_ascii())).filter(|(_, line)| !line.is_empty())
}

/// Returns all lines, each a JSON value. A last line cut off in writing is left out, and so are single damaged lines.
///
/// # Errors
/// [`ImportError::Entry`] for a line that cannot have been an entry, or if more lines are damaged than not.
fn json_lines<'a, T: Deserialize<'a>>(
    bytes: &'a [u8],
    sink: &mut sink::ImportSink,
) -> Result<Vec<(usize, T)>, ImportError> {
    let (mut all, mut damaged) = (Vec::new(), Vec::new());
    let mut numbered = lines(bytes).peekable();
    while let Some((number, line)) = numbered.next() {
        match serde_json::from_slice::<T>(line) {
            Ok(line) => all.push((number, line)),
            Err(error) if numbered.peek().is_none() && error.is_eof() => {
                sink.warn(ImportPosition::Line(number), "the last line is cut off and was left out");
            }
            Err(error) => {
                let place = ImportPosition::Line(number);
                let error = unreadable(place)(error);
                // A line with one wrong byte still has one of its braces. A line without any never was an entry.
                if !line.starts_with(b"{") && !line.ends_with(b"}") {
                    return Err(error);
                }
                sink.warn(place, format!("the line is damaged and was left out ({error})"));
                damaged.push(error);
            }
        }
    }
    // A file whose lines are mostly damaged is probably of another format, and the first error says more.
    if damaged.len() > all.len() { Err(damaged.swap_remove(0)) } else { Ok(all) }
}

/// Returns a JSON text or number for a title; `?` if there is none.
fn raw_identifier(raw: Option<&RawValue>) -> &str {
    raw.map_or("?", RawValue::get).trim_matches('"')
}

/// Returns an error for the entry at `place`: the parser's own line numbers count inside the entry.
fn unreadable(place: ImportPosition) -> impl Fn(serde_json::Error) -> ImportError {
    move |error| {
        let whole = error.to_string();
        // serde counts lines within one entry, which would contradict the entry's place in the file.
        let reason = whole.rsplit_once(" at line ").map_or(whole.as_str(), |(reason, _)| reason);
        ImportError::Entry { place, reason: reason.to_owned() }
    }
}
