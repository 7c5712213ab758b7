//! Keeps the protected folders closed to other users.
//!
//! Landlock does not check `chmod`, `chown` and access lists, so a child may change all three for any file of the user.
//! The child still cannot read the data folder, but it could open the folder to every other user of the machine. The
//! permissions of these folders and their direct entries are therefore recorded before the first child starts. A watch
//! restores changed permissions at once, for as long as children may run.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, Uid, chmodat, chownat, fchmod, fchown, statat};

pub(super) use watch::Watch;

/// The permission bits of group and others.
const OF_OTHERS: u32 = 0o077;

/// The permissions of a file or folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FilePermissions {
    mode: u32,
    uid: u32,
    gid: u32,
}

/// A protected folder in the state before the first child.
#[derive(Debug)]
struct ProtectedFolder {
    path: PathBuf,
    folder: File,
    rights: FilePermissions,
    entries: BTreeMap<OsString, FilePermissions>,
}

/// The protected folders in the state before the first child.
#[derive(Debug, Default)]
pub(super) struct ProtectedFolderSet(Vec<ProtectedFolder>);

impl ProtectedFolderSet {
    /// Records the permissions of the existing folders.
    pub(super) fn of(folders: &[PathBuf]) -> Self {
        Self(folders.iter().filter_map(|folder| ProtectedFolder::of(folder).ok()).collect())
    }

    /// Restores the permissions changed since.
    pub(super) fn restore(&self) {
        for sealed in &self.0 {
            match sealed.restore() {
                Ok(0) => {}
                Ok(changed) => tracing::warn!(
                    "a command has changed who may use {}: {changed} of its rights are put back",
                    sealed.path.display()
                ),
                Err(error) => tracing::error!(
                    "a command has changed who may use {}, and that cannot be put back: {error}",
                    sealed.path.display()
                ),
            }
        }
    }
}

impl ProtectedFolder {
    fn of(path: &Path) -> io::Result<Self> {
        // The folder stays open: its descriptor still works after a command has taken away the right to open the path.
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW;
        let folder = fs::OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path)?;
        let rights = FilePermissions::of(&folder.metadata()?);
        let mut entries = BTreeMap::new();
        for entry in fs::read_dir(path)?.flatten() {
            if let Ok(known) = entry.metadata() {
                entries.insert(entry.file_name(), FilePermissions::of(&known));
            }
        }
        Ok(Self { path: path.to_owned(), folder, rights, entries })
    }

    /// Restores changed permissions, and returns the number of files and folders concerned. Newer files are closed as
    /// well but not counted. No command can make a file here, so newer files come from the runtime, with the default
    /// permissions.
    fn restore(&self) -> io::Result<usize> {
        let mut changed = 0;
        let now = FilePermissions::of(&self.folder.metadata()?);
        if (now.uid, now.gid) != (self.rights.uid, self.rights.gid) {
            fchown(&self.folder, Some(Uid::from_raw(self.rights.uid)), Some(Gid::from_raw(self.rights.gid)))?;
        }
        if now != self.rights {
            // The mode is also restored after a change of the owner, which clears some bits.
            fchmod(&self.folder, Mode::from_raw_mode(self.rights.mode))?;
            changed += 1;
        }
        for entry in rustix::fs::Dir::read_from(&self.folder)?.flatten() {
            let name = entry.file_name();
            if !matches!(name.to_bytes(), b"." | b"..") {
                changed += usize::from(self.restore_entry(name)?);
            }
        }
        Ok(changed)
    }

    fn restore_entry(&self, name: &std::ffi::CStr) -> io::Result<bool> {
        let known = match statat(&self.folder, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(known) => known,
            // Files may appear and disappear during the check.
            Err(rustix::io::Errno::NOENT) => return Ok(false),
            Err(error) => return Err(error.into()),
        };
        let kind = FileType::from_raw_mode(known.st_mode);
        let now = FilePermissions { mode: known.st_mode & 0o7777, uid: known.st_uid, gid: known.st_gid };
        let wanted = self.wanted(name, now);
        // A link has no permissions of its own and is not followed.
        if now == wanted || kind == FileType::Symlink {
            return Ok(false);
        }
        // The owner comes first, because a change of the owner clears bits of the mode.
        if (now.uid, now.gid) != (wanted.uid, wanted.gid) {
            let (uid, gid) = (Uid::from_raw(wanted.uid), Gid::from_raw(wanted.gid));
            chownat(&self.folder, name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)?;
        }
        chmodat(&self.folder, name, Mode::from_raw_mode(wanted.mode), AtFlags::empty())?;
        let name: &std::ffi::OsStr = std::os::unix::ffi::OsStrExt::from_bytes(name.to_bytes());
        Ok(self.entries.contains_key(name))
    }

    /// Returns the first permissions of an entry. A newer entry belongs to the folder's owner, and is closed in a
    /// closed folder.
    fn wanted(&self, name: &std::ffi::CStr, now: FilePermissions) -> FilePermissions {
        let name: &std::ffi::OsStr = std::os::unix::ffi::OsStrExt::from_bytes(name.to_bytes());
        let is_closed = self.rights.mode & OF_OTHERS == 0;
        let newer = FilePermissions {
            mode: if is_closed { now.mode & !OF_OTHERS } else { now.mode },
            uid: self.rights.uid,
            gid: self.rights.gid,
        };
        self.entries.get(name).copied().unwrap_or(newer)
    }
}

