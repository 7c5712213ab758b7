//! The statements for the database, one type for each operation.

pub(crate) mod chunk;
pub(crate) mod inbox;
pub(crate) mod lease;
pub(crate) mod log;
pub(crate) mod node;
pub(crate) mod prefix_cache;
pub(crate) mod read;
pub(crate) mod request;
pub(crate) mod session;
pub(crate) mod signal;
pub(crate) mod store_maintenance;
