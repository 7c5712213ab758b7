//! `longhaul migrate`, `backup` and `restore`: all sessions carried from one place to another, each one read again there
//! and compared.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use longhaul_core::ids::SessionId;
use longhaul_store::transfer::carry_copy;
use longhaul_store::{Blobs, SessionCopy, SharedNodes, SharedStore, StoreError, Transfer, flush_folder};
use longhaul_store_sqlite::SqliteStore;

use crate::agent_file;
use crate::args::{BackupArgs, MigrateArgs};
use crate::data::{self, shared::Shared};
use crate::failure::{DONE, Failure, Outcome};
use crate::place::Place;
use crate::term::human::count;
use crate::term::out;

/// Says in a folder that a backup was begun there.
const BEGUN: &str = "backup-begun";

/// Says that it is complete.
const COMPLETE: &str = "backup-complete";

/// A place with sessions.
struct Depot {
    /// As it is called.
    name: String,
    sessions: Arc<dyn Transfer>,
    store: SharedStore,
    blobs: Blobs,
    nodes: Option<SharedNodes>,
}

/// What may be done at a place.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    Read,
    Write,
}

/// What was carried.
#[derive(Default)]
struct Carried {
    from: String,
    to: String,
    /// How far the log of each session came.
    newest: BTreeMap<SessionId, u64>,
    sessions: u64,
    known: u64,
    events: u64,
    blobs: u64,
}

/// From the data folder into a database, or back.
pub(crate) async fn migrate(args: MigrateArgs, place: &Place) -> Outcome {
    let (from, to) = match (&args.from, &args.to) {
        (None, Some(to)) => (None, Some(to.as_str())),
        (Some(from), None) => (Some(from.as_str()), None),
        _ => {
            return Err(Failure::usage(
                "name one database: --to URL carries the data folder there, --from URL back",
            ));
        }
    };
    if to.is_some() && SqliteStore::is_in_use(&place.data_dir) {
        let folder = place.shown(&place.data_dir);
        return Err(Failure::new(format!(
            "the data folder {folder} is in use: end that longhaul first, so that nothing is said there that would stay behind"
        )));
    }
    // For itself, until all is there: nobody says anything meanwhile that would stay behind.
    let from = depot(place, from, args.blobs.as_deref(), Use::Write).await?;
    if others(&from).await? {
        from.store.close().await;
        return Err(Failure::new(
            "nodes still serve that database: end them first, so that nothing is left behind (one that was killed counts for 10 s)",
        ));
    }
    let to = depot(place, to, args.blobs.as_deref(), Use::Write).await?;
    let mut carried = carry_all(&from, &to, Known::Kept).await;
    if let Ok(done) = &carried
        && (others(&from).await? || went_on(&from, done).await?)
    {
        carried = Err(Failure::new(format!(
            "something was said in {} meanwhile, and is not in {}: end what serves it there, and migrate again",
            from.name, to.name
        )));
    }
    tell(&end(from, to, carried).await?)
}

/// Into a folder of its own. One that was interrupted is begun again there.
pub(crate) async fn backup(args: BackupArgs, place: &Place) -> Outcome {
    let has_files = std::fs::read_dir(&args.folder).is_ok_and(|mut entries| entries.next().is_some());
    if args.folder.join(COMPLETE).exists() || (has_files && !args.folder.join(BEGUN).exists()) {
        return Err(Failure::usage(format!("{} is not empty", args.folder.display())));
    }
    let from = depot(place, args.db.as_deref(), args.blobs.as_deref(), Use::Read).await?;
    data::make_private(&args.folder)?;
    std::fs::write(args.folder.join(BEGUN), "")?;
    let to = folder(place, &args.folder, Use::Write).await?;
    let carried = carry_all(&from, &to, Known::Renewed).await;
    let carried = end(from, to, carried).await?;
    // Only now it is a backup.
    std::fs::rename(args.folder.join(BEGUN), args.folder.join(COMPLETE))?;
    flush_folder(&args.folder)?;
    tell(&carried)
}

/// From a folder that `backup` made, to where no other sessions are.
pub(crate) async fn restore(args: BackupArgs, place: &Place) -> Outcome {
    let name = args.folder.display();
    if args.folder.join(BEGUN).exists() {
        return Err(Failure::usage(format!(
            "the backup in {name} was interrupted: `backup` it again, or take another one"
        )));
    }
    if !args.folder.join(COMPLETE).exists() {
        return Err(Failure::usage(format!("{name} holds no backup")));
    }
    let from = folder(place, &args.folder, Use::Read).await?;
    let to = depot(place, args.db.as_deref(), args.blobs.as_deref(), Use::Write).await?;
    // Those of a try that was interrupted may be there.
    let ours = from.sessions.created().await?;
    if to.sessions.created().await?.iter().any(|id| !ours.contains(id)) {
        let name = to.name.clone();
        to.store.close().await;
        return Err(Failure::new(format!(
            "there are other sessions in {name} already: restore into an empty place, for example with --data-dir DIR"
        )));
    }
    let carried = carry_all(&from, &to, Known::Kept).await;
    tell(&end(from, to, carried).await?)
}

