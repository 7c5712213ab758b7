//! Content addressed by its hash: images, files, and tool outputs too long for the model.
//!
//! A blob is stored before the event that names it, so a name in a log always resolves. Equal content is
//! stored once, whoever sends it; whether a session may read a blob is decided by its log
//! ([`Store::blobs`](crate::Store::blobs)), never by knowing the hash.

mod named;
mod staging;

use std::collections::HashSet;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures_util::StreamExt;
use longhaul_core::message::BlobRef;
use object_store::local::LocalFileSystem;
use object_store::memory::InMemory;
use object_store::{ObjectStore, ObjectStoreExt, PutMode, PutOptions, path::Path as Key};

pub use self::named::{blob_hashes, blob_refs};
use crate::durable::flush_folder;

/// The folder that all keys begin with.
const TOP: &str = "blob";

/// Content of this size or more is hashed off the async executor, in bytes.
const LARGE_BYTES: usize = 256 * 1024;

/// A store of blobs. Cheap to clone; clones share the content.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), longhaul_store::BlobError> {
/// let blobs = longhaul_store::Blobs::in_memory(1024);
/// let blob = blobs.put("hello").await?;
/// assert_eq!(blobs.get(&blob).await?, "hello");
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Blobs {
    objects: Arc<dyn ObjectStore>,
    /// Where they are, if they are files.
    folder: Option<Arc<Path>>,
    max_bytes: u64,
}

/// Why a blob could not be stored or read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BlobError {
    /// No blob has this hash.
    #[error("no blob {0}")]
    NotFound(String),
    /// The content is larger than a blob may be.
    #[error("{bytes} bytes are more than a blob may have ({limit})")]
    TooLarge {
        /// Size of the content, in bytes.
        bytes: u64,
        /// The limit, in bytes.
        limit: u64,
    },
    /// The text is not a BLAKE3 hash: 64 lower-case hexadecimal digits.
    #[error("not a blob hash: {0:?}")]
    BadHash(String),
    /// What is stored is not what was put in.
    #[error("blob {0} is damaged")]
    Damaged(String),
    /// The range does not lie inside the content.
    #[error("bytes {}..{} are outside blob {hash}", .range.start, .range.end)]
    OutOfRange {
        /// The blob.
        hash: String,
        /// The range asked for, in bytes.
        range: Range<u64>,
    },
    /// The disk or the service failed.
    #[error("blob storage failed: {0}")]
    Storage(String),
}

impl Blobs {
    /// Blobs under `folder` (created if missing), flushed to disk before [`Blobs::put`] answers.
    /// `max_bytes` is the largest size of one blob.
    ///
    /// # Errors
    /// [`BlobError::Storage`] if the folder cannot be used.
    pub fn local(folder: &Path, max_bytes: u64) -> Result<Self, BlobError> {
        let failed = |error: io::Error| BlobError::Storage(format!("{}: {error}", folder.display()));
        std::fs::create_dir_all(folder.join(TOP)).map_err(failed)?;
        let folder = folder.canonicalize().map_err(failed)?;
        // The names of both folders.
        folder.parent().into_iter().chain([folder.as_path()]).try_for_each(flush_folder).map_err(failed)?;
        let objects = LocalFileSystem::new_with_prefix(&folder)
            .map_err(|error| BlobError::Storage(error.to_string()))?
            .with_fsync(true);
        Ok(Self { folder: Some(folder.into()), ..Self::new(Arc::new(objects), max_bytes) })
    }

    /// Blobs that live as long as the process.
    pub fn in_memory(max_bytes: u64) -> Self {
        Self::new(Arc::new(InMemory::new()), max_bytes)
    }

    /// Blobs in any object store that can create without overwriting.
    pub fn new(objects: Arc<dyn ObjectStore>, max_bytes: u64) -> Self {
        Self { objects, folder: None, max_bytes }
    }

    /// Stores content, durably. Storing it again changes nothing and succeeds.
    ///
    /// # Errors
    /// [`BlobError::TooLarge`]; [`BlobError::Storage`].
    pub async fn put(&self, content: impl Into<Bytes>) -> Result<BlobRef, BlobError> {
        let content = content.into();
        let bytes = content.len() as u64;
        if bytes > self.max_bytes {
            return Err(BlobError::TooLarge { bytes, limit: self.max_bytes });
        }
        let hash = hash_of(content.clone()).await?;
        let key = key_of(&hash)?;
        let create = PutOptions::from(PutMode::Create);
        match self.objects.put_opts(&key, content.clone().into(), create).await {
            Ok(_) => {}
            Err(object_store::Error::AlreadyExists { .. }) => self.repair(&key, content).await?,
            Err(error) => return Err(storage(&hash, &error)),
        }
        self.keep_name(&hash).await?;
        Ok(BlobRef { hash, bytes })
    }

