//! `longhaul migrate`, `backup` and `restore`: transfers of all sessions. Each copy is read again and compared.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use longhaul_core::ids::SessionId;
use longhaul_core::queue::QueuedMessage;
use longhaul_store::transfer::{InboxEntryCopy, InboxEntryState, import_verified_copy};
use longhaul_store::{
    BlobError, BlobStore, SessionCopy, SessionTransfer, SharedNodes, SharedStore, StoreError, decode_queued,
    flush_folder,
};
use longhaul_store_sqlite::SqliteStore;

use crate::agent_file;
use crate::args::{BackupArgs, MigrateArgs, RestoreArgs};
use crate::data::{self, shared::SharedStoreConfig};
use crate::environment::CliEnvironment;
use crate::failure::{CommandError, DONE, Outcome};
use crate::term::human::count;
use crate::term::out;

/// The marker file of an unfinished backup.
const BEGUN: &str = "backup-begun";

/// The marker file of a complete backup.
const COMPLETE: &str = "backup-complete";

/// A place with sessions.
struct TransferEndpoint {
    /// The name of the place in messages.
    name: String,
    sessions: Arc<dyn SessionTransfer>,
    store: SharedStore,
    blobs: BlobStore,
    nodes: Option<SharedNodes>,
}

impl TransferEndpoint {
    /// Describes an empty place of this kind, for messages.
    fn empty(&self) -> &'static str {
        match self.nodes {
            Some(_) => "an empty database or schema",
            None => "an empty folder (--data-dir DIR)",
        }
    }
}

impl SessionTransferState {
    fn of(copy: SessionCopy) -> Self {
        let last_seq = copy.events.len() as u64;
        let waiting =
            copy.inbox.into_iter().filter(|entry| entry.state == InboxEntryState::Waiting).collect();
        Self { last_seq, waiting }
    }

    fn is(&self, last_seq: u64, queue: &[QueuedMessage]) -> bool {
        self.last_seq == last_seq
            && self.waiting.len() == queue.len()
            // An export has the body as stored, and the queue has the message decoded.
            && self.waiting.iter().zip(queue).all(|(then, now)| {
                then.id == now.id
                    && decode_queued(&then.body)
                        .is_ok_and(|(parts, metadata)| parts == now.parts && metadata == now.metadata)
            })
    }
}

/// The permitted access to a place.
#[derive(Clone, Copy, PartialEq, Eq)]
enum EndpointAccess {
    Read,
    Write,
}

/// The report of a transfer.
#[derive(Default)]
struct TransferReport {
    from: String,
    to: String,
    /// The state of each session in the transfer.
    reached: BTreeMap<SessionId, SessionTransferState>,
    sessions: u64,
    known: u64,
    events: u64,
    blobs: u64,
}

/// The state of a session at a place.
struct SessionTransferState {
    last_seq: u64,
    /// The messages that wait and are in no log yet.
    waiting: Vec<InboxEntryCopy>,
}

/// Moves sessions from the data folder into a database, or back.
pub(crate) async fn migrate(args: MigrateArgs, place: &CliEnvironment) -> Outcome {
    let (from, to) = match (&args.from, &args.to) {
        (None, Some(to)) => (None, Some(to.as_str())),
        (Some(from), None) => (Some(from.as_str()), None),
        _ => {
            return Err(CommandError::usage(
                "name one database: --to URL carries the data folder there, --from URL back",
            ));
        }
    };
    let folder = place.shown(&place.data_dir);
    if to.is_some() {
        data::check_readable(&place.data_dir)?;
        if !SqliteStore::is_at(&place.data_dir) {
            return Err(no_database(&folder));
        }
    }
    if to.is_some() && SqliteStore::is_in_use(&place.data_dir) {
        return Err(CommandError::new(format!(
            "the data folder {folder} is in use: stop that longhaul first, or its new messages would not be \
             transferred"
        )));
    }
    if args.from.is_some() {
        check_folder(args.blobs.as_deref())?;
    }
    tracing::debug!(to_database = to.is_some(), "sessions are carried");
    // The source is held exclusively until everything is copied: later messages would be left behind.
    let from = depot(place, from, args.blobs.as_deref(), EndpointAccess::Write).await?;
    let carried = migrated(&from, place, to, args.blobs.as_deref()).await;
    // Closed in any case: a node that does not leave counts until its lease ends.
    from.store.close().await;
    print_report(&carried?)
}

