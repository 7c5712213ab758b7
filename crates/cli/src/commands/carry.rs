//! `longhaul migrate`, `backup` and `restore`: all sessions carried from one place to another, each one read again there
//! and compared.

use std::path::Path;
use std::sync::Arc;

use longhaul_store::transfer::carry;
use longhaul_store::{Blobs, SharedNodes, SharedStore, StoreError, Transfer};
use longhaul_store_sqlite::SqliteStore;

use crate::agent_file;
use crate::args::{BackupArgs, MigrateArgs};
use crate::data::{self, shared::Shared};
use crate::failure::{DONE, Failure, Outcome};
use crate::place::Place;
use crate::term::human::count;
use crate::term::out;

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
    let from = depot(place, from, args.blobs.as_deref(), Use::Read).await?;
    if from.nodes.is_some() && others(&from).await? {
        from.store.close().await;
        return Err(Failure::new(
            "nodes still serve that database: end them first, so that nothing is left behind",
        ));
    }
    let to = depot(place, to, args.blobs.as_deref(), Use::Write).await?;
    all(from, to).await
}

/// Into an empty folder.
pub(crate) async fn backup(args: BackupArgs, place: &Place) -> Outcome {
    let is_taken = std::fs::read_dir(&args.folder).is_ok_and(|mut entries| entries.next().is_some());
    if is_taken {
        return Err(Failure::usage(format!("{} is not empty", args.folder.display())));
    }
    let from = depot(place, args.db.as_deref(), args.blobs.as_deref(), Use::Read).await?;
    let to = folder(place, &args.folder, Use::Write).await?;
    all(from, to).await
}

/// From a folder that `backup` made, to where no sessions are.
pub(crate) async fn restore(args: BackupArgs, place: &Place) -> Outcome {
    if !args.folder.join("longhaul.db").exists() {
        return Err(Failure::usage(format!("{} holds no backup", args.folder.display())));
    }
    let from = folder(place, &args.folder, Use::Read).await?;
    let to = depot(place, args.db.as_deref(), args.blobs.as_deref(), Use::Write).await?;
    if !to.sessions.created().await?.is_empty() {
        let name = to.name.clone();
        to.store.close().await;
        return Err(Failure::new(format!(
            "there are sessions in {name} already: restore into an empty place, for example with --data-dir DIR"
        )));
    }
    all(from, to).await
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

async fn all(from: Depot, to: Depot) -> Outcome {
    let carried = carry_all(&from, &to).await;
    from.store.close().await;
    to.store.close().await;
    let Carried { sessions, known, events, blobs } = carried?;
    let known = match known {
        0 => String::new(),
        known => format!("; {known} were there already, and are the same"),
    };
    out::line(&format!(
        "{} with {} and {} from {} to {}, each read again there and compared{known}",
        count(sessions, "session"),
        count(events, "event"),
        count(blobs, "blob"),
        from.name,
        to.name,
    ))?;
    Ok(DONE)
}

/// Blobs before the log that names them.
async fn carry_all(from: &Depot, to: &Depot) -> Outcome<Carried> {
    let mut carried = Carried::default();
    for id in from.sessions.created().await? {
        for blob in from.store.blobs(&id).await? {
            to.blobs.put(from.blobs.get(&blob).await?).await?;
            carried.blobs += 1;
        }
        match carry(&*from.sessions, &*to.sessions, &id).await {
            Ok(_) => carried.sessions += 1,
            // Of a try that was interrupted; what went on since is not written over.
            Err(StoreError::Conflict(_)) => {
                let (here, there) = (from.sessions.export(&id).await?, to.sessions.export(&id).await?);
                if here.digest() != there.digest() {
                    return Err(Failure::new(format!(
                        "session {id} is in {} already, and is another one there: nothing of it was changed",
                        to.name
                    )));
                }
                carried.known += 1;
            }
            Err(error) => return Err(error.into()),
        }
        carried.events += from.store.session(&id).await?.last_seq;
    }
    to.sessions.import_memo(&from.sessions.export_memo().await?).await?;
    Ok(carried)
}
