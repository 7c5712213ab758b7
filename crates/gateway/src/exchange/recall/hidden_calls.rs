//! The model's steps of which a client was shown only some calls, kept until the client's next requests bring the steps
//! back.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::super::cache::ConversationScope;
use super::super::conversation::ItemDigest;
use longhaul_wire::edit::HiddenCallReplay;

/// The memory of all entries together, in bytes.
// An evicted step is left out of the next request. A history without hidden calls is valid in every dialect (decision
// 0029).
const MAX_BYTES: usize = 32 << 20;

/// The maximum number of steps.
const MAX_STEPS: usize = 10_000;

/// A hash of the scope and the conversation before a step.
type HiddenCallKey = [u8; 32];

/// The store of the newest partly hidden steps.
#[derive(Default)]
pub(crate) struct HiddenToolCalls(Mutex<HiddenCallEntries>);

#[derive(Default)]
struct HiddenCallEntries {
    steps: HashMap<HiddenCallKey, Arc<HiddenCallReplay>>,
    oldest: VecDeque<HiddenCallKey>,
    bytes: usize,
}

impl HiddenToolCalls {
    pub(in crate::exchange) fn is_empty(&self) -> bool {
        self.known().steps.is_empty()
    }

    /// Returns the step that follows the prefix named `before`, placed at item `at`.
    pub(in crate::exchange) fn find(
        &self,
        scope: &ConversationScope,
        before: &ItemDigest,
        at: usize,
    ) -> Option<HiddenCallReplay> {
        let found = self.known().steps.get(&key(scope, before)).cloned()?;
        Some(HiddenCallReplay { at, ..(*found).clone() })
    }

    /// Keeps a step. Of two after the same words the newer one counts.
    pub(in crate::exchange) fn keep(
        &self,
        scope: &ConversationScope,
        before: &ItemDigest,
        step: HiddenCallReplay,
    ) {
        let mut known = self.known();
        let key = key(scope, before);
        // The new size is added before the old one is taken off, so the sum cannot fall below zero.
        known.bytes += bytes(&step);
        match known.steps.insert(key, Arc::new(step)) {
            Some(older) => known.bytes -= bytes(&older),
            None => known.oldest.push_back(key),
        }
        // Losing an entry is harmless: a step without its hidden call is valid in all three dialects.
        while known.steps.len() > MAX_STEPS || known.bytes > MAX_BYTES {
            let Some(oldest) = known.oldest.pop_front() else { return };
            let gone = known.steps.remove(&oldest).map_or(0, |gone| bytes(&gone));
            known.bytes -= gone;
        }
    }

    fn known(&self) -> MutexGuard<'_, HiddenCallEntries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn key(scope: &ConversationScope, before: &ItemDigest) -> HiddenCallKey {
    let mut hasher = blake3::Hasher::new_derive_key("longhaul 2026 gateway withheld calls");
    // The scope has the caller in it, so no caller finds another one's steps.
    hasher.update(scope);
    hasher.update(before);
    *hasher.finalize().as_bytes()
}

fn bytes(step: &HiddenCallReplay) -> usize {
    let hidden = step.hidden.iter().map(|(_, one)| {
        one.call.id.len() + one.call.name.len() + one.call.arguments.len() + one.result.len()
    });
    let texts = step.shown.iter().chain(&step.rounds).map(String::len);
    size_of::<HiddenCallReplay>() + texts.chain(hidden).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_wire::edit::{AnsweredToolCall, PartialToolCall};

    fn step(result: &str) -> HiddenCallReplay {
        let call = PartialToolCall { id: "c".to_owned(), ..PartialToolCall::default() };
        let answered = AnsweredToolCall { call, result: result.to_owned(), failed: false };
        HiddenCallReplay { hidden: vec![(0, answered)], ..HiddenCallReplay::default() }
    }

    #[test]
    fn the_newest_are_kept_as_far_as_there_is_room() {
        let withheld = HiddenToolCalls::default();
        assert!(withheld.is_empty());
        withheld.keep(&[1; 32], &[0; 32], step("old"));
        withheld.keep(&[1; 32], &[0; 32], step("new"));
        let found = withheld.find(&[1; 32], &[0; 32], 7).unwrap();
        assert_eq!((found.at, found.hidden[0].1.result.as_str()), (7, "new"));
        assert!(withheld.find(&[2; 32], &[0; 32], 7).is_none(), "nobody has another's");
        let large = "x".repeat(MAX_BYTES / 4);
        (1..9).for_each(|at| withheld.keep(&[1; 32], &[at; 32], step(&large)));
        assert!(withheld.find(&[1; 32], &[8; 32], 1).is_some());
        assert!(withheld.find(&[1; 32], &[1; 32], 1).is_none());
        assert!(withheld.known().bytes <= MAX_BYTES);
    }
}
