//! The lock of a data folder, for one process.

use std::fs::{File, Metadata, OpenOptions, TryLockError};
use std::io::{self, Seek, Write};
use std::path::Path;
use std::time::Duration;

use longhaul_store::StoreError;

/// The file's name. The file holds the process id of the folder's owner.
const FILE_NAME: &str = "longhaul.lock";

/// The time that a start waits for an earlier owner that is just leaving.
const GRACE: Duration = Duration::from_millis(500);
// The operating system has no wait for a file lock with a limit, so the lock is tried again and again.
const RETRY: Duration = Duration::from_millis(10);

/// Returns whether a process has the folder now. A folder whose lock cannot be read counts as free.
pub(crate) fn is_taken(folder: &Path) -> bool {
    // The shared lock is dropped at once. A start that meets it tries again within `GRACE`.
    matches!(try_lock_shared(folder), Some(Err(TryLockError::WouldBlock)))
}

/// Locks the folder against writers while the returned lock lives. `None` if a process has the folder.
pub(crate) fn lock_against_writers(folder: &Path) -> Option<SharedFolderLock> {
    match try_lock_shared(folder) {
        Some(Err(TryLockError::WouldBlock)) => None,
        Some(Ok(file)) => Some(SharedFolderLock { _file: Some(file) }),
        // No process has ever written here, or locks do not work here. In both cases no process can hold the
        // folder.
        Some(Err(TryLockError::Error(_))) | None => Some(SharedFolderLock { _file: None }),
    }
}

/// Takes a lock shared by readers. Returns `None` if there is no file to lock.
fn try_lock_shared(folder: &Path) -> Option<Result<File, TryLockError>> {
    let path = folder.join(FILE_NAME);
    check(&path).ok()?;
    let file = add_safe_flags(OpenOptions::new().read(true)).open(path).ok()?;
    Some(file.try_lock_shared().map(|()| file))
}

/// A shared lock. No process can take the folder until the lock is dropped.
#[derive(Debug)]
pub(crate) struct SharedFolderLock {
    _file: Option<File>,
}

/// The exclusive lock of the folder. The lock ends with the drop or with the process.
#[derive(Debug)]
pub(crate) struct ExclusiveFolderLock {
    _file: File,
}

impl ExclusiveFolderLock {
    /// Takes the folder.
    ///
    /// # Errors
    /// [`StoreError::Locked`] if another process has the folder; [`StoreError::Storage`] if the file cannot be
    /// used.
    pub(crate) async fn take(folder: &Path) -> Result<Self, StoreError> {
        let path = folder.join(FILE_NAME);
        let mut file = open(&path)?;
        let mut waited = Duration::ZERO;
        loop {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::Error(error)) => return Err(lock_error(&path, &error)),
                Err(TryLockError::WouldBlock) if waited >= GRACE => return Err(locked(folder, &mut file)),
                // File locks have no wait with a limit. `lock` would hold a thread for as long as the other process
                // lives.
                Err(TryLockError::WouldBlock) => tokio::time::sleep(RETRY).await,
            }
            waited += RETRY;
        }
        if !waited.is_zero() {
            tracing::debug!(folder = %folder.display(), waited_ms = waited.as_millis() as u64, "another process had the folder");
        }
        // The process id is not flushed: after a power cut the process is gone too.
        write_process_id(&mut file).map_err(|error| lock_error(&path, &error))?;
        Ok(Self { _file: file })
    }
}

/// Refuses a pipe or a link in place of the lock file. Opening a pipe would wait, and a link may name a foreign
/// file.
///
/// # Errors
/// [`StoreError::Storage`].
pub(crate) fn check_file(folder: &Path) -> Result<(), StoreError> {
    let path = folder.join(FILE_NAME);
    check(&path).map_err(|error| lock_error(&path, &error))
}

fn check(path: &Path) -> io::Result<()> {
    match std::fs::symlink_metadata(path) {
        Ok(known) => check_regular(&known),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// Checks the metadata for a regular file.
///
/// # Errors
/// [`io::ErrorKind::InvalidInput`] if the path is no regular file.
pub(crate) fn check_regular(known: &Metadata) -> io::Result<()> {
    if known.is_file() {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"))
}

/// Adds flags that refuse a link and do not wait for a pipe. The path may have been replaced since its check.
#[cfg(unix)]
fn add_safe_flags(options: &mut OpenOptions) -> &mut OpenOptions {
    use std::os::unix::fs::OpenOptionsExt;

    use rustix::fs::OFlags;
    options.custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed())
}

#[cfg(not(unix))]
fn add_safe_flags(options: &mut OpenOptions) -> &mut OpenOptions {
    options
}

fn open(path: &Path) -> Result<File, StoreError> {
    check(path).map_err(|error| lock_error(path, &error))?;
    let mut options = OpenOptions::new();
    // Not truncated: until the lock is held, the content belongs to another process.
    options.read(true).write(true).create(true).truncate(false);
    let file = add_safe_flags(&mut options).open(path).map_err(|error| lock_error(path, &error))?;
    // The path may have become another file since the check above.
    file.metadata().and_then(|known| check_regular(&known)).map_err(|error| lock_error(path, &error))?;
    Ok(file)
}

fn write_process_id(file: &mut File) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{}", std::process::id())
}

fn locked(folder: &Path, file: &mut File) -> StoreError {
    // The owner may hold the lock and not have written its number yet. The number only helps a person. Windows
    // denies the read of a locked file.
    let owner = io::read_to_string(file).unwrap_or_default();
    tracing::debug!(folder = %folder.display(), owner = owner.trim(), "another process has the folder");
    let by = Some(owner.trim()).filter(|pid| !pid.is_empty()).map(|pid| format!("process {pid}"));
    StoreError::Locked { folder: folder.display().to_string(), by }
}

fn lock_error(path: &Path, error: &io::Error) -> StoreError {
    StoreError::Storage(format!("{}: {error}", path.display()))
}
