//! Walks over the workspace's files as a person sees them: without `.git` and ignored files.

use std::path::Path;
use std::time::Duration;
use std::vec::IntoIter;

use globset::{GlobBuilder, GlobMatcher};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::ignore_rules::IgnoreRules;
use super::{ToolError, ToolOutput, blocking};
use crate::workspace::{FolderEntry, FolderEntryKind, ResolvedPath, Workspace, WorkspaceError};

/// The maximum length of a folder's path, in bytes. No tool can name the files below a longer one.
const LONGEST_PATH: usize = 4095;

/// The searches that this process runs at once at most. Each may hold a large file and the rules of many folders.
static ROOM: Semaphore = Semaphore::const_new(4);

/// The maximum duration of a search, and of the wait before it.
const LONGEST: Duration = Duration::from_secs(60);

/// Runs a search off the async threads, as soon as there is room for it. The search is asked to stop when the call is
/// cancelled or dropped, or takes too long.
pub(super) async fn searching<F>(cancel: &CancellationToken, work: F) -> ToolOutput
where
    F: FnOnce(&CancellationToken) -> Result<ToolOutput, ToolError> + Send + 'static,
{
    let room = tokio::select! {
        room = timeout(LONGEST, ROOM.acquire()) => room,
        () = cancel.cancelled() => return ToolOutput::cancelled(),
    };
    let Ok(room) = room else {
        tracing::info!(waited = ?LONGEST, "a search got no room among the other searches");
        return ToolOutput::error("Error: other searches have gone on for a minute. Try again later.");
    };
    let searching = blocking(cancel, move |stop: &CancellationToken| {
        // The permit is held until the work has stopped, even if no caller waits for it any more.
        let _room = room;
        work(stop)
    });
    // Dropping the search cancels its token, so its thread stops soon after.
    timeout(LONGEST, searching).await.unwrap_or_else(|_| {
        tracing::info!(limit = ?LONGEST, "a search took too long and was stopped");
        ToolOutput::error(
            "Error: the search has taken a minute and was stopped. Narrow it by `path` or pattern.",
        )
    })
}

/// A regular file found by a walk.
pub(super) struct WalkedFile {
    /// The file's path.
    pub(super) path: ResolvedPath,
    /// The path below the walk's first folder, or the file's name if the walk started at the file.
    pub(super) below: String,
}

/// Calls `visit` for every file below `start`, in a fixed order, until `visit` returns false or `stop` is cancelled.
pub(super) fn files(
    workspace: &Workspace,
    start: &ResolvedPath,
    stop: &CancellationToken,
    mut visit: impl FnMut(WalkedFile) -> bool,
) -> Result<(), ToolError> {
    let base = workspace.absolute(start);
    let mut visit = |path: ResolvedPath| {
        let below = below(&base, &workspace.absolute(&path));
        visit(WalkedFile { path, below })
    };
    let first = match workspace.list(start) {
        Err(WorkspaceError::WrongKind { .. }) if workspace.modified(start).is_ok() => {
            visit(start.clone());
            return Ok(());
        }
        // Folders that cannot be opened are skipped.
        listed => listed.unwrap_or_default(),
    };
    let ignored = IgnoreRules::to(workspace, start);
    // A list replaces recursion: a command can nest folders deeper than the stack of a thread allows.
    let mut open = vec![WalkedFolder { path: start.clone(), entries: first.into_iter(), ignored }];
    while let Some(folder) = open.last_mut() {
        if stop.is_cancelled() {
            return Err(ToolError::Cancelled);
        }
        match folder.next(workspace) {
            None => drop(open.pop()),
            Some(WalkStep::File(path)) if !visit(path.clone()) => return Ok(()),
            Some(WalkStep::Folder(next)) => open.push(next),
            Some(WalkStep::File(_) | WalkStep::Other) => {}
        }
    }
    Ok(())
}

/// A folder that is being walked.
struct WalkedFolder {
    path: ResolvedPath,
    entries: IntoIter<FolderEntry>,
    ignored: IgnoreRules,
}

enum WalkStep {
    File(ResolvedPath),
    Folder(WalkedFolder),
    /// An ignored entry, no file, or an entry that cannot be opened.
    Other,
}

impl WalkedFolder {
    fn next(&mut self, workspace: &Workspace) -> Option<WalkStep> {
        let entry = self.entries.next()?;
        let absolute = workspace.absolute(&self.path).join(&entry.name);
        let is_folder = entry.kind == FolderEntryKind::Directory;
        if entry.name == ".git" || self.ignored.has(&absolute, is_folder) {
            return Some(WalkStep::Other);
        }
        // The data folder and key files may lie inside the workspace and are closed to every tool.
        let Ok(path) = workspace.admit("", &absolute) else { return Some(WalkStep::Other) };
        Some(match entry.kind {
            FolderEntryKind::File => WalkStep::File(path),
            FolderEntryKind::Directory => {
                self.enter(workspace, path).map_or(WalkStep::Other, WalkStep::Folder)
            }
            // Links are not followed: they may form cycles or lead out of the workspace.
            FolderEntryKind::Link | FolderEntryKind::Special => WalkStep::Other,
        })
    }

    fn enter(&self, workspace: &Workspace, path: ResolvedPath) -> Option<Self> {
        if path.relative().as_os_str().len() > LONGEST_PATH {
            return None;
        }
        let entries = workspace.list(&path).ok()?.into_iter();
        Some(Self { ignored: self.ignored.below(workspace, &path), path, entries })
    }
}

fn below(base: &Path, path: &Path) -> String {
    let relative = path.strip_prefix(base).unwrap_or(path);
    if relative.as_os_str().is_empty() {
        return path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    }
    relative.to_string_lossy().into_owned()
}

/// Compiles a file pattern: `*` stays within a folder, `**` does not. A pattern without `/` matches names at any depth.
pub(super) fn matcher(field: &str, pattern: &str) -> Result<GlobMatcher, ToolError> {
    let anywhere = if pattern.contains('/') {
        pattern.trim_start_matches("./").to_owned()
    } else {
        format!("**/{pattern}")
    };
    GlobBuilder::new(&anywhere)
        .literal_separator(true)
        .build()
        .map(|glob| glob.compile_matcher())
        .map_err(|error| ToolError::Arguments(format!("`{field}` is not a file pattern: {error}")))
}
