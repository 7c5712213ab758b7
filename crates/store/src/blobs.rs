//! Content addressed by its hash: images, files, and tool outputs too long for the model.
//!
//! A blob is stored before the event with its name, so a name in a log always resolves. Equal content is stored
//! once for all senders. The log of a session decides which blobs the session may read
//! ([`Store::blobs`](crate::Store::blobs)); knowing the hash is not enough.

#[doc(hidden)]
pub mod conformance;
mod named;
mod staging;
mod unnamed;

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use futures_util::StreamExt;
use longhaul_core::message::BlobRef;
use object_store::local::LocalFileSystem;
use object_store::memory::InMemory;
use object_store::{ObjectStore, ObjectStoreExt, PutMode, PutOptions, path::Path as Key};

pub use self::named::{blob_hashes, blob_refs};
pub use self::unnamed::{BlobSweepReport, ReferencedBlobs, UNTOUCHED};
use crate::durable::flush_folder;

/// The first folder of all keys.
const TOP: &str = "blob";

/// Content of this size or more is hashed off the async executor, in bytes.
const LARGE_BYTES: usize = 256 * 1024;

/// A store of blobs. Cheap to clone; clones share the content.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), longhaul_store::BlobError> {
/// let blobs = longhaul_store::BlobStore::in_memory(1024);
/// let blob = blobs.put("hello").await?;
/// assert_eq!(blobs.get(&blob).await?, "hello");
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct BlobStore {
    objects: Arc<dyn ObjectStore>,
    /// The folder of the blobs, if blobs are files.
    folder: Option<Arc<Path>>,
    max_bytes: u64,
}

/// The reason that a blob could not be stored or read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BlobError {
    /// No blob has the hash.
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
    /// The stored bytes differ from the bytes of the put.
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

impl BlobStore {
    /// Opens the blobs in `folder`, and creates a missing folder. Each blob is flushed to disk before
    /// [`BlobStore::put`] returns. `max_bytes` is the largest size of one blob, in bytes.
    ///
    /// # Errors
    /// [`BlobError::Storage`] if the folder cannot be used.
    pub fn local(folder: &Path, max_bytes: u64) -> Result<Self, BlobError> {
        let folder = make_folder(folder).map_err(|error| folder_error(folder, &error))?;
        Self::in_folder(folder, max_bytes)
    }

    /// Opens the blobs in an existing `folder` for reading. The disk may be read-only.
    ///
    /// # Errors
    /// [`BlobError::Storage`] if there is no such folder.
    pub fn local_to_read(folder: &Path, max_bytes: u64) -> Result<Self, BlobError> {
        let folder = folder.canonicalize().map_err(|error| folder_error(folder, &error))?;
        Self::in_folder(folder, max_bytes)
    }

    fn in_folder(folder: PathBuf, max_bytes: u64) -> Result<Self, BlobError> {
        let objects = LocalFileSystem::new_with_prefix(&folder)
            .map_err(|error| BlobError::Storage(error.to_string()))?
            .with_fsync(true);
        Ok(Self { folder: Some(folder.into()), ..Self::new(Arc::new(objects), max_bytes) })
    }

    /// Creates a store of blobs in the memory of the process.
    pub fn in_memory(max_bytes: u64) -> Self {
        Self::new(Arc::new(InMemory::new()), max_bytes)
    }

    /// Creates a store of blobs in an object store. The object store must be able to create without overwriting.
    pub fn new(objects: Arc<dyn ObjectStore>, max_bytes: u64) -> Self {
        Self { objects, folder: None, max_bytes }
    }

    /// Stores content, durably. Storing the same content again changes nothing and succeeds.
    ///
    /// # Errors
    /// [`BlobError::TooLarge`]; [`BlobError::Storage`].
    pub async fn put(&self, content: impl Into<Bytes>) -> Result<BlobRef, BlobError> {
        let content = content.into();
        let bytes = content.len() as u64;
        if bytes > self.max_bytes {
            tracing::debug!(bytes, limit = self.max_bytes, "refused: the content is too large for a blob");
            return Err(BlobError::TooLarge { bytes, limit: self.max_bytes });
        }
        let hash = hash_of(content.clone()).await?;
        let key = key_of(&hash)?;
        let create = PutOptions::from(PutMode::Create);
        match self.objects.put_opts(&key, content.clone().into(), create).await {
            Ok(_) => tracing::debug!(hash, bytes, "the blob is stored"),
            Err(object_store::Error::AlreadyExists { .. }) => {
                tracing::debug!(hash, bytes, "the same content is stored already");
                self.renew(&key, content).await?;
            }
            Err(error) => return Err(storage(&hash, &error)),
        }
        self.keep_name(&key).await?;
        Ok(BlobRef { hash, bytes })
    }

