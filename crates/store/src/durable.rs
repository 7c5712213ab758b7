//! Flushes of new file names, against a power cut.

use std::io;
use std::path::Path;

/// Flushes the names in a folder to disk, where the system can. A flushed file is lost without a flushed name.
///
/// # Errors
/// The errors of the file system.
#[doc(hidden)]
pub fn flush_folder(folder: &Path) -> io::Result<()> {
    if cfg!(not(unix)) {
        // Other systems cannot open a folder as a file.
        return Ok(());
    }
    match std::fs::File::open(folder)?.sync_all() {
        // Some file systems cannot flush a folder and answer `EINVAL`.
        Err(error) if error.kind() != io::ErrorKind::InvalidInput => Err(error),
        _ => Ok(()),
    }
}
