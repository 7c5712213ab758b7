//! The embedded store: one SQLite file, one process, nothing to administer.
//!
//! - One connection writes. Its task takes all waiting requests (at most 512) into one transaction and
//!   acknowledges them after `COMMIT`, with `synchronous=FULL` in WAL mode: acknowledged writes survive a power
//!   cut, and many writers share one fsync.
//! - A few `query_only` connections read, each from a consistent snapshot, without waiting for the writer.
//! - A data folder belongs to one process at a time (a lock file names the process). Others may read beside it.
//! - After an I/O error while writing nothing more is written: the content of the disk is unknown until the next
//!   start. A full disk is no such error; writing goes on when there is room again.
//!
//! Not for network file systems, where locks and fsync cannot be relied on.

mod durable;
mod error;
mod key;
mod lock;
mod marker;
mod open;
mod prefix_cache;
mod read_only;
mod reader;
mod store;
mod store_maintenance;
mod transfer;
mod wal;
mod writer;

pub use crate::prefix_cache::SqlitePrefixCache;
pub use crate::store::{DataFolderGuard, SqliteStore};
