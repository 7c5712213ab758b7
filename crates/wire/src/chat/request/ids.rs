//! The ids of calls in Chat Completions.

use std::collections::{BTreeMap, BTreeSet};

use longhaul_core::ids::CallId;
use longhaul_core::message::ToolCall;

use super::super::family::CallIdFormat;

const NINE: usize = 9;

/// The calls of one request: our ids, with the ids on the wire and the tools.
pub(super) struct ChatCallIdMap<'a> {
    rule: CallIdFormat,
    named: BTreeMap<&'a CallId, (String, &'a str)>,
    used: BTreeSet<String>,
}

impl<'a> ChatCallIdMap<'a> {
    pub(super) fn new(rule: CallIdFormat) -> Self {
        Self { rule, named: BTreeMap::new(), used: BTreeSet::new() }
    }

    /// Returns the provider's own id of the call, unless the server would refuse the id or an earlier call of the
    /// request has the same id. Local servers repeat ids.
    pub(super) fn name(&mut self, call: &'a ToolCall) -> String {
        let given = call.provider_id.as_deref().filter(|id| self.is_free(id));
        let name = given.map_or_else(|| self.own(&call.call_id), str::to_owned);
        self.used.insert(name.clone());
        self.named.insert(&call.call_id, (name.clone(), &call.name));
        name
    }

    /// Returns the id and the tool of a call with an assigned id.
    pub(super) fn get(&self, call: &CallId) -> Option<&(String, &'a str)> {
        self.named.get(call)
    }

    fn is_free(&self, id: &str) -> bool {
        let fits = match self.rule {
            // An empty id refers to nothing, so it is never free.
            CallIdFormat::UpTo(bytes) => (1..=bytes).contains(&id.len()),
            CallIdFormat::NineAlphanumerics => {
                id.len() == NINE && id.bytes().all(|byte| byte.is_ascii_alphanumeric())
            }
        };
        fits && !self.used.contains(id)
    }

    /// Returns our id of the call; if the server would refuse our id, letters derived from the id.
    fn own(&self, call: &CallId) -> String {
        let ours = call.as_str();
        if self.is_free(ours) {
            return ours.to_owned();
        }
        // The id is derived and not counted, so a call keeps its id after earlier messages were pruned.
        let candidates = (0_u64..).map(|attempt| nine_letters(ours, attempt));
        // The candidates are endless, so the fallback is never taken.
        candidates.into_iter().find(|name| self.is_free(name)).unwrap_or_else(|| ours.to_owned())
    }
}

/// Derives nine letters or digits from an id: FNV-1a, written in base 62.
fn nine_letters(name: &str, attempt: u64) -> String {
    const LETTERS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    // The attempt is hashed as well, so that a taken name leads to another one.
    let bytes = name.bytes().chain(attempt.to_le_bytes());
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let digits = (0..NINE).scan(hash, |rest, _| {
        let digit = LETTERS[(*rest % 62) as usize];
        *rest /= 62;
        Some(char::from(digit))
    });
    digits.collect()
}
