//! Requests as they were read last: one that goes on from an earlier one is read from there.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use bytes::Bytes;

use longhaul_wire::edit::{ParseError, RequestEnvelope, WireCodec};

/// How much of its beginning tells a request from most others, in bytes.
const START_BYTES: usize = 512;

/// Requests with the same beginning that are remembered, the newest ones.
const ALIKE: usize = 8;

/// Beginnings that are remembered at most, before those are forgotten that nobody keeps.
const STARTS: usize = 2_048;

/// Says what a request begins with, and who asked in which dialect.
type RequestPrefixKey = [u8; 32];

/// What was read is kept by its conversation; here it is only found.
#[derive(Default)]
pub(crate) struct ParseCache(Mutex<HashMap<RequestPrefixKey, Vec<Weak<RequestEnvelope>>>>);

impl ParseCache {
    /// Reads a request.
    ///
    /// # Errors
    /// [`ParseError`] as the dialect has it.
    pub(super) fn read(
        &self,
        wire: &dyn WireCodec,
        caller: &[u8; 32],
        bytes: Bytes,
    ) -> Result<Arc<RequestEnvelope>, ParseError> {
        let start = start(wire, caller, &bytes);
        let after = self.alike(&start).iter().find_map(|known| wire.parse_continued_request(&bytes, known));
        let envelope = Arc::new(after.map_or_else(|| wire.read(bytes), Ok)?);
        self.remember(start, &envelope);
        Ok(envelope)
    }

    /// Those that begin so, the newest first.
    fn alike(&self, start: &RequestPrefixKey) -> Vec<Arc<RequestEnvelope>> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(start).into_iter().flatten().rev().filter_map(Weak::upgrade).collect()
    }

    fn remember(&self, start: RequestPrefixKey, envelope: &Arc<RequestEnvelope>) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= STARTS {
            known.retain(|_, alike| alike.iter().any(|one| one.strong_count() > 0));
        }
        if known.len() >= STARTS {
            known.clear();
        }
        let alike = known.entry(start).or_default();
        alike.retain(|one| one.strong_count() > 0);
        if alike.len() >= ALIKE {
            alike.remove(0);
        }
        alike.push(Arc::downgrade(envelope));
    }
}

fn start(wire: &dyn WireCodec, caller: &[u8; 32], bytes: &[u8]) -> RequestPrefixKey {
    let mut hasher = blake3::Hasher::new();
    hasher.update(wire.dialect().as_str().as_bytes());
    hasher.update(caller);
    hasher.update(&bytes[..bytes.len().min(START_BYTES)]);
    *hasher.finalize().as_bytes()
}
