//! Preparation of a data folder before its database is opened: existing files are flushed to the disk.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use longhaul_store::flush_folder;

use crate::wal::report_damage;

/// The number of WAL bytes per write.
const PIECE_BYTES: usize = 1 << 20;

/// Flushes existing files before the store opens: the path to a new database `file` in `folder`, or the WAL
/// of an existing one.
///
/// # Errors
/// The errors of the file system, with the path.
pub(crate) async fn prepare(folder: &Path, file: &Path) -> io::Result<()> {
    let (folder, file) = (folder.to_owned(), file.to_owned());
    let prepared = tokio::task::spawn_blocking(move || {
        if !file.exists() {
            // Without a database there is no WAL either: only the way to the new file can be lost.
            return keep_names(&folder).map_err(|error| about(&folder, &error));
        }
        let wal = PathBuf::from(format!("{}-wal", file.display()));
        // The WAL is written first: the search for damage must see the content that is on the disk.
        write_again(&wal).and_then(|()| report_damage(&file)).map_err(|error| about(&wal, &error))
    });
    prepared.await.map_err(io::Error::other)?
}

fn about(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// Flushes the name of a new folder, and the names of the folders above, because they may be new too: a database
/// is no safer than its path.
fn keep_names(folder: &Path) -> io::Result<()> {
    // The folder itself is flushed with the marker, when the database is in it.
    for above in folder.canonicalize()?.ancestors().skip(1) {
        // A folder that this user cannot open was not made by this user.
        if cfg!(unix) && File::open(above).is_err() {
            break;
        }
        flush_folder(above)?;
    }
    Ok(())
}

/// Writes a WAL again in place, and flushes the file.
///
/// After a failed fsync the system may show content without ever writing the content to the disk. In a power cut
/// all later content would be lost too. A clean end leaves no WAL, so the function takes time only after a crash.
fn write_again(wal: &Path) -> io::Result<()> {
    let mut file = match OpenOptions::new().read(true).write(true).open(wal) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        opened => opened?,
    };
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        let place = file.stream_position()?;
        let count = file.read(&mut piece)?;
        if count == 0 {
            return file.sync_all();
        }
        file.seek(SeekFrom::Start(place))?;
        file.write_all(&piece[..count])?;
    }
}

#[cfg(test)]
mod tests {
    use super::write_again;

    #[test]
    fn a_file_that_is_written_again_is_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let wal = folder.path().join("wal");
        write_again(&wal).unwrap();
        assert!(!wal.exists());
        for bytes in [0, 1, 1 << 20, (5 << 19) + 7] {
            let content: Vec<u8> = (0..bytes).map(|index: u32| (index / 251) as u8).collect();
            std::fs::write(&wal, &content).unwrap();
            write_again(&wal).unwrap();
            assert!(std::fs::read(&wal).unwrap() == content, "{bytes} bytes");
        }
    }
}
