//! The children's home and temporary folder: made, locked, removed, and cleaned up after a killed process.
//!
//! The owner of a folder holds a lock on the folder. The system releases the lock at any end of the process. A lockable
//! folder is therefore abandoned, even if another process now has the number in the name. Removing such a folder also
//! ends the processes left running by the owner (`process_tag`).

use std::fs::{self, DirBuilder, File, Permissions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};
use uuid::Uuid;

use super::SandboxError;
use super::process_tag::{ProcessTagFamily, RemainingProcesses};
use super::removal::remove;

/// The maximum wait of an ending owner for the folder's removal. The next process continues the removal.
const LONGEST_REMOVAL: Duration = Duration::from_secs(5);

/// The number of attempts to make a folder, if another process removes the folder before the lock.
const TRIES: usize = 3;

/// The folders inside a private folder: `HOME` and `TMPDIR`.
pub(super) const FOLDERS: [&str; 2] = ["home", TEMPORARY];

/// The folder that is `TMPDIR`.
const TEMPORARY: &str = "tmp";

/// The prefix of the folders' names, before the process id and 32 hexadecimal digits.
const PREFIX: &str = "longhaul-";

/// A folder readable by the present user only. The folder is removed when the value is dropped.
#[derive(Debug)]
pub(super) struct PrivateTempFolder {
    pub(super) path: PathBuf,
    /// The family of the process tags of all children with the folder.
    pub(super) family: ProcessTagFamily,
    _lock: Option<File>,
}

impl PrivateTempFolder {
    /// Makes a folder in `scratch` and removes the folders of earlier processes.
    ///
    /// # Errors
    /// [`SandboxError::Private`].
    pub(super) fn make(scratch: &Path) -> Result<Self, SandboxError> {
        let given = scratch;
        let scratch = given
            .canonicalize()
            .map_err(|source| SandboxError::Private { path: given.to_owned(), source })?;
        sweep(&scratch);
        let mut swept_up = io::Error::from(io::ErrorKind::NotFound);
        for _ in 0..TRIES {
            let id = Uuid::now_v7();
            let path = scratch.join(format!("{PREFIX}{}-{}", std::process::id(), id.simple()));
            match Self::make_at(&path, ProcessTagFamily::of(id)) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => swept_up = error,
                made => return made.map_err(|source| SandboxError::Private { path, source }),
            }
        }
        Err(SandboxError::Private { path: given.to_owned(), source: swept_up })
    }

    fn make_at(path: &Path, family: ProcessTagFamily) -> io::Result<Self> {
        let mut builder = DirBuilder::new();
        builder.mode(0o700);
        // Not `recursive`: an existing folder belongs to another process.
        builder.create(path)?;
        // Until the lock is taken, another process may take the folder for abandoned. `make` tries again in that case.
        let folder = open(path)?;
        let lock = match folder.try_lock() {
            Ok(()) => Some(folder),
            Err(TryLockError::WouldBlock) => return Err(io::ErrorKind::NotFound.into()),
            // Where locks do not work, no process can take the folder for abandoned either.
            Err(TryLockError::Error(_)) => None,
        };
        let made = Self { path: path.to_owned(), family, _lock: lock };
        // The creation fails if another process removed the folder before it was locked.
        for name in FOLDERS {
            builder.create(path.join(name))?;
        }
        Ok(made)
    }

    /// Returns the folder for temporary files.
    pub(super) fn temporary(&self) -> PathBuf {
        self.path.join(TEMPORARY)
    }
}

impl Drop for PrivateTempFolder {
    fn drop(&mut self) {
        // The folder stays, because its name identifies the processes that the next start must still find.
        if self.family.end_soon() == RemainingProcesses::Some {
            return;
        }
        match remove(&self.path, Some(Instant::now() + LONGEST_REMOVAL)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(path = %self.path.display(), %error, "a private folder stays behind");
            }
            _ => {}
        }
    }
}

