//! Preparation of a data folder before its database is opened: what is there is flushed to the disk.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use longhaul_store::flush_folder;

use crate::wal::report_damage;

/// The number of WAL bytes that are written again at a time.
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

/// Flushes the name of a new folder, and the names of those above it, which may be new too: a database is no
/// safer than the way to it.
fn keep_names(folder: &Path) -> io::Result<()> {
    for above in folder.canonicalize()?.ancestors().skip(1) {
        // A folder that this user cannot open was not made by this user.
        if cfg!(unix) && File::open(above).is_err() {
            break;
        }
        flush_folder(above)?;
    }
    Ok(())
}

/// Writes a WAL over itself, and flushes it.
///
/// After a failed fsync the system may show content that is not on the disk, and never write it. Content
/// appended behind it would be lost with it in a power cut. A clean end leaves no WAL, so this takes time
/// only after a crash.
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