async fn migrated(
    from: &TransferEndpoint,
    place: &CliEnvironment,
    to: Option<&str>,
    blobs: Option<&str>,
) -> Outcome<TransferReport> {
    if others(from).await? {
        return Err(CommandError::new(
            "nodes still serve that database: stop them first, or their new messages would not be \
             transferred (a killed node counts for 10 s)",
        ));
    }
    let to = depot(place, to, blobs, EndpointAccess::Write).await?;
    let carried = carried_whole(from, &to).await;
    to.store.close().await;
    carried
}

/// Carries everything, if the source was at rest to the end.
async fn carried_whole(from: &TransferEndpoint, to: &TransferEndpoint) -> Outcome<TransferReport> {
    let carried = carry_all(from, to, TransferConflictPolicy::Kept).await?;
    // Asked again at the end: a node may have joined while the sessions were copied.
    if others(from).await? || went_on(from, &carried).await? {
        return Err(CommandError::new(format!(
            "the transfer is incomplete: {} got new messages during it, which are not in {}. Nothing was deleted. \
             End the server there, then migrate again into {}",
            from.name,
            to.name,
            to.empty()
        )));
    }
    Ok(carried)
}

/// Backs up into a folder of its own. An interrupted backup is begun again there.
pub(crate) async fn backup(args: BackupArgs, place: &CliEnvironment) -> Outcome {
    let has_files = std::fs::read_dir(&args.folder).is_ok_and(|mut entries| entries.next().is_some());
    if args.folder.join(COMPLETE).exists() || (has_files && !args.folder.join(BEGUN).exists()) {
        return Err(CommandError::usage(format!("{} is not empty", args.folder.display())));
    }
    if args.db.is_some() {
        check_folder(args.blobs.as_deref())?;
    }
    let from = depot(place, args.db.as_deref(), args.blobs.as_deref(), EndpointAccess::Read).await?;
    let carried = saved(&from, place, &args.folder).await;
    from.store.close().await;
    let carried = carried?;
    // A rename is atomic, so at any time the folder has exactly one of the two marks.
    std::fs::rename(args.folder.join(BEGUN), args.folder.join(COMPLETE))?;
    // Without the flush a power cut could bring the old mark back.
    flush_folder(&args.folder)?;
    print_report(&carried)
}

async fn saved(from: &TransferEndpoint, place: &CliEnvironment, into: &Path) -> Outcome<TransferReport> {
    data::make_private(into)?;
    // The mark comes before the first file, so that an interrupted backup is known as one.
    std::fs::write(into.join(BEGUN), "")?;
    let to = folder(place, into, EndpointAccess::Write).await?;
    let carried = carry_all(from, &to, TransferConflictPolicy::Renewed).await;
    to.store.close().await;
    carried
}

/// Restores from a folder made by `backup`, to a place without other sessions.
pub(crate) async fn restore(args: RestoreArgs, place: &CliEnvironment) -> Outcome {
    let name = args.folder.display();
    if args.folder.join(BEGUN).exists() {
        return Err(CommandError::usage(format!(
            "the backup in {name} was interrupted: `backup` it again, or take another one"
        )));
    }
    if !args.folder.join(COMPLETE).exists() {
        return Err(CommandError::usage(format!("{name} holds no backup")));
    }
    let from = folder(place, &args.folder, EndpointAccess::Read).await?;
    let carried = restored(&from, place, &args).await;
    from.store.close().await;
    print_report(&carried?)
}

async fn restored(
    from: &TransferEndpoint,
    place: &CliEnvironment,
    args: &RestoreArgs,
) -> Outcome<TransferReport> {
    let to = depot(place, args.db.as_deref(), args.blobs.as_deref(), EndpointAccess::Write).await?;
    let carried = match has_others(from, &to).await {
        Ok(false) => carry_all(from, &to, TransferConflictPolicy::Kept).await,
        Ok(true) => Err(CommandError::new(format!(
            "there are other sessions in {} already: restore into an empty place, for example with --data-dir DIR",
            to.name
        ))),
        Err(error) => Err(error),
    };
    to.store.close().await;
    carried
}

/// Returns whether the target has sessions that the backup lacks. Sessions of an interrupted try may be there.
async fn has_others(from: &TransferEndpoint, to: &TransferEndpoint) -> Outcome<bool> {
    let ours = from.sessions.created().await?;
    Ok(to.sessions.created().await?.iter().any(|id| !ours.contains(id)))
}