    /// Removes every blob but those in `named`, if nobody has touched it for `age`, and says how many they were and
    /// how many bytes. Only who has the blobs for itself may call it: what somebody stores meanwhile could go.
    ///
    /// # Errors
    /// [`BlobError::Storage`]; what was not removed does no harm.
    pub async fn keep_only(&self, named: &HashSet<String>, age: Duration) -> Result<(usize, u64), BlobError> {
        let failed = |error| storage(TOP, &error);
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let oldest = now.saturating_sub(age).as_secs().cast_signed();
        let mut listed = self.objects.list(Some(&Key::from(TOP)));
        let mut gone = Vec::new();
        while let Some(object) = listed.next().await {
            let object = object.map_err(failed)?;
            let is_named = object.location.filename().is_some_and(|hash| named.contains(hash));
            if !is_named && object.last_modified.timestamp() < oldest {
                gone.push((object.location, object.size));
            }
        }
        for (location, _) in &gone {
            self.objects.delete(location).await.map_err(failed)?;
        }
        Ok((gone.len(), gone.iter().map(|(_, size)| size).sum()))
    }

    /// Removes what killed processes left half written, and says how many files that were. Only who has the folder
    /// for itself may call it: a write that is under way would lose its file.
    ///
    /// # Errors
    /// [`BlobError::Storage`]; what was not removed does no harm.
    pub async fn sweep(&self) -> Result<usize, BlobError> {
        let Some(folder) = &self.folder else { return Ok(0) };
        let top = folder.join(TOP);
        let swept = tokio::task::spawn_blocking(move || staging::sweep(&top)).await;
        let swept = swept.map_err(|error| BlobError::Storage(error.to_string()))?;
        swept.map_err(|error| BlobError::Storage(error.to_string()))
    }

    /// Flushes the name of a blob and of its folder, whoever made them: a process that was killed, or somebody
    /// who puts the same content right now.
    async fn keep_name(&self, hash: &str) -> Result<(), BlobError> {
        let Some(folder) = &self.folder else { return Ok(()) };
        let top = folder.join(TOP);
        let below = top.join(&hash[..2]);
        let flushed =
            tokio::task::spawn_blocking(move || flush_folder(&below).and_then(|()| flush_folder(&top))).await;
        let flushed = flushed.map_err(|error| BlobError::Storage(error.to_string()))?;
        flushed.map_err(|error| BlobError::Storage(error.to_string()))
    }

    /// Replaces a stored object whose length is not the content's.
    async fn repair(&self, key: &Key, content: Bytes) -> Result<(), BlobError> {
        let failed = |error| storage(key.as_ref(), &error);
        if self.objects.head(key).await.map_err(failed)?.size != content.len() as u64 {
            self.objects.put(key, content.into()).await.map_err(failed)?;
        }
        Ok(())
    }

    /// The content of a blob, checked against its hash.
    ///
    /// # Errors
    /// [`BlobError::NotFound`]; [`BlobError::BadHash`]; [`BlobError::Damaged`]; [`BlobError::Storage`].
    pub async fn get(&self, blob: &BlobRef) -> Result<Bytes, BlobError> {
        self.get_by_hash(&blob.hash).await
    }

    /// As [`Blobs::get`], where only the hash is known.
    ///
    /// # Errors
    /// As [`Blobs::get`].
    pub async fn get_by_hash(&self, hash: &str) -> Result<Bytes, BlobError> {
        let key = key_of(hash)?;
        let failed = |error| storage(hash, &error);
        let content = self.objects.get(&key).await.map_err(failed)?.bytes().await.map_err(failed)?;
        if hash_of(content.clone()).await? != hash {
            return Err(BlobError::Damaged(hash.to_owned()));
        }
        Ok(content)
    }

    /// Part of a blob: `range` in bytes. The hash of the whole is not checked.
    ///
    /// # Errors
    /// [`BlobError::OutOfRange`]; otherwise as [`Blobs::get`].
    pub async fn get_range(&self, blob: &BlobRef, range: Range<u64>) -> Result<Bytes, BlobError> {
        let key = key_of(&blob.hash)?;
        if range.start > range.end || range.end > blob.bytes {
            return Err(BlobError::OutOfRange { hash: blob.hash.clone(), range });
        }
        if range.is_empty() {
            return Ok(Bytes::new());
        }
        let wanted = range.end - range.start;
        let part = self.objects.get_range(&key, range).await.map_err(|error| storage(&blob.hash, &error))?;
        if part.len() as u64 != wanted {
            return Err(BlobError::Damaged(blob.hash.clone()));
        }
        Ok(part)
    }
}

async fn hash_of(content: Bytes) -> Result<String, BlobError> {
    if content.len() < LARGE_BYTES {
        return Ok(blake3::hash(&content).to_hex().to_string());
    }
    tokio::task::spawn_blocking(move || blake3::hash(&content).to_hex().to_string())
        .await
        .map_err(|error| BlobError::Storage(error.to_string()))
}

/// `blob/<2 hex>/<hash>`. Only a true hash becomes part of a path.
fn key_of(hash: &str) -> Result<Key, BlobError> {
    let digits = hash.bytes().filter(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')).count();
    if digits != 64 || hash.len() != 64 {
        return Err(BlobError::BadHash(hash.chars().take(80).collect()));
    }
    Ok(Key::from(format!("{TOP}/{}/{hash}", &hash[..2])))
}

fn storage(hash: &str, error: &object_store::Error) -> BlobError {
    match error {
        object_store::Error::NotFound { .. } => BlobError::NotFound(hash.to_owned()),
        other => BlobError::Storage(other.to_string()),
    }
}

#[cfg(test)]
mod tests;
