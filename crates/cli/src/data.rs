//! The data folder: made private, opened, and refused with a reason.

pub(crate) mod shared;

use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use longhaul::io_error::io_error_text;
use longhaul_store::{
    BlobStore, MemoryPrefixCache, PrefixCache, PrefixCacheLimits, SharedNodes, SharedStore, SharedUpkeep,
    Store as _, StoreError,
};
use longhaul_store_sqlite::{DataFolderGuard, SqlitePrefixCache, SqliteStore};
use rustix::fs::{Access, access};
use rustix::process::geteuid;

use crate::environment::CliEnvironment;
use crate::failure::{CommandError, Outcome};
use crate::server_address::RunningServer;
use crate::signals::ENDS_WITHIN;
use crate::term::out;

/// The time for runs to finish after the server's end was requested. The rest of [`ENDS_WITHIN`] is for
/// cancelled tools, which have 5 s, and for connections and the store.
pub(crate) const DRAINING: Duration = Duration::from_secs(20);

/// Time beyond [`DRAINING`] until the process has ended.
const GRACE: Duration = ENDS_WITHIN.saturating_sub(DRAINING);

/// The name of the database's file.
const DATABASE: &str = "longhaul.db";

/// The interval between two checks whether an ending server has ended.
const LOOKING: Duration = Duration::from_millis(100);

/// The stores of a data folder or database.
pub(crate) struct DataStores {
    /// The sessions.
    pub(crate) store: SharedStore,
    /// The gateway's memory of conversations without a session.
    pub(crate) memo: Arc<dyn PrefixCache>,
    /// The images, files and long outputs of the sessions.
    pub(crate) blobs: BlobStore,
    /// The other processes on the store, if it is a shared one.
    pub(crate) nodes: Option<SharedNodes>,
    /// The maintenance of the store, if this process does it.
    pub(crate) upkeep: Option<SharedUpkeep>,
}

/// Opens the data folder. This process has the folder to itself until the store is closed.
///
/// # Errors
/// The folder cannot be used, or another process has it.
pub(crate) async fn open(place: &CliEnvironment, max_blob_bytes: u64) -> Outcome<DataStores> {
    let folder = &place.data_dir;
    make_private(folder)?;
    let store = once_free(place, async || SqliteStore::open(folder).await).await?;
    opened(folder, store, max_blob_bytes).await
}

async fn opened(folder: &Path, store: SqliteStore, max_blob_bytes: u64) -> Outcome<DataStores> {
    let blobs = BlobStore::local(&folder.join("blobs"), max_blob_bytes)?;
    // The store holds the lock on the folder, so the writers of half-written files have ended.
    match blobs.sweep().await {
        Ok(_) => {}
        Err(error) => tracing::warn!("half-written blobs of an ended process could not be removed: {error}"),
    }
    tracing::debug!(folder = %folder.display(), "the data folder is open");
    let store = Arc::new(store);
    // The gateway's memory shares the file, the writer and the lock with the sessions.
    let memo = Arc::new(SqlitePrefixCache::new(Arc::clone(&store), PrefixCacheLimits::default()));
    Ok(DataStores { upkeep: Some(Arc::clone(&store) as _), store, memo, blobs, nodes: None })
}

/// Opens the data folder. If the disk is full or read-only, the folder is opened for reading only.
///
/// # Errors
/// The errors of [`open`], if the existing data cannot be read either.
pub(crate) async fn open_or_read(place: &CliEnvironment, max_blob_bytes: u64) -> Outcome<DataStores> {
    let folder = &place.data_dir;
    make_private(folder)?;
    let store = once_free(place, async || SqliteStore::open_or_read(folder).await).await?;
    // An opened store proves nothing: a full disk shows only at a write.
    match store.check_writable().await {
        Ok(()) => opened(folder, store, max_blob_bytes).await,
        Err(error) => {
            tracing::error!("the data folder cannot be written, so its sessions can only be read: {error}");
            let below = folder.join("blobs");
            // A folder without blobs is not created here: the disk refuses writes.
            let blobs = if below.is_dir() {
                BlobStore::local_to_read(&below, max_blob_bytes)?
            } else {
                BlobStore::in_memory(max_blob_bytes)
            };
            // Both would write: the gateway's memory stays in RAM, and the maintenance is left out.
            let memo = Arc::new(MemoryPrefixCache::default());
            Ok(DataStores { store: Arc::new(store), memo, blobs, nodes: None, upkeep: None })
        }
    }
}