/// Checks the existence of the blobs' source, if the source is a folder.
fn check_folder(blobs: Option<&str>) -> Outcome<()> {
    // A blob store would make a missing folder, and every blob would then be missing in it.
    match blobs.map(|named| named.strip_prefix("file://").unwrap_or(named)) {
        Some(folder) if !folder.contains("://") && !Path::new(folder).is_dir() => {
            Err(CommandError::usage(format!("--blobs {folder}: there is no such folder")))
        }
        _ => Ok(()),
    }
}

/// Opens the database, or without one the data folder.
async fn depot(
    place: &CliEnvironment,
    db: Option<&str>,
    blobs: Option<&str>,
    used: EndpointAccess,
) -> Outcome<TransferEndpoint> {
    let Some(db) = db else { return folder(place, &place.data_dir, used).await };
    let max_bytes = agent_file::load(place)?.config.blobs.max_bytes;
    let shared = SharedStoreConfig {
        db: db.to_owned(),
        address: None,
        token_digest: None,
        blobs: blobs.map(str::to_owned),
    };
    let (data, sessions) = data::shared::open_whole(place, &shared, max_bytes).await?;
    // A password may stand in front of the `@`.
    let name = db.rsplit_once('@').map_or("the database", |(_, behind)| behind).to_owned();
    Ok(TransferEndpoint { name, sessions, store: data.store, blobs: data.blobs, nodes: data.nodes })
}

async fn folder(place: &CliEnvironment, folder: &Path, used: EndpointAccess) -> Outcome<TransferEndpoint> {
    let max_bytes = agent_file::load(place)?.config.blobs.max_bytes;
    let store = match used {
        EndpointAccess::Read => {
            data::check_readable(folder)?;
            SqliteStore::open_to_read(folder).await.map_err(|error| match error {
                StoreError::NotFound(_) => no_database(&place.shown(folder)),
                other => CommandError::from(other),
            })?
        }
        EndpointAccess::Write => {
            data::make_private(folder)?;
            SqliteStore::open(folder).await?
        }
    };
    let store = Arc::new(store);
    let below = folder.join("blobs");
    let blobs = match used {
        EndpointAccess::Write => BlobStore::local(&below, max_bytes)?,
        EndpointAccess::Read if below.is_dir() => BlobStore::local_to_read(&below, max_bytes)?,
        // A local blob store would make its folder, and reading must not write.
        EndpointAccess::Read => BlobStore::in_memory(max_bytes),
    };
    let name = place.shown(folder);
    Ok(TransferEndpoint { name, sessions: Arc::clone(&store) as _, store, blobs, nodes: None })
}

fn no_database(folder: &str) -> CommandError {
    CommandError::usage(format!("there is no database in {folder}: name the data folder with --data-dir"))
}

/// Returns whether other processes have the database open.
async fn others(depot: &TransferEndpoint) -> Outcome<bool> {
    match &depot.nodes {
        // This process has joined as a node, too.
        Some(nodes) => Ok(nodes.nodes().await?.len() > 1),
        None => Ok(false),
    }
}

fn print_report(carried: &TransferReport) -> Outcome {
    let TransferReport { sessions, known, events, blobs, from, to, .. } = carried;
    let known = match known {
        0 => String::new(),
        1 => "; 1 was there already, and is the same".to_owned(),
        known => format!("; {known} were there already, and are the same"),
    };
    out::print_line(&format!(
        "{} with {} and {} from {from} to {to}, each read again there and compared{known}",
        count(*sessions, "session"),
        count(*events, "event"),
        count(*blobs, "blob"),
    ))?;
    Ok(DONE)
}

/// The treatment of a session whose name the target already has for another session.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TransferConflictPolicy {
    /// The target's session stays: an error.
    Kept,
    /// The target's session is replaced: the place is this backup's own.
    Renewed,
}

