//! A marker file beside the database. A start with the marker and without the database is not a first start.

use std::io::Write as _;
use std::path::Path;

use longhaul_store::{StoreError, flush_folder};

const FILE_NAME: &str = "longhaul.db.made";

/// The text of the file, for a finder.
const CONTENT: &str = "Longhaul has made its database, longhaul.db, in this folder. While this file is here, a start \
                       without that database is refused, because its sessions would seem never to have been. To begin \
                       without them, delete this file.\n";

/// Refuses a folder whose database is missing or empty.
///
/// # Errors
/// [`StoreError::Storage`].
pub(crate) fn check(folder: &Path, database: &Path) -> Result<(), StoreError> {
    let marker = folder.join(FILE_NAME);
    if std::fs::symlink_metadata(&marker).is_err() {
        return Ok(());
    }
    let what = match std::fs::metadata(database) {
        Ok(known) if known.is_file() && known.len() == 0 => "is empty",
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => "is missing",
        // Opening the database reports any other fault.
        _ => return Ok(()),
    };
    let (database, marker) = (database.display(), marker.display());
    Err(StoreError::Storage(format!(
        "the database {database} {what}, though it was made here once. Nothing was changed. Put it back, for example from \
         a backup; or, to begin without its sessions, delete {marker} and start again"
    )))
}

/// Creates the marker file, durably. A folder without a marker works all the same.
pub(crate) fn set(folder: &Path) {
    let marker = folder.join(FILE_NAME);
    let made = match std::fs::OpenOptions::new().write(true).create_new(true).open(&marker) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => return,
        made => made,
    };
    let written = made
        .and_then(|mut file| file.write_all(CONTENT.as_bytes()).and_then(|()| file.sync_all()))
        .and_then(|()| flush_folder(folder));
    if let Err(error) = written {
        tracing::warn!(file = %marker.display(), %error, "a lost database would not be noticed: the note that there is one was not written");
    }
}
