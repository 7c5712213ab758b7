//! Opening below a root descriptor, one component after the other, without following links.

use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, fstat, openat, readlinkat, statat};
use rustix::io::Errno;

use super::{FolderEntry, FolderEntryKind, WorkspaceError, io_error, shown};

/// The flags for folders on the way, which are only passed through where the system supports that.
#[cfg(target_os = "linux")]
pub(super) const PASS: OFlags = OFlags::PATH;
#[cfg(not(target_os = "linux"))]
pub(super) const PASS: OFlags = OFlags::RDONLY;

const FOLDER: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

pub(super) fn directory(path: &Path) -> rustix::io::Result<OwnedFd> {
    rustix::fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

/// Opens the folder `relative` (resolved: plain names only) below `root`.
pub(super) fn folder(root: &OwnedFd, relative: &Path, how: OFlags) -> rustix::io::Result<OwnedFd> {
    let mut here = openat(root, ".", how | FOLDER, Mode::empty())?;
    for name in relative.components() {
        here = openat(&here, name.as_os_str(), how | FOLDER, Mode::empty())?;
    }
    Ok(here)
}

/// Returns the folder that holds `relative`, and the last component's name.
pub(super) fn split(relative: &Path) -> Option<(&Path, &OsStr)> {
    Some((relative.parent()?, relative.file_name()?))
}

pub(super) fn regular_file(root: &OwnedFd, relative: &Path) -> Result<File, WorkspaceError> {
    let Some((parent, name)) = split(relative) else {
        return Err(wrong_kind(relative, FileType::Directory, "a file"));
    };
    let parent = folder(root, parent, PASS).map_err(|error| raced(relative, error))?;
    // Opening a pipe would block this thread until a process writes to the pipe.
    let how = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = match openat(&parent, name, how, Mode::empty()) {
        // Opening a socket fails with this error.
        Err(Errno::NXIO) => return Err(wrong_kind(relative, FileType::Socket, "a file")),
        other => other.map_err(|error| raced(relative, error))?,
    };
    let stat = fstat(&file).map_err(|error| raced(relative, error))?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Ok(File::from(file)),
        other => Err(wrong_kind(relative, other, "a file")),
    }
}

pub(super) fn modified(root: &OwnedFd, relative: &Path) -> Result<SystemTime, WorkspaceError> {
    let Some((parent, name)) = split(relative) else {
        return Err(wrong_kind(relative, FileType::Directory, "a file"));
    };
    let parent = folder(root, parent, PASS).map_err(|error| raced(relative, error))?;
    let stat = statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW).map_err(|error| raced(relative, error))?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => {
            let (seconds, nanos) = (stat.st_mtime, stat.st_mtime_nsec);
            let since = Duration::new(u64::try_from(seconds).unwrap_or(0), u32::try_from(nanos).unwrap_or(0));
            Ok(SystemTime::UNIX_EPOCH + since)
        }
        other => Err(wrong_kind(relative, other, "a file")),
    }
}

pub(super) fn entries(root: &OwnedFd, relative: &Path) -> Result<Vec<FolderEntry>, WorkspaceError> {
    let opened = folder(root, relative, OFlags::RDONLY).map_err(|error| match error {
        Errno::NOTDIR => wrong_kind(relative, FileType::RegularFile, "a folder"),
        other => raced(relative, other),
    })?;
    let listing = Dir::read_from(&opened).map_err(|error| raced(relative, error))?;
    let mut entries = Vec::new();
    for entry in listing {
        let entry = entry.map_err(|error| raced(relative, error))?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name != "." && name != ".." {
            entries.push(describe(opened.as_fd(), name));
        }
    }
    Ok(entries)
}

fn describe(folder: BorrowedFd<'_>, name: &OsStr) -> FolderEntry {
    let stat = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).ok();
    let kind = match stat.as_ref().map(|stat| FileType::from_raw_mode(stat.st_mode)) {
        Some(FileType::RegularFile) => FolderEntryKind::File,
        Some(FileType::Directory) => FolderEntryKind::Directory,
        Some(FileType::Symlink) => FolderEntryKind::Link,
        // An entry that has gone since the listing counts as special, so that nothing tries to open it.
        _ => FolderEntryKind::Special,
    };
    let target = (kind == FolderEntryKind::Link).then(|| readlinkat(folder, name, Vec::new()).ok()).flatten();
    FolderEntry {
        name: name.to_owned(),
        kind,
        bytes: stat.map_or(0, |stat| u64::try_from(stat.st_size).unwrap_or(0)),
        target: target.map(|link| PathBuf::from(OsStr::from_bytes(link.to_bytes()))),
    }
}

pub(super) fn wrong_kind(path: &Path, found: FileType, wanted: &'static str) -> WorkspaceError {
    let found = match found {
        FileType::Directory => "a folder",
        FileType::RegularFile => "a file",
        FileType::Symlink => "a link",
        FileType::Fifo => "a pipe",
        FileType::Socket => "a socket",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        _ => "something else",
    };
    WorkspaceError::WrongKind { path: shown(path), found, wanted }
}

/// Translates a system error on a path that was resolved a moment ago.
pub(super) fn raced(path: &Path, error: Errno) -> WorkspaceError {
    match error {
        // The path had no links when it was resolved.
        Errno::LOOP => {
            WorkspaceError::Unusable { path: shown(path), why: "it changed into a link meanwhile" }
        }
        other => io_error(path, other.into()),
    }
}
