//! `read`: the lines of a text file, or a picture.

use std::io::{BufRead, BufReader, Read as _, Seek};

use async_trait::async_trait;
use bytes::Bytes;
use longhaul_core::message::ToolSpec;
use tokio_util::sync::CancellationToken;

use super::arguments::ToolArguments;
use super::{Tool, ToolContext, ToolError, ToolInput, ToolOutput, ToolOutputPart, blocking, builtin};
use crate::io_error::io_error_text;
use crate::picture;
use crate::text_encoding::TextEncoding;
use crate::workspace::{PathAccess, ResolvedPath};

/// The maximum size of a picture, in bytes. Larger pictures are refused.
const LARGEST_PICTURE: u64 = 20 * 1024 * 1024;

/// The maximum size of a UTF-16 file, in bytes, because such files are decoded whole.
const LARGEST_UTF16: u64 = 64 * 1024 * 1024;

/// The bytes at the beginning of a file that decide whether it is text.
const SAMPLE: usize = 8 * 1024;

const DESCRIPTION: &str =
    "Reads a file: text with line numbers, 2000 lines at most, or a picture (PNG, JPEG, GIF, WebP).";

const PARAMETERS: &str = r#"{"type":"object","properties":{"path":{"type":"string","description":"Relative to the workspace"},"offset":{"type":"integer","minimum":1,"description":"First line (default 1)"},"limit":{"type":"integer","minimum":1,"description":"Number of lines"}},"required":["path"],"additionalProperties":false}"#;

/// The `read` tool.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadTool;

#[async_trait]
impl Tool for ReadTool {
    fn spec(&self) -> ToolSpec {
        builtin("read", true, DESCRIPTION, PARAMETERS)
    }

    async fn run(&self, call: ToolInput) -> ToolOutput {
        let ToolInput { arguments, context, .. } = call;
        let cancel = context.cancel.clone();
        blocking(&cancel, move |stop| read(arguments, &context, stop)).await
    }
}

fn read(
    arguments: serde_json::Value,
    context: &ToolContext,
    stop: &CancellationToken,
) -> Result<ToolOutput, ToolError> {
    let mut arguments = ToolArguments::new("read", arguments)?;
    let path = arguments.text("path")?;
    // Models that count from 0 mean the beginning.
    let offset = arguments.optional_number("offset", 0..=u64::MAX)?.unwrap_or(1).max(1);
    let limit = arguments.optional_number("limit", 1..=u64::MAX)?;
    arguments.finish()?;
    let resolved = context.workspace.resolve(&path, PathAccess::Read)?;
    let mut file = context.workspace.open_file(&resolved)?;
    let sample = read_sample(&mut file).map_err(|error| unreadable(&resolved, &error))?;
    if let Some(media_type) = picture_type(&sample) {
        return picture(file, media_type, &resolved);
    }
    let most = context.limits.read_max_lines as u64;
    let wanted = offset..offset.saturating_add(limit.unwrap_or(most).min(most));
    let page = match TextEncoding::of(&sample) {
        Some(encoding @ TextEncoding::Utf16(_)) => {
            let text = utf16_text(file, encoding, &resolved)?;
            FileExcerpt::scan(text.as_slice(), wanted, context, stop)
        }
        Some(TextEncoding::Utf8 { .. }) => {
            FileExcerpt::scan(BufReader::with_capacity(64 * 1024, file), wanted, context, stop)
        }
        None => {
            return Err(ToolError::Failed(format!("`{}` is a binary file, not text", resolved.display())));
        }
    };
    let page = page.map_err(|error| unreadable(&resolved, &error))?.ok_or(ToolError::Cancelled)?;
    Ok(ToolOutput::text(page.render(offset)?))
}

/// Reads the beginning of a file, and goes back to it.
fn read_sample(file: &mut std::fs::File) -> std::io::Result<Vec<u8>> {
    let mut sample = Vec::with_capacity(SAMPLE);
    (&*file).take(SAMPLE as u64).read_to_end(&mut sample)?;
    file.rewind()?;
    Ok(sample)
}

fn unreadable(path: &ResolvedPath, error: &std::io::Error) -> ToolError {
    ToolError::Failed(format!("`{}`: {}", path.display(), io_error_text(error)))
}

/// Returns the text of a UTF-16 file.
fn utf16_text(
    file: std::fs::File,
    encoding: TextEncoding,
    path: &ResolvedPath,
) -> Result<Vec<u8>, ToolError> {
    let mut bytes = Vec::new();
    let shown = path.display();
    file.take(LARGEST_UTF16 + 1).read_to_end(&mut bytes).map_err(|error| unreadable(path, &error))?;
    if bytes.len() as u64 > LARGEST_UTF16 {
        return Err(ToolError::Failed(format!("`{shown}` is UTF-16 and too large to read (over 64 MiB)")));
    }
    Ok(encoding.decode_lossy(bytes))
}

fn picture_type(sample: &[u8]) -> Option<&'static str> {
    match imagesize::image_type(sample).ok()? {
        imagesize::ImageType::Png => Some("image/png"),
        imagesize::ImageType::Jpeg => Some("image/jpeg"),
        imagesize::ImageType::Gif => Some("image/gif"),
        imagesize::ImageType::Webp => Some("image/webp"),
        _ => None,
    }
}

