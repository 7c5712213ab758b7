//! Sessions as files: a JSON object per line, complete and readable by the module `import`; or Markdown, for people.

mod markdown;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::io::{self, Write};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use longhaul_core::event::Event;
use longhaul_core::ids::{Millis, SessionId};
use longhaul_core::message::BlobRef;
use serde::{Deserialize, Serialize};

pub use markdown::markdown;

/// Version of the file format: the first line and the order of the others. Events have a version of their own.
#[doc(hidden)]
pub const VERSION: u32 = 1;

/// The kind of file in the first line.
pub(crate) const KIND: &str = "session";

/// The facts about a session outside of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionMeta {
    /// The session's id at the place of the export.
    pub id: SessionId,
    /// The session's title.
    pub title: Option<String>,
    /// The time at which the session was created.
    pub created_at: Millis,
}

/// The first line.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", expecting = "the first line of an export")]
pub(crate) struct ExportHeader {
    pub(crate) longhaul: String,
    pub(crate) version: u32,
    pub(crate) id: SessionId,
    pub(crate) title: Option<String>,
    pub(crate) created_at: Millis,
    pub(crate) events: usize,
    pub(crate) blobs: usize,
}

/// A line with stored content.
#[derive(Serialize, Deserialize)]
#[serde(expecting = "stored content")]
pub(crate) struct ExportBlobLine {
    pub(crate) blob: String,
    pub(crate) data: String,
}

/// Writes a session: a first line about the file, a line for each event, a line for each blob.
///
/// The same input gives the same bytes. `blobs` may be empty: the content is then left out, and the log is complete all
/// the same. [`blob_refs`] lists the blobs of a log.
///
/// # Errors
/// The errors of `out`.
pub fn jsonl<'a>(
    out: &mut impl Write,
    meta: &SessionMeta,
    events: &[Event],
    blobs: impl ExactSizeIterator<Item = (&'a BlobRef, &'a Bytes)>,
) -> io::Result<()> {
    let header = ExportHeader {
        longhaul: KIND.to_owned(),
        version: VERSION,
        id: meta.id.clone(),
        title: meta.title.clone(),
        created_at: meta.created_at,
        // The counts let an import notice a file that was cut off.
        events: events.len(),
        blobs: blobs.len(),
    };
    line(out, &header)?;
    events.iter().try_for_each(|event| line(out, event))?;
    for (blob, content) in blobs {
        line(out, &ExportBlobLine { blob: blob.hash.clone(), data: STANDARD.encode(content) })?;
    }
    out.flush()
}

fn line(out: &mut impl Write, value: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *out, value)?;
    out.write_all(b"\n")
}

/// Returns the blobs named in a log, each once, in the order of the log.
#[doc(hidden)]
pub fn blob_refs<'a>(events: impl IntoIterator<Item = &'a Event>) -> Vec<BlobRef> {
    let mut found: Vec<_> = events.into_iter().flat_map(|event| event.body.blob_refs()).cloned().collect();
    let mut seen = HashSet::new();
    // The order of the log stays, so that two exports of one log are equal.
    found.retain(|blob| seen.insert(blob.hash.clone()));
    found
}
