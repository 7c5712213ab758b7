//! Bounded map of one class of facts. The limits bound the memory of the pinned facts.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::text_table::TextTable;

/// Facts by key, in the order of their last storage. Beyond `most` facts the oldest ones go.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct BoundedFactMap<V> {
    most: usize,
    next: u64,
    facts: TextTable<Arc<str>, (u64, V)>,
    order: BTreeMap<u64, Arc<str>>,
    evicted: u64,
}

impl<V> BoundedFactMap<V> {
    pub(super) fn new(most: usize) -> Self {
        Self { most, next: 0, facts: TextTable::default(), order: BTreeMap::new(), evicted: 0 }
    }

    pub(super) fn get(&self, key: &str) -> Option<&V> {
        self.facts.get(key).map(|(_, fact)| fact)
    }

    /// Returns a fact for a change. Its place in the order stays.
    pub(super) fn get_mut(&mut self, key: &str) -> Option<&mut V> {
        self.facts.get_mut(key).map(|(_, fact)| fact)
    }

    /// Stores a fact as the newest one. Returns the fact that was removed because there were too many.
    pub(super) fn put(&mut self, key: &str, fact: V) -> Option<V> {
        self.take(key);
        // Both tables share one copy of the key, since keys may be long lines.
        let key: Arc<str> = key.into();
        self.order.insert(self.next, key.clone());
        self.facts.insert(key, (self.next, fact));
        self.next += 1;
        if self.facts.len() <= self.most {
            return None;
        }
        self.evicted += 1;
        let (_, oldest) = self.order.pop_first()?;
        self.facts.remove(&oldest).map(|(_, fact)| fact)
    }

    /// Removes a fact and returns it. The fact does not count as evicted.
    pub(super) fn take(&mut self, key: &str) -> Option<V> {
        let (at, fact) = self.facts.remove(key)?;
        self.order.remove(&at);
        Some(fact)
    }

    /// Removes all facts for which `holds` returns `false`. Such facts do not count as evicted.
    pub(super) fn retain(&mut self, holds: impl Fn(&str, &V) -> bool) {
        self.facts.retain(|key, (_, fact)| holds(key, fact));
        // The second table follows the first, so that a removed key does not count towards the oldest.
        let facts = &self.facts;
        self.order.retain(|_, key| facts.contains_key(key));
    }

    /// Returns the facts with their keys, the oldest first.
    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = (&str, &V)> {
        self.order.values().filter_map(|key| self.get(key).map(|fact| (&**key, fact)))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.facts.is_empty()
    }

    /// Returns the number of facts that were removed because there were too many.
    pub(super) fn evicted(&self) -> u64 {
        self.evicted
    }
}
