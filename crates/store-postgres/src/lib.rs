//! The shared store: PostgreSQL, any number of nodes, nothing else to run.
//!
//! - The database is the only truth. An append is one statement: the statement checks owner and epoch, advances
//!   the session's positions, and inserts the events. The append is acknowledged after the flush.
//! - Each process is a node with a lease, on the clock of the database. A session belongs to a node for the
//!   node's lifetime. Each claim raises the session's epoch, and a write of an older epoch is refused.
//! - A node without a renewal stops by itself before the lease ends, and joins again under another name.
//! - A dead connection is replaced. A call without an answer is made again and finds the effect of the first
//!   attempt, so no write is done twice.
//! - Nodes hear from each other through `NOTIFY`, and also poll in case a notification was lost.
//!
//! With a standby, `synchronous_commit` and `synchronous_standby_names` decide what a failover may lose. Without
//! synchronous replication a failover may lose the newest acknowledged writes.

mod cluster_membership;
mod encoded;
mod error;
mod leased_session;
mod notifier;
mod open;
mod operation;
mod operations;
mod options;
mod prefix_cache;
mod store;
mod store_maintenance;
mod text;
mod transfer;
mod trust;

pub use crate::options::PostgresOptions;
pub use crate::prefix_cache::PostgresPrefixCache;
pub use crate::store::PostgresStore;