    /// Removes half-written files of killed processes, and returns their number. The caller must be the only
    /// user of the folder: a write under way would lose its file.
    ///
    /// # Errors
    /// [`BlobError::Storage`]; what was not removed does no harm.
    pub async fn sweep(&self) -> Result<usize, BlobError> {
        let Some(folder) = &self.folder else { return Ok(0) };
        let (top, aside) = (folder.join(TOP), folder.join(unnamed::ASIDE));
        let swept = tokio::task::spawn_blocking(move || {
            // The folder exists only after a sweep has set the first blob aside.
            let aside = if aside.is_dir() { staging::sweep(&aside)? } else { 0 };
            Ok::<_, io::Error>(staging::sweep(&top)? + aside)
        });
        let swept = swept.await;
        let swept = swept.map_err(|error| BlobError::Storage(error.to_string()))?;
        let files = swept.map_err(|error| BlobError::Storage(error.to_string()))?;
        if files > 0 {
            tracing::info!(files, folder = %folder.display(), "half-written blobs of an ended process were removed");
        }
        Ok(files)
    }

    /// Flushes the name of a blob and of the folders above. Their maker may be a killed process, or another
    /// writer of the same content.
    async fn keep_name(&self, key: &Key) -> Result<(), BlobError> {
        let Some(folder) = self.folder.clone() else { return Ok(()) };
        let file = folder.join(key.as_ref());
        // The folder of blobs that are set aside may be new itself.
        let folders = if key.as_ref().starts_with(TOP) { 2 } else { 3 };
        let flushed = tokio::task::spawn_blocking(move || {
            file.ancestors().skip(1).take(folders).try_for_each(flush_folder)
        });
        let flushed = flushed.await;
        let flushed = flushed.map_err(|error| BlobError::Storage(error.to_string()))?;
        flushed.map_err(|error| BlobError::Storage(error.to_string()))
    }

    /// Writes a stored object again if the length differs from the content's, or if a sweep might set the object
    /// aside soon.
    async fn renew(&self, key: &Key, content: Bytes) -> Result<(), BlobError> {
        // A stored object of another length is damaged, so it gets its content back here.
        let young = SystemTime::now().checked_sub(unnamed::RENEWED).map_or(0, unnamed::seconds);
        match self.objects.head(key).await {
            Ok(stored)
                if stored.size == content.len() as u64 && stored.last_modified.timestamp() >= young =>
            {
                Ok(())
            }
            // A sweep may have set the object aside since the refused creation.
            Ok(_) | Err(object_store::Error::NotFound { .. }) => {
                tracing::debug!(key = %key, "the stored object is written again: it is old, damaged or set aside");
                let put = self.objects.put(key, content.into()).await;
                put.map(|_| ()).map_err(|error| storage(key.as_ref(), &error))
            }
            Err(error) => Err(storage(key.as_ref(), &error)),
        }
    }

    /// Returns whether the blobs can be reached and listed.
    ///
    /// # Errors
    /// [`BlobError::Storage`], with the remedy.
    pub async fn check(&self) -> Result<(), BlobError> {
        // The first entry shows whether the key and the bucket work. A whole list of a large bucket takes minutes.
        match self.objects.list(Some(&Key::from(TOP))).next().await {
            None | Some(Ok(_)) => Ok(()),
            Some(Err(error)) => Err(BlobError::Storage(reason(&error))),
        }
    }

    /// Returns the content of a blob, checked against the hash.
    ///
    /// # Errors
    /// [`BlobError::NotFound`]; [`BlobError::BadHash`]; [`BlobError::Damaged`]; [`BlobError::Storage`].
    pub async fn get(&self, blob: &BlobRef) -> Result<Bytes, BlobError> {
        self.get_by_hash(&blob.hash).await
    }

    /// Returns a blob by the hash alone. Otherwise like [`BlobStore::get`].
    ///
    /// # Errors
    /// The errors of [`BlobStore::get`].
    pub async fn get_by_hash(&self, hash: &str) -> Result<Bytes, BlobError> {
        let key = key_of(hash)?;
        let content = match self.content(&key).await {
            Err(object_store::Error::NotFound { .. }) => self.found_aside(hash).await?,
            content => content.map_err(|error| storage(hash, &error))?,
        };
        if hash_of(content.clone()).await? != hash {
            tracing::error!(hash, bytes = content.len(), "the blob's content does not have its hash");
            return Err(BlobError::Damaged(hash.to_owned()));
        }
        Ok(content)
    }

