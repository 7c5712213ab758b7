//! `glob`: finds files by name, the newest first.

use std::time::SystemTime;

use async_trait::async_trait;
use longhaul_core::message::ToolSpec;
use tokio_util::sync::CancellationToken;

use super::arguments::ToolArguments;
use super::walk::{files, matcher, searching};
use super::{Tool, ToolContext, ToolError, ToolInput, ToolOutput, builtin};
use crate::workspace::PathAccess;

const DESCRIPTION: &str = "Finds files by name, the last changed first. `*` matches within a folder name, `**` any folders; a pattern without `/` matches file names anywhere. `.git` and what .gitignore names are passed over.";

const PARAMETERS: &str = r#"{"type":"object","properties":{"pattern":{"type":"string","description":"Such as src/**/*.{ts,tsx}"},"path":{"type":"string","description":"Folder to search (default: all)"}},"required":["pattern"],"additionalProperties":false}"#;

/// The `glob` tool.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GlobTool;

#[async_trait]
impl Tool for GlobTool {
    fn spec(&self) -> ToolSpec {
        builtin("glob", true, DESCRIPTION, PARAMETERS)
    }

    async fn run(&self, call: ToolInput) -> ToolOutput {
        let ToolInput { arguments, context, .. } = call;
        let cancel = context.cancel.clone();
        searching(&cancel, move |stop| glob(arguments, &context, stop)).await
    }
}

fn glob(
    arguments: serde_json::Value,
    context: &ToolContext,
    stop: &CancellationToken,
) -> Result<ToolOutput, ToolError> {
    let mut arguments = ToolArguments::new("glob", arguments)?;
    let pattern = arguments.text("pattern")?;
    let path = arguments.optional_text("path")?.unwrap_or_else(|| ".".to_owned());
    arguments.finish()?;
    let wanted = matcher("pattern", &pattern)?;
    let start = context.workspace.resolve(&path, PathAccess::Read)?;
    let mut newest = NewestFiles::new(context.limits.grep_max_matches);
    files(&context.workspace, &start, stop, |file| {
        if wanted.is_match(&file.below) {
            // A file that cannot be found again was removed, or its folder became a link to another place.
            let changed = context.workspace.modified(&file.path).ok();
            changed.into_iter().for_each(|changed| newest.add(changed, file.path.display()));
        }
        true
    })?;
    Ok(ToolOutput::text(newest.listing()))
}

/// The files that were changed last, and the number of all.
struct NewestFiles {
    most: usize,
    count: usize,
    found: Vec<(SystemTime, String)>,
}

impl NewestFiles {
    fn new(most: usize) -> Self {
        Self { most, count: 0, found: Vec::new() }
    }

    fn add(&mut self, changed: SystemTime, path: String) {
        self.count += 1;
        self.found.push((changed, path));
        // Memory stays bounded in a folder of any size, and sorting at twice the limit keeps the cost per file small.
        if self.found.len() >= 2 * self.most.max(1) {
            self.settle();
        }
    }

    /// Drops all but the newest files and sorts these.
    fn settle(&mut self) {
        // Files of equal time are ordered by path, so that two listings of the same files are equal.
        self.found.sort_by(|(a_time, a), (b_time, b)| b_time.cmp(a_time).then_with(|| a.cmp(b)));
        self.found.truncate(self.most);
    }

    fn listing(mut self) -> String {
        if self.count == 0 {
            return "No files match.".to_owned();
        }
        self.settle();
        let mut text: String = self.found.iter().flat_map(|(_, path)| [path.as_str(), "\n"]).collect();
        text.push_str(&match self.count {
            count if count > self.most => {
                format!("[The newest {} of {count} files. Narrow the pattern for others.]", self.most)
            }
            count => format!("[{count} files.]"),
        });
        text
    }
}
