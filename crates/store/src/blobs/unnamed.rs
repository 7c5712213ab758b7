//! Removes unnamed blobs in two steps, each after a day: a blob is first set aside, then removed. A blob set
//! aside can still be read, and returns to the old place if an event names the blob.
//!
//! One step is not enough if several processes share the blobs. A process may store existing content, and names
//! the content only a moment later. An object store cannot delete "unless the object was touched since".
//! A sweep in one step looks first and deletes afterwards, and would so leave a name without content. A blob set
//! aside does no harm: readers find the blob there, and the next sweep sees the name and brings the blob back.

use std::collections::HashSet;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt};
use longhaul_core::message::{Part, collect_blobs};
use object_store::path::Path as Key;
use object_store::{Error, ObjectMeta, ObjectStoreExt, PutMode, PutOptions};

use super::{BlobError, BlobStore, TOP, storage};

/// The folder of the blobs set aside.
pub(super) const ASIDE: &str = "aside";

/// The age below which a sweep leaves a blob alone: an event that names the blob may still be on its way. The
/// age is the promised day and one hour, because content younger than `RENEWED` is not renewed.
#[doc(hidden)]
pub const UNTOUCHED: Duration = Duration::from_secs(25 * 60 * 60);

/// The age from which a stored blob is renewed when its content is stored again.
pub(super) const RENEWED: Duration = Duration::from_secs(60 * 60);

/// The hashes of the blobs named by logs and waiting messages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReferencedBlobs(HashSet<[u8; 32]>);

/// The result of one sweep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlobSweepReport {
    /// The number of blobs set aside. A blob without a name is removed after another day.
    pub set_aside: u64,
    /// The number of blobs that returned to their place because an event names them.
    pub brought_back: u64,
    /// The number of removed blobs.
    pub removed: u64,
    /// The total size of the removed blobs, in bytes.
    pub removed_bytes: u64,
}

impl ReferencedBlobs {
    /// Adds a blob by its hash. Any other text is ignored.
    pub fn add(&mut self, hash: &str) {
        self.0.extend(blake3::Hash::from_hex(hash).ok().map(|hash| *hash.as_bytes()));
    }

    /// Adds the blobs named by the parts of a message.
    pub fn add_parts(&mut self, parts: &[Part]) {
        let mut refs = Vec::new();
        collect_blobs(parts, &mut refs);
        refs.into_iter().for_each(|blob| self.add(&blob.hash));
    }

    /// Returns whether a blob is named, by the hash.
    pub fn has(&self, hash: &str) -> bool {
        blake3::Hash::from_hex(hash).is_ok_and(|hash| self.0.contains(hash.as_bytes()))
    }
}

impl<S: AsRef<str>> FromIterator<S> for ReferencedBlobs {
    fn from_iter<I: IntoIterator<Item = S>>(hashes: I) -> Self {
        let mut named = Self::default();
        hashes.into_iter().for_each(|hash| named.add(hash.as_ref()));
        named
    }
}

impl BlobStore {
    /// Sets aside blobs that are not in `named` and were not touched since [`UNTOUCHED`] before `now`. Removes
    /// blobs after the same time aside, and brings back blobs that are named again. Meanwhile others may store
    /// and read, and other processes may sweep. `named` may be older than the newest blobs.
    ///
    /// # Errors
    /// [`BlobError::Storage`]; what was not removed does no harm.
    pub async fn sweep_unnamed(
        &self,
        named: &ReferencedBlobs,
        now: SystemTime,
    ) -> Result<BlobSweepReport, BlobError> {
        // With a clock near 1970, nothing counts as old, and nothing is removed.
        let oldest = seconds(now.checked_sub(UNTOUCHED).unwrap_or(SystemTime::UNIX_EPOCH));
        let mut swept = BlobSweepReport::default();
        // This loop comes first: a blob that the loop below sets aside must stay for a day.
        for object in self.all(ASIDE).await? {
            let Some(hash) = object.location.filename() else { continue };
            if named.has(hash) {
                self.bring_back(hash).await?;
                tracing::info!(hash, "brought back: the blob was set aside and is named again");
                swept.brought_back += 1;
            } else if object.last_modified.timestamp() < oldest {
                self.remove(&object.location).await?;
                tracing::debug!(
                    hash,
                    bytes = object.size,
                    "removed: nothing names the blob, and it was set aside long ago"
                );
                swept.removed += 1;
                swept.removed_bytes += object.size;
            }
        }
        for object in self.all(TOP).await? {
            let Some(hash) = object.location.filename() else { continue };
            let is_old = object.last_modified.timestamp() < oldest;
            if is_old && !named.has(hash) && self.set_aside(&object, hash, oldest).await? {
                tracing::debug!(hash, bytes = object.size, "set aside: nothing names the blob");
                swept.set_aside += 1;
            }
        }
        Ok(swept)
    }

