//! Replaces a file as a whole: the new content is written beside it, synced, and renamed over it.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::path::{Component, Path};

use rustix::fs::{
    AtFlags, FileType, Gid, Mode, OFlags, Stat, Uid, fchmod, fchown, fsync, mkdirat, openat, renameat,
    statat, unlinkat,
};
use rustix::io::Errno;
use uuid::Uuid;

use super::open::{PASS, folder, raced, split, wrong_kind};
use super::{FileVersion, WorkspaceError, io_error, shown};

/// Replaces a file's content. `read` is the version of the file that the content was made from.
pub(super) fn replace(
    root: &OwnedFd,
    relative: &Path,
    content: &[u8],
    read: Option<&FileVersion>,
) -> Result<(), WorkspaceError> {
    let Some((parent, name)) = split(relative) else {
        return Err(wrong_kind(relative, FileType::Directory, "a file"));
    };
    make_folders(root, parent)?;
    let folder = folder(root, parent, OFlags::RDONLY).map_err(|error| raced(relative, error))?;
    let old = existing(&folder, name, relative)?;
    let beside = ReplacementFile::write(&folder, content, old.as_ref());
    let mut beside = beside.map_err(|error| io_error(relative, error))?;
    // The check comes last before the rename, because another program may write the file at any time.
    if let Some(read) = read
        && !existing(&folder, name, relative)?.is_some_and(|now| read.is(&now))
    {
        tracing::info!(
            file = shown(relative),
            "a file was not replaced: another program has changed it since"
        );
        return Err(WorkspaceError::Changed { path: shown(relative) });
    }
    beside.rename_to(name).map_err(|error| io_error(relative, error.into()))?;
    // Without syncing the folder, a crash could undo the rename.
    fsync(&folder).map_err(|error| io_error(relative, error.into()))
}

fn make_folders(root: &OwnedFd, path: &Path) -> Result<(), WorkspaceError> {
    let mut here = folder(root, Path::new(""), PASS).map_err(|error| raced(path, error))?;
    for name in path.components().map(Component::as_os_str) {
        match mkdirat(&here, name, Mode::from_raw_mode(0o777)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(raced(path, error)),
        }
        here = folder_in(&here, name).map_err(|error| raced(path, error))?;
    }
    Ok(())
}

fn folder_in(here: &OwnedFd, name: &OsStr) -> rustix::io::Result<OwnedFd> {
    openat(here, name, PASS | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
}

fn existing(folder: &OwnedFd, name: &OsStr, path: &Path) -> Result<Option<Stat>, WorkspaceError> {
    let stat = match statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => stat,
        Err(Errno::NOENT) => return Ok(None),
        Err(error) => return Err(raced(path, error)),
    };
    match FileType::from_raw_mode(stat.st_mode) {
        // A rename needs no permission of the replaced file, so the mode is checked here.
        FileType::RegularFile if stat.st_mode & 0o222 == 0 => {
            Err(WorkspaceError::ReadOnly { path: shown(path) })
        }
        FileType::RegularFile => Ok(Some(stat)),
        other => Err(wrong_kind(path, other, "a file")),
    }
}

/// The new content beside the old file, removed unless it is renamed.
struct ReplacementFile<'a> {
    folder: &'a OwnedFd,
    name: String,
    file: File,
    renamed: bool,
}

impl<'a> ReplacementFile<'a> {
    fn create(folder: &'a OwnedFd) -> rustix::io::Result<Self> {
        // In the same folder, because a rename is atomic only within one file system.
        let name = format!(".longhaul-{}.tmp", Uuid::now_v7().simple());
        let how = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(folder, &name, how, Mode::from_raw_mode(0o666))?;
        Ok(Self { folder, name, file: File::from(file), renamed: false })
    }

    /// Writes and syncs the new content, with mode and owner of the replaced file.
    fn write(folder: &'a OwnedFd, content: &[u8], old: Option<&Stat>) -> std::io::Result<Self> {
        let mut beside = Self::create(folder)?;
        beside.file.write_all(content)?;
        if let Some(old) = old {
            beside.take_over(old)?;
        }
        // The content reaches the disk before the rename: a crash could otherwise leave an empty file under the name.
        beside.file.sync_all()?;
        Ok(beside)
    }

    /// Keeps mode and, where permitted, owner of the replaced file.
    fn take_over(&self, old: &Stat) -> rustix::io::Result<()> {
        // The owner comes first, because a change of owner clears the set-id bits of the mode. Only root may give files
        // away, so a refusal is no error.
        let _ = fchown(&self.file, Some(Uid::from_raw(old.st_uid)), Some(Gid::from_raw(old.st_gid)));
        fchmod(&self.file, Mode::from_raw_mode(old.st_mode & 0o7777))
    }

    fn rename_to(&mut self, name: &OsStr) -> rustix::io::Result<()> {
        renameat(self.folder, &self.name, self.folder, name)?;
        self.renamed = true;
        Ok(())
    }
}

impl Drop for ReplacementFile<'_> {
    fn drop(&mut self) {
        if !self.renamed {
            // A drop cannot report a failure, and the error of the write is on its way already.
            let _ = unlinkat(self.folder, &self.name, AtFlags::empty());
        }
    }
}
