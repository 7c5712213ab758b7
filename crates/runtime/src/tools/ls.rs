//! `ls`: lists the entries of a folder.

use async_trait::async_trait;
use longhaul_core::message::ToolSpec;

use super::arguments::ToolArguments;
use super::{Tool, ToolContext, ToolError, ToolInput, ToolOutput, blocking, builtin};
use crate::workspace::{FolderEntry, FolderEntryKind, PathAccess, visible};

const DESCRIPTION: &str =
    "Lists a folder: folders end with `/`, links show where they point, files their size in bytes.";

const PARAMETERS: &str = r#"{"type":"object","properties":{"path":{"type":"string","description":"Default: the workspace root"}},"additionalProperties":false}"#;

/// The `ls` tool.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LsTool;

#[async_trait]
impl Tool for LsTool {
    fn spec(&self) -> ToolSpec {
        builtin("ls", true, DESCRIPTION, PARAMETERS)
    }

    async fn run(&self, call: ToolInput) -> ToolOutput {
        let ToolInput { arguments, context, .. } = call;
        let cancel = context.cancel.clone();
        blocking(&cancel, move |_| ls(arguments, &context)).await
    }
}

fn ls(arguments: serde_json::Value, context: &ToolContext) -> Result<ToolOutput, ToolError> {
    let mut arguments = ToolArguments::new("ls", arguments)?;
    let path = arguments.optional_text("path")?.unwrap_or_else(|| ".".to_owned());
    arguments.finish()?;
    let resolved = context.workspace.resolve(&path, PathAccess::Read)?;
    let entries = context.workspace.list(&resolved)?;
    let most = context.limits.grep_max_matches;
    let mut text: String = entries.iter().take(most).map(line).collect();
    text.push_str(&match entries.len() {
        0 => "[The folder is empty.]".to_owned(),
        count if count > most => format!("[The first {most} of {count} entries.]"),
        count => format!("[{count} entries.]"),
    });
    Ok(ToolOutput::text(text))
}

fn line(entry: &FolderEntry) -> String {
    let name = visible(&entry.name.to_string_lossy());
    match (entry.kind, &entry.target) {
        (FolderEntryKind::Directory, _) => format!("{name}/\n"),
        (FolderEntryKind::File, _) => format!("{name}  {}\n", entry.bytes),
        (FolderEntryKind::Link, Some(target)) => {
            format!("{name} -> {}\n", visible(&target.to_string_lossy()))
        }
        (FolderEntryKind::Link, None) => format!("{name} -> ?\n"),
        (FolderEntryKind::Special, _) => format!("{name}  (pipe, socket or device)\n"),
    }
}