/// Locks the data folder for a process whose sessions are elsewhere. Its settings and its token are in the
/// folder.
///
/// # Errors
/// The errors of [`open`].
pub(crate) async fn lock_folder(place: &CliEnvironment) -> Outcome<DataFolderGuard> {
    make_private(&place.data_dir)?;
    once_free(place, async || SqliteStore::lock_folder(&place.data_dir).await).await
}

/// Claims the data folder. Waits for an ending server as long as the server's runs may take to finish.
async fn once_free<T>(place: &CliEnvironment, take: impl AsyncFn() -> Result<T, StoreError>) -> Outcome<T> {
    let folder = &place.data_dir;
    let mut waited_since = None;
    loop {
        let error = match take().await {
            Ok(taken) => return Ok(taken),
            Err(error) => error,
        };
        // A server that is waited for removes its record a moment before it releases the folder.
        if !matches!(error, StoreError::Locked { .. }) || !(waited_since.is_some() || is_ending(folder)) {
            return Err(refused(place, error));
        }
        // The message is shown once, with the first wait.
        let since = *waited_since.get_or_insert_with(|| {
            tracing::debug!(folder = %folder.display(), "the data folder's server is shutting down: waiting \
                                                         for it");
            out::print_message(&format!(
                "another longhaul is shutting down here and finishes its answers: waiting for it, {} s at \
                 most …\n",
                DRAINING.as_secs()
            ));
            Instant::now()
        });
        if since.elapsed() > DRAINING + GRACE {
            let folder = place.shown(folder);
            return Err(CommandError::new(format!(
                "another longhaul still holds the data folder {folder} while its last answers finish; nothing was \
                 started: try again in a minute"
            )));
        }
        tokio::time::sleep(LOOKING).await;
    }
}

fn refused(place: &CliEnvironment, error: StoreError) -> CommandError {
    match error {
        StoreError::Locked { by, .. } => {
            let by = by.map(|by| format!(" ({by})")).unwrap_or_default();
            let folder = place.shown(&place.data_dir);
            // The page of the server can do what the refused command would have done.
            if let Some(serving) = RunningServer::find(&place.data_dir) {
                return taken_by_server(place, &folder, &by, &serving);
            }
            let other = match place.command_name {
                "" => "name another folder with --data-dir".to_owned(),
                _ => format!("give this one a folder of its own: {}", command_with_own_data_dir(place)),
            };
            CommandError::new(format!(
                "the data folder {folder} is in use by another longhaul{by}; end that one, or {other}"
            ))
        }
        other => CommandError::from(other),
    }
}

/// Returns this command line with a data folder of its own.
fn command_with_own_data_dir(place: &CliEnvironment) -> String {
    format!("longhaul --data-dir DIR {}", place.command_name).trim_end().to_owned()
}

/// Returns the error for a folder in a server's use. The error names the server's page with the conversations.
fn taken_by_server(place: &CliEnvironment, folder: &str, by: &str, serving: &RunningServer) -> CommandError {
    let other = match place.command_name {
        "" => {
            return CommandError::new(format!(
                "the data folder {folder} is in use by another longhaul{by}, a server: do it on its page, {}, \
                 which may ask for the token in {}; or end it first",
                serving.page,
                place.shown(&serving.token_file),
            ));
        }
        "serve" => ("a second server", "longhaul --data-dir DIR serve --addr HOST:PORT".to_owned()),
        _ => ("beside it", command_with_own_data_dir(place)),
    };
    CommandError::new(format!(
        "the data folder {folder} is in use by another longhaul{by}, a server\n\
         \n  its page         {}\
         \n  it may ask for   the token in {}\
         \n  {:<17}{}{}",
        serving.page,
        place.shown(&serving.token_file),
        other.0,
        other.1,
        beside_server(place.command_name, &serving.page),
    ))
}

/// Returns the lines on what a person or a program can do beside the server instead of `chat` and `run`.
fn beside_server(command_name: &str, page: &str) -> String {
    let program = format!("\n  a program        POST {page}/api/message with that token");
    let reading = "\n  reading works    sessions list, sessions show, context, compactions, orders, recall";
    match command_name {
        "chat" => reading.to_owned(),
        "run …" => program + reading,
        _ => String::new(),
    }
}