/// Ends the processes left running by killed owners, and removes the owners' folders.
///
/// The work may take long, so a thread without a waiting caller does the work. The thread ends with the process at the
/// latest, and the next process continues.
fn sweep(scratch: &Path) {
    let Ok(entries) = fs::read_dir(scratch) else { return };
    let named = entries.flatten().map(|entry| entry.path());
    let named = named.filter_map(|path| Some((id(path.file_name()?.to_str()?)?, path)));
    let (mut left, mut held) = (Vec::new(), Vec::new());
    for (id, path) in named {
        match abandoned(&path) {
            // The lock is held until the removal is over, so that no other process removes the folder at the same time.
            Some(lock) => left.push((id, path, lock)),
            None if path.symlink_metadata().is_ok_and(|meta| meta.is_dir()) => held.push(id),
            None => {}
        }
    }
    // A second folder with the same id was not made by the owner of that id.
    left.retain(|(id, ..)| !held.contains(id));
    if left.is_empty() {
        return;
    }
    tracing::debug!(folders = left.len(), "private folders of killed processes are removed");
    let sweeper = std::thread::Builder::new().name("sandbox-sweep".to_owned());
    let sweeping = sweeper.spawn(move || left.iter().for_each(|(id, path, _lock)| remove_left(*id, path)));
    if let Err(error) = sweeping {
        tracing::debug!(%error, "private folders of killed processes stay behind");
    }
}

fn remove_left(id: Uuid, path: &Path) {
    // The name is the only trace of the tag family, so the folder stays for the next search.
    if ProcessTagFamily::of(id).end() == RemainingProcesses::Some {
        return;
    }
    match remove(path, None) {
        Ok(()) => tracing::debug!(path = %path.display(), "a private folder of a killed process is removed"),
        Err(error) => tracing::debug!(path = %path.display(), %error, "a private folder stays behind"),
    }
}

/// Locks an unheld folder of the present user, and returns the lock.
fn abandoned(path: &Path) -> Option<File> {
    let meta = path.symlink_metadata().ok()?;
    // `scratch` is usually `/tmp`, where folders and links of other users may have any name.
    if !meta.is_dir() || meta.uid() != rustix::process::geteuid().as_raw() {
        return None;
    }
    let folder = match open(path) {
        // Commands may change the folder's mode.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            fs::set_permissions(path, Permissions::from_mode(0o700)).ok()?;
            open(path).ok()?
        }
        opened => opened.ok()?,
    };
    folder.try_lock().is_ok().then_some(folder)
}

/// Opens a folder and nothing else: no link to a folder, no pipe.
fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(File::from(rustix::fs::open(path, flags, Mode::empty())?))
}

/// Returns the id at the end of `longhaul-1234-0192…`, if the name is exactly of [`PrivateTempFolder::make`]'s form.
fn id(name: &str) -> Option<Uuid> {
    let (pid, id) = name.strip_prefix(PREFIX)?.split_once('-')?;
    let is_named = !pid.is_empty()
        && pid.bytes().all(|byte| byte.is_ascii_digit())
        && id.len() == 32
        && id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    is_named.then(|| Uuid::try_parse(id).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    const ID: &str = "0192f0c1d2e3743586970a1b2c3d4e5f";

    #[test]
    fn what_a_killed_process_left_is_removed_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let scratch = dir.path().canonicalize().unwrap();
        let there = |name: &str| scratch.join(name).symlink_metadata().is_ok();
        let held = PrivateTempFolder::make(&scratch).unwrap();
        // Of a process whose number another one has by now: this one.
        let left = format!("{PREFIX}{}-{ID}", std::process::id());
        fs::create_dir_all(scratch.join(&left).join("tmp/deep")).unwrap();
        fs::create_dir(scratch.join("elsewhere")).unwrap();
        fs::write(scratch.join("elsewhere/kept"), "kept").unwrap();
        symlink(scratch.join("elsewhere"), scratch.join(&left).join("home")).unwrap();
        let others = [
            format!("{PREFIX}{ID}"),
            format!("{PREFIX}1-{}", &ID[1..]),
            format!("{PREFIX}x-{ID}"),
            format!("{PREFIX}1-{ID}.bak"),
            format!("other-1-{ID}"),
        ];
        others.iter().for_each(|name| fs::create_dir(scratch.join(name)).unwrap());
        let (file, link) = (format!("{PREFIX}2-{ID}"), format!("{PREFIX}3-{ID}"));
        fs::write(scratch.join(&file), "a file").unwrap();
        symlink(scratch.join("elsewhere"), scratch.join(&link)).unwrap();

        let second = PrivateTempFolder::make(&scratch).unwrap();
        let begun = Instant::now();
        while there(&left) {
            assert!(begun.elapsed() < Duration::from_secs(60), "it is not swept up");
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(others.iter().all(|name| there(name)) && there(&file) && there(&link));
        assert!(there("elsewhere/kept"), "no link is followed");
        assert!(held.path.join("tmp").is_dir(), "a process that lives keeps its own");
        drop(held);
        assert!(
            second.path.join("home").is_dir()
                && id(second.path.file_name().unwrap().to_str().unwrap()).is_some()
        );
    }
}
