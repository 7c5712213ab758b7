//! One process per data folder.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Seek, Write};
use std::path::Path;
use std::time::Duration;

use longhaul_store::StoreError;

/// The file's name. It holds the process id of whoever has the folder.
const FILE_NAME: &str = "longhaul.lock";

/// How long a start waits for an earlier owner that is just leaving.
const GRACE: Duration = Duration::from_millis(500);
const RETRY: Duration = Duration::from_millis(10);

/// Whether a process has the folder now. One that cannot be asked about counts as free.
pub(crate) fn is_taken(folder: &Path) -> bool {
    matches!(shared(folder), Some(Err(TryLockError::WouldBlock)))
}

/// Keeps the folder from being taken, as long as the file is open. `None` if a process has it.
pub(crate) fn keep_free(folder: &Path) -> Option<Free> {
    match shared(folder) {
        Some(Err(TryLockError::WouldBlock)) => None,
        Some(Ok(file)) => Some(Free { _file: Some(file) }),
        // Nobody has ever written here, or locks do not work here: then nobody can have it.
        Some(Err(TryLockError::Error(_))) | None => Some(Free { _file: None }),
    }
}

/// A lock that readers share; `None` if there is no file to lock.
fn shared(folder: &Path) -> Option<Result<File, TryLockError>> {
    let file = File::open(folder.join(FILE_NAME)).ok()?;
    Some(file.try_lock_shared().map(|()| file))
}

/// Nobody takes the folder until this is dropped.
#[derive(Debug)]
pub(crate) struct Free {
    _file: Option<File>,
}

/// Holds the folder until it is dropped, or the process ends however it ends.
#[derive(Debug)]
pub(crate) struct FolderLock {
    _file: File,
}

impl FolderLock {
    /// Takes the folder.
    ///
    /// # Errors
    /// [`StoreError::Locked`] if another process has it; [`StoreError::Storage`] if the file cannot be used.
    pub(crate) async fn take(folder: &Path) -> Result<Self, StoreError> {
        let path = folder.join(FILE_NAME);
        let mut file = open(&path)?;
        let mut waited = Duration::ZERO;
        loop {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::Error(error)) => return Err(failed(&path, &error)),
                Err(TryLockError::WouldBlock) if waited >= GRACE => return Err(locked(folder, &path)),
                Err(TryLockError::WouldBlock) => tokio::time::sleep(RETRY).await,
            }
            waited += RETRY;
        }
        sign(&mut file).map_err(|error| failed(&path, &error))?;
        Ok(Self { _file: file })
    }
}

fn open(path: &Path) -> Result<File, StoreError> {
    let mut options = OpenOptions::new();
    // Not truncated: until the lock is held, the content is somebody else's.
    options.read(true).write(true).create(true).truncate(false);
    options.open(path).map_err(|error| failed(path, &error))
}

fn sign(file: &mut File) -> std::io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{}", std::process::id())
}

fn locked(folder: &Path, path: &Path) -> StoreError {
    let owner = std::fs::read_to_string(path).unwrap_or_default();
    let by = Some(owner.trim()).filter(|pid| !pid.is_empty()).map(|pid| format!("process {pid}"));
    StoreError::Locked { folder: folder.display().to_string(), by }
}

fn failed(path: &Path, error: &std::io::Error) -> StoreError {
    StoreError::Storage(format!("{}: {error}", path.display()))
}
