//! Conversations that are kept ready, the least recently used give way.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::conversation::{Conversation, Known, Name, Names, State};
use crate::wire::{Bad, Envelope};

/// What two requests must share to be of one conversation, beside its items: caller, upstream, model, policy.
pub(super) type Scope = [u8; 32];

/// Names the beginning of a conversation.
type Head = [u8; 32];

pub(crate) struct Cache {
    max_entries: usize,
    max_bytes: usize,
    entries: Mutex<Entries>,
}

#[derive(Default)]
struct Entries {
    by_head: HashMap<Head, Vec<Entry>>,
    uses: u64,
    count: usize,
    bytes: usize,
}

struct Entry {
    conversation: Arc<Conversation>,
    used: u64,
    bytes: usize,
}

impl Cache {
    pub(crate) fn new(max_entries: usize, max_bytes: usize) -> Self {
        Self { max_entries: max_entries.max(1), max_bytes, entries: Mutex::default() }
    }

    /// The conversation that the request goes on with, which is from now on known up to this request; else a new one.
    ///
    /// # Errors
    /// [`Bad`] if an item is no JSON of the dialect.
    pub(super) fn find(
        &self,
        scope: &Scope,
        names: &mut Names<'_>,
        envelope: &Envelope,
        new: impl FnOnce() -> State,
    ) -> Result<Arc<Conversation>, Bad> {
        if names.len() == 0 {
            let known = Known { bytes: envelope.bytes.clone(), items: Vec::new(), names: Vec::new() };
            return Ok(Arc::new(Conversation::new(known, new())));
        }
        let first = names.get(0)?;
        let long = match names.len() {
            1 => None,
            _ => Some(head(scope, &first, Some(&names.get(1)?))),
        };
        let short = head(scope, &first, None);
        let heads = [long, Some(short)];
        // What is read of the items is read while nobody waits.
        for candidate in self.candidates(&heads) {
            names.extend(&candidate.known())?;
        }
        let known =
            Known { bytes: envelope.bytes.clone(), items: envelope.items.clone(), names: names.all()? };
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let mut found = None;
        for head in heads.iter().flatten() {
            if found.is_none() {
                found = entries.take(head, names)?;
            }
        }
        let conversation = match found {
            Some(found) => {
                *found.known() = known;
                found
            }
            None => Arc::new(Conversation::new(known, new())),
        };
        entries.put(long.unwrap_or(short), Arc::clone(&conversation), envelope.bytes.len());
        entries.shrink(self.max_entries, self.max_bytes);
        Ok(conversation)
    }
}

impl Cache {
    fn candidates(&self, heads: &[Option<Head>]) -> Vec<Arc<Conversation>> {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let lists = heads.iter().flatten().filter_map(|head| entries.by_head.get(head));
        lists.flatten().map(|entry| Arc::clone(&entry.conversation)).collect()
    }
}

impl Entries {
    /// Takes out the longest conversation that the request goes on with.
    fn take(&mut self, head: &Head, names: &mut Names<'_>) -> Result<Option<Arc<Conversation>>, Bad> {
        let Some(list) = self.by_head.get_mut(head) else { return Ok(None) };
        let mut best: Option<(usize, usize)> = None;
        for (at, entry) in list.iter().enumerate() {
            let known = entry.conversation.known();
            let length = known.items.len();
            if best.is_none_or(|(_, longest)| length > longest) && names.extend(&known)? {
                best = Some((at, length));
            }
        }
        let Some((at, _)) = best else { return Ok(None) };
        let entry = list.swap_remove(at);
        self.count -= 1;
        self.bytes -= entry.bytes;
        Ok(Some(entry.conversation))
    }

    fn put(&mut self, head: Head, conversation: Arc<Conversation>, bytes: usize) {
        self.uses += 1;
        self.count += 1;
        self.bytes += bytes;
        let used = self.uses;
        self.by_head.entry(head).or_default().push(Entry { conversation, used, bytes });
    }

    fn shrink(&mut self, max_entries: usize, max_bytes: usize) {
        while self.count > 1 && (self.count > max_entries || self.bytes > max_bytes) {
            let all =
                self.by_head.iter().flat_map(|(head, list)| list.iter().map(move |entry| (head, entry)));
            let Some((head, used)) =
                all.map(|(head, entry)| (*head, entry.used)).min_by_key(|(_, used)| *used)
            else {
                return;
            };
            let Some(list) = self.by_head.get_mut(&head) else { return };
            if let Some(at) = list.iter().position(|entry| entry.used == used) {
                let gone = list.swap_remove(at);
                self.count -= 1;
                self.bytes -= gone.bytes;
            }
            if list.is_empty() {
                self.by_head.remove(&head);
            }
        }
    }
}

fn head(scope: &Scope, first: &Name, second: Option<&Name>) -> Head {
    let mut hasher = blake3::Hasher::new();
    hasher.update(scope);
    hasher.update(first);
    if let Some(second) = second {
        hasher.update(second);
    }
    *hasher.finalize().as_bytes()
}

#[cfg(test)]
mod tests;
