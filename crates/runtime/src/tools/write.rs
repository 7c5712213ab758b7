//! `write`: writes a whole file atomically, in the encoding that the file has.

use std::io::Read as _;

use async_trait::async_trait;
use longhaul_core::message::ToolSpec;

use super::arguments::ToolArguments;
use super::{Tool, ToolContext, ToolError, ToolInput, ToolOutput, builtin, finishing};
use crate::text_encoding::TextEncoding;
use crate::workspace::{FileWriteLock, PathAccess};

/// The bytes at the beginning of an existing file that decide on its encoding.
const SAMPLE_BYTES: u64 = 8 * 1024;

const DESCRIPTION: &str = "Makes a file, with the folders above it, or replaces its whole content. To change part of a file use `edit`.";

const PARAMETERS: &str = r#"{"type":"object","properties":{"path":{"type":"string"},"content":{"type":"string"}},"required":["path","content"],"additionalProperties":false}"#;

/// The `write` tool.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WriteTool;

#[async_trait]
impl Tool for WriteTool {
    fn spec(&self) -> ToolSpec {
        builtin("write", false, DESCRIPTION, PARAMETERS)
    }

    async fn run(&self, call: ToolInput) -> ToolOutput {
        let ToolInput { arguments, context, .. } = call;
        let cancel = context.cancel.clone();
        finishing(&cancel, move || write(arguments, &context)).await
    }
}

fn write(arguments: serde_json::Value, context: &ToolContext) -> Result<ToolOutput, ToolError> {
    let mut arguments = ToolArguments::new("write", arguments)?;
    let path = arguments.text("path")?;
    let content = arguments.text("content")?;
    arguments.finish()?;
    let resolved = context.workspace.resolve(&path, PathAccess::Write)?;
    let lines = content.lines().count();
    // The lock keeps other tools of this process from changing the encoding between reading and writing.
    let turn = context.workspace.turn(&resolved);
    let encoding = existing_encoding(&turn);
    let bytes = encoding.encode(content.into_bytes());
    turn.replace(&bytes, None)?;
    tracing::debug!(bytes = bytes.len(), lines, encoding = encoding.name(), "a file was written");
    let kept = encoding.name().map(|name| format!(", {name} as before")).unwrap_or_default();
    let shown = resolved.display();
    Ok(ToolOutput::text(format!("Wrote {shown} ({} bytes, {lines} lines{kept}).", bytes.len())))
}

/// Returns the encoding of the file that is about to be replaced; UTF-8 for a new file and for one that is no text.
fn existing_encoding(turn: &FileWriteLock<'_>) -> TextEncoding {
    let plain = TextEncoding::Utf8 { has_mark: false };
    // A file that cannot be read can still be replaced: the replacement reports every real obstacle.
    let Ok((file, _)) = turn.open() else { return plain };
    let mut start = Vec::new();
    match file.take(SAMPLE_BYTES).read_to_end(&mut start) {
        // A file that is no text has no encoding to keep.
        Ok(_) => TextEncoding::of(&start).unwrap_or(plain),
        Err(_) => plain,
    }
}
