//! Events in their stored form.

use longhaul_core::event::{Event, EventBody, FORMAT};
use longhaul_core::ids::Millis;
use longhaul_store::{SessionRecordChange, StoreError, blob_refs, event_checksum};

use crate::text::{text_to_db, to_db};

/// Events as columns of the table's rows, with their changes to other tables.
pub(crate) struct PostgresEncodedEvents {
    pub(crate) bodies: Vec<String>,
    pub(crate) times: Vec<i64>,
    pub(crate) checksums: Vec<i64>,
    pub(crate) change: SessionRecordChange,
    pub(crate) hashes: Vec<String>,
    pub(crate) sizes: Vec<i64>,
    /// The index, from 1, of the naming event of each blob.
    pub(crate) places: Vec<i64>,
}

impl PostgresEncodedEvents {
    pub(crate) fn new<'e>(
        events: impl Iterator<Item = (Millis, &'e EventBody)> + Clone,
    ) -> Result<Self, StoreError> {
        // JSON escapes U+0000, so a body needs no conversion with `text_to_db`.
        let bodies: Vec<String> = events
            .clone()
            .map(|(_, event)| Event::encode_body(event))
            .collect::<Result<_, _>>()
            .map_err(|error| StoreError::Storage(error.to_string()))?;
        let checksums = events
            .clone()
            .zip(&bodies)
            .map(|((at, _), body)| event_checksum(FORMAT.into(), at, body.as_bytes()))
            .collect();
        let (mut hashes, mut sizes, mut places) = (Vec::new(), Vec::new(), Vec::new());
        for (place, (_, event)) in (1..).zip(events.clone()) {
            for blob in blob_refs(event) {
                hashes.push(text_to_db(&blob.hash).into_owned());
                sizes.push(to_db(blob.bytes));
                places.push(place);
            }
        }
        let times = events.clone().map(|(at, _)| to_db(at)).collect();
        let change = SessionRecordChange::of(events.map(|(_, event)| event));
        Ok(Self { bodies, times, checksums, change, hashes, sizes, places })
    }

    /// Returns the number of events.
    pub(crate) fn count(&self) -> i64 {
        to_db(self.bodies.len() as u64)
    }
}
