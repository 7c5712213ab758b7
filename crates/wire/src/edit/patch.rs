//! Replacement of some bytes of a request.

use std::ops::Range;

use bytes::{Bytes, BytesMut};

use super::{RequestEdit, RequestEnvelope};
use crate::raw_json::{elements, field, fields, place, quote};

/// Replacements, in any order. All other bytes stay unchanged.
#[derive(Debug, Default)]
pub struct RequestPatch {
    changes: Vec<(Range<usize>, String)>,
    fields: String,
}

impl RequestPatch {
    /// Replaces the bytes at a place.
    pub fn replace(&mut self, at: Range<usize>, with: impl Into<String>) {
        self.changes.push((at, with.into()));
    }

    /// Adds a field to the outermost object.
    pub fn add(&mut self, name: &str, value: &str) {
        self.fields.push(',');
        self.fields.push_str(&quote(name));
        self.fields.push(':');
        self.fields.push_str(value);
    }

    /// Replaces model, output limit, cache key and stream, where they change. A limit that the client did not set
    /// is added as `limit_name`.
    pub fn scalars(&mut self, envelope: &RequestEnvelope, edited: &RequestEdit, limit_name: &str) {
        if let Some(model) = &edited.model {
            self.set(envelope.model_at.as_ref(), "model", &quote(model));
        }
        if let Some(limit) = edited.max_output {
            self.set(envelope.max_output_at.as_ref(), limit_name, &limit.to_string());
        }
        if let Some(key) = &edited.cache_key {
            // The edit has a key only if the client set none, so there is nothing to replace.
            self.add("prompt_cache_key", &quote(key));
        }
        if let Some(stream) = edited.stream {
            self.set(envelope.stream_at.as_ref(), "stream", if stream { "true" } else { "false" });
        }
    }

    /// Forbids the model to call a tool: `none` is the dialect's value for that.
    pub fn forbid_calls(&mut self, envelope: &RequestEnvelope, none: &str) {
        let at = envelope.others_at.iter().find(|(name, _)| *name == "tool_choice");
        self.set(at.map(|(_, at)| at), "tool_choice", none);
    }

    /// Adds a tool behind the client's.
    pub fn add_tool(&mut self, envelope: &RequestEnvelope, tool: &str) {
        let Some(at) = &envelope.tools_at else {
            // A `tools` field can only be null here. Its value is replaced instead of adding a second field:
            // readers differ in which of two they take.
            let whole = envelope.text(&(0..envelope.bytes.len()));
            let null = whole.contains("\"tools\"").then(|| fields(whole)).flatten();
            let null = null.and_then(|all| field(&all, "tools").map(|null| place(whole, null)));
            return self.set(null.as_ref(), "tools", &format!("[{tool}]"));
        };
        let list = envelope.text(at);
        let is_empty = elements(list).is_none_or(|tools| tools.is_empty());
        // Before the closing bracket and behind the last tool, whatever blanks are between them.
        let end = at.start + list.strip_suffix(']').unwrap_or(list).trim_end().len();
        self.replace(end..end, if is_empty { tool.to_owned() } else { format!(",{tool}") });
    }

    fn set(&mut self, at: Option<&Range<usize>>, name: &str, value: &str) {
        match at {
            Some(at) => self.replace(at.clone(), value),
            None => self.add(name, value),
        }
    }

    /// Returns the request; without any change the result is the same memory.
    pub fn apply(mut self, bytes: &Bytes) -> Bytes {
        if !self.fields.is_empty()
            // The request is one object, so its last brace is the closing one.
            && let Some(end) = bytes.iter().rposition(|byte| *byte == b'}')
        {
            self.changes.push((end..end, self.fields));
        }
        if self.changes.is_empty() {
            // Not even a copy: the same bytes can be compared and hashed again for nothing.
            return bytes.clone();
        }
        // The sort is stable, so insertions at one place keep their order.
        self.changes.sort_by_key(|(at, _)| at.start);
        let added: usize = self.changes.iter().map(|(_, with)| with.len()).sum();
        let mut patched = BytesMut::with_capacity(bytes.len() + added);
        let mut from = 0;
        for (at, with) in self.changes {
            patched.extend_from_slice(bytes.get(from..at.start).unwrap_or_default());
            patched.extend_from_slice(with.as_bytes());
            from = at.end;
        }
        patched.extend_from_slice(bytes.get(from..).unwrap_or_default());
        patched.freeze()
    }
}

/// A writer of a list of items, with the client's own bytes for items that are unchanged.
#[derive(Debug)]
pub struct ItemListWriter<'e> {
    envelope: &'e RequestEnvelope,
    out: String,
    /// The client's item that was written last, if nothing was written after it.
    last: Option<usize>,
    is_empty: bool,
}

impl<'e> ItemListWriter<'e> {
    /// Creates an empty list.
    pub fn new(envelope: &'e RequestEnvelope) -> Self {
        Self { envelope, out: String::new(), last: None, is_empty: true }
    }

    /// Appends the client's items, with the bytes between them.
    pub fn keep(&mut self, items: Range<usize>) {
        let Some(newest) = items.end.checked_sub(1).filter(|newest| *newest >= items.start) else { return };
        self.open(items.start);
        // One slice for all items, so that the blanks between them stay the client's.
        let text = self.envelope.text(&(self.item_range(items.start).start..self.item_range(newest).end));
        self.out.push_str(text);
        self.last = Some(newest);
    }

    /// Appends the client's item in another form.
    pub fn change(&mut self, item: usize, text: &str) {
        self.open(item);
        self.out.push_str(text);
        self.last = Some(item);
    }

    /// Appends an item of our own.
    pub fn insert(&mut self, text: &str) {
        self.out.push_str(if self.is_empty { "[" } else { "," });
        self.is_empty = false;
        self.out.push_str(text);
        self.last = None;
    }

    /// Writes the bytes before an item of the client. If its neighbour is the same, these are the client's bytes.
    fn open(&mut self, item: usize) {
        let start = self.item_range(item).start;
        let between = match (self.is_empty, self.last) {
            (true, _) if item == 0 => Some(self.envelope.items_at.start..start),
            (false, Some(last)) if last + 1 == item => Some(self.item_range(last).end..start),
            _ => None,
        };
        match between {
            Some(between) => self.out.push_str(self.envelope.text(&between)),
            None => self.out.push_str(if self.is_empty { "[" } else { "," }),
        }
        self.is_empty = false;
    }

    fn item_range(&self, index: usize) -> Range<usize> {
        self.envelope.items.get(index).cloned().unwrap_or_default()
    }

    /// Returns the list.
    pub fn finish(mut self) -> String {
        let newest = self.last.filter(|last| last + 1 == self.envelope.items.len());
        match newest.and_then(|newest| self.envelope.items.get(newest)) {
            // The blanks before the closing bracket are the client's too.
            Some(at) => self.out.push_str(self.envelope.text(&(at.end..self.envelope.items_at.end))),
            None if self.is_empty => self.out.push_str("[]"),
            None => self.out.push(']'),
        }
        self.out
    }
}