impl FilePermissions {
    fn of(known: &fs::Metadata) -> Self {
        Self { mode: known.mode() & 0o7777, uid: known.uid(), gid: known.gid() }
    }
}

#[cfg(target_os = "linux")]
mod watch {
    use std::mem::MaybeUninit;
    use std::os::fd::OwnedFd;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread::JoinHandle;

    use rustix::fs::inotify;

    use super::ProtectedFolderSet;

    /// The watch for changed permissions, which are restored at once. The watch ends when dropped.
    #[derive(Debug)]
    pub(in super::super) struct Watch {
        seal: Arc<ProtectedFolderSet>,
        _events: Option<Events>,
    }

    #[derive(Debug)]
    struct Events {
        inotify: Arc<OwnedFd>,
        watched: Vec<i32>,
        has_ended: Arc<AtomicBool>,
        thread: Option<JoinHandle<()>>,
    }

    impl Watch {
        /// Begins to watch. If the system reports no changes, permissions are checked only at the end of each child.
        pub(in super::super) fn over(folders: &[std::path::PathBuf]) -> Self {
            let seal = Arc::new(ProtectedFolderSet::of(folders));
            // Without a folder no event would end the thread.
            let events = (!seal.0.is_empty()).then(|| Events::of(&seal)).transpose();
            let events = events
                .inspect_err(|error| tracing::warn!("protected folders cannot be watched: {error}"))
                .unwrap_or_default();
            Self { seal, _events: events }
        }

        /// Returns the watched folders.
        pub(in super::super) fn seal(&self) -> Arc<ProtectedFolderSet> {
            Arc::clone(&self.seal)
        }
    }

    impl Events {
        fn of(seal: &Arc<ProtectedFolderSet>) -> std::io::Result<Self> {
            let inotify = Arc::new(inotify::init(inotify::CreateFlags::CLOEXEC)?);
            let what = inotify::WatchFlags::ATTRIB | inotify::WatchFlags::ONLYDIR;
            let watched = seal.0.iter().map(|sealed| inotify::add_watch(&inotify, &sealed.path, what));
            let watched = watched.collect::<Result<Vec<_>, _>>()?;
            let has_ended = Arc::new(AtomicBool::new(false));
            let (its_seal, its_end, its_inotify) =
                (Arc::clone(seal), Arc::clone(&has_ended), Arc::clone(&inotify));
            let thread = std::thread::Builder::new().name("sandbox-seal".to_owned());
            let thread = thread.spawn(move || put_back(&its_inotify, &its_seal, &its_end))?;
            Ok(Self { inotify, watched, has_ended, thread: Some(thread) })
        }
    }

    /// Runs the thread: each event is a change, or the end of a watch.
    fn put_back(inotify: &OwnedFd, seal: &ProtectedFolderSet, has_ended: &AtomicBool) {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut reader = inotify::Reader::new(inotify, &mut buffer);
        loop {
            let event = reader.next().map(drop);
            match event {
                Ok(()) if has_ended.load(Ordering::Acquire) => return,
                // One restore is enough for several events at once.
                Ok(()) if !reader.is_buffer_empty() => {}
                Ok(()) => seal.restore(),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return tracing::warn!("protected folders are watched no more: {error}"),
            }
        }
    }

    impl Drop for Events {
        fn drop(&mut self) {
            // Set before the watches are removed, because their removal wakes the thread.
            self.has_ended.store(true, Ordering::Release);
            // The end of a watch is an event, which wakes the thread. Without a watch nothing can wake the thread.
            let mut is_woken = false;
            for watch in &self.watched {
                is_woken |= inotify::remove_watch(&self.inotify, *watch).is_ok();
            }
            if let Some(thread) = self.thread.take().filter(|_| is_woken) {
                let _ = thread.join();
            }
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod watch {
    use std::sync::Arc;

    use super::ProtectedFolderSet;

    /// The recorded permissions, which are restored at the end of each child.
    #[derive(Debug)]
    pub(in super::super) struct Watch(Arc<ProtectedFolderSet>);

    impl Watch {
        /// Records the permissions of the folders.
        pub(in super::super) fn over(folders: &[std::path::PathBuf]) -> Self {
            Self(Arc::new(ProtectedFolderSet::of(folders)))
        }

        /// Returns the recorded folders.
        pub(in super::super) fn seal(&self) -> Arc<ProtectedFolderSet> {
            Arc::clone(&self.0)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::testing::TemporaryFolder;

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o7777
    }

    #[test]
    fn a_new_file_is_closed_and_no_command_is_accused_of_it() {
        let folder = TemporaryFolder::new().unwrap();
        set_mode(folder.path(), 0o700);
        let (known, newer) = (folder.path().join("token"), folder.path().join("newer.json"));
        fs::write(&known, "x").unwrap();
        set_mode(&known, 0o600);
        let sealed = ProtectedFolder::of(folder.path()).unwrap();
        fs::write(&newer, "x").unwrap();
        set_mode(&newer, 0o644);
        assert_eq!((sealed.restore().unwrap(), mode(&newer)), (0, 0o600));
        set_mode(&known, 0o644);
        assert_eq!((sealed.restore().unwrap(), mode(&known)), (1, 0o600), "a command was at it");
    }
}