async fn carry_all(
    from: &TransferEndpoint,
    to: &TransferEndpoint,
    known: TransferConflictPolicy,
) -> Outcome<TransferReport> {
    let mut carried =
        TransferReport { from: from.name.clone(), to: to.name.clone(), ..TransferReport::default() };
    for id in from.sessions.created().await? {
        let copy = match from.sessions.export(&id).await {
            Ok(copy) => copy,
            // The session was deleted after the list was read.
            Err(StoreError::NotFound(_)) => {
                tracing::debug!(session = %id, "deleted meanwhile, so it is not carried");
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        carry_one(from, to, &copy, known, &mut carried).await?;
        carried.reached.insert(id, SessionTransferState::of(copy));
    }
    to.sessions.import_memo(&from.sessions.export_memo().await?).await?;
    Ok(carried)
}

/// Carries a session. Blobs go before the log with their names.
async fn carry_one(
    from: &TransferEndpoint,
    to: &TransferEndpoint,
    copy: &SessionCopy,
    known: TransferConflictPolicy,
    carried: &mut TransferReport,
) -> Outcome<()> {
    for (blob, _) in &copy.blobs {
        let content = from.blobs.get(blob).await.map_err(|error| unread(from, &copy.id, error))?;
        to.blobs.put(content).await?;
    }
    let mut done = import_verified_copy(copy, &*to.sessions).await;
    if let Err(StoreError::Conflict(_)) = done {
        let there = to.sessions.export(&copy.id).await?;
        // An interrupted transfer is begun again, so what it has carried counts as carried.
        if copy.says_the_same(&there) {
            tracing::debug!(session = %copy.id, "the session is there already, event for event");
            carried.known += 1;
            return Ok(());
        }
        if known == TransferConflictPolicy::Kept {
            return Err(another(from, to, copy, &there));
        }
        tracing::debug!(session = %copy.id, "the backup's older copy is replaced");
        // The source still has all of the session, so a copy that is lost in between is carried again.
        to.store.delete(&copy.id).await?;
        done = import_verified_copy(copy, &*to.sessions).await;
    }
    done?;
    carried.sessions += 1;
    carried.events += copy.events.len() as u64;
    carried.blobs += copy.blobs.len() as u64;
    tracing::debug!(session = %copy.id, events = copy.events.len(), blobs = copy.blobs.len(), "a session is carried");
    Ok(())
}

/// Returns the error for an unreadable blob, with the place where a database's blobs may be.
fn unread(from: &TransferEndpoint, id: &SessionId, error: BlobError) -> CommandError {
    match (error, &from.nodes) {
        (BlobError::NotFound(hash), Some(_)) => CommandError::usage(format!(
            "an image or a long output of session {id} was not found ({hash}): name the folder or bucket of the nodes of \
             {} with --blobs, as for `serve`",
            from.name
        )),
        (BlobError::NotFound(hash), None) => CommandError::new(format!(
            "an image or a long output of session {id} is missing in {} ({hash}). The copy is incomplete: the \
             sessions that were copied before are kept",
            from.name
        )),
        (error, _) => error.into(),
    }
}

/// Returns the error for an existing session of the same name, with the state of both and the remedy.
fn another(
    from: &TransferEndpoint,
    to: &TransferEndpoint,
    copy: &SessionCopy,
    there: &SessionCopy,
) -> CommandError {
    let (old, new, id) = (&there.events, &copy.events, &copy.id);
    let became = match (new.starts_with(old), old.starts_with(new)) {
        (true, true) => "they differ in waiting messages or requests".to_owned(),
        (true, false) => format!("it was continued in {} since the last copy", from.name),
        (false, true) => format!("it was continued in {} since the last copy", to.name),
        (false, false) => "both were continued".to_owned(),
    };
    let delete = match &to.nodes {
        Some(_) => format!("DELETE /api/sessions/{id} at a node"),
        None => format!("longhaul sessions delete {id}"),
    };
    CommandError::new(format!(
        "session {id} exists in {} already and differs: {} there, {} in {}; {became}. Both are unchanged. Copy into \
         {}, or first delete the session there ({delete})",
        to.name,
        count(old.len() as u64, "event"),
        count(new.len() as u64, "event"),
        from.name,
        to.empty(),
    ))
}

/// Reports whether the source changed during the transfer. The later messages were then left behind.
async fn went_on(from: &TransferEndpoint, carried: &TransferReport) -> Outcome<bool> {
    let now = from.sessions.created().await?;
    if now.len() != carried.reached.len() {
        return Ok(true);
    }
    for id in now {
        // A message may be new without a new session, so positions and queues are compared.
        let (last_seq, queue) = (from.store.session(&id).await?.last_seq, from.store.queue(&id).await?);
        if !carried.reached.get(&id).is_some_and(|reached| reached.is(last_seq, &queue)) {
            return Ok(true);
        }
    }
    Ok(false)
}
