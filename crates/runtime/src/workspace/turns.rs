//! One tool of this process at a time changes a file: who read it replaces what was read.

use std::fs::File;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::{Stat, fstat};

use super::{ResolvedPath, Workspace, WorkspaceError, io_error, replace};

/// Files share them: one may wait for a turn at another.
static TURNS: [Mutex<()>; 64] = [const { Mutex::new(()) }; 64];

/// A file that no other tool of this process changes while this is there.
#[derive(Debug)]
pub struct FileWriteLock<'a> {
    workspace: &'a Workspace,
    path: &'a ResolvedPath,
    _held: MutexGuard<'static, ()>,
}

/// A file as it was when it was opened.
#[derive(Clone, Copy, Debug)]
pub struct FileVersion(Stat);

impl FileVersion {
    /// Returns whether it is still that file, and nobody has written to it since. What is written within one tick
    /// of the clock and has the same size is not noticed.
    pub(super) fn is(&self, now: &Stat) -> bool {
        let of = |stat: &Stat| (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime, stat.st_mtime_nsec);
        of(&self.0) == of(now)
    }
}

impl<'a> FileWriteLock<'a> {
    pub(super) fn take(workspace: &'a Workspace, path: &'a ResolvedPath) -> Self {
        let name = BuildHasherDefault::<DefaultHasher>::default().hash_one(workspace.absolute(path));
        let turn = &TURNS[name as usize % TURNS.len()];
        Self { workspace, path, _held: turn.lock().unwrap_or_else(PoisonError::into_inner) }
    }

    /// Opens it for reading.
    ///
    /// # Errors
    /// As [`Workspace::open_file`].
    pub fn open(&self) -> Result<(File, FileVersion), WorkspaceError> {
        let file = self.workspace.open_file(self.path)?;
        let opened = fstat(&file).map_err(|error| io_error(&self.path.relative, error.into()))?;
        Ok((file, FileVersion(opened)))
    }

    /// As [`Workspace::replace`]; `read` is what the content was made from.
    ///
    /// # Errors
    /// As [`Workspace::replace`], and [`WorkspaceError::Changed`] if it is no longer what was opened.
    pub fn replace(&self, content: &[u8], read: Option<&FileVersion>) -> Result<(), WorkspaceError> {
        self.workspace.check_replaceable(self.path)?;
        replace::replace(&self.workspace.root_fd, &self.path.relative, content, read)
    }
}