    /// Removes every blob that is not in `named` and was not touched for `age`. Returns the number of removed
    /// blobs and their bytes. The caller must be the only user of the blobs: otherwise a blob that is being
    /// stored could be removed.
    ///
    /// # Errors
    /// [`BlobError::Storage`]; what was not removed does no harm.
    pub async fn keep_only(&self, named: &ReferencedBlobs, age: Duration) -> Result<(u64, u64), BlobError> {
        let oldest = seconds(SystemTime::now().checked_sub(age).unwrap_or(SystemTime::UNIX_EPOCH));
        let (mut count, mut bytes) = (0, 0);
        // One step is enough: the caller is alone with the blobs, so no name can be on its way.
        for object in self.all(ASIDE).await?.into_iter().chain(self.all(TOP).await?) {
            let Some(hash) = object.location.filename() else { continue };
            if named.has(hash) {
                if object.location.prefix_matches(&Key::from(ASIDE)) {
                    self.bring_back(hash).await?;
                }
            } else if object.last_modified.timestamp() < oldest {
                self.remove(&object.location).await?;
                count += 1;
                bytes += object.size;
            }
        }
        tracing::info!(removed = count, bytes, "blobs that nothing names were removed");
        Ok((count, bytes))
    }

    /// Returns the blob set aside under the hash, and tries to restore the blob to the old place.
    ///
    /// # Errors
    /// [`BlobError::NotFound`]; [`BlobError::Storage`].
    pub(super) async fn found_aside(&self, hash: &str) -> Result<Bytes, BlobError> {
        let content = self.content(&aside(hash)).await.map_err(|error| storage(hash, &error))?;
        tracing::info!(
            hash,
            bytes = content.len(),
            "a blob that was set aside is read: it returns to its place"
        );
        // The content is at hand whatever happens here. After a failure the next sweep brings the blob back. The
        // copy stays aside until a sweep removes it, so that a reader that comes in between finds one of the two.
        if let Err(error) = self.create(hash, content.clone()).await {
            tracing::warn!(hash, %error, "what was set aside is needed, and is not brought back yet");
        }
        Ok(content)
    }

    async fn bring_back(&self, hash: &str) -> Result<(), BlobError> {
        match self.content(&aside(hash)).await {
            Ok(content) => self.create(hash, content).await?,
            Err(Error::NotFound { .. }) => return Ok(()),
            Err(error) => return Err(storage(hash, &error)),
        }
        self.remove(&aside(hash)).await
    }

    /// Puts content back under the name, if the name is free.
    async fn create(&self, hash: &str, content: Bytes) -> Result<(), BlobError> {
        let key = super::key_of(hash)?;
        let created = self.objects.put_opts(&key, content.into(), PutOptions::from(PutMode::Create)).await;
        match created {
            Ok(_) | Err(Error::AlreadyExists { .. }) => self.keep_name(&key).await,
            Err(error) => Err(storage(hash, &error)),
        }
    }

    /// Reports whether the blob was set aside. The answer is `false` if another process was faster, or has just
    /// stored the blob again.
    async fn set_aside(&self, object: &ObjectMeta, hash: &str, oldest: i64) -> Result<bool, BlobError> {
        let content = match self.content(&object.location).await {
            Ok(content) => content,
            Err(Error::NotFound { .. }) => return Ok(false),
            Err(error) => return Err(storage(hash, &error)),
        };
        // A written object has the time of this moment. A link or a copy could keep the old time, and the next
        // sweep would remove the blob too early.
        self.objects.put(&aside(hash), content.into()).await.map_err(|error| storage(hash, &error))?;
        self.keep_name(&aside(hash)).await?;
        // The list may be old by now: another process may have stored the same content in between. The copy is
        // flushed before the original goes, so a crash leaves both or one.
        match self.objects.head(&object.location).await {
            Ok(now) if now.last_modified.timestamp() < oldest => {}
            Ok(_) => {
                self.remove(&aside(hash)).await?;
                return Ok(false);
            }
            Err(Error::NotFound { .. }) => return Ok(false),
            Err(error) => return Err(storage(hash, &error)),
        }
        self.remove(&object.location).await?;
        Ok(true)
    }

    pub(super) async fn content(&self, key: &Key) -> Result<Bytes, Error> {
        self.objects.get(key).await?.bytes().await
    }

    async fn remove(&self, key: &Key) -> Result<(), BlobError> {
        match self.objects.delete(key).await {
            Ok(()) | Err(Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(storage(key.as_ref(), &error)),
        }
    }

    /// Returns all objects below a folder, from one moment.
    async fn all(&self, folder: &str) -> Result<Vec<ObjectMeta>, BlobError> {
        let listed = self.objects.list(Some(&Key::from(folder))).boxed();
        listed.try_collect().await.map_err(|error| storage(folder, &error))
    }
}

fn aside(hash: &str) -> Key {
    // Names in a shared folder may be anything. A short one must not panic here, and no hash begins with `xx`.
    Key::from(format!("{ASIDE}/{}/{hash}", hash.get(..2).unwrap_or("xx")))
}

pub(super) fn seconds(time: SystemTime) -> i64 {
    // Object stores report the time of an object in whole seconds, so ages are compared in seconds everywhere.
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs().cast_signed()
}
