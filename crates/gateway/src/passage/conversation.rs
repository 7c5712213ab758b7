//! A conversation that a client sends again and again: what is known of its items, and what was made of them.

use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use longhaul_core::estimate::Counter;
use longhaul_core::message::Origin;

use super::log::Log;
use crate::wire::{Bad, Envelope, Wire};

/// Names an item by its canonical form.
pub(super) type Name = [u8; 32];

/// One conversation.
pub(super) struct Conversation {
    known: Mutex<Known>,
    /// What was made of it. Held while a request is prepared: requests that share a prefix make one summary.
    pub(super) state: tokio::sync::Mutex<State>,
}

/// Its items as the newest request had them.
pub(super) struct Known {
    pub(super) bytes: Bytes,
    pub(super) items: Vec<Range<usize>>,
    pub(super) names: Vec<Name>,
}

/// What was made of the items.
pub(super) struct State {
    pub(super) log: Log,
    /// System prompt and tools as they were counted last: how they were written, and their tokens.
    pub(super) fixed: Option<([String; 2], u64)>,
    /// Whether the memo was asked for this conversation.
    pub(super) asked_memo: bool,
}

impl State {
    pub(super) fn new(counter: Counter, origin: Origin) -> Self {
        Self { log: Log::new(counter, origin), fixed: None, asked_memo: false }
    }
}

impl Conversation {
    pub(super) fn new(known: Known, state: State) -> Self {
        Self { known: Mutex::new(known), state: tokio::sync::Mutex::new(state) }
    }

    pub(super) fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The names of a request's items, made when they are needed.
pub(super) struct Names<'a> {
    wire: &'static dyn Wire,
    envelope: &'a Envelope,
    names: Vec<Option<Name>>,
    form: Vec<u8>,
}

impl<'a> Names<'a> {
    pub(super) fn new(wire: &'static dyn Wire, envelope: &'a Envelope) -> Self {
        Self { wire, envelope, names: vec![None; envelope.items.len()], form: Vec::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.names.len()
    }

    /// # Errors
    /// [`Bad`] if the item is no JSON of the dialect.
    pub(super) fn get(&mut self, index: usize) -> Result<Name, Bad> {
        if let Some(Some(name)) = self.names.get(index) {
            return Ok(*name);
        }
        self.form.clear();
        self.wire.canonical(self.envelope.item(index), index, &mut self.form)?;
        let name = *blake3::hash(&self.form).as_bytes();
        if let Some(slot) = self.names.get_mut(index) {
            *slot = Some(name);
        }
        Ok(name)
    }

    /// Whether the request goes on with the known items, or is the same. Items with the same bytes need no name.
    pub(super) fn extend(&mut self, known: &Known) -> Result<bool, Bad> {
        if known.items.len() > self.len() {
            return Ok(false);
        }
        for (index, at) in known.items.iter().enumerate() {
            let name = known.names.get(index).copied();
            let is_same = || {
                let ours = self.envelope.items.get(index).and_then(|at| self.envelope.bytes.get(at.clone()));
                known.bytes.get(at.clone()) == ours
            };
            if self.names[index].is_none() && is_same() {
                self.names[index] = name;
            } else if Some(self.get(index)?) != name {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// All of them.
    ///
    /// # Errors
    /// [`Bad`] if an item is no JSON of the dialect.
    pub(super) fn all(&mut self) -> Result<Vec<Name>, Bad> {
        (0..self.len()).map(|index| self.get(index)).collect()
    }
}

/// Names of prefixes: for each item that of everything up to it.
pub(super) fn chain(names: &[Name]) -> Vec<Name> {
    let mut chain = Vec::with_capacity(names.len());
    let mut newest = [0; 32];
    for name in names {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&newest);
        hasher.update(name);
        newest = *hasher.finalize().as_bytes();
        chain.push(newest);
    }
    chain
}
