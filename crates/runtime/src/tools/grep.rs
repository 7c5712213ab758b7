//! `grep`: searches files for lines that match a regular expression.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read as _};
use std::sync::Arc;

use async_trait::async_trait;
use globset::GlobMatcher;
use longhaul_core::message::ToolSpec;
use regex::bytes::{Regex, RegexBuilder};
use tokio_util::sync::CancellationToken;

use super::arguments::ToolArguments;
use super::walk::{WalkedFile, files, matcher, searching};
use super::{Tool, ToolContext, ToolError, ToolInput, ToolOutput, builtin};
use crate::text_encoding::TextEncoding;
use crate::workspace::{PathAccess, Workspace};

/// The maximum size of a searched file, in bytes. Larger files are skipped.
const LARGEST: u64 = 64 * 1024 * 1024;

/// The bytes at the beginning of a file that decide whether it is text.
const BEGINNING_BYTES: u64 = 8 * 1024;

/// The size of the pieces in which longer lines are searched, and of their overlap. A longer match may be missed.
const PIECE_BYTES: usize = 32 * 1024;
const OVERLAP_BYTES: usize = 4 * 1024;

/// The maximum memory of a compiled pattern. Each searched byte costs up to as many steps as the pattern has states.
const PATTERN_BYTES: usize = 512 * 1024;

/// The number of characters of a line that are shown.
const SHOWN_CHARS: usize = 400;

/// The number of characters before a match that are shown of a shortened line.
const LEAD_CHARS: usize = 100;

const DESCRIPTION: &str = "Searches files line by line for a regular expression (Rust syntax) and returns `path:line:text`. Binary files, `.git` and what .gitignore names are passed over.";

const PARAMETERS: &str = r#"{"type":"object","properties":{"pattern":{"type":"string"},"path":{"type":"string","description":"File or folder (default: all)"},"glob":{"type":"string","description":"Only these files, such as *.rs or src/**/*.ts"},"ignoreCase":{"type":"boolean"},"context":{"type":"integer","minimum":0,"maximum":20,"description":"Lines around each match"}},"required":["pattern"],"additionalProperties":false}"#;

/// The `grep` tool.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GrepTool;

#[async_trait]
impl Tool for GrepTool {
    fn spec(&self) -> ToolSpec {
        builtin("grep", true, DESCRIPTION, PARAMETERS)
    }

    async fn run(&self, call: ToolInput) -> ToolOutput {
        let ToolInput { arguments, context, .. } = call;
        let cancel = context.cancel.clone();
        searching(&cancel, move |stop| grep(arguments, &context, stop)).await
    }
}

fn grep(
    arguments: serde_json::Value,
    context: &ToolContext,
    stop: &CancellationToken,
) -> Result<ToolOutput, ToolError> {
    let (query, path) = GrepQuery::parse(arguments)?;
    let start = context.workspace.resolve(&path, PathAccess::Read)?;
    let mut search = GrepSearch::new(query, context.limits.grep_max_matches, Arc::clone(&context.workspace));
    files(&context.workspace, &start, stop, |found| {
        search.file(&found, stop);
        !search.full
    })?;
    if stop.is_cancelled() {
        return Err(ToolError::Cancelled);
    }
    Ok(ToolOutput::text(search.finish()))
}

struct GrepQuery {
    pattern: Regex,
    files: Option<GlobMatcher>,
    context: usize,
}

impl GrepQuery {
    fn parse(arguments: serde_json::Value) -> Result<(Self, String), ToolError> {
        let mut arguments = ToolArguments::new("grep", arguments)?;
        let pattern = arguments.text("pattern")?;
        let (path, glob) = (arguments.optional_text("path")?, arguments.optional_text("glob")?);
        // Small models put a pattern for file names into `path`.
        let (path, glob) = match (path, glob) {
            (Some(path), None) if path.contains(['*', '?', '[']) => (None, Some(path)),
            other => other,
        };
        let path = path.unwrap_or_else(|| ".".to_owned());
        let files = glob.map(|glob| matcher("glob", &glob)).transpose()?;
        let ignore_case = arguments.flag("ignoreCase")?;
        let context = arguments.optional_number("context", 0..=20)?.unwrap_or(0);
        arguments.finish()?;
        let pattern = RegexBuilder::new(&pattern)
            .case_insensitive(ignore_case)
            .size_limit(PATTERN_BYTES)
            .build()
            .map_err(|error| {
                ToolError::Arguments(format!("`pattern` is not a regular expression: {error}"))
            })?;
        let context = usize::try_from(context).unwrap_or(0);
        Ok((Self { pattern, files, context }, path))
    }
}

struct GrepSearch {
    query: GrepQuery,
    most: usize,
    workspace: Arc<Workspace>,
    text: String,
    matches: usize,
    files: usize,
    too_large: usize,
    full: bool,
}

impl GrepSearch {
    fn new(query: GrepQuery, most: usize, workspace: Arc<Workspace>) -> Self {
        Self { query, most, workspace, text: String::new(), matches: 0, files: 0, too_large: 0, full: false }
    }