fn picture(file: std::fs::File, media_type: &str, path: &ResolvedPath) -> Result<ToolOutput, ToolError> {
    let mut bytes = Vec::new();
    let shown = path.display();
    file.take(LARGEST_PICTURE + 1).read_to_end(&mut bytes).map_err(|error| unreadable(path, &error))?;
    if bytes.len() as u64 > LARGEST_PICTURE {
        let largest = LARGEST_PICTURE / 1024 / 1024;
        return Err(ToolError::Failed(format!("`{shown}` is a picture of more than {largest} MiB")));
    }
    // A small file can declare more pixels than the machine has memory for.
    picture::size(&bytes).map_err(|too_large| ToolError::Failed(format!("`{shown}`: {too_large}")))?;
    let mut output = ToolOutput::text(format!("Picture {shown} ({media_type}, {} bytes).", bytes.len()));
    let name = path.relative().file_name().map(|name| name.to_string_lossy().into_owned());
    output.content.push(ToolOutputPart::Media {
        bytes: Bytes::from(bytes),
        media_type: media_type.to_owned(),
        name,
    });
    Ok(output)
}

/// Some numbered lines of a file, and the number of all its lines.
struct FileExcerpt {
    text: String,
    next: u64,
    total: u64,
    invalid: bool,
}

impl FileExcerpt {
    /// Reads the whole file but keeps only the lines in `wanted`; `None` if `stop` is cancelled.
    fn scan(
        mut reader: impl BufRead,
        wanted: std::ops::Range<u64>,
        context: &ToolContext,
        stop: &CancellationToken,
    ) -> std::io::Result<Option<Self>> {
        let most_chars = context.limits.read_max_line_chars;
        let mut page = Self { text: String::new(), next: wanted.end, total: 0, invalid: false };
        let mut line = TruncatedLine::default();
        // The whole file is read for the number of its lines, from which the model learns whether to read on.
        while line.read(&mut reader, most_chars, stop)? {
            page.total += 1;
            if wanted.contains(&page.total) {
                page.add(&line, most_chars);
            }
        }
        Ok((!stop.is_cancelled()).then_some(page))
    }

    fn add(&mut self, line: &TruncatedLine, most_chars: usize) {
        let bytes = line.start.strip_suffix(b"\r").unwrap_or(&line.start);
        // A byte order mark is no part of the first line, because `edit` finds the line without it.
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").filter(|_| self.total == 1).unwrap_or(bytes);
        let text = String::from_utf8_lossy(bytes);
        // A shortened line may end inside a character, which is no fault of the file.
        self.invalid |= line.bytes == line.start.len() as u64 && matches!(text, std::borrow::Cow::Owned(_));
        self.text.push_str(&format!("{:>6}\t", self.total));
        match text.char_indices().nth(most_chars) {
            None => self.text.push_str(&text),
            Some((end, _)) => {
                self.text.push_str(&text[..end]);
                self.text.push_str(&format!(" [line cut: {} bytes in all]", line.bytes));
            }
        }
        self.text.push('\n');
    }

    fn render(mut self, offset: u64) -> Result<String, ToolError> {
        if self.total == 0 {
            return Ok("[The file is empty.]".to_owned());
        }
        if offset > self.total {
            let lines = self.total;
            return Err(ToolError::Failed(format!("`offset` is {offset}, but the file has {lines} lines")));
        }
        if self.invalid {
            self.text.push_str("[Some bytes are not UTF-8 and shown as \u{fffd}.]\n");
        }
        let (total, next) = (self.total, self.next);
        self.text.push_str(&if next <= total {
            format!("[Lines {offset} to {} of {total}. For more, read with offset {next}.]", next - 1)
        } else if offset == 1 {
            format!("[All {total} lines.]")
        } else {
            format!("[Lines {offset} to {total}, the last of {total}.]")
        });
        Ok(self.text)
    }
}

/// One line: the start that may be shown, and the full length.
#[derive(Default)]
struct TruncatedLine {
    start: Vec<u8>,
    bytes: u64,
}

impl TruncatedLine {
    /// Reads the next line; `false` at the end of the file or if `stop` is cancelled.
    fn read(
        &mut self,
        reader: &mut impl BufRead,
        most_chars: usize,
        stop: &CancellationToken,
    ) -> std::io::Result<bool> {
        // One character more than is shown reveals that the line was cut; a character has 4 bytes at most.
        let most_bytes = most_chars.saturating_add(1).saturating_mul(4);
        self.start.clear();
        self.bytes = 0;
        let mut any = false;
        loop {
            let chunk = reader.fill_buf()?;
            if chunk.is_empty() || stop.is_cancelled() {
                return Ok(any && !stop.is_cancelled());
            }
            any = true;
            let end = chunk.iter().position(|byte| *byte == b'\n');
            let part = &chunk[..end.unwrap_or(chunk.len())];
            let room = most_bytes.saturating_sub(self.start.len()).min(part.len());
            self.start.extend_from_slice(&part[..room]);
            self.bytes += part.len() as u64;
            let used = part.len() + usize::from(end.is_some());
            reader.consume(used);
            if end.is_some() {
                return Ok(true);
            }
        }
    }
}
