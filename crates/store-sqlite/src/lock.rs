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
