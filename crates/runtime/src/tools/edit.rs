//! `edit`: an exact replacement in a file.

use std::io::Read as _;

use async_trait::async_trait;
use longhaul_core::message::ToolSpec;
use regex::bytes::{NoExpand, Regex};

use super::arguments::ToolArguments;
use super::{Tool, ToolContext, ToolError, ToolInput, ToolOutput, builtin, finishing};
use crate::io_error::io_error_text;
use crate::text_encoding::TextEncoding;
use crate::workspace::PathAccess;

/// The maximum size of a file, in bytes. Larger files are refused.
const LARGEST: u64 = 64 * 1024 * 1024;

const DESCRIPTION: &str = "Replaces `old` in a file with `new`. `old` must be there exactly as given, spaces and line breaks included, and once unless `replaceAll` is true: give enough lines around the place. The line numbers of `read` are not part of the text.";

const PARAMETERS: &str = r#"{"type":"object","properties":{"path":{"type":"string"},"old":{"type":"string"},"new":{"type":"string"},"replaceAll":{"type":"boolean"}},"required":["path","old","new"],"additionalProperties":false}"#;

/// The `edit` tool.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EditTool;

#[async_trait]
impl Tool for EditTool {
    fn spec(&self) -> ToolSpec {
        builtin("edit", false, DESCRIPTION, PARAMETERS)
    }

    async fn run(&self, call: ToolInput) -> ToolOutput {
        let ToolInput { arguments, context, .. } = call;
        let cancel = context.cancel.clone();
        finishing(&cancel, move || EditArguments::parse(arguments)?.apply(&context)).await
    }
}

struct EditArguments {
    path: String,
    old: String,
    new: String,
    all: bool,
}

impl EditArguments {
    fn parse(arguments: serde_json::Value) -> Result<Self, ToolError> {
        let mut arguments = ToolArguments::new("edit", arguments)?;
        let request = Self {
            path: arguments.text("path")?,
            old: arguments.text("old")?,
            new: arguments.text("new")?,
            all: arguments.flag("replaceAll")?,
        };
        arguments.finish()?;
        if request.old.is_empty() {
            let why = "`edit`: `old` is empty; to make a file or replace all of it use `write`";
            return Err(ToolError::Arguments(why.to_owned()));
        }
        if request.old == request.new {
            return Err(ToolError::Arguments("`edit`: `old` and `new` are the same".to_owned()));
        }
        Ok(request)
    }

    fn apply(mut self, context: &ToolContext) -> Result<ToolOutput, ToolError> {
        let resolved = context.workspace.resolve(&self.path, PathAccess::Read)?;
        let shown = resolved.display();
        let mut content = Vec::new();
        // The lock keeps other tools of this process from changing the file between reading and writing.
        let turn = context.workspace.turn(&resolved);
        let (file, opened) = turn.open()?;
        // One byte more than allowed shows that the file is too large, even if it grows while it is read.
        file.take(LARGEST + 1)
            .read_to_end(&mut content)
            .map_err(|error| ToolError::Failed(format!("`{shown}`: {}", io_error_text(&error))))?;
        if content.len() as u64 > LARGEST {
            return Err(ToolError::Failed(format!("`{shown}` is too large to edit (over 64 MiB)")));
        }
        // A file that is no text keeps its bytes around the replacement.
        let encoding = TextEncoding::of(&content).unwrap_or(TextEncoding::Utf8 { has_mark: false });
        content = encoding.decode(content).ok_or_else(|| {
            ToolError::Failed(format!("`{shown}` is UTF-16 with units that are not characters"))
        })?;
        // Models write `\n`. In a file with `\r\n` only, `old` would not be found and `new` would mix the line breaks.
        self.adopt_line_endings(&content);
        let pattern = pattern(&self.old)?;
        let places = TextMatches::of(&pattern, &content);
        self.check(&content, &places, &shown)?;
        // The size is computed before the replacement is made: a long text in many places could take all memory.
        let longer = (places.count as u64).saturating_mul(self.new.len() as u64);
        if longer.saturating_add(content.len() as u64 - (places.count * self.old.len()) as u64) > LARGEST {
            return Err(ToolError::Failed(format!(
                "`{shown}` would be too large with `new` in {} places (over 64 MiB)",
                places.count
            )));
        }
        let replaced = pattern.replace_all(&content, NoExpand(self.new.as_bytes()));
        let replaced = encoding.encode(replaced.into_owned());
        // Programs outside this process do not respect the lock: the replacement is refused if the file has changed.
        turn.replace(&replaced, Some(&opened))?;
        Ok(ToolOutput::text(format!("Replaced {} in {shown} (line {}).", times(places.count), places.lines)))
    }

    /// Converts the request's line breaks to CRLF if the file has only CRLF lines.
    fn adopt_line_endings(&mut self, content: &[u8]) {
        if only_crlf(content) {
            self.old = to_crlf(&self.old);
            self.new = to_crlf(&self.new);
        }
    }

    fn check(&self, content: &[u8], places: &TextMatches, shown: &str) -> Result<(), ToolError> {
        match places.count {
            0 => Err(ToolError::Failed(format!("`old` is not in {shown}.{}", self.hint(content)))),
            2.. if !self.all => Err(ToolError::Failed(format!(
                "`old` is in {shown} {}, at lines {}. Give more of the lines around the one you mean, or \
                 set `replaceAll`.",
                times(places.count),
                places.lines
            ))),
            _ => Ok(()),
        }
    }

    /// Returns a hint at lines that equal the first line of `old` except for the spaces around it.
    fn hint(&self, content: &[u8]) -> String {
        let Some(first) = self.old.lines().map(str::trim).find(|line| !line.is_empty()) else {
            return String::new();
        };
        let text = String::from_utf8_lossy(content);
        let similar = text.lines().enumerate().filter(|(_, line)| line.trim() == first);
        let numbers: Vec<String> = similar.map(|(index, _)| (index + 1).to_string()).take(5).collect();
        if numbers.is_empty() {
            return " Read the file again: it may have changed.".to_owned();
        }
        format!(
            " Its first line is at line {}, but spaces, line breaks or the lines after it differ.",
            numbers.join(", ")
        )
    }
}

fn only_crlf(content: &[u8]) -> bool {
    let mut breaks = content.iter().enumerate().filter(|(_, byte)| **byte == b'\n').peekable();
    breaks.peek().is_some() && breaks.all(|(at, _)| at > 0 && content[at - 1] == b'\r')
}

fn to_crlf(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\n', "\r\n")
}

fn pattern(old: &str) -> Result<Regex, ToolError> {
    // An escaped text is always a valid pattern, so only the size limit of patterns can refuse it.
    Regex::new(&regex::escape(old))
        .map_err(|_| ToolError::Arguments("`edit`: `old` is too long; edit in smaller pieces".to_owned()))
}

/// The places of a text in a file.
struct TextMatches {
    count: usize,
    /// The line numbers of the first ten places.
    lines: String,
}

impl TextMatches {
    fn of(pattern: &Regex, content: &[u8]) -> Self {
        let mut numbers = Vec::new();
        let (mut line, mut from) = (1, 0);
        for place in pattern.find_iter(content).take(10).map(|found| found.start()) {
            line += content[from..place].iter().filter(|byte| **byte == b'\n').count();
            from = place;
            numbers.push(line.to_string());
        }
        let count = pattern.find_iter(content).count();
        if count > 10 {
            numbers.push("…".to_owned());
        }
        Self { count, lines: numbers.join(", ") }
    }
}

fn times(count: usize) -> String {
    if count == 1 { "once".to_owned() } else { format!("{count} times") }
}