    fn file(&mut self, found: &WalkedFile, stop: &CancellationToken) {
        if self.query.files.as_ref().is_some_and(|files| !files.is_match(&found.below)) {
            return;
        }
        // A file that was removed meanwhile or is closed to us has no matches.
        let Ok(file) = self.workspace.open_file(&found.path) else { return };
        if file.metadata().is_ok_and(|meta| meta.len() > LARGEST) {
            self.too_large += 1;
            return;
        }
        if let Ok(Some(content)) = text(file) {
            self.lines(&found.path.display(), &content, stop);
        }
    }

    /// Returns the start of a line's first match. A long line is searched in pieces, so that a cancel takes effect.
    fn find(&self, line: &[u8], stop: &CancellationToken) -> Option<usize> {
        let mut from = 0;
        while !stop.is_cancelled() {
            let end = line.len().min(from + PIECE_BYTES);
            match self.query.pattern.find_at(&line[..end], from) {
                // The match may exist only because the piece ends there, so it is searched again with the next piece.
                Some(hit) if hit.end() == end && end < line.len() && hit.start() > from => from = hit.start(),
                Some(hit) => return Some(hit.start()),
                None if end == line.len() => return None,
                // A match may lie across the border of two pieces.
                None => from = end - OVERLAP_BYTES,
            }
        }
        None
    }

    fn lines(&mut self, path: &str, content: &[u8], stop: &CancellationToken) {
        let before = self.matches;
        let mut recent: VecDeque<(usize, &[u8])> = VecDeque::new();
        let mut last_shown = 0;
        // The line break at the end of a file begins no further line.
        let content = content.strip_suffix(b"\n").unwrap_or(content);
        for (number, line) in (1..).zip(content.split(|byte| *byte == b'\n')) {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            let hit = self.find(line, stop);
            // The search goes on to the first match beyond the limit: only then is it certain that there are more.
            if hit.is_some() && self.matches == self.most {
                self.full = true;
            }
            if self.full || stop.is_cancelled() {
                break;
            }
            match hit {
                Some(hit) => {
                    self.separate(last_shown, number - recent.len());
                    for (number, line) in recent.drain(..) {
                        self.show(path, '-', number, line, 0);
                    }
                    self.show(path, ':', number, line, hit);
                    self.matches += 1;
                    last_shown = number;
                }
                None if last_shown > 0 && number <= last_shown + self.query.context => {
                    self.show(path, '-', number, line, 0);
                    // The line counts only as context of the match above it.
                    continue;
                }
                None => {
                    recent.push_back((number, line));
                    if recent.len() > self.query.context {
                        recent.pop_front();
                    }
                }
            }
        }
        self.files += usize::from(self.matches > before);
    }

    /// Writes a line of dashes between groups of lines that do not touch.
    fn separate(&mut self, last_shown: usize, next: usize) {
        let adjacent = last_shown > 0 && next <= last_shown + self.query.context + 1;
        if self.query.context > 0 && !self.text.is_empty() && !adjacent {
            self.text.push_str("--\n");
        }
    }

    fn show(&mut self, path: &str, mark: char, number: usize, line: &[u8], hit: usize) {
        self.text.push_str(&format!("{path}{mark}{number}{mark}"));
        self.text.push_str(&excerpt(line, hit));
        self.text.push('\n');
    }

    fn finish(mut self) -> String {
        if self.matches == 0 {
            self.text.push_str("No matches.");
        } else if self.full {
            self.text.push_str(&format!(
                "[Stopped at {} matches; there are more. Narrow the pattern, `path` or `glob`.]",
                self.matches
            ));
        } else {
            self.text.push_str(&format!("[{} matches in {} files.]", self.matches, self.files));
        }
        if self.too_large > 0 {
            self.text.push_str(&format!("\n[{} files over 64 MiB were passed over.]", self.too_large));
        }
        self.text
    }
}

/// Reads a file; `None` if its beginning shows that it is no text.
fn text(mut file: File) -> io::Result<Option<Vec<u8>>> {
    let mut content = Vec::new();
    file.by_ref().take(BEGINNING_BYTES).read_to_end(&mut content)?;
    let Some(encoding) = TextEncoding::of(&content) else { return Ok(None) };
    file.take(LARGEST - BEGINNING_BYTES).read_to_end(&mut content)?;
    // Lines are searched as `read` shows them, so that a match of `^` is found behind a byte order mark.
    Ok(Some(encoding.decode_lossy(content)))
}

/// Returns a line, or the part of a long line around the match.
fn excerpt(line: &[u8], hit: usize) -> String {
    let text = String::from_utf8_lossy(line);
    if text.chars().nth(SHOWN_CHARS).is_none() {
        return text.into_owned();
    }
    let before = String::from_utf8_lossy(&line[..hit]).chars().count();
    let skip = before.saturating_sub(LEAD_CHARS);
    let part: String = text.chars().skip(skip).take(SHOWN_CHARS).collect();
    let start = if skip > 0 { "…" } else { "" };
    format!("{start}{part}… [line cut: {} bytes in all]", line.len())
}