/// Refuses a data folder, or a database in it, that this user cannot read. SQLite takes an unreadable folder for an
/// empty one, and the sessions in it would seem lost.
///
/// # Errors
/// The folder or the database exists and cannot be read.
pub(crate) fn check_readable(folder: &Path) -> Outcome<()> {
    let database = folder.join(DATABASE);
    let rights = Access::READ_OK | Access::EXEC_OK;
    // The rights are asked for without opening anything: opening a pipe would wait for its writer.
    for (what, path, rights) in
        [("the data folder", folder, rights), ("the database", database.as_path(), Access::READ_OK)]
    {
        match access(path, rights).map_err(io::Error::from) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(CommandError::new(format!(
                    "{what} {} cannot be read: {}. Nothing was changed.",
                    path.display(),
                    io_error_text(&error)
                )));
            }
            // A missing folder is the caller's concern: for most commands it holds no session yet.
            _ => {}
        }
    }
    Ok(())
}

/// Makes the folder, or closes one of ours to others. Another user's folder is not touched.
///
/// # Errors
/// The folder cannot be made or closed; the folder is another user's, or open and with other contents.
pub(crate) fn make_private(folder: &Path) -> Outcome<()> {
    make_private_for(geteuid().as_raw(), folder)
}

/// Returns true if the folder's server is ending.
fn is_ending(folder: &Path) -> bool {
    RunningServer::find(folder).is_some_and(|serving| serving.is_ending)
}

fn make_private_for(user: u32, folder: &Path) -> Outcome<()> {
    if !folder.exists() {
        // Closed from the start: a later change of the mode would leave a moment in which others can look in.
        return std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .map_err(|error| unusable_folder(folder, &error));
    }
    let known = std::fs::metadata(folder).map_err(|error| unusable_folder(folder, &error))?;
    // The superuser could do as it likes there, and leave files that their owner cannot use.
    if known.uid() != user {
        return Err(CommandError::usage(format!(
            "{} belongs to another user: run this as that user, or name a folder of its own with --data-dir",
            folder.display()
        )));
    }
    check_readable(folder)?;
    let mode = known.permissions().mode();
    if mode & 0o077 == 0 {
        return Ok(());
    }
    // To close a folder with other files, such as a shared one, would shut out its users.
    let is_empty =
        std::fs::read_dir(folder).map_err(|error| unusable_folder(folder, &error))?.next().is_none();
    if !is_empty && !SqliteStore::is_at(folder) {
        return Err(CommandError::usage(format!(
            "{} is open to other users and holds other files: name a folder of its own with --data-dir",
            folder.display()
        )));
    }
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o700))
        .map_err(|error| unusable_folder(folder, &error))
}

fn unusable_folder(folder: &Path, error: &io::Error) -> CommandError {
    CommandError::new(format!(
        "the data folder {} cannot be used: {}. Nothing was changed.",
        folder.display(),
        io_error_text(error)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(folder: &Path) -> u32 {
        std::fs::metadata(folder).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn a_folder_that_cannot_be_read_is_not_taken_for_an_empty_one() {
        // The rights of files do not concern the superuser.
        if geteuid().is_root() {
            return;
        }
        let outer = tempfile::tempdir().unwrap();
        let folder = outer.path().join("data");
        check_readable(&folder).unwrap();
        make_private(&folder).unwrap();
        std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o000)).unwrap();
        let refused = check_readable(&folder).unwrap_err();
        let said = "cannot be read: permission denied. Nothing was changed.";
        assert!(refused.message().ends_with(said), "{}", refused.message());
        std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o700)).unwrap();
    }

    #[test]
    fn a_folder_of_ours_is_closed_and_somebody_elses_is_left_as_it_is() {
        let outer = tempfile::tempdir().unwrap();
        let folder = outer.path().join("data");
        let me = geteuid().as_raw();
        make_private_for(me, &folder).unwrap();
        assert_eq!(mode(&folder), 0o700);
        for open in [0o755, 0o700] {
            std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(open)).unwrap();
            let refused = make_private_for(me + 1, &folder).unwrap_err();
            assert!(format!("{refused:?}").contains("belongs to another user"), "{refused:?}");
            assert_eq!(mode(&folder), open);
        }
        std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o755)).unwrap();
        make_private(&folder).unwrap();
        assert_eq!(mode(&folder), 0o700);
    }
}
