//! Collects the blobs named by a stored event.

use std::collections::HashSet;

use longhaul_core::event::EventBody;
use longhaul_core::message::BlobRef;

/// Returns the hashes of all blobs named by an event, each once, in the order of appearance.
#[doc(hidden)]
pub fn blob_hashes(event: &EventBody) -> Vec<String> {
    blob_refs(event).into_iter().map(|blob| blob.hash.clone()).collect()
}

/// Returns all blobs named by an event, each once, in the order of appearance.
#[doc(hidden)]
pub fn blob_refs(event: &EventBody) -> Vec<&BlobRef> {
    let mut named = event.blob_refs();
    let mut seen = HashSet::new();
    named.retain(|blob| seen.insert(blob.hash.as_str()));
    named
}
