//! The pauses between the requests of a conversation, on which the life of the upstream's prompt cache depends.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use longhaul_core::request_pauses::RequestPauses;

use super::ProxiedRequest;
use super::cache::ConversationKey;
use super::replicas::conversation_key;

/// The maximum number of conversations with remembered pauses.
// A forgotten conversation is treated like a new one. Only the choice of its cache lifetime depends on the pauses.
const MAX_CONVERSATIONS: usize = 1_024;

/// The pauses of the conversations in use.
#[derive(Default)]
pub(super) struct RequestPausesByConversation(Mutex<HashMap<ConversationKey, ConversationPauses>>);

struct ConversationPauses {
    /// The arrival of the newest request. One request may be read several times, for each upstream it is sent to.
    received_at: Instant,
    pauses: RequestPauses,
}

impl RequestPausesByConversation {
    /// Adds a request, and returns whether the pauses call for a cache that lives for an hour. `received_at` identifies
    /// the request, and `now_ms` is its time.
    fn add_request(&self, conversation: ConversationKey, received_at: Instant, now_ms: u64) -> bool {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // The map must be bounded, because clients decide the number of conversations.
        if all.len() >= MAX_CONVERSATIONS && !all.contains_key(&conversation) {
            let oldest = all.iter().min_by_key(|(_, known)| known.received_at).map(|(key, _)| *key);
            if let Some(oldest) = oldest {
                all.remove(&oldest);
            }
        }
        let known = all.entry(conversation).or_insert_with(|| {
            let mut pauses = RequestPauses::default();
            pauses.add_request(now_ms);
            ConversationPauses { received_at, pauses }
        });
        // A second upstream asked for the same request must not count as a pause of no length.
        if known.received_at != received_at {
            known.received_at = received_at;
            known.pauses.add_request(now_ms);
        }
        known.pauses.is_long_cache_cheaper()
    }
}

/// Returns whether the pauses between the conversation's requests call for a cache that lives for an hour.
pub(super) fn has_long_pauses(request: &ProxiedRequest) -> bool {
    // The answer must not change between the upstreams of one request.
    *request.has_long_pauses.get_or_init(|| {
        // A request that cannot be parsed fails anyway.
        let Ok(conversation) = conversation_key(request) else { return false };
        let now_ms = (request.inner.parts.now)().saturating_mul(1_000);
        request.inner.request_pauses.add_request(conversation, request.received_at, now_ms)
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const MINUTE_MS: u64 = 60_000;

    #[test]
    fn a_request_counts_once() {
        let (all, first) = (RequestPausesByConversation::default(), Instant::now());
        let second = first + Duration::from_secs(1);
        assert!(!all.add_request([1; 32], first, 0));
        assert!(!all.add_request([2; 32], second, 20 * MINUTE_MS), "another conversation");
        assert!(all.add_request([1; 32], second, 20 * MINUTE_MS));
        for _ in 0..40 {
            assert!(
                all.add_request([1; 32], second, 20 * MINUTE_MS),
                "the same request makes no short pauses"
            );
        }
    }

    #[test]
    fn the_oldest_conversation_is_forgotten() {
        let (all, start) = (RequestPausesByConversation::default(), Instant::now());
        let key = |number: usize| *blake3::hash(&number.to_le_bytes()).as_bytes();
        let at = |number: usize| start + Duration::from_millis(number as u64);
        for number in 0..=MAX_CONVERSATIONS {
            all.add_request(key(number), at(number), 0);
        }
        assert_eq!(all.0.lock().unwrap().len(), MAX_CONVERSATIONS);
        assert!(all.add_request(key(1), at(5_000), 20 * MINUTE_MS));
        assert!(!all.add_request(key(0), at(5_001), 20 * MINUTE_MS));
    }
}
