//! Walking the workspace's files as a person sees them: without `.git` and what `.gitignore` names.

use std::path::Path;
use std::time::Duration;
use std::vec::IntoIter;

use globset::{GlobBuilder, GlobMatcher};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::ignored::IgnoreRules;
use super::{ToolError, ToolOutput, blocking};
use crate::workspace::{FolderEntry, FolderEntryKind, ResolvedPath, Workspace, WorkspaceError};

/// Folders whose path is longer are passed over, bytes: no tool can name what lies there.
const LONGEST_PATH: usize = 4095;

/// Searches that this process has going on at once, at most: each may hold a large file and the rules of many folders.
static ROOM: Semaphore = Semaphore::const_new(4);

/// How long a search may take, and wait for room before it.
const LONGEST: Duration = Duration::from_secs(60);

/// Runs a search off the async threads, as soon as there is room for it. It is asked to stop when the call is cancelled or
/// dropped, or has taken too long.
pub(super) async fn searching<F>(cancel: &CancellationToken, work: F) -> ToolOutput
where
    F: FnOnce(&CancellationToken) -> Result<ToolOutput, ToolError> + Send + 'static,
{
    let room = tokio::select! {
        room = timeout(LONGEST, ROOM.acquire()) => room,
        () = cancel.cancelled() => return ToolOutput::cancelled(),
    };
    let Ok(room) = room else {
        return ToolOutput::error("Error: other searches have gone on for a minute. Try again later.");
    };
    let in_room = move |stop: &CancellationToken| {
        // Until the work has stopped, whether or not somebody still waits for it.
        let _room = room;
        work(stop)
    };
    timeout(LONGEST, blocking(cancel, in_room)).await.unwrap_or_else(|_| {
        ToolOutput::error(
            "Error: the search has taken a minute and was stopped. Narrow it by `path` or pattern.",
        )
    })
}

/// A regular file found by a walk.
pub(super) struct WalkedFile {
    /// Its place.
    pub(super) path: ResolvedPath,
    /// Its path below the folder where the walk started; its name if the walk started at it.
    pub(super) below: String,
}

/// Calls `visit` for every file below `start`, in a fixed order, until it says no or `stop` is cancelled.
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
        // Folders that cannot be opened are passed over.
        listed => listed.unwrap_or_default(),
    };
    let ignored = IgnoreRules::to(workspace, start);
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

/// A folder that is being walked through.
struct WalkedFolder {
    path: ResolvedPath,
    entries: IntoIter<FolderEntry>,
    ignored: IgnoreRules,
}

enum WalkStep {
    File(ResolvedPath),
    Folder(WalkedFolder),
    /// What is ignored, no file, or not to be opened.
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
        let Ok(path) = workspace.admit("", &absolute) else { return Some(WalkStep::Other) };
        Some(match entry.kind {
            FolderEntryKind::File => WalkStep::File(path),
            FolderEntryKind::Directory => {
                self.enter(workspace, path).map_or(WalkStep::Other, WalkStep::Folder)
            }
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
