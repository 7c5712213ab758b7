//! `write`: writes a whole file atomically.

use async_trait::async_trait;
use longhaul_core::message::ToolSpec;

use super::arguments::ToolArguments;
use super::{Tool, ToolContext, ToolError, ToolInput, ToolOutput, builtin, finishing};
use crate::workspace::PathAccess;

const DESCRIPTION: &str = "Makes a file, with the folders above it, or replaces its whole content. To change part of a file use `edit`.";

const PARAMETERS: &str = r#"{"type":"object","properties":{"path":{"type":"string"},"content":{"type":"string"}},"required":["path","content"],"additionalProperties":false}"#;

/// The `write` tool.
#[derive(Clone, Copy, Debug)]
pub struct WriteTool;

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
    context.workspace.replace(&resolved, content.as_bytes())?;
    let lines = content.lines().count();
    Ok(ToolOutput::text(format!("Wrote {} ({} bytes, {lines} lines).", resolved.display(), content.len())))
}