    /// Returns part of a blob: `range` in bytes. The hash of the whole is not checked.
    ///
    /// # Errors
    /// [`BlobError::OutOfRange`]; otherwise as [`BlobStore::get`].
    pub async fn get_range(&self, blob: &BlobRef, range: Range<u64>) -> Result<Bytes, BlobError> {
        let key = key_of(&blob.hash)?;
        if range.start > range.end || range.end > blob.bytes {
            return Err(BlobError::OutOfRange { hash: blob.hash.clone(), range });
        }
        if range.is_empty() {
            return Ok(Bytes::new());
        }
        // An object store shortens a range that runs over the end of an object. The length therefore shows
        // a shortened object, although no hash is checked here.
        let wanted = range.end - range.start;
        let part = match self.objects.get_range(&key, range.clone()).await {
            Err(object_store::Error::NotFound { .. }) => {
                let whole = self.found_aside(&blob.hash).await?;
                let (start, end) = (range.start as usize, (range.end as usize).min(whole.len()));
                whole.slice(start.min(end)..end)
            }
            part => part.map_err(|error| storage(&blob.hash, &error))?,
        };
        if part.len() as u64 != wanted {
            tracing::error!(
                hash = blob.hash,
                wanted,
                found = part.len(),
                "the blob is shorter than when it was stored"
            );
            return Err(BlobError::Damaged(blob.hash.clone()));
        }
        Ok(part)
    }
}

/// Makes a folder for blobs, durably, and returns the canonical path.
fn make_folder(folder: &Path) -> io::Result<PathBuf> {
    std::fs::create_dir_all(folder.join(TOP))?;
    let folder = folder.canonicalize()?;
    // A power cut may lose a new folder whose parent was not flushed. Either folder may be new.
    folder.parent().into_iter().chain([folder.as_path()]).try_for_each(flush_folder)?;
    Ok(folder)
}

fn folder_error(folder: &Path, error: &io::Error) -> BlobError {
    BlobError::Storage(format!("{}: {error}", folder.display()))
}

async fn hash_of(content: Bytes) -> Result<String, BlobError> {
    if content.len() < LARGE_BYTES {
        return Ok(blake3::hash(&content).to_hex().to_string());
    }
    // A hash of many megabytes would hold up every other task on the thread.
    tokio::task::spawn_blocking(move || blake3::hash(&content).to_hex().to_string())
        .await
        .map_err(|error| BlobError::Storage(error.to_string()))
}

/// Returns the path `blob/<2 hex>/<hash>`. Only a valid hash becomes part of a path.
fn key_of(hash: &str) -> Result<Key, BlobError> {
    let digits = hash.bytes().filter(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')).count();
    if digits != 64 || hash.len() != 64 {
        // The text may come from anybody and have any length, and it ends in an error message.
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

/// Returns the reason for unreachable blobs, and the remedy.
fn reason(error: &object_store::Error) -> String {
    // `object_store` has one error kind for several of these causes. Only the code in the service's own text
    // tells them apart.
    let said = error.to_string();
    if let Some((_, remedy)) = REMEDIES.iter().find(|(code, _)| said.contains(code)) {
        return (*remedy).to_owned();
    }
    match error {
        object_store::Error::PermissionDenied { .. } | object_store::Error::Unauthenticated { .. } => {
            NO_RIGHTS.to_owned()
        }
        object_store::Error::NotFound { .. } => NO_BUCKET.to_owned(),
        _ => said,
    }
}

const NO_BUCKET: &str = "there is no such bucket";
const OTHER_REGION: &str = "the bucket is in another region: name it with AWS_REGION";
const REFUSED_KEY: &str = "the key is not accepted: look at AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY";
const NO_RIGHTS: &str = "the key may not list what is there: it needs to list, read, write and delete";

/// The codes in the errors of S3 and of `object_store`, each with a remedy. The first that occurs counts.
const REMEDIES: [(&str, &str); 7] = [
    ("NoSuchBucket", NO_BUCKET),
    ("AuthorizationHeaderMalformed", OTHER_REGION),
    ("PermanentRedirect", OTHER_REGION),
    ("configured region", OTHER_REGION),
    ("InvalidAccessKeyId", REFUSED_KEY),
    ("SignatureDoesNotMatch", REFUSED_KEY),
    ("AccessDenied", NO_RIGHTS),
];

#[cfg(test)]
mod tests;
