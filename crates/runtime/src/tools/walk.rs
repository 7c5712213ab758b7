//! Walking the workspace's files as a person sees them: without `.git` and what `.gitignore` names.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;

use globset::{GlobBuilder, GlobMatcher};
use ignore::WalkBuilder;
use tokio_util::sync::CancellationToken;

use super::ToolError;
use crate::workspace::{ResolvedPath, Workspace};

/// A regular file found by a walk.
pub(super) struct Found {
    /// Its place.
    pub(super) path: ResolvedPath,
    /// Its path below the folder where the walk started; its name if the walk started at it.
    pub(super) below: String,
}

/// Calls `visit` for every file below `start`, in a fixed order, until it says no or `stop` is cancelled.
pub(super) fn files(
    workspace: &Arc<Workspace>,
    start: &ResolvedPath,
    stop: &CancellationToken,
    mut visit: impl FnMut(Found) -> bool,
) -> Result<(), ToolError> {
    let base = workspace.absolute(start);
    for entry in walker(workspace, &base).build() {
        if stop.is_cancelled() {
            return Err(ToolError::Cancelled);
        }
        // Folders that cannot be opened are passed over.
        let Ok(entry) = entry else { continue };
        if !entry.file_type().is_some_and(|kind| kind.is_file()) {
            continue;
        }
        let Ok(path) = workspace.admit(&entry.path().to_string_lossy(), entry.path()) else { continue };
        if !visit(Found { path, below: below(&base, entry.path()) }) {
            return Ok(());
        }
    }
    Ok(())
}

fn walker(workspace: &Arc<Workspace>, base: &Path) -> WalkBuilder {
    let closed = Arc::clone(workspace);
    let mut walk = WalkBuilder::new(base);
    walk.hidden(false)
        .require_git(false)
        .git_global(false)
        .follow_links(false)
        .sort_by_file_name(OsStr::cmp)
        .filter_entry(move |entry| entry.file_name() != ".git" && !closed.is_protected(entry.path()));
    walk
}

fn below(base: &Path, path: &Path) -> String {
    let relative = path.strip_prefix(base).unwrap_or(path);
    match relative.as_os_str().is_empty() {
        true => path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        false => relative.to_string_lossy().into_owned(),
    }
}

/// A file pattern: `*` stays within a folder, `**` does not; without a `/` it matches names at any depth.
pub(super) fn matcher(field: &str, pattern: &str) -> Result<GlobMatcher, ToolError> {
    let anywhere = match pattern.contains('/') {
        true => pattern.trim_start_matches("./").to_owned(),
        false => format!("**/{pattern}"),
    };
    GlobBuilder::new(&anywhere)
        .literal_separator(true)
        .build()
        .map(|glob| glob.compile_matcher())
        .map_err(|error| ToolError::Arguments(format!("`{field}` is not a file pattern: {error}")))
}