/// The database, or without one the data folder.
async fn depot(place: &Place, db: Option<&str>, blobs: Option<&str>, used: Use) -> Outcome<Depot> {
    let Some(db) = db else { return folder(place, &place.data_dir, used).await };
    let max_bytes = agent_file::load(place)?.config.blobs.max_bytes;
    let shared = Shared { db: db.to_owned(), address: None, blobs: blobs.map(str::to_owned) };
    let (data, sessions) = data::shared::open_whole(place, &shared, max_bytes).await?;
    // A password may stand in front of the `@`.
    let name = db.rsplit_once('@').map_or("the database", |(_, behind)| behind).to_owned();
    Ok(Depot { name, sessions, store: data.store, blobs: data.blobs, nodes: data.nodes })
}

async fn folder(place: &Place, folder: &Path, used: Use) -> Outcome<Depot> {
    let max_bytes = agent_file::load(place)?.config.blobs.max_bytes;
    let store = match used {
        Use::Read => SqliteStore::open_to_read(folder).await?,
        Use::Write => {
            data::make_private(folder)?;
            SqliteStore::open(folder).await?
        }
    };
    let store = Arc::new(store);
    let below = folder.join("blobs");
    let blobs = match used == Use::Write || below.is_dir() {
        true => Blobs::local(&below, max_bytes)?,
        false => Blobs::in_memory(max_bytes),
    };
    let name = place.shown(folder);
    Ok(Depot { name, sessions: Arc::clone(&store) as _, store, blobs, nodes: None })
}

/// Whether other processes have the database open.
async fn others(depot: &Depot) -> Outcome<bool> {
    match &depot.nodes {
        Some(nodes) => Ok(nodes.nodes().await?.len() > 1),
        None => Ok(false),
    }
}

/// Closes both.
async fn end(from: Depot, to: Depot, carried: Outcome<Carried>) -> Outcome<Carried> {
    from.store.close().await;
    to.store.close().await;
    carried
}

fn tell(carried: &Carried) -> Outcome {
    let Carried { sessions, known, events, blobs, from, to, .. } = carried;
    let known = match known {
        0 => String::new(),
        known => format!("; {known} were there already, and are the same"),
    };
    out::line(&format!(
        "{} with {} and {} from {from} to {to}, each read again there and compared{known}",
        count(*sessions, "session"),
        count(*events, "event"),
        count(*blobs, "blob"),
    ))?;
    Ok(DONE)
}

/// What becomes of a session that is there already and is another one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Known {
    /// It stays, and that is an error.
    Kept,
    /// It gives way: the place is this backup's own.
    Renewed,
}

async fn carry_all(from: &Depot, to: &Depot, known: Known) -> Outcome<Carried> {
    let mut carried = Carried { from: from.name.clone(), to: to.name.clone(), ..Carried::default() };
    for id in from.sessions.created().await? {
        let copy = match from.sessions.export(&id).await {
            Ok(copy) => copy,
            // Deleted since.
            Err(StoreError::NotFound(_)) => continue,
            Err(error) => return Err(error.into()),
        };
        carry_one(from, to, &copy, known, &mut carried).await?;
        carried.newest.insert(id, copy.events.len() as u64);
    }
    to.sessions.import_memo(&from.sessions.export_memo().await?).await?;
    Ok(carried)
}

/// Blobs before the log that names them.
async fn carry_one(
    from: &Depot,
    to: &Depot,
    copy: &SessionCopy,
    known: Known,
    carried: &mut Carried,
) -> Outcome<()> {
    for (blob, _) in &copy.blobs {
        to.blobs.put(from.blobs.get(blob).await?).await?;
        carried.blobs += 1;
    }
    let mut done = carry_copy(copy, &*to.sessions).await;
    if let Err(StoreError::Conflict(_)) = done {
        if to.sessions.export(&copy.id).await?.digest() == copy.digest() {
            carried.known += 1;
            return Ok(());
        }
        if known == Known::Renewed {
            to.store.delete(&copy.id).await?;
            done = carry_copy(copy, &*to.sessions).await;
        }
    }
    match done {
        Ok(_) => {
            carried.sessions += 1;
            carried.events += copy.events.len() as u64;
            Ok(())
        }
        Err(StoreError::Conflict(_)) => Err(Failure::new(format!(
            "session {} is in {} already, and is another one there: nothing of it was changed",
            copy.id, to.name
        ))),
        Err(error) => Err(error.into()),
    }
}

/// Whether something was said at the source while it was carried: then that stayed behind.
async fn went_on(from: &Depot, carried: &Carried) -> Outcome<bool> {
    let now = from.sessions.created().await?;
    if now.len() != carried.newest.len() {
        return Ok(true);
    }
    for id in now {
        if carried.newest.get(&id) != Some(&from.store.session(&id).await?.last_seq) {
            return Ok(true);
        }
    }
    Ok(false)
}
