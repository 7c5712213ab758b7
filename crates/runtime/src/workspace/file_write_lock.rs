//! Write locks on files: one tool of this process at a time changes a file, so that it replaces the content it has
//! read.

use std::fs::File;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::{Stat, fstat};

use super::{ResolvedPath, Workspace, WorkspaceError, io_error, replace};

/// The locks, shared by all files by hash. A tool may therefore wait for a lock of another file.
static TURNS: [Mutex<()>; 64] = [const { Mutex::new(()) }; 64];

/// A lock on a file, which no other tool of this process changes meanwhile.
#[derive(Debug)]
#[doc(hidden)]
pub struct FileWriteLock<'a> {
    workspace: &'a Workspace,
    path: &'a ResolvedPath,
    _held: MutexGuard<'static, ()>,
}

/// The identity of a file at the time it was opened.
#[derive(Clone, Copy, Debug)]
#[doc(hidden)]
pub struct FileVersion(Stat);

impl FileVersion {
    /// Reports whether the file is still the same and unwritten. A write within one tick of the clock that keeps the
    /// size is not noticed.
    pub(super) fn is(&self, now: &Stat) -> bool {
        let [before, now] = [&self.0, now]
            .map(|stat| (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime, stat.st_mtime_nsec));
        before == now
    }
}

impl<'a> FileWriteLock<'a> {
    pub(super) fn take(workspace: &'a Workspace, path: &'a ResolvedPath) -> Self {
        let name = BuildHasherDefault::<DefaultHasher>::default().hash_one(workspace.absolute(path));
        let turn = &TURNS[name as usize % TURNS.len()];
        Self { workspace, path, _held: turn.lock().unwrap_or_else(PoisonError::into_inner) }
    }

    /// Opens the file for reading.
    ///
    /// # Errors
    /// The errors of [`Workspace::open_file`].
    pub fn open(&self) -> Result<(File, FileVersion), WorkspaceError> {
        let file = self.workspace.open_file(self.path)?;
        // Taken from the opened file: the path may name another file by now.
        let opened = fstat(&file).map_err(|error| io_error(&self.path.relative, error.into()))?;
        Ok((file, FileVersion(opened)))
    }

    /// Replaces the file as [`Workspace::replace`] does; `read` is the version that the content was made from.
    ///
    /// # Errors
    /// The errors of [`Workspace::replace`], and [`WorkspaceError::Changed`] if the file is no longer the version that
    /// was opened.
    pub fn replace(&self, content: &[u8], read: Option<&FileVersion>) -> Result<(), WorkspaceError> {
        self.workspace.check_replaceable(self.path)?;
        replace::replace(&self.workspace.root_fd, &self.path.relative, content, read)
    }
}
