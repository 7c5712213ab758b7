//! A store that several processes share, for `serve --db`.

use std::sync::Arc;

use longhaul_store::SessionTransfer;
#[cfg(feature = "postgres")]
use longhaul_store::{BlobError, BlobStore};

use super::DataStores;
use crate::environment::CliEnvironment;
use crate::failure::{CommandError, Outcome};

/// The time for which an unresponsive bucket is tried again.
#[cfg(feature = "postgres")]
const BUCKET_PATIENCE: std::time::Duration = std::time::Duration::from_secs(15);

/// The place where several processes share their sessions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SharedStoreConfig {
    /// The database.
    pub(crate) db: String,
    /// The address of this process for other nodes.
    pub(crate) address: Option<String>,
    /// The digest of the token that the nodes have. A mere transfer of sessions does not know it.
    pub(crate) token_digest: Option<String>,
    /// The place of the blobs, if it is not in this machine's data folder.
    pub(crate) blobs: Option<String>,
}

/// Opens the database and joins its nodes. The data folder keeps the node's own token and settings.
///
/// # Errors
/// The database or the blobs cannot be used.
#[cfg(feature = "postgres")]
pub(crate) async fn open(
    place: &CliEnvironment,
    shared: &SharedStoreConfig,
    max_blob_bytes: u64,
) -> Outcome<DataStores> {
    open_whole(place, shared, max_blob_bytes).await.map(|(data, _)| data)
}

/// Opens the store, and its transfer of whole sessions.
///
/// # Errors
/// The errors of [`open`].
#[cfg(feature = "postgres")]
pub(crate) async fn open_whole(
    place: &CliEnvironment,
    shared: &SharedStoreConfig,
    max_blob_bytes: u64,
) -> Outcome<(DataStores, Arc<dyn SessionTransfer>)> {
    use longhaul_store::PrefixCacheLimits;
    use longhaul_store_postgres::{PostgresOptions, PostgresPrefixCache, PostgresStore};

    let is_postgres = ["postgres://", "postgresql://"].iter().any(|scheme| shared.db.starts_with(scheme));
    if !is_postgres {
        return Err(CommandError::usage(format!(
            "{} is not the address of a PostgreSQL: postgres://USER@HOST/DATABASE",
            shared.db
        )));
    }
    super::make_private(&place.data_dir)?;
    // The blobs come first: a fault there must not leave a node in the database.
    let blobs = blobs(place, shared, max_blob_bytes).await?;
    let store = PostgresStore::open(
        &shared.db,
        PostgresOptions {
            address: shared.address.clone(),
            token_digest: shared.token_digest.clone(),
            ..PostgresOptions::default()
        },
    )
    .await?;
    // The address of the database may hold a password, so it is not logged.
    tracing::debug!(address = shared.address.as_deref(), "the shared database is open");
    let store = Arc::new(store);
    let memo = Arc::new(PostgresPrefixCache::new(Arc::clone(&store), PrefixCacheLimits::default()));
    let data = DataStores {
        nodes: Some(Arc::clone(&store) as _),
        upkeep: Some(Arc::clone(&store) as _),
        store: Arc::clone(&store) as _,
        memo,
        blobs,
    };
    Ok((data, store))
}

/// Refuses the database: this build has no PostgreSQL.
///
/// # Errors
/// Always.
#[cfg(not(feature = "postgres"))]
pub(crate) async fn open(
    place: &CliEnvironment,
    shared: &SharedStoreConfig,
    max_blob_bytes: u64,
) -> Outcome<DataStores> {
    open_whole(place, shared, max_blob_bytes).await.map(|(data, _)| data)
}

/// Refuses the database and its transfer: this build has no PostgreSQL.
///
/// # Errors
/// Always.
#[cfg(not(feature = "postgres"))]
pub(crate) async fn open_whole(
    _: &CliEnvironment,
    _: &SharedStoreConfig,
    _: u64,
) -> Outcome<(DataStores, Arc<dyn SessionTransfer>)> {
    Err(CommandError::usage("this longhaul was built without PostgreSQL (feature `postgres`)"))
}

/// Opens the blobs that all nodes share, in a bucket or in a folder.
#[cfg(feature = "postgres")]
async fn blobs(place: &CliEnvironment, shared: &SharedStoreConfig, max_bytes: u64) -> Outcome<BlobStore> {
    use object_store::aws::AmazonS3Builder;
    use object_store::prefix::PrefixStore;
    use object_store::{BackoffConfig, RetryConfig};

    let Some(named) = &shared.blobs else {
        tracing::debug!("blobs are in the data folder");
        // A mere transfer of sessions does not join the nodes.
        if shared.address.is_some() {
            tracing::warn!(
                "blobs are kept in this machine's data folder: a session with images or long outputs cannot go on at \
                 another node that does not share it (--blobs)"
            );
        }
        return Ok(BlobStore::local(&place.data_dir.join("blobs"), max_bytes)?);
    };
    let Some(bucket) = named.strip_prefix("s3://") else {
        let folder = named.strip_prefix("file://").unwrap_or(named);
        if folder.contains("://") {
            return Err(CommandError::usage(format!(
                "--blobs {named}: blobs are in s3://BUCKET/PREFIX or in a folder"
            )));
        }
        return Ok(BlobStore::local(std::path::Path::new(folder), max_bytes)?);
    };
    let (bucket, prefix) = bucket.split_once('/').unwrap_or((bucket, ""));
    if bucket.is_empty() {
        return Err(CommandError::usage(format!("--blobs {named} names no bucket: s3://BUCKET/PREFIX")));
    }
    // A caller waits for the bucket, so the usual three minutes of retries are too long.
    let retry =
        RetryConfig { backoff: BackoffConfig::default(), max_retries: 6, retry_timeout: BUCKET_PATIENCE };
    let objects = AmazonS3Builder::from_env().with_bucket_name(bucket).with_retry(retry).build();
    let objects = objects.map_err(|error| CommandError::usage(format!("--blobs {named}: {error}")))?;
    let blobs = BlobStore::new(Arc::new(PrefixStore::new(objects, prefix)), max_bytes);
    // Checked at the start: otherwise the first long output would show the fault, and be lost.
    match blobs.check().await {
        Ok(()) => Ok(blobs),
        Err(BlobError::Storage(why)) => {
            Err(CommandError::new(format!("--blobs {named} cannot be used: {why}")))
        }
        Err(error) => Err(CommandError::new(format!("--blobs {named} cannot be used: {error}"))),
    }
}
