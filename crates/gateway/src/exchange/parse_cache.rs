//! The newest parsed requests. A request that extends an earlier one is parsed only from the earlier end on.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use bytes::Bytes;

use longhaul_wire::edit::{ParseError, RequestEnvelope, WireCodec};

/// The length of the beginning that identifies similar requests, in bytes.
const START_BYTES: usize = 512;

/// The maximum number of remembered requests with the same beginning, the newest ones.
const ALIKE: usize = 8;

/// The number of remembered beginnings above which unused ones are forgotten.
const STARTS: usize = 2_048;

/// A hash of the dialect, the caller and the request's beginning.
type RequestPrefixKey = [u8; 32];

/// An index of parsed requests. The conversations own the requests; the index holds weak references.
#[derive(Default)]
pub(crate) struct ParseCache(Mutex<HashMap<RequestPrefixKey, Vec<Weak<RequestEnvelope>>>>);

impl ParseCache {
    /// Parses a request.
    ///
    /// # Errors
    /// [`ParseError`] if the request is invalid in its dialect.
    pub(super) fn read(
        &self,
        wire: &dyn WireCodec,
        caller: &[u8; 32],
        bytes: Bytes,
    ) -> Result<Arc<RequestEnvelope>, ParseError> {
        Ok(self.read_noting_new(wire, caller, bytes)?.0)
    }

    /// Parses a request, and returns whether it continues none of the remembered requests.
    ///
    /// # Errors
    /// [`ParseError`] if the request is invalid in its dialect.
    pub(super) fn read_noting_new(
        &self,
        wire: &dyn WireCodec,
        caller: &[u8; 32],
        bytes: Bytes,
    ) -> Result<(Arc<RequestEnvelope>, bool), ParseError> {
        let start = start(wire, caller, &bytes);
        // The lock is free while candidates are compared: comparing long requests takes time.
        let after = self.alike(&start).iter().find_map(|known| wire.parse_continued_request(&bytes, known));
        let is_new = after.is_none();
        let envelope = Arc::new(after.map_or_else(|| wire.read(bytes), Ok)?);
        self.remember(start, &envelope);
        Ok((envelope, is_new))
    }

    /// Returns the requests with this beginning, the newest first.
    fn alike(&self, start: &RequestPrefixKey) -> Vec<Arc<RequestEnvelope>> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(start).into_iter().flatten().rev().filter_map(Weak::upgrade).collect()
    }

    fn remember(&self, start: RequestPrefixKey, envelope: &Arc<RequestEnvelope>) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Dead entries are swept only at the limit, so most requests pay nothing for it.
        if known.len() >= STARTS {
            known.retain(|_, alike| alike.iter().any(|one| one.strong_count() > 0));
        }
        if known.len() >= STARTS {
            // Losing the index costs one full parse for each conversation.
            known.clear();
        }
        let alike = known.entry(start).or_default();
        alike.retain(|one| one.strong_count() > 0);
        if alike.len() >= ALIKE {
            // Many conversations begin with the same system prompt, and each candidate is compared.
            alike.remove(0);
        }
        alike.push(Arc::downgrade(envelope));
    }
}

fn start(wire: &dyn WireCodec, caller: &[u8; 32], bytes: &[u8]) -> RequestPrefixKey {
    let mut hasher = blake3::Hasher::new();
    hasher.update(wire.dialect().as_str().as_bytes());
    // One caller's request must not be found by another's.
    hasher.update(caller);
    // A short beginning finds candidates. Whether one is really continued is checked byte by byte.
    hasher.update(&bytes[..bytes.len().min(START_BYTES)]);
    *hasher.finalize().as_bytes()
}
