//! The calls that make new file names survive a power cut.

use std::io;
use std::path::Path;

/// Makes the names in a folder durable, where the system can: a file that was flushed is lost with its name.
///
/// # Errors
/// The errors of the file system.
pub fn flush_folder(folder: &Path) -> io::Result<()> {
    if cfg!(not(unix)) {
        return Ok(());
    }
    match std::fs::File::open(folder)?.sync_all() {
        // Not all file systems can flush a folder.
        Err(error) if error.kind() != io::ErrorKind::InvalidInput => Err(error),
        _ => Ok(()),
    }
}
